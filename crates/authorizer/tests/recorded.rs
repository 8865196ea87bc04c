//! What the decision log has of the variables that conditions read.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a failed set-up is a failed test")]

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use authorizer::{Allowed, Authorizer, Denied, Header, Request, Scratch, Verdict};
use identity::{NewApiKey, Subject};
use serde_json::{Value, json};

const NOW: Duration = Duration::from_millis(1_800_000_000_250);
const ISSUER: &str = "https://id.example";

/// What is recorded of `GET /a?q=%41&t=1&t=2&access_token=s3cret` under a rule with this condition.
fn recorded(when: &str, headers: &[(&str, &str)], claims: Option<Value>) -> Value {
    let text = format!(
        "version: 1\nidentity:\n  api_keys: {{ header: x-caller, file: keys.yaml }}\n  jwt: [{{ issuer: \"{ISSUER}\", audiences: [a], keys: {{ discovery: true }} }}]\n\
         roles:\n  anyone:\n    allow: [{{ rule: GET /a, when: \"{when}\" }}, GET /b]\n"
    );
    let key = NewApiKey::random().unwrap();
    let entry = policy::written::api_key(&key.id, key.hash, ("ci", &[]), None);
    let files = document::MapFiles::new("policy.yaml", &*text)
        .and("keys.yaml", format!("keys:\n  {entry}\n"));
    let loaded = policy::load(&files, Path::new("policy.yaml"))
        .unwrap_or_else(|problems| panic!("{problems:#?}"));
    let compiled = Authorizer::compile(loaded.into(), &identity::FetchedKeys::new(), None);
    let authorizer = compiled.unwrap().0;
    let headers: Vec<Header<'_>> = headers
        .iter()
        .map(|(name, value)| Header { name: name.as_bytes(), value: value.as_bytes() })
        .collect();
    let request = Request {
        method: b"GET",
        host: b"a.example",
        path: b"/a?q=%41&t=1&t=2&access_token=s3cret",
        headers: &headers,
        ..Request::default()
    };
    let subject = claims.map(|claims| Subject {
        user: "carol".into(),
        issuer: Some(Arc::from(ISSUER)),
        source: None,
        groups: Vec::new(),
        roles: Vec::new(),
        claims,
        actor: None,
    });
    let mut scratch = Scratch::default();
    let verdict = authorizer.check_as(&request, Ok(subject), &mut scratch, NOW);
    let (Verdict::Allowed(Allowed { read_claims, .. })
    | Verdict::Denied(Denied { read_claims, .. })) = verdict;
    json!(authorizer.rules().recorded_inputs(&request, read_claims, NOW))
}

#[test]
fn what_conditions_read_is_recorded_by_its_name() {
    let two = [("x-level", "2"), ("x-two", "1"), ("X-Two", "1"), ("x-other", "1")];
    for (when, wanted) in [
        (
            "request.headers['x-level'] == '2'",
            json!({ "values": { "request.headers['x-level']": "2" } }),
        ),
        ("'x-none' in request.headers", json!({ "absent": ["request.headers['x-none']"] })),
        ("request.headers['x-two'] == '1'", json!({ "repeated": ["request.headers['x-two']"] })),
        ("request.query['q'] == 'A'", json!({ "values": { "request.query['q']": "A" } })),
        ("request.query['t'] == '1'", json!({ "repeated": ["request.query['t']"] })),
        (
            "request.time.getHours() == 8",
            json!({ "values": { "request.time": "2027-01-15T08:00:00.25Z" } }),
        ),
        ("claims.tenant == 'a'", json!({ "values": { "claims.tenant": "a" } })),
        ("has(claims.org.id)", json!({ "values": { "claims.org.id": 7 } })),
        ("has(claims.org.no)", json!({ "absent": ["claims.org.no"] })),
        ("has(claims.tenant.no)", json!({ "malformed": ["claims.tenant.no"] })),
        // Other fields of a line have these.
        ("user == 'carol' && 'a' in groups && source.ip == '10.0.0.1'", Value::Null),
        ("request.path == '/a' && request.host == 'a.example'", Value::Null),
    ] {
        let claims = json!({ "tenant": "a", "org": { "id": 7, "name": "x" }, "email": "c@x" });
        let found = recorded(when, &two, Some(claims));
        assert!(found == wanted || (wanted.is_null() && found == json!({})), "{when}: {found}");
    }
    assert_eq!(recorded("claims.tenant == 'a'", &[], None), Value::Null, "there is no token");
}

/// A gateway may send applications a shared secret, and a client chooses how long its headers are.
#[test]
fn neither_secrets_nor_long_values_are_recorded() {
    let long = "x".repeat(257);
    let headers = [
        ("cookie", "s3cret"),
        ("x-gateway-secret", "s3cret"),
        ("x-csrf-token", "s3cret"),
        ("x-api-key", "s3cret"),
        ("x-long", &long),
    ];
    for (name, _) in headers.iter().skip(1).chain(&headers[..1]) {
        let found = recorded(&format!("request.headers['{name}'] == 's3cret'"), &headers, None);
        assert!(found == Value::Null || found == json!({}), "{name}: {found}");
    }
    let parameter = recorded("request.query['access_token'] == 's3cret'", &[], None);
    assert_eq!(parameter, Value::Null);
    for when in ["claims.long == 'a'", "size(claims) == 1"] {
        let found = recorded(when, &[], Some(json!({ "long": long })));
        assert!(found == Value::Null || found == json!({}), "{when}: {found}");
    }
}

#[test]
fn a_line_has_at_most_4096_bytes_of_headers() {
    let value = "x".repeat(200);
    let names: Vec<String> = (0..40).map(|number| format!("x-{number}")).collect();
    let headers: Vec<(&str, &str)> = names.iter().map(|name| (&**name, &*value)).collect();
    let when: Vec<String> =
        names.iter().map(|name| format!("request.headers['{name}'] == 'a'")).collect();
    let found = recorded(&when.join(" || "), &headers, None);
    assert_eq!(found["values"].as_object().unwrap().len(), 18);
    assert!(found.to_string().len() < 5000);
}
