//! Envoy: finds the RBAC filters of a listener, and the filters that authenticate its callers.

mod basic_auth;
mod jwt_authn;
mod rbac;
mod requirement;
mod routes;

use document::{Problem, View};

use crate::Options;
use crate::expr::{Expr, Notes as _};
use crate::lower::{Alternative, Original};
use crate::note::Effect;

/// Reads a bootstrap, a listener, or the configuration of an RBAC filter.
pub(crate) fn read(root: &View<'_>, options: &Options) -> Result<Original, Problem> {
    let mut chains = Vec::new();
    find_chains(root, (None, &[]), &mut chains);
    let mut original = Original::default();
    if chains.is_empty() {
        let filter = unwrapped(root);
        if !is_rbac(&filter) {
            let help =
                "give a bootstrap, a listener, or the `typed_config` of the filter `envoy.filters.http.rbac`";
            let message = match has_type(root, &|text| is_one_of(&MAY_BE_RBAC, text)) {
                true => "an RBAC filter is not read in this form",
                false => "there is no RBAC filter here",
            };
            return Err(Problem::error(root.place(), message).help(help));
        }
        root.in_one_spelling()?;
        rbac::read(&filter, options, &mut original);
        return Ok(original);
    }
    let chain = chosen(root, chains, options)?;
    chain.manager.in_one_spelling()?;
    read_chain(&chain, options, &mut original);
    if original.allow.is_empty() {
        // Envoy would allow all that no other filter denies.
        let message = "no RBAC filter here is active";
        let help = "leave `disabled` out, or give only the `typed_config` of the filter that routes enable";
        return Err(Problem::error(chain.manager.place(), message).help(help));
    }
    Ok(original)
}

/// The HTTP filters of a listener.
#[derive(Debug)]
struct Chain<'n> {
    listener: Option<String>,
    /// The HTTP connection manager.
    manager: View<'n>,
    filters: Vec<View<'n>>,
    /// The lists of filters that kinds of upgrades have in the place of these.
    upgrades: Vec<View<'n>>,
    /// The filters of connections, with that of HTTP.
    network: Vec<View<'n>>,
}

/// Each mapping with `http_filters`, in a listener with this name and with these filters of connections.
fn find_chains<'n>(
    view: &View<'n>,
    (listener, network): (Option<&str>, &[View<'n>]),
    chains: &mut Vec<Chain<'n>>,
) {
    let is_listener = view.get("filter_chains").is_some() || view.get("default_filter_chain").is_some();
    let listener = if is_listener { view.text_of("name") } else { listener };
    if let Some(filters) = view.get("http_filters") {
        let upgrades = view.list("upgrade_configs").into_iter().filter_map(|upgrade| upgrade.get("filters"));
        chains.push(Chain {
            listener: listener.map(str::to_owned),
            manager: view.clone(),
            filters: filters.one_or_more(),
            // With an empty list, upgrades have the others.
            upgrades: upgrades.filter(|filters| !filters.one_or_more().is_empty()).collect(),
            network: network.to_vec(),
        });
        return;
    }
    let filters = view.get("filters").map(|filters| filters.one_or_more());
    let inside = (listener, filters.as_deref().unwrap_or(network));
    for (_, value) in view.entries() {
        find_chains(&value, inside, chains);
    }
    for item in view.items() {
        find_chains(&item, inside, chains);
    }
}

/// The chain to import: the only one with an RBAC filter, in whichever form, or that of the listener that the options name.
fn chosen<'n>(root: &View<'n>, chains: Vec<Chain<'n>>, options: &Options) -> Result<Chain<'n>, Problem> {
    let may_be_rbac = |filter: &View<'_>| {
        let config = config(filter);
        is_rbac(&config) || is_in_other_form(filter, &config, &MAY_BE_RBAC)
    };
    let has_rbac = |chain: &Chain<'_>| {
        let upgrades = chain.upgrades.iter().flat_map(View::one_or_more);
        chain.filters.iter().cloned().chain(upgrades).any(|filter| may_be_rbac(&filter))
    };
    let mut named: Vec<Chain<'_>> = chains
        .into_iter()
        .filter(|chain| options.listener.is_none() || chain.listener == options.listener)
        .filter(has_rbac)
        .collect();
    let names = named.iter().filter_map(|chain| chain.listener.clone()).collect::<Vec<_>>().join("`, `");
    match (named.pop(), named.is_empty()) {
        (Some(chain), true) => Ok(chain),
        (Some(chain), false) => {
            let help = format!("import one at a time by `--listener`: `{names}`");
            Err(Problem::error(chain.manager.place(), "there are several lists of HTTP filters with RBAC")
                .help(help))
        }
        (None, _) => Err(Problem::error(root.place(), "there is no listener with an RBAC filter here")),
    }
}

fn read_chain(chain: &Chain<'_>, options: &Options, original: &mut Original) {
    // The sources first: conditions on callers refer to them.
    let mut configs: Vec<(View<'_>, View<'_>)> =
        chain.filters.iter().map(|filter| (filter.clone(), config(filter))).collect();
    let active =
        |(filter, config): &&(View<'_>, View<'_>)| !filter.is_true("disabled") || kind(config).is_none();
    retain_first(&mut configs, original);
    for (filter, config) in configs.iter().filter(active) {
        match kind(config) {
            Some(Filter::JwtAuthn) => jwt_authn::providers(config, options, original),
            Some(Filter::BasicAuth) => basic_auth::users(config, original),
            Some(Filter::Rbac) | None => {}
        }
        if is_unreadable(filter, config) {
            // Disabled ones are named below.
            if !filter.is_true("disabled") {
                let message = "a filter that may deny requests is not read in this form";
                let condition = filter.inexpressible(message);
                original.allow.push(vec![unnamed(filter, "not read", condition)]);
            }
        } else if kind(config).is_none() {
            note_http(filter, original);
        }
    }
    let mut names = Vec::new();
    for (filter, config) in configs.iter().filter(active) {
        match kind(config) {
            Some(Filter::Rbac) => rbac::read(config, options, original),
            Some(Filter::JwtAuthn) => jwt_authn::requirements(config, options, original),
            Some(Filter::BasicAuth) => basic_auth::requirement(config, original),
            None => continue,
        }
        names.extend(filter.text_of("name").map(str::to_owned));
    }
    for (filter, config) in configs.iter().filter(|(filter, _)| filter.is_true("disabled")) {
        if kind(config).is_some() || is_unreadable(filter, config) {
            let message = "a disabled filter is not imported: routes that enable it are named below";
            original.notes.push(filter.note(Effect::Same, message));
            names.extend(filter.text_of("name").map(str::to_owned));
        }
    }
    note_network(chain, original);
    for filters in &chain.upgrades {
        read_upgrade(filters, original);
    }
    routes::read(&chain.manager, &names, options, original);
    if !chain.manager.is_true("normalize_path") || !chain.manager.is_true("merge_slashes") {
        let message = "without `normalize_path` and `merge_slashes`, Envoy compares paths as they are written; \
                       rolegate compares their canonical form, so other spellings of an allowed path are allowed";
        original.notes.push(chain.manager.note(Effect::Unexpected, message));
    }
}

/// Of several filters that authenticate callers in one way, keeps the first one.
fn retain_first(configs: &mut Vec<(View<'_>, View<'_>)>, original: &mut Original) {
    let mut sources = Vec::new();
    configs.retain(|(filter, config)| {
        let Some(kind) = kind(config).filter(|kind| *kind != Filter::Rbac && !filter.is_true("disabled"))
        else {
            return true;
        };
        let is_first = !sources.contains(&kind);
        if !is_first {
            // What each verifies, and where, would be that of the other.
            let condition = filter.inexpressible("of several such filters, only the first one is read");
            original.allow.push(vec![unnamed(filter, "several", condition)]);
        }
        sources.push(kind);
        is_first
    });
}

/// Notes an HTTP filter that may deny requests, and such filters that the router has in itself.
fn note_http(filter: &View<'_>, original: &mut Original) {
    if may_deny(filter, "http", HARMLESS) {
        original.notes.push(filter.note(Effect::Same, NOT_IMPORTED));
    }
    for inner in config(filter).list("upstream_http_filters") {
        note_http(&inner, original);
    }
}

/// Notes which filters of connections may deny them.
fn note_network(chain: &Chain<'_>, original: &mut Original) {
    let is_http = |filter: &View<'_>| config(filter).get("http_filters").is_some();
    let denies = |filter: &&View<'_>| !is_http(filter) && may_deny(filter, "network", HARMLESS_NETWORK);
    let network = chain.network.iter().filter(denies);
    original.notes.extend(network.map(|filter| filter.note(Effect::Same, NOT_IMPORTED)));
}

/// A list of filters that upgrades of one kind have in the place of `http_filters`. No rule depends on an upgrade, so that what
/// this list denies, nothing may allow.
fn read_upgrade(filters: &View<'_>, original: &mut Original) {
    let is_imported = |filter: &View<'_>| {
        let config = config(filter);
        kind(&config).is_some() || is_unreadable(filter, &config)
    };
    let all = filters.one_or_more();
    if all.iter().any(is_imported) {
        let condition =
            filters.inexpressible("upgrades have filters of their own, and no rule depends on them");
        original.allow.push(vec![unnamed(filters, "upgrade", condition)]);
    } else {
        let message = "upgrades have filters of their own, which do not authorize them; the policy does: less is allowed";
        original.notes.push(filters.note(Effect::Stricter, message));
    }
    all.iter().filter(|filter| !is_imported(filter)).for_each(|filter| note_http(filter, original));
}

/// The note about a filter that is not imported and may deny requests or connections.
const NOT_IMPORTED: &str = "this filter is not imported: keep it";

/// A filter that is imported.
#[derive(Clone, Copy, PartialEq)]
enum Filter {
    Rbac,
    JwtAuthn,
    BasicAuth,
}

fn kind(config: &View<'_>) -> Option<Filter> {
    let url = config.text_of("@type").or_else(|| config.text_of("type_url")).unwrap_or_default();
    let name = url.rsplit('/').next().unwrap_or_default();
    match name {
        "envoy.extensions.filters.http.rbac.v3.RBAC" => Some(Filter::Rbac),
        "envoy.extensions.filters.http.jwt_authn.v3.JwtAuthentication" => Some(Filter::JwtAuthn),
        "envoy.extensions.filters.http.basic_auth.v3.BasicAuth" => Some(Filter::BasicAuth),
        _ => None,
    }
}

fn is_rbac(config: &View<'_>) -> bool {
    match kind(config) {
        Some(Filter::Rbac) => true,
        Some(Filter::JwtAuthn | Filter::BasicAuth) => false,
        None => {
            let has = |key: &str| config.get(key).is_some();
            !has("@type") && !has("name") && (has("rules") || has("matcher") || has("shadow_rules"))
        }
    }
}

/// The configuration of a filter.
fn config<'n>(filter: &View<'n>) -> View<'n> {
    filter.get("typed_config").map_or_else(|| filter.clone(), |config| unwrapped(&config))
}

/// The configuration inside a filter or a `TypedStruct`.
fn unwrapped<'n>(config: &View<'n>) -> View<'n> {
    if let Some(inner) = config.get("typed_config") {
        return unwrapped(&inner);
    }
    config.clone()
}

/// Whether this filter is of a kind that is imported, or may have such a filter in it, in a form that is not read: behind a
/// matcher, from another server, in a `TypedStruct`, or of an older version of Envoy. What it denies is not known.
fn is_unreadable(filter: &View<'_>, config: &View<'_>) -> bool {
    let is_untyped = || kind(config).is_none() && is_rbac(config);
    is_untyped() || is_in_other_form(filter, config, &["rbac", "jwt_authn", "basic_auth", "composite"])
}

/// Whether the configuration of a filter that is imported, or of one for a route, has this type.
fn is_imported_type(text: &str) -> bool {
    is_one_of(&["rbac", "jwt_authn", "basic_auth"], text)
}

/// What the types of filters have in them that are, or may choose, an RBAC filter.
const MAY_BE_RBAC: [&str; 2] = ["rbac", "composite"];

fn is_one_of(names: &[&str], text: &str) -> bool {
    names.iter().any(|name| text.contains(name))
}

fn is_in_other_form(filter: &View<'_>, config: &View<'_>, names: &[&str]) -> bool {
    let is_named = |text: &str| is_one_of(names, text);
    // A name is free where there is a type.
    let named = || !has_type(filter, &|_| true) && filter.text_of("name").is_some_and(is_named);
    kind(config).is_none() && (has_type(filter, &is_named) || named())
}

/// Whether a value, or one in it, has a type for which this holds.
fn has_type(view: &View<'_>, is: &impl Fn(&str) -> bool) -> bool {
    const KEYS: [&str; 3] = ["@type", "type_url", "type_urls"];
    let in_field = |(key, value): &(String, View<'_>)| {
        let own = KEYS.contains(&key.as_str())
            && (value.text().is_some_and(is) || value.items().iter().filter_map(View::text).any(is));
        own || has_type(value, is)
    };
    view.entries().iter().any(in_field) || view.items().iter().any(|item| has_type(item, is))
}

/// HTTP filters that deny nobody by who they are. Each other one, also one that is not known, may: also `fault` and limits of rates,
/// which can depend on headers, on addresses, or on another service.
const HARMLESS: &str = "\
    adaptive_concurrency admission_control bandwidth_limit buffer compressor cors \
    decompressor grpc_http1_bridge grpc_http1_reverse_bridge grpc_stats grpc_web \
    header_to_metadata health_check on_demand router stateful_session upstream_codec";

/// Network filters that deny nobody by who they are.
const HARMLESS_NETWORK: &str = "connection_limit http_connection_manager tcp_proxy";

/// Whether this filter may deny: it is none of Envoy's own filters of this layer with these names.
fn may_deny(filter: &View<'_>, layer: &str, harmless: &str) -> bool {
    let config = config(filter);
    let url = config.text_of("@type").or_else(|| config.text_of("type_url"));
    let name = match url.map(|url| url.rsplit('/').next().unwrap_or_default()) {
        Some(name) => name.strip_prefix("envoy.extensions.filters."),
        // A name is free where the configuration is elsewhere.
        None if filter.get("config_discovery").is_some() => None,
        None => filter.text_of("name").and_then(|name| name.strip_prefix("envoy.filters.")),
    };
    let mut parts = name.unwrap_or_default().split('.');
    parts.next() != Some(layer)
        || !parts.next().is_some_and(|name| harmless.split_whitespace().any(|known| known == name))
}

/// A condition without a name of its own.
fn unnamed(view: &View<'_>, name: &str, condition: Expr) -> Alternative {
    Alternative { name: name.to_owned(), origin: (view.place(), view.path.clone()), condition }
}
