//! What single values of the chart do, and what it tells its user.

use serde_json::{Value, json};
use testbed::manifests::{deploy, helm, run_helm};

use crate::pods::containers;
use crate::variants::{example, of_kind};

fn shared(values: &[&str]) -> Vec<Value> {
    helm(&deploy("helm/rolegate"), "edge", values).unwrap_or_else(|error| panic!("{error}"))
}

fn refused(values: &[&str]) {
    assert!(helm(&deploy("helm/rolegate"), "edge", values).is_err(), "{values:?} is accepted");
}

/// The container `rolegate` of these manifests.
fn rolegate(manifests: &[Value]) -> Value {
    let deployments = of_kind(manifests, "Deployment");
    let pod = &deployments.first().unwrap()["spec"]["template"]["spec"];
    containers(pod).find(|container| container["name"] == "rolegate").unwrap().clone()
}

/// The account of an Azure store has no other place than the environment.
#[test]
fn rolegate_gets_the_environment_of_the_values() {
    let values = [
        "bundle.url=az://policies/team/bundle.tar.gz",
        "bundle.publicKeys.existingSecret=mine",
        "env[0].name=AZURE_STORAGE_ACCOUNT_NAME",
        "env[0].value=policies",
        "env[1].name=AZURE_STORAGE_ACCOUNT_KEY",
        "env[1].valueFrom.secretKeyRef.name=store",
        "env[1].valueFrom.secretKeyRef.key=key",
    ];
    let wanted = json!([
        { "name": "AZURE_STORAGE_ACCOUNT_NAME", "value": "policies" },
        { "name": "AZURE_STORAGE_ACCOUNT_KEY", "valueFrom": { "secretKeyRef": { "name": "store", "key": "key" } } },
    ]);
    assert_eq!(rolegate(&shared(&values))["env"], wanted);
    let values = values.map(|value| format!("rolegate.{value}"));
    assert_eq!(rolegate(&example(&values.each_ref().map(String::as_str)))["env"], wanted);
    assert!(rolegate(&shared(&[]))["env"].is_null());
    // Settings have a place of their own, and their variables would also count for the probes.
    refused(&["env[0].name=ROLEGATE_ADMIN", "env[0].value=off"]);
    refused(&["env[0].name=AWS_REGION", "env[0].valve=eu-west-1"]);
    refused(&["mode=module", "env[0].name=AWS_REGION", "env[0].value=eu-west-1"]);
}

/// The role by which EKS, GKE and AKS give a pod the credentials of a store.
#[test]
fn the_service_account_has_the_annotations_of_the_values() {
    let role = r"serviceAccount.annotations.eks\.amazonaws\.com/role-arn=arn:aws:iam::1:role/rolegate";
    let manifests = shared(&[role]);
    let accounts = of_kind(&manifests, "ServiceAccount");
    let annotations = &accounts.first().unwrap()["metadata"]["annotations"];
    assert_eq!(*annotations, json!({ "eks.amazonaws.com/role-arn": "arn:aws:iam::1:role/rolegate" }));
    let manifests = shared(&[]);
    let accounts = of_kind(&manifests, "ServiceAccount");
    assert!(accounts.first().unwrap()["metadata"]["annotations"].is_null());
    for mode in ["mode=sidecar", "mode=module"] {
        refused(&[mode, role]);
    }
}

/// What Helm prints after an installation. Only with a cluster it renders that itself.
fn notes(mode: &str) -> String {
    const TEMPLATE: &str = "apiVersion: v1\nkind: ConfigMap\nmetadata: { name: notes }\n\
        data: { text: {{ tpl (.Files.Get \"NOTES.txt\") . | toJson }} }\n";
    let folder = tempfile::tempdir().unwrap();
    testbed::policies::copy(&deploy("helm"), folder.path()).unwrap();
    let chart = folder.path().join("rolegate");
    std::fs::rename(chart.join("templates/NOTES.txt"), chart.join("NOTES.txt")).unwrap();
    std::fs::write(chart.join("templates/notes.yaml"), TEMPLATE).unwrap();
    let set = format!("mode={mode}");
    let arguments = [
        "template",
        "edge",
        "rolegate",
        "--set",
        &set,
        "--kube-version",
        "1.37.0",
        "--show-only",
        "templates/notes.yaml",
    ];
    let text = run_helm(&arguments, folder.path()).unwrap_or_else(|error| panic!("{error}"));
    let documents = testbed::manifests::yaml_of(&text).unwrap();
    documents.first().unwrap()["data"]["text"].as_str().unwrap().to_owned()
}

/// `kubectl logs` with a selector prints ten lines of each pod, and the pods of a sidecar have labels of their own.
#[test]
fn the_notes_say_where_to_find_a_problem_of_the_policy() {
    let problems = r#"| grep -E '"level":"(ERROR|WARN)"'"#;
    let shared = notes("shared");
    assert!(
        shared.contains(&format!("logs --selector app.kubernetes.io/name=rolegate --tail=-1 {problems}")),
        "{shared}"
    );
    let sidecar = notes("sidecar");
    assert!(sidecar.contains(&format!("logs POD --container rolegate {problems}")), "{sidecar}");
    assert!(notes("module").contains("The log of your Envoy says which."));
}
