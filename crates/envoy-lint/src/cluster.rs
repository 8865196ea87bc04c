//! The cluster that checks are sent to, and clusters whose address a client names.

use document::{View, closest};

use crate::values::{LINT_DUMP, unless_off};
use crate::{Findings, Kind, client_routing, transport};

/// What Envoy allows by default: requests in flight, and retries.
const DEFAULT_REQUESTS: u64 = 1024;
const DEFAULT_RETRIES: u64 = 3;

/// Whether this value, under this key, is a cluster.
pub(crate) fn is_cluster(view: &View<'_>, key: &str) -> bool {
    let typed = view.text_of("@type").is_some_and(|name| name.ends_with("envoy.config.cluster.v3.Cluster"));
    view.get("name").is_some() && (typed || key == "clusters" || view.get("load_assignment").is_some())
}

/// Whether this value, under this key, has the endpoints of a cluster from a control plane.
pub(crate) fn are_endpoints(view: &View<'_>, key: &str) -> bool {
    let kind = view.text_of("@type").unwrap_or_default();
    view.get("cluster_name").is_some()
        && (kind.ends_with("envoy.config.endpoint.v3.ClusterLoadAssignment") || key == "endpoint_config")
}

/// The name under which a control plane or `/config_dump` has the endpoints of a cluster.
pub(crate) fn name_of_endpoints<'n>(cluster: &View<'n>) -> Option<&'n str> {
    let service = cluster.at(&["eds_cluster_config", "service_name"]).and_then(|name| name.text());
    service.filter(|name| !name.is_empty()).or_else(|| cluster.text_of("name"))
}

/// Whether a client can name the address: in the authority, the server name of TLS, or a header.
pub(crate) fn has_any_address(cluster: &View<'_>) -> bool {
    let kind = cluster.at(&["cluster_type", "typed_config", "@type"]);
    kind.is_some_and(|kind| kind.text().is_some_and(|kind| kind.contains(".dynamic_forward_proxy.")))
        || address_by_header(cluster).is_some()
}

/// The HTTP filters that requests to a cluster pass (`HttpProtocolOptions`).
pub(crate) fn filters<'n>(cluster: &View<'n>) -> Vec<View<'n>> {
    let options = cluster.get("typed_extension_protocol_options");
    let options = options.map(|options| options.named_entries()).unwrap_or_default();
    options.iter().flat_map(|(_, options)| options.list("http_filters")).collect()
}

/// What says that a header of the request has the address, and the name of that header.
fn address_by_header<'n>(cluster: &View<'n>) -> Option<(View<'n>, &'n str)> {
    let config = cluster.get("original_dst_lb_config")?;
    let setting = unless_off(&config, "use_http_header")?;
    let name = config.text_of("http_header_name").filter(|name| !name.is_empty());
    Some((setting, name.unwrap_or("x-envoy-original-dst-host")))
}

/// Reports that a header of the client has the address of this cluster, which routes with authorization lead to. A dynamic
/// forward proxy is no such cluster: it takes the host by which the policy has decided.
pub(crate) fn lint_address(cluster: &View<'_>, findings: &mut Findings) {
    if let Some(key) = cluster.at(&["original_dst_lb_config", "metadata_key"]) {
        client_routing::by("metadata (filters take it from headers, for example)", &key, findings);
    }
    let Some((setting, header)) = address_by_header(cluster) else { return };
    let message = format!(
        "a client names by `{header}` which address gets the request, and the policy decides by the host that it was sent to"
    );
    let fix = "use_http_header: false; or let the policy set or remove the header and accept this";
    findings.add(&setting, Kind::ClientRouting, message, fix);
}

/// Reports what is wrong with the clusters that checks are sent to, by each `GrpcService`. `are_all`: whether Envoy gets
/// no further ones. `endpoints` and `secrets` are those of all documents.
pub(crate) fn lint<'n>(
    services: &[View<'n>],
    (clusters, are_all): (&[&View<'n>], bool),
    endpoints: &[&View<'n>],
    secrets: &[&View<'n>],
    findings: &mut Findings,
) {
    for service in services {
        if let Some(google) = service.get("google_grpc") {
            lint_google(&google, findings);
            transport::lint_google(&google, findings);
        }
        let Some(name) = service.at(&["envoy_grpc", "cluster_name"]) else { continue };
        let cluster = clusters.iter().find(|cluster| cluster.text_of("name") == name.text());
        let Some(cluster) = cluster else {
            if are_all {
                lint_missing(&name, clusters, findings);
                continue;
            }
            let message = "this cluster is not in this file: its protocol and its limits cannot be seen";
            findings.add(&name, Kind::UnseenCluster, message, LINT_DUMP);
            continue;
        };
        lint_protocol(cluster, findings);
        // One finding for the cluster, whichever of its services it is found by.
        let mut same = services.iter().filter(|other| {
            other.at(&["envoy_grpc", "cluster_name"]).is_some_and(|other| other.text() == name.text())
        });
        let retries = same.any(|service| service.get("retry_policy").is_some());
        lint_limits(cluster, retries, findings);
        lint_health(cluster, findings);
        let name = name_of_endpoints(cluster);
        let mut own = endpoints.to_vec();
        own.retain(|endpoints| name.is_some() && endpoints.text_of("cluster_name") == name);
        transport::lint(cluster, &own, secrets, findings);
    }
}

fn lint_missing(name: &View<'_>, clusters: &[&View<'_>], findings: &mut Findings) {
    let missing = name.text().unwrap_or_default();
    let message = format!(
        "there is no cluster `{missing}` here, and this bootstrap gets none from elsewhere (`cds_config`): every check fails"
    );
    let names = clusters.iter().filter_map(|cluster| cluster.text_of("name"));
    let fix = closest(missing, names).map_or_else(
        || format!("add a cluster `{missing}` to `static_resources`"),
        |near| format!("cluster_name: {near}"),
    );
    findings.add(name, Kind::MissingCluster, message, fix);
}

/// Google's client library sends the path of a Unix socket as authority, which is no host.
fn lint_google(google: &View<'_>, findings: &mut Findings) {
    let Some(target) = google.get("target_uri") else { return };
    let has_authority = google.at(&["channel_args", "args", "grpc.default_authority"]).is_some();
    if target.text().is_some_and(|text| text.starts_with("unix:")) && !has_authority {
        findings.report(&target, Kind::GoogleGrpc);
    }
}

fn lint_protocol(cluster: &View<'_>, findings: &mut Findings) {
    let options = cluster.get("typed_extension_protocol_options");
    let has_http2 =
        |options: &View<'_>| options.at(&["explicit_http_config", "http2_protocol_options"]).is_some();
    let options = options.map(|options| options.named_entries()).unwrap_or_default();
    let by_options = options.iter().any(|(_, options)| has_http2(options));
    if !by_options && cluster.get("http2_protocol_options").is_none() {
        findings.report(cluster, Kind::Http1Cluster);
    }
}

fn lint_limits(cluster: &View<'_>, retries: bool, findings: &mut Findings) {
    let thresholds = cluster.at(&["circuit_breakers", "thresholds"]);
    let all = thresholds.as_ref().map(View::one_or_more).unwrap_or_default();
    let own = all.iter().find(|one| one.text_of("priority").is_none_or(|priority| priority == "DEFAULT"));
    let number = |key: &str| own.and_then(|own| own.text_of(key)).and_then(|text| text.parse::<u64>().ok());
    let low = |key: &str, default: u64| number(key).is_none_or(|number| number <= default);
    let has_budget = own.is_some_and(|own| own.get("retry_budget").is_some());
    let mut limits = Vec::new();
    for (key, default, counts) in [
        ("max_requests", DEFAULT_REQUESTS, true),
        ("max_pending_requests", DEFAULT_REQUESTS, true),
        ("max_retries", DEFAULT_RETRIES, retries && !has_budget),
    ] {
        if counts && low(key, default) {
            limits.push((key, number(key).unwrap_or(default)));
        }
    }
    if limits.is_empty() {
        return;
    }
    let listed: Vec<String> = limits.iter().map(|(key, number)| format!("`{key}` is {number}")).collect();
    let message = format!(
        "checks beyond these limits fail, so a burst of clients causes errors: {}",
        listed.join(", ")
    );
    let fix = "circuit_breakers: { thresholds: [{ max_requests: 100000, max_pending_requests: 100000, max_retries: 100000 }] }";
    findings.add(thresholds.as_ref().unwrap_or(cluster), Kind::CircuitBreakers, message, fix);
}

fn lint_health(cluster: &View<'_>, findings: &mut Findings) {
    if cluster.list("health_checks").is_empty() {
        findings.report(cluster, Kind::NoHealthChecks);
    }
}
