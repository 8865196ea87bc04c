//! Envoy: finds a listener's RBAC filters, and the filters that authenticate callers.

mod basic_auth;
mod cel;
mod claims;
mod jwt_authn;
mod rbac;
mod requirement;
mod routes;

use document::{Problem, View};

use crate::Options;
use crate::expr::Notes as _;
use crate::lower::Original;
use crate::note::Effect;
use crate::sources::Addresses;

/// Reads a bootstrap, a listener, or the configuration of an RBAC filter.
pub(crate) fn read(root: &View<'_>, options: &Options) -> Result<Original, Problem> {
    let mut chains = Vec::new();
    find_chains(root, Around::default(), &mut chains);
    let mut original = Original::default();
    if chains.is_empty() {
        let filter = Filter::new(root);
        if !filter.is_rbac() {
            let help = "give a bootstrap, a listener, or the `typed_config` of the filter \
                        `envoy.filters.http.rbac`";
            let message = if has_type(root, &MAY_BE_RBAC) {
                "an RBAC filter in this form cannot be imported"
            } else {
                "there is no RBAC filter here"
            };
            return Err(Problem::error(root.place(), message).help(help));
        }
        root.check_spellings()?;
        rbac::read(&filter.config, options, &mut original);
        return Ok(original);
    }
    let chain = choose_chain(root, chains, options)?;
    chain.manager.check_spellings()?;
    read_chain(&chain, options, &mut original);
    if original.allow.is_empty() {
        // Envoy would allow everything that no other filter denies.
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
    /// The filter lists of upgrades, which replace the manager's list.
    upgrades: Vec<View<'n>>,
    /// The network filters, including the connection manager.
    network: Vec<View<'n>>,
    listener_filters: Vec<View<'n>>,
}

/// What is around a value: its listener, and the filters of that listener.
#[derive(Clone, Default)]
struct Around<'n> {
    /// The name of the listener.
    listener: Option<&'n str>,
    listener_filters: Vec<View<'n>>,
    network: Vec<View<'n>>,
}

/// Collects each mapping with `http_filters`.
fn find_chains<'n>(view: &View<'n>, mut around: Around<'n>, chains: &mut Vec<Chain<'n>>) {
    let is_listener =
        view.get("filter_chains").is_some() || view.get("default_filter_chain").is_some();
    if is_listener {
        around.listener = view.text_of("name");
        around.listener_filters = view.list("listener_filters");
    }
    if view.get("http_filters").is_some() {
        let configs = view.list("upgrade_configs");
        let mut upgrades: Vec<View<'n>> =
            configs.iter().filter_map(|upgrade| upgrade.get("filters")).collect();
        // Upgrades with an empty list use the manager's filters.
        upgrades.retain(|filters| !filters.one_or_more().is_empty());
        let Around { listener, listener_filters, network } = around;
        let manager = view.clone();
        chains.push(Chain { listener, manager, upgrades, network, listener_filters });
        return;
    }
    if let Some(filters) = view.get("filters") {
        around.network = filters.one_or_more();
    }
    for value in view.entries().into_iter().map(|(_, value)| value).chain(view.items()) {
        find_chains(&value, around.clone(), chains);
    }
}

/// The chain to import: the only chain with an RBAC filter in any form. If the options name a
/// listener, only its chains count.
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
    let help = format!("import one listener at a time with `--listener`: `{}`", names.join("`, `"));
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
    original.sources.addresses = Addresses::new(&chain.manager, &chain.listener_filters);
    // The sources first: conditions on callers refer to them.
    for filter in &filters {
        match filter.kind {
            Some(_) if filter.is_disabled => {}
            Some(Kind::JwtAuthn) => jwt_authn::providers(&filter.config, options, original),
            Some(Kind::BasicAuth) => basic_auth::users(&filter.config, original),
            Some(Kind::Rbac) => {}
            None if !filter.is_unreadable() => note_http(filter, original),
            // The loop over disabled filters below adds its note.
            None if filter.is_disabled => {}
            None => {
                let message = "a filter that may deny requests cannot be imported in this form";
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
        let message = "a disabled filter is not imported: further notes name routes that enable it";
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
        let message = "without `normalize_path` and `merge_slashes`, Envoy compares paths as \
                       clients send them; rolegate compares their canonical form, so other \
                       spellings of an allowed path are allowed";
        original.notes.push(chain.manager.note(Effect::Unexpected, message));
    }
}

/// Removes each active filter that authenticates callers, except the first of its kind. All other
/// filters stay.
fn retain_first(filters: &mut Vec<Filter<'_>>, original: &mut Original) {
    let mut kinds = Vec::new();
    filters.retain(|filter| match filter.kind {
        Some(kind @ (Kind::JwtAuthn | Kind::BasicAuth)) if !filter.is_disabled => {
            let is_first = !kinds.contains(&kind);
            if !is_first {
                // Sources do not name their filter: the callers of both would be mixed up.
                let message = "only the first filter of this kind is imported";
                original.require(&filter.view, "several", filter.view.inexpressible(message));
            }
            kinds.push(kind);
            is_first
        }
        _ => true,
    });
}

/// Notes an HTTP filter that may deny requests, and such filters in its `upstream_http_filters`.
fn note_http(filter: &Filter<'_>, original: &mut Original) {
    if filter.may_deny("http", HARMLESS) {
        original.notes.push(filter.view.note(Effect::Same, NOT_IMPORTED));
    }
    for inner in filter.config.list("upstream_http_filters") {
        note_http(&Filter::new(&inner), original);
    }
}

/// Reads a filter list that replaces `http_filters` for upgrades. A rule cannot depend on upgrades.
/// So nothing can be allowed if the list has a filter of a kind that is imported.
fn read_upgrade(list: &View<'_>, original: &mut Original) {
    let views = list.one_or_more();
    let (imported, ignored): (Vec<Filter<'_>>, Vec<_>) =
        views.iter().map(Filter::new).partition(Filter::is_imported);
    if imported.is_empty() {
        let message = "upgrades have their own filters, which do not authorize; the policy \
                       authorizes upgrades, too: less is allowed";
        original.notes.push(list.note(Effect::Stricter, message));
    } else {
        let message = "upgrades have their own filters, and a rule does not depend on upgrades";
        original.require(list, "upgrade", list.inexpressible(message));
    }
    ignored.iter().for_each(|filter| note_http(filter, original));
}

/// The message for a filter that is not imported, but may deny requests or connections.
const NOT_IMPORTED: &str = "this filter is not imported: keep it";

/// The kinds of filters that are imported.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    Rbac,
    JwtAuthn,
    BasicAuth,
}

/// An HTTP filter or a network filter.
#[derive(Debug)]
struct Filter<'n> {
    view: View<'n>,
    config: View<'n>,
    kind: Option<Kind>,
    is_disabled: bool,
}

/// Parts of the types of filters that are imported.
const IMPORTED: [&str; 3] = ["rbac", "jwt_authn", "basic_auth"];
/// Parts of the types of filters that are imported, or that may contain such a filter.
const MAY_BE_IMPORTED: [&str; 4] = ["rbac", "jwt_authn", "basic_auth", "composite"];

/// Parts of the types of filters that are, or may contain, an RBAC filter.
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

    /// Whether this is an RBAC filter, possibly without its type.
    fn is_rbac(&self) -> bool {
        let has = |keys: &[&str]| keys.iter().any(|key| self.config.get(key).is_some());
        let is_untyped = !has(&["@type", "name"]) && has(&["rules", "matcher", "shadow_rules"]);
        self.kind == Some(Kind::Rbac) || self.kind.is_none() && is_untyped
    }

    /// Whether this is, or may contain, an imported kind of filter in a form that cannot be read:
    /// behind a matcher, from a control plane, in a `TypedStruct`, or of an older version of Envoy.
    /// Such a filter may deny any request.
    fn is_unreadable(&self) -> bool {
        self.kind.is_none() && (self.is_rbac() || self.is_in_other_form(&MAY_BE_IMPORTED))
    }

    fn is_imported(&self) -> bool {
        self.kind.is_some() || self.is_unreadable()
    }

    /// Whether it has one of these types, but in a form that cannot be read.
    fn is_in_other_form(&self, names: &[&str]) -> bool {
        // If there is a type, the name says nothing: it may be any text.
        let is_named = || self.view.text_of("name").is_some_and(|name| contains_any(name, names));
        self.kind.is_none()
            && (has_type(&self.view, names) || !has_type(&self.view, &[""]) && is_named())
    }

    /// Whether this filter may deny requests: it is not among the `harmless` filters of Envoy.
    fn may_deny(&self, layer: &str, harmless: &str) -> bool {
        let name = match type_name(&self.config) {
            Some(name) => name.strip_prefix("envoy.extensions.filters."),
            // If the configuration is elsewhere, the name may be any text.
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

fn contains_any(text: &str, names: &[&str]) -> bool {
    names.iter().any(|name| text.contains(name))
}

/// Whether a value, or any value inside it, has a type that contains one of these names.
fn has_type(view: &View<'_>, names: &[&str]) -> bool {
    view.any(&|value| {
        let types = ["@type", "type_url", "type_urls"].iter().flat_map(|key| value.list(key));
        types.filter_map(|kind| kind.text()).any(|text| contains_any(text, names))
    })
}

/// HTTP filters that do not deny requests because of the caller. Any other filter may, including
/// `fault` and rate limits, which can depend on headers, addresses or another service.
const HARMLESS: &str = "\
    adaptive_concurrency admission_control bandwidth_limit buffer compressor cors \
    decompressor grpc_http1_bridge grpc_http1_reverse_bridge grpc_stats grpc_web \
    header_to_metadata health_check on_demand router stateful_session upstream_codec";

/// Network filters that do not deny connections because of the caller.
const HARMLESS_NETWORK: &str = "connection_limit http_connection_manager tcp_proxy";
