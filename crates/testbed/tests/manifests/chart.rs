//! What single values of the chart do, and what it tells its user.

use serde_json::{Value, json};
use testbed::manifests::{deploy, helm, run_helm};

use crate::pods::containers;
use crate::variants::{example, of_kind, try_example};

fn shared(values: &[&str]) -> Vec<Value> {
    helm(&deploy("helm/rolegate"), "edge", values).unwrap_or_else(|error| panic!("{error}"))
}

fn refused(values: &[&str]) {
    assert!(helm(&deploy("helm/rolegate"), "edge", values).is_err(), "{values:?} is accepted");
}

/// Why the chart refuses these values.
fn refusal(values: &[&str]) -> String {
    let done = helm(&deploy("helm/rolegate"), "edge", values);
    done.err().unwrap_or_else(|| panic!("{values:?} is accepted")).to_string()
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
    let role =
        r"serviceAccount.annotations.eks\.amazonaws\.com/role-arn=arn:aws:iam::1:role/rolegate";
    let manifests = shared(&[role]);
    let accounts = of_kind(&manifests, "ServiceAccount");
    let annotations = &accounts.first().unwrap()["metadata"]["annotations"];
    assert_eq!(
        *annotations,
        json!({ "eks.amazonaws.com/role-arn": "arn:aws:iam::1:role/rolegate" })
    );
    let manifests = shared(&[]);
    let accounts = of_kind(&manifests, "ServiceAccount");
    assert!(accounts.first().unwrap()["metadata"]["annotations"].is_null());
    for mode in ["mode=sidecar", "mode=module"] {
        refused(&[mode, role]);
    }
}

/// Clients that need no certificate would not be noticed: everything works.
#[test]
fn client_certificates_that_are_asked_for_are_not_left_out() {
    let own = "settings.tls-certificate=/etc/rolegate/users/a.crt,settings.tls-key=/etc/rolegate/users/a.key";
    for values in [&["tls.clientCa=ca.crt"][..], &["tls.clientCa=ca.crt", own]] {
        let problem = refusal(values);
        assert!(
            problem.contains("`tls.clientCa` needs `tls.existingSecret`"),
            "{values:?}: {problem}"
        );
    }
    for mode in ["mode=sidecar", "mode=module"] {
        refused(&[mode, "tls.clientCa=ca.crt"]);
    }
    let ca = "settings.tls-client-ca=/etc/rolegate/users/ca.crt";
    let arguments = rolegate(&shared(&["tls.existingSecret=mine", ca]))["args"].to_string();
    assert!(arguments.contains("--tls-client-ca=/etc/rolegate/users/ca.crt"), "{arguments}");
}

/// With a flag that is given twice, no pod starts.
#[test]
fn no_flag_is_given_twice() {
    const TLS: &str = "tls.existingSecret=mine,tls.clientCa=ca.crt";
    const BUNDLE: &str = "bundle.url=https://files.example.com/bundle.tar.gz,bundle.publicKeys.existingSecret=mine,\
        bundle.credentials.existingSecret=mine,bundle.ca.existingConfigMap=mine";
    let flags = [
        (TLS, "tls-certificate"),
        (TLS, "tls-key"),
        (TLS, "tls-client-ca"),
        (BUNDLE, "bundle-credentials"),
        (BUNDLE, "bundle-ca"),
        (BUNDLE, "bundle-cache"),
    ];
    for (values, flag) in flags {
        let set = format!("settings.{flag}=/etc/rolegate/users/x");
        let problem = refusal(&[values, &set]);
        assert!(
            problem.contains(&format!("`settings.{flag}` are both set: leave one out")),
            "{problem}"
        );
        let without = "tls.existingSecret=mine,bundle.cache.enabled=false";
        if flag.starts_with("bundle") {
            let arguments = rolegate(&shared(&[without, &set]))["args"].to_string();
            assert!(arguments.contains(&format!("--{flag}=")), "{arguments}");
        }
    }
}

/// One thread per core of the node, whose hashes fill the memory: it would be killed again and
/// again.
#[test]
fn a_limit_of_memory_needs_one_of_threads() {
    let memory = "resources.limits.memory=1Gi";
    for values in [
        &[memory][..],
        &[memory, "settings.threads=2"],
        &[memory, "settings.threads=2", "settings.hash-threads=0"],
    ] {
        let problem = refusal(values);
        assert!(problem.contains("`resources.limits.cpu`"), "{values:?}: {problem}");
    }
    for values in [
        &[memory, "resources.limits.cpu=1"][..],
        &[memory, "settings.threads=2", "settings.hash-threads=1"],
    ] {
        assert_eq!(rolegate(&shared(values))["resources"]["limits"]["memory"], "1Gi");
    }
    let problem = try_example(&["rolegate.resources.limits.memory=1Gi"]).unwrap_err();
    assert!(problem.contains("`resources.limits.cpu`"), "a sidecar: {problem}");
}

/// The kubelet kills what has not ended by then.
#[test]
fn a_replica_has_the_time_that_its_settings_take() {
    let time = |values: &[&str]| {
        let manifests = shared(values);
        let deployments = of_kind(&manifests, "Deployment");
        let pod = &deployments.first().unwrap()["spec"]["template"]["spec"];
        pod["terminationGracePeriodSeconds"].as_u64().unwrap()
    };
    assert_eq!(time(&[]), 65);
    assert_eq!(
        time(&["settings.drain-delay=2m", "settings.drain-timeout=1500ms"]),
        35 + 120 + 2 + 10
    );
    assert_eq!(time(&["preStopSleepSeconds=0", "settings.drain-delay=0"]), 20);
    assert_eq!(time(&["terminationGracePeriodSeconds=600"]), 600);
    for values in [
        &["terminationGracePeriodSeconds=54"][..],
        &["terminationGracePeriodSeconds=60", "settings.drain-delay=20s"],
    ] {
        let problem = refusal(values);
        assert!(problem.contains("rolegate would be killed"), "{values:?}: {problem}");
    }
    assert!(refusal(&["settings.drain-delay=10"]).contains("not a duration"));
    let none = rolegate(&shared(&["preStopSleepSeconds=0", "settings.drain-delay=0"]));
    assert!(none["lifecycle"].is_null());
    // A zero is a value, not the absence of one.
    assert!(
        none["args"].as_array().unwrap().contains(&"--drain-delay=0".into()),
        "{}",
        none["args"]
    );
}

/// A replica that can never use as much as the target is never given help.
#[test]
fn the_autoscaler_has_a_target_that_can_be_exceeded() {
    let target = |values: &[&str]| {
        let manifests = shared(values);
        let scalers = of_kind(&manifests, "HorizontalPodAutoscaler");
        scalers.first().unwrap()["spec"]["metrics"][0]["resource"]["target"]["averageValue"].clone()
    };
    for (values, wanted) in [
        (&[][..], "1000m"),
        (&["resources.limits.cpu=1"], "500m"),
        (&["resources.limits.cpu=500m"], "250m"),
        (&["resources.limits.cpu=0.5"], "250m"),
        (&["resources.limits.cpu=8", "settings.threads=2"], "1000m"),
        (&["resources.requests.cpu=1"], "1000m"),
        (&["resources.limits.cpu=1", "autoscaling.targetCpu=900m"], "900m"),
        (&["autoscaling.targetCpu=1.5"], "1.5"),
    ] {
        assert_eq!(target(values), wanted, "{values:?}");
    }
    for values in [
        &["resources.limits.cpu=1", "autoscaling.targetCpu=1"][..],
        &["autoscaling.targetCpu=1900m"],
        &["settings.threads=1", "autoscaling.targetCpu=1"],
    ] {
        let problem = refusal(values);
        assert!(problem.contains("no replica would ever be added"), "{values:?}: {problem}");
    }
}

/// For a Prometheus that selects every monitor.
#[test]
fn monitors_need_no_labels_of_their_own() {
    for (value, kind) in
        [("serviceMonitor", "ServiceMonitor"), ("prometheusRule", "PrometheusRule")]
    {
        let (enabled, label) =
            (format!("{value}.enabled=true"), format!("{value}.labels.release=null"));
        let manifests = shared(&[&enabled, &label]);
        let monitors = of_kind(&manifests, kind);
        let labels = &monitors.first().unwrap()["metadata"]["labels"];
        assert_eq!(labels["app.kubernetes.io/name"], "rolegate");
        assert!(labels["release"].is_null(), "{labels}");
    }
}

/// Kubernetes 1.29 does not know the `preStop` sleep.
#[test]
fn an_older_kubernetes_is_refused() {
    let render = |version: &str| {
        run_helm(&["template", "edge", "rolegate", "--kube-version", version], &deploy("helm"))
    };
    render("1.30.0").unwrap_or_else(|error| panic!("{error}"));
    assert!(render("1.29.9").is_err());
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

/// `kubectl logs` with a selector prints ten lines of each pod, and the pods of a sidecar have
/// labels of their own.
#[test]
fn the_notes_say_where_to_find_a_problem_of_the_policy() {
    let problems = r#"| grep -E '"level":"(ERROR|WARN)"'"#;
    let shared = notes("shared");
    assert!(
        shared.contains(&format!(
            "logs --selector app.kubernetes.io/name=rolegate --tail=-1 {problems}"
        )),
        "{shared}"
    );
    let sidecar = notes("sidecar");
    assert!(sidecar.contains(&format!("logs POD --container rolegate {problems}")), "{sidecar}");
    assert!(notes("module").contains("The log of your Envoy says which."));
}
