//! Plugins that choose the cluster of a route (cluster specifiers).

use document::View;

use crate::filter::type_of;
use crate::texts::has_text;
use crate::{Findings, Kind, client_routing};

const LUA: &str = "envoy.extensions.router.cluster_specifiers.lua.v3.LuaConfig";
const MATCHER: &str = "envoy.extensions.router.cluster_specifiers.matcher.v3.MatcherClusterSpecifier";

/// Whether it chooses one of the clusters in its configuration, as routes do.
pub(crate) fn is_matcher(plugin: &View<'_>) -> bool {
    config(plugin).is_some_and(|config| type_of(&config) == Some(MATCHER))
}

/// Reports a plugin by which a client names the cluster, or of which it is not known whether one does.
pub(crate) fn lint(plugin: &View<'_>, findings: &mut Findings) {
    let config = config(plugin);
    match config.as_ref().and_then(type_of) {
        Some(MATCHER) => return,
        Some(LUA) if config.is_some_and(|config| has_text(&config, &|code| code.contains("headers"))) => {
            client_routing::by("headers that this code reads", plugin, findings);
            return;
        }
        Some(_) | None => {}
    }
    let message = "a plugin chooses the cluster that gets the request, and by what cannot be seen: the policy decides by the host \
                   that it was sent to";
    let fix = "write `cluster`; or accept this if no client can choose a cluster by what the policy allows it to send";
    findings.add(plugin, Kind::PluginRouting, message, fix);
}

fn config<'n>(plugin: &View<'n>) -> Option<View<'n>> {
    plugin.at(&["extension", "typed_config"])
}
