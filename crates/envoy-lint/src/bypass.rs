//! Ways past rolegate: listeners without authorization that reach an application which another
//! listener protects.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use document::View;

use crate::cluster::Clusters;
use crate::connection_manager::Manager;
use crate::filter::{Discovered, Filter};
use crate::routes::{self, Target};
use crate::values::LINT_ENDPOINTS;
use crate::{Findings, Kind, client_routing, cluster, rewrites};

const FIX: &str = "add the filter here, or route to another cluster";

/// The clusters that listeners with authorization lead to, and where other listeners may lead.
#[derive(Debug)]
pub(crate) struct Protected<'a, 'n> {
    route_tables: &'a [View<'n>],
    /// Whether Envoy gets no further clusters.
    has_all_clusters: bool,
    /// All clusters, by name.
    clusters: BTreeMap<&'n str, &'a View<'n>>,
    /// Endpoints of clusters, from a control plane, by the name that it has for them.
    endpoints: BTreeMap<&'n str, Vec<&'a View<'n>>>,
    /// The clusters that listeners with authorization route to, and those that these consist of,
    /// with their addresses.
    addresses: BTreeMap<&'n str, BTreeSet<String>>,
    has_reported_unseen: Cell<bool>,
}

impl<'a, 'n> Protected<'a, 'n> {
    /// The clusters that these listeners with authorization route to.
    pub(crate) fn new(
        managers: &[&Manager<'n>],
        all: &'a Clusters<'n>,
        route_tables: &'a [View<'n>],
    ) -> Self {
        let (mut clusters, mut endpoints) = (BTreeMap::new(), BTreeMap::<_, Vec<_>>::new());
        for cluster in &all.all {
            // `/config_dump` has a cluster of this name on two pages.
            if let Some(name) = cluster.text_of("name") {
                clusters.entry(name).or_insert(cluster);
            }
        }
        for assignment in &all.endpoints {
            if let Some(name) = assignment.text_of("cluster_name") {
                endpoints.entry(name).or_default().push(assignment);
            }
        }
        let mut protected = Self {
            route_tables,
            has_all_clusters: all.are_complete(),
            clusters,
            endpoints,
            addresses: BTreeMap::new(),
            has_reported_unseen: Cell::new(false),
        };
        let targets: Vec<_> =
            managers.iter().flat_map(|manager| protected.targets(manager)).collect();
        for target in targets {
            let name = if let Target::Cluster(cluster) = target { cluster.text() } else { None };
            for part in name.map(|name| protected.parts(name)).unwrap_or_default() {
                let addresses = protected.addresses_of(part);
                protected.addresses.insert(part, addresses);
            }
        }
        protected
    }

    /// Reports what a connection manager without authorization reaches.
    pub(crate) fn lint_manager(&self, manager: &Manager<'n>, findings: &mut Findings) {
        routes::lint_unseen(&manager.view, self.route_tables, findings);
        let at = manager.view.get("http_filters").unwrap_or_else(|| manager.view.clone());
        for target in self.targets(manager) {
            match target {
                Target::Cluster(cluster) => self.lint_cluster(&at, &cluster, findings),
                Target::Header(header) => {
                    let message = "without authorization, this listener routes to any cluster that a client names in a header";
                    findings.add(&header, Kind::BypassListener, message, FIX);
                }
                Target::Plugin(plugin) => {
                    let message = "without authorization, this listener routes to a cluster that a plugin chooses, which may be \
                                   one that another listener reaches only through it";
                    findings.add(&plugin, Kind::BypassListener, message, FIX);
                }
            }
        }
    }

    /// Reports what a network filter that is no connection manager reaches, such as `tcp_proxy`.
    pub(crate) fn lint_proxy(&self, filter: &View<'n>, findings: &mut Findings) {
        // `tcp_proxy` behind this filter takes the server name of TLS for a cluster.
        if filter
            .text_of("typed_config/@type")
            .is_some_and(|kind| kind.ends_with(".sni_cluster.v3.SniCluster"))
        {
            let message = "without authorization, this listener routes to any cluster that a client names as server name of TLS";
            findings.add(filter, Kind::BypassListener, message, FIX);
        }
        let config = filter.get("typed_config").unwrap_or_else(|| filter.clone());
        for state in client_routing::states(&config) {
            if state.text_of("object_key") != Some("envoy.tcp_proxy.cluster") {
                client_routing::lint_state(&state, findings);
            } else if let Some(cluster) = client_routing::literal(&state) {
                self.lint_cluster(&cluster, &cluster, findings);
            } else {
                let message = "without authorization, this listener routes to any cluster that this format gives";
                findings.add(&state, Kind::BypassListener, message, FIX);
            }
        }
        for target in routes::targets(filter) {
            if let Target::Cluster(cluster) = target {
                self.lint_cluster(&cluster, &cluster, findings);
            }
        }
    }

    /// Reports a listener behind another with authorization, if clients reach it directly, by any
    /// of its addresses.
    pub(crate) fn lint_hop(&self, listener: &View<'n>, findings: &mut Findings) {
        let additional = listener.list("additional_addresses");
        let additional = additional.iter().filter_map(|address| address.get("address"));
        let listed: Vec<View<'_>> = listener.get("address").into_iter().chain(additional).collect();
        let addresses = listed.iter().flat_map(addresses).collect();
        let Some(name) = self.with_address_of(&addresses) else { return };
        for address in listed.iter().filter_map(|address| address.get("socket_address/address")) {
            let ip = address.text().and_then(|text| text.parse::<IpAddr>().ok());
            if ip.is_some_and(|ip| ip.to_canonical().is_loopback()) {
                continue;
            }
            let message = format!(
                "this listener is what `{name}` leads to, which another listener reaches only through authorization, and it \
                 can be reached from elsewhere"
            );
            findings.add(&address, Kind::BypassListener, message, "address: 127.0.0.1");
        }
    }

    /// Reports clusters behind authorization whose address the client names, or whose filters
    /// change what was authorized.
    pub(crate) fn lint_clusters(&self, discovered: &Discovered<'n>, findings: &mut Findings) {
        for cluster in self.addresses.keys().filter_map(|name| self.clusters.get(name)) {
            cluster::lint_address(cluster, findings);
            for filter in cluster::filters(cluster) {
                rewrites::lint_filter(&Filter::new(&filter, discovered), findings);
            }
        }
    }

    fn lint_cluster(&self, at: &View<'_>, cluster: &View<'n>, findings: &mut Findings) {
        for part in cluster.text().map(|name| self.parts(name)).unwrap_or_default() {
            if self.addresses.contains_key(part) {
                let message = format!(
                    "this listener routes to `{part}` without authorization, which another listener reaches only through it"
                );
                findings.add(at, Kind::BypassListener, message, FIX);
                continue;
            }
            if let Some(other) = self.with_address_of(&self.addresses_of(part)) {
                let message = format!(
                    "this listener routes to `{part}` without authorization, which has an address of `{other}`, and another \
                     listener reaches that only through it"
                );
                findings.add(at, Kind::BypassListener, message, FIX);
            } else {
                self.lint_endpoints(at, part, findings);
            }
            if self.clusters.get(part).is_some_and(|cluster| cluster::has_any_address(cluster)) {
                let message = format!(
                    "without authorization, this listener routes to any address that a client names (`{part}`)"
                );
                findings.add(at, Kind::BypassListener, message, FIX);
            }
        }
    }

    /// Reports endpoints that are not known: of this cluster, to which a listener without
    /// authorization routes, and of those that it would be compared with.
    fn lint_endpoints(&self, at: &View<'_>, name: &'n str, findings: &mut Findings) {
        let Some(cluster) = self.clusters.get(name) else {
            if !self.has_all_clusters {
                let message = format!(
                    "the cluster `{name}`, to which this listener routes without authorization, is not in this file: whether it leads \
                     to what another listener protects cannot be seen"
                );
                findings.add(at, Kind::UnseenEndpoints, message, LINT_ENDPOINTS);
            }
            return;
        };
        let mut unseen: Vec<View<'_>> = self.unseen_endpoints(cluster).into_iter().collect();
        // The protected clusters once, as there may be thousands of others.
        if !self.has_reported_unseen.replace(true) {
            let protected = self.addresses.keys().filter_map(|name| self.clusters.get(name));
            unseen.extend(protected.filter_map(|cluster| self.unseen_endpoints(cluster)));
        }
        for eds in &unseen {
            let message = "the endpoints of this cluster are not in this file: whether a listener without authorization reaches the \
                           same application as one with it cannot be seen";
            findings.add(eds, Kind::UnseenEndpoints, message, LINT_ENDPOINTS);
        }
    }

    /// The targets of a connection manager's routes, also of the tables that it names.
    fn targets(&self, manager: &Manager<'n>) -> Vec<Target<'n>> {
        let names = routes::table_names(&manager.view);
        let is_named =
            |table: &&View<'_>| table.text_of("name").is_some_and(|name| names.contains(&name));
        let tables = self.route_tables.iter().filter(is_named);
        tables.chain([&manager.view]).flat_map(routes::targets).collect()
    }

    /// This cluster, and those that an aggregate or a composite cluster consists of.
    fn parts(&self, name: &'n str) -> Vec<&'n str> {
        let config =
            self.clusters.get(name).and_then(|cluster| cluster.get("cluster_type/typed_config"));
        let aggregated =
            config.as_ref().and_then(|config| config.texts_of("clusters")).unwrap_or_default();
        // Of a composite cluster, retries choose another one.
        let composed = config.map(|config| config.list("sub_clusters")).unwrap_or_default();
        let composed = composed.into_iter().filter_map(|cluster| cluster.text_of("name"));
        [name].into_iter().chain(aggregated).chain(composed).collect()
    }

    /// The addresses of a cluster's endpoints, and the name under which a control plane has them.
    fn addresses_of(&self, name: &str) -> BTreeSet<String> {
        let Some(cluster) = self.clusters.get(name) else { return BTreeSet::new() };
        let eds =
            cluster.get("eds_cluster_config").and_then(|_| cluster::name_of_endpoints(cluster));
        let static_endpoints = cluster.get("load_assignment");
        let endpoints = static_endpoints.iter().chain(self.endpoints_of(cluster).iter().copied());
        endpoints.flat_map(addresses).chain(eds.map(|name| format!("eds {name}"))).collect()
    }

    fn with_address_of(&self, addresses: &BTreeSet<String>) -> Option<&'n str> {
        self.addresses.iter().find(|(_, own)| !own.is_disjoint(addresses)).map(|(name, _)| *name)
    }

    fn endpoints_of(&self, cluster: &View<'n>) -> &[&'a View<'n>] {
        let name = cluster::name_of_endpoints(cluster);
        name.and_then(|name| self.endpoints.get(name)).map(Vec::as_slice).unwrap_or_default()
    }

    /// The reference of a cluster to endpoints from a control plane that are not known.
    fn unseen_endpoints(&self, cluster: &View<'n>) -> Option<View<'n>> {
        cluster.get("eds_cluster_config").filter(|_| self.endpoints_of(cluster).is_empty())
    }
}

/// A host in one spelling. All addresses of this machine are one: a connection to `0.0.0.0` leads
/// there, too.
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
        match key {
            "socket_address" => {
                let host = canonical(value.text_of("address").unwrap_or_default());
                let port = value.text_of("port_value").or_else(|| value.text_of("named_port"));
                addresses.push(format!("{host} {}", port.unwrap_or_default()));
            }
            "pipe" => addresses.extend(value.text_of("path").map(|path| format!("unix {path}"))),
            "envoy_internal_address" => addresses.extend(
                value.text_of("server_listener_name").map(|name| format!("listener {name}")),
            ),
            "health_check_config" => {}
            _ => return true,
        }
        false
    });
    addresses
}
