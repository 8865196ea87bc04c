//! A shadow policy: it is compared with the active one, and never changes an answer.

use load::check_message::Checked;
use serde_json::Value;
use testbed::golden::credentials_header;
use testbed::policies::Example;
use testbed::tokens::Signer;

use crate::client::{Answer, Envoy, basic};
use crate::process::{PolicyFolder, Server, run, wait_until};

/// Two policies with the same users: ann is in the group `staff`, bob in none. The role `staff` has
/// these rules.
fn policy(rules: &str) -> PolicyFolder {
    let policy = PolicyFolder::new(&format!(
        "version: 1\nidentity:\n  basic:\n    users_file: htpasswd\n    users: {{ ann: {{ groups: [staff] }} }}\n\
         roles:\n  staff: {{ {rules} }}\n  anyone: {{ allow: [GET /open] }}\ngrants:\n  staff: {{ groups: [staff] }}\n"
    ));
    policy.write(
        "htpasswd",
        "ann:{SHA}W6ph5Mm5Pz8GgiULbPgzG37mj9g=\nbob:{SHA}W6ph5Mm5Pz8GgiULbPgzG37mj9g=\n",
    );
    policy
}

fn start(active: &PolicyFolder, shadow: &PolicyFolder, more: &[&str]) -> Server {
    let shadow = shadow.arg();
    Server::start(&active.arg(), &[&["--shadow", &shadow][..], more].concat())
}

fn result(name: &str) -> String {
    format!(r#"rolegate_shadow_checks_total{{result="{name}"}}"#)
}

/// The sample lines about this difference.
fn samples(server: &Server, difference: &str) -> Vec<Value> {
    let log = server.log();
    let lines = log.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    lines.filter(|line| line["difference"] == difference).collect()
}

#[tokio::test]
async fn each_kind_of_difference_is_counted_and_logged() {
    let (active, shadow) = (
        policy("allow: [GET /a, GET /b, GET /c, GET /d]"),
        policy("allow: [GET /a, GET /new, GET|HEAD /d], deny: [GET /c]"),
    );
    shadow.write("htpasswd", "ann:{SHA}W6ph5Mm5Pz8GgiULbPgzG37mj9g=\n");
    let server = start(&active, &shadow, &["--log-level", "debug"]);
    let mut envoy = Envoy::connect(server.address()).await;
    let (ann, bob) = (basic("ann:password"), basic("bob:password"));
    for (path, authorization, status, difference) in [
        ("/a", Some(&ann), 200, "same"),
        ("/open", None, 200, "same"),
        ("/a", None, 401, "same"),
        ("/nowhere", Some(&ann), 403, "same"),
        ("/new?token=secret", Some(&ann), 403, "would_allow"),
        ("/b", Some(&ann), 200, "would_deny"),
        ("/c", Some(&ann), 200, "would_deny"),
        ("/d", Some(&ann), 200, "other_rule"),
        ("/open", Some(&bob), 200, "unknown_caller"),
        ("/open", Some(&basic("ann:wrong")), 401, "not_compared"),
        ("/a%2F", Some(&ann), 400, "not_compared"),
    ] {
        let before = server.metric(&result(difference)).unwrap();
        let mut headers: Vec<_> =
            authorization.iter().map(|value| ("authorization", value.as_str())).collect();
        headers.push(("x-request-id", "1f2c83c5"));
        assert_eq!(envoy.check("GET", path, &headers).await, Answer::Http(status), "{path}");
        server.wait_for_metric(&result(difference), before + 1.0);
    }
    // Another thread writes the log, in order.
    wait_until(|| samples(&server, "unknown_caller").len() == 1, || server.log());
    let allowed = samples(&server, "would_allow").remove(0);
    assert_eq!(allowed["message"], "the shadow policy would allow a request that is denied");
    for (field, value) in [
        ("user", "ann"),
        ("method", "GET"),
        ("path", "/new"),
        ("x_request_id", "1f2c83c5"),
        ("active_reason", "not_allowed"),
        ("shadow_rule", "staff: GET /new"),
    ] {
        assert_eq!(allowed[field], value, "{allowed}");
    }
    let revisions =
        [&allowed["active_policy"], &allowed["shadow_policy"]].map(|id| id.as_str().unwrap());
    assert_ne!(revisions[0], revisions[1]);
    for (metric, revision) in
        ["rolegate_policy_info", "rolegate_shadow_policy_info"].iter().zip(revisions)
    {
        let line = format!(r#"{metric}{{policy="{revision}",keys=""}}"#);
        assert_eq!(server.metric(&line), Some(1.0), "{}", server.page("/metrics").1);
    }
    let denied = samples(&server, "would_deny");
    let field = |name: &str| {
        denied.iter().map(|line| line[name].as_str().unwrap_or_default()).collect::<Vec<_>>()
    };
    assert_eq!(field("active_rule"), ["staff: GET /b", "staff: GET /c"]);
    assert_eq!(field("shadow_reason"), ["not_allowed", "denied"]);
    assert_eq!(field("shadow_rule"), ["", "staff: GET /c"]);
    assert_eq!(samples(&server, "other_rule")[0]["shadow_rule"], "staff: GET|HEAD /d");
    assert_eq!(samples(&server, "unknown_caller")[0]["user"], "bob");
    let log = server.log();
    for secret in ["secret", "YW5uOn", "wrong"] {
        assert!(!log.contains(secret), "{secret} in {log}");
    }
}

#[tokio::test]
async fn samples_are_masked_as_the_decision_log_is() {
    let (active, shadow) = (policy("allow: [GET /a/**]"), policy("allow: [GET /b]"));
    let masks = ["--decision-log-mask-path", "/a/{id}", "--decision-log-mask-users", "drop"];
    let server = start(&active, &shadow, &masks);
    let mut envoy = Envoy::connect(server.address()).await;
    let ann = basic("ann:password");
    for path in ["/a/zoe7301", "/a/1/../zoe7301/.."] {
        assert_eq!(envoy.check("GET", path, &[("authorization", &ann)]).await, Answer::Http(200));
    }
    wait_until(|| samples(&server, "would_deny").len() == 2, || server.log());
    let samples = samples(&server, "would_deny");
    assert_eq!([&samples[0]["path"], &samples[1]["path"]], ["/a/*", "*"]);
    assert!(samples.iter().all(|sample| sample["user"].is_null()), "{samples:?}");
}

/// Each candidate replaces the one before.
#[tokio::test]
async fn the_caller_of_a_token_is_whom_the_candidate_makes_of_its_claims() {
    let signer = Signer::default();
    let policy = |issuer: &str, grant: &str| {
        format!(
            "version: 1\nidentity: {{ {issuer} }}\nroles: {{ reader: {{ allow: [GET /a] }} }}\n\
             grants: {{ reader: {{ {grant} }} }}\n"
        )
    };
    let issuer = |more: &str| {
        format!(
            "jwt: [{{ issuer: 'https://id.example.com', keys: {{ file: jwks.json }}, {more} }}]"
        )
    };
    let ours = issuer("audiences: [people], claims: { user: sub, groups: /groups }");
    let (active, shadow) =
        [0, 1].map(|_| PolicyFolder::new(&policy(&ours, "groups: [staff]"))).into();
    for folder in [&active, &shadow] {
        folder.write("jwks.json", &signer.key_set());
    }
    let server = start(&active, &shadow, &[]);
    let mut envoy = Envoy::connect(server.address()).await;
    let (now, claims) =
        (testbed::tokens::now(), r#""groups":["staff"],"teams":["staff"],"email":"c@x""#);
    let claims = format!(
        r#"{{"iss":"https://id.example.com","aud":"people","sub":"carol","exp":{},"iat":{now},{claims}}}"#,
        now + 600
    );
    let token =
        format!("Bearer {}", signer.signed("ES256", r#"{"alg":"ES256","kid":"ES256"}"#, &claims));
    let with = |more: &str, grant: &str| policy(&issuer(more), grant);
    for (reloads, (candidate, difference)) in [
        (
            with("audiences: [people], claims: { user: email, groups: /teams }", "groups: [staff]"),
            "same",
        ),
        (
            with(
                "audiences: [people], claims: { user: email }, user_prefix: 'id:'",
                "users: ['id:c@x']",
            ),
            "same",
        ),
        (with("audiences: [people], claims: { user: sub }", "users: [carla]"), "would_deny"),
        (
            with("audiences: [other], claims: { user: sub, groups: /groups }", "groups: [staff]"),
            "unknown_caller",
        ),
        (with("audiences: [people], claims: { user: name }", "users: [carol]"), "unknown_caller"),
        (with("audiences: [people], required_type: at+jwt", "users: [carol]"), "unknown_caller"),
        (
            policy(&ours.replace("id.example.com", "new.example.com"), "groups: [staff]"),
            "unknown_caller",
        ),
        (policy("basic: { verify: false }", "users: [carol]"), "unknown_caller"),
    ]
    .into_iter()
    .enumerate()
    {
        shadow.write("policy.yaml", &candidate);
        let reloads = f64::from(u32::try_from(reloads).unwrap()) + 1.0;
        server.wait_for_metric(r#"rolegate_shadow_policy_reloads_total{result="ok"}"#, reloads);
        let before = server.metric(&result(difference)).unwrap();
        assert_eq!(envoy.check("GET", "/a", &[("authorization", &token)]).await, Answer::Http(200));
        wait_until(
            || server.metric(&result(difference)) == Some(before + 1.0),
            || {
                format!(
                    "{difference}: {candidate}\n{}\n{}",
                    server.log(),
                    server.page("/metrics").1
                )
            },
        );
    }
    let signature = token.rsplit('.').next().unwrap();
    assert!(!server.log().contains(signature));
}

/// The first loads; then one that does not, then one that does again. The active policy answers all
/// the while.
#[tokio::test]
async fn a_shadow_policy_is_reloaded_and_its_last_good_one_kept() {
    let (active, shadow) = (policy("allow: [GET /a]"), policy("allow: [GET /a]"));
    let server = start(&active, &shadow, &[]);
    let mut envoy = Envoy::connect(server.address()).await;
    let ann = basic("ann:password");
    let good = "version: 1\nroles: { anyone: { allow: [GET /b] } }\n";
    for (text, metric, difference) in [
        ("version: 1\nroles: { anyone: { alow: [GET /a] } }\n", "failed", "same"),
        (good, "ok", "unknown_caller"),
    ] {
        shadow.write("policy.yaml", text);
        server.wait_for_metric(
            &format!(r#"rolegate_shadow_policy_reloads_total{{result="{metric}"}}"#),
            1.0,
        );
        let before = server.metric(&result(difference)).unwrap();
        assert_eq!(envoy.check("GET", "/a", &[("authorization", &ann)]).await, Answer::Http(200));
        server.wait_for_metric(&result(difference), before + 1.0);
        assert_eq!(server.page("/readyz").0, 200);
        let failing = server.metric("rolegate_shadow_policy_failing_seconds").unwrap();
        assert_eq!(failing > 0.0, metric == "failed");
    }
    assert_eq!(server.metric(r#"rolegate_policy_reloads_total{result="failed"}"#), Some(0.0));
    server.wait_for_log_line(&["policy not reloaded", r#""span":{"name":"shadow"}"#]);
    server.wait_for_log_line(&["policy reloaded", r#""span":{"name":"shadow"}"#]);
}

/// Each golden case gets the same bytes as without a shadow policy, and the same decision from the
/// same policy as its own shadow.
#[tokio::test]
async fn a_shadow_policy_changes_no_answer() {
    let signer = Signer::default();
    for name in testbed::policies::names().unwrap() {
        let folder = tempfile::tempdir().unwrap();
        let example = Example::signed_by(&name, folder.path(), &signer).unwrap();
        let policy = folder.path().display().to_string();
        let servers = [
            Server::start(&policy, &[]),
            Server::start(&policy, &["--shadow", &policy, "--log-level", "debug"]),
        ];
        let mut clients = Vec::new();
        for server in &servers {
            clients.push(Envoy::connect(server.address()).await);
        }
        let mut sent = 0.0;
        for case in example.cases.iter().filter(|case| case.request.at.is_none()) {
            let identity = &example.loaded.policy.identity;
            let Ok(credentials) =
                credentials_header(&case.request.credentials, identity, Some(&signer))
            else {
                continue;
            };
            let mut headers: Vec<_> = case
                .request
                .headers
                .iter()
                .map(|(name, value)| (name.as_str(), value.as_str()))
                .collect();
            headers.extend(credentials.iter().map(|(name, value)| (&**name, &**value)));
            headers.push(("x-envoy-auth-partial-body", "false"));
            let (method, host, path) =
                (&*case.request.method, &*case.request.host, &*case.request.path);
            let (headers, body) = (&headers[..], case.request.body.as_bytes());
            let request = Checked { method, host, path, headers, body, ..Checked::default() };
            let mut answers = Vec::new();
            for client in &mut clients {
                answers.push(client.send(request).await);
            }
            assert_eq!(answers[0].body, answers[1].body, "{name}: {}", case.name);
            assert_eq!(answers[0].grpc, answers[1].grpc, "{name}: {}", case.name);
            sent += 1.0;
        }
        let counted = |results: &[&str]| {
            results.iter().filter_map(|name| servers[1].metric(&result(name))).sum::<f64>()
        };
        wait_until(
            || counted(&["same", "not_compared"]) == sent && counted(&["same"]) > 0.0,
            || {
                format!(
                    "{sent} results of {name}: {}{}",
                    servers[1].page("/metrics").1,
                    servers[1].log()
                )
            },
        );
    }
}

#[test]
fn a_shadow_policy_that_does_not_compile_is_an_error_at_the_start() {
    let (active, shadow) = (policy("allow: [GET /a]"), policy("alow: [GET /a]"));
    let (code, _, errors) = run(&[
        "serve",
        "--policy",
        &active.arg(),
        "--shadow",
        &shadow.arg(),
        "--listen",
        "127.0.0.1:0",
        "--admin",
        "off",
        "--log-format",
        "text",
    ]);
    assert_eq!(code, 3, "{errors}");
    assert!(errors.contains(&format!("{}/policy.yaml", shadow.arg())), "{errors}");
}

/// While it is replaced again and again, each request gets its answer.
#[tokio::test]
async fn no_request_notices_that_the_shadow_policy_is_replaced() {
    let (active, shadow) = (policy("allow: [GET /a]"), policy("allow: [GET /a]"));
    let server = start(&active, &shadow, &[]);
    let mut envoy = Envoy::connect(server.address()).await;
    let ann = basic("ann:password");
    for number in 0..2000 {
        if number % 100 == 0 {
            let rule = if number % 200 == 0 { "GET /b" } else { "nonsense" };
            shadow.write(
                "policy.yaml",
                &format!("version: 1\nroles: {{ anyone: {{ allow: [{rule}] }} }}\n"),
            );
        }
        assert_eq!(envoy.check("GET", "/a", &[("authorization", &ann)]).await, Answer::Http(200));
        assert_eq!(envoy.check("GET", "/b", &[("authorization", &ann)]).await, Answer::Http(403));
    }
    let compared = || {
        let names = ["same", "would_allow", "would_deny", "other_rule", "unknown_caller"];
        let compared = names.iter().filter_map(|name| server.metric(&result(name))).sum::<f64>();
        compared + server.metric("rolegate_shadow_dropped_total").unwrap()
    };
    wait_until(|| compared() == 4000.0, || format!("4000 results: {}", server.page("/metrics").1));
    assert_eq!(server.metric(&result("error")), Some(0.0));
}

/// Whoever reads the log must not take the active policy for the broken one.
#[test]
fn each_line_about_a_shadow_policy_that_does_not_load_says_so() {
    let (active, shadow) =
        (policy("allow: [GET /a]"), PolicyFolder::new("version: 1\nunknown: 1\n"));
    let (code, _, err) = run(&[
        "serve",
        "--policy",
        &active.arg(),
        "--shadow",
        &shadow.arg(),
        "--log-format",
        "json",
    ]);
    assert_eq!(code, 3, "{err}");
    let lines: Vec<Value> = err.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let errors: Vec<_> = lines.iter().filter(|line| line["level"] == "ERROR").collect();
    assert!(
        errors.len() >= 2 && errors.iter().all(|line| line["span"]["name"] == "shadow"),
        "{err}"
    );
    let last = lines.last().unwrap()["message"].as_str().unwrap();
    assert!(last.starts_with("cannot start: the shadow policy does not load"), "{err}");
}
