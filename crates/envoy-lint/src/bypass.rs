//! Ways past rolegate: listeners without authorization that reach a protected application.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use document::View;

use crate::cluster::{self, Clusters};
use crate::connection_manager::Manager;
use crate::filter::{Discovered, Filter, type_of};
use crate::routes::{self, Target};
use crate::{Findings, Kind, LINT_ENDPOINTS, client_routing, get_or_self, rewrites};

/// Protected clusters: listeners with authorization route to them.
#[derive(Debug)]
pub(crate) struct Protected<'a, 'n> {
    route_tables: &'a [View<'n>],
    clusters: &'a Clusters<'n>,
    /// The addresses of the protected clusters, and of the clusters that these consist of, by name.
    addresses: BTreeMap<&'n str, BTreeSet<String>>,
    has_reported_unseen: Cell<bool>,
}

impl<'a, 'n> Protected<'a, 'n> {
    /// The clusters that these authorizing connection managers route to.
    pub(crate) fn new(
        managers: &[&Manager<'n>],
        clusters: &'a Clusters<'n>,
        route_tables: &'a [View<'n>],
    ) -> Self {
        let (addresses, has_reported_unseen) = (BTreeMap::new(), Cell::new(false));
        let mut protected = Self { route_tables, clusters, addresses, has_reported_unseen };
        let targets: Vec<Target<'n>> =
            managers.iter().flat_map(|manager| protected.targets(manager)).collect();
        for target in targets {
            let Target::Cluster(cluster) = target else { continue };
            for part in protected.parts(&cluster) {
                let addresses = protected.addresses_of(part);
                protected.addresses.insert(part, addresses);
            }
        }
        protected
    }

    /// Reports the protected clusters that a connection manager without authorization reaches.
    pub(crate) fn lint_manager(&self, manager: &Manager<'n>, findings: &mut Findings) {
        routes::lint_unseen(&manager.view, self.route_tables, findings);
        let at = get_or_self(&manager.view, "http_filters");
        for target in self.targets(manager) {
            match target {
                Target::Cluster(cluster) => self.lint_cluster(&at, &cluster, findings),
                Target::Header(header) => {
                    let message = "without authorization, this listener routes to any cluster that \
                                   a client names in a header";
                    add_bypass(&header, message, findings);
                }
                Target::Plugin(plugin) => {
                    let message = "without authorization, this listener routes to a cluster that a \
                                   plugin chooses, and another listener may protect that cluster";
                    add_bypass(&plugin, message, findings);
                }
            }
        }
    }

    /// Reports the protected clusters that a network filter other than a connection manager
    /// reaches, such as `tcp_proxy`.
    pub(crate) fn lint_proxy(&self, filter: &View<'n>, findings: &mut Findings) {
        let config = get_or_self(filter, "typed_config");
        // `tcp_proxy` behind this filter uses the SNI as the name of the cluster.
        if type_of(&config).is_some_and(|kind| kind.ends_with(".sni_cluster.v3.SniCluster")) {
            let message = "without authorization, this listener routes to any cluster that a \
                           client names in the SNI";
            add_bypass(filter, message, findings);
        }
        for state in client_routing::states(&config) {
            if state.text_of("object_key") != Some("envoy.tcp_proxy.cluster") {
                client_routing::lint_state(&state, findings);
            } else if let Some(cluster) = client_routing::literal(&state) {
                self.lint_cluster(&cluster, &cluster, findings);
            } else {
                let message = "without authorization, this listener routes to any cluster that \
                               this format gives";
                add_bypass(&state, message, findings);
            }
        }
        for target in routes::targets(filter) {
            if let Target::Cluster(cluster) = target {
                self.lint_cluster(&cluster, &cluster, findings);
            }
        }
    }

    /// Reports a listener that is the upstream of a protected cluster, if clients can reach one of
    /// its addresses directly.
    pub(crate) fn lint_hop(&self, listener: &View<'n>, findings: &mut Findings) {
        let additional = listener.list("additional_addresses");
        let additional = additional.iter().filter_map(|address| address.get("address"));
        let listed: Vec<View<'_>> = listener.get("address").into_iter().chain(additional).collect();
        let addresses = listed.iter().flat_map(addresses).collect();
        let Some(name) = self.cluster_with_address(&addresses) else { return };
        for address in listed.iter().filter_map(|address| address.get("socket_address/address")) {
            let ip = address.text().and_then(|text| text.parse::<IpAddr>().ok());
            if ip.is_some_and(|ip| ip.to_canonical().is_loopback()) {
                continue;
            }
            let message = format!(
                "this listener is the upstream of `{name}`, which another listener protects, and \
                 clients can reach it directly"
            );
            findings.add(&address, Kind::BypassListener, message, "address: 127.0.0.1");
        }
    }

    /// Reports clusters behind authorization whose address the client names, or whose filters
    /// change what was authorized.
    pub(crate) fn lint_clusters(&self, discovered: &Discovered<'n>, findings: &mut Findings) {
        for cluster in self.protected_clusters() {
            cluster::lint_address(cluster, findings);
            for filter in cluster::filters(cluster) {
                rewrites::lint_filter(&Filter::new(&filter, discovered), findings);
            }
        }
    }

    fn protected_clusters(&self) -> impl Iterator<Item = &View<'n>> {
        self.addresses.keys().filter_map(|name| self.clusters.get(name))
    }

    fn lint_cluster(&self, at: &View<'_>, cluster: &View<'n>, findings: &mut Findings) {
        for part in self.parts(cluster) {
            if self.addresses.contains_key(part) {
                let message = format!(
                    "this listener routes to `{part}` without authorization; another listener \
                     protects `{part}`"
                );
                add_bypass(at, &message, findings);
                continue;
            }
            if let Some(name) = self.cluster_with_address(&self.addresses_of(part)) {
                let message = format!(
                    "this listener routes to `{part}` without authorization; `{part}` has an \
                     address of `{name}`, which another listener protects"
                );
                add_bypass(at, &message, findings);
            } else {
                self.lint_endpoints(at, part, findings);
            }
            if self.clusters.get(part).is_some_and(cluster::client_chooses_address) {
                let message = format!(
                    "without authorization, this listener routes to any address that a client \
                     names (`{part}`)"
                );
                add_bypass(at, &message, findings);
            }
        }
    }

    /// Reports that the endpoints of a cluster behind a listener without authorization, or of the
    /// protected clusters, are unknown and cannot be compared.
    fn lint_endpoints(&self, at: &View<'_>, name: &'n str, findings: &mut Findings) {
        let Some(cluster) = self.clusters.get(name) else {
            if !self.clusters.are_complete() {
                let message = format!(
                    "the cluster `{name}`, to which this listener routes without authorization, is \
                     not in this file: whether another listener protects its endpoints cannot be \
                     seen"
                );
                findings.add(at, Kind::UnseenEndpoints, message, LINT_ENDPOINTS);
            }
            return;
        };
        let mut clusters = vec![cluster];
        // Report the protected clusters only once, as there may be thousands of other clusters.
        if !self.has_reported_unseen.replace(true) {
            clusters.extend(self.protected_clusters());
        }
        clusters.retain(|cluster| self.clusters.endpoints_of(cluster).is_empty());
        for eds in clusters.iter().filter_map(|cluster| cluster.get("eds_cluster_config")) {
            let message = "the endpoints of this cluster are not in this file: whether a listener \
                           without authorization reaches a protected application cannot be seen";
            findings.add(&eds, Kind::UnseenEndpoints, message, LINT_ENDPOINTS);
        }
    }

    /// The targets of a connection manager's routes, including those in route tables that it names.
    fn targets(&self, manager: &Manager<'n>) -> Vec<Target<'n>> {
        let names = routes::table_names(&manager.view);
        let is_named =
            |table: &&View<'_>| table.text_of("name").is_some_and(|name| names.contains(&name));
        let tables = self.route_tables.iter().filter(is_named);
        tables.chain([&manager.view]).flat_map(routes::targets).collect()
    }

    /// The cluster with this name, its members, their members, and so on.
    fn parts(&self, name: &View<'n>) -> Vec<&'n str> {
        let mut names: Vec<&'n str> = name.text().into_iter().collect();
        let mut index = 0;
        while let Some(cluster) = names.get(index).copied() {
            for member in self.members(cluster) {
                if !names.contains(&member) {
                    names.push(member);
                }
            }
            index += 1;
        }
        names
    }

    /// The members of an aggregate or composite cluster.
    fn members(&self, name: &str) -> Vec<&'n str> {
        let cluster = self.clusters.get(name);
        let config = cluster.and_then(|cluster| cluster.get("cluster_type/typed_config"));
        let Some(config) = config else { return Vec::new() };
        let mut names = config.texts_of("clusters").unwrap_or_default();
        // A composite cluster sends each retry to another of its sub-clusters.
        let composed = config.list("sub_clusters");
        names.extend(composed.iter().filter_map(|cluster| cluster.text_of("name")));
        names
    }

    /// The addresses of a cluster's endpoints, and the name under which a control plane has them.
    fn addresses_of(&self, name: &str) -> BTreeSet<String> {
        let Some(cluster) = self.clusters.get(name) else { return BTreeSet::new() };
        let eds = cluster.get("eds_cluster_config").and_then(|_| cluster::endpoints_name(cluster));
        let static_endpoints = cluster.get("load_assignment");
        let endpoints = static_endpoints.iter().chain(self.clusters.endpoints_of(cluster));
        endpoints.flat_map(addresses).chain(eds.map(|name| format!("eds {name}"))).collect()
    }

    /// The protected cluster that has any of these addresses.
    fn cluster_with_address(&self, addresses: &BTreeSet<String>) -> Option<&'n str> {
        let mut clusters = self.addresses.iter();
        clusters.find(|(_, protected)| !protected.is_disjoint(addresses)).map(|(name, _)| *name)
    }
}

fn add_bypass(at: &View<'_>, message: &str, findings: &mut Findings) {
    let fix = "add the filter here, or route to another cluster";
    findings.add(at, Kind::BypassListener, message, fix);
}

/// A host in canonical form. Loopback addresses become `localhost`, and so does `0.0.0.0`: a
/// connection to it reaches this machine.
fn canonical(host: &str) -> String {
    match host.parse::<IpAddr>().map(|ip| ip.to_canonical()) {
        Ok(ip) if ip.is_loopback() || ip.is_unspecified() => "localhost".to_owned(),
        Ok(ip) => ip.to_string(),
        Err(_) => host.strip_suffix('.').unwrap_or(host).to_ascii_lowercase(),
    }
}

/// The addresses below a value, apart from those of health checks.
fn addresses(view: &View<'_>) -> Vec<String> {
    let mut addresses = Vec::new();
    view.walk(&mut |key, value| {
        let text = |key: &str| value.text_of(key);
        addresses.extend(match key {
            "socket_address" => {
                let host = canonical(text("address").unwrap_or_default());
                let port = text("port_value").or_else(|| text("named_port")).unwrap_or_default();
                Some(format!("{host} {port}"))
            }
            "pipe" => text("path").map(|path| format!("unix {path}")),
            "envoy_internal_address" => {
                text("server_listener_name").map(|name| format!("listener {name}"))
            }
            "health_check_config" => None,
            _ => return true,
        });
        false
    });
    addresses
}
