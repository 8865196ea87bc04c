//! A policy as plain data. Whatever is here has been checked: names exist, patterns are canonical, nothing is cyclic.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::KeyUrl;
use crate::pattern::{Actions, Pattern, Scope};
use crate::problem::Place;

/// A policy: who callers are, what their roles allow, and how they are answered.
#[derive(Clone, Debug, Default)]
pub struct Policy {
    /// How callers prove who they are.
    pub identity: Identity,
    /// The roles in the order of the files. A [`RoleId`] is a place in this list.
    pub roles: Vec<Role>,
    /// Who has which role, in the order of the files.
    pub grants: Vec<Grant>,
    /// What is added to an allowed request.
    pub allow_response: AllowResponse,
    /// How a refused request is answered.
    pub deny_response: DenyResponse,
}

/// The number of a role: its place in [`Policy::roles`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RoleId(pub u32);

/// The number of a rule: rules are counted from 0 through all roles in order, in each role `allow` before `deny`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RuleId(pub u32);

/// The reserved role that every caller has, also an anonymous one.
pub const ANYONE: &str = "anyone";
/// The reserved role that every caller with a verified proof has.
pub const AUTHENTICATED: &str = "authenticated";

/// A role: a name for what some callers may do.
#[derive(Clone, Debug)]
pub struct Role {
    /// Unique among the roles.
    pub name: Arc<str>,
    /// The roles whose rules are this role's too, directly; never cyclic.
    pub extends: Vec<RoleId>,
    /// What it may do.
    pub allow: Vec<Rule>,
    /// What it may not do, whatever else allows it.
    pub deny: Vec<Rule>,
    /// Where it is defined.
    pub at: Place,
}

/// A rule: some actions on some resources in some scopes.
#[derive(Clone, Debug)]
pub struct Rule {
    /// How the rule is called in explanations, headers and logs: its `name` if it has one, else its text in short
    /// form, such as `GET|HEAD /people/**`.
    pub name: Arc<str>,
    /// HTTP methods.
    pub actions: Actions,
    /// HTTP hosts; empty means any.
    pub scopes: Vec<Scope>,
    /// HTTP paths, at least one.
    pub resources: Vec<Pattern>,
    /// Where it stands.
    pub at: Place,
}

/// Who has a role.
#[derive(Clone, Debug)]
pub struct Grant {
    /// The role.
    pub role: RoleId,
    /// User names, as they are after a source's prefix was put before them.
    pub users: Vec<Arc<str>>,
    /// Group names, likewise.
    pub groups: Vec<Arc<str>>,
}

/// How callers prove who they are.
#[derive(Clone, Debug, Default)]
pub struct Identity {
    /// HTTP Basic (RFC 7617), if it is configured.
    pub basic: Option<Basic>,
    /// Issuers of JWTs (RFC 7519); no two with the same `iss`.
    pub jwt: Vec<Issuer>,
}

/// HTTP Basic authentication.
#[derive(Clone, Debug)]
pub struct Basic {
    /// The realm of the challenge (RFC 7617, 2); printable ASCII.
    pub realm: Arc<str>,
    /// Those who may sign in, from `users` or from `users_file`; no two of the same name.
    pub users: Vec<BasicUser>,
    /// False: something in front has checked passwords already, and every well-formed header names its user.
    pub verify: bool,
    /// Put before user names.
    pub user_prefix: Arc<str>,
    /// Put before group names.
    pub group_prefix: Arc<str>,
    /// Where it is configured.
    pub at: Place,
}

/// One user of [`Basic`].
#[derive(Clone, Debug)]
pub struct BasicUser {
    /// The name, without a prefix.
    pub name: Arc<str>,
    /// The hash as it was written (PHC, bcrypt, SHA-crypt or `{SHA}`); not yet checked to be one. `None` only where
    /// [`Basic::verify`] is false.
    pub password: Option<Secret>,
    /// Its groups, without a prefix.
    pub groups: Vec<Arc<str>>,
    /// Where it stands: the password if there is one, else the user.
    pub at: Place,
}

/// A string that is never shown: `Debug` prints dots.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(pub Arc<str>);

/// One issuer of JWTs.
#[derive(Clone, Debug)]
pub struct Issuer {
    /// The `iss` that its tokens carry, byte for byte.
    pub issuer: Arc<str>,
    /// A token's `aud` must name at least one of these; never empty.
    pub audiences: Vec<Arc<str>>,
    /// Where its keys are.
    pub keys: Keys,
    /// Where in the claims the names are.
    pub claims: Claims,
    /// Tolerance for `exp`, `nbf`, `iat` and `max_age`; 60 s if not set.
    pub clock_skew: Duration,
    /// The `typ` that the token's header must carry, if any (RFC 8725, 3.11), compared without regard to case.
    pub required_type: Option<Arc<str>>,
    /// How long after its `iat` a token is taken at most, if there is a limit; `iat` is then required.
    pub max_age: Option<Duration>,
    /// Whether the roles that the token carries count.
    pub roles_from_token: bool,
    /// Put before user names.
    pub user_prefix: Arc<str>,
    /// Put before group names.
    pub group_prefix: Arc<str>,
    /// Where it is configured.
    pub at: Place,
}

/// Where an issuer's keys (a JWKS, RFC 7517) are. `Debug` does not show what is in a file: it may hold a shared secret.
#[derive(Clone)]
pub enum Keys {
    /// In a file, read when the policy is loaded.
    File {
        /// The file, resolved against the policy's folder.
        path: Arc<str>,
        /// What was in it.
        bytes: Arc<[u8]>,
        /// Where it is named.
        at: Place,
    },
    /// At an address, fetched off the request path.
    Url {
        /// `https:`, or `http:` on a loopback address.
        url: KeyUrl,
        /// How often it is fetched; 5 min if not set.
        refresh: Duration,
        /// Where it is named.
        at: Place,
    },
}

/// Where in a token's claims the names are.
#[derive(Clone, Debug)]
pub struct Claims {
    /// The user name: a string; `sub` if not set.
    pub user: ClaimPath,
    /// The roles: a list of strings, or one string with spaces between them.
    pub roles: Option<ClaimPath>,
    /// The groups, likewise.
    pub groups: Option<ClaimPath>,
}

/// The place of a claim: the names from the outermost object inwards. `sub` is `["sub"]`, the JSON pointer (RFC 6901)
/// `/realm_access/roles` is `["realm_access", "roles"]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClaimPath(pub Vec<Box<str>>);

/// What is added to an allowed request.
#[derive(Clone, Debug, Default)]
pub struct AllowResponse {
    /// Headers that are overwritten, never appended to. A header whose value comes out empty is removed instead.
    pub set_headers: Vec<SetHeader>,
    /// Headers that are removed.
    pub remove_headers: Vec<Arc<str>>,
}

/// A header that is set on an allowed request.
#[derive(Clone, Debug)]
pub struct SetHeader {
    /// A valid field name (RFC 9110, 5.1) in lower case, not a pseudo-header and not `host`.
    pub name: Arc<str>,
    /// Its value.
    pub value: Template,
}

/// Text with places to fill in, such as `{user}`. `{{` and `}}` stand for the braces themselves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Template(pub Vec<Piece>);

/// A part of a [`Template`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Piece {
    /// These characters; no control characters among them.
    Text(Box<str>),
    /// `{user}`: the caller's user name; empty for an anonymous one.
    User,
    /// `{roles}`: the names of all the caller's roles, in the order of the policy, joined by commas.
    Roles,
    /// `{groups}`: the caller's groups, in their own order, joined by commas.
    Groups,
    /// `{rule}`: the rule that allowed, as `role: rule`.
    Rule,
    /// `{revision}`: the revision of the policy.
    Revision,
    /// `{claims./json/pointer}`: the claim there, if it is a string, a number or a boolean; else empty.
    Claim(ClaimPath),
}

/// How a refused request is answered.
#[derive(Clone, Debug, Default)]
pub struct DenyResponse {
    /// The body; `None` means the default one of the content type.
    pub body: Option<Arc<str>>,
    /// What the body is.
    pub content_type: ContentType,
    /// Whether the reason is told to the client.
    pub explain: bool,
}

/// What the body of a refusal is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ContentType {
    /// `application/json`.
    #[default]
    Json,
    /// `text/plain; charset=utf-8`.
    Text,
    /// `text/html; charset=utf-8`.
    Html,
}

impl Policy {
    /// The rule of this number, its role, and whether it denies.
    #[must_use]
    pub fn rule(&self, id: RuleId) -> Option<(&Role, &Rule, Effect)> {
        self.rules().find(|(number, ..)| *number == id).map(|(_, role, rule, effect)| (role, rule, effect))
    }

    /// Every rule with its number, in order.
    pub fn rules(&self) -> impl Iterator<Item = (RuleId, &Role, &Rule, Effect)> {
        self.roles
            .iter()
            .flat_map(|role| {
                let allow = role.allow.iter().map(move |rule| (role, rule, Effect::Allow));
                let deny = role.deny.iter().map(move |rule| (role, rule, Effect::Deny));
                allow.chain(deny)
            })
            .zip(0_u32..)
            .map(|((role, rule, effect), number)| (RuleId(number), role, rule, effect))
    }

    /// The number of the role of this name.
    #[must_use]
    pub fn role(&self, name: &str) -> Option<RoleId> {
        (0_u32..).map(RoleId).zip(&self.roles).find(|(_, role)| &*role.name == name).map(|(id, _)| id)
    }
}

/// What a rule does to what it matches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Effect {
    /// It stands under `allow`.
    Allow,
    /// It stands under `deny`.
    Deny,
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("…")
    }
}

impl fmt::Debug for Keys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File { path, .. } => f.debug_tuple("File").field(path).finish(),
            Self::Url { url, .. } => f.debug_tuple("Url").field(url).finish(),
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
