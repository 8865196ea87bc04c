//! Filters that may clear the cached route of a request, so that Envoy chooses a route again.
//! Authorization that ran before used the first route.

use document::View;

use crate::filter::Filter;
use crate::{has_text, is_among, setting_unless_false};

/// Filters that clear the route, or run code that may.
const CLEARING: &str = "\
    composite dynamic_modules filter_chain golang grpc_http1_bridge \
    grpc_http1_reverse_bridge grpc_json_reverse_transcoder ip_tagging json_to_metadata \
    thrift_to_metadata wasm";

/// Calls in a script that change headers. Envoy then clears the route of the request.
const CHANGES: [&str; 3] = [":add", ":remove", ":replace"];

/// The fields for a script outside of the configuration.
const ELSEWHERE: [&str; 3] = ["environment_variable", "filename", "inline_bytes"];

/// Whether this filter may clear the route with its own configuration, which is assumed if the
/// configuration is not in the file.
pub(crate) fn may_clear(filter: &Filter<'_>) -> bool {
    let is_unseen = filter.unseen.is_some() || filter.all_configs().next().is_none();
    (is_unseen && may_clear_by(filter, None))
        || filter.all_configs().any(|config| may_clear_by(filter, Some(config)))
}

/// Whether this filter may clear the route with this configuration of the filter or of a route.
pub(crate) fn may_clear_by(filter: &Filter<'_>, config: Option<&View<'_>>) -> bool {
    let any =
        |condition: &dyn Fn(&View<'_>) -> bool| config.is_some_and(|view| view.any(condition));
    if any(&|view| setting_unless_false(view, "clear_route_cache").is_some()) {
        return true;
    }
    match filter.kind() {
        "ext_proc" => !any(&|view| {
            view.is_true("disable_clear_route_cache")
                || view.text_of("route_cache_action") == Some("RETAIN")
        }),
        "grpc_json_transcoder" => !any(&|view| view.is_true("match_incoming_request_route")),
        "lua" => config.is_none_or(|config| script_may_clear(filter, config)),
        "mcp_json_rest_bridge" => !any(&|view| view.is_true("disable_clear_route_cache")),
        // Without a known type, it can be any filter.
        "" => true,
        kind => is_among(CLEARING, kind),
    }
}

/// Whether this refers to a script outside of the configuration.
pub(crate) fn has_code_elsewhere(config: &View<'_>) -> bool {
    config.any(&|view| ELSEWHERE.iter().any(|key| view.get(key).is_some()))
}

fn script_may_clear(filter: &Filter<'_>, config: &View<'_>) -> bool {
    // A change of headers clears the route, unless the filter has `clear_route_cache: false`.
    let keeps_route = |view: &View<'_>| {
        view.get("clear_route_cache").and_then(|value| value.boolean()) == Some(false)
    };
    let keeps = filter.all_configs().any(|config| config.any(&keeps_route));
    let may_clear = |code: &str| {
        let changes =
            code.contains("envoy_on_request") && CHANGES.iter().any(|change| code.contains(change));
        code.contains("clearRouteCache") || (changes && !keeps)
    };
    has_code_elsewhere(config) || has_text(config, &may_clear)
}
