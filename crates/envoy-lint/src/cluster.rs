//! The cluster that checks are sent to, and clusters whose address a client can choose.

use std::collections::BTreeMap;

use document::{View, closest};

use crate::{Findings, Kind, LINT_DUMP, client_routing, setting_unless_false, transport};

/// Envoy's defaults: the maximum numbers of requests in flight, and of retries.
const DEFAULT_MAX_REQUESTS: u64 = 1024;
const DEFAULT_MAX_RETRIES: u64 = 3;

/// The clusters of a configuration.
#[derive(Debug, Default)]
pub(crate) struct Clusters<'n> {
    /// The definitions of each cluster, by its name. `/config_dump` may have several of one.
    pub(crate) by_name: BTreeMap<&'n str, Vec<View<'n>>>,
    /// Endpoints from a control plane, by [`endpoints_name`].
    endpoints: BTreeMap<&'n str, Vec<View<'n>>>,
    /// Whether the file has a bootstrap.
    pub(crate) is_bootstrap: bool,
    /// Whether Envoy asks a control plane for clusters.
    pub(crate) has_source: bool,
}

impl<'n> Clusters<'n> {
    /// Adds the value under this key if it is a cluster, or a cluster's endpoints from a control
    /// plane. Returns whether it was added.
    pub(crate) fn add(&mut self, key: &str, view: &View<'n>) -> bool {
        let kind = view.text_of("@type").unwrap_or_default();
        let (name, map) = if view.get("name").is_some()
            && (kind.ends_with("envoy.config.cluster.v3.Cluster")
                || key == "clusters"
                || view.get("load_assignment").is_some())
        {
            ("name", &mut self.by_name)
        } else if view.get("cluster_name").is_some()
            && (kind.ends_with("envoy.config.endpoint.v3.ClusterLoadAssignment")
                || key == "endpoint_config")
        {
            ("cluster_name", &mut self.endpoints)
        } else {
            return false;
        };
        if let Some(name) = view.text_of(name) {
            map.entry(name).or_default().push(view.clone());
        }
        true
    }

    pub(crate) fn get(&self, name: &str) -> Option<&View<'n>> {
        self.by_name.get(name)?.first()
    }

    /// The endpoints that a control plane has for a cluster.
    pub(crate) fn endpoints_of(&self, cluster: &View<'n>) -> &[View<'n>] {
        let endpoints = endpoints_name(cluster).and_then(|name| self.endpoints.get(name));
        endpoints.map(Vec::as_slice).unwrap_or_default()
    }

    /// Whether the file has all of Envoy's clusters.
    pub(crate) fn are_complete(&self) -> bool {
        self.is_bootstrap && !self.has_source
    }
}

/// The name under which a control plane or `/config_dump` has the endpoints of a cluster.
pub(crate) fn endpoints_name<'n>(cluster: &View<'n>) -> Option<&'n str> {
    let service = cluster.text_of("eds_cluster_config/service_name");
    service.filter(|name| !name.is_empty()).or_else(|| cluster.text_of("name"))
}

/// Whether a client can choose the address: with the authority, the SNI, or a header.
pub(crate) fn client_chooses_address(cluster: &View<'_>) -> bool {
    let kind = cluster.text_of("cluster_type/typed_config/@type");
    kind.is_some_and(|kind| kind.contains(".dynamic_forward_proxy."))
        || address_header(cluster).is_some()
}

/// The HTTP filters of a cluster (`HttpProtocolOptions`).
pub(crate) fn filters<'n>(cluster: &View<'n>) -> Vec<View<'n>> {
    let options = cluster.entries_as_written_at("typed_extension_protocol_options");
    options.iter().flat_map(|(_, options)| options.list("http_filters")).collect()
}

/// The setting that takes the address from a request header, and the name of the header.
fn address_header<'n>(cluster: &View<'n>) -> Option<(View<'n>, &'n str)> {
    let config = cluster.get("original_dst_lb_config")?;
    let setting = setting_unless_false(&config, "use_http_header")?;
    let name = config.text_of("http_header_name").filter(|name| !name.is_empty());
    Some((setting, name.unwrap_or("x-envoy-original-dst-host")))
}

/// Reports that a client can choose the address of this protected cluster. A dynamic forward proxy
/// is not reported: the policy has decided by the same host.
pub(crate) fn lint_address(cluster: &View<'_>, findings: &mut Findings) {
    if let Some(key) = cluster.get("original_dst_lb_config/metadata_key") {
        let source = "metadata (filters take it from headers, for example)";
        client_routing::report(source, &key, findings);
    }
    let Some((setting, header)) = address_header(cluster) else { return };
    let message = format!(
        "the client chooses the address that gets the request with `{header}`, whereas the policy \
         decides by the host in the request"
    );
    let fix = "use_http_header: false; or let the policy set or remove the header and accept this";
    findings.add(&setting, Kind::ClientRouting, message, fix);
}

/// Reports settings of the clusters that these `GrpcService`s send checks to.
pub(crate) fn lint<'n>(
    services: &[View<'n>],
    clusters: &Clusters<'n>,
    secrets: &[View<'n>],
    findings: &mut Findings,
) {
    for service in services {
        if let Some(google) = service.get("google_grpc") {
            transport::lint_google(&google, findings);
        }
        let Some(reference) = service.get("envoy_grpc/cluster_name") else { continue };
        let name = reference.text().unwrap_or_default();
        let Some(definitions) = clusters.by_name.get(name) else {
            if clusters.are_complete() {
                let message = format!(
                    "there is no cluster `{name}` here, and this bootstrap gets none from \
                     elsewhere (`cds_config`): every check fails"
                );
                let fix = closest(name, clusters.by_name.keys().copied()).map_or_else(
                    || format!("add a cluster `{name}` to `static_resources`"),
                    |near| format!("cluster_name: {near}"),
                );
                findings.add(&reference, Kind::MissingCluster, message, fix);
            } else {
                let message = "this cluster is not in this file: its protocol and its limits \
                               cannot be seen";
                findings.add(&reference, Kind::UnseenCluster, message, LINT_DUMP);
            }
            continue;
        };
        // The limit of retries matters if any of the services that use the cluster retries.
        let has_retries = services.iter().any(|service| {
            service.text_of("envoy_grpc/cluster_name") == Some(name)
                && service.get("retry_policy").is_some()
        });
        for cluster in definitions {
            lint_protocol(cluster, findings);
            lint_limits(cluster, has_retries, findings);
            if cluster.list("health_checks").is_empty() {
                findings.add_kind(cluster, Kind::NoHealthChecks);
            }
            transport::lint(cluster, clusters.endpoints_of(cluster), secrets, findings);
        }
    }
}

fn lint_protocol(cluster: &View<'_>, findings: &mut Findings) {
    let options = cluster.entries_as_written_at("typed_extension_protocol_options");
    let http2 = "explicit_http_config/http2_protocol_options";
    if !options.iter().any(|(_, options)| options.get(http2).is_some())
        && cluster.get("http2_protocol_options").is_none()
    {
        findings.add_kind(cluster, Kind::Http1Cluster);
    }
}

fn lint_limits(cluster: &View<'_>, has_retries: bool, findings: &mut Findings) {
    let thresholds = cluster.list("circuit_breakers/thresholds");
    let default = thresholds.iter().find(|threshold| {
        threshold.text_of("priority").is_none_or(|priority| priority == "DEFAULT")
    });
    let has_budget = default.is_some_and(|default| default.get("retry_budget").is_some());
    let mut low = Vec::new();
    for (key, default_limit, applies) in [
        ("max_requests", DEFAULT_MAX_REQUESTS, true),
        ("max_pending_requests", DEFAULT_MAX_REQUESTS, true),
        ("max_retries", DEFAULT_MAX_RETRIES, has_retries && !has_budget),
    ] {
        let limit = default.and_then(|default| default.text_of(key)?.parse::<u64>().ok());
        let limit = limit.unwrap_or(default_limit);
        if applies && limit <= default_limit {
            low.push(format!("`{key}` is {limit}"));
        }
    }
    if low.is_empty() {
        return;
    }
    let low = low.join(", ");
    let message =
        format!("checks beyond these limits fail, so a burst of clients causes errors: {low}");
    let fix = "circuit_breakers: { thresholds: [{ max_requests: 100000, max_pending_requests: \
               100000, max_retries: 100000 }] }";
    let at = crate::get_or_self(cluster, "circuit_breakers/thresholds");
    findings.add(&at, Kind::CircuitBreakers, message, fix);
}
