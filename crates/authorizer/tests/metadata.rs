//! `allow_response.metadata`: what Envoy's later filters get of an allowed request.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a failed set-up is a failed test")]

use std::path::Path;
use std::sync::Arc;

use authorizer::{
    Authorizer, Denied, Header, Limit, MetadataValue, Reason, Request, Scratch, Verdict,
};
use identity::{Subject, UnixTime};
use serde_json::{Value, json};

const NOW: UnixTime = UnixTime::from_secs(1_800_000_000);

const POLICY: &str = r#"
version: 1
roles:
  anyone: { allow: ["GET /**"], deny: ["GET /closed"] }
  member: { allow: [] }
  gold: { extends: [member], allow: [] }
  upload: { when: "request.path == '/upload'", allow: [] }
grants:
  member: { groups: [members] }
  gold: { groups: [gold] }
  upload: { groups: [members] }
allow_response:
  metadata:
    tenant: "{claims.tenant}"
    who: "{claims./org/id}/{user}"
    by: "{rule}"
    member_of: "{roles}"
    requests_per_unit: { gold: 1000, member: 100, else: 10 }
    only: { gold: true }
    cost: { upload: 5, else: 1 }
    limit:
      else: { unit: HOUR, requests_per_unit: 10, note: "{claims.note}" }
      gold: { requests_per_unit: 1000, unit: MINUTE }
    none: { gold: "", else: { none: "{claims.none}" } }
"#;

fn authorizer(policy: &str) -> Authorizer {
    let files = document::MapFiles::new("policy.yaml", policy);
    let loaded = policy::load(&files, Path::new("policy.yaml"))
        .unwrap_or_else(|problems| panic!("{problems:#?}"));
    Authorizer::compile(Arc::new(loaded), &identity::FetchedKeys::new(), None).unwrap().0
}

fn caller(groups: &[&str], claims: Value) -> Option<Subject> {
    let groups = groups.iter().map(|group| Arc::from(*group)).collect();
    let (issuer, source, roles) = (None, None, Vec::new());
    Some(Subject { user: "ann".into(), issuer, source, groups, roles, claims, actor: None })
}

fn json_of(value: MetadataValue<'_>) -> Value {
    match value {
        MetadataValue::Text(text) => text.into(),
        MetadataValue::Number(number) => number.into(),
        MetadataValue::Boolean(value) => value.into(),
        MetadataValue::Fields(fields) => {
            fields.into_iter().map(|(key, value)| (key.to_owned(), json_of(value))).collect()
        }
    }
}

/// The metadata of an allowed request, or the reason of a denial.
fn metadata(policy: &str, path: &str, caller: Option<Subject>) -> Result<Value, Reason> {
    let headers = [Header { name: b"user-agent", value: b"curl/8" }];
    let (path, headers) = (path.as_bytes(), &headers[..]);
    let request =
        Request { method: b"GET", host: b"localhost", path, headers, ..Request::default() };
    let authorizer = authorizer(policy);
    let mut scratch = Scratch::default();
    match authorizer.check_as(&request, Ok(caller), &mut scratch, NOW) {
        Verdict::Allowed(allowed) => {
            Ok(allowed.metadata().map(|(key, value)| (key.to_owned(), json_of(value))).collect())
        }
        Verdict::Denied(Denied { reason, .. }) => Err(reason),
    }
}

#[test]
fn values_are_those_of_the_caller() {
    let claims = json!({ "tenant": "acme", "org": { "id": 7 }, "note": "x" });
    assert_eq!(
        metadata(POLICY, "/a", caller(&["members"], claims.clone())).unwrap(),
        json!({
            "tenant": "acme",
            "who": "7/ann",
            "by": "anyone: GET /**",
            "member_of": "member",
            "requests_per_unit": 100,
            "cost": 1,
            "limit": { "unit": "HOUR", "requests_per_unit": 10, "note": "x" },
        })
    );
    // The first role in the order of the values, not of the policy; `else` is the last.
    assert_eq!(
        metadata(POLICY, "/a", caller(&["gold", "members"], claims)).unwrap(),
        json!({
            "tenant": "acme",
            "who": "7/ann",
            "by": "anyone: GET /**",
            "member_of": "member,gold",
            "requests_per_unit": 1000,
            "only": true,
            "cost": 1,
            "limit": { "requests_per_unit": 1000, "unit": "MINUTE" },
        })
    );
}

#[test]
fn a_key_without_a_value_is_left_out() {
    let anonymous = json!({
        "by": "anyone: GET /**",
        "requests_per_unit": 10,
        "cost": 1,
        "limit": { "unit": "HOUR", "requests_per_unit": 10 },
    });
    assert_eq!(metadata(POLICY, "/a", None).unwrap(), anonymous);
    // Absent, empty, not a single value, rounded, or able to forge a line of a log.
    for tenant in [
        json!(null),
        json!(""),
        json!(["acme"]),
        json!({ "id": 1 }),
        json!(1e300),
        json!("acme\n127.0.0.1"),
        json!(" acme"),
    ] {
        let claims = json!({ "tenant": tenant, "org": { "id": tenant } });
        let found = metadata(POLICY, "/a", caller(&[], claims)).unwrap();
        assert_eq!(found, anonymous, "{tenant}");
    }
}

#[test]
fn a_role_counts_only_while_its_condition_holds() {
    for (path, cost) in [("/upload", 5), ("/a", 1)] {
        let found = metadata(POLICY, path, caller(&["members"], json!({}))).unwrap();
        assert_eq!(found["cost"], cost, "{path}");
    }
}

#[test]
fn a_denial_has_none() {
    assert_eq!(metadata(POLICY, "/closed", caller(&[], json!({}))), Err(Reason::Denied));
}

/// It is never cut: two long names could then share a limit.
#[test]
fn metadata_that_is_too_large_is_a_denial() {
    let policy = "version: 1\nroles: { anyone: { allow: [\"GET /a\"] } }\nallow_response:\n  metadata:\n    \
        all: \"{claims.a}{claims.a}{claims.a}{claims.a}\"\n    by: \"{rule}\"\n";
    let long = |length: usize| caller(&[], json!({ "a": "a".repeat(length) }));
    let fits = metadata(policy, "/a", long(16_000)).unwrap();
    assert_eq!(fits["all"].as_str().map(str::len), Some(64_000));
    let denied = metadata(policy, "/a", long(16_400));
    assert_eq!(denied, Err(Reason::Limit(Limit::ResponseSize)));
}
