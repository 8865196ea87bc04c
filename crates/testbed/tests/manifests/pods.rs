//! Every pod keeps to the Pod Security level `restricted`, and to more.

use serde_json::{Value, json};
use testbed::manifests::deploy;

use crate::variants::{Variant, all, one};

/// Where kinds that make pods have them.
pub(crate) fn pod(manifest: &Value) -> Option<&Value> {
    match manifest["kind"].as_str().unwrap() {
        "Deployment" | "StatefulSet" | "DaemonSet" | "Job" => {
            Some(&manifest["spec"]["template"]["spec"])
        }
        "Pod" => Some(&manifest["spec"]),
        "CronJob" => Some(&manifest["spec"]["jobTemplate"]["spec"]["template"]["spec"]),
        _ => None,
    }
}

fn each_pod(test: impl Fn(&str, &Value)) {
    let mut pods = 0;
    for Variant { name, manifests } in all() {
        for (manifest, pod) in
            manifests.iter().filter_map(|manifest| Some((manifest, pod(manifest)?)))
        {
            test(&format!("{name}: {}", manifest["metadata"]["name"]), pod);
            pods += 1;
        }
    }
    assert!(pods >= 8, "only {pods} pods were found");
}

/// All containers of a pod, those that are sidecars too.
pub(crate) fn containers(pod: &Value) -> impl Iterator<Item = &Value> {
    ["initContainers", "containers"]
        .into_iter()
        .flat_map(|kind| pod[kind].as_array().into_iter().flatten())
}

fn each_container(test: impl Fn(&str, &Value, &Value)) {
    each_pod(|at, pod| {
        containers(pod)
            .for_each(|container| test(&format!("{at}: {}", container["name"]), pod, container))
    });
}

/// Kubernetes, "Pod Security Standards", `restricted`.
#[test]
fn pods_are_restricted() {
    each_pod(|at, pod| {
        for shared in ["hostNetwork", "hostPID", "hostIPC"] {
            assert!(pod[shared].is_null(), "{at}: {shared}");
        }
        for volume in pod["volumes"].as_array().into_iter().flatten() {
            let kinds = ["configMap", "secret", "emptyDir", "projected", "downwardAPI"];
            assert!(kinds.iter().any(|kind| !volume[kind].is_null()), "{at}: {volume}");
        }
    });
    each_container(|at, pod, container| {
        let own = &container["securityContext"];
        let whole = &pod["securityContext"];
        let either = |name: &str| if own[name].is_null() { &whole[name] } else { &own[name] };
        assert_eq!(*either("runAsNonRoot"), true, "{at}: runAsNonRoot");
        assert_ne!(*either("runAsUser"), 0, "{at}: runAsUser");
        assert_eq!(either("seccompProfile")["type"], "RuntimeDefault", "{at}: seccompProfile");
        assert_eq!(own["allowPrivilegeEscalation"], false, "{at}: allowPrivilegeEscalation");
        assert_eq!(own["capabilities"], json!({ "drop": ["ALL"] }), "{at}: capabilities");
        assert!(own["privileged"].is_null(), "{at}: privileged");
        for port in container["ports"].as_array().into_iter().flatten() {
            assert!(port["hostPort"].is_null(), "{at}: hostPort");
        }
    });
}

/// What `restricted` does not ask for.
#[test]
fn pods_have_no_token_and_write_nowhere() {
    each_pod(|at, pod| assert_eq!(pod["automountServiceAccountToken"], false, "{at}: a token"));
    each_container(|at, _, container| {
        assert_eq!(
            container["securityContext"]["readOnlyRootFilesystem"], true,
            "{at}: it can write"
        );
        for bound in ["requests", "limits"] {
            for resource in ["cpu", "memory"] {
                assert!(
                    !container["resources"][bound][resource].is_null(),
                    "{at}: no {bound} of {resource}"
                );
            }
        }
    });
}

/// What runs tomorrow under the same name is what was tested.
#[test]
fn images_have_a_version() {
    each_container(|at, _, container| {
        let image = container["image"].as_str().unwrap();
        let name = image.rsplit('/').next().unwrap();
        let version = name.split_once(['@', ':']).map(|(_, version)| version);
        assert!(version.is_some_and(|version| version != "latest"), "{at}: {image}");
    });
}

/// Those that serve: variant, pod and container. A Job that measures one ends by itself.
fn rolegates() -> Vec<(String, &'static Value, &'static Value)> {
    let mut found = Vec::new();
    for Variant { name, manifests } in all() {
        for pod in manifests.iter().filter(|manifest| manifest["kind"] != "Job").filter_map(pod) {
            let own = containers(pod).filter(|container| container["name"] == "rolegate");
            found.extend(own.map(|container| (name.clone(), pod, container)));
        }
    }
    assert!(found.len() >= 6, "only {} rolegates were found", found.len());
    found
}

#[test]
fn rolegate_has_probes() {
    for (at, _, container) in rolegates() {
        for probe in ["startupProbe", "readinessProbe", "livenessProbe"] {
            assert!(!container[probe].is_null(), "{at}: no {probe}");
        }
        let live = json!({ "command": ["/rolegate", "health", "--live"] });
        for probe in ["startupProbe", "livenessProbe"] {
            assert_eq!(
                container[probe]["exec"], live,
                "{at}: {probe}: what is not ready is no reason to kill it"
            );
        }
        assert_ne!(
            container["readinessProbe"]["exec"], live,
            "{at}: it gets requests before it is ready"
        );
        let user = &container["securityContext"]["runAsUser"];
        assert!(user.is_null() || *user == 65532, "{at}: {user}");
    }
}

/// A client that reaches the listener of the probes can keep it busy, so Prometheus has a listener
/// of its own.
#[test]
fn probes_are_apart_from_what_others_reach() {
    let mut found = 0;
    each_container(|at, _, container| {
        if container["name"] != "rolegate" {
            return;
        }
        let arguments: Vec<String> =
            container["args"].as_array().unwrap().iter().map(text).collect();
        let of = |flag: &str| {
            arguments
                .iter()
                .filter(|argument| argument.starts_with(flag))
                .cloned()
                .collect::<Vec<_>>()
        };
        assert_eq!(of("--admin"), ["--admin=127.0.0.1:9192"], "{at}");
        for probe in ["startupProbe", "readinessProbe", "livenessProbe"] {
            let probe = &container[probe];
            for from_outside in ["httpGet", "tcpSocket"] {
                assert!(probe[from_outside].is_null(), "{at}: {probe}");
            }
            // The gRPC listener says itself whether it is well.
            let asks = &probe["grpc"]["port"];
            let own = of("--listen") == [format!("--listen=0.0.0.0:{asks}")];
            assert!(probe["grpc"].is_null() || own, "{at}: {probe}");
        }
        for port in container["ports"].as_array().into_iter().flatten() {
            assert_ne!(port["containerPort"], 9192, "{at}: the admin pages are for nobody outside");
            if port["name"] == "authz-metrics" {
                let here = format!("--metrics=0.0.0.0:{}", port["containerPort"]);
                assert_eq!(of("--metrics"), [here], "{at}");
            }
        }
    });
    let monitor = &one(&deploy("prometheus/podmonitor.yaml").display().to_string()).manifests;
    let endpoint = &monitor.first().unwrap()["spec"]["podMetricsEndpoints"][0];
    assert_eq!(endpoint["port"], "authz-metrics", "the PodMonitor");
    for (at, _, container) in rolegates() {
        let ports = container["ports"].as_array().unwrap();
        assert!(
            ports.iter().any(|port| port["name"] == "authz-metrics"),
            "{at}: Prometheus finds no port"
        );
        found += 1;
    }
    assert!(found >= 6, "only {found} rolegates were found");
}

/// A native sidecar is up before what comes after it, and Envoy does.
#[test]
fn rolegate_starts_before_the_envoy_beside_it() {
    let mut sidecars = 0;
    for (at, pod, rolegate) in rolegates() {
        let names: Vec<&str> =
            containers(pod).map(|container| container["name"].as_str().unwrap()).collect();
        let Some(envoy) = names.iter().position(|name| *name == "envoy") else { continue };
        let own = names.iter().position(|name| *name == "rolegate").unwrap();
        assert!(own < envoy, "{at}: {names:?}");
        assert_eq!(rolegate["restartPolicy"], "Always", "{at}");
        sidecars += 1;
    }
    assert!(sidecars >= 2, "only {sidecars} pods with both");
}

/// The application must not be able to answer Envoy itself.
#[test]
fn only_envoy_and_rolegate_have_the_socket() {
    for (at, pod, _) in rolegates() {
        for container in containers(pod) {
            let mounts = container["volumeMounts"].as_array().into_iter().flatten();
            let has = mounts.into_iter().any(|mount| mount["mountPath"] == "/run/rolegate");
            let name = container["name"].as_str().unwrap();
            assert!(
                !has || ["envoy", "rolegate"].contains(&name),
                "{at}: {name} has rolegate's socket"
            );
        }
    }
}

/// Envoy needs the library when it starts. Whoever may write to its volume runs code in Envoy.
#[test]
fn the_library_is_there_before_envoy_which_alone_reads_it() {
    let mut found = 0;
    for Variant { name, manifests } in all() {
        for pod in
            manifests.iter().filter_map(pod).filter(|pod| found_modules(pod).next().is_some())
        {
            let names: Vec<&str> =
                containers(pod).map(|container| container["name"].as_str().unwrap()).collect();
            // Istio adds its own Envoy, which a test of its manifests is about.
            let Some(envoy) = names.iter().position(|name| *name == "envoy") else { continue };
            let library = names.iter().position(|name| *name == "rolegate-module").unwrap();
            assert!(library < envoy, "{name}: {names:?}");
            let mounts = |container: &str| {
                let container = containers(pod).find(|each| each["name"] == container).unwrap();
                container["volumeMounts"].as_array().cloned().unwrap_or_default()
            };
            let library = |mount: &&Value| mount["mountPath"] == "/modules";
            let volume = mounts("rolegate-module").iter().find(library).unwrap()["name"].clone();
            for container in &names {
                let mounts = mounts(container);
                let mount = mounts.iter().find(|mount| mount["name"] == volume);
                match *container {
                    "rolegate-module" => assert!(mount.is_some(), "{name}"),
                    "envoy" => assert_eq!(mount.unwrap()["readOnly"], true, "{name}"),
                    other => assert!(mount.is_none(), "{name}: {other} has the library"),
                }
            }
            let envoy = containers(pod).find(|each| each["name"] == "envoy").unwrap();
            let searched =
                json!({ "name": "ENVOY_DYNAMIC_MODULES_SEARCH_PATH", "value": "/modules" });
            assert!(
                envoy["env"].as_array().unwrap().contains(&searched),
                "{name}: {}",
                envoy["env"]
            );
            assert_eq!(envoy["readinessProbe"]["httpGet"]["path"], "/readyz", "{name}");
            let ports = envoy["ports"].as_array().unwrap();
            let metrics = ports.iter().find(|port| port["name"] == "authz-metrics").unwrap();
            assert_eq!(metrics["containerPort"], 9902, "{name}: Prometheus finds no port");
            found += 1;
        }
    }
    assert!(found >= 3, "only {found} pods have the library");
}

/// The init containers of a pod that copy the library.
fn found_modules(pod: &Value) -> impl Iterator<Item = &Value> {
    let first = pod["initContainers"].as_array().into_iter().flatten();
    first.filter(|container| container["name"] == "rolegate-module")
}

/// Two deployment options for the same: the overlay and the chart run rolegate in the same way.
#[test]
fn the_chart_and_the_overlays_run_rolegate_alike() {
    let of = |variant: &str| {
        let found = rolegates().into_iter().find(|(name, ..)| name == variant);
        let (_, pod, container) = found.unwrap_or_else(|| panic!("no rolegate in {variant}"));
        let mut container = container.clone();
        let mut arguments: Vec<String> =
            container["args"].as_array().unwrap().iter().map(text).collect();
        arguments.sort();
        container["args"] = json!(arguments);
        (pod.clone(), container)
    };
    let (mut overlay, shared) = of("overlays/shared");
    let (mut chart, released) = of("helm default");
    // The default chart has no users, and so no Secret.
    let without = |mut container: Value| {
        container["volumeMounts"].as_array_mut().unwrap().retain(|mount| mount["name"] == "policy");
        container
    };
    assert_eq!(without(shared), without(released));
    for pod in [&mut overlay, &mut chart] {
        for own in ["containers", "volumes", "serviceAccountName", "topologySpreadConstraints"] {
            pod[own] = Value::Null;
        }
    }
    assert_eq!(overlay, chart);
    assert_eq!(of("examples/sidecar").1, of("helm example").1);
    let library = |variant: &str| {
        let mut pods = one(variant).manifests.iter().filter_map(pod);
        pods.find_map(|pod| found_modules(pod).next())
            .unwrap_or_else(|| panic!("no library in {variant}"))
    };
    assert_eq!(library("examples/module"), library("helm example module"));
}

/// The pods that a node drains may be all that an Envoy knows: they answer until it knows others.
#[test]
fn a_deleted_replica_answers_until_envoys_know_another() {
    let mut found = 0;
    for (at, pod, container) in rolegates() {
        // A sidecar is told to stop when its Envoy has ended.
        if container["restartPolicy"] == "Always" {
            continue;
        }
        let sleep = &container["lifecycle"]["preStop"]["sleep"]["seconds"];
        // 30 s in a cache of DNS, and 5 s until Envoy asks again.
        assert!(sleep.as_u64().is_some_and(|seconds| seconds >= 35), "{at}: {sleep}");
        let arguments: Vec<String> =
            container["args"].as_array().unwrap().iter().map(text).collect();
        let drain =
            arguments.iter().filter_map(|flag| flag.strip_prefix("--drain-")?.split_once('='));
        let drain: u64 =
            drain.map(|(_, time)| time.strip_suffix('s').unwrap().parse::<u64>().unwrap()).sum();
        let time = pod["terminationGracePeriodSeconds"].as_u64().unwrap();
        assert!(drain > 0 && time > sleep.as_u64().unwrap() + drain, "{at}: {time}");
        found += 1;
    }
    assert!(found >= 5, "only {found} shared rolegates were found");
}

fn text(value: &Value) -> String {
    value.as_str().unwrap().to_owned()
}
