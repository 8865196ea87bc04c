//! Finds the parts of a configuration: connection managers, other network filters, filters outside of one, clusters. Of what
//! `/config_dump` has on two of its pages, one is linted.

use document::View;

use crate::authorizer::Authorizer;
use crate::bypass::{Known, Protected};
use crate::connection_manager::{self, Manager};
use crate::filter::{Discovered, Filter};
use crate::{Findings, Kind, authorizer, cluster, envoy_filter, rewrites, routes};

/// The parts of one document.
#[derive(Debug, Default)]
pub(crate) struct Configuration<'n> {
    managers: Vec<Manager<'n>>,
    /// Filters that authorize, outside of a connection manager, such as the value of an `EnvoyFilter`'s patch.
    filters: Vec<Authorizer<'n>>,
    clusters: Vec<View<'n>>,
    /// The endpoints of clusters, from a control plane.
    endpoints: Vec<View<'n>>,
    /// Layers of runtime that are in the configuration itself.
    runtime: Vec<View<'n>>,
    /// Secrets that say how certificates are verified.
    secrets: Vec<View<'n>>,
    /// Filters of listeners and connections that are no connection managers, such as `tcp_proxy`.
    proxies: Vec<View<'n>>,
    /// Listeners that let requests or connections pass without authorization.
    open_listeners: Vec<View<'n>>,
    /// Lists of virtual hosts outside of a connection manager, such as in `/config_dump`.
    route_tables: Vec<View<'n>>,
    /// Routes and virtual hosts outside of a table, such as the value of an `EnvoyFilter`'s patch. No listener names them, so it
    /// is not known which routes to them.
    lone_routes: Vec<View<'n>>,
    /// The static listeners on their page of `/config_dump`, which the page of the bootstrap has, too.
    static_listeners: Vec<View<'n>>,
    /// What has the patches of an `EnvoyFilter`: its `spec`.
    envoy_filters: Vec<View<'n>>,
    is_bootstrap: bool,
    /// Whether Envoy asks elsewhere for clusters.
    gets_clusters: bool,
    /// What says that it asks elsewhere for listeners.
    gets_listeners: Option<View<'n>>,
    /// Whether these are here, as Envoy gets or prints them.
    has_listeners: bool,
}

impl<'n> Configuration<'n> {
    /// The parts of this document. `discovered` is in one of all documents.
    pub(crate) fn of(root: &View<'n>, discovered: &Discovered<'n>) -> Self {
        let dynamic = root.get("dynamic_resources");
        let gets = |key: &str| dynamic.as_ref().is_some_and(|dynamic| dynamic.get(key).is_some());
        let mut found = Self {
            static_listeners: static_listeners(root),
            is_bootstrap: root.get("static_resources").is_some(),
            gets_clusters: gets("cds_config") || gets("cds_resources_locator"),
            has_listeners: root.items().iter().chain([root]).any(is_plain_listener),
            gets_listeners: ["lds_config", "lds_resources_locator"]
                .iter()
                .find_map(|key| dynamic.as_ref().and_then(|dynamic| dynamic.get(key))),
            ..Self::default()
        };
        found.search(root, "", discovered);
        let inline: Vec<View<'_>> =
            found.managers.iter().filter_map(|manager| manager.view.get("route_config")).collect();
        let tables = static_routes(root);
        let is_repeated = |table: &View<'_>| {
            tables.iter().any(|one| one.path == table.path) && inline.iter().any(|one| is_same(one, table))
        };
        found.route_tables.retain(|table| !is_repeated(table));
        found
    }

    /// Whether anything in it authorizes requests.
    pub(crate) fn authorizes(&self) -> bool {
        self.authorizers().next().is_some()
    }

    /// Whether it has routes outside of a connection manager.
    pub(crate) fn has_routes(&self) -> bool {
        self.routes().next().is_some()
    }

    fn authorizers(&self) -> impl Iterator<Item = &Authorizer<'n>> {
        self.managers.iter().flat_map(Manager::authorizers).chain(&self.filters)
    }

    /// What has routes outside of a connection manager.
    fn routes(&self) -> impl Iterator<Item = &View<'n>> {
        self.route_tables.iter().chain(&self.lone_routes)
    }

    fn search(&mut self, view: &View<'n>, key: &str, discovered: &Discovered<'n>) {
        if key == "listeners" && self.static_listeners.iter().any(|one| is_same(one, view)) {
            return;
        }
        self.has_listeners |= key == "dynamic_listeners" || (key == "resources" && is_listener(view));
        if key == "static_layer" {
            self.runtime.push(view.clone());
            return;
        }
        if view.get("config_patches").is_some() {
            self.envoy_filters.push(view.clone());
        }
        if key == "config_patches" && envoy_filter::removes(view) {
            return;
        }
        if view.get("http_filters").is_some() {
            self.managers.push(Manager::of(view, discovered));
            return;
        }
        let filters = Authorizer::of(&Filter::of(view, discovered));
        if !filters.is_empty() {
            self.filters.extend(filters);
            return;
        }
        if view.get("virtual_hosts").is_some() {
            self.route_tables.push(view.clone());
            return;
        }
        if cluster::is_cluster(view, key) {
            self.clusters.push(view.clone());
            return;
        }
        if cluster::are_endpoints(view, key) {
            self.endpoints.push(view.clone());
            return;
        }
        if view.get("name").is_some() && view.get("validation_context").is_some() {
            self.secrets.push(view.clone());
            return;
        }
        if is_proxy(view) {
            self.proxies.push(view.clone());
            return;
        }
        if let Some(routes) = routes::lone(view) {
            self.lone_routes.push(routes);
            return;
        }
        if is_plain_listener(view) {
            let before = self.managers.len();
            self.search_below(view, key, discovered);
            let own = self.managers.get(before..).unwrap_or_default();
            if own.is_empty() || own.iter().any(|manager| manager.authorizer().is_none()) {
                self.open_listeners.push(view.clone());
            }
            return;
        }
        self.search_below(view, key, discovered);
    }

    fn search_below(&mut self, view: &View<'n>, key: &str, discovered: &Discovered<'n>) {
        for (key, value) in view.entries() {
            // The items of a list are found under its key.
            self.search(&value, &key, discovered);
        }
        for item in view.items() {
            self.search(&item, key, discovered);
        }
    }

    /// Lints this document. What it names may be in one of `all` documents, such as routes and clusters in files of their own.
    pub(crate) fn lint(&self, all: &[Self], discovered: &Discovered<'n>, findings: &mut Findings) {
        let all_tables: Vec<&View<'_>> = all.iter().flat_map(|one| &one.route_tables).collect();
        let all_routes: Vec<&View<'_>> = all.iter().flat_map(Self::routes).collect();
        for manager in &self.managers {
            manager.lint(&all_routes, findings);
        }
        if !self.envoy_filters.is_empty() {
            let all_filters: Vec<&View<'_>> = all.iter().flat_map(|one| &one.envoy_filters).collect();
            envoy_filter::lint(&all_filters, &all_routes, discovered, findings);
        }
        for filter in self.authorizers() {
            authorizer::lint(filter, findings);
        }
        for manager in self.managers.iter().filter(|manager| manager.authorizer().is_some()) {
            manager.lint_bodies(findings);
            for runtime in all.iter().flat_map(|one| &one.runtime) {
                connection_manager::lint_runtime(&manager.view, runtime, findings);
            }
        }
        // One that is given without its name may have any.
        let name = |filter: &Authorizer<'n>| filter.filter.text_of("name").unwrap_or(routes::UNNAMED);
        let names: Vec<&str> = all.iter().flat_map(Self::authorizers).map(name).collect();
        let tables = self.managers.iter().map(|manager| &manager.view).chain(self.routes());
        let of_filters: Vec<View<'_>> =
            all.iter().flat_map(Self::authorizers).filter_map(Authorizer::grpc_service).collect();
        let mut services: Vec<View<'_>> = self.authorizers().filter_map(Authorizer::grpc_service).collect();
        for table in tables {
            routes::lint_disabled(table, &names, findings);
            for settings in routes::check_settings(table, &names) {
                authorizer::lint_route(&settings, &of_filters, findings);
                services.extend(settings.get("grpc_service"));
            }
        }
        let with = self.managers.iter().filter(|manager| manager.authorizer().is_some());
        for manager in with.clone() {
            routes::lint_unseen(&manager.view, &all_tables, findings);
        }
        for table in with.map(|manager| &manager.view).chain(self.routes()) {
            routes::lint_client_routing(table, findings);
            rewrites::lint(table, findings);
        }
        let are_all = self.is_bootstrap && !all.iter().any(|one| one.gets_clusters);
        self.lint_bypasses((all, are_all), discovered, findings);
        // The document's own first: another may be about another Envoy, whose cluster has the same name.
        let clusters = self.clusters.iter().chain(all.iter().flat_map(|one| &one.clusters));
        let secrets: Vec<&View<'_>> = all.iter().flat_map(|one| &one.secrets).collect();
        let endpoints: Vec<&View<'_>> = all.iter().flat_map(|one| &one.endpoints).collect();
        let clusters: Vec<&View<'_>> = clusters.collect();
        cluster::lint(&services, (&clusters, are_all), &endpoints, &secrets, findings);
    }

    /// Listeners without authorization that reach what others protect, in one of `all` documents, and clusters by which those
    /// with authorization reach more than the policy decides about.
    fn lint_bypasses(
        &self,
        (all, are_all): (&[Self], bool),
        discovered: &Discovered<'n>,
        findings: &mut Findings,
    ) {
        let is_with = |manager: &&Manager<'_>| manager.authorizer().is_some();
        let with: Vec<&Manager<'n>> = all.iter().flat_map(|one| &one.managers).filter(is_with).collect();
        let known = Known::new(
            (all.iter().flat_map(|one| &one.clusters), are_all),
            all.iter().flat_map(|one| &one.endpoints),
            all.iter().flat_map(|one| &one.route_tables),
        );
        let Some(protected) = Protected::by(&with, known) else { return };
        if let Some(at) = self.gets_listeners.as_ref().filter(|_| !all.iter().any(|one| one.has_listeners)) {
            findings.report(at, Kind::UnseenListeners);
        }
        protected.lint_clusters(discovered, findings);
        for manager in self.managers.iter().filter(|manager| !is_with(manager)) {
            protected.lint_manager(manager, findings);
        }
        for listener in &self.open_listeners {
            protected.lint_hop(listener, findings);
        }
        for proxy in &self.proxies {
            protected.lint_proxy(proxy, findings);
        }
    }
}

/// Whether this is a listener, as a file or a control plane gives it.
fn is_listener(view: &View<'_>) -> bool {
    view.text_of("@type").is_some_and(|kind| kind.ends_with("envoy.config.listener.v3.Listener"))
}

/// Whether this is a listener, as a bootstrap has it: without its type.
fn is_plain_listener(view: &View<'_>) -> bool {
    view.get("filter_chains").or_else(|| view.get("default_filter_chain")).is_some()
}

/// Whether this is a filter of listeners, of connections or of UDP, and no connection manager.
fn is_proxy(view: &View<'_>) -> bool {
    let Some(config) = view.get("typed_config") else { return false };
    let kind = config.text_of("type_url").or_else(|| config.text_of("@type")).unwrap_or_default();
    [".filters.listener.", ".filters.network.", ".filters.udp."].iter().any(|part| kind.contains(part))
        && !kind.contains(".http_connection_manager.")
}

/// The static listeners on the page `ListenersConfigDump`. The page of the bootstrap has them, too.
fn static_listeners<'n>(root: &View<'n>) -> Vec<View<'n>> {
    on_page(root, "static_listeners", "listener")
}

/// The static routes on the page `RoutesConfigDump`. The connection managers have them, too.
fn static_routes<'n>(root: &View<'n>) -> Vec<View<'n>> {
    on_page(root, "static_route_configs", "route_config")
}

fn on_page<'n>(root: &View<'n>, list: &str, key: &str) -> Vec<View<'n>> {
    let pages = root.list("configs");
    pages.iter().flat_map(|page| page.list(list)).filter_map(|item| item.get(key)).collect()
}

/// Whether two values are the same but for their own `@type`, which only a value that stands alone has.
fn is_same(one: &View<'_>, other: &View<'_>) -> bool {
    is_same_without(one, other, Some("@type"))
}

fn is_same_without(one: &View<'_>, other: &View<'_>, left_out: Option<&str>) -> bool {
    if one.text() != other.text() {
        return false;
    }
    let [items, of_other] = [one, other].map(View::items);
    let [entries, entries_of_other] = [one, other].map(|view| {
        let mut entries = view.named_entries();
        entries.retain(|(key, _)| Some(&**key) != left_out);
        entries
    });
    let is_same = |(one, other): (&View<'_>, &View<'_>)| is_same_without(one, other, None);
    items.len() == of_other.len()
        && items.iter().zip(&of_other).all(is_same)
        && entries.len() == entries_of_other.len()
        && entries
            .iter()
            .zip(&entries_of_other)
            .all(|((key, one), (name, other))| key == name && is_same((one, other)))
}
