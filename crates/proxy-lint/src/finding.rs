//! The kinds of findings, with their severities and texts.

use std::fmt;

use document::Place;

/// The meaning of a finding for requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// Requests that rolegate would deny can pass, or rolegate and the application get different
    /// requests.
    Unsafe,
    /// Requests that rolegate would allow fail.
    Broken,
    /// Worth knowing.
    Note,
}

/// An unsafe or broken setting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// Its kind.
    pub kind: Kind,
    /// Its place.
    pub at: Place,
    /// The effect: lower case, no full stop.
    pub message: String,
    /// What to write instead.
    pub fix: String,
}

macro_rules! kinds {
    ($($(#[doc = $effect:literal])+ $kind:ident = $severity:ident $name:literal, $remedy:literal;)+) => {
        /// A kind of findings. Its name is stable: configurations accept findings by name.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Kind {
            $($(#[doc = $effect])+ $kind,)+
        }

        impl Kind {
            /// All kinds, by name.
            pub const ALL: &[Self] = &[$(Self::$kind,)+];

            /// The name, such as `unprotected`.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$kind => $name,)+
                }
            }

            /// The meaning of findings of this kind for requests.
            #[must_use]
            pub const fn severity(self) -> Severity {
                match self {
                    $(Self::$kind => Severity::$severity,)+
                }
            }

            /// The effect, in a sentence of Markdown, for the reference.
            #[must_use]
            pub const fn effect(self) -> &'static str {
                match self {
                    $(Self::$kind => concat!($($effect,)+),)+
                }
            }

            /// The remedy, in Markdown, for the reference.
            #[must_use]
            pub const fn remedy(self) -> &'static str {
                match self {
                    $(Self::$kind => $remedy,)+
                }
            }
        }
    };
}

kinds! {
    /// A comment accepts no finding, or has no reason.
    Acceptance = Note "acceptance", "remove it, or add the reason";
    /// The answer to one caller is given to another.
    CachedDecision = Unsafe "cached-decision", "`proxy_cache off`: rolegate answers within microseconds";
    /// The application gets another path than was authorized.
    ChangedPath = Unsafe "changed-path",
        "pass the path on as it came: `proxy_pass http://app;` without a path behind the host; no `rewrite`, `handle_path` and `uri` behind the authorization";
    /// The application gets an identity header as the client sent it.
    ClientHeader = Unsafe "client-header",
        "set or remove it for the application: `proxy_set_header X-User $user`, `request_header -X-User`";
    /// The client can choose the method, host, path or address that rolegate decides about.
    ForgedRequest = Unsafe "forged-request",
        "overwrite each header of the profile, as in `deploy/`; trust no proxies that clients can be";
    /// `auth_request` names a location that is not there, so each request fails.
    MissingCheck = Broken "missing-check", "define it, as in `deploy/`";
    /// Clients can call the location that asks rolegate.
    PublicCheck = Unsafe "public-check", "`internal;`";
    /// A body is announced to rolegate, and does not come: such requests wait until a timeout.
    SentBody = Broken "sent-body", "`proxy_pass_request_body off;` and `proxy_set_header Content-Length \"\";`";
    /// A request that is denied is served nevertheless.
    ServedDenial = Unsafe "served-denial", "remove it, or answer with a redirect or an error there";
    /// A request passes that another rule allows, such as one about addresses.
    SatisfyAny = Unsafe "satisfy-any", "`satisfy all;`";
    /// The location that asks rolegate gives the answer itself, or takes that of something else.
    UncheckedAnswer = Unsafe "unchecked-answer", "`proxy_pass` to rolegate, and nothing else";
    /// An application takes `x_user` for `x-user`.
    UnderscoreHeaders = Unsafe "underscore-headers", "remove `underscores_in_headers on`";
    /// `//admin` reaches a location without authorization, where an application may serve `/admin`.
    UnmergedSlashes = Unsafe "unmerged-slashes", "remove `merge_slashes off`";
    /// A location, route or handler leads to an application without authorization.
    Unprotected = Unsafe "unprotected", "`auth_request`, or `forward_auth` before it";
    /// An included file is not there, so what it says is not checked.
    UnseenInclude = Note "unseen-include", "lint where the file is";
}

impl Severity {
    /// Its name in messages.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Unsafe => "unsafe",
            Self::Broken => "broken",
            Self::Note => "note",
        }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (severity, name) = (self.kind.severity().name(), self.kind.name());
        write!(f, "{}: {severity}[{name}]: {}\n    fix: {}", self.at, self.message, self.fix)
    }
}

#[cfg(test)]
mod tests {
    use super::Kind;

    #[test]
    fn names_are_distinct() {
        let names: std::collections::BTreeSet<_> =
            Kind::ALL.iter().map(|kind| kind.name()).collect();
        assert_eq!(names.len(), Kind::ALL.len());
    }
}
