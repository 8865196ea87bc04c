//! Envoy: finds the RBAC filters of a listener, and the filters that authenticate its callers.

mod basic_auth;
mod jwt_authn;
mod rbac;
mod requirement;
mod routes;

use document::{Problem, View};

use crate::Options;
use crate::expr::Notes as _;
use crate::lower::Original;
use crate::note::Effect;

/// Reads a bootstrap, a listener, or the configuration of an RBAC filter.
pub(crate) fn read(root: &View<'_>, options: &Options) -> Result<Original, Problem> {
    let mut chains = Vec::new();
    find_chains(root, (None, &[]), &mut chains);
    let mut original = Original::default();
    if chains.is_empty() {
        let filter = Filter::new(root);
        if !filter.is_rbac() {
            let help = "give a bootstrap, a listener, or the `typed_config` of the filter \
                        `envoy.filters.http.rbac`";
            let message = if has_type(root, &MAY_BE_RBAC) {
                "an RBAC filter is not read in this form"
            } else {
                "there is no RBAC filter here"
            };
            return Err(Problem::error(root.place(), message).help(help));
        }
        root.in_one_spelling()?;
        rbac::read(&filter.config, options, &mut original);
        return Ok(original);
    }
    let chain = choose_chain(root, chains, options)?;
    chain.manager.in_one_spelling()?;
    read_chain(&chain, options, &mut original);
    if original.allow.is_empty() {
        // Envoy would allow all that no other filter denies.
        let message = "no RBAC filter here is active";
        let help = "leave `disabled` out, or give only the `typed_config` of the filter that \
                    routes enable";
        return Err(Problem::error(chain.manager.place(), message).help(help));
    }
    Ok(original)
}

/// The HTTP filters of a listener.
#[derive(Debug)]
struct Chain<'n> {
    listener: Option<&'n str>,
    /// The HTTP connection manager.
    manager: View<'n>,
    /// Lists of filters that kinds of upgrades have in the place of those of the manager.
    upgrades: Vec<View<'n>>,
    /// The filters of connections, with that of HTTP.
    network: Vec<View<'n>>,
}

/// Each mapping with `http_filters`, in a listener with this name and with these filters of
/// connections.
fn find_chains<'n>(
    view: &View<'n>,
    (listener, network): (Option<&'n str>, &[View<'n>]),
    chains: &mut Vec<Chain<'n>>,
) {
    let is_listener =
        view.get("filter_chains").is_some() || view.get("default_filter_chain").is_some();
    let listener = if is_listener { view.text_of("name") } else { listener };
    if view.get("http_filters").is_some() {
        let configs = view.list("upgrade_configs");
        let mut upgrades: Vec<View<'n>> =
            configs.iter().filter_map(|upgrade| upgrade.get("filters")).collect();
        // With an empty list, upgrades have the filters of the manager.
        upgrades.retain(|filters| !filters.one_or_more().is_empty());
        chains.push(Chain { listener, manager: view.clone(), upgrades, network: network.to_vec() });
        return;
    }
    let filters = view.get("filters").map(|filters| filters.one_or_more());
    let inside = (listener, filters.as_deref().unwrap_or(network));
    for value in view.entries().into_iter().map(|(_, value)| value).chain(view.items()) {
        find_chains(&value, inside, chains);
    }
}

/// The chain to import: the only one with an RBAC filter, in whichever form, or that of the
/// listener that the options name.
fn choose_chain<'n>(
    root: &View<'n>,
    mut chains: Vec<Chain<'n>>,
    options: &Options,
) -> Result<Chain<'n>, Problem> {
    chains.retain(|chain| {
        let upgrades = chain.upgrades.iter().flat_map(View::one_or_more);
        let mut filters = chain.manager.list("http_filters").into_iter().chain(upgrades);
        (options.listener.is_none() || chain.listener == options.listener.as_deref())
            && filters.any(|filter| {
                let filter = Filter::new(&filter);
                filter.is_rbac() || filter.is_in_other_form(&MAY_BE_RBAC)
            })
    });
    let names: Vec<&str> = chains.iter().filter_map(|chain| chain.listener).collect();
    let help = format!("import one at a time by `--listener`: `{}`", names.join("`, `"));
    let Some(chain) = chains.pop() else {
        let message = "there is no listener with an RBAC filter here";
        return Err(Problem::error(root.place(), message));
    };
    if !chains.is_empty() {
        let message = "there are several lists of HTTP filters with RBAC";
        return Err(Problem::error(chain.manager.place(), message).help(help));
    }
    Ok(chain)
}

fn read_chain(chain: &Chain<'_>, options: &Options, original: &mut Original) {
    let views = chain.manager.list("http_filters");
    let mut filters: Vec<Filter<'_>> = views.iter().map(Filter::new).collect();
    retain_first(&mut filters, original);
    // The sources first: conditions on callers refer to them.
    for filter in &filters {
        match filter.kind {
            Some(_) if filter.is_disabled => {}
            Some(Kind::JwtAuthn) => jwt_authn::providers(&filter.config, options, original),
            Some(Kind::BasicAuth) => basic_auth::users(&filter.config, original),
            Some(Kind::Rbac) => {}
            None if !filter.is_unreadable() => note_http(filter, original),
            // Disabled filters are named below.
            None if filter.is_disabled => {}
            None => {
                let message = "a filter that may deny requests is not read in this form";
                let condition = filter.view.inexpressible(message);
                original.require(&filter.view, "not read", condition);
            }
        }
    }
    let mut names = Vec::new();
    for filter in filters.iter().filter(|filter| !filter.is_disabled) {
        match filter.kind {
            Some(Kind::Rbac) => rbac::read(&filter.config, options, original),
            Some(Kind::JwtAuthn) => jwt_authn::requirements(&filter.config, options, original),
            Some(Kind::BasicAuth) => basic_auth::requirement(&filter.config, original),
            None => continue,
        }
        names.extend(filter.view.text_of("name"));
    }
    for filter in filters.iter().filter(|filter| filter.is_disabled && filter.is_imported()) {
        let message = "a disabled filter is not imported: routes that enable it are named below";
        original.notes.push(filter.view.note(Effect::Same, message));
        names.extend(filter.view.text_of("name"));
    }
    for filter in chain.network.iter().map(Filter::new) {
        if filter.config.get("http_filters").is_none()
            && filter.may_deny("network", HARMLESS_NETWORK)
        {
            original.notes.push(filter.view.note(Effect::Same, NOT_IMPORTED));
        }
    }
    for filters in &chain.upgrades {
        read_upgrade(filters, original);
    }
    routes::read(&chain.manager, &names, options, original);
    if !chain.manager.is_true("normalize_path") || !chain.manager.is_true("merge_slashes") {
        let message = "without `normalize_path` and `merge_slashes`, Envoy compares paths as they \
                       are written; rolegate compares their canonical form, so other spellings of \
                       an allowed path are allowed";
        original.notes.push(chain.manager.note(Effect::Unexpected, message));
    }
}

/// Of several filters that authenticate callers in the same way, keeps the first.
fn retain_first(filters: &mut Vec<Filter<'_>>, original: &mut Original) {
    let mut kinds = Vec::new();
    filters.retain(|filter| match filter.kind {
        Some(kind @ (Kind::JwtAuthn | Kind::BasicAuth)) if !filter.is_disabled => {
            let is_first = !kinds.contains(&kind);
            if !is_first {
                // The callers that each verifies, and where, would be those of the other.
                let message = "of several such filters, only the first one is read";
                original.require(&filter.view, "several", filter.view.inexpressible(message));
            }
            kinds.push(kind);
            is_first
        }
        _ => true,
    });
}

/// Notes an HTTP filter that may deny requests, and such filters that the router has in itself.
fn note_http(filter: &Filter<'_>, original: &mut Original) {
    if filter.may_deny("http", HARMLESS) {
        original.notes.push(filter.view.note(Effect::Same, NOT_IMPORTED));
    }
    for inner in filter.config.list("upstream_http_filters") {
        note_http(&Filter::new(&inner), original);
    }
}

/// A list of filters that upgrades of one kind have in the place of `http_filters`. No rule depends
/// on an upgrade, so a request that this list denies must not be allowed at all.
fn read_upgrade(list: &View<'_>, original: &mut Original) {
    let views = list.one_or_more();
    let (imported, ignored): (Vec<Filter<'_>>, Vec<_>) =
        views.iter().map(Filter::new).partition(Filter::is_imported);
    if imported.is_empty() {
        let message = "upgrades have filters of their own, which do not authorize them; the policy \
                       does: less is allowed";
        original.notes.push(list.note(Effect::Stricter, message));
    } else {
        let message = "upgrades have filters of their own, and no rule depends on them";
        original.require(list, "upgrade", list.inexpressible(message));
    }
    ignored.iter().for_each(|filter| note_http(filter, original));
}

/// The note about a filter that is not imported and may deny requests or connections.
const NOT_IMPORTED: &str = "this filter is not imported: keep it";

/// The kinds of filters that are imported.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    Rbac,
    JwtAuthn,
    BasicAuth,
}

/// A filter of HTTP requests or of connections.
#[derive(Debug)]
struct Filter<'n> {
    view: View<'n>,
    config: View<'n>,
    kind: Option<Kind>,
    is_disabled: bool,
}

/// Parts of the types of filters that are imported, and of a filter that may have one in it.
const IMPORTED: [&str; 3] = ["rbac", "jwt_authn", "basic_auth"];
const MAY_BE_IMPORTED: [&str; 4] = ["rbac", "jwt_authn", "basic_auth", "composite"];

/// Parts of the types of filters that are, or may choose, an RBAC filter.
const MAY_BE_RBAC: [&str; 2] = ["rbac", "composite"];

impl<'n> Filter<'n> {
    fn new(view: &View<'n>) -> Self {
        let mut config = view.clone();
        while let Some(inner) = config.get("typed_config") {
            config = inner;
        }
        let kind = match type_name(&config).unwrap_or_default() {
            "envoy.extensions.filters.http.rbac.v3.RBAC" => Some(Kind::Rbac),
            "envoy.extensions.filters.http.jwt_authn.v3.JwtAuthentication" => Some(Kind::JwtAuthn),
            "envoy.extensions.filters.http.basic_auth.v3.BasicAuth" => Some(Kind::BasicAuth),
            _ => None,
        };
        Self { is_disabled: view.is_true("disabled"), view: view.clone(), config, kind }
    }

    /// Whether this is an RBAC filter, also without its type.
    fn is_rbac(&self) -> bool {
        let has = |keys: &[&str]| keys.iter().any(|key| self.config.get(key).is_some());
        let is_untyped = !has(&["@type", "name"]) && has(&["rules", "matcher", "shadow_rules"]);
        self.kind == Some(Kind::Rbac) || self.kind.is_none() && is_untyped
    }

    /// Whether this filter is of a kind that is imported, or may have such a filter in it, in a
    /// form that is not read: behind a matcher, from another server, in a `TypedStruct`, or of an
    /// older version of Envoy. Which requests it denies is not known.
    fn is_unreadable(&self) -> bool {
        self.kind.is_none() && (self.is_rbac() || self.is_in_other_form(&MAY_BE_IMPORTED))
    }

    fn is_imported(&self) -> bool {
        self.kind.is_some() || self.is_unreadable()
    }

    /// Whether it has one of these types, but not as the type of its own configuration.
    fn is_in_other_form(&self, names: &[&str]) -> bool {
        // A name is free where there is a type.
        let is_named = || self.view.text_of("name").is_some_and(|name| contains_one(name, names));
        self.kind.is_none()
            && (has_type(&self.view, names) || !has_type(&self.view, &[""]) && is_named())
    }

    /// Whether this filter may deny: it is not among Envoy's own `harmless` filters of this layer.
    fn may_deny(&self, layer: &str, harmless: &str) -> bool {
        let name = match type_name(&self.config) {
            Some(name) => name.strip_prefix("envoy.extensions.filters."),
            // A name is free where the configuration is elsewhere.
            None if self.view.get("config_discovery").is_some() => None,
            None => self.view.text_of("name").and_then(|name| name.strip_prefix("envoy.filters.")),
        };
        let mut parts = name.unwrap_or_default().split('.');
        parts.next() != Some(layer)
            || !parts
                .next()
                .is_some_and(|name| harmless.split_whitespace().any(|filter| filter == name))
    }
}

/// The type of a configuration, without the host of its URL.
fn type_name<'n>(config: &View<'n>) -> Option<&'n str> {
    let url = config.text_of("@type").or_else(|| config.text_of("type_url"))?;
    url.rsplit('/').next()
}

fn contains_one(text: &str, names: &[&str]) -> bool {
    names.iter().any(|name| text.contains(name))
}

/// Whether a value, or a value in it, has a type with one of these names in it.
fn has_type(view: &View<'_>, names: &[&str]) -> bool {
    view.any(&|value| {
        let types = ["@type", "type_url", "type_urls"].iter().flat_map(|key| value.list(key));
        types.filter_map(|kind| kind.text()).any(|text| contains_one(text, names))
    })
}

/// HTTP filters that deny nobody by who they are. Each other filter may, also if it is unknown:
/// also `fault` and limits of rates, which can depend on headers, on addresses, or on another
/// service.
const HARMLESS: &str = "\
    adaptive_concurrency admission_control bandwidth_limit buffer compressor cors \
    decompressor grpc_http1_bridge grpc_http1_reverse_bridge grpc_stats grpc_web \
    header_to_metadata health_check on_demand router stateful_session upstream_codec";

/// Network filters that deny nobody by who they are.
const HARMLESS_NETWORK: &str = "connection_limit http_connection_manager tcp_proxy";
