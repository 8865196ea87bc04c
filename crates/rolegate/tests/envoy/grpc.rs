//! A gRPC client and a gRPC server, and a real Envoy between them.

use testbed::Stack;
use testbed::collector::{self, Collector};
use testbed::grpc::basic;

use super::{each_form, start};

/// The server is a collector. The message has characters that `grpc-message` cannot have as they
/// are.
const POLICY: &str = r#"
version: 1
identity: { basic: { verify: false } }
roles:
  exporter:
    allow: [{ grpc: opentelemetry.proto.collector.trace.v1.TraceService/Export }]
  off:
    deny: [{ name: 100 % öff, grpc: opentelemetry.proto.collector.trace.v1.TraceService/* }]
grants:
  exporter: { users: [ann, bob] }
  off: { users: [bob] }
deny_response: { explain: true }
"#;

// Codes of gRPC, "Status codes and their use in gRPC".
const OK: i32 = 0;
const INVALID_ARGUMENT: i32 = 3;
const PERMISSION_DENIED: i32 = 7;
const UNAUTHENTICATED: i32 = 16;

/// The code and the message that a call with these credentials gets.
async fn call(stack: &Stack, credentials: &[&str]) -> (i32, String) {
    let credentials: Vec<String> = credentials.iter().map(|user| basic(user)).collect();
    let metadata: Vec<_> =
        credentials.iter().map(|value| ("authorization", value.as_str())).collect();
    match collector::export(stack.envoy.address, &metadata).await {
        Ok(()) => (OK, String::new()),
        Err(status) => (status.code().into(), status.message().to_owned()),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_grpc_client_gets_the_status_and_the_message_of_a_denial() {
    let folder = tempfile::tempdir().unwrap();
    let policy = folder.path().join("policy.yaml");
    std::fs::write(&policy, POLICY).unwrap();
    for mut options in each_form() {
        let collector = Collector::start(collector::Options::default()).unwrap();
        options.app = Some(collector.address());
        options.envoy.http2_app = true;
        let stack = start(&policy, &options).await;

        assert_eq!(call(&stack, &["ann:secret"]).await, (OK, String::new()));
        assert_eq!(collector.requests(), 1);
        for (credentials, code, error, explained) in [
            (&[][..], UNAUTHENTICATED, "unauthorized", "; reason: missing_credentials"),
            (&["carl:secret"], PERMISSION_DENIED, "forbidden", "; reason: not_allowed"),
            (
                &["bob:secret"],
                PERMISSION_DENIED,
                "forbidden",
                "; reason: denied; rule: off: 100 % öff",
            ),
            (
                &["ann:secret", "ann:secret"],
                INVALID_ARGUMENT,
                "bad_request",
                "; reason: duplicate_authorization",
            ),
        ] {
            let (found, message) = call(&stack, credentials).await;
            assert_eq!(found, code, "{credentials:?}: {message}");
            assert!(message.starts_with(&format!("{error}; request: ")), "{message}");
            assert!(message.ends_with(explained), "{message}");
            assert!(!message.contains("secret"), "{message}");
        }
        assert_eq!(collector.requests(), 1);
    }
}
