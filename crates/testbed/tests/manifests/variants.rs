//! Every variant that a user may build.

use std::path::PathBuf;
use std::sync::LazyLock;

use serde_json::Value;
use testbed::manifests::{deploy, file, helm, kustomize, run_helm};

/// A variant, and its manifests.
pub(crate) struct Variant {
    pub name: String,
    pub manifests: Vec<Value>,
}

/// What may be set of the chart, each a release of its own.
const RELEASES: &[(&str, &[&str])] = &[
    ("default", &[]),
    (
        "everything",
        &[
            "serviceMonitor.enabled=true",
            "prometheusRule.enabled=true",
            "image.digest=sha256:0000000000000000000000000000000000000000000000000000000000000000",
            "image.repository=registry.example.com/rolegate",
            "imagePullSecrets[0].name=registry",
            "users.files.htpasswd=alice:x",
            "settings.decision-log=all",
            "settings.drain-delay=15s",
            "resources.requests.cpu=1",
            "resources.requests.memory=64Mi",
            "resources.limits.cpu=4",
            "resources.limits.memory=1Gi",
            "networkPolicy.clientNamespaceLabels.team=people",
            "networkPolicy.egress[0].ports[0].port=443",
            "podAnnotations.example=yes",
            "podLabels.team=platform",
            "nodeSelector.pool=edge",
            "tolerations[0].key=edge",
            "tolerations[0].operator=Exists",
            "priorityClassName=system-cluster-critical",
        ],
    ),
    (
        "least",
        &[
            "autoscaling.enabled=false",
            "podDisruptionBudget.enabled=false",
            "networkPolicy.enabled=false",
            "policy.existingConfigMap=mine",
            "users.existingSecret=mine",
        ],
    ),
    ("bundle", BUNDLE),
    ("sidecar", &["mode=sidecar"]),
    ("module", &["mode=module"]),
];

/// A policy by its URL.
const BUNDLE: &[&str] = &[
    "bundle.url=https://files.example.com/bundle.tar.gz",
    "bundle.publicKeys.existingConfigMap=mine",
    "bundle.publicKeys.names={signing.pem.pub,next.pem.pub}",
    "bundle.credentials.existingSecret=mine",
    "bundle.ca.existingConfigMap=mine",
    "settings.bundle-interval=30s",
];

/// All of them, built once.
pub(crate) fn all() -> &'static [Variant] {
    static ALL: LazyLock<Vec<Variant>> = LazyLock::new(|| {
        let mut all: Vec<Variant> = kustomizations().into_iter().map(kustomized).collect();
        all.extend(RELEASES.iter().map(|(name, values)| released(name, values)));
        for (name, values) in [("", &[][..]), (" module", &["rolegate.mode=module"])] {
            all.push(Variant { name: format!("helm example{name}"), manifests: example(values) });
        }
        all.extend(files().into_iter().map(|path| Variant {
            name: path.display().to_string(),
            manifests: file(&path).unwrap_or_else(|error| panic!("{error}")),
        }));
        all
    });
    &ALL
}

/// The one with this name.
pub(crate) fn one(name: &str) -> &'static Variant {
    all()
        .iter()
        .find(|variant| variant.name == name)
        .unwrap_or_else(|| panic!("no variant `{name}`"))
}

/// Every folder with a kustomization that is not made to be a part of others.
fn kustomizations() -> Vec<String> {
    let folders = [
        "overlays/shared",
        "overlays/shared-bundle",
        "overlays/shared-monitored",
        "examples/sidecar",
        "examples/shared",
        "examples/module",
    ];
    let mut found = Vec::new();
    for parent in ["overlays", "examples"] {
        for entry in std::fs::read_dir(deploy("kubernetes").join(parent)).unwrap().flatten() {
            found.push(format!("{parent}/{}", entry.file_name().to_str().unwrap()));
        }
    }
    // Two overlays are components, and built by their examples.
    found.retain(|name| !["overlays/sidecar", "overlays/module"].contains(&name.as_str()));
    found.sort();
    let mut expected = folders.map(str::to_owned).to_vec();
    expected.sort();
    assert_eq!(found, expected, "a kustomization that is not checked");
    found.push("base".to_owned());
    found
}

fn kustomized(name: String) -> Variant {
    let manifests =
        kustomize(&deploy("kubernetes").join(&name)).unwrap_or_else(|error| panic!("{error}"));
    Variant { name, manifests }
}

fn released(name: &str, values: &[&str]) -> Variant {
    let manifests = helm(&deploy("helm/rolegate"), "edge", values)
        .unwrap_or_else(|error| panic!("{name}: {error}"));
    Variant { name: format!("helm {name}"), manifests }
}

/// The application's chart that includes ours, in a folder of its own: Helm writes into it.
pub(crate) fn example(values: &[&str]) -> Vec<Value> {
    try_example(values).unwrap_or_else(|error| panic!("{error}"))
}

/// The same, or why Helm refuses these values.
pub(crate) fn try_example(values: &[&str]) -> Result<Vec<Value>, String> {
    let folder = tempfile::tempdir().unwrap();
    testbed::policies::copy(&deploy("helm"), folder.path()).unwrap();
    run_helm(&["dependency", "build", "example"], folder.path())
        .unwrap_or_else(|error| panic!("{error}"));
    helm(&folder.path().join("example"), "people", values).map_err(|error| error.to_string())
}

/// The manifests that are files of their own.
fn files() -> Vec<PathBuf> {
    let mut found = vec![deploy("prometheus/podmonitor.yaml")];
    for folder in ["istio", "envoy-gateway", "minikube"] {
        let entries = std::fs::read_dir(deploy(folder)).into_iter().flatten().flatten();
        found.extend(
            entries
                .map(|entry| entry.path())
                .filter(|path| path.extension().is_some_and(|extension| extension == "yaml")),
        );
    }
    found.sort();
    assert!(found.len() >= 4, "the files were not found: {found:?}");
    found
}

/// The manifests of this kind.
pub(crate) fn of_kind<'a>(manifests: &'a [Value], kind: &str) -> Vec<&'a Value> {
    manifests.iter().filter(|manifest| manifest["kind"] == kind).collect()
}

#[test]
fn every_variant_is_valid() {
    // Each is built and validated when it is asked for; here is only what validity cannot say.
    for Variant { name, manifests } in all() {
        assert!(!manifests.is_empty(), "{name} is empty");
        let mut seen: Vec<String> = Vec::new();
        for manifest in manifests {
            let id = format!("{} {}", manifest["kind"], manifest["metadata"]["name"]);
            assert!(!seen.contains(&id), "{name}: {id} occurs twice");
            seen.push(id);
        }
    }
}

/// The validation itself: what it must find.
#[test]
fn a_mistake_is_found() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path().join("manifest.yaml");
    let mistakes = [
        ("apiVersion: v1\nkind: Service\nmetadata: { name: a }\nspec: { prots: [] }\n", "prots"),
        (
            "apiVersion: v1\nkind: Service\nmetadata: { name: a }\nspec: {}\nspec: {}\n",
            "duplicate key",
        ),
        ("apiVersion: example.com/v1\nkind: Thing\nmetadata: { name: a }\n", "no schema"),
        (
            "apiVersion: gateway.envoyproxy.io/v1alpha1\nkind: SecurityPolicy\nmetadata: { name: a }\nspec:\n  \
             targetRefs: [{ group: g, kind: k, name: n }]\n  extAuth:\n    { failOpen: true, timeout: 1s, \
             statusOnError: 503, grpc: { backendRefs: [{ name: r, port: 1 }] } }\n",
            "failOpen",
        ),
        ("a: [\n", "not YAML"),
    ];
    for (text, word) in mistakes {
        std::fs::write(&at, text).unwrap();
        let problem = file(&at).unwrap_err().to_string();
        assert!(problem.contains(word), "{problem}");
    }
}

/// `values.schema.json`: a misspelt or dangerous value ends before anything is made of it.
#[test]
fn the_chart_refuses_values_that_mean_nothing() {
    let refused = [
        "mode=both",
        "polciy.files=x",
        "image.tag=latest",
        "image.digest=sha256:12",
        "settings.listen=0.0.0.0:1",
        "settings.decisionlog=all",
        "networkPolicy.clientPodLabels=null",
        "autoscaling.minReplicas=0",
        "podDisruptionBudget.maxUnavailable=100%",
        "resources.limit.cpu=1",
        "moduleImage.tag=latest",
        // Whoever can write to the server would decide who may do what.
        "bundle.url=https://files.example.com/bundle.tar.gz",
        "bundle.url=bundle.tar.gz",
        "bundle.publicKey=x",
    ];
    for value in refused {
        let done = helm(&deploy("helm/rolegate"), "edge", &[value]);
        let problem = done.err().unwrap_or_else(|| panic!("{value} is accepted")).to_string();
        assert!(
            problem.contains("schema") || problem.contains("specifications"),
            "{value}: {problem}"
        );
    }
    // What pods of another chart would not have.
    for mode in ["sidecar", "module"] {
        for value in ["imagePullSecrets[0].name=mine", "tls.existingSecret=mine"] {
            let mode = format!("mode={mode}");
            assert!(
                helm(&deploy("helm/rolegate"), "edge", &[&mode, value]).is_err(),
                "{mode} {value}"
            );
        }
    }
    let both = ["tls.existingSecret=mine", "settings.tls-certificate=/etc/rolegate/users/tls.crt"];
    let problem = helm(&deploy("helm/rolegate"), "edge", &both).unwrap_err().to_string();
    assert!(problem.contains("leave one out"), "{problem}");
    // With the library, the settings are in Envoy's configuration.
    assert!(
        helm(&deploy("helm/rolegate"), "edge", &["mode=module", "settings.threads=1"]).is_err()
    );
    run_helm(&["lint", "rolegate", "--strict"], &deploy("helm"))
        .unwrap_or_else(|error| panic!("{error}"));
}

/// Helm reads the numbers of a file as floats.
#[test]
fn large_numbers_of_a_values_file_are_written_out() {
    let values = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(
        values.path(),
        "settings: { max-message-size: 12582912, threads: 2, drain-delay: 5s }\n",
    )
    .unwrap();
    let at = values.path().to_str().unwrap();
    let chart = run_helm(
        &["template", "edge", "rolegate", "--values", at, "--kube-version", "1.37.0"],
        &deploy("helm"),
    );
    let chart = chart.unwrap_or_else(|error| panic!("{error}"));
    for flag in ["--max-message-size=12582912", "--threads=2", "--drain-delay=5s"] {
        assert!(chart.contains(&format!("\"{flag}\"")), "no {flag}");
    }
}

/// The kubelet's gRPC probe speaks no TLS: the pods would never be ready.
#[test]
fn with_tls_the_readiness_probe_is_a_command() {
    let own = [
        "settings.tls-certificate=/etc/rolegate/users/tls.crt",
        "settings.tls-key=/etc/rolegate/users/tls.key",
    ];
    let chart = ["tls.existingSecret=mine", "tls.clientCa=ca.crt"];
    for values in [&own[..], &chart] {
        let manifests = helm(&deploy("helm/rolegate"), "edge", values)
            .unwrap_or_else(|error| panic!("{error}"));
        let deployment = of_kind(&manifests, "Deployment");
        let pod = &deployment.first().unwrap()["spec"]["template"]["spec"];
        let container = &pod["containers"][0];
        let probe = &container["readinessProbe"];
        assert_eq!(
            probe["exec"]["command"],
            serde_json::json!(["/rolegate", "health"]),
            "{values:?}"
        );
        assert!(probe["grpc"].is_null(), "{values:?}");
        if values.contains(&"tls.existingSecret=mine") {
            let args = container["args"].to_string();
            for flag in [
                "--tls-certificate=/etc/rolegate/tls/tls.crt",
                "--tls-key=/etc/rolegate/tls/tls.key",
                "--tls-client-ca=/etc/rolegate/tls/ca.crt",
            ] {
                assert!(args.contains(flag), "{args}");
            }
            assert!(container["volumeMounts"].to_string().contains("/etc/rolegate/tls"));
            assert!(pod["volumes"].to_string().contains(r#""secretName":"mine""#));
        }
    }
}

/// A policy by its URL: the flags name what is mounted, and nothing else has the policy.
#[test]
fn a_bundle_takes_the_place_of_the_policy() {
    for name in ["helm bundle", "overlays/shared-bundle"] {
        let manifests = &one(name).manifests;
        let deployment = of_kind(manifests, "Deployment");
        let pod = &deployment.first().unwrap()["spec"]["template"]["spec"];
        let container = &pod["containers"][0];
        let list = |key: &str, of: &str| -> Vec<String> {
            let items = container[key].as_array().unwrap().iter();
            items
                .filter_map(|item| if of.is_empty() { item.as_str() } else { item[of].as_str() })
                .map(str::to_owned)
                .collect()
        };
        let (args, mounts) = (list("args", ""), list("volumeMounts", "mountPath"));
        let value =
            |flag: &str| args.iter().find_map(|arg| arg.strip_prefix(flag)?.strip_prefix('='));
        assert_eq!(value("--policy"), Some("https://files.example.com/bundle.tar.gz"), "{name}");
        let is_mounted = |flag: &str| {
            let file = value(flag).unwrap_or_else(|| panic!("{name}: no {flag}"));
            assert!(
                mounts.iter().any(|mount| file.starts_with(mount)),
                "{name}: {file} is not mounted"
            );
        };
        is_mounted("--bundle-public-key");
        is_mounted("--bundle-cache");
        if name.starts_with("helm") {
            is_mounted("--bundle-credentials");
            is_mounted("--bundle-ca");
            assert_eq!(
                args.iter().filter(|arg| arg.starts_with("--bundle-public-key=")).count(),
                2
            );
            assert!(of_kind(manifests, "ConfigMap").is_empty(), "{name}");
        }
        assert!(!mounts.contains(&"/etc/rolegate/policy".to_owned()), "{name}");
        let writable = container["volumeMounts"]
            .as_array()
            .unwrap()
            .iter()
            .filter(|mount| mount["readOnly"] != true);
        let writable: Vec<&Value> = writable.map(|mount| &mount["mountPath"]).collect();
        assert_eq!(writable, ["/var/lib/rolegate"], "{name}");
    }
}

/// A chart that nobody has configured allows nobody anything.
#[test]
fn the_policy_of_an_empty_chart_allows_nothing() {
    let policy = of_kind(&one("helm default").manifests, "ConfigMap");
    assert_eq!(policy.len(), 1);
    assert_eq!(policy.first().unwrap()["data"]["policy.yaml"], "version: 1\n");
}

/// The versions that are fetched are those that are looked for.
#[test]
fn the_versions_of_the_tools_are_the_same_everywhere() {
    let root = deploy("..");
    let makefile = std::fs::read_to_string(root.join("Makefile")).unwrap();
    let version = |name: &str| {
        let start = format!("{name} := ");
        makefile.lines().find_map(|line| line.strip_prefix(&start)).unwrap().to_owned()
    };
    let code = std::fs::read_to_string(root.join("crates/testbed/src/manifests.rs")).unwrap();
    assert!(code.contains(&format!(".tools/kubernetes-validate-{}\"", version("SCHEMAS_VERSION"))));
    let (helm, kustomize) = (version("HELM_VERSION"), version("KUSTOMIZE_VERSION"));
    assert!(code.contains(&format!(".tools/helm-{helm}-kustomize-{kustomize}/bin\"")));
}
