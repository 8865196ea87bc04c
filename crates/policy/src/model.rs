//! A policy as plain data. It is validated: names are resolved, patterns are canonical, and nothing
//! is cyclic. Only the hashes of passwords and the contents of key files are not checked yet.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::ids::{Id, IdVec};
pub use crate::ids::{RoleId, RuleId, SourceId};
use crate::key_url::KeyUrl;
use crate::pattern::{Actions, Pattern, Scope};
pub use api_keys::{ApiKey, ApiKeys, KeyHash};
pub use authzen::{
    ActionName, AuthZen, MAX_ID, ResourcePath, ResourceSegment, ResourceType, SubjectType,
};
pub use certificates::{
    CertificateGroups, CertificateSource, CertificateUser, Certificates, NameKind, NamePattern,
    NamePiece, NameSegment, NameTemplate, XFCC,
};
use condition::Condition;
use document::{Place, Secret};
pub use entities::{Entities, EntitiesById, EntitiesByType};
pub use search::{Bulk, DocumentSecurity, Evaluation, Inventory, Search};
pub use token_places::{AUTHORIZATION, COOKIE, TokenField, TokenPlace};

mod api_keys;
mod authzen;
mod certificates;
mod entities;
mod search;
mod token_places;

/// A policy: how callers authenticate, what their roles allow, and how requests are answered.
#[derive(Clone, Debug, Default)]
pub struct Policy {
    /// How callers authenticate.
    pub identity: Identity,
    /// The named conditions, in file order. A condition may use the name of an earlier condition.
    /// The earlier condition is then a part of the later one.
    pub conditions: Vec<(Arc<str>, Condition)>,
    /// The roles, in file order.
    pub roles: IdVec<RoleId, Role>,
    /// Who has which roles, in file order.
    pub grants: Vec<Grant>,
    /// Changes to the headers of an allowed request.
    pub allow_response: AllowResponse,
    /// How a denied request is answered.
    pub deny_response: DenyResponse,
    /// The signed header that tells the application who the caller is, if it is configured.
    pub identity_header: Option<IdentityHeader>,
    /// The search cluster whose requests are decided by its own roles, if it is configured.
    pub search: Option<Search>,
    /// How requests of AuthZEN are turned into requests that rules match, if it is configured.
    pub authzen: Option<AuthZen>,
}

/// The reserved role that every caller has, also an anonymous caller.
pub const ANYONE: &str = "anyone";
/// The reserved role that every caller with verified credentials has.
pub const AUTHENTICATED: &str = "authenticated";

/// A role: a named set of rules.
#[derive(Clone, Debug)]
pub struct Role {
    /// Unique among the roles.
    pub name: Arc<str>,
    /// The roles that it extends directly: it has their rules, too. Never cyclic.
    pub extends: Vec<RoleId>,
    /// The rules that allow requests.
    pub allow: Vec<Rule>,
    /// The rules that deny requests, even if another rule allows them.
    pub deny: Vec<Rule>,
    /// The condition for having this role and, through it, the roles that it extends. The `allow`
    /// rules of these roles apply only where the condition is true. Their `deny` rules apply unless
    /// it is false, so also where it cannot be computed.
    pub when: Option<Condition>,
    /// Where it is defined.
    pub at: Place,
}

/// A rule: some actions on some resources in some scopes.
#[derive(Clone, Debug)]
pub struct Rule {
    /// The rule's name in explanations, headers and logs: its `name` if it is set, else its
    /// short-form text, such as `GET|HEAD /people/**`.
    pub name: Arc<str>,
    /// HTTP methods.
    pub actions: Actions,
    /// HTTP hosts; empty means any.
    pub scopes: Vec<Scope>,
    /// HTTP paths. Never empty.
    pub resources: Vec<Pattern>,
    /// The condition of the rule. An `allow` rule applies only where it is true. A `deny` rule
    /// applies unless it is false, so also where it cannot be computed.
    pub when: Option<Condition>,
    /// Its place in the file.
    pub at: Place,
}

/// Who has a role.
#[derive(Clone, Debug)]
pub struct Grant {
    /// The role.
    pub role: RoleId,
    /// User names, including the prefix of their source.
    pub users: Vec<Arc<str>>,
    /// Group names, including the prefix of their source.
    pub groups: Vec<Arc<str>>,
    /// The condition of the grant. It affects the role's rules as [`Role::when`] does.
    pub when: Option<Condition>,
    /// The place of the role under `grants`.
    pub at: Place,
}

/// How callers authenticate.
#[derive(Clone, Debug, Default)]
pub struct Identity {
    /// HTTP Basic (RFC 7617), if it is configured.
    pub basic: Option<Basic>,
    /// API keys, if they are configured.
    pub api_keys: Option<ApiKeys>,
    /// Client certificates, if they are configured.
    pub certificates: Option<Certificates>,
    /// Issuers of JWTs (RFC 7519), with distinct `iss`.
    pub jwt: Vec<Issuer>,
    /// The places where a token may be. If empty, only the `Authorization` header may have one. A
    /// request may have at most one token.
    pub token_from: Vec<TokenPlace>,
    /// The place of `combine: both`, if it is set. A request then needs a certificate and other
    /// credentials. The certificate names the application that calls, and the other credentials
    /// name the user for whom it calls. If `None`, a certificate is used only in a request without
    /// other credentials.
    pub combine_both: Option<Place>,
}

/// HTTP Basic authentication.
#[derive(Clone, Debug)]
pub struct Basic {
    /// The realm of the challenge (RFC 7617, 2); printable ASCII.
    pub realm: Arc<str>,
    /// The users, from `users` or from `users_file`, with distinct names.
    pub users: Vec<BasicUser>,
    /// Whether passwords are verified. If not, a component in front of rolegate has done so, and
    /// the user name in every well-formed header is trusted.
    pub verify: bool,
    /// Prepended to user names.
    pub user_prefix: Arc<str>,
    /// Prepended to group names.
    pub group_prefix: Arc<str>,
    /// Where it is configured.
    pub at: Place,
}

/// A user of [`Basic`].
#[derive(Clone, Debug)]
pub struct BasicUser {
    /// The name, without a prefix.
    pub name: Arc<str>,
    /// The hash as written (PHC, bcrypt, SHA-crypt or `{SHA}`), not yet validated. `None` only if
    /// [`Basic::verify`] is false.
    pub password: Option<Secret>,
    /// Its groups, without a prefix.
    pub groups: Vec<Arc<str>>,
    /// The place of the password, or of the user if it has none.
    pub at: Place,
}

/// An issuer of JWTs.
#[derive(Clone, Debug)]
pub struct Issuer {
    /// The exact `iss` of its tokens.
    pub issuer: Arc<str>,
    /// A token's `aud` must contain at least one of these. Never empty.
    pub audiences: Vec<Arc<str>>,
    /// Its keys.
    pub keys: Keys,
    /// Which claims contain the names of the user, its roles and its groups.
    pub claims: Claims,
    /// The path of the actor's user name inside the claim `act`, which is an object (RFC 8693,
    /// 4.1). If `None`, `act` is not read.
    pub act: Option<ClaimPath>,
    /// Claims that a token must have.
    pub require: Vec<RequiredClaim>,
    /// The tolerance for `exp`, `nbf`, `iat` and `max_age`; 60 s if not set.
    pub clock_skew: Duration,
    /// The required `typ` of the token's header, if any (RFC 8725, 3.11). Case-insensitive.
    pub required_type: Option<Arc<str>>,
    /// The maximum time since a token's `iat`, if limited. Tokens must then have an `iat`.
    pub max_age: Option<Duration>,
    /// Which of the roles in its tokens are used.
    pub roles_from_token: RolesFromToken,
    /// Prepended to user names.
    pub user_prefix: Arc<str>,
    /// Prepended to group names.
    pub group_prefix: Arc<str>,
    /// Where it is configured.
    pub at: Place,
}

/// Which of the roles in an issuer's tokens are used.
#[derive(Clone, Debug)]
pub enum RolesFromToken {
    /// All roles that the policy defines.
    All,
    /// Only the listed roles, sorted by name. An empty list is `roles_from_token: false`.
    Only(Vec<ListedRole>),
}

/// The name of a role, as the policy lists it: in `roles_from_token`, or in dynamic metadata, where
/// it says which callers get a value.
#[derive(Clone, Debug)]
pub struct ListedRole {
    /// The name of the role.
    pub name: Arc<str>,
    /// Where it is listed.
    pub at: Place,
}

impl Issuer {
    /// The claim that names roles. `None` if there is no such claim, or if the policy accepts no
    /// role from the tokens of this issuer.
    #[must_use]
    pub fn accepted_role_claim(&self) -> Option<&ClaimPath> {
        let ignores_roles =
            matches!(&self.roles_from_token, RolesFromToken::Only(listed) if listed.is_empty());
        self.claims.roles.as_ref().filter(|_| !ignores_roles)
    }

    /// Whether a token that names this role gives it to the caller.
    #[must_use]
    pub fn may_give(&self, role: &str) -> bool {
        self.claims.roles.is_some()
            && match &self.roles_from_token {
                RolesFromToken::All => true,
                RolesFromToken::Only(listed) => {
                    listed.binary_search_by(|listed| (*listed.name).cmp(role)).is_ok()
                }
            }
    }
}

/// The source of an issuer's keys (a JWKS, RFC 7517). `Debug` omits a file's contents, which may
/// include a shared secret.
#[derive(Clone)]
pub enum Keys {
    /// In a file, read when the policy is loaded.
    File {
        /// Its path, resolved against the policy's folder.
        path: Arc<str>,
        /// Its contents.
        bytes: Arc<[u8]>,
        /// The place in the policy that names it.
        at: Place,
    },
    /// At a URL, fetched in the background.
    Url {
        /// The URL of the key set, or of the discovery document that names it: `https:`, or
        /// `http:` on a loopback address.
        url: KeyUrl,
        /// The interval between fetches; 5 min if not set.
        refresh: Duration,
        /// The place in the policy that names it.
        at: Place,
    },
    /// There are none: the issuer is asked about each token.
    Introspection(Introspection),
}

/// Where an issuer is asked about opaque tokens (RFC 7662).
#[derive(Clone, Debug)]
pub struct Introspection {
    /// The URL of the endpoint, with the credentials for it: `https:`, or `http:` on a loopback
    /// address.
    pub url: KeyUrl,
    /// The longest time for which an answer is cached; 60 s if not set.
    pub max_cache: Duration,
    /// The place in the policy that names it.
    pub at: Place,
}

/// Which claims of a token contain the names of the user, its roles and its groups.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claims {
    /// The user name, a string; `sub` if not set.
    pub user: ClaimPath,
    /// The roles: a list of strings, or a string of names.
    pub roles: Option<ClaimPath>,
    /// The groups: a list of strings, or a string of names.
    pub groups: Option<ClaimPath>,
    /// The separator of the names in a string of names.
    pub separator: Separator,
}

/// The separator of the names in a claim that is a string.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Separator {
    /// Spaces, as in the claim `scope` (RFC 8693, 4.2).
    #[default]
    Spaces,
    /// Commas. Spaces and control characters around names are ignored. The security plugin of a
    /// search cluster reads its claim in this way.
    Commas,
}

/// The path of a claim: names from the outermost object inwards. `sub` is `["sub"]`; the JSON
/// pointer (RFC 6901) `/realm_access/roles` is `["realm_access", "roles"]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClaimPath(pub Vec<Box<str>>);

/// Shows the path as it is written in a policy.
impl fmt::Display for ClaimPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &*self.0 {
            [name] => f.write_str(name),
            names => names
                .iter()
                .try_for_each(|name| write!(f, "/{}", name.replace('~', "~0").replace('/', "~1"))),
        }
    }
}

/// A claim that a token must have. It equals an accepted value, or is a list with an accepted
/// value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequiredClaim {
    /// Its path.
    pub path: ClaimPath,
    /// The accepted values; never empty.
    pub values: Vec<ClaimValue>,
}

/// A value that a claim may have. Values of different types are never equal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClaimValue {
    /// Text, compared byte for byte.
    Text(Arc<str>),
    /// A number without a fraction.
    Integer(i64),
    /// `true` or `false`.
    Boolean(bool),
}

/// Shows the value without quotes.
impl fmt::Display for ClaimValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(text) => f.write_str(text),
            Self::Integer(number) => number.fmt(f),
            Self::Boolean(value) => value.fmt(f),
        }
    }
}

/// Changes to an allowed request.
#[derive(Clone, Debug, Default)]
pub struct AllowResponse {
    /// Headers that are set, and replace headers of the request. A header with an empty value is
    /// removed instead.
    pub set_headers: Vec<SetHeader>,
    /// Headers that are removed.
    pub remove_headers: Vec<Arc<str>>,
    /// Cookies that are removed (RFC 6265, 4.1.1). Other cookies stay as they are.
    pub remove_cookies: Vec<Arc<str>>,
    /// Dynamic metadata, for Envoy's later filters and its access log.
    pub metadata: Vec<MetadataEntry>,
}

/// A key of dynamic metadata.
#[derive(Clone, Debug)]
pub struct MetadataEntry {
    /// The key: letters, digits, `_` and `-`. Never a key that rolegate or Envoy sets.
    pub key: Arc<str>,
    /// Its possible values. A value with a role is for the callers with that role. A value without
    /// a role is for everyone, and only the last value may be without one. A caller gets the first
    /// value that is for this caller.
    pub values: Vec<(Option<ListedRole>, MetadataValue)>,
    /// Where it is configured.
    pub at: Place,
}

/// A value of dynamic metadata.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MetadataValue {
    /// A text. If one of its placeholders has no value, the key is left out.
    Text(Template),
    /// A number that a `double` holds exactly.
    Number(i64),
    /// A boolean.
    Boolean(bool),
    /// Values with keys of their own. None of them is another `Fields`.
    Fields(Vec<(Arc<str>, MetadataValue)>),
}

/// A header that is set on an allowed request.
#[derive(Clone, Debug)]
pub struct SetHeader {
    /// A valid field name (RFC 9110, 5.1) in lower case, not a pseudo-header and not `host`.
    pub name: Arc<str>,
    /// Its value.
    pub value: Template,
    /// Where it is configured.
    pub at: Place,
}

/// A signed header that tells the application who the caller is. Each allowed request gets it, if
/// credentials authenticated the caller.
#[derive(Clone, Debug)]
pub struct IdentityHeader {
    /// A valid field name in lower case that is not in [`AllowResponse`]; `x-identity` if not set.
    pub name: Arc<str>,
    /// Its form.
    pub format: IdentityFormat,
    /// The keys. Never empty. The first key signs. Only a JWT may have further keys. They are only
    /// published, so that keys can be replaced.
    pub keys: Vec<IdentityKey>,
    /// The `iss` of a JWT; `rolegate` if not set.
    pub issuer: Arc<str>,
    /// The application that it is meant for.
    pub audience: Arc<str>,
    /// The time until a header expires, 30 s to 5 min; 60 s if not set. A signed header is used
    /// again for the same caller until half of this time is over.
    pub lifetime: Duration,
    /// Claims of the caller's token that are copied into this header. Each has its name in this
    /// header, and its path in the token.
    pub claims: Vec<(Box<str>, ClaimPath)>,
    /// Where it is configured.
    pub at: Place,
}

/// The form of an [`IdentityHeader`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IdentityFormat {
    /// A JWT (RFC 7519), signed with a private key.
    Jwt,
    /// The binary form of the crate `identity-header`, authenticated with HMAC-SHA256 and a secret
    /// that the application shares.
    Compact,
}

/// A file with a key of an [`IdentityHeader`].
#[derive(Clone)]
pub struct IdentityKey {
    /// Its path, resolved against the policy's folder.
    pub path: Arc<str>,
    /// Its contents, which are secret.
    pub bytes: Arc<[u8]>,
    /// The place in the policy that names it.
    pub at: Place,
}

/// Omits the key.
impl fmt::Debug for IdentityKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("IdentityKey").field(&self.path).finish()
    }
}

/// Text with placeholders such as `{user}`. `{{` and `}}` are literal braces.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Template(pub Vec<Piece>);

/// A part of a [`Template`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Piece {
    /// Literal text without control characters.
    Text(Box<str>),
    /// `{user}`: the subject's user name; empty if anonymous.
    User,
    /// `{roles}`: the names of all the subject's roles but [`ANYONE`] and [`AUTHENTICATED`], in
    /// policy order, joined by commas.
    Roles,
    /// `{groups}`: the subject's groups, in their original order, joined by commas.
    Groups,
    /// `{actor}`: the user name of the actor that calls for the subject; empty without an actor.
    Actor,
    /// `{rule}`: the rule that allowed the request, as `role: rule`.
    Rule,
    /// `{revision}`: the revision of the policy's files. Keys from URLs do not change it.
    Revision,
    /// `{claims./json/pointer}`: this claim if it is a string, a number or a boolean; else empty.
    Claim(ClaimPath),
}

/// How a denied request is answered.
#[derive(Clone, Debug, Default)]
pub struct DenyResponse {
    /// The body; `None` for the default body of the content type.
    pub body: Option<Arc<str>>,
    /// The content type of the body.
    pub content_type: ContentType,
    /// Whether the body tells the client the reason.
    pub explain: bool,
}

/// The content type of a denial's body.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ContentType {
    /// `application/json`.
    #[default]
    Json,
    /// `text/plain; charset=utf-8`.
    Text,
    /// `text/html; charset=utf-8`.
    Html,
}

/// The name of HTTP Basic as an identity source. The name of an issuer is its `iss`.
pub const BASIC: &str = "basic";
/// The name of API keys as an identity source.
pub const API_KEYS: &str = "api_keys";
/// The name of client certificates as an identity source.
pub const CERTIFICATES: &str = "certificates";

impl Identity {
    /// Every configured identity source, with its name and its `user_prefix`.
    pub fn sources(&self) -> impl Iterator<Item = (SourceId, &str, &str)> {
        let basic = self.basic.iter().map(|basic| (SourceId::BASIC, BASIC, &*basic.user_prefix));
        let keys = self.api_keys.iter();
        let keys = keys.map(|keys| (SourceId::API_KEYS, API_KEYS, &*keys.user_prefix));
        let certificates = self
            .certificates
            .iter()
            .map(|certificates| (SourceId::CERTIFICATES, CERTIFICATES, &*certificates.user_prefix));
        let issuers = self.jwt.iter().enumerate().map(|(index, issuer)| {
            (SourceId::from_issuer(index), &*issuer.issuer, &*issuer.user_prefix)
        });
        basic.chain(keys).chain(certificates).chain(issuers)
    }

    /// The name of the header in which an API key is sent, if the policy has API keys.
    #[must_use]
    pub fn api_key_header(&self) -> Option<&str> {
        self.api_keys.as_ref().map(|keys| &*keys.header)
    }

    /// The proxies whose `x-forwarded-client-cert` is read, if certificates are read there.
    #[must_use]
    pub fn trusted_proxies(&self) -> Option<&[condition::Network]> {
        match &self.certificates.as_ref()?.from {
            CertificateSource::Xfcc { trusted_proxies } => Some(trusted_proxies),
            CertificateSource::Peer => None,
        }
    }

    /// The `user_prefix` of a source; empty for a source that is not configured.
    #[must_use]
    pub fn user_prefix(&self, source: SourceId) -> &str {
        self.sources().find(|(id, ..)| *id == source).map_or("", |(.., prefix)| prefix)
    }

    /// The source of a user name. This is the source with the longest prefix that the name begins
    /// with. A prefix that is the whole name does not count; a shorter one may. `None` if no prefix
    /// counts, or if two sources have the same longest prefix.
    #[must_use]
    pub fn source_of(&self, user: &str) -> Option<SourceId> {
        let mut sources: Vec<(usize, SourceId)> = self
            .sources()
            .filter(|(.., prefix)| user.len() > prefix.len() && user.starts_with(prefix))
            .map(|(source, _, prefix)| (prefix.len(), source))
            .collect();
        sources.sort_unstable();
        match *sources {
            [.., (length, _), (longest, _)] if length == longest => None,
            [.., (_, source)] => Some(source),
            [] => None,
        }
    }
}

impl AllowResponse {
    /// Every text with placeholders, as a triple: the name of its header or its key of metadata,
    /// the place where that is configured, and the text.
    pub fn templates(&self) -> impl Iterator<Item = (&Arc<str>, &Place, &Template)> {
        let headers = self.set_headers.iter();
        let metadata = self.metadata.iter().flat_map(|entry| {
            let templates = entry.values.iter().flat_map(|(_, value)| value.templates());
            templates.map(move |template| (&entry.key, &entry.at, template))
        });
        headers.map(|header| (&header.name, &header.at, &header.value)).chain(metadata)
    }
}

impl MetadataValue {
    /// Its texts with placeholders.
    fn templates(&self) -> Vec<&Template> {
        match self {
            Self::Text(template) => vec![template],
            Self::Number(_) | Self::Boolean(_) => Vec::new(),
            Self::Fields(fields) => {
                fields.iter().flat_map(|(_, value)| value.templates()).collect()
            }
        }
    }
}

impl Policy {
    /// The rule with this id, with its role and its effect.
    #[must_use]
    pub fn rule(&self, id: RuleId) -> Option<(&Role, &Rule, Effect)> {
        self.rules()
            .find(|(rule_id, ..)| *rule_id == id)
            .map(|(_, role, rule, effect)| (role, rule, effect))
    }

    /// Every rule with its id, its role and its effect, in order of the ids.
    pub fn rules(&self) -> impl Iterator<Item = (RuleId, &Role, &Rule, Effect)> {
        self.roles
            .iter()
            .flat_map(|role| {
                let allow = role.allow.iter().map(move |rule| (role, rule, Effect::Allow));
                let deny = role.deny.iter().map(move |rule| (role, rule, Effect::Deny));
                allow.chain(deny)
            })
            .enumerate()
            .map(|(index, (role, rule, effect))| (RuleId::from_index(index), role, rule, effect))
    }

    /// The conditions of all rules, roles and grants.
    pub fn all_conditions(&self) -> impl Iterator<Item = &Condition> {
        let of_rules = self.rules().filter_map(|(_, _, rule, _)| rule.when.as_ref());
        let of_roles = self.roles.iter().filter_map(|role| role.when.as_ref());
        let of_grants = self.grants.iter().filter_map(|grant| grant.when.as_ref());
        of_rules.chain(of_roles).chain(of_grants)
    }

    /// The id of the role with this name.
    #[must_use]
    pub fn role(&self, name: &str) -> Option<RoleId> {
        self.roles.entries().find(|(_, role)| &*role.name == name).map(|(id, _)| id)
    }
}

/// The effect of a rule on the requests it matches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Effect {
    /// Listed under `allow`.
    Allow,
    /// Listed under `deny`.
    Deny,
}

impl fmt::Debug for Keys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File { path, .. } => f.debug_tuple("File").field(path).finish(),
            Self::Url { url, .. } => f.debug_tuple("Url").field(url).finish(),
            Self::Introspection(introspection) => introspection.fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neither_a_password_nor_a_key_is_shown() {
        let at = Place::start_of(std::path::Path::new("policy.yaml"));
        let bytes: Arc<[u8]> = b"k3y".as_slice().into();
        let keys = Keys::File { path: "jwks.json".into(), bytes, at };
        let shown = format!("{keys:?} {:?}", Secret("h4sh".into()));
        assert_eq!(shown, "File(\"jwks.json\") \u{2026}");
    }
}
