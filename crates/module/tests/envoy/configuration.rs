//! What Envoy says about configurations of the filter.

use std::path::Path;

use testbed::client::{Connection, Version};
use testbed::policies::Example;
use testbed::{App, Envoy, Stack};

use super::{library, start, with};

/// Why Envoy does not start with this policy and these lines of configuration.
async fn refused(policy: &Path, settings: &[&'static str]) -> String {
    Stack::start(Path::new(""), policy, &with(settings)).await.unwrap_err().to_string()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_setting_stops_envoy_and_its_log_says_why() {
    let people = Example::named("people").unwrap();
    for (line, problem) in [
        (
            "polling-interval: 5s",
            "rolegate: unknown setting `polling-interval`: did you mean `poll-interval`?",
        ),
        (
            "hash-timeout: soon",
            "rolegate: `soon` for `hash-timeout`: not a duration: write one such as `500ms`",
        ),
        ("decision-log-file: /nonexistent/log", "rolegate: "),
    ] {
        let said = refused(&people.file, &[line]).await;
        assert!(said.contains(problem), "{line}: {said}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bundle_that_may_not_be_fetched_stops_envoy_and_its_log_says_why() {
    for (url, setting, problem) in [
        ("http://files.example/b.tar.gz", &[][..], "`http` is accepted only on a loopback address"),
        (
            "https://files.example/b",
            &["bundle-public-key: /nonexistent"],
            "`bundle-public-key` /nonexistent: no",
        ),
    ] {
        let said = refused(Path::new(url), setting).await;
        assert!(
            said.contains(&format!("rolegate: the bundle `{url}` cannot be fetched: ")),
            "{said}"
        );
        assert!(said.contains(problem), "{said}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_policy_that_does_not_compile_stops_envoy_and_its_log_says_where() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("policy.yaml");
    std::fs::write(&file, "version: 1\nroles:\n  guest:\n    allow: [\"GET people\"]\n").unwrap();
    let said = refused(&file, &[]).await;
    assert!(said.contains("rolegate: the policy does not compile"), "{said}");
    assert!(said.contains(&format!("{}:4:", file.display())), "{said}");
    let said = refused(&folder.path().join("none.yaml"), &[]).await;
    assert!(said.contains("none.yaml"), "{said}");
}

/// The configuration that ships, with free addresses and a route without authorization.
#[tokio::test(flavor = "multi_thread")]
async fn a_route_is_not_authorized_if_it_says_so_and_statistics_count_the_others() {
    let people = Example::named("people").unwrap();
    let app = App::start().await.unwrap();
    let folder = tempfile::tempdir().unwrap();
    let shipped =
        std::fs::read_to_string(testbed::repository().join("deploy/envoy/module.yaml")).unwrap();
    let open = r#"
                        - match: { prefix: "/open" }
                          route: { cluster: application }
                          typed_per_filter_config:
                            rolegate:
                              "@type": type.googleapis.com/envoy.extensions.filters.http.dynamic_modules.v3.DynamicModuleFilterPerRoute
                              dynamic_module_config: { name: rolegate, do_not_close: true }
                              filter_name: rolegate
                              filter_config:
                                "@type": type.googleapis.com/google.protobuf.Struct
                                value: { disabled: true }
"#;
    let mut text = shipped;
    for (from, to) in [
        ("port_value: 9901", "port_value: 0".to_owned()),
        ("port_value: 10000", "port_value: 0".to_owned()),
        ("port_value: 8080", format!("port_value: {}", app.address.port())),
        ("/etc/rolegate/policy.yaml", people.file.display().to_string()),
        ("decision-log: denied", "decision-log: off".to_owned()),
        ("                      routes:\n", format!("                      routes:{open}")),
    ] {
        assert_eq!(text.matches(from).count(), 1, "{from}");
        text = text.replace(from, &to);
    }
    let program = testbed::envoy::program().unwrap();
    let envoy = Envoy::start_with_modules(&program, folder.path(), &text, &["public"], &library())
        .await
        .unwrap();
    for (path, status) in
        [("/open/1", 200), ("/people", 401), ("/people", 401), ("/people%2F", 400)]
    {
        let mut connection = Connection::open(envoy.address, Version::Http1).await.unwrap();
        let answer = connection.send("GET", path, "localhost", &[], b"").await.unwrap();
        assert_eq!(answer.status, status, "{path}: {}", envoy.log());
    }
    for (name, value) in [
        ("denied.missing_credentials", 2),
        ("denied.invalid_path", 1),
        ("allowed", 0),
        ("policy_failing", 0),
    ] {
        let stat = envoy.stat(&format!("dynamicmodulescustom.rolegate.{name}")).await.unwrap();
        assert_eq!(stat, Some(value), "{name}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_last_decisions_are_logged_when_envoy_ends() {
    let people = Example::named("people").unwrap();
    for _ in 0..3 {
        let mut stack = start(&people.file, &with(&[])).await;
        let mut connection = stack.connect(Version::Http1).await.unwrap();
        for _ in 0..200 {
            let answer = connection.send("GET", "/people", "localhost", &[], b"").await.unwrap();
            assert_eq!(answer.status, 401);
        }
        stack.envoy.end().await.unwrap();
        assert_eq!(stack.decisions().len(), 200);
    }
}
