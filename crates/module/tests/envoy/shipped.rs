//! Every configuration under `deploy/` that has the library: Envoy takes it, with the library and a
//! policy.

use std::path::Path;
use std::process::Command;

use serde_json::Value;
use testbed::manifests::{deploy, file, yaml_of};
use testbed::policies::Example;

use super::library;

/// What Envoy says about a configuration, in which the policy is replaced by an example.
fn validated(folder: &Path, text: &str) -> String {
    let example = Example::named("people").unwrap();
    let shipped = ["/etc/rolegate/policy.yaml", "/etc/rolegate/policy", "/etc/rolegate"];
    let policy = shipped.into_iter().find(|path| text.contains(path)).unwrap();
    assert_eq!(text.matches(policy).count(), 1, "{text}");
    let config = folder.join("envoy.yaml");
    std::fs::write(&config, text.replace(policy, &example.file.display().to_string())).unwrap();
    let mut command = Command::new(testbed::envoy::program().unwrap());
    command.args(["--mode", "validate", "--log-level", "warn", "--config-path"]).arg(&config);
    let done = command.env("ENVOY_DYNAMIC_MODULES_SEARCH_PATH", library()).output().unwrap();
    format!("{}{}", String::from_utf8_lossy(&done.stdout), String::from_utf8_lossy(&done.stderr))
}

fn takes(text: &str) {
    let folder = tempfile::tempdir().unwrap();
    let said = validated(folder.path(), text);
    assert!(said.contains("' OK") && !said.to_lowercase().contains("deprecated"), "{said}\n{text}");
}

#[test]
fn envoy_takes_every_configuration_that_has_the_library() {
    for path in
        ["envoy/module.yaml", "envoy/module-search.yaml", "kubernetes/examples/module/envoy.yaml"]
    {
        takes(&std::fs::read_to_string(deploy(path)).unwrap());
    }
    let quick_start = file(&deploy("minikube/quick-start-module.yaml")).unwrap();
    let texts = quick_start.iter().filter_map(|manifest| manifest["data"]["envoy.yaml"].as_str());
    let texts: Vec<&str> = texts.collect();
    assert_eq!(texts.len(), 1);
    texts.into_iter().for_each(takes);
}

/// Istio inserts it into a listener of its own: here into ours, in place of the filter.
#[test]
fn envoy_takes_the_filter_of_istio() {
    let manifests = file(&deploy("istio/module.yaml")).unwrap();
    let filter = manifests.iter().find(|manifest| manifest["kind"] == "EnvoyFilter").unwrap();
    let inserted = &filter["spec"]["configPatches"][0]["patch"]["value"];
    let shipped = std::fs::read_to_string(deploy("envoy/module.yaml")).unwrap();
    let mut config: Value = yaml_of(&shipped).unwrap().remove(0);
    let manager = &mut config["static_resources"]["listeners"][0]["filter_chains"][0]["filters"][0];
    let ours = &mut manager["typed_config"]["http_filters"][0];
    assert_eq!(ours["name"], inserted["name"]);
    *ours = inserted.clone();
    takes(&config.to_string());
}
