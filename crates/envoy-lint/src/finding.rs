//! What a configuration can have that is unsafe, broken, slow, or worth knowing.

use std::fmt;

use document::Place;

/// What a finding means for requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// Requests can pass that rolegate would deny, or rolegate and the application get different requests, or a second
    /// line of defence is missing.
    Unsafe,
    /// Every check fails, so no request is allowed.
    Broken,
    /// Requests are delayed or fail that rolegate would allow.
    Slow,
    /// Worth knowing.
    Note,
}

/// One finding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// Its kind.
    pub kind: Kind,
    /// Its place.
    pub at: Place,
    /// What happens: lower case, no full stop.
    pub message: String,
    /// What to write instead: YAML, or a sentence where no YAML would do.
    pub fix: String,
}

macro_rules! kinds {
    ($($(#[doc = $text:literal])+ $kind:ident = $severity:ident $name:literal,)+) => {
        /// A kind of findings. Its name is stable: configurations accept findings by name.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Kind {
            $($(#[doc = $text])+ $kind,)+
        }

        impl Kind {
            /// All kinds, by name.
            pub const ALL: &[Self] = &[$(Self::$kind,)+];

            /// The name, such as `fails-open`.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$kind => $name,)+
                }
            }

            /// What findings of this kind mean for requests.
            #[must_use]
            pub const fn severity(self) -> Severity {
                match self {
                    $(Self::$kind => Severity::$severity,)+
                }
            }
        }
    };
}

kinds! {
    /// A comment that should accept a finding and does not.
    Acceptance = Note "acceptance",
    /// Several paths of clients become the same path of the application, or a client names its path or method.
    AmbiguousRewrite = Unsafe "ambiguous-rewrite",
    /// Bodies are sent as text, which changes them.
    BodyAsText = Slow "body-as-text",
    /// Each body is buffered, although nothing says that rolegate needs it.
    BufferedBodies = Slow "buffered-bodies",
    /// A listener without authorization reaches an application that others protect.
    BypassListener = Unsafe "bypass-listener",
    /// The limits of checks in flight are too low for a burst of clients.
    CircuitBreakers = Slow "circuit-breakers",
    /// A filter may choose another route for a request that is authorized as the first says.
    ClearedRoute = Unsafe "cleared-route",
    /// The client's address is what the client says.
    ClientAddress = Note "client-address",
    /// A header of the client decides which application, host or address gets an authorized request.
    ClientRouting = Unsafe "client-routing",
    /// The library is unloaded while its threads run.
    ClosedModule = Slow "closed-module",
    /// Only some requests are authorized.
    ConditionalFilter = Unsafe "conditional-filter",
    /// The filter is off unless a route enables it.
    DisabledFilter = Unsafe "disabled-filter",
    /// The filter is off on a route.
    DisabledRoute = Unsafe "disabled-route",
    /// A filter that acts on requests runs before they are authorized.
    EarlyFilter = Unsafe "early-filter",
    /// Requests pass if there is no decision.
    FailsOpen = Unsafe "fails-open",
    /// The client of Google's library sends the path of a socket as authority.
    GoogleGrpc = Broken "google-grpc",
    /// rolegate does not see each header.
    HiddenHeaders = Unsafe "hidden-headers",
    /// Checks are sent without gRPC.
    HttpService = Broken "http-service",
    /// Checks are sent over HTTP/1.1.
    Http1Cluster = Broken "http1-cluster",
    /// A route ignores the case of paths.
    IgnoredCase = Note "ignored-case",
    /// Envoy ignores headers that rolegate sets or removes.
    IgnoredMutations = Unsafe "ignored-mutations",
    /// Header lines are joined and changed before rolegate sees them.
    JoinedHeaders = Unsafe "joined-headers",
    /// Passwords and tokens are written to a log.
    LoggedCredentials = Unsafe "logged-credentials",
    /// A rolegate that hangs delays each request for long.
    LongTimeout = Slow "long-timeout",
    /// Frames of metadata can leave a request that the library has allowed waiting.
    MetadataFrames = Slow "metadata-frames",
    /// A patch puts the filter where no request passes it.
    MisplacedFilter = Unsafe "misplaced-filter",
    /// Bodies that requests to a search cluster need are not sent.
    MissingBodies = Unsafe "missing-bodies",
    /// There is no cluster of this name.
    MissingCluster = Broken "missing-cluster",
    /// A policy names what is not registered.
    MissingProvider = Broken "missing-provider",
    /// Envoy sends checks to instances that do not answer.
    NoHealthChecks = Note "no-health-checks",
    /// Checks are not retried.
    NoRetries = Note "no-retries",
    /// Envoy leaves the filter out if it does not have it.
    OptionalFilter = Unsafe "optional-filter",
    /// A filter may make another request of one that is authorized.
    OtherRequest = Unsafe "other-request",
    /// A route sends its checks elsewhere.
    OtherService = Unsafe "other-service",
    /// Bodies are sent in part.
    PartialBodies = Slow "partial-bodies",
    /// Checks are sent over a network without encryption.
    Plaintext = Unsafe "plaintext",
    /// What a plugin makes of an authorized request is not known.
    PluginRewrite = Note "plugin-rewrite",
    /// A plugin decides which application gets an authorized request.
    PluginRouting = Note "plugin-routing",
    /// Preflights of CORS are authorized, and have no credentials.
    RefusedPreflights = Slow "refused-preflights",
    /// Envoy answers with an error where rolegate sets or removes headers.
    RejectedMutations = Slow "rejected-mutations",
    /// The application gets another path, method or host than the client sent.
    RewrittenPath = Note "rewritten-path",
    /// Envoy asks rolegate, and ignores its decisions.
    ShadowMode = Unsafe "shadow-mode",
    /// The first check of a password takes longer than Envoy waits.
    ShortTimeout = Slow "short-timeout",
    /// Retries wait for a second.
    SlowRetries = Slow "slow-retries",
    /// Large bodies are reported to wait where `ext_authz` and a library run.
    StalledBodies = Note "stalled-bodies",
    /// An error looks like a denial, or like success.
    StatusOnError = Slow "status-on-error",
    /// The answers of denials are cut off.
    TruncatedDenials = Note "truncated-denials",
    /// A policy of Envoy Gateway or Istio has no effect where it is attached.
    UnenforcedPolicy = Unsafe "unenforced-policy",
    /// Envoy decodes slashes before rolegate sees the path.
    UnescapedSlashes = Unsafe "unescaped-slashes",
    /// The application gets a path with adjacent slashes.
    UnmergedSlashes = Unsafe "unmerged-slashes",
    /// The application gets the path as the client sent it.
    UnnormalizedPath = Unsafe "unnormalized-path",
    /// The cluster, or the secret by which Envoy verifies it, is not in this file.
    UnseenCluster = Note "unseen-cluster",
    /// The endpoints of a cluster are not in this file.
    UnseenEndpoints = Note "unseen-endpoints",
    /// The configuration of the filter is not in this file.
    UnseenFilter = Note "unseen-filter",
    /// Further listeners are not in this file.
    UnseenListeners = Note "unseen-listeners",
    /// The routes are not in this file.
    UnseenRoutes = Note "unseen-routes",
    /// The headers of a response of rolegate are not checked.
    UnvalidatedMutations = Unsafe "unvalidated-mutations",
    /// Others can answer in rolegate's place.
    UnverifiedConnection = Unsafe "unverified-connection",
    /// Requests that upgrade pass other filters.
    UpgradeFilters = Unsafe "upgrade-filters",
}

impl Severity {
    /// Its name in messages.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Unsafe => "unsafe",
            Self::Broken => "broken",
            Self::Slow => "slow",
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
    fn names_are_distinct_and_sorted() {
        assert!(Kind::ALL.is_sorted_by(|one, other| one.name() < other.name()));
    }
}
