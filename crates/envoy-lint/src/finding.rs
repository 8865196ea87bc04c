//! The kinds of findings, with their severities and texts.

use std::fmt;

use document::Place;

/// The meaning of a finding for requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// Requests that rolegate would deny can pass, or rolegate and the application get different
    /// requests, or a second line of defence is missing.
    Unsafe,
    /// Every check fails, so no request is allowed.
    Broken,
    /// Requests that rolegate would allow are delayed or fail.
    Slow,
    /// Worth knowing.
    Note,
}

/// An unsafe, broken or slow setting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// Its kind.
    pub kind: Kind,
    /// Its place.
    pub at: Place,
    /// The effect: lower case, no full stop.
    pub message: String,
    /// The text to write instead: YAML, or a sentence.
    pub fix: String,
}

macro_rules! kinds {
    ($(
        $(#[doc = $text:literal])*
        $kind:ident = $severity:ident $name:literal $(: $message:literal => $fix:literal)?,
    )+) => {
        /// A kind of findings. Its name is stable: configurations accept findings by name.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Kind {
            $($(#[doc = $text])* $(#[doc = $message])? $kind,)+
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

            /// The meaning of findings of this kind for requests.
            #[must_use]
            pub const fn severity(self) -> Severity {
                match self {
                    $(Self::$kind => Severity::$severity,)+
                }
            }

            /// The message and the fix, if each finding of this kind has the same.
            pub(crate) const fn text(self) -> (&'static str, &'static str) {
                match self {
                    $(Self::$kind => (concat!("" $(, $message)?), concat!("" $(, $fix)?)),)+
                }
            }
        }
    };
}

// Each kind has a severity, a name, and either a fixed message and fix or a description.
kinds! {
    /// A comment that should accept a finding and does not.
    Acceptance = Note "acceptance",
    /// Several paths that clients send become the same path, or the client chooses the rewritten
    /// path or method.
    AmbiguousRewrite = Unsafe "ambiguous-rewrite",
    BodyAsText = Slow "body-as-text":
        "Envoy sends the body as text and replaces bytes that are not UTF-8; rolegate does not \
         read it, and denies requests whose body the decision depends on"
        => "pack_as_bytes: true",
    BufferedBodies = Slow "buffered-bodies":
        "Envoy holds each request until its body has arrived, but rules do not depend on \
         bodies; and without `request_body: buffered` on a route, rolegate cannot tell an empty \
         body from a body that was not sent"
        => "leave `with_request_body` out, or for a search cluster add to its virtual host\n         \
         typed_per_filter_config:\n           envoy.filters.http.ext_authz:\n             \
         \"@type\": \
         type.googleapis.com/envoy.extensions.filters.http.ext_authz.v3.ExtAuthzPerRoute\n             \
         check_settings: { context_extensions: { request_body: buffered } }",
    /// A listener without authorization reaches an application that another listener protects.
    BypassListener = Unsafe "bypass-listener",
    /// The limits of checks in flight are too low for a burst of clients.
    CircuitBreakers = Slow "circuit-breakers",
    /// A filter may change the route of an authorized request.
    ClearedRoute = Unsafe "cleared-route",
    ClientAddress = Note "client-address":
        "the address of the client is the one in `x-forwarded-for`, which clients choose \
         unless a trusted proxy in front of Envoy sets it"
        => "use_remote_address: true",
    /// A header of the client decides which application, host or address gets an authorized
    /// request.
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
    /// Requests pass if rolegate does not answer.
    FailsOpen = Unsafe "fails-open",
    GoogleGrpc = Broken "google-grpc":
        "`google_grpc` sends the path of the socket as authority, which rolegate rejects: \
         every check fails"
        => "channel_args: { args: { grpc.default_authority: { string_value: localhost } } }",
    /// Some headers are hidden from rolegate.
    HiddenHeaders = Unsafe "hidden-headers",
    /// Checks are sent without gRPC.
    HttpService = Broken "http-service",
    Http1Cluster = Broken "http1-cluster":
        "checks are sent over HTTP/1.1, and gRPC needs HTTP/2: every check fails"
        => "typed_extension_protocol_options:\n           \
         envoy.extensions.upstreams.http.v3.HttpProtocolOptions:\n             \"@type\": \
         type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions\n             \
         explicit_http_config: { http2_protocol_options: {} }",
    IgnoredCase = Note "ignored-case":
        "the route ignores upper and lower case, but rules do not: an application that also \
         ignores case serves `/ADMIN` as `/admin`, which a rule about `/admin` does not match"
        => "leave this out; or accept it if the application distinguishes case",
    IgnoredMutations = Unsafe "ignored-mutations":
        "Envoy ignores that rolegate sets or removes these headers: the application gets identity \
         headers that a client has forged"
        => "leave this out",
    JoinedHeaders = Unsafe "joined-headers":
        "Envoy joins header lines and changes bytes that are not UTF-8, so rolegate and the \
         application see different headers"
        => "encode_raw_headers: true",
    LoggedCredentials = Unsafe "logged-credentials":
        "passwords and tokens are written here: whoever can read this can make requests with \
         them"
        => "leave this out: rolegate's decision log says who made a request",
    /// A rolegate that hangs delays each request for long.
    LongTimeout = Slow "long-timeout",
    MetadataFrames = Slow "metadata-frames":
        "a request whose password is hashed may wait until its timeout, although it is \
         allowed, if a METADATA frame arrives meanwhile and nothing after it"
        => "allow_metadata: false",
    /// A patch puts the filter where no request passes it.
    MisplacedFilter = Unsafe "misplaced-filter",
    /// Bodies that requests to a search cluster need are not sent.
    MissingBodies = Unsafe "missing-bodies",
    /// There is no cluster of this name.
    MissingCluster = Broken "missing-cluster",
    /// A policy names a provider or a module that is not registered.
    MissingProvider = Broken "missing-provider",
    NoHealthChecks = Note "no-health-checks":
        "Envoy sends checks to an instance that is stopping or does not answer"
        => "health_checks: [{ grpc_health_check: {}, interval: 0.5s, no_traffic_interval: 0.5s, \
         timeout: 0.5s, healthy_threshold: 1, unhealthy_threshold: 1 }]",
    NoRetries = Note "no-retries":
        "a check is not retried: while rolegate restarts, requests get 503"
        => "retry_policy: { retry_on: \"connect-failure,refused-stream,reset,unavailable\", \
         num_retries: 2, retry_back_off: { base_interval: 0.005s, max_interval: 2s } }; and in \
         `circuit_breakers` of its cluster, `max_retries: 100000`",
    OptionalFilter = Unsafe "optional-filter":
        "an Envoy that does not have this filter leaves it out without an error: requests pass \
         without authorization"
        => "is_optional: false",
    /// A filter may turn an authorized request into a different one.
    OtherRequest = Unsafe "other-request",
    /// A route sends its checks elsewhere.
    OtherService = Unsafe "other-service",
    PartialBodies = Slow "partial-bodies":
        "a body over `max_request_bytes` is sent in part: requests whose body the decision \
         depends on are then denied"
        => "allow_partial_message: false",
    Plaintext = Unsafe "plaintext":
        "checks have passwords and tokens in them, and are sent over a network without \
         encryption: whoever can answer in rolegate's place gets these, and can allow everything"
        => "use a Unix socket or loopback, or `transport_socket` and rolegate's \
         `--tls-certificate`; accept this if a mesh or network plugin encrypts",
    /// A plugin may change an authorized request.
    PluginRewrite = Note "plugin-rewrite",
    PluginRouting = Note "plugin-routing":
        "a plugin chooses the cluster that gets the request, by criteria that cannot be seen \
         here, whereas the policy decides by the host in the request"
        => "write `cluster`; or accept this if no allowed request can influence the choice",
    /// CORS preflights are authorized, although they have no credentials.
    RefusedPreflights = Slow "refused-preflights",
    RejectedMutations = Slow "rejected-mutations":
        "a request gets 500 if rolegate sets or removes a header that this disallows"
        => "leave this out",
    /// The application gets another path, method or host than the client sent.
    RewrittenPath = Note "rewritten-path",
    ShadowMode = Unsafe "shadow-mode":
        "Envoy asks rolegate and ignores its decisions: every request passes"
        => "leave this out; to try a policy, give it to rolegate with `--shadow`",
    /// The first check of a password takes longer than Envoy waits.
    ShortTimeout = Slow "short-timeout",
    SlowRetries = Slow "slow-retries":
        "without `retry_back_off`, a check that fails is retried only after up to a second"
        => "retry_back_off: { base_interval: 0.005s, max_interval: 2s }",
    StalledBodies = Note "stalled-bodies":
        "users of Envoy report that large bodies over HTTP/2 wait until a timeout where \
         `ext_authz` and a library both run"
        => "try such a request; where rolegate can be the library, leave `ext_authz` out",
    /// An error looks like a denial, or like success.
    StatusOnError = Slow "status-on-error",
    TruncatedDenials = Note "truncated-denials":
        "Envoy cuts off a denial's body beyond this limit"
        => "leave this out",
    /// A policy of Envoy Gateway or Istio has no effect where it is attached.
    UnenforcedPolicy = Unsafe "unenforced-policy",
    /// Envoy decodes slashes before rolegate sees the path.
    UnescapedSlashes = Unsafe "unescaped-slashes",
    /// The application gets a path with adjacent slashes.
    UnmergedSlashes = Unsafe "unmerged-slashes",
    /// The application gets the path as the client sent it.
    UnnormalizedPath = Unsafe "unnormalized-path",
    /// The cluster, or the secret with which Envoy verifies it, is not in this file.
    UnseenCluster = Note "unseen-cluster",
    /// The endpoints of a cluster are not in this file.
    UnseenEndpoints = Note "unseen-endpoints",
    /// The configuration of the filter is not in this file.
    UnseenFilter = Note "unseen-filter",
    UnseenListeners = Note "unseen-listeners":
        "further listeners are not in this file: whether one of them reaches a protected \
         application without authorization cannot be seen"
        => "add them as a further document (`---`), or lint what `/config_dump` of Envoy's admin \
         page prints",
    UnseenRoutes = Note "unseen-routes":
        "the routes are not in this file: whether one leads past authorization cannot be seen"
        => "lint what `/config_dump` of Envoy's admin page prints",
    UnvalidatedMutations = Unsafe "unvalidated-mutations":
        "Envoy does not check the headers of a response of rolegate"
        => "validate_mutations: true",
    /// Others can answer in rolegate's place.
    UnverifiedConnection = Unsafe "unverified-connection",
    /// Upgrade requests use another filter chain.
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
        assert!(Kind::ALL.is_sorted_by(|a, b| a.name() < b.name()));
    }
}
