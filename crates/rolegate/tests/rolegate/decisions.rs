//! The decision log: the revision on each line, and what it takes to repeat a decision with
//! `explain`.

use serde_json::{Value, json};
use testbed::tokens::Signer;

use crate::client::{Answer, Envoy, basic};
use crate::keys::{Issuer, key_set, token};
use crate::process::{PolicyFolder, Server, open_to_all, run, run_with, wait_until};

fn printed(args: &[&str]) -> Value {
    let (_, out, err) = run(args);
    serde_json::from_str(&out).unwrap_or_else(|_| panic!("{args:?}: {out}{err}"))
}

/// The keys that only a server has do not change the revision of its policy.
#[tokio::test]
async fn the_same_policy_has_the_same_revision_everywhere() {
    let signer = Signer::default();
    let issuer = Issuer::start(&key_set(&signer, "k"));
    let folder = issuer.policy("1h");
    let checked = printed(&["check", "--output", "json", &folder.arg()]);
    let policy = checked["policy"].as_str().unwrap();
    let (_, text, _) = run(&["check", &folder.arg()]);
    assert!(text.trim_end().ends_with(&format!("policy {policy}")), "{text}");

    let explain = |more: &[&str]| {
        printed(
            &[&["explain", "--policy", &folder.arg(), "--output", "json"], more, &["GET", "/"]]
                .concat(),
        )
    };
    let without_keys = explain(&[]);
    assert_eq!(
        (without_keys["policy"].as_str(), &without_keys["keys"]),
        (Some(policy), &Value::Null)
    );
    let bearer = token(&signer, "k");
    let with_keys = explain(&["--bearer", bearer.strip_prefix("Bearer ").unwrap()]);
    assert_eq!(with_keys["policy"], *policy);
    let keys = with_keys["keys"].as_str().unwrap();
    let (_, text, _) = run(&["explain", "--policy", &folder.arg(), "GET", "/"]);
    assert!(
        text.ends_with(&format!("policy:  {policy}\nkeys:    not fetched for this command\n")),
        "{text}"
    );

    let server = Server::start(&folder.arg(), &["--decision-log", "all"]);
    let mut envoy = Envoy::connect(server.address()).await;
    assert_eq!(envoy.check("GET", "/", &[("authorization", &bearer)]).await, Answer::Http(200));
    server.wait_for_log("policy loaded");
    let metric = format!("rolegate_policy_info{{policy=\"{policy}\",keys=\"{keys}\"}}");
    assert_eq!(server.metric(&metric), Some(1.0), "{}", server.page("/metrics").1);
    let line = server.wait_for_decision();
    assert_eq!((line["policy"].as_str(), line["keys"].as_str()), (Some(policy), Some(keys)));
    let log = server.log();
    let logged: Vec<Value> = log.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let with = |message: &str| logged.iter().find(|line| line["message"] == message).unwrap();
    assert_eq!(with("policy loaded")["policy"], *policy);
    let with_keys = with("policy active with other keys");
    assert_eq!((&with_keys["policy"], &with_keys["keys"]), (&policy.into(), &keys.into()));
}

const PEOPLE: &str = r#"version: 1
identity:
  basic:
    realm: people
    users:
      alice: { password: "{SHA}IgFIrr5tY2TNRr5XQkdfn85QTpw=", groups: [staff] }
  jwt:
    - issuer: https://id.example
      audiences: [a]
      keys: { url: "URL" }
      claims: { user: sub, roles: roles, groups: groups }
      user_prefix: "id:"
      group_prefix: "id:"
roles:
  anyone: { allow: [GET /open, "GET /log/**"], deny: ["* /open/closed/**"] }
  authenticated: { allow: ["GET /users/{user}"] }
  staff: { allow: [GET /people], deny: [DELETE /people] }
  admin: { allow: ["* /people"] }
grants:
  staff: { groups: [staff, "id:staff"] }
"#;

/// A live server logs a line for each request; `explain` takes it and decides the same.
#[tokio::test]
async fn a_logged_decision_can_be_repeated() {
    let signer = Signer::default();
    let issuer = Issuer::start(&key_set(&signer, "k"));
    let folder = PolicyFolder::new(&PEOPLE.replace("URL", &format!("http://{}/keys", issuer.at)));
    let server = Server::start(&folder.arg(), &["--decision-log", "all", "--log-level", "debug"]);
    let mut envoy = Envoy::connect(server.address()).await;
    let bearer = |more: Value| {
        let mut claims = json!({ "iss": "https://id.example", "aud": "a", "sub": "carol", "exp": 4_000_000_000_u64 });
        claims.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        format!("Bearer {}", signer.sign(&json!({ "alg": "ES256", "kid": "k" }), &claims))
    };
    let alice = basic("alice:w0nderland");
    let staff = bearer(json!({ "groups": ["staff"] }));
    let admin = bearer(json!({ "roles": "admin other", "groups": ["staff"] }));
    let expired = bearer(json!({ "exp": 1 }));
    let other = bearer(json!({ "iss": "https://other.example" }));
    let (wrong, none) = (basic("eve\u{fc}:hunter2"), String::new());
    let long = basic(&format!("{}:hunter2", "e".repeat(1000)));
    let requests = [
        ("GET", "/people?secret=qu3ry", &alice, 200, "alice"),
        ("DELETE", "/people", &alice, 403, "alice"),
        ("GET", "/x/..//people", &staff, 400, "-"),
        ("GET", "/x/../people", &staff, 200, "id:carol"),
        ("POST", "/people", &staff, 403, "id:carol"),
        ("POST", "/people", &admin, 200, "id:carol"),
        ("DELETE", "/people", &admin, 403, "id:carol"),
        ("GET", "/users/id:carol", &staff, 200, "id:carol"),
        ("GET", "/users/carol", &staff, 403, "id:carol"),
        ("GET", "/open", &none, 200, "-"),
        ("GET", "/people", &none, 401, "-"),
        ("GET", "/open/closed/%2e%2e", &none, 401, "-"),
        ("GET", "/a%2Fb", &alice, 400, "-"),
        ("G ET", "/open", &none, 400, "-"),
        ("GET", "/open", &wrong, 401, "attempted eve\u{fc}"),
        ("GET", "/open", &long, 401, "attempted eeee"),
        ("GET", "/open", &expired, 401, "attempted id:carol"),
        ("GET", "/open", &other, 401, "attempted -"),
        ("GET", "/open", &"Basic a,Basic b".to_owned(), 400, "-"),
    ];
    for (number, (method, path, authorization, status, who)) in requests.into_iter().enumerate() {
        let id = format!("id-{number}");
        let mut headers = vec![("x-request-id", id.as_str()), ("cookie", "session=c00kie")];
        headers.extend(
            (!authorization.is_empty()).then_some(("authorization", authorization.as_str())),
        );
        assert_eq!(
            envoy.check(method, path, &headers).await,
            Answer::Http(status),
            "{method} {path}"
        );
        wait_until(|| server.out().lines().count() > number, || format!("line {number}"));
        let out = server.out();
        let text = out.lines().nth(number).unwrap();
        let line: Value = serde_json::from_str(text).unwrap();
        assert_eq!(
            (line["x_request_id"].as_str(), line["client"].as_str()),
            (Some(&*id), Some("127.0.0.1")),
            "{text}"
        );
        let named = |name: &str| line[name].as_str().unwrap_or("-").to_owned();
        match who.strip_prefix("attempted ") {
            Some(who) => {
                assert!(
                    named("attempted_user").starts_with(who) && line["user"].is_null(),
                    "{text}"
                );
                assert!(named("attempted_user").len() <= 256, "{text}");
            }
            None => assert_eq!(named("user"), who, "{text}"),
        }
        let explain = ["explain", "--policy", &folder.arg(), "--decision", "-", "--output", "json"];
        let (code, out, err) = run_with(&explain, text);
        assert_eq!((code, err.as_str()), (i32::from(status != 200), ""), "{text}\n{out}");
        let why: Value = serde_json::from_str(&out).unwrap();
        assert_eq!((&why["same"], &why["status"]), (&true.into(), &status.into()), "{text}\n{out}");
        assert_eq!(
            (&why["reason"], &why["policy"]),
            (&line["reason"], &line["policy"]),
            "{text}\n{out}"
        );
    }
    assert!(server.out().contains("\"attempted_issuer\":\"https://other.example\""));
    let printed = server.out() + &server.log();
    let encoded = |value: &str| value.split_once(' ').unwrap().1.to_owned();
    let credentials = [&alice, &staff, &expired, &other, &wrong, &long].map(|value| encoded(value));
    for secret in ["w0nderland", "hunter2", "c00kie", "qu3ry", "Bearer", "Basic"]
        .into_iter()
        .chain(credentials.iter().map(String::as_str))
    {
        assert!(!printed.contains(secret), "`{secret}` in\n{printed}");
    }
}

#[test]
fn the_time_of_a_line_is_given() {
    let folder = PolicyFolder::new(
        "version: 1\nroles:\n  anyone: { allow: [{ rule: GET /a, when: \"request.time < \
         timestamp('2026-01-01T00:00:00Z')\" }] }\n",
    );
    let recorded = r#","condition_inputs":{"values":{"request.time":"2025-12-31T00:00:00Z"}}"#;
    for (more, status, is_given) in [
        (r#","time":1767139200.5"#, "200 allowed\n", true),
        (recorded, "200 allowed\n", true),
        ("", "401 denied: ", false),
    ] {
        let line =
            format!(r#"{{"decision":"allowed","method":"GET","host":"h","path":"/a"{more}}}"#);
        let explain = ["explain", "--policy", &folder.arg(), "--decision", "-"];
        let (_, out, err) = run_with(&explain, &line);
        assert!(out.starts_with(status), "{out}{err}");
        assert_eq!(!out.contains("\ndepends: request.time (not given)\n"), is_given, "{out}");
    }
}

#[test]
fn a_line_is_compared_with_what_this_policy_decides() {
    let folder = PolicyFolder::new(&open_to_all("/a"));
    let line = |more: &str| {
        format!(
            "{{\"decision\":\"denied\",\"reason\":\"not_allowed\",\"user\":\"ann\",\"method\":\"GET\",\
             \"host\":\"h\",\"path\":\"/a\",\"policy\":\"0123\"{more}}}"
        )
    };
    let explain =
        |line: &str| run_with(&["explain", "--policy", &folder.arg(), "--decision", "-"], line);
    let (code, out, _) = explain(&format!("{}\n", line("")));
    assert_eq!(code, 0);
    let end = "\nlogged:  denied (not_allowed): another decision\n         decided by another policy: 0123\n";
    assert!(out.starts_with("200 allowed\n") && out.ends_with(end), "{out}");
    let (_, out, _) = explain(&line(",\"inexact\":true"));
    assert!(
        out.ends_with("values of the line were cut or replaced: the request was another one\n"),
        "{out}"
    );

    assert!(!out.contains("keys:"), "the policy fetches none: {out}");
    let unknown_key = "{\"decision\":\"denied\",\"reason\":\"unknown_key\",\"detail\":\"`kid` is `z`\",\"method\":\"GET\",\
                       \"host\":\"h\",\"path\":\"/a\",\"keys\":\"4567\"}";
    let (code, out, _) = explain(unknown_key);
    assert!(code == 1 && out.contains("\nbecause: `kid` is `z`\n"), "{out}");
    assert!(out.contains("\nkeys:    4567, as logged; not fetched for this command\n"), "{out}");

    let file = folder.path().join("line.json");
    std::fs::write(&file, line("")).unwrap();
    let from_file = |more: &[&str]| {
        run(&[
            &["explain", "--policy", &folder.arg(), "--decision", &file.display().to_string()],
            more,
        ]
        .concat())
    };
    assert_eq!(from_file(&[]).0, 0);
    for (more, what) in [
        (&["GET", "/a"][..], "METHOD"),
        (&["--user", "ann"], "--user"),
        (&["--basic", "a:b"], "--basic"),
    ] {
        let (code, _, err) = from_file(more);
        assert!(code == 2 && err.contains(what), "{more:?}: {code} {err}");
    }
    for (text, problem) in [
        ("", "is empty"),
        ("{}", "is not a line of rolegate's decision log: missing field `decision`"),
        ("GET /a", "is not a line of rolegate's decision log, which is a JSON object"),
        (
            "[2026-01-01T00:00:00.000Z] \"GET /a HTTP/1.1\" 403 UAEX",
            "is it a line of Envoy's access log?",
        ),
        (&*line("").replace("not_allowed", "unheard_of"), "`unheard_of` is not a reason"),
    ] {
        let (code, out, err) = explain(text);
        assert!(code == 2 && out.is_empty() && err.contains(problem), "{text}: {code} {err}");
    }
    let (code, _, err) = run(&["explain", "--policy", &folder.arg()]);
    assert!(code == 2 && err.contains("--decision"), "{code} {err}");
    assert_eq!(run(&["explain", "--policy", &folder.arg(), "GET"]).0, 2);
}
