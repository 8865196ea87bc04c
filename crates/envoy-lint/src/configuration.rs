//! Collects the parts of a configuration: connection managers, other network filters, filters
//! outside of a connection manager, routes, clusters. All documents of a file are one
//! configuration.

use document::View;

use crate::authorizer::Authorizer;
use crate::bypass::Protected;
use crate::cluster::Clusters;
use crate::connection_manager::{self, Manager};
use crate::filter::{Discovered, Filter, type_of};
use crate::{Findings, Kind, authorizer, cluster, envoy_filter, rewrites, routes, transport};

#[derive(Debug, Default)]
pub(crate) struct Configuration<'n> {
    managers: Vec<Manager<'n>>,
    /// Filters that authorize, outside of a connection manager, such as the value of an
    /// `EnvoyFilter`'s patch.
    filters: Vec<Authorizer<'n>>,
    clusters: Clusters<'n>,
    /// Layers of runtime that are in the configuration itself.
    runtime: Vec<View<'n>>,
    /// Secrets that say how certificates are verified.
    secrets: Vec<View<'n>>,
    /// The TLS contexts of listeners.
    downstream_tls: Vec<View<'n>>,
    /// Listener, network and UDP filters other than connection managers, such as `tcp_proxy`.
    proxies: Vec<View<'n>>,
    /// Listeners that let requests or connections pass without authorization.
    open_listeners: Vec<View<'n>>,
    /// Lists of virtual hosts outside of a connection manager, such as in `/config_dump`.
    route_tables: Vec<View<'n>>,
    /// Routes and virtual hosts outside of a table, such as the value of an `EnvoyFilter`'s patch.
    /// Any listener may use them.
    lone_routes: Vec<View<'n>>,
    /// The `spec`s of `EnvoyFilter`s.
    envoy_filters: Vec<View<'n>>,
    /// The settings that make Envoy ask a control plane for listeners.
    listener_sources: Vec<View<'n>>,
    /// Whether the file has listeners outside of a bootstrap: as documents of their own, from a
    /// `/config_dump`, or from a control plane.
    has_listeners: bool,
    /// Keys in the current document whose values are to be skipped: another page of the same
    /// `/config_dump` has the same content.
    repeated_pages: Vec<&'static str>,
}

impl<'n> Configuration<'n> {
    pub(crate) fn new(roots: &[View<'n>], discovered: &Discovered<'n>) -> Self {
        let mut configuration = Self::default();
        for root in roots {
            configuration.add(root, discovered);
        }
        configuration
    }

    fn add(&mut self, root: &View<'n>, discovered: &Discovered<'n>) {
        let dynamic = |key: &str| root.get(&format!("dynamic_resources/{key}"));
        self.clusters.is_bootstrap |= root.get("static_resources").is_some();
        self.clusters.has_source |=
            ["cds_config", "cds_resources_locator"].iter().any(|key| dynamic(key).is_some());
        self.listener_sources
            .extend(["lds_config", "lds_resources_locator"].iter().find_map(|key| dynamic(key)));
        self.has_listeners |= root.items().iter().chain([root]).any(is_plain_listener);
        self.repeated_pages.clear();
        if root.any(&|view| view.get("static_resources").is_some()) {
            self.repeated_pages.extend(["static_listeners", "static_clusters"]);
        }
        if root.any(&|view| view.get("http_filters").and(view.get("route_config")).is_some()) {
            self.repeated_pages.push("static_route_configs");
        }
        if self.collect("", root, discovered) {
            root.walk(&mut |key, view| self.collect(key, view, discovered));
        }
    }

    /// Adds this value if it is a part of the configuration. Returns whether it may contain further
    /// parts.
    fn collect(&mut self, key: &str, view: &View<'n>, discovered: &Discovered<'n>) -> bool {
        let has = |path: &str| view.get(path).is_some();
        self.has_listeners |=
            key == "dynamic_listeners" || (key == "resources" && is_listener_resource(view));
        if has("config_patches") {
            self.envoy_filters.push(view.clone());
        }
        if self.repeated_pages.contains(&key)
            || (key == "config_patches" && envoy_filter::removes(view))
        {
            return false;
        }
        let authorizers = Authorizer::all_in(&Filter::new(view, discovered));
        if key == "static_layer" {
            self.runtime.push(view.clone());
        } else if has("http_filters") {
            self.managers.push(Manager::new(view, discovered));
        } else if !authorizers.is_empty() {
            self.filters.extend(authorizers);
        } else if has("virtual_hosts") {
            self.route_tables.push(view.clone());
        } else if is_downstream_tls(view) {
            self.downstream_tls.push(view.clone());
        } else if self.clusters.add(key, view) {
            return false;
        } else if has("name") && has("validation_context") {
            self.secrets.push(view.clone());
        } else if is_proxy(view) {
            self.proxies.push(view.clone());
        } else if let Some(routes) = routes::lone(view) {
            self.lone_routes.push(routes);
        } else if is_plain_listener(view) {
            let before = self.managers.len();
            view.walk(&mut |key, view| self.collect(key, view, discovered));
            let managers = self.managers.get(before..).unwrap_or_default();
            if managers.is_empty() || !managers.iter().all(Manager::authorizes) {
                self.open_listeners.push(view.clone());
            }
        } else {
            return true;
        }
        false
    }

    pub(crate) fn authorizes(&self) -> bool {
        self.authorizers().next().is_some()
    }

    /// Whether there are routes outside of a connection manager.
    pub(crate) fn has_routes(&self) -> bool {
        self.routes().next().is_some()
    }

    fn authorizers(&self) -> impl Iterator<Item = &Authorizer<'n>> {
        self.managers.iter().flat_map(Manager::authorizers).chain(&self.filters)
    }

    /// Tables, virtual hosts and routes outside of a connection manager.
    fn routes(&self) -> impl Iterator<Item = &View<'n>> {
        self.route_tables.iter().chain(&self.lone_routes)
    }

    pub(crate) fn lint(&self, discovered: &Discovered<'n>, findings: &mut Findings) {
        let routes: Vec<&View<'_>> = self.routes().collect();
        let (authorized, open): (Vec<&Manager<'n>>, Vec<_>) =
            self.managers.iter().partition(|manager| manager.authorizes());
        for manager in &authorized {
            manager.lint(&routes, findings);
            for runtime in &self.runtime {
                connection_manager::lint_runtime(&manager.view, runtime, findings);
            }
            routes::lint_unseen(&manager.view, &self.route_tables, findings);
        }
        let mut have_certificates = false;
        for tls in self.downstream_tls.iter().filter(|_| self.authorizes()) {
            have_certificates |= transport::lint_clients(tls, &self.secrets, findings);
        }
        for filter in self.proxies.iter().filter(|_| self.authorizes()) {
            transport::lint_proxy_protocol(filter, findings);
        }
        envoy_filter::lint(&self.envoy_filters, &routes, discovered, findings);
        for filter in self.authorizers().filter(|_| have_certificates) {
            authorizer::lint_certificate(filter, findings);
        }
        for filter in self.authorizers() {
            authorizer::lint(filter, findings);
        }
        let names: Vec<&str> = self
            .authorizers()
            .map(|filter| filter.view.text_of("name").unwrap_or(routes::UNNAMED))
            .collect();
        let filter_services: Vec<View<'_>> =
            self.authorizers().filter_map(Authorizer::grpc_service).collect();
        let mut services = filter_services.clone();
        for table in self.managers.iter().map(|manager| &manager.view).chain(self.routes()) {
            routes::lint_disabled(table, &names, findings);
            for settings in routes::check_settings(table, &names) {
                authorizer::lint_route(&settings, &filter_services, findings);
                services.extend(settings.get("grpc_service"));
            }
        }
        for table in authorized.iter().map(|manager| &manager.view).chain(self.routes()) {
            routes::lint_client_routing(table, findings);
            rewrites::lint(table, findings);
        }
        if !authorized.is_empty() {
            self.lint_bypasses(&authorized, &open, discovered, findings);
        }
        cluster::lint(&services, &self.clusters, &self.secrets, findings);
    }

    /// Reports listeners without authorization that reach a protected application, and unsafe
    /// settings of protected clusters.
    fn lint_bypasses(
        &self,
        authorized: &[&Manager<'n>],
        open: &[&Manager<'n>],
        discovered: &Discovered<'n>,
        findings: &mut Findings,
    ) {
        for source in self.listener_sources.iter().filter(|_| !self.has_listeners) {
            findings.add_kind(source, Kind::UnseenListeners);
        }
        let protected = Protected::new(authorized, &self.clusters, &self.route_tables);
        protected.lint_clusters(discovered, findings);
        open.iter().for_each(|manager| protected.lint_manager(manager, findings));
        self.open_listeners.iter().for_each(|listener| protected.lint_hop(listener, findings));
        self.proxies.iter().for_each(|proxy| protected.lint_proxy(proxy, findings));
    }
}

/// Whether this is the TLS context of a listener.
fn is_downstream_tls(view: &View<'_>) -> bool {
    view.get("common_tls_context").is_some()
        && type_of(view).is_some_and(|kind| kind.ends_with(".DownstreamTlsContext"))
}

/// Whether this is a listener resource with its type, as in a file from a control plane.
fn is_listener_resource(view: &View<'_>) -> bool {
    view.text_of("@type").is_some_and(|kind| kind.ends_with("envoy.config.listener.v3.Listener"))
}

/// Whether this is a listener, possibly without its type, as in a bootstrap.
fn is_plain_listener(view: &View<'_>) -> bool {
    view.get("filter_chains").or_else(|| view.get("default_filter_chain")).is_some()
}

/// Whether this is a listener, network or UDP filter other than a connection manager.
fn is_proxy(view: &View<'_>) -> bool {
    let Some(config) = view.get("typed_config") else { return false };
    let kind = type_of(&config).unwrap_or_default();
    [".filters.listener.", ".filters.network.", ".filters.udp."]
        .iter()
        .any(|part| kind.contains(part))
        && !kind.contains(".http_connection_manager.")
}
