//! Every configuration of Envoy that ships: Envoy takes it, and it fails closed.

use std::path::Path;
use std::process::Command;

use serde_json::Value;
use testbed::manifests::{deploy, yaml_of};

use crate::pods::{containers, pod};
use crate::variants::{Variant, all, of_kind, one};

/// The filters that may run before `ext_authz`: they answer requests themselves, or give them
/// credentials.
const BEFORE: [&str; 2] = ["envoy.filters.http.cors", "envoy.filters.http.oauth2"];

/// Each, by what it belongs to.
fn configurations() -> Vec<(String, String)> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(deploy("envoy")).unwrap().flatten() {
        let text = std::fs::read_to_string(entry.path()).unwrap();
        found.push((entry.path().display().to_string(), text));
    }
    for Variant { name, manifests } in all() {
        for map in of_kind(manifests, "ConfigMap") {
            let files = map["data"].as_object().into_iter().flatten();
            for (file, text) in
                files.filter(|(_, text)| text.as_str().unwrap().contains("static_resources"))
            {
                found.push((format!("{name}: {file}"), text.as_str().unwrap().to_owned()));
            }
        }
    }
    assert!(found.len() >= 5, "the configurations were not found");
    found
}

#[test]
fn envoy_takes_every_configuration() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("envoy.yaml");
    let files = files_that_envoy_reads(folder.path());
    // Those with the library are checked by the tests of `module`, which have it.
    let without =
        configurations().into_iter().filter(|(_, text)| !text.contains("DynamicModuleFilter"));
    for (at, mut text) in without {
        for (shipped, here) in &files {
            text = text.replace(shipped, here);
        }
        std::fs::write(&file, text).unwrap();
        let said = validate(&file);
        assert!(said.contains("' OK"), "{at}: {said}");
        assert!(!said.to_lowercase().contains("deprecated"), "{at}: {said}");
    }
}

/// Envoy reads these files to validate a configuration that names them. Returns their paths, and
/// those of replacements.
fn files_that_envoy_reads(folder: &Path) -> Vec<(&'static str, String)> {
    let secret = |name: &str| {
        format!(
            "resources: [{{ '@type': type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.Secret, name: {name}, \
             generic_secret: {{ secret: {{ inline_string: secret }} }} }}]"
        )
    };
    let authority = rcgen::generate_simple_self_signed(["login.example.com".to_owned()]).unwrap();
    let files = [
        ("/etc/envoy/token.yaml", secret("token")),
        ("/etc/envoy/hmac.yaml", secret("hmac")),
        ("/etc/envoy/cluster-account.yaml", secret("cluster-account")),
        ("/etc/envoy/cluster-ca.pem", authority.cert.pem()),
        ("/etc/ssl/certs/ca-certificates.crt", authority.cert.pem()),
    ];
    files
        .map(|(shipped, text)| {
            let here = folder.join(Path::new(shipped).file_name().unwrap());
            std::fs::write(&here, text).unwrap();
            (shipped, here.display().to_string())
        })
        .to_vec()
}

fn validate(file: &Path) -> String {
    let mut command =
        Command::new(testbed::envoy::program().unwrap_or_else(|error| panic!("{error}")));
    command.args(["--mode", "validate", "--log-level", "warn", "--config-path"]).arg(file);
    let done = command.output().unwrap();
    format!("{}{}", String::from_utf8_lossy(&done.stdout), String::from_utf8_lossy(&done.stderr))
}

/// `SECURITY.md`, S24: an error is never OK, and the application is given the path that rolegate
/// evaluates.
#[test]
fn every_configuration_fails_closed() {
    let mut checked = 0;
    for (at, text) in configurations() {
        let documents = yaml_of(&text).unwrap();
        let resources = &documents.first().unwrap()["static_resources"];
        let before_it = checked;
        for manager in managers(resources) {
            let filters = manager["http_filters"].as_array().unwrap();
            let authorizes = |filter: &Value| {
                ["envoy.filters.http.ext_authz", "rolegate"]
                    .contains(&filter["name"].as_str().unwrap())
            };
            let Some(at_filter) = filters.iter().position(authorizes) else {
                // Nothing to check: the admin pages, or what a measurement compares with.
                continue;
            };
            let (before, rest) = filters.split_at(at_filter);
            for filter in before {
                let name = filter["name"].as_str().unwrap();
                assert!(BEFORE.contains(&name), "{at}: {name} runs before authorization");
            }
            let filter = rest.first().unwrap();
            if filter["name"] == "rolegate" {
                is_the_library(&at, &filter["typed_config"]);
            } else {
                fails_closed(&at, &filter["typed_config"]);
            }
            for on in ["normalize_path", "merge_slashes"] {
                assert_eq!(manager[on], true, "{at}: {on}");
            }
            checked += 1;
        }
        assert!(checked > before_it, "{at}: no listener authorizes");
        let clusters = resources["clusters"].as_array().unwrap();
        let checks = |cluster: &&Value| {
            let name = cluster["name"].as_str().unwrap();
            name.starts_with("rolegate") && name != "rolegate-admin"
        };
        for own in clusters.iter().filter(checks) {
            let threshold = &own["circuit_breakers"]["thresholds"][0];
            assert!(
                threshold["max_requests"].as_u64().unwrap() > 1024,
                "{at}: the 1025th check is refused"
            );
        }
    }
    assert!(checked >= 5, "only {checked} call rolegate");
}

fn fails_closed(at: &str, filter: &Value) {
    assert_eq!(filter["failure_mode_allow"], false, "{at}");
    assert_eq!(filter["status_on_error"]["code"], "ServiceUnavailable", "{at}");
    for on in ["encode_raw_headers", "validate_mutations"] {
        assert_eq!(filter[on], true, "{at}: {on}");
    }
    assert!(!filter["grpc_service"]["timeout"].is_null(), "{at}: no timeout of its own");
    // Only a search cluster's requests depend on their bodies; a part of one is of no use.
    let body = &filter["with_request_body"];
    assert_eq!(!body.is_null(), at.contains("/search"), "{at}: bodies");
    assert!(body.is_null() || body["allow_partial_message"] == false, "{at}: a part of a body");
}

/// It has no setting that allows a request without a decision.
fn is_the_library(at: &str, filter: &Value) {
    assert_eq!(filter["dynamic_module_config"]["name"], "rolegate", "{at}");
    assert_eq!(filter["dynamic_module_config"]["do_not_close"], true, "{at}: it has threads");
    let admin = &filter["filter_config"]["value"]["admin"];
    assert!(admin.is_null() || *admin == "127.0.0.1:9192", "{at}: {admin}");
}

/// One pod by Kubernetes' own means, one by Helm.
#[test]
fn the_chart_and_the_examples_have_the_same_envoy() {
    for (example, released) in
        [("examples/sidecar", "helm example"), ("examples/module", "helm example module")]
    {
        let envoy = |variant: &str| {
            let maps = of_kind(&one(variant).manifests, "ConfigMap");
            let text = maps.iter().find_map(|map| map["data"]["envoy.yaml"].as_str());
            text.unwrap_or_else(|| panic!("no Envoy in {variant}")).trim_end()
        };
        assert_eq!(envoy(example), envoy(released));
    }
}

fn managers(resources: &Value) -> impl Iterator<Item = &Value> {
    let listeners = resources["listeners"].as_array().into_iter().flatten();
    let chains = listeners.flat_map(|listener| listener["filter_chains"].as_array().unwrap());
    let filters = chains.flat_map(|chain| chain["filters"].as_array().unwrap());
    filters.map(|filter| &filter["typed_config"]).filter(|config| {
        config["@type"].as_str().is_some_and(|kind| kind.ends_with("HttpConnectionManager"))
    })
}

/// A client that reaches Envoy's admin page can stop Envoy and read its configuration.
#[test]
fn the_admin_page_stays_on_loopback() {
    for (at, text) in configurations() {
        let documents = yaml_of(&text).unwrap();
        let admin = &documents.first().unwrap()["admin"];
        let address = &admin["address"]["socket_address"]["address"];
        assert!(admin.is_null() || *address == "127.0.0.1", "{at}: {address}");
    }
}

/// Envoy writes the library's log at its own level: reloads, fetched keys and samples of a shadow
/// policy have level info.
#[test]
fn an_envoy_with_the_library_logs_its_reloads() {
    const LEVEL: [&str; 2] = ["--component-log-level", "dynamic_modules:info"];
    let mut seen = 0;
    for Variant { name, manifests } in all() {
        for container in manifests.iter().filter_map(pod).flat_map(containers) {
            if !container["env"].to_string().contains("ENVOY_DYNAMIC_MODULES_SEARCH_PATH") {
                continue;
            }
            let args: Vec<&str> =
                container["args"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
            assert!(args.windows(2).any(|pair| pair == LEVEL), "{name}: {args:?}");
            seen += 1;
        }
    }
    assert!(seen >= 3, "only {seen} Envoys with the library were found");
    let unit = std::fs::read_to_string(deploy("systemd/envoy-rolegate.service")).unwrap();
    let start = unit.lines().find(|line| line.starts_with("ExecStart=")).unwrap();
    assert!(start.contains(&LEVEL.join(" ")), "{start}");
    let istio = &one(&deploy("istio/module.yaml").display().to_string()).manifests;
    let annotations = &of_kind(istio, "Deployment").first().unwrap()["spec"]["template"]["metadata"]
        ["annotations"];
    let level = annotations["sidecar.istio.io/componentLogLevel"].as_str().unwrap_or_default();
    assert!(level.split(',').any(|level| level == "dynamic_modules:info"), "{level}");
}
