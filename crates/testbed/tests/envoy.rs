//! Envoy with the shipped configuration, and nobody to ask.

use std::time::Duration;

use testbed::client::{Connection, Version};
use testbed::envoy::{Listener, Settings, Target};
use testbed::{App, Envoy};

/// To Envoy no answer is an error, and `failure_mode_allow` is false in every configuration under
/// `deploy/`.
#[tokio::test(flavor = "multi_thread")]
async fn without_rolegate_every_request_is_denied() {
    for settings in [
        Settings::default(),
        Settings {
            encode_raw_headers: false,
            normalize_path: false,
            use_remote_address: true,
            with_request_body: Some(4096),
            whole_bodies: true,
            timeout: Duration::from_millis(500),
            google_grpc: false,
            health_checks: false,
            disabled: false,
            http2_app: false,
            failure_mode_allow: false,
            filters: String::new(),
            clusters: String::new(),
        },
    ] {
        let folder = tempfile::tempdir().unwrap();
        let app = App::start().await.unwrap();
        let nobody = Target::Unix(folder.path().join("nobody.sock"));
        let listener = Listener { targets: vec![nobody], settings, ..Listener::new("public") };
        let envoy = Envoy::start(folder.path(), app.address, &[listener]).await.unwrap();
        for version in [Version::Http1, Version::Http2] {
            let mut connection = Connection::open(envoy.address, version).await.unwrap();
            for path in ["/people", "/", "/healthz"] {
                let answer = connection.send("GET", path, "localhost", &[], b"").await.unwrap();
                assert_eq!(answer.status, 503, "{version:?} {path}: {}", answer.text());
            }
        }
        assert_eq!(app.requests(), 0);
    }
}
