//! Deployment options for Envoys that people already have (Istio, Envoy Gateway): each fails
//! closed.

use serde_json::Value;
use testbed::manifests::deploy;

use crate::variants::{of_kind, one};

fn manifests(path: &str) -> &'static [Value] {
    &one(&deploy(path).display().to_string()).manifests
}

/// Istio's default timeout is ten minutes.
#[test]
fn istio_names_the_provider_with_a_timeout() {
    let mesh = &manifests("istio/mesh.yaml").first().unwrap()["spec"]["meshConfig"];
    let provider = &mesh["extensionProviders"][0];
    let ext_authz = &provider["envoyExtAuthzGrpc"];
    assert_eq!((&ext_authz["timeout"], &ext_authz["failOpen"]), (&"2s".into(), &false.into()));
    assert_eq!(mesh["pathNormalization"]["normalization"], "MERGE_SLASHES");
    let policy = &manifests("istio/authorization.yaml").first().unwrap()["spec"];
    assert_eq!(policy["provider"]["name"], provider["name"]);
    assert_eq!(policy["rules"], serde_json::json!([{}]), "every request is authorized");
}

/// What `SECURITY.md` asks of any Envoy, as far as Envoy Gateway has a setting for it; its schema
/// holds `failOpen` and `statusOnError`.
#[test]
fn envoy_gateway_leaves_paths_to_rolegate_and_refuses_no_check() {
    let gateway = manifests("envoy-gateway/rolegate.yaml");
    let path = &of_kind(gateway, "ClientTrafficPolicy").first().unwrap()["spec"]["path"];
    assert_eq!(path["escapedSlashesAction"], "RejectRequest");
    assert_eq!(path["disableMergeSlashes"], false);
    let grpc = &of_kind(gateway, "SecurityPolicy").first().unwrap()["spec"]["extAuth"]["grpc"];
    let most = &grpc["backendSettings"]["circuitBreaker"]["maxParallelRequests"];
    assert!(most.as_u64().unwrap() > 1024, "the 1025th check is refused");
}

/// Both use the Service that the overlay makes.
#[test]
fn istio_and_envoy_gateway_use_the_shared_service() {
    let services = of_kind(&one("overlays/shared").manifests, "Service");
    let mesh = services.iter().find(|service| service["metadata"]["name"] == "rolegate").unwrap();
    assert!(mesh["spec"]["clusterIP"].is_null(), "Istio does not balance over a headless one");
    let provider = &manifests("istio/mesh.yaml").first().unwrap()["spec"]["meshConfig"]["extensionProviders"]
        [0];
    assert_eq!(provider["envoyExtAuthzGrpc"]["service"], "rolegate.rolegate.svc.cluster.local");
    assert_eq!(provider["envoyExtAuthzGrpc"]["port"], mesh["spec"]["ports"][0]["port"]);
    let gateway = manifests("envoy-gateway/rolegate.yaml");
    let policies = of_kind(gateway, "SecurityPolicy");
    let policy = policies.first().unwrap();
    let backend = &policy["spec"]["extAuth"]["grpc"]["backendRefs"][0];
    assert_eq!(
        (&backend["name"], &backend["port"]),
        (&mesh["metadata"]["name"], &mesh["spec"]["ports"][0]["port"])
    );
    let grants = of_kind(gateway, "ReferenceGrant");
    let grant = grants.first().unwrap();
    assert_eq!(grant["metadata"]["namespace"], backend["namespace"]);
    assert_eq!(grant["spec"]["from"][0]["namespace"], policy["metadata"]["namespace"]);
}

/// What Istio's injection makes of the annotations is not tested here: only that they name what is
/// there.
#[test]
fn istio_mounts_the_library_the_policy_and_the_users_into_the_proxy() {
    let manifests = manifests("istio/module.yaml");
    let deployments = of_kind(manifests, "Deployment");
    let template = &deployments.first().unwrap()["spec"]["template"];
    let annotation = |name: &str| template["metadata"]["annotations"][name].as_str().unwrap();
    let mounts: Value =
        serde_json::from_str(annotation("sidecar.istio.io/userVolumeMount")).unwrap();
    let mounts = mounts.as_array().unwrap();
    let mounted = |path: &str| mounts.iter().find(|mount| mount["mountPath"] == path).unwrap();
    assert!(
        annotation("proxy.istio.io/config").contains("ENVOY_DYNAMIC_MODULES_SEARCH_PATH: /modules")
    );
    let init = &template["spec"]["initContainers"][0]["volumeMounts"][0];
    assert_eq!(mounted("/modules")["name"], init["name"]);
    let volumes = template["spec"]["volumes"].as_array().unwrap();
    for mount in mounts {
        assert_eq!(mount["readOnly"], true, "{mount}");
        assert!(volumes.iter().any(|volume| volume["name"] == mount["name"]), "{mount}");
    }
    let filter = of_kind(manifests, "EnvoyFilter");
    let spec = &filter.first().unwrap()["spec"];
    assert_eq!(spec["workloadSelector"]["labels"], template["metadata"]["labels"]);
    let patch = &spec["configPatches"][0]["patch"]["value"]["typed_config"];
    assert_eq!(patch["dynamic_module_config"]["do_not_close"], true);
    assert_eq!(
        patch["filter_config"]["value"]["policy"],
        mounted("/etc/rolegate/policy")["mountPath"]
    );
}

#[test]
fn envoy_gateway_mounts_the_library_the_policy_and_the_users_into_the_proxy() {
    let manifests = manifests("envoy-gateway/module.yaml");
    let proxy = &of_kind(manifests, "EnvoyProxy").first().unwrap()["spec"];
    let policy = &of_kind(manifests, "EnvoyExtensionPolicy").first().unwrap()["spec"];
    let (module, filter) = (&proxy["dynamicModules"][0], &policy["dynamicModule"][0]);
    assert_eq!((&module["name"], &filter["filterName"]), (&filter["name"], &filter["name"]));
    let deployment = &proxy["provider"]["kubernetes"]["envoyDeployment"];
    let mounts = deployment["container"]["volumeMounts"].as_array().unwrap();
    let folder = deployment["initContainers"][0]["volumeMounts"][0]["mountPath"].as_str().unwrap();
    assert_eq!(module["source"]["local"]["path"], format!("{folder}/librolegate.so"));
    for path in [folder, filter["config"]["policy"].as_str().unwrap(), "/etc/rolegate/users"] {
        assert!(
            mounts.iter().any(|mount| mount["mountPath"] == path && mount["readOnly"] == true),
            "{path}"
        );
    }
    let volumes = deployment["pod"]["volumes"].as_array().unwrap();
    assert!(
        mounts.iter().all(|mount| volumes.iter().any(|volume| volume["name"] == mount["name"]))
    );
}

/// A plain Envoy balances over the headless one.
#[test]
fn the_headless_service_is_headless() {
    let services = of_kind(&one("overlays/shared").manifests, "Service");
    let headless =
        services.iter().find(|service| service["metadata"]["name"] == "rolegate-headless").unwrap();
    assert_eq!(headless["spec"]["clusterIP"], "None");
    let maps = of_kind(&one("examples/shared").manifests, "ConfigMap");
    let envoy = maps.first().unwrap()["data"]["envoy.yaml"].as_str().unwrap();
    assert!(envoy.contains("rolegate-headless.rolegate.svc.cluster.local."));
}

/// The units of systemd: what they promise stands in them.
#[test]
fn the_units_are_hardened() {
    let rolegate = std::fs::read_to_string(deploy("systemd/rolegate.service")).unwrap();
    let envoy = std::fs::read_to_string(deploy("systemd/envoy-rolegate.service")).unwrap();
    for line in [
        "User=rolegate",
        "NoNewPrivileges=true",
        "CapabilityBoundingSet=",
        "ProtectSystem=strict",
        "ProtectHome=true",
        "PrivateDevices=true",
        "MemoryDenyWriteExecute=true",
        "RestrictNamespaces=true",
        "SystemCallFilter=@system-service",
        "RuntimeDirectory=rolegate",
        "RuntimeDirectoryMode=0750",
    ] {
        for unit in [&rolegate, &envoy] {
            assert!(unit.lines().any(|present| present == line), "no `{line}`");
        }
    }
    assert!(
        envoy.contains("\nEnvironment=ENVOY_DYNAMIC_MODULES_SEARCH_PATH=/usr/local/lib/rolegate\n")
    );
    let start = rolegate.lines().find(|line| line.starts_with("ExecStart=")).unwrap();
    assert!(start.contains("--listen unix:/run/rolegate/rolegate.sock"), "{start}");
}
