//! Finds the parts of a configuration: connection managers, filters outside of one, clusters.

use policy::document::View;

use crate::authorizer::Authorizer;
use crate::connection_manager::Manager;
use crate::{Findings, authorizer, cluster, routes};

/// The parts of one document.
#[derive(Debug, Default)]
pub(crate) struct Configuration<'n> {
    managers: Vec<Manager<'n>>,
    /// Filters that authorize, outside of a connection manager, such as the value of an `EnvoyFilter`'s patch.
    filters: Vec<Authorizer<'n>>,
    clusters: Vec<View<'n>>,
    /// Lists of virtual hosts outside of a connection manager, such as in `/config_dump`.
    route_tables: Vec<View<'n>>,
}

impl<'n> Configuration<'n> {
    pub(crate) fn of(root: &View<'n>) -> Self {
        let mut found = Self::default();
        found.search(root, "");
        found
    }

    /// Whether anything in it authorizes requests.
    pub(crate) fn authorizes(&self) -> bool {
        self.authorizers().next().is_some()
    }

    fn authorizers(&self) -> impl Iterator<Item = &Authorizer<'n>> {
        self.managers.iter().flat_map(Manager::authorizers).chain(&self.filters)
    }

    fn search(&mut self, view: &View<'n>, key: &str) {
        if view.get("http_filters").is_some() {
            self.managers.push(Manager::of(view));
            return;
        }
        if let Some(filter) = Authorizer::of(view) {
            self.filters.push(filter);
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
        for (key, value) in view.entries() {
            // The items of a list are found under its key.
            self.search(&value, &key);
        }
        for item in view.items() {
            self.search(&item, key);
        }
    }

    pub(crate) fn lint(&self, findings: &mut Findings) {
        for manager in &self.managers {
            manager.lint(!self.route_tables.is_empty(), findings);
        }
        for filter in self.authorizers() {
            authorizer::lint(filter, findings);
        }
        for manager in self.managers.iter().filter(|manager| manager.authorizer().is_some()) {
            manager.lint_bodies(findings);
        }
        let names: Vec<&str> =
            self.authorizers().filter_map(|filter| filter.filter.text_of("name")).collect();
        let tables = self.managers.iter().map(|manager| &manager.view).chain(&self.route_tables);
        for table in tables {
            routes::lint_disabled(table, &names, findings);
        }
        self.lint_listeners_without(findings);
        cluster::lint(self.authorizers(), &self.clusters, findings);
    }

    /// Listeners without authorization, whose routes lead to clusters that other listeners protect.
    fn lint_listeners_without(&self, findings: &mut Findings) {
        let (with, without): (Vec<&Manager<'_>>, Vec<&Manager<'_>>) =
            self.managers.iter().partition(|manager| manager.authorizer().is_some());
        let protected: Vec<&str> = with
            .iter()
            .flat_map(|manager| routes::clusters(&manager.view))
            .filter_map(|cluster| cluster.text())
            .collect();
        for manager in without {
            let at = manager.view.get("http_filters").unwrap_or_else(|| manager.view.clone());
            for cluster in routes::clusters(&manager.view) {
                let Some(name) = cluster.text().filter(|name| protected.contains(name)) else { continue };
                let message = format!(
                    "this listener routes to `{name}` without authorization, which another listener reaches only through it"
                );
                let fix = "add the filter here, or route to another cluster";
                findings.add(&at, crate::Kind::BypassListener, message, fix);
            }
        }
    }
}
