//! The library in a real Envoy: `.tools/`, or the one that `ENVOY=` names.

#![expect(clippy::unwrap_used, reason = "a failed set-up is a failed test")]

use std::path::PathBuf;

use testbed::client::{Answer, Connection, Version};
use testbed::{App, Envoy, Failed};

/// The library that was built with this test.
fn library() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    test.with_file_name("librolegate.so")
}

/// An Envoy with the library as its filter, in front of the application.
async fn start(folder: &tempfile::TempDir, app: &App, configuration: &str) -> Result<Envoy, Failed> {
    let library = library();
    assert!(library.is_file(), "{} was not built", library.display());
    let text = CONFIGURATION
        .replace("APPLICATION", &app.address.port().to_string())
        .replace("FILTER_CONFIG", configuration);
    Envoy::start_with_modules(folder.path(), &text, &["public"], library.parent().unwrap()).await
}

async fn get(envoy: &Envoy, path: &str) -> Answer {
    let mut connection = Connection::open(envoy.address, Version::Http1).await.unwrap();
    connection.send("GET", path, "localhost", &[], b"").await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_policy_every_request_is_denied() {
    let (folder, app) = (tempfile::tempdir().unwrap(), App::start().await.unwrap());
    let envoy = start(&folder, &app, "").await.unwrap();
    let answer = get(&envoy, "/people").await;
    assert_eq!((answer.status, answer.text().as_str()), (503, "rolegate has no policy\n"));
    assert_eq!(app.requests(), 0);
    let log = envoy.log();
    assert!(!log.contains("ABI version"), "Envoy warns about the version of the interface:\n{log}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_configuration_stops_envoy_and_its_log_says_why() {
    let (folder, app) = (tempfile::tempdir().unwrap(), App::start().await.unwrap());
    let failed = start(&folder, &app, "nonsense").await.unwrap_err().to_string();
    assert!(failed.contains("rolegate: the filter `main` takes no configuration"), "{failed}");
}

const CONFIGURATION: &str = r#"
admin: { address: { socket_address: { address: 127.0.0.1, port_value: 0 } } }
static_resources:
  listeners:
    - name: public
      address: { socket_address: { address: 127.0.0.1, port_value: 0 } }
      filter_chains:
        - filters:
            - name: envoy.filters.network.http_connection_manager
              typed_config:
                "@type": type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager
                stat_prefix: public
                route_config:
                  virtual_hosts:
                    - { name: all, domains: ["*"], routes: [{ match: { prefix: / }, route: { cluster: application } }] }
                http_filters:
                  - name: rolegate
                    typed_config:
                      "@type": type.googleapis.com/envoy.extensions.filters.http.dynamic_modules.v3.DynamicModuleFilter
                      dynamic_module_config: { name: rolegate, do_not_close: true }
                      filter_name: main
                      filter_config: { "@type": type.googleapis.com/google.protobuf.StringValue, value: "FILTER_CONFIG" }
                  - name: envoy.filters.http.router
                    typed_config: { "@type": type.googleapis.com/envoy.extensions.filters.http.router.v3.Router }
  clusters:
    - name: application
      type: STATIC
      load_assignment:
        cluster_name: application
        endpoints:
          - lb_endpoints:
              - endpoint: { address: { socket_address: { address: 127.0.0.1, port_value: APPLICATION } } }
"#;
