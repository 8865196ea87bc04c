//! The kinds of warnings, each with its name.

use std::fmt;

macro_rules! warnings {
    ($($(#[doc = $text:literal])+ $kind:ident = $name:literal,)+) => {
        /// A kind of warning. Its name is stable: policies accept warnings by name.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Warning {
            $($(#[doc = $text])+ $kind,)+
        }

        impl Warning {
            /// All kinds, by name.
            pub const ALL: &[Self] = &[$(Self::$kind,)+];

            /// The subject of a warning of this kind.
            #[must_use]
            pub const fn meaning(self) -> &'static str {
                match self {
                    $(Self::$kind => concat!($($text),+),)+
                }
            }

            /// The name, such as `redundant-rule`.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$kind => $name,)+
                }
            }
        }
    };
}

warnings! {
    /// A comment that should accept a warning, but accepts none.
    Acceptance = "acceptance",
    /// A granted name that two sources can provide; the warning is at the last of the sources. In a
    /// search cluster, with the warning at the issuer: the name of a user that tokens can have,
    /// too; or the name of Dashboards itself (`kibana.server_username`), which needs no privilege
    /// on a tenant.
    AmbiguousName = "ambiguous-name",
    /// Paths that differ only in upper and lower case.
    CaseVariant = "case-variant",
    /// Action groups of a search cluster that contain each other: as in its plugin, each has the
    /// actions of all of them.
    CircularGroup = "circular-group",
    /// Something is allowed by headers or parameters alone, which every client can send.
    ClientChosen = "client-chosen",
    /// A condition without a variable.
    ConstantCondition = "constant-condition",
    /// A token in a cookie, where a rule allows more than to read, and has no condition on
    /// `request.headers['origin']`: another site can make a browser send such a request.
    CrossSiteRequest = "cross-site-request",
    /// An `allow` rule whose requests are all denied.
    DeniedRule = "denied-rule",
    /// A claim whose name looks like a path.
    DottedClaim = "dotted-claim",
    /// A text that is listed twice.
    Duplicate = "duplicate",
    /// A grant to nobody.
    EmptyGrant = "empty-grant",
    /// A role without rules.
    EmptyRole = "empty-role",
    /// A percent-encoded character that requests may also carry as it is.
    EncodedCharacter = "encoded-character",
    /// A header of Envoy is set or removed.
    EnvoyHeader = "envoy-header",
    /// Users of a search cluster with a hash that is not bcrypt: rolegate verifies it, the
    /// cluster's own plugin by default does not. Accept it for a cluster without the plugin.
    HashAlgorithm = "hash-algorithm",
    /// A key that cannot verify tokens, and has no `use: enc`, which marks keys for encryption.
    IgnoredKey = "ignored-key",
    /// A role with a name such as `everyone`, `all` or `public` that only some callers have.
    LikeAnyone = "like-anyone",
    /// An issuer or an audience with a `*`, which is matched literally.
    LikePattern = "like-pattern",
    /// Text that looks like a placeholder, but is literal or matches any segment.
    LikePlaceholder = "like-placeholder",
    /// A large `clock_skew`.
    LongClockSkew = "long-clock-skew",
    /// Client certificates with different names that are the same user, because the name of the
    /// user lacks a placeholder, or does not say where one ends.
    MergedUsers = "merged-users",
    /// A `deny` rule of `anyone` or `authenticated` whose condition reads a claim: it denies every
    /// caller without a token.
    MissingClaims = "missing-claims",
    /// The condition of a role reads a placeholder that none of its rules has, so that none counts.
    MissingPlaceholder = "missing-placeholder",
    /// Users whose hashes have different algorithms or parameters: the time of an answer can show
    /// which users exist.
    MixedHashes = "mixed-hashes",
    /// There are more problems than are shown.
    More = "more",
    /// A condition whose parts exclude each other.
    NeverTrue = "never-true",
    /// Grants without any way to authenticate.
    NoIdentity = "no-identity",
    /// A user without a line in the `users_file`; in a search cluster, a user without a `hash`.
    /// Nobody can authenticate as this user.
    NoPassword = "no-password",
    /// A policy without a role and without `search`, which allows nothing.
    NoRoles = "no-roles",
    /// A condition that only questions of AuthZEN can decide: an `allow` rule with it allows no
    /// request of a proxy, and a `deny` rule with it denies all that it matches.
    OnlyQuestions = "only-questions",
    /// A `deny` rule of some roles for what `anyone` allows: callers without credentials have none
    /// of these roles.
    OpenAnonymous = "open-anonymous",
    /// A `deny` rule for one path, for segments that begin alike (`/internal*`) or for one depth
    /// (`/{id}`, `/*.env`), where a rule for a wider `/**` allows what is below; one warning for a
    /// rule with several `paths`.
    OpenBelow = "open-below",
    /// A `deny` rule for some hosts, where an `allow` rule is for any host; or a `deny` for
    /// `*.example.com`, where the same is allowed on `example.com`.
    OpenHost = "open-host",
    /// A `deny` rule for `GET` that leaves `HEAD` allowed, or vice versa.
    OpenMethod = "open-method",
    /// Roles that deny each other's hosts or paths, such as the roles of tenants: a new host is
    /// open to all of these roles, and every host to a caller without such a role.
    OpenTenant = "open-tenant",
    /// A path with parameters, or with an encoded query.
    PathParameter = "path-parameter",
    /// A rule with `{user}` where every user name has a prefix, and no rule with `{user.id}`.
    PrefixedUser = "prefixed-user",
    /// An issuer that publishes a shared secret.
    PublicSecret = "public-secret",
    /// A rule that another rule covers.
    RedundantRule = "redundant-rule",
    /// A reserved role that is extended, or listed under `roles_from_token`: callers have it
    /// anyway, or everybody may do what `authenticated` may do.
    ReservedRole = "reserved-role",
    /// A path, or a segment, that looks like several.
    SeveralPaths = "several-paths",
    /// A header with names of users or groups that callers from two sources can have: the
    /// application cannot tell them apart.
    SharedName = "shared-name",
    /// A rule with `{user}` for callers from two sources who can have the same name.
    SharedUser = "shared-user",
    /// A `*` at the end of a path, which is one segment.
    SingleSegment = "single-segment",
    /// A hash that takes about a second or longer.
    SlowHash = "slow-hash",
    /// A granted role that tokens can give too, because `roles_from_token` lists no roles; the
    /// warning is at the issuer.
    TokenRole = "token-role",
    /// A path with a slash at its end, and no rule for the path without it.
    TrailingSlash = "trailing-slash",
    /// A header or metadata with a claim of a token, where no tokens are accepted.
    UnknownClaim = "unknown-claim",
    /// A name in a grant or a condition that nobody has; in the files of a search cluster,
    /// a role, an action group or a variable that does not exist, which grants nothing.
    UnknownName = "unknown-name",
    /// A `deny` rule for requests that no rule allows.
    UnmatchedDeny = "unmatched-deny",
    /// A setting of a search cluster that is not supported, or has no effect.
    UnsupportedSetting = "unsupported-setting",
    /// A condition with a name that no rule, role or grant uses.
    UnusedCondition = "unused-condition",
    /// A role that nobody has, of the policy or of a search cluster.
    UnusedRole = "unused-role",
    /// A rule for the hosts of a search cluster, whose own roles decide.
    UnusedRule = "unused-rule",
    /// A method that is not registered.
    UnusualMethod = "unusual-method",
    /// `verify: false`.
    UnverifiedPasswords = "unverified-passwords",
    /// An hour or a day of the time of a request, without a time zone.
    UtcHours = "utc-hours",
    /// A password hash that is too easy to break.
    WeakHash = "weak-hash",
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::Warning;

    #[test]
    fn names_are_distinct_and_sorted() {
        assert!(Warning::ALL.is_sorted_by(|a, b| a.name() < b.name()));
    }
}
