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
    /// A comment that should accept a warning and does not.
    Acceptance = "acceptance",
    /// Two sources can provide the same granted name.
    AmbiguousName = "ambiguous-name",
    /// Paths that differ only in upper and lower case.
    CaseVariant = "case-variant",
    /// Action groups of a search cluster that contain each other.
    CircularGroup = "circular-group",
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
    /// Password hashes that the plugin of a search cluster does not verify by default.
    HashAlgorithm = "hash-algorithm",
    /// A key that cannot verify tokens.
    IgnoredKey = "ignored-key",
    /// A role whose name sounds as if every caller had it.
    LikeAnyone = "like-anyone",
    /// An issuer or an audience with a `*`, which is matched literally.
    LikePattern = "like-pattern",
    /// Something that looks like a placeholder and is literal text, or any segment.
    LikePlaceholder = "like-placeholder",
    /// A large `clock_skew`.
    LongClockSkew = "long-clock-skew",
    /// Password hashes that do not all cost the same.
    MixedHashes = "mixed-hashes",
    /// More problems than are shown.
    More = "more",
    /// Grants without any way to authenticate.
    NoIdentity = "no-identity",
    /// A user without a password, which the `users_file` does not have either.
    NoPassword = "no-password",
    /// A policy that allows nothing, because it has no role.
    NoRoles = "no-roles",
    /// A `deny` rule that callers escape by leaving their credentials out.
    OpenAnonymous = "open-anonymous",
    /// A `deny` rule for a path, or for paths of the same depth, with more allowed below.
    OpenBelow = "open-below",
    /// A `deny` rule for a host, while other hosts are open.
    OpenHost = "open-host",
    /// A `deny` rule for `GET` that leaves `HEAD` open, or vice versa.
    OpenMethod = "open-method",
    /// Roles that deny each other's hosts or paths.
    OpenTenant = "open-tenant",
    /// A path with parameters, or with an encoded query.
    PathParameter = "path-parameter",
    /// A rule with `{user}` where every user name has a prefix.
    PrefixedUser = "prefixed-user",
    /// An issuer that publishes a shared secret.
    PublicSecret = "public-secret",
    /// A rule that another rule covers.
    RedundantRule = "redundant-rule",
    /// A reserved role that is extended.
    ReservedRole = "reserved-role",
    /// A path that looks like several.
    SeveralPaths = "several-paths",
    /// A header with names of users or groups that two sources can provide.
    SharedName = "shared-name",
    /// A rule with `{user}` for callers from two sources who can have the same name.
    SharedUser = "shared-user",
    /// A `*` at the end of a path, which is a single segment.
    SingleSegment = "single-segment",
    /// A password hash that takes about a second or longer.
    SlowHash = "slow-hash",
    /// A role that is granted by name, and that every token of an issuer can give too.
    TokenRole = "token-role",
    /// A path with a slash at its end, and no rule for the path without it.
    TrailingSlash = "trailing-slash",
    /// A header with a claim of a token, where no tokens are accepted.
    UnknownClaim = "unknown-claim",
    /// A granted name that nobody has.
    UnknownName = "unknown-name",
    /// A `deny` rule for requests that nothing allows.
    UnmatchedDeny = "unmatched-deny",
    /// A setting of a search cluster that is not supported.
    UnsupportedSetting = "unsupported-setting",
    /// A role that nobody has.
    UnusedRole = "unused-role",
    /// A rule that no request reaches, because a search cluster decides about its host.
    UnusedRule = "unused-rule",
    /// A method that is not registered.
    UnusualMethod = "unusual-method",
    /// `verify: false`.
    UnverifiedPasswords = "unverified-passwords",
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
