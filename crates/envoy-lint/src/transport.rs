//! How Envoy connects to rolegate: whether others on the network can read the checks, or answer
//! them in its place.

use std::net::IpAddr;

use document::View;

use crate::filter::{fields_of, type_of};
use crate::values::{LINT_DUMP, LINT_ENDPOINTS};
use crate::{Findings, Kind};

const PLAINTEXT: &str = "checks have passwords and tokens in them, and are sent over a network without encryption: whoever can answer \
                         in rolegate's place gets these, and can allow everything";
const ENCRYPT: &str = "use a Unix socket or loopback, or `transport_socket` and rolegate's `--tls-certificate`; accept this if a mesh or \
                       network plugin encrypts";

/// The protection of a connection from others on the network.
enum Protection<'n> {
    Nothing,
    /// The text says why anybody can answer in rolegate's place.
    Reading(View<'n>, &'static str),
    /// As far as this secret, which is not here, has what is missing.
    Unseen(View<'n>),
    All,
}

/// Reports connections to this cluster that do not protect what is sent. A control plane has
/// `endpoints` for it. `secrets` are those of all documents.
pub(crate) fn lint<'n>(
    cluster: &View<'n>,
    endpoints: &[&View<'n>],
    secrets: &[View<'n>],
    findings: &mut Findings,
) {
    let mut remote: Vec<View<'_>> =
        endpoints.iter().copied().chain([cluster]).flat_map(addresses).collect();
    remote.retain(|address| !address.text().is_some_and(is_loopback));
    let is_known = cluster.get("load_assignment").is_some() || !endpoints.is_empty();
    if is_known && remote.is_empty() {
        return;
    }
    let matches = cluster.list("transport_socket_matches");
    let mut sockets: Vec<View<'_>> =
        matches.iter().filter_map(|socket| socket.get("transport_socket")).collect();
    let default = cluster.get("transport_socket");
    // Without a default, Envoy does not encrypt for endpoints that match none of these.
    let is_unconditional = |socket: &View<'_>| {
        socket.get("match").is_none_or(|condition| condition.entries().is_empty())
    };
    let mut is_plain = default.is_none() && !matches.iter().any(is_unconditional);
    sockets.extend(default);
    for socket in &sockets {
        match protection(socket, secrets) {
            Protection::Nothing => is_plain = true,
            Protection::Reading(at, why) => {
                let message = format!(
                    "{why}: whoever can answer in rolegate's place gets passwords and tokens, and can allow everything"
                );
                let fix = "validation_context: { trusted_ca: { filename: /etc/envoy/ca.pem }, match_typed_subject_alt_names: \
                           [{ san_type: DNS, matcher: { exact: rolegate.example.com } }] }";
                findings.add(&at, Kind::UnverifiedConnection, message, fix);
            }
            Protection::Unseen(secret) => {
                let message = "this secret is not in this file: whether Envoy verifies that rolegate answers cannot be seen";
                findings.add(&secret, Kind::UnseenCluster, message, LINT_DUMP);
            }
            Protection::All => {}
        }
    }
    for address in remote.iter().filter(|_| is_plain) {
        findings.add(address, Kind::Plaintext, PLAINTEXT, ENCRYPT);
    }
    if is_plain && !is_known {
        let at = cluster.get("eds_cluster_config").unwrap_or_else(|| cluster.clone());
        let message = "the endpoints of this cluster are not in this file: whether checks are sent over \
                       a network without encryption cannot be seen";
        findings.add(&at, Kind::UnseenEndpoints, message, LINT_ENDPOINTS);
    }
}

/// Reports a connection of Google's client library that does not protect what is sent.
pub(crate) fn lint_google(google: &View<'_>, findings: &mut Findings) {
    let Some(target) = google.get("target_uri") else { return };
    let protects = ["ssl_credentials", "google_default", "local_credentials"];
    let has_credentials =
        protects.iter().any(|key| google.get(&format!("channel_credentials/{key}")).is_some());
    if !has_credentials && !target.text().is_some_and(is_local_target) {
        findings.add(&target, Kind::Plaintext, PLAINTEXT, ENCRYPT);
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
    let Some(config) = socket.get("typed_config") else { return unknown(socket) };
    let kind = type_of(&config).unwrap_or_default();
    let config = fields_of(&config);
    match kind.rsplit('.').next().unwrap_or_default() {
        // The last begins without encryption.
        "RawBuffer" | "UpstreamStartTlsConfig" => Protection::Nothing,
        "UpstreamTlsContext" => protection_of_tls(socket, &config, secrets),
        "QuicUpstreamTransport" => match config.get("upstream_tls_context") {
            Some(context) => protection_of_tls(socket, &context, secrets),
            None => unknown(socket),
        },
        // PROXY protocol, for example, is sent over another.
        _ => match config.get("transport_socket") {
            Some(inner) => protection(&inner, secrets),
            None => unknown(socket),
        },
    }
}

fn unknown<'n>(socket: &View<'n>) -> Protection<'n> {
    Protection::Reading(
        socket.clone(),
        "whether this `transport_socket` verifies that rolegate answers cannot be seen",
    )
}

fn protection_of_tls<'n>(
    socket: &View<'n>,
    tls: &View<'n>,
    secrets: &[View<'n>],
) -> Protection<'n> {
    let find = |paths: [&str; 2]| {
        paths.iter().find_map(|path| tls.get(&format!("common_tls_context/{path}")))
    };
    let secret = find([
        "validation_context_sds_secret_config",
        "combined_validation_context/validation_context_sds_secret_config",
    ]);
    let own =
        find(["validation_context", "combined_validation_context/default_validation_context"]);
    let name = secret.as_ref().and_then(|secret| secret.text_of("name"));
    let is_named = |secret: &&View<'_>| name.is_some() && secret.text_of("name") == name;
    let mut contexts: Vec<View<'_>> = secrets
        .iter()
        .filter(is_named)
        .filter_map(|secret| secret.get("validation_context"))
        .collect();
    let unseen = secret.filter(|_| contexts.is_empty());
    contexts.extend(own);
    let has =
        |keys: &[&str]| keys.iter().any(|key| contexts.iter().any(|own| !own.list(key).is_empty()));
    if let Some(at) = contexts.iter().find_map(accepts_all) {
        return Protection::Reading(at, "Envoy accepts any certificate");
    }
    if has(&["verify_certificate_spki", "verify_certificate_hash"]) {
        return Protection::All;
    }
    let has_authority = has(&[
        "trusted_ca",
        "ca_certificate_provider_instance",
        "system_root_certs",
        "custom_validator_config",
    ]);
    let has_name = has(&["match_typed_subject_alt_names", "match_subject_alt_names"])
        || tls.is_true("auto_sni_san_validation");
    match (unseen, has_authority, has_name) {
        (_, true, true) => Protection::All,
        (Some(secret), ..) => Protection::Unseen(secret),
        (None, false, _) => Protection::Reading(
            socket.clone(),
            "without `trusted_ca` Envoy accepts any certificate",
        ),
        (None, true, false) => Protection::Reading(
            socket.clone(),
            "without `match_typed_subject_alt_names` Envoy accepts any certificate of these authorities",
        ),
    }
}

/// What has Envoy accept certificates that it cannot verify.
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
