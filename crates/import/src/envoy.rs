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
        let filter = Filter::new(root);
        if !filter.is_rbac() {
            let help = "give a bootstrap, a listener, or the `typed_config` of the filter `envoy.filters.http.rbac`";
            let message = match has_type(root, &MAY_BE_RBAC) {
                true => "an RBAC filter is not read in this form",
                false => "there is no RBAC filter here",
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

/// Each mapping with `http_filters`, in a listener with this name and with these filters of
/// connections.
fn find_chains<'n>(
    view: &View<'n>,
    (listener, network): (Option<&str>, &[View<'n>]),
    chains: &mut Vec<Chain<'n>>,
) {
    let is_listener =
        view.get("filter_chains").is_some() || view.get("default_filter_chain").is_some();
    let listener = if is_listener { view.text_of("name") } else { listener };
    if let Some(filters) = view.get("http_filters") {
        let upgrades =
            view.list("upgrade_configs").into_iter().filter_map(|upgrade| upgrade.get("filters"));
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

/// The chain to import: the only one with an RBAC filter, in whichever form, or that of the
/// listener that the options name.
fn choose_chain<'n>(
    root: &View<'n>,
    mut chains: Vec<Chain<'n>>,
    options: &Options,
) -> Result<Chain<'n>, Problem> {
    let has_rbac = |chain: &Chain<'_>| {
        let upgrades = chain.upgrades.iter().flat_map(View::one_or_more);
        chain.filters.iter().cloned().chain(upgrades).any(|filter| {
            let filter = Filter::new(&filter);
            filter.is_rbac() || filter.is_in_other_form(&MAY_BE_RBAC)
        })
    };
    chains.retain(|chain| {
        (options.listener.is_none() || chain.listener == options.listener) && has_rbac(chain)
    });
    let names =
        chains.iter().filter_map(|chain| chain.listener.clone()).collect::<Vec<_>>().join("`, `");
    match (chains.pop(), chains.is_empty()) {
        (Some(chain), true) => Ok(chain),
        (Some(chain), false) => {
            let help = format!("import one at a time by `--listener`: `{names}`");
            Err(Problem::error(
                chain.manager.place(),
                "there are several lists of HTTP filters with RBAC",
            )
            .help(help))
        }
        (None, _) => {
            Err(Problem::error(root.place(), "there is no listener with an RBAC filter here"))
        }
    }
}

fn read_chain(chain: &Chain<'_>, options: &Options, original: &mut Original) {
    let mut filters: Vec<Filter<'_>> = chain.filters.iter().map(Filter::new).collect();
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
                original.allow.push(vec![unnamed(&filter.view, "not read", condition)]);
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
        names.extend(filter.view.text_of("name").map(str::to_owned));
    }
    for filter in filters.iter().filter(|filter| filter.is_disabled && filter.is_imported()) {
        let message = "a disabled filter is not imported: routes that enable it are named below";
        original.notes.push(filter.view.note(Effect::Same, message));
        names.extend(filter.view.text_of("name").map(str::to_owned));
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
        let message = "without `normalize_path` and `merge_slashes`, Envoy compares paths as they are written; \
                       rolegate compares their canonical form, so other spellings of an allowed path are allowed";
        original.notes.push(chain.manager.note(Effect::Unexpected, message));
    }
}

/// Of several filters that authenticate callers in one way, keeps the first one.
fn retain_first(filters: &mut Vec<Filter<'_>>, original: &mut Original) {
    let mut sources = Vec::new();
    filters.retain(|filter| {
        let Some(kind) = filter.kind.filter(|kind| *kind != Kind::Rbac && !filter.is_disabled)
        else {
            return true;
        };
        let is_first = !sources.contains(&kind);
        if !is_first {
            // What each verifies, and where, would be that of the other.
            let condition =
                filter.view.inexpressible("of several such filters, only the first one is read");
            original.allow.push(vec![unnamed(&filter.view, "several", condition)]);
        }
        sources.push(kind);
        is_first
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
    let filters: Vec<Filter<'_>> = views.iter().map(Filter::new).collect();
    if filters.iter().any(Filter::is_imported) {
        let condition =
            list.inexpressible("upgrades have filters of their own, and no rule depends on them");
        original.allow.push(vec![unnamed(list, "upgrade", condition)]);
    } else {
        let message = "upgrades have filters of their own, which do not authorize them; the policy does: less is allowed";
        original.notes.push(list.note(Effect::Stricter, message));
    }
    filters
        .iter()
        .filter(|filter| !filter.is_imported())
        .for_each(|filter| note_http(filter, original));
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

/// Parts of the types of filters that are imported.
const IMPORTED: [&str; 3] = ["rbac", "jwt_authn", "basic_auth"];

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
        self.kind.is_none()
            && (self.is_rbac()
                || self.is_in_other_form(&["rbac", "jwt_authn", "basic_auth", "composite"]))
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

    /// Whether this filter may deny: it is none of Envoy's own filters of this layer with these
    /// names.
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
                .is_some_and(|name| harmless.split_whitespace().any(|known| known == name))
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

/// Whether a value, or one in it, has a type with one of these names in it.
fn has_type(view: &View<'_>, names: &[&str]) -> bool {
    view.any(&|value| {
        let types = ["@type", "type_url", "type_urls"].iter().flat_map(|key| value.list(key));
        types.filter_map(|kind| kind.text()).any(|text| contains_one(text, names))
    })
}

/// HTTP filters that deny nobody by who they are. Each other one, also one that is not known, may:
/// also `fault` and limits of rates, which can depend on headers, on addresses, or on another
/// service.
const HARMLESS: &str = "\
    adaptive_concurrency admission_control bandwidth_limit buffer compressor cors \
    decompressor grpc_http1_bridge grpc_http1_reverse_bridge grpc_stats grpc_web \
    header_to_metadata health_check on_demand router stateful_session upstream_codec";

/// Network filters that deny nobody by who they are.
const HARMLESS_NETWORK: &str = "connection_limit http_connection_manager tcp_proxy";

/// A condition without a name of its own.
fn unnamed(view: &View<'_>, name: &str, condition: Expr) -> Alternative {
    Alternative { name: name.to_owned(), origin: (view.place(), view.path.clone()), condition }
}
