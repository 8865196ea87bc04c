//! Compiles the section `search` of a policy.

use std::collections::HashMap;
use std::sync::Arc;

use document::{MapFiles, Problem, Warning};
use identity::{Authenticator, FetchedKeys, Limits};
use policy::model::{
    self, Basic, BasicUser, Bulk, Claims, DocumentSecurity, Evaluation, Identity, Inventory,
    Issuer, Policy, Separator,
};
use search::config::{self, Dashboards, EvaluationType, InternalUser, SecurityConfig};
use search::{EvaluationSettings, Pattern, Privileges};

use super::Cluster;
use super::answer::Denials;

/// The realm of the challenge, as OpenSearch's security plugin has it.
const REALM: &str = "OpenSearch Security";

/// The part of a cluster that depends on its files alone, not on fetched keys.
#[derive(Debug)]
pub(super) struct Compiled {
    pub(super) privileges: Privileges,
    /// How callers authenticate on the hosts of the cluster.
    pub(super) identity: Identity,
    /// The position of each user of `internal_users.yml` in the configuration, by its name.
    users: HashMap<Arc<str>, usize>,
    /// The bytes of the inventory: the cluster's own list of its indices, aliases and data streams.
    inventory: Option<Arc<[u8]>>,
    /// Whether a role is mapped from addresses of clients.
    pub(super) maps_addresses: bool,
    /// Whether it is enough that the cluster itself checks that a scroll is the caller's own.
    pub(super) scrolls_are_checked: bool,
    /// The policy's setting for bulk requests.
    pub(super) bulk: Bulk,
    warnings: Vec<Problem>,
}

impl Cluster {
    /// Compiles the section, if the policy has it, and returns warnings with it. `unchanged` is the
    /// cluster that was compiled before from the same policy, maybe with other keys.
    ///
    /// # Errors
    /// The errors and warnings of the cluster's files.
    pub(crate) fn compile(
        policy: &Policy,
        fetched: &FetchedKeys,
        unchanged: Option<&Self>,
    ) -> Result<Option<(Self, Vec<Problem>)>, Vec<Problem>> {
        let Some(section) = &policy.search else { return Ok(None) };
        let bytes = inventory_bytes(section, fetched);
        let unchanged = unchanged.filter(|cluster| cluster.compiled.inventory.as_ref() == bytes);
        let compiled = match unchanged {
            Some(cluster) => Arc::clone(&cluster.compiled),
            None => Arc::new(Compiled::new(section, policy, bytes)?),
        };
        let (authenticator, mut warnings) =
            Authenticator::compile(&compiled.identity, fetched, Limits::default())?;
        // Keeps the warnings about the cluster's files. The authenticator of the rules gives those
        // about all other files.
        warnings.retain(|problem| section.files.iter().any(|file| *file.path == *problem.at.file));
        let warnings = [compiled.warnings.clone(), warnings].concat();
        let denials = Denials::new(&compiled.identity);
        let hosts = section.hosts.clone().into();
        Ok(Some((Self { hosts, authenticator, compiled, denials }, warnings)))
    }
}

impl Compiled {
    fn new(
        section: &model::Search,
        policy: &Policy,
        bytes: Option<&Arc<[u8]>>,
    ) -> Result<Self, Vec<Problem>> {
        let (system_indices, mut problems) = system_indices(section);
        let inventory = bytes.map(|bytes| search::Inventory::from_resolved(bytes)).transpose();
        let inventory = inventory.unwrap_or_else(|error| {
            let inventory = section.inventory.as_ref();
            problems.extend(inventory.map(|inventory| not_an_inventory(inventory, &error)));
            None
        });
        let loaded = match load_config(section) {
            Ok(loaded) if problems.is_empty() => loaded,
            Ok(loaded) => return Err([loaded.warnings, problems].concat()),
            Err(errors) => return Err([errors, problems].concat()),
        };
        let config = Arc::new(loaded.config);
        let settings = &config.settings;
        // A setting in the section `search` overrides that of the cluster's files.
        let evaluation = EvaluationSettings {
            evaluation: match section.evaluation {
                Some(Evaluation::Legacy) => EvaluationType::Legacy,
                Some(Evaluation::V4) => EvaluationType::V4,
                None => settings.evaluation,
            },
            do_not_fail_on_forbidden: section
                .do_not_fail_on_forbidden
                .unwrap_or(settings.do_not_fail_on_forbidden),
            system_indices,
            // Whether the filters are sent in a header, for the server behind to apply them.
            hands_over_filters: section.document_security != DocumentSecurity::Deny,
            // OpenSearch's setting `plugins.security.dfm_empty_overrides_all`.
            empty_overrides_all: section.dfm_empty_overrides_all,
            ..settings.clone()
        };
        let maps_addresses = config.mappings.iter().any(|mapping| !mapping.hosts.is_empty());
        let users =
            config.users.iter().enumerate().map(|(at, user)| (user.name.clone(), at)).collect();
        let privileges = Privileges::new(config.clone(), evaluation, inventory.map(Arc::new));
        let ambiguous = ambiguous_users(section, &config, policy, privileges.inventory());
        Ok(Self {
            identity: identity(section, &config, policy),
            users,
            maps_addresses,
            // A request for a scroll does not name an index, so it is unknown which filters apply
            // to it. If filters are handed over, the cluster's check is not enough.
            scrolls_are_checked: section.cluster_checks_scrolls
                && section.document_security == DocumentSecurity::Deny,
            bulk: section.bulk,
            warnings: [loaded.warnings, ambiguous].concat(),
            privileges,
            inventory: bytes.cloned(),
        })
    }

    /// The user of `internal_users.yml` with this name.
    pub(super) fn user(&self, name: &str) -> Option<&InternalUser> {
        self.privileges.config().users.get(*self.users.get(name)?)
    }
}

/// The role files of a policy's search cluster. `None` if it has no cluster, or the files have
/// errors.
#[must_use]
pub fn cluster_config(policy: &Policy) -> Option<SecurityConfig> {
    Some(load_config(policy.search.as_ref()?).ok()?.config)
}

fn load_config(section: &model::Search) -> Result<config::Loaded, Vec<Problem>> {
    let files = section.files.iter().map(|file| (file.path.clone(), file.bytes.to_vec())).collect();
    SecurityConfig::load(&MapFiles(files), &section.folder)
}

fn has_users_file(section: &model::Search) -> bool {
    section.files.iter().any(|file| file.path.ends_with("internal_users.yml"))
}

/// How callers authenticate. Passwords are those of `internal_users.yml` if the cluster has that
/// file, otherwise those of the policy's own users. API keys, certificates and tokens are those of
/// the policy.
fn identity(section: &model::Search, config: &SecurityConfig, policy: &Policy) -> Identity {
    let basic = has_users_file(section).then(|| Basic {
        realm: REALM.into(),
        users: config.users.iter().filter(|user| user.hash.is_some()).map(basic_user).collect(),
        verify: true,
        user_prefix: "".into(),
        group_prefix: "".into(),
        at: section.at.clone(),
    });
    let basic =
        basic.or_else(|| Some(Basic { realm: REALM.into(), ..policy.identity.basic.clone()? }));
    // The plugin splits the roles in a claim at commas.
    let jwt = policy.identity.jwt.iter().map(|issuer| Issuer {
        claims: Claims { separator: Separator::Commas, ..issuer.claims.clone() },
        ..issuer.clone()
    });
    let model::Identity { api_keys, certificates, token_from, .. } = policy.identity.clone();
    let jwt = jwt.collect();
    // No actors: the parser rejects a policy that has both actors and a search cluster.
    Identity { basic, api_keys, certificates, jwt, token_from, combine_both: None }
}

/// Warns of each issuer whose tokens can have the name of a user of the cluster: such a token would
/// have the roles of that user, too. Also warns if the tokens can have the user name with which
/// Dashboards itself calls the cluster.
fn ambiguous_users(
    section: &model::Search,
    config: &SecurityConfig,
    policy: &Policy,
    inventory: Option<&search::Inventory>,
) -> Vec<Problem> {
    let users = config.users.iter().filter(|user| {
        has_users_file(section) && user.hash.is_some() && is_mapped_by_name(config, &user.name)
    });
    // The user name of Dashboards itself.
    let server = dashboards_server(config, inventory);
    let mut problems = Vec::new();
    for issuer in &policy.identity.jwt {
        let (at, prefix) = (&issuer.at, &*issuer.user_prefix);
        if let Some(user) = users.clone().find(|user| user.name.starts_with(prefix)) {
            let message = format!(
                "a token of this issuer can have the name `{}` of a user of the search cluster, \
                 and then its roles",
                user.name
            );
            let help = "set a `user_prefix` for the issuer, and map roles from names with it";
            let problem = Problem::warning(at.clone(), Warning::AmbiguousName, message);
            problems.push(problem.help(help).related(user.at.clone(), "the user"));
        }
        if let Some(server) = server.filter(|server| server.starts_with(prefix)) {
            let message = format!(
                "a token of this issuer can have the name `{server}` of Dashboards itself, which \
                 needs no privilege on a tenant"
            );
            let help = "set a `user_prefix` for the issuer, and map roles from names with it; or, \
                        if the cluster has no tenants, set `kibana.multitenancy_enabled: false` in \
                        `config.yml`";
            problems.push(Problem::warning(at.clone(), Warning::AmbiguousName, message).help(help));
        }
    }
    problems
}

/// Whether a role is mapped from this name by a pattern other than `*`, which matches every name.
fn is_mapped_by_name(config: &SecurityConfig, name: &str) -> bool {
    let mut patterns = config.mappings.iter().flat_map(|mapping| &mapping.users);
    patterns.any(|pattern| !pattern.is_anything() && pattern.matches(name))
}

/// The user name with which Dashboards itself calls the cluster; `None` if nothing shows that there
/// is a Dashboards. The index of Dashboards in the cluster shows it, or the name in the role files.
/// The settings do not show it: tenants are configured by default.
fn dashboards_server<'c>(
    config: &'c SecurityConfig,
    inventory: Option<&search::Inventory>,
) -> Option<&'c str> {
    let Dashboards { index, server } = config.settings.dashboards.as_ref()?;
    let has_index = inventory.is_some_and(|inventory| !inventory.with_prefix(&**index).is_empty());
    let is_named =
        config.users.iter().any(|user| user.name == *server) || is_mapped_by_name(config, server);
    (has_index || is_named).then_some(server)
}

fn basic_user(user: &InternalUser) -> BasicUser {
    BasicUser {
        name: user.name.clone(),
        password: user.hash.clone(),
        groups: user.backend_roles.clone(),
        at: user.at.clone(),
    }
}

fn system_indices(section: &model::Search) -> (Vec<Pattern>, Vec<Problem>) {
    let (mut patterns, mut problems) = (EvaluationSettings::default().system_indices, Vec::new());
    for (text, at) in &section.system_indices {
        match Pattern::parse(text) {
            Ok(pattern) => patterns.push(pattern),
            Err(error) => problems.push(Problem::error(at.clone(), error.message)),
        }
    }
    (patterns, problems)
}

/// The bytes of the inventory; `None` if there is none, or it has not been fetched yet.
fn inventory_bytes<'b>(
    section: &'b model::Search,
    fetched: &'b FetchedKeys,
) -> Option<&'b Arc<[u8]>> {
    match section.inventory.as_ref()? {
        Inventory::File { source, .. } => Some(&source.bytes),
        // A fetched inventory is kept beside the fetched keys.
        Inventory::Url { url, .. } => fetched.get(url)?.as_ref(),
    }
}

fn not_an_inventory(inventory: &Inventory, error: &serde_json::Error) -> Problem {
    let (name, at) = match inventory {
        Inventory::File { source, at } => (source.path.display().to_string(), at),
        Inventory::Url { url, at, .. } => (url.to_string(), at),
    };
    Problem::error(at.clone(), format!("`{name}` is no inventory: {error}"))
        .help("it is what the cluster answers to `GET /_resolve/index/*?expand_wildcards=all`")
}
