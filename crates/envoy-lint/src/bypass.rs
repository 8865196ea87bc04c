//! Ways past rolegate: listeners without authorization that reach an application which another listener protects.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use document::View;

use crate::connection_manager::Manager;
use crate::filter::{Discovered, Filter};
use crate::routes::{self, Target};
use crate::values::LINT_ENDPOINTS;
use crate::{Findings, Kind, client_routing, cluster, rewrites};

const FIX: &str = "add the filter here, or route to another cluster";

/// What leads somewhere, in all documents about one Envoy.
#[derive(Debug)]
pub(crate) struct Known<'a, 'n> {
    /// By name.
    clusters: BTreeMap<&'n str, &'a View<'n>>,
    /// Endpoints of clusters, from a control plane, by the name that it has for them.
    endpoints: BTreeMap<&'n str, Vec<&'a View<'n>>>,
    route_tables: Vec<&'a View<'n>>,
    /// Whether there are no other clusters.
    are_all: bool,
}

impl<'a, 'n> Known<'a, 'n> {
    pub(crate) fn new(
        (clusters, are_all): (impl Iterator<Item = &'a View<'n>>, bool),
        endpoints: impl Iterator<Item = &'a View<'n>>,
        route_tables: impl Iterator<Item = &'a View<'n>>,
    ) -> Self {
        let mut known = Self {
            clusters: BTreeMap::new(),
            endpoints: BTreeMap::new(),
            route_tables: route_tables.collect(),
            are_all,
        };
        for cluster in clusters {
            // The first one of its name: `/config_dump` has those of the bootstrap twice.
            if let Some(name) = cluster.text_of("name") {
                known.clusters.entry(name).or_insert(cluster);
            }
        }
        for endpoints in endpoints {
            if let Some(name) = endpoints.text_of("cluster_name") {
                known.endpoints.entry(name).or_default().push(endpoints);
            }
        }
        known
    }

    /// The endpoints that a control plane has for a cluster.
    fn endpoints(&self, cluster: &View<'n>) -> &[&'a View<'n>] {
        let name = cluster::name_of_endpoints(cluster);
        name.and_then(|name| self.endpoints.get(name)).map(Vec::as_slice).unwrap_or_default()
    }

    /// What says that a cluster has endpoints from a control plane, if they are not known.
    fn unseen_endpoints(&self, cluster: &View<'n>) -> Option<View<'n>> {
        cluster.get("eds_cluster_config").filter(|_| self.endpoints(cluster).is_empty())
    }
}

/// What there is to reach.
#[derive(Debug)]
pub(crate) struct Protected<'a, 'n> {
    known: Known<'a, 'n>,
    /// The clusters that listeners with authorization route to, and those that these consist of.
    names: BTreeSet<&'n str>,
    /// The addresses of each.
    addresses: Vec<(&'n str, BTreeSet<String>)>,
    /// What says that they have endpoints from a control plane, where these are not known.
    unseen: Vec<View<'n>>,
    has_reported_unseen: Cell<bool>,
}

impl<'a, 'n> Protected<'a, 'n> {
    /// What these listeners with authorization route to; `None` if there is no such listener.
    pub(crate) fn by(managers: &[&Manager<'n>], known: Known<'a, 'n>) -> Option<Self> {
        let mut found = Self {
            known,
            names: BTreeSet::new(),
            addresses: Vec::new(),
            unseen: Vec::new(),
            has_reported_unseen: Cell::new(false),
        };
        let names: BTreeSet<&str> = managers
            .iter()
            .flat_map(|manager| found.targets(manager))
            .filter_map(|target| if let Target::Cluster(cluster) = target { cluster.text() } else { None })
            .flat_map(|name| found.parts(name))
            .collect();
        found.names = names;
        found.addresses = found.names.iter().map(|name| (*name, found.addresses_of(name))).collect();
        let clusters = found.names.iter().filter_map(|name| found.cluster(name));
        found.unseen = clusters.filter_map(|cluster| found.known.unseen_endpoints(cluster)).collect();
        (!managers.is_empty()).then_some(found)
    }

    /// Reports what a connection manager without authorization reaches.
    pub(crate) fn lint_manager(&self, manager: &Manager<'n>, findings: &mut Findings) {
        routes::lint_unseen(&manager.view, &self.known.route_tables, findings);
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
        if filter.at(&["typed_config", "@type"]).is_some_and(|kind| kind.text().is_some_and(names_by_sni)) {
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
                let message =
                    "without authorization, this listener routes to any cluster that this format gives";
                findings.add(&state, Kind::BypassListener, message, FIX);
            }
        }
        for target in routes::targets(filter) {
            if let Target::Cluster(cluster) = target {
                self.lint_cluster(&cluster, &cluster, findings);
            }
        }
    }

    /// Reports a listener behind another with authorization, if others than that reach it, by any of its addresses.
    pub(crate) fn lint_hop(&self, listener: &View<'n>, findings: &mut Findings) {
        let more = listener.list("additional_addresses");
        let more = more.iter().filter_map(|address| address.get("address"));
        let all: Vec<View<'_>> = listener.get("address").into_iter().chain(more).collect();
        let mut own = BTreeSet::new();
        all.iter().for_each(|address| collect_addresses(address, &mut own));
        let protected = self.addresses.iter().find(|(_, protected)| !protected.is_disjoint(&own));
        let Some((name, _)) = protected else { return };
        for address in all.iter().filter_map(|address| address.at(&["socket_address", "address"])) {
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

    /// Reports clusters behind authorization whose address the client names, or whose filters change what was authorized.
    pub(crate) fn lint_clusters(&self, discovered: &Discovered<'n>, findings: &mut Findings) {
        for cluster in self.names.iter().filter_map(|name| self.cluster(name)) {
            cluster::lint_address(cluster, findings);
            for filter in cluster::filters(cluster) {
                rewrites::lint_filter(&Filter::of(&filter, discovered), findings);
            }
        }
    }

    fn lint_cluster(&self, at: &View<'_>, cluster: &View<'n>, findings: &mut Findings) {
        let Some(name) = cluster.text() else { return };
        for part in self.parts(name) {
            if self.names.contains(part) {
                let message = format!(
                    "this listener routes to `{part}` without authorization, which another listener reaches only through it"
                );
                findings.add(at, Kind::BypassListener, message, FIX);
                continue;
            }
            let addresses = self.addresses_of(part);
            let same = self.addresses.iter().find(|(_, protected)| !protected.is_disjoint(&addresses));
            if let Some((other, _)) = same {
                let message = format!(
                    "this listener routes to `{part}` without authorization, which has an address of `{other}`, and another \
                     listener reaches that only through it"
                );
                findings.add(at, Kind::BypassListener, message, FIX);
            } else {
                self.lint_endpoints(at, part, findings);
            }
            if self.cluster(part).is_some_and(cluster::has_any_address) {
                let message = format!(
                    "without authorization, this listener routes to any address that a client names (`{part}`)"
                );
                findings.add(at, Kind::BypassListener, message, FIX);
            }
        }
    }

    /// Reports endpoints that are not known: of this cluster, to which a listener without authorization routes, and of those that it
    /// would be compared with.
    fn lint_endpoints(&self, at: &View<'_>, name: &'n str, findings: &mut Findings) {
        let Some(cluster) = self.cluster(name) else {
            if self.known.are_all {
                return;
            }
            let message = format!(
                "the cluster `{name}`, to which this listener routes without authorization, is not in this file: whether it leads \
                 to what another listener protects cannot be seen"
            );
            findings.add(at, Kind::UnseenEndpoints, message, LINT_ENDPOINTS);
            return;
        };
        // Those of the others once, as there may be thousands of clusters.
        let others = if self.has_reported_unseen.replace(true) { &[] } else { self.unseen.as_slice() };
        for eds in self.known.unseen_endpoints(cluster).iter().chain(others) {
            let message = "the endpoints of this cluster are not in this file: whether a listener without authorization reaches the \
                           same application as one with it cannot be seen";
            findings.add(eds, Kind::UnseenEndpoints, message, LINT_ENDPOINTS);
        }
    }

    /// Where the routes of a connection manager lead, also those of a table that it names.
    fn targets(&self, manager: &Manager<'n>) -> Vec<Target<'n>> {
        let names = routes::table_names(&manager.view);
        let is_named = |table: &View<'_>| table.text_of("name").is_some_and(|name| names.contains(&name));
        let tables = self.known.route_tables.iter().filter(|table| is_named(table));
        tables.flat_map(|table| routes::targets(table)).chain(routes::targets(&manager.view)).collect()
    }

    fn cluster(&self, name: &str) -> Option<&'a View<'n>> {
        self.known.clusters.get(name).copied()
    }

    /// This cluster, and those that an aggregate or a composite one consists of.
    fn parts(&self, name: &'n str) -> Vec<&'n str> {
        let config = self.cluster(name).and_then(|cluster| cluster.at(&["cluster_type", "typed_config"]));
        let parts = config.as_ref().and_then(|config| config.texts_of("clusters")).unwrap_or_default();
        // Those of a composite cluster, of which retries choose one.
        let more = config.map(|config| config.list("sub_clusters")).unwrap_or_default();
        let more = more.into_iter().filter_map(|one| one.text_of("name"));
        [name].into_iter().chain(parts).chain(more).collect()
    }

    /// The addresses of a cluster's endpoints, and the name under which a control plane has them.
    fn addresses_of(&self, name: &str) -> BTreeSet<String> {
        let mut found = BTreeSet::new();
        let Some(cluster) = self.cluster(name) else { return found };
        if let Some(endpoints) = cluster.get("load_assignment") {
            collect_addresses(&endpoints, &mut found);
        }
        if cluster.get("eds_cluster_config").is_some() {
            found.extend(cluster::name_of_endpoints(cluster).map(|name| format!("eds {name}")));
        }
        self.known.endpoints(cluster).iter().for_each(|endpoints| collect_addresses(endpoints, &mut found));
        found
    }
}

/// Whether `tcp_proxy` behind this filter takes the server name of TLS for a cluster.
fn names_by_sni(kind: &str) -> bool {
    kind.ends_with(".sni_cluster.v3.SniCluster")
}

/// A host in one spelling. All addresses of this machine are one: a connection to `0.0.0.0` leads there, too.
fn canonical(host: &str) -> String {
    match host.parse::<IpAddr>().map(|ip| ip.to_canonical()) {
        Ok(ip) if ip.is_loopback() || ip.is_unspecified() => "localhost".to_owned(),
        Ok(ip) => ip.to_string(),
        Err(_) => host.strip_suffix('.').unwrap_or(host).to_ascii_lowercase(),
    }
}

fn collect_addresses(view: &View<'_>, found: &mut BTreeSet<String>) {
    for (key, value) in view.entries() {
        match &*key {
            "socket_address" => {
                let host = canonical(value.text_of("address").unwrap_or_default());
                let port = value.text_of("port_value").or_else(|| value.text_of("named_port"));
                found.insert(format!("{host} {}", port.unwrap_or_default()));
            }
            "pipe" => found.extend(value.text_of("path").map(|path| format!("unix {path}"))),
            "envoy_internal_address" => {
                found.extend(value.text_of("server_listener_name").map(|name| format!("listener {name}")));
            }
            "health_check_config" => {}
            _ => collect_addresses(&value, found),
        }
    }
    view.items().iter().for_each(|item| collect_addresses(item, found));
}
