//! The kinds of findings, with their severities and texts.

use document::finding_kinds;

/// A finding about the configuration.
pub type Finding = document::Finding<Kind>;

finding_kinds! {
    /// A comment accepts no finding, or has no reason.
    Acceptance = Note "acceptance", "remove it, or add the reason";
    /// A route rewrites two paths to the same one, or to one that a client names.
    AmbiguousRewrite = Unsafe "ambiguous-rewrite",
        "`prefix` and `prefix_rewrite` with the same end (`/`), in one case; no regular \
         expressions, templates and formats that drop parts";
    /// Envoy sends bodies as text, so requests to a search cluster whose bodies count get 403.
    BodyAsText = Slow "body-as-text", "`pack_as_bytes: true`":
        "Envoy sends the body as text and replaces bytes that are not UTF-8; rolegate does not \
         read it, and denies requests whose body the decision depends on"
        => "pack_as_bytes: true";
    /// Envoy holds each request until its body has arrived.
    BufferedBodies = Slow "buffered-bodies",
        "remove `with_request_body`; for a search cluster, say on the route that [bodies are \
         sent](../../deploy/search/README.md#bodies)":
        "Envoy holds each request until its body has arrived, but rules do not depend on \
         bodies; and without `request_body: buffered` on a route, rolegate cannot tell an empty \
         body from a body that was not sent"
        => "leave `with_request_body` out, or for a search cluster add to its virtual host\n         \
         typed_per_filter_config:\n           envoy.filters.http.ext_authz:\n             \
         \"@type\": \
         type.googleapis.com/envoy.extensions.filters.http.ext_authz.v3.ExtAuthzPerRoute\n             \
         check_settings: { context_extensions: { request_body: buffered } }";
    /// A listener without the filter reaches a protected application, by its cluster, its address,
    /// `tcp_proxy`, a plugin or the client's choice.
    BypassListener = Unsafe "bypass-listener",
        "add the filter, or listen on loopback or a Unix socket";
    /// A burst of clients reaches the limits of the cluster.
    CircuitBreakers = Slow "circuit-breakers",
        "raise `max_requests`, `max_pending_requests`, `max_retries`";
    /// A filter behind the authorization may choose another route (Lua, `grpc_json_transcoder`,
    /// `ext_proc`, plugins), whose policy differs.
    ClearedRoute = Unsafe "cleared-route",
        "keep the route (`clear_route_cache: false`, `match_incoming_request_route`, \
         `route_cache_action: RETAIN`)";
    /// Clients choose their address by `x-forwarded-for` or a `PROXY` line, unless a proxy in front
    /// sets it.
    ClientAddress = Note "client-address",
        "`use_remote_address: true`, no `allow_requests_without_proxy_protocol`":
        "the address of the client is the one in `x-forwarded-for`, which clients choose \
         unless a trusted proxy in front of Envoy sets it"
        => "use_remote_address: true";
    /// Clients choose the certificate in `x-forwarded-client-cert`, which a policy with `from: xfcc`
    /// may read, and an application.
    ClientCertificateHeader = Unsafe "client-certificate-header",
        "`forward_client_cert_details: SANITIZE_SET`; behind a proxy that writes the header, no \
         `use_remote_address`":
        "the `x-forwarded-client-cert` of a client goes on as it is: whoever reads it, such as a \
         policy with `from: xfcc`, gets the certificate that the client names"
        => "forward_client_cert_details: SANITIZE_SET";
    /// The client decides which cluster, host or address gets the request (`cluster_header`,
    /// `host_rewrite_header`, `use_http_header`, formats, Lua).
    ClientRouting = Unsafe "client-routing",
        "name the cluster and the host, or have the policy set or remove that header";
    /// Envoy can unload the dynamic module while its threads run, and crash.
    ClosedModule = Slow "closed-module", "`do_not_close: true`";
    /// `filter_enabled`, a matcher or `default_config` exempts requests from authorization.
    ConditionalFilter = Unsafe "conditional-filter", "remove it, or `deny_at_disable: true`";
    /// Only routes that enable the filter are authorized, or a patch of an `EnvoyFilter` takes it
    /// out.
    DisabledFilter = Unsafe "disabled-filter", "remove `disabled`, or the patch";
    /// A route turns the filter off, or has a `filter_config` for the dynamic module that is not
    /// read.
    DisabledRoute = Unsafe "disabled-route",
        "remove it; for the dynamic module write a `StringValue` with JSON";
    /// A filter before the authorization acts on requests or changes them.
    EarlyFilter = Unsafe "early-filter",
        "move it behind; only `cors`, `oauth2`, `jwt_authn` with `forward: true`, and filters \
         that deny, delay or count (rate limits, `rbac`, `csrf`, `fault`, `grpc_stats`, Istio's \
         own) may stay";
    /// Requests pass when Envoy gets no decision.
    FailsOpen = Unsafe "fails-open", "`failure_mode_allow: false`";
    /// The path of a Unix socket is sent as authority, which rolegate rejects.
    GoogleGrpc = Broken "google-grpc", "`envoy_grpc`, or a `grpc.default_authority`":
        "`google_grpc` sends the path of the socket as authority, which rolegate rejects: \
         every check fails"
        => "channel_args: { args: { grpc.default_authority: { string_value: localhost } } }";
    /// rolegate does not see each header, so it removes no forged identity headers.
    HiddenHeaders = Unsafe "hidden-headers", "remove `allowed_headers` and `disallowed_headers`";
    /// rolegate answers checks that are not gRPC with 405 or 415.
    HttpService = Broken "http-service", "`grpc_service`";
    /// The cluster speaks HTTP/1.1, and gRPC needs HTTP/2.
    Http1Cluster = Broken "http1-cluster", "`http2_protocol_options`":
        "checks are sent over HTTP/1.1, and gRPC needs HTTP/2: every check fails"
        => "typed_extension_protocol_options:\n           \
         envoy.extensions.upstreams.http.v3.HttpProtocolOptions:\n             \"@type\": \
         type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions\n             \
         explicit_http_config: { http2_protocol_options: {} }";
    /// A route matches in any case, and rules do not: an application may serve `/ADMIN`, which no
    /// rule about `/admin` matches.
    IgnoredCase = Note "ignored-case", "match the case":
        "the route ignores upper and lower case, but rules do not: an application that also \
         ignores case serves `/ADMIN` as `/admin`, which a rule about `/admin` does not match"
        => "leave this out; or accept it if the application distinguishes case";
    /// Envoy ignores headers that rolegate sets or removes: clients can forge identity headers.
    IgnoredMutations = Unsafe "ignored-mutations",
        "remove `disallow_all`, `disallow_system`, `disallow_expression`":
        "Envoy ignores that rolegate sets or removes these headers: the application gets identity \
         headers that a client has forged"
        => "leave this out";
    /// Envoy joins and changes header lines before rolegate sees them.
    JoinedHeaders = Unsafe "joined-headers", "`encode_raw_headers: true`":
        "Envoy joins header lines and changes bytes that are not UTF-8, so rolegate and the \
         application see different headers"
        => "encode_raw_headers: true";
    /// An access log or span has `authorization`, `cookie` or `x-api-key`.
    LoggedCredentials = Unsafe "logged-credentials", "leave it out":
        "passwords and tokens are written here: whoever can read this can make requests with \
         them"
        => "leave this out: rolegate's decision log says who made a request";
    /// Each request waits for over 10 s while rolegate hangs.
    LongTimeout = Slow "long-timeout", "`timeout: 2s`";
    /// With the dynamic module, a METADATA frame can stall a request whose password is hashed.
    MetadataFrames = Slow "metadata-frames", "remove `allow_metadata`":
        "a request whose password is hashed may wait until its timeout, although it is \
         allowed, if a METADATA frame arrives meanwhile and nothing after it"
        => "allow_metadata: false";
    /// A patch of an `EnvoyFilter` puts the filter where no request passes it.
    MisplacedFilter = Unsafe "misplaced-filter",
        "`INSERT_BEFORE` or `INSERT_FIRST` in the HTTP filters";
    /// A route says that bodies are sent, and they are not, so indices named there pass unseen.
    MissingBodies = Unsafe "missing-bodies",
        "set `with_request_body`, or remove `request_body: buffered`";
    /// The cluster that checks are sent to does not exist.
    MissingCluster = Broken "missing-cluster", "define it";
    /// A policy of Istio or Envoy Gateway names a provider or module that does not exist.
    MissingProvider = Broken "missing-provider", "define it, or correct the name";
    /// Envoy sends checks to an instance that is stopping.
    NoHealthChecks = Note "no-health-checks", "`health_checks`":
        "Envoy sends checks to an instance that is stopping or does not answer"
        => "health_checks: [{ grpc_health_check: {}, interval: 0.5s, no_traffic_interval: 0.5s, \
         timeout: 0.5s, healthy_threshold: 1, unhealthy_threshold: 1 }]";
    /// Requests get 503 while rolegate restarts.
    NoRetries = Note "no-retries", "`retry_policy`":
        "a check is not retried: while rolegate restarts, requests get 503"
        => "retry_policy: { retry_on: \"connect-failure,refused-stream,reset,unavailable\", \
         num_retries: 2, retry_back_off: { base_interval: 0.005s, max_interval: 2s } }; and in \
         `circuit_breakers` of its cluster, `max_retries: 100000`";
    /// An Envoy without the filter ignores it.
    OptionalFilter = Unsafe "optional-filter", "remove `is_optional`":
        "an Envoy that does not have this filter leaves it out without an error: requests pass \
         without authorization"
        => "is_optional: false";
    /// A filter behind the authorization makes, or may make, another request of an allowed one
    /// (`mcp_router`).
    OtherRequest = Unsafe "other-request", "remove it, or write rules for what clients send";
    /// A route or an upgrade sends its checks elsewhere.
    OtherService = Unsafe "other-service", "remove its `grpc_service`";
    /// A long body is sent in part, so requests get 403 where it counts.
    PartialBodies = Slow "partial-bodies", "`allow_partial_message: false`":
        "a body over `max_request_bytes` is sent in part: requests whose body the decision \
         depends on are then denied"
        => "allow_partial_message: false";
    /// Only one name of a client's certificate reaches rolegate: the first URI name, else the first
    /// DNS name.
    PartialCertificate = Note "partial-certificate", "`include_peer_certificate: true`":
        "of a client's certificate rolegate gets one name only, for a policy with `certificates: \
         { from: peer }`"
        => "include_peer_certificate: true";
    /// Credentials cross a network without encryption.
    Plaintext = Unsafe "plaintext",
        "[TLS](../tls.md); accept it where a mesh or network plugin encrypts":
        "checks have passwords and tokens in them, and are sent over a network without \
         encryption: whoever can answer in rolegate's place gets these, and can allow everything"
        => "use a Unix socket or loopback, or `transport_socket` and rolegate's \
         `--tls-certificate`; accept this if a mesh or network plugin encrypts";
    /// A plugin behind the authorization may change the request.
    PluginRewrite = Note "plugin-rewrite", "look at it";
    /// A plugin chooses the cluster, perhaps as clients say.
    PluginRouting = Note "plugin-routing", "look at it":
        "a plugin chooses the cluster that gets the request, by criteria that cannot be seen \
         here, whereas the policy decides by the host in the request"
        => "write `cluster`; or accept this if no allowed request can influence the choice";
    /// Preflights have no credentials and get 401.
    RefusedPreflights = Slow "refused-preflights", "the filter `cors` before the authorization";
    /// Where rolegate sets or removes a header, the request gets 500.
    RejectedMutations = Slow "rejected-mutations",
        "remove `disallow_is_error` and what it belongs to":
        "a request gets 500 if rolegate sets or removes a header that this disallows"
        => "leave this out";
    /// The application gets another path, method, host or query than rolegate.
    RewrittenPath = Note "rewritten-path", "write the rules for what the client sends";
    /// Envoy ignores rolegate's decisions.
    ShadowMode = Unsafe "shadow-mode",
        "remove `shadow_mode`; to try a policy use \
         [`--shadow`](../policy-changes.md#try-a-policy-on-live-requests---shadow)":
        "Envoy asks rolegate and ignores its decisions: every request passes"
        => "leave this out; to try a policy, give it to rolegate with `--shadow`";
    /// The first check of a password takes longer than the timeout (the default is 200 ms).
    ShortTimeout = Slow "short-timeout", "`timeout: 2s`";
    /// A retry waits for up to one second.
    SlowRetries = Slow "slow-retries", "`retry_back_off`":
        "without `retry_back_off`, a check that fails is retried only after up to a second"
        => "retry_back_off: { base_interval: 0.005s, max_interval: 2s }";
    /// With `ext_authz` and a dynamic module in one list, large bodies over HTTP/2 may stall.
    StalledBodies = Note "stalled-bodies", "only one of them, where you can":
        "users of Envoy report that large bodies over HTTP/2 wait until a timeout where \
         `ext_authz` and a dynamic module both run"
        => "try such a request; where rolegate can be the dynamic module, leave `ext_authz` out";
    /// An error does not look like one, but like a denial.
    StatusOnError = Slow "status-on-error", "`status_on_error: { code: ServiceUnavailable }`";
    /// The body of a denial is cut off.
    TruncatedDenials = Note "truncated-denials", "raise `max_denied_response_body_bytes`":
        "Envoy cuts off a denial's body beyond this limit"
        => "leave this out";
    /// A policy of Envoy Gateway or Istio has no effect.
    UnenforcedPolicy = Unsafe "unenforced-policy", "`mergeType`, the right target, `rules`";
    /// Envoy decodes `%2F` before rolegate sees the path, which would deny it.
    UnescapedSlashes = Unsafe "unescaped-slashes",
        "`path_with_escaped_slashes_action: REJECT_REQUEST`";
    /// The application gets another path than the authorized one.
    UnmergedSlashes = Unsafe "unmerged-slashes", "`merge_slashes: true`";
    /// The application gets another path than the authorized one.
    UnnormalizedPath = Unsafe "unnormalized-path", "`normalize_path: true`";
    /// The cluster for checks, or its secret, is not in this file.
    UnseenCluster = Note "unseen-cluster", "lint a `config_dump`";
    /// Endpoints come by EDS.
    UnseenEndpoints = Note "unseen-endpoints", "lint `/config_dump?include_eds`";
    /// The filter, or its configuration (ECDS), is not in this file.
    UnseenFilter = Note "unseen-filter", "add it to the file";
    /// Envoy gets further listeners from elsewhere.
    UnseenListeners = Note "unseen-listeners", "lint a `config_dump`":
        "further listeners are not in this file: whether one of them reaches a protected \
         application without authorization cannot be seen"
        => "add them as a further document (`---`), or lint what `/config_dump` of Envoy's admin \
         page prints";
    /// Routes are not in this file.
    UnseenRoutes = Note "unseen-routes", "lint a `config_dump`":
        "the routes are not in this file: whether one leads past authorization cannot be seen"
        => "lint what `/config_dump` of Envoy's admin page prints";
    /// Headers of a response are not checked.
    UnvalidatedMutations = Unsafe "unvalidated-mutations", "`validate_mutations: true`":
        "Envoy does not check the headers of a response of rolegate"
        => "validate_mutations: true";
    /// Envoy accepts certificates of clients that nothing verifies: any client may have any name.
    UnverifiedClient = Unsafe "unverified-client",
        "`validation_context: { trusted_ca: … }`, and no `trust_chain_verification`":
        "nothing verifies the certificates of clients: with a policy that reads `certificates`, a \
         client is whoever its certificate says"
        => "validation_context: { trusted_ca: { filename: /etc/envoy/clients-ca.pem } }";
    /// TLS does not verify that rolegate answers.
    UnverifiedConnection = Unsafe "unverified-connection",
        "`trusted_ca` and `match_typed_subject_alt_names` ([TLS](../tls.md))";
    /// Requests that upgrade (WebSocket) pass a list of `filters` without authorization.
    UpgradeFilters = Unsafe "upgrade-filters", "remove the list, or add the filter to it";
}

#[cfg(test)]
mod tests {
    use document::FindingKind as _;

    use super::Kind;

    #[test]
    fn names_are_distinct_and_sorted() {
        assert!(Kind::ALL.is_sorted_by(|a, b| a.name() < b.name()));
    }
}
