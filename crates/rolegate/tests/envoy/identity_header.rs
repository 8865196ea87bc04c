//! The identity header through a real Envoy: the application verifies it, and no client can send
//! one.

use ::identity_header::{Key, Verifier};
use testbed::client::Version;

use super::{ALICE, authorization, each_form, start};

const POLICY: &str = r#"
version: 1
identity: { basic: { verify: false } }
roles:
  anyone: { allow: [GET /open] }
  guest: { allow: [GET /people] }
grants: { guest: { users: [alice] } }
identity_header: { format: compact, keys: [identity.key], audience: shop }
"#;
const SECRET: &[u8; 32] = b"an example of a secret: 32 bytes";

#[tokio::test(flavor = "multi_thread")]
async fn the_application_verifies_who_the_caller_is() {
    let folder = tempfile::tempdir().unwrap();
    let policy = folder.path().join("policy.yaml");
    std::fs::write(&policy, POLICY).unwrap();
    std::fs::write(folder.path().join("identity.key"), SECRET).unwrap();
    let verifier = Verifier::new("shop", [Key::new(SECRET).unwrap()]);
    for options in each_form() {
        let stack = start(&policy, &options).await;
        for version in [Version::Http1, Version::Http2] {
            let mut connection = stack.connect(version).await.unwrap();
            for forged in [None, Some("x-identity"), Some("X-Identity"), Some("x_identity")] {
                let forged = forged.map(|name| (name.to_owned(), "forged".to_owned()));
                let with: Vec<_> = authorization(ALICE).into_iter().chain(forged.clone()).collect();
                let answer =
                    connection.send("GET", "/people", "localhost", &with, b"").await.unwrap();
                let echo = answer.json();
                let received = self::received(&echo);
                assert_eq!(received.len(), 1, "{version:?} {forged:?}: {received:?}");
                let identity = received.concat();
                let now = runtime::clock::now().as_secs();
                let mut buffer = Vec::new();
                let identity = verifier.verify(identity.as_bytes(), now, &mut buffer).unwrap();
                assert_eq!(identity.user, "alice");
                assert_eq!(identity.roles.collect::<Vec<_>>(), ["guest"]);

                let without: Vec<_> = forged.into_iter().collect();
                let answer =
                    connection.send("GET", "/open", "localhost", &without, b"").await.unwrap();
                assert_eq!(answer.status, 200);
                assert!(self::received(&answer.json()).is_empty(), "{version:?} {without:?}");
            }
        }
    }
}

/// The values of all headers that an application may take for the identity header.
fn received(echo: &serde_json::Value) -> Vec<&str> {
    let headers = echo["headers"].as_object().unwrap();
    let is_identity = |name: &str| name.to_ascii_lowercase().replace('_', "-") == "x-identity";
    let values = headers.iter().filter(|(name, _)| is_identity(name)).map(|(_, values)| values);
    values
        .flat_map(|values| values.as_array().unwrap())
        .map(|value| value.as_str().unwrap())
        .collect()
}
