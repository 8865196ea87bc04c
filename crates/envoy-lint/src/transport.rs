//! How Envoy connects to rolegate: whether others on the network can read the checks, or answer
//! them in its place.

use std::net::IpAddr;

use document::View;

use crate::filter::{fields_of, type_of};
use crate::{Findings, Kind, LINT_DUMP, LINT_ENDPOINTS, get_or_self};

/// The protection of a connection from others on the network.
enum Protection<'n> {
    Plaintext,
    /// Encrypted, but anybody can answer in rolegate's place: the setting, and why.
    Unverified(View<'n>, &'static str),
    /// Verified if this secret, which is not in the file, says so.
    Unseen(View<'n>),
    Verified,
}

/// Reports connections to this cluster that do not protect the checks. `endpoints` are the
/// cluster's endpoints from a control plane, `secrets` are from all documents.
pub(crate) fn lint<'n>(
    cluster: &View<'n>,
    endpoints: &[View<'n>],
    secrets: &[View<'n>],
    findings: &mut Findings,
) {
    let mut remote: Vec<View<'_>> = endpoints.iter().chain([cluster]).flat_map(addresses).collect();
    remote.retain(|address| !address.text().is_some_and(is_loopback));
    let has_endpoints = cluster.get("load_assignment").is_some() || !endpoints.is_empty();
    if has_endpoints && remote.is_empty() {
        return;
    }
    let matches = cluster.list("transport_socket_matches");
    let mut sockets: Vec<View<'_>> =
        matches.iter().filter_map(|socket| socket.get("transport_socket")).collect();
    // Without a default, Envoy does not encrypt connections to endpoints without a match.
    let is_unconditional = |socket: &View<'_>| {
        socket.get("match").is_none_or(|condition| condition.entries().is_empty())
    };
    let default = cluster.get("transport_socket");
    let mut is_plain = default.is_none() && !matches.iter().any(is_unconditional);
    sockets.extend(default);
    for socket in &sockets {
        match protection(socket, secrets) {
            Protection::Plaintext => is_plain = true,
            Protection::Unverified(at, reason) => {
                let message = format!(
                    "{reason}: whoever can answer in rolegate's place gets passwords and tokens, \
                     and can allow everything"
                );
                let fix = "validation_context: { trusted_ca: { filename: /etc/envoy/ca.pem }, \
                           match_typed_subject_alt_names: [{ san_type: DNS, matcher: { exact: \
                           rolegate.example.com } }] }";
                findings.add(&at, Kind::UnverifiedConnection, message, fix);
            }
            Protection::Unseen(secret) => {
                let message = "this secret is not in this file: whether Envoy verifies that \
                               rolegate answers cannot be seen";
                findings.add(&secret, Kind::UnseenCluster, message, LINT_DUMP);
            }
            Protection::Verified => {}
        }
    }
    if is_plain {
        remote.iter().for_each(|address| findings.add_kind(address, Kind::Plaintext));
    }
    if is_plain && !has_endpoints {
        let message = "the endpoints of this cluster are not in this file: whether checks are sent \
                       over a network without encryption cannot be seen";
        let at = get_or_self(cluster, "eds_cluster_config");
        findings.add(&at, Kind::UnseenEndpoints, message, LINT_ENDPOINTS);
    }
}

/// Reports a `google_grpc` connection that does not work, or does not protect the checks.
pub(crate) fn lint_google(google: &View<'_>, findings: &mut Findings) {
    let Some(target) = google.get("target_uri") else { return };
    let text = target.text().unwrap_or_default();
    // Google's gRPC library sends the path of a Unix socket as authority, which is no host.
    let authority = google.get("channel_args/args/grpc.default_authority");
    if text.starts_with("unix:") && authority.is_none() {
        findings.add_kind(&target, Kind::GoogleGrpc);
    }
    let has_credentials = ["ssl_credentials", "google_default", "local_credentials"]
        .iter()
        .any(|key| google.get(&format!("channel_credentials/{key}")).is_some());
    if !has_credentials && !is_local_target(text) {
        findings.add_kind(&target, Kind::Plaintext);
    }
}

/// Whether a target of Google's library, such as `dns:///rolegate:9191`, is on this machine.
fn is_local_target(target: &str) -> bool {
    if target.starts_with("unix:") || target.starts_with("unix-abstract:") {
        return true;
    }
    let address = target.rsplit('/').next().unwrap_or_default();
    let address = ["dns:", "ipv4:", "ipv6:"]
        .iter()
        .find_map(|scheme| address.strip_prefix(scheme))
        .unwrap_or(address);
    let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
    is_loopback(host.trim_matches(['[', ']']))
}

fn is_loopback(host: &str) -> bool {
    host == "localhost" || host.parse::<IpAddr>().is_ok_and(|ip| ip.to_canonical().is_loopback())
}

fn protection<'n>(socket: &View<'n>, secrets: &[View<'n>]) -> Protection<'n> {
    let unknown = "whether this `transport_socket` verifies that rolegate answers cannot be seen";
    let unknown = || Protection::Unverified(socket.clone(), unknown);
    let Some(config) = socket.get("typed_config") else { return unknown() };
    let fields = fields_of(&config);
    match type_of(&config).unwrap_or_default().rsplit('.').next().unwrap_or_default() {
        // `UpstreamStartTlsConfig` begins without encryption.
        "RawBuffer" | "UpstreamStartTlsConfig" => Protection::Plaintext,
        "UpstreamTlsContext" => protection_of_tls(socket, &fields, secrets),
        "QuicUpstreamTransport" => match fields.get("upstream_tls_context") {
            Some(context) => protection_of_tls(socket, &context, secrets),
            None => unknown(),
        },
        // A wrapper, such as `ProxyProtocolUpstreamTransport`, has an inner socket.
        _ => match fields.get("transport_socket") {
            Some(inner) => protection(&inner, secrets),
            None => unknown(),
        },
    }
}

fn protection_of_tls<'n>(
    socket: &View<'n>,
    tls: &View<'n>,
    secrets: &[View<'n>],
) -> Protection<'n> {
    let (contexts, unseen) = validation_contexts(tls, secrets);
    if let Some(at) = contexts.iter().find_map(accepts_all) {
        return Protection::Unverified(at, "Envoy accepts any certificate");
    }
    if has_any(&contexts, &["verify_certificate_spki", "verify_certificate_hash"]) {
        return Protection::Verified;
    }
    let has_authority = has_any(&contexts, &AUTHORITIES);
    let names = ["match_typed_subject_alt_names", "match_subject_alt_names"];
    let has_name = has_any(&contexts, &names) || tls.is_true("auto_sni_san_validation");
    let reason = match (unseen, has_authority, has_name) {
        (_, true, true) => return Protection::Verified,
        (Some(secret), ..) => return Protection::Unseen(secret),
        (None, false, _) => "without `trusted_ca` Envoy accepts any certificate",
        (None, true, false) => {
            "without `match_typed_subject_alt_names` Envoy accepts any certificate of these \
             authorities"
        }
    };
    Protection::Unverified(socket.clone(), reason)
}

/// Fields of a validation context that say which certificates are valid.
const AUTHORITIES: [&str; 4] = [
    "trusted_ca",
    "ca_certificate_provider_instance",
    "system_root_certs",
    "custom_validator_config",
];

/// The validation contexts of a TLS context, and its secret if that is not in the file.
fn validation_contexts<'n>(
    tls: &View<'n>,
    secrets: &[View<'n>],
) -> (Vec<View<'n>>, Option<View<'n>>) {
    let find = |paths: [&str; 2]| {
        paths.iter().find_map(|path| tls.get(&format!("common_tls_context/{path}")))
    };
    let secret = find([
        "validation_context_sds_secret_config",
        "combined_validation_context/validation_context_sds_secret_config",
    ]);
    let name = secret.as_ref().and_then(|secret| secret.text_of("name"));
    let named = secrets.iter().filter(|secret| name.is_some() && secret.text_of("name") == name);
    let mut contexts: Vec<View<'_>> =
        named.filter_map(|secret| secret.get("validation_context")).collect();
    let unseen = secret.filter(|_| contexts.is_empty());
    contexts.extend(find([
        "validation_context",
        "combined_validation_context/default_validation_context",
    ]));
    (contexts, unseen)
}

/// Reports a listener's TLS context that accepts certificates of clients without verifying them.
/// Returns whether clients may have certificates.
pub(crate) fn lint_clients<'n>(
    tls: &View<'n>,
    secrets: &[View<'n>],
    findings: &mut Findings,
) -> bool {
    let (contexts, unseen) = validation_contexts(tls, secrets);
    let accepts_all = contexts.iter().find_map(accepts_all);
    let requires =
        tls.get("require_client_certificate").filter(|value| value.boolean() == Some(true));
    let verifies = [&AUTHORITIES[..], &["verify_certificate_spki", "verify_certificate_hash"]]
        .iter()
        .any(|keys| has_any(&contexts, keys));
    let unverified = accepts_all.or(requires.filter(|_| !verifies && unseen.is_none()));
    if let Some(at) = unverified {
        findings.add_kind(&at, Kind::UnverifiedClient);
        return true;
    }
    verifies || unseen.is_some()
}

/// Reports a listener filter that reads a `PROXY` line and does not require it.
pub(crate) fn lint_proxy_protocol(filter: &View<'_>, findings: &mut Findings) {
    let message = "a client that connects without a proxy may begin with a `PROXY` line, and so \
                   choose its address";
    let fix = "allow_requests_without_proxy_protocol: false; and let only the proxy connect";
    let setting = "allow_requests_without_proxy_protocol";
    let fields = fields_of(&get_or_self(filter, "typed_config"));
    findings.add_if_on(&fields, setting, Kind::ClientAddress, message, fix);
}

/// Whether any of these contexts has any of these fields.
fn has_any(contexts: &[View<'_>], keys: &[&str]) -> bool {
    contexts.iter().any(|context| keys.iter().any(|key| !context.list(key).is_empty()))
}

/// The setting that makes Envoy accept certificates that it cannot verify.
fn accepts_all<'n>(context: &View<'n>) -> Option<View<'n>> {
    let setting = context.get("trust_chain_verification")?;
    (!matches!(setting.text(), Some("VERIFY_TRUST_CHAIN" | "0"))).then_some(setting)
}

/// The host names and IP addresses of a cluster's endpoints.
fn addresses<'n>(view: &View<'n>) -> Vec<View<'n>> {
    let mut addresses = Vec::new();
    view.walk(&mut |key, value| {
        if key == "socket_address" {
            addresses.extend(value.get("address"));
        }
        !["socket_address", "upstream_bind_config"].contains(&key)
    });
    addresses
}
