//! Routes: where they lead, and where they turn authorization off.

use policy::document::View;

use crate::{Findings, Kind};

/// The names of the clusters that routes lead to, below this value.
pub(crate) fn clusters<'n>(view: &View<'n>) -> Vec<View<'n>> {
    let mut found = Vec::new();
    for (key, value) in view.entries() {
        match &*key {
            "route" => {
                found.extend(value.get("cluster"));
                if let Some(weighted) = value.get("weighted_clusters") {
                    found.extend(weighted.list("clusters").iter().filter_map(|cluster| cluster.get("name")));
                }
            }
            "http_filters" => {}
            _ => found.extend(clusters(&value)),
        }
    }
    found.extend(view.items().iter().flat_map(clusters));
    found
}

/// Whether a route or virtual host says what happens to bodies (`context_extensions`).
pub(crate) fn say_that_bodies_are_sent(view: &View<'_>) -> bool {
    let own = view.at(&["check_settings", "context_extensions"]);
    own.is_some_and(|own| own.text_of("request_body") == Some("buffered"))
        || view.entries().iter().any(|(_, value)| say_that_bodies_are_sent(value))
        || view.items().iter().any(say_that_bodies_are_sent)
}

/// Whether a route or virtual host has bodies sent.
pub(crate) fn have_bodies_sent(view: &View<'_>) -> bool {
    view.at(&["check_settings", "with_request_body"]).is_some()
        || view.entries().iter().any(|(_, value)| have_bodies_sent(value))
        || view.items().iter().any(have_bodies_sent)
}

/// Routes, virtual hosts and weighted clusters on which the filters with these names are off.
pub(crate) fn lint_disabled(view: &View<'_>, names: &[&str], findings: &mut Findings) {
    for (key, value) in view.entries() {
        if key != "typed_per_filter_config" {
            lint_disabled(&value, names, findings);
            continue;
        }
        for (name, config) in value.named_entries().iter().filter(|(name, _)| names.contains(&&**name)) {
            if let Some(at) = disabled(config) {
                let message = format!("`{name}` is off here: requests pass without authorization");
                let fix = "leave this out; where a path is for everyone, allow it to `anyone` in the policy";
                findings.add(&at, Kind::DisabledRoute, message, fix);
            }
        }
    }
    for item in view.items() {
        lint_disabled(&item, names, findings);
    }
}

/// What turns the filter off: of `ExtAuthzPerRoute`, of `FilterConfig`, or of the library's own configuration.
fn disabled<'n>(config: &View<'n>) -> Option<View<'n>> {
    let is_off = |view: &View<'_>| {
        view.is_true("disabled")
            // A `StringValue` has JSON.
            || view.text_of("value").is_some_and(|json| {
                json.split_whitespace().collect::<String>().contains("\"disabled\":true")
            })
    };
    let inner = [
        &[][..],
        &["config"],
        &["filter_config"],
        &["filter_config", "value"],
        &["config", "filter_config", "value"],
    ];
    let inner = inner.iter().filter_map(|keys| config.at(keys));
    inner.filter(is_off).map(|view| view.get("disabled").unwrap_or(view)).next()
}
