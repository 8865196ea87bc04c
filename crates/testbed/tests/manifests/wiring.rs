//! What a manifest names is there.

use serde_json::Value;
use testbed::manifests::deploy;

use crate::pods::containers;
use crate::variants::{Variant, all, of_kind, one};

/// The shared service, as it ships, from kustomize and from Helm.
const SHARED: &[&str] =
    &["overlays/shared", "overlays/shared-monitored", "helm default", "helm everything"];

/// Whether `labels` have all of `selector`.
fn selects(selector: &Value, labels: &Value) -> bool {
    let selector = selector.as_object().unwrap();
    !selector.is_empty() && selector.iter().all(|(name, value)| labels[name] == *value)
}

#[test]
fn selectors_find_the_pods() {
    for name in SHARED {
        let manifests = &one(name).manifests;
        let deployments = of_kind(manifests, "Deployment");
        let template = &deployments.first().unwrap()["spec"]["template"];
        let labels = &template["metadata"]["labels"];
        let spec = &deployments.first().unwrap()["spec"];
        assert!(selects(&spec["selector"]["matchLabels"], labels), "{name}: Deployment");
        for service in of_kind(manifests, "Service") {
            assert!(
                selects(&service["spec"]["selector"], labels),
                "{name}: {}",
                service["metadata"]["name"]
            );
        }
        for kind in ["PodDisruptionBudget", "NetworkPolicy"] {
            let found = of_kind(manifests, kind);
            let spec = &found.first().unwrap_or_else(|| panic!("{name}: no {kind}"))["spec"];
            let selector =
                if kind == "NetworkPolicy" { &spec["podSelector"] } else { &spec["selector"] };
            assert!(selects(&selector["matchLabels"], labels), "{name}: {kind}");
        }
        for constraint in template["spec"]["topologySpreadConstraints"].as_array().unwrap() {
            assert!(selects(&constraint["labelSelector"]["matchLabels"], labels), "{name}: spread");
        }
        let scaled = of_kind(manifests, "HorizontalPodAutoscaler");
        let target = &scaled.first().unwrap()["spec"]["scaleTargetRef"];
        assert_eq!(
            target["name"],
            deployments.first().unwrap()["metadata"]["name"],
            "{name}: autoscaler"
        );
        let target =
            &scaled.first().unwrap()["spec"]["metrics"][0]["resource"]["target"]["averageValue"];
        let limit = &containers(&template["spec"]).next().unwrap()["resources"]["limits"]["cpu"];
        let cores = |quantity: &Value| {
            let text = quantity.as_str().map_or_else(|| quantity.to_string(), str::to_owned);
            let thousandths =
                text.strip_suffix('m').map(|number| number.parse::<f64>().unwrap() / 1000.0);
            thousandths.unwrap_or_else(|| text.parse().unwrap())
        };
        // A replica is added where a tenth more than the target is used.
        assert!(1.1 * cores(target) < cores(limit), "{name}: {target} of {limit}");
        // Two who hold the same number would fight over it.
        assert!(spec["replicas"].is_null(), "{name}: replicas beside an autoscaler");
    }
}

#[test]
fn monitors_find_one_service() {
    for name in ["overlays/shared-monitored", "helm everything"] {
        let manifests = &one(name).manifests;
        let monitors = of_kind(manifests, "ServiceMonitor");
        let spec = &monitors.first().unwrap()["spec"];
        let services = of_kind(manifests, "Service");
        let found: Vec<&&Value> = services
            .iter()
            .filter(|service| {
                selects(&spec["selector"]["matchLabels"], &service["metadata"]["labels"])
            })
            .collect();
        assert_eq!(found.len(), 1, "{name}: each replica is scraped once");
        let port = &spec["endpoints"][0]["port"];
        let ports = found.first().unwrap()["spec"]["ports"].as_array().unwrap();
        assert!(ports.iter().any(|listed| listed["name"] == *port), "{name}: no port {port}");
        let job = &found.first().unwrap()["metadata"]["labels"][spec["jobLabel"].as_str().unwrap()];
        assert_eq!(job, "rolegate", "{name}: the alerts look for this job");
    }
}

#[test]
fn ports_have_the_names_that_are_used() {
    for Variant { name, manifests } in all() {
        for deployment in of_kind(manifests, "Deployment") {
            let pod = &deployment["spec"]["template"]["spec"];
            let names: Vec<&Value> = containers(pod)
                .flat_map(|container| container["ports"].as_array().into_iter().flatten())
                .map(|port| &port["name"])
                .collect();
            let own = &deployment["spec"]["template"]["metadata"]["labels"];
            let services = of_kind(manifests, "Service");
            let services =
                services.iter().filter(|service| selects(&service["spec"]["selector"], own));
            for port in services.flat_map(|service| service["spec"]["ports"].as_array().unwrap()) {
                assert!(
                    port["targetPort"].is_number() || names.contains(&&port["targetPort"]),
                    "{name}: {port}"
                );
            }
        }
    }
}

/// What the schemas do not say and the API server insists on: RFC 6335, 5.1, for the ports of a
/// container.
#[test]
fn port_names_are_at_most_15_characters() {
    for Variant { name, manifests } in all() {
        for deployment in of_kind(manifests, "Deployment") {
            for container in containers(&deployment["spec"]["template"]["spec"]) {
                for port in container["ports"].as_array().into_iter().flatten() {
                    let port = port["name"].as_str().unwrap_or("unnamed");
                    let allowed = |byte: u8| {
                        byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-'
                    };
                    assert!(port.len() <= 15 && port.bytes().all(allowed), "{name}: {port}");
                }
            }
        }
    }
}

/// A volume that names what is not there keeps a pod from starting.
#[test]
fn volumes_name_what_is_there() {
    for Variant { name, manifests } in all() {
        // It names what its user has.
        if ["helm least", "helm bundle"].contains(&&**name) || name.ends_with("istio/module.yaml") {
            continue;
        }
        for deployment in of_kind(manifests, "Deployment") {
            let pod = &deployment["spec"]["template"]["spec"];
            let volumes = pod["volumes"].as_array().map_or(&[][..], Vec::as_slice);
            for volume in volumes {
                let (kind, target) = if volume["configMap"].is_null() {
                    ("Secret", &volume["secret"]["secretName"])
                } else {
                    ("ConfigMap", &volume["configMap"]["name"])
                };
                let there = of_kind(manifests, kind)
                    .iter()
                    .any(|manifest| manifest["metadata"]["name"] == *target);
                assert!(target.is_null() || there, "{name}: no {kind} {target}");
            }
            for mount in containers(pod)
                .flat_map(|container| container["volumeMounts"].as_array().into_iter().flatten())
            {
                assert!(
                    volumes.iter().any(|volume| volume["name"] == mount["name"]),
                    "{name}: no volume {mount}"
                );
                assert!(mount["subPath"].is_null(), "{name}: {mount} would not follow a change");
            }
        }
    }
}

/// The tutorial is the same for both quick starts.
#[test]
fn the_quick_starts_have_the_same_policy_and_users() {
    let of = |name: &str, kind: &str, object: &str| {
        let manifests = &one(&deploy("minikube").join(name).display().to_string()).manifests;
        let found = of_kind(manifests, kind);
        found.into_iter().find(|manifest| manifest["metadata"]["name"] == object).unwrap()
    };
    for (kind, object) in
        [("ConfigMap", "people-policy"), ("Secret", "people-users"), ("Service", "people")]
    {
        assert_eq!(
            of("quick-start.yaml", kind, object),
            of("quick-start-module.yaml", kind, object)
        );
    }
}

/// The pod of a load test without its generators, and their images and targets.
fn load_test(name: &str) -> (Value, Vec<&'static Value>, Vec<&'static str>) {
    let manifests = &one(&deploy("minikube").join(name).display().to_string()).manifests;
    let jobs = of_kind(manifests, "Job");
    let pod = &jobs.first().unwrap()["spec"]["template"]["spec"];
    let generators: Vec<&Value> =
        containers(pod).filter(|container| container["restartPolicy"].is_null()).collect();
    let images = generators.iter().map(|generator| &generator["image"]).collect();
    let arguments = generators.iter().flat_map(|generator| generator["args"].as_array().unwrap());
    let targets = arguments
        .filter_map(Value::as_str)
        .filter(|argument| argument.starts_with("http://"))
        .collect();
    let mut others = pod.clone();
    for kind in ["initContainers", "containers"] {
        others[kind].as_array_mut().unwrap().retain(|container| !generators.contains(&container));
    }
    (others, images, targets)
}

#[test]
fn the_load_tests_differ_only_in_the_generator() {
    let (others, _, targets) = load_test("load.yaml");
    let (others_with_fortio, images, targets_of_fortio) = load_test("load-fortio.yaml");
    assert_eq!((others, targets), (others_with_fortio, targets_of_fortio));
    let makefile = std::fs::read_to_string(deploy("../Makefile")).unwrap();
    for image in images {
        let version = image.as_str().unwrap().strip_prefix("fortio/fortio:").unwrap();
        assert!(makefile.contains(&format!("FORTIO_VERSION := {version}\n")), "{version}");
    }
}

/// The alerts stand in three places, as three kinds of users need them.
#[test]
fn the_alerts_are_the_same_everywhere() {
    let alerts = testbed::manifests::yaml(&deploy("prometheus/alerts.yaml")).unwrap();
    let alerts = &alerts.first().unwrap()["groups"];
    for name in ["overlays/shared-monitored", "helm everything"] {
        let rules = of_kind(&one(name).manifests, "PrometheusRule");
        assert_eq!(rules.first().unwrap()["spec"]["groups"], *alerts, "{name}");
    }
}

/// Only pods with a label of their own may ask, and the example's pods have it.
#[test]
fn the_network_lets_envoys_in_and_nobody_out() {
    let shared = &one("overlays/shared").manifests;
    let policies = of_kind(shared, "NetworkPolicy");
    let spec = &policies.first().unwrap()["spec"];
    assert_eq!(spec["egress"], serde_json::json!([]));
    for rule in spec["ingress"].as_array().unwrap() {
        assert_eq!(rule["from"].as_array().unwrap().len(), 1, "every listener is named");
        assert!(!rule["ports"].as_array().unwrap().is_empty());
    }
    let client = &spec["ingress"][0]["from"][0]["podSelector"]["matchLabels"];
    let example = of_kind(&one("examples/shared").manifests, "Deployment");
    assert!(selects(client, &example.first().unwrap()["spec"]["template"]["metadata"]["labels"]));
}
