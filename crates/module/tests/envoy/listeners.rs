//! Several listeners and several policies, and an access log with what was decided, in each Envoy.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use testbed::client::{Connection, Version};
use testbed::manifests::deploy;
use testbed::policies::Example;
use testbed::{App, Envoy};

use super::{ALICE, PATIENT, authorization, each_form, library};

const LISTENERS: [&str; 2] = ["public", "second"];

/// What the access log has of a request.
const SAID: &str = "%RESPONSE_CODE% %DYNAMIC_METADATA(rolegate:decision)% %DYNAMIC_METADATA(rolegate:reason)% \
    %DYNAMIC_METADATA(rolegate:rule)%";

/// The shipped configuration with two listeners that have the same settings, with an access log in
/// this file, and with a route `/other` with a policy of its own.
fn configuration(app: &App, other: &Path, log: &Path) -> String {
    let shipped = std::fs::read_to_string(deploy("envoy/module.yaml")).unwrap();
    let people = Example::named("people").unwrap();
    let route = format!(
        r#"
                        - match: {{ prefix: "/other" }}
                          route: {{ cluster: application }}
                          typed_per_filter_config:
                            rolegate:
                              "@type": type.googleapis.com/envoy.extensions.filters.http.dynamic_modules.v3.DynamicModuleFilterPerRoute
                              dynamic_module_config: {{ name: rolegate, do_not_close: true }}
                              filter_name: rolegate
                              filter_config:
                                "@type": type.googleapis.com/google.protobuf.StringValue
                                value: '{{"policy": "{}", "decision-log": "off"}}'
"#,
        other.display()
    );
    let (_, format) = shipped.split_once("inline_string: \"").unwrap();
    let (format, _) = format.split_once("\\n\"").unwrap();
    let mut text = shipped.clone();
    for (from, to) in [
        ("port_value: 9901", "port_value: 0".to_owned()),
        ("port_value: 10000", "port_value: 0".to_owned()),
        ("port_value: 8080", format!("port_value: {}", app.address.port())),
        ("/etc/rolegate/policy.yaml", people.file.display().to_string()),
        (
            "decision-log: denied",
            format!("decision-log: off\n{0:26}metadata: true\n{0:26}hash-timeout: 15s", ""),
        ),
        (
            "stream.v3.StdoutAccessLog",
            format!("file.v3.FileAccessLog\n{:22}path: {}", "", log.display()),
        ),
        (format, SAID.to_owned()),
        ("                      routes:\n", format!("                      routes:{route}")),
    ] {
        assert_eq!(text.matches(from).count(), 1, "{from}");
        text = text.replace(from, &to);
    }
    let (head, rest) = text.split_once("  listeners:\n").unwrap();
    let (listener, rest) = rest.split_once("\n  clusters:").unwrap();
    let second = listener.replace("name: public", &format!("name: {}", LISTENERS[1]));
    format!("{head}  listeners:\n{listener}\n{second}\n  clusters:{rest}")
}

/// Each Envoy with this configuration, and its access log.
async fn each_envoy(test: impl AsyncFn(&Envoy, PathBuf)) {
    for options in each_form() {
        let (folder, app) = (tempfile::tempdir().unwrap(), App::start().await.unwrap());
        let (other, log) = (folder.path().join("policy.yaml"), folder.path().join("access.log"));
        let policy =
            "version: 1\nroles: { anyone: { allow: [\"GET /other/open\", \"GET /people\"] } }\n";
        std::fs::write(&other, policy).unwrap();
        let text = configuration(&app, &other, &log);
        let program = options.program.map_or_else(testbed::envoy::program, Ok).unwrap();
        let envoy =
            Envoy::start_with_modules(&program, folder.path(), &text, &LISTENERS, &library())
                .await
                .unwrap();
        test(&envoy, log).await;
    }
}

async fn status(envoy: &Envoy, listener: usize, path: &str, headers: &[(String, String)]) -> u16 {
    let mut connection = Connection::open(envoy.addresses[listener], Version::Http1).await.unwrap();
    connection.send("GET", path, "localhost", headers, b"").await.unwrap().status
}

#[tokio::test(flavor = "multi_thread")]
async fn listeners_share_a_policy_and_a_route_has_another() {
    let alice = authorization(ALICE);
    each_envoy(async |envoy, _| {
        for listener in [0, 1, 0] {
            for (path, credentials, expected) in [
                ("/people", &alice[..], 200),
                ("/people", &[], 401),
                ("/people/1", &alice, 403),
                ("/other/open", &[], 200),
                ("/other/people", &[], 401),
            ] {
                let status = status(envoy, listener, path, credentials).await;
                assert_eq!(status, expected, "{listener} {path}: {}", envoy.log());
            }
        }
        // The caller is known at both listeners. Requests set the gauges, at most once per second.
        let until = Instant::now() + PATIENT;
        let entries = "dynamicmodulescustom.rolegate.credential_cache_entries";
        while envoy.stat(entries).await.unwrap() != Some(1) {
            assert!(Instant::now() < until, "{:?}", envoy.stat(entries).await);
            tokio::time::sleep(Duration::from_millis(50)).await;
            status(envoy, 1, "/people", &alice).await;
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_access_log_says_what_was_decided() {
    each_envoy(async |envoy, log| {
        for (path, credentials) in [
            ("/people", &authorization(ALICE)[..]),
            ("/people/1", &authorization(ALICE)),
            ("/people", &[]),
        ] {
            status(envoy, 0, path, credentials).await;
        }
        let wanted = [
            "200 allowed - guest: GET /people",
            "403 denied not_allowed -",
            "401 denied missing_credentials -",
        ];
        // Envoy flushes it after ten seconds at the latest.
        let until = Instant::now() + 2 * PATIENT;
        loop {
            let text = std::fs::read_to_string(&log).unwrap_or_default();
            if text.lines().count() == wanted.len() {
                assert_eq!(text.lines().collect::<Vec<_>>(), wanted);
                break;
            }
            assert!(Instant::now() < until, "{text}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    })
    .await;
}
