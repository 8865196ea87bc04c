//! The cluster that checks are sent to, and clusters whose address a client names.

use document::{View, closest};

use crate::values::{LINT_DUMP, unless_off};
use crate::{Findings, Kind, client_routing, transport};

/// Envoy's defaults: the maximum numbers of requests in flight, and of retries.
const DEFAULT_REQUESTS: u64 = 1024;
const DEFAULT_RETRIES: u64 = 3;

/// The clusters of a configuration.
#[derive(Debug, Default)]
pub(crate) struct Clusters<'n> {
    pub(crate) all: Vec<View<'n>>,
    /// Their endpoints from a control plane.
    pub(crate) endpoints: Vec<View<'n>>,
    pub(crate) is_bootstrap: bool,
    /// Whether Envoy asks elsewhere for clusters.
    pub(crate) gets_more: bool,
}

impl Clusters<'_> {
    /// Whether Envoy gets no further clusters.
    pub(crate) fn are_complete(&self) -> bool {
        self.is_bootstrap && !self.gets_more
    }
}

/// Whether this value, under this key, is a cluster.
pub(crate) fn is_cluster(view: &View<'_>, key: &str) -> bool {
    let typed =
        view.text_of("@type").is_some_and(|name| name.ends_with("envoy.config.cluster.v3.Cluster"));
    view.get("name").is_some()
        && (typed || key == "clusters" || view.get("load_assignment").is_some())
}

/// Whether this value, under this key, has the endpoints of a cluster from a control plane.
pub(crate) fn are_endpoints(view: &View<'_>, key: &str) -> bool {
    let kind = view.text_of("@type").unwrap_or_default();
    view.get("cluster_name").is_some()
        && (kind.ends_with("envoy.config.endpoint.v3.ClusterLoadAssignment")
            || key == "endpoint_config")
}

/// The name under which a control plane or `/config_dump` has the endpoints of a cluster.
pub(crate) fn name_of_endpoints<'n>(cluster: &View<'n>) -> Option<&'n str> {
    let service = cluster.text_of("eds_cluster_config/service_name");
    service.filter(|name| !name.is_empty()).or_else(|| cluster.text_of("name"))
}

/// Whether a client can name the address: in the authority, the server name of TLS, or a header.
pub(crate) fn has_any_address(cluster: &View<'_>) -> bool {
    let kind = cluster.text_of("cluster_type/typed_config/@type");
    kind.is_some_and(|kind| kind.contains(".dynamic_forward_proxy."))
        || address_by_header(cluster).is_some()
}

/// The HTTP filters that requests to a cluster pass (`HttpProtocolOptions`).
pub(crate) fn filters<'n>(cluster: &View<'n>) -> Vec<View<'n>> {
    let options = cluster.named_entries_of("typed_extension_protocol_options");
    options.iter().flat_map(|(_, options)| options.list("http_filters")).collect()
}

/// The setting by which a header of the request has the address, and the name of that header.
fn address_by_header<'n>(cluster: &View<'n>) -> Option<(View<'n>, &'n str)> {
    let config = cluster.get("original_dst_lb_config")?;
    let setting = unless_off(&config, "use_http_header")?;
    let name = config.text_of("http_header_name").filter(|name| !name.is_empty());
    Some((setting, name.unwrap_or("x-envoy-original-dst-host")))
}

/// Reports that a header of the client has the address of this cluster, which routes with
/// authorization lead to. A dynamic forward proxy is no such cluster: it takes the host by which
/// the policy has decided.
pub(crate) fn lint_address(cluster: &View<'_>, findings: &mut Findings) {
    if let Some(key) = cluster.get("original_dst_lb_config/metadata_key") {
        client_routing::by("metadata (filters take it from headers, for example)", &key, findings);
    }
    let Some((setting, header)) = address_by_header(cluster) else { return };
    let message = format!(
        "a client names by `{header}` which address gets the request, and the policy decides by the host that it was sent to"
    );
    let fix = "use_http_header: false; or let the policy set or remove the header and accept this";
    findings.add(&setting, Kind::ClientRouting, message, fix);
}

/// Reports settings of the clusters that checks are sent to, by each `GrpcService`.
pub(crate) fn lint<'n>(
    services: &[View<'n>],
    clusters: &Clusters<'n>,
    secrets: &[View<'n>],
    findings: &mut Findings,
) {
    for service in services {
        if let Some(google) = service.get("google_grpc") {
            lint_google(&google, findings);
            transport::lint_google(&google, findings);
        }
        let Some(name) = service.get("envoy_grpc/cluster_name") else { continue };
        let is_named = |cluster: &&View<'_>| cluster.text_of("name") == name.text();
        let mut named = clusters.all.iter().filter(is_named).peekable();
        if named.peek().is_none() && clusters.are_complete() {
            lint_missing(&name, &clusters.all, findings);
        } else if named.peek().is_none() {
            let message =
                "this cluster is not in this file: its protocol and its limits cannot be seen";
            findings.add(&name, Kind::UnseenCluster, message, LINT_DUMP);
        }
        // One finding for the cluster, whichever of its services it is found by.
        let retries = services.iter().any(|other| {
            other.text_of("envoy_grpc/cluster_name") == name.text()
                && other.get("retry_policy").is_some()
        });
        for cluster in named {
            lint_protocol(cluster, findings);
            lint_limits(cluster, retries, findings);
            if cluster.list("health_checks").is_empty() {
                findings.report(cluster, Kind::NoHealthChecks);
            }
            let name = name_of_endpoints(cluster);
            let is_own =
                |endpoints: &&View<'_>| name.is_some() && endpoints.text_of("cluster_name") == name;
            let endpoints: Vec<&View<'_>> = clusters.endpoints.iter().filter(is_own).collect();
            transport::lint(cluster, &endpoints, secrets, findings);
        }
    }
}

fn lint_missing(name: &View<'_>, clusters: &[View<'_>], findings: &mut Findings) {
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
    let authority = google.get("channel_args/args/grpc.default_authority");
    if target.text().is_some_and(|text| text.starts_with("unix:")) && authority.is_none() {
        findings.report(&target, Kind::GoogleGrpc);
    }
}

fn lint_protocol(cluster: &View<'_>, findings: &mut Findings) {
    let options = cluster.named_entries_of("typed_extension_protocol_options");
    let is_http2 =
        |options: &View<'_>| options.get("explicit_http_config/http2_protocol_options").is_some();
    if !options.iter().any(|(_, options)| is_http2(options))
        && cluster.get("http2_protocol_options").is_none()
    {
        findings.report(cluster, Kind::Http1Cluster);
    }
}

fn lint_limits(cluster: &View<'_>, retries: bool, findings: &mut Findings) {
    let thresholds = cluster.get("circuit_breakers/thresholds");
    let default = cluster.list("circuit_breakers/thresholds").into_iter().find(|threshold| {
        threshold.text_of("priority").is_none_or(|priority| priority == "DEFAULT")
    });
    let limit = |key: &str| default.as_ref()?.text_of(key)?.parse::<u64>().ok();
    let has_budget = default.as_ref().is_some_and(|default| default.get("retry_budget").is_some());
    let low: Vec<String> = [
        ("max_requests", DEFAULT_REQUESTS, true),
        ("max_pending_requests", DEFAULT_REQUESTS, true),
        ("max_retries", DEFAULT_RETRIES, retries && !has_budget),
    ]
    .into_iter()
    .map(|(key, default, counts)| (key, limit(key).unwrap_or(default), default, counts))
    .filter(|(_, limit, default, counts)| *counts && limit <= default)
    .map(|(key, limit, ..)| format!("`{key}` is {limit}"))
    .collect();
    if low.is_empty() {
        return;
    }
    let message = format!(
        "checks beyond these limits fail, so a burst of clients causes errors: {}",
        low.join(", ")
    );
    let fix = "circuit_breakers: { thresholds: [{ max_requests: 100000, max_pending_requests: 100000, max_retries: 100000 }] }";
    findings.add(thresholds.as_ref().unwrap_or(cluster), Kind::CircuitBreakers, message, fix);
}
