//! Requests to a search cluster, whose bodies count.

use serde_json::Value;
use testbed::tokens::{AUDIENCE, ISSUER, now};

use super::*;

const BULK: &str = "{\"index\": {\"_index\": \"logs-1\"}}\n{\"a\": 1}\n";
const SECRET: &str = "{\"index\": {\"_index\": \"salaries\"}}\n{\"a\": 1}\n";

impl Test {
    /// The policy of a search cluster, at every host. ann writes logs, and reads them from
    /// 192.0.2.0/24.
    pub(super) fn of_cluster() -> Self {
        let test = Self::new();
        let write =
            |name: &str, text: &str| std::fs::write(test.folder.path().join(name), text).unwrap();
        write(
            "policy.yaml",
            "version: 1
identity: { basic: { realm: r, users_file: users } }
search: { folder: cluster }
allow_response: { set_headers: { x-user: \"{user}\" }, remove_headers: [authorization] }
",
        );
        std::fs::create_dir(test.folder.path().join("cluster")).unwrap();
        write(
            "cluster/roles.yml",
            "_meta: { type: roles, config_version: 2 }
writer:
  cluster_permissions: [cluster_composite_ops]
  index_permissions: [{ index_patterns: [\"logs-*\"], allowed_actions: [write, create_index, \"indices:admin/mapping/put\"] }]
reader: { index_permissions: [{ index_patterns: [\"logs-*\"], allowed_actions: [read] }] }
",
        );
        write(
            "cluster/roles_mapping.yml",
            "_meta: { type: rolesmapping, config_version: 2 }
writer: { users: [ann] }
reader: { hosts: [\"192.0.2.*\"] }
",
        );
        test
    }
}

pub(super) fn post<'h>(
    host: &'h Host<Authorization>,
    path: &str,
    more: &[(&str, &str)],
) -> FakeStream<'h, Authorization> {
    let ann = basic("ann:password");
    let mut all = vec![(":method", "POST"), (":path", path), (":authority", "search.example.com")];
    all.extend([("content-type", "application/x-ndjson"), ("authorization", &ann)]);
    all.retain(|(name, _)| !more.iter().any(|(other, _)| other == name));
    all.extend(more);
    let all: Vec<(&[u8], &[u8])> =
        all.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes())).collect();
    host.stream(&all).unwrap()
}

/// Makes the credentials of ann known, so that requests do not wait for them.
pub(super) fn sign_in(host: &Host<Authorization>) {
    assert_eq!(decided(&post(host, "/", &[])), 403);
}

/// The status of a response; 200 if the request goes on.
pub(super) fn outcome(stream: &FakeStream<'_, Authorization>, status: u32) -> u32 {
    if status == hooks::CONTINUE { 200 } else { stream.sent().map_or(0, |sent| sent.status) }
}

#[test]
fn a_body_is_read_before_anything_is_passed_on() {
    let test = Test::of_cluster();
    let host = test.host("");
    sign_in(&host);
    for (body, expected) in [(BULK, 200), (SECRET, 403)] {
        let stream = post(&host, "/_bulk", &[]);
        assert_eq!(stream.request_headers(false), hooks::STOP);
        assert_eq!((stream.sent(), stream.resumed()), (None, 0));
        let (first, rest) = body.as_bytes().split_at(7);
        for piece in first.chunks(2) {
            assert_eq!(stream.request_body(piece, false), hooks::STOP_AND_BUFFER);
        }
        assert_eq!(outcome(&stream, stream.request_body(rest, true)), expected);
        let stream = post(&host, "/_bulk", &[]).with_last_part_apart();
        stream.request_headers(false);
        stream.request_body(first, false);
        assert_eq!(outcome(&stream, stream.request_body(rest, true)), expected);
        // Trailers end a body, too.
        let stream = post(&host, "/_bulk", &[]);
        stream.request_headers(false);
        assert_eq!(stream.request_body(body.as_bytes(), false), hooks::STOP_AND_BUFFER);
        assert_eq!(outcome(&stream, stream.request_trailers()), expected);
    }
    let both = [host.metric("rolegate.allowed"), host.metric("rolegate.denied.not_permitted")];
    assert_eq!(both, [3, 3], "each request is counted once");
}

#[test]
fn only_a_body_that_counts_is_buffered() {
    let test = Test::of_cluster();
    let host = test.host("");
    sign_in(&host);
    // A document names no index.
    let stream = post(&host, "/logs-1/_doc/1", &[]);
    assert_eq!(stream.request_headers(false), hooks::CONTINUE);
    assert_eq!(stream.request_body(b"{}", false), hooks::CONTINUE);
    let stream = post(&host, "/salaries/_doc/1", &[]);
    assert_eq!(outcome(&stream, stream.request_headers(false)), 403);
    // Without a body there is nothing to wait for.
    let stream = post(&host, "/_bulk", &[]);
    assert_eq!(outcome(&stream, stream.request_headers(true)), 400);
    // What follows an upgrade is no body.
    for upgrade in [("upgrade", "websocket"), (":method", "CONNECT"), (":protocol", "websocket")] {
        let stream = post(&host, "/logs-1/_update/1", &[upgrade]);
        assert_ne!(outcome(&stream, stream.request_headers(false)), 0, "{upgrade:?} is buffered");
    }
}

/// Not even once it has ended, while the request waited for its password.
#[test]
fn what_follows_an_upgrade_is_no_body_when_it_has_ended() {
    let test = Test::of_cluster();
    for upgrade in [("upgrade", "websocket"), (":method", "CONNECT"), (":protocol", "websocket")] {
        let host = test.host(r#", "hash-queue": 4"#);
        sign_in(&host);
        let known = post(&host, "/_bulk", &[upgrade]);
        let expected = outcome(&known, known.request_headers(false));
        assert_ne!(expected, 200, "{upgrade:?}");
        let other = test.host(r#", "hash-queue": 5"#);
        let stream = post(&other, "/_bulk", &[upgrade]);
        assert_eq!(stream.request_headers(false), hooks::STOP);
        assert_eq!(stream.request_body(BULK.as_bytes(), true), hooks::STOP_AND_WATERMARK);
        assert_eq!(settled(&stream), expected, "{upgrade:?}");
    }
}

#[test]
fn nothing_is_buffered_for_callers_who_are_not_authenticated() {
    let test = Test::of_cluster();
    let host = test.host("");
    let wrong = basic("ann:wrong");
    for credentials in [("authorization", "Bearer x"), ("authorization", &wrong)] {
        let stream = post(&host, "/_bulk", &[credentials]).with_buffer_limit(1);
        let status = stream.request_headers(false);
        // While the password is hashed, no more is let in than fits the buffers.
        assert_eq!(status, hooks::STOP);
        if stream.sent().is_none() {
            assert_eq!(stream.request_body(BULK.as_bytes(), false), hooks::STOP_AND_WATERMARK);
        }
        assert_eq!(settled(&stream), 401);
        assert_eq!(stream.buffer_limit(), 1);
    }
}

/// Delivers events until the request is answered or goes on.
fn settled(stream: &FakeStream<'_, Authorization>) -> u32 {
    let until = Instant::now() + Duration::from_secs(60);
    loop {
        if let Some(sent) = stream.sent() {
            return sent.status;
        }
        if stream.resumed() > 0 {
            return 200;
        }
        assert!(Instant::now() < until, "never decided");
        stream.deliver_events();
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// A request that waits for its password, with small buffers.
fn unverified(host: &Host<Authorization>, ending_at_once: bool) -> FakeStream<'_, Authorization> {
    let stream = post(host, "/_bulk", &[]).with_buffer_limit(4);
    let stream = if ending_at_once { stream.ending_at_once() } else { stream };
    assert_eq!(stream.request_headers(false), hooks::STOP);
    stream
}

/// The password is hashed before the body, while it arrives, or after its end.
#[test]
fn a_password_and_a_body_may_both_be_waited_for() {
    for ending_at_once in [false, true] {
        for (body, expected) in [(BULK, 200), (SECRET, 403)] {
            let (first, rest) = body.as_bytes().split_at(9);
            let test = Test::of_cluster();
            // After its end.
            let host = test.host(r#", "hash-queue": 1"#);
            let stream = unverified(&host, ending_at_once);
            assert_eq!(stream.request_body(first, false), hooks::STOP_AND_WATERMARK);
            assert_eq!(stream.request_body(rest, true), hooks::STOP_AND_WATERMARK);
            assert_eq!(settled(&stream), expected);
            // In between.
            let host = test.host(r#", "hash-queue": 2"#);
            let stream = unverified(&host, ending_at_once);
            assert_eq!(stream.request_body(first, false), hooks::STOP_AND_WATERMARK);
            let until = Instant::now() + Duration::from_secs(60);
            while stream.buffer_limit() == 4 {
                assert!(Instant::now() < until, "it never waits for its body");
                stream.deliver_events();
            }
            assert_eq!(stream.buffer_limit(), 10 << 20);
            assert_eq!((stream.sent(), stream.resumed()), (None, 0));
            assert_eq!(outcome(&stream, stream.request_body(rest, true)), expected);
        }
    }
}

/// Of a body that has filled the buffers while its password was hashed Envoy reads no more, and
/// calls no hook, until the limit is twice as large.
#[test]
fn a_body_that_fills_the_buffers_of_a_paused_request_is_read_on() {
    let test = Test::of_cluster();
    for (max, queue) in [(100, 1), (150, 2), (1_000, 3)] {
        let host = test.host(&format!(r#", "max-request-body": {max}, "hash-queue": {queue}"#));
        let stream = post(&host, "/_bulk", &[]).with_buffer_limit(100);
        assert_eq!(stream.request_headers(false), hooks::STOP);
        let body = BULK.to_owned() + &"\n".repeat(140 - BULK.len());
        assert_eq!(stream.request_body(body.as_bytes(), false), hooks::STOP_AND_WATERMARK);
        assert!(!stream.is_read());
        if max < body.len() {
            assert_eq!(settled(&stream), 413);
            assert_eq!(host.metric("rolegate.denied.body_too_large"), 1);
            continue;
        }
        let until = Instant::now() + Duration::from_secs(60);
        while !stream.is_read() {
            assert!(Instant::now() < until, "{max}: it is never read on");
            stream.deliver_events();
            std::thread::sleep(Duration::from_millis(1));
        }
        assert_eq!((stream.sent(), stream.resumed()), (None, 0));
        let (more, expected) = if max == 150 { (11, 413) } else { (10, 0) };
        assert_eq!(
            outcome(&stream, stream.request_body(&vec![b'\n'; more], false)),
            expected,
            "{max}"
        );
        if expected == 0 {
            assert_eq!(outcome(&stream, stream.request_body(b"\n", true)), 200, "{max}");
        }
    }
}

#[test]
fn a_body_over_the_bound_gets_413_as_the_cluster_says_it() {
    let test = Test::of_cluster();
    let host = test.host(r#", "max-request-body": "100B""#);
    sign_in(&host);
    let stream = post(&host, "/_bulk", &[]);
    stream.request_headers(false);
    assert_eq!(stream.request_body(&[b'\n'; 100], false), hooks::STOP_AND_BUFFER);
    assert_eq!(outcome(&stream, stream.request_body(b"\n", false)), 413);
    let sent = stream.sent().unwrap();
    let said: Value = serde_json::from_slice(&sent.body).unwrap();
    assert_eq!(
        (&said["status"], &said["error"]["type"]),
        (&413.into(), &"status_exception".into())
    );
    assert!(said["error"]["reason"].as_str().unwrap().contains("`max-request-body`"), "{said}");
    assert_eq!(
        sent.headers,
        [(b"content-type".to_vec(), b"application/json; charset=UTF-8".to_vec())]
    );
    assert_eq!(host.metric("rolegate.denied.body_too_large"), 1);
    // Also one that has arrived while its password was hashed.
    let host = test.host(r#", "max-request-body": 100, "hash-queue": 1"#);
    let stream = post(&host, "/_bulk", &[]);
    assert_eq!(stream.request_headers(false), hooks::STOP);
    assert_eq!(stream.request_body(&[b'\n'; 101], true), hooks::STOP_AND_WATERMARK);
    assert_eq!(settled(&stream), 413);
    // One that does not count is passed on.
    let stream = post(&host, "/logs-1/_doc/1", &[]);
    assert_eq!(stream.request_headers(false), hooks::CONTINUE);
    assert_eq!(stream.request_body(&[b' '; 200], true), hooks::CONTINUE);
}

#[test]
fn a_stream_that_ends_while_its_body_is_buffered_is_forgotten() {
    let test = Test::of_cluster();
    let host = test.host("");
    sign_in(&host);
    for _ in 0..3 {
        let stream = post(&host, "/_bulk", &[]);
        stream.request_headers(false);
        stream.request_body(BULK.as_bytes(), false);
        stream.end();
        assert_eq!((stream.late_commits(), stream.schedulers()), (0, 0));
    }
    // An event that nobody has sent decides nothing.
    let stream = post(&host, "/_bulk", &[]);
    stream.request_headers(false);
    stream.scheduled(1);
    assert_eq!((stream.sent(), stream.resumed()), (None, 0));
    assert_eq!(outcome(&stream, stream.request_body(BULK.as_bytes(), true)), 200);
}

/// The policy is decided with that is active when the body has arrived.
#[test]
fn a_role_that_is_lost_while_the_body_arrives_is_lost() {
    if !alone("filter::tests::search::a_role_that_is_lost_while_the_body_arrives_is_lost") {
        return;
    }
    let test = Test::of_cluster();
    let host = test.host(r#", "poll-interval": "10ms""#);
    sign_in(&host);
    let stream = post(&host, "/_bulk", &[]);
    stream.request_headers(false);
    stream.request_body(BULK.as_bytes(), false);
    let mapping = test.folder.path().join("cluster/roles_mapping.yml");
    std::fs::write(
        mapping,
        "_meta: { type: rolesmapping, config_version: 2 }\nwriter: { users: [bob] }\n",
    )
    .unwrap();
    let until = Instant::now() + Duration::from_secs(60);
    loop {
        let other = post(&host, "/_refresh", &[]);
        other.request_headers(true);
        if host.metric("rolegate.policy_reloads") > 0 {
            break;
        }
        assert!(Instant::now() < until, "no reload");
        std::thread::sleep(Duration::from_millis(10));
    }
    assert_eq!(outcome(&stream, stream.request_body(b"", true)), 403);
}

/// Role mappings of a cluster may name addresses of clients.
#[test]
fn the_address_of_the_client_may_give_a_role() {
    let test = Test::of_cluster();
    let host = test.host("");
    sign_in(&host);
    for (address, status) in [("192.0.2.1:80", 200), ("198.51.100.1:80", 403), ("", 403)] {
        let stream = post(&host, "/logs-1/_doc/1", &[(":method", "GET")])
            .with_source_address(address.as_bytes());
        assert_eq!(outcome(&stream, stream.request_headers(true)), status, "{address}");
    }
}

/// Of several indices, those that are permitted.
#[test]
fn a_request_is_reduced_to_the_permitted_indices() {
    for (reduces, expected) in [("true", 200), ("false", 403)] {
        let test = Test::of_cluster();
        let policy = test.folder.path().join("policy.yaml");
        let text = runtime::files::text(&policy).unwrap();
        let section = format!("{{ folder: cluster, do_not_fail_on_forbidden: {reduces} }}");
        std::fs::write(&policy, text.replace("{ folder: cluster }", &section)).unwrap();
        let host = test.host(r#", "decision-log": "all""#);
        sign_in(&host);
        let get = |path| {
            let stream = post(&host, path, &[(":method", "GET")]);
            stream.with_source_address(b"192.0.2.1:80")
        };
        let stream = get("/logs-1,salaries,logs-%C3%BC/_search?size=1");
        assert_eq!(stream.request_headers(false), hooks::STOP);
        assert_eq!(outcome(&stream, stream.request_body(b"", true)), expected);
        if expected == 200 {
            let headers = stream.headers();
            let paths: Vec<_> = headers.iter().filter(|(name, _)| name == b":path").collect();
            assert_eq!(paths.len(), 1, "{headers:?}");
            let path = String::from_utf8(paths.first().unwrap().1.clone()).unwrap();
            assert_eq!(path, "/logs-1,logs-%C3%BC/_search?size=1");
        }
        // None of them is permitted, or one is named in the body.
        let stream = get("/salaries/_search");
        assert_eq!(outcome(&stream, stream.request_headers(true)), 403);
        let stream = get("/logs-1,salaries/_search");
        stream.request_headers(false);
        let lookup =
            br#"{"query": {"terms": {"user": {"index": "salaries", "id": "1", "path": "names"}}}}"#;
        assert_eq!(outcome(&stream, stream.request_body(lookup, true)), 403);
    }
}

/// Unlike the active one, the candidate looks at the client's address.
#[test]
fn a_shadow_policy_knows_the_client() {
    if !alone("filter::tests::search::a_shadow_policy_knows_the_client") {
        return;
    }
    let (test, candidate) = (Test::of_cluster(), Test::of_cluster());
    let mapping = "_meta: { type: rolesmapping, config_version: 2 }
reader: { users: [ann] }
";
    std::fs::write(test.folder.path().join("cluster/roles_mapping.yml"), mapping).unwrap();
    let host = test.host(&format!(r#", "shadow": "{}""#, candidate.folder.path().display()));
    let ann = basic("ann:password");
    let until = Instant::now() + Duration::from_secs(60);
    // Requests set the gauges, at most once per second.
    while host.metric("rolegate.shadow.same") == 0 {
        assert!(Instant::now() < until && host.metric("rolegate.shadow.would_deny") == 0);
        let stream = get(&host, "/logs-1/_doc/1", &[("authorization", &ann)])
            .with_source_address(b"192.0.2.1:80");
        assert_eq!(decided(&stream), 200);
        std::thread::sleep(Duration::from_millis(50));
    }
    assert_eq!(host.metric("rolegate.shadow.would_deny"), 0);
}

/// Its client chooses how long it sends its body: the decision is of the end of that.
#[test]
fn a_token_that_expires_while_the_body_arrives_is_invalid() {
    let test = Test::of_cluster();
    let signer = testbed::tokens::Signer::default();
    std::fs::write(test.folder.path().join("jwks.json"), signer.key_set()).unwrap();
    let identity = format!(
        "identity: {{ jwt: [{{ issuer: {ISSUER}, audiences: [{AUDIENCE}], keys: {{ file: jwks.json }}, clock_skew: 0s, \
         claims: {{ user: preferred_username }} }}] }}"
    );
    let policy = format!("version: 1\n{identity}\nsearch: {{ folder: cluster }}\n");
    std::fs::write(test.folder.path().join("policy.yaml"), policy).unwrap();
    let host = test.host("");
    let claims = |expiry: u64| {
        serde_json::json!({
            "iss": ISSUER, "aud": AUDIENCE, "preferred_username": "ann", "iat": now(), "exp": expiry,
        })
    };
    let sent = |lifetime: u64| {
        let expiry = now() + lifetime;
        let header = serde_json::json!({ "alg": "ES256", "kid": "ES256" });
        let bearer = format!("Bearer {}", signer.sign(&header, &claims(expiry)));
        let stream = post(&host, "/_bulk", &[("authorization", &bearer)]);
        assert_eq!(stream.request_headers(false), hooks::STOP);
        let until = Instant::now() + Duration::from_secs(60);
        // Until the token is verified.
        while stream.request_body(b"", false) != hooks::STOP_AND_BUFFER {
            assert_eq!((stream.sent(), Instant::now() < until), (None, true));
            stream.deliver_events();
        }
        while lifetime < 60 && now() <= expiry {
            std::thread::sleep(Duration::from_millis(50));
        }
        let mut status = outcome(&stream, stream.request_body(BULK.as_bytes(), true));
        // Until what is no longer cached is verified again.
        while status == 0 && Instant::now() < until {
            stream.deliver_events();
            status = if stream.resumed() > 0 { 200 } else { outcome(&stream, hooks::STOP) };
        }
        status
    };
    assert_eq!(sent(3_600), 200);
    assert_eq!(sent(2), 401);
}
