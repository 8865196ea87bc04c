//! Whether the connection to rolegate protects what is sent, in each form.
#![expect(clippy::panic, reason = "the problems are the message of the failed test")]

use std::path::Path;

use envoy_lint::{Kind, lint};

const GOOD: &str = include_str!("good.yaml");
const REMOTE: &str = "rolegate.example.com";
const NAMES: &str =
    "match_typed_subject_alt_names: [{ san_type: DNS, matcher: { exact: rolegate.example.com } }]";
const AUTHORITY: &str = "trusted_ca: { filename: ca.pem }";

/// What is found about the connection if the cluster has this beside its endpoint at this address.
fn kinds(address: &str, cluster: &str) -> Vec<Kind> {
    let text = GOOD
        .replace("127.0.0.1", address)
        .replace("- name: rolegate\n", &format!("- name: rolegate\n{cluster}\n"));
    found(&text)
}

fn found(text: &str) -> Vec<Kind> {
    let findings = lint(Path::new("envoy.yaml"), text.as_bytes(), &[]);
    let findings = findings.unwrap_or_else(|problems| panic!("{problems:?}\n{text}"));
    let mut kinds: Vec<Kind> = findings.iter().map(|finding| finding.kind).collect();
    kinds.dedup();
    kinds
}

fn socket(config: &str) -> String {
    format!(
        "{{ name: a, typed_config: {{ \"@type\": type.googleapis.com/envoy.extensions.transport_sockets.{config} }} }}"
    )
}

fn tls(common: &str) -> String {
    socket(&format!("tls.v3.UpstreamTlsContext, common_tls_context: {{ {common} }}"))
}

fn in_cluster(socket: &str) -> String {
    format!("      transport_socket: {socket}")
}

#[test]
fn a_connection_over_a_network_is_verified_and_encrypted() {
    let verified = format!("validation_context: {{ {AUTHORITY}, {NAMES} }}");
    let pinned = "validation_context: { verify_certificate_spki: [a] }";
    let no_names = format!("validation_context: {{ {AUTHORITY} }}");
    let any = format!(
        "validation_context: {{ {AUTHORITY}, {NAMES}, trust_chain_verification: ACCEPT_UNTRUSTED }}"
    );
    let proxied = |inner: &str| {
        socket(&format!(
            "proxy_protocol.v3.ProxyProtocolUpstreamTransport, transport_socket: {inner}"
        ))
    };
    let quic = "quic.v3.QuicUpstreamTransport, upstream_tls_context: { common_tls_context: {} }";
    let by_sni = format!(
        "tls.v3.UpstreamTlsContext, sni: a, auto_sni_san_validation: true, common_tls_context: {{ {no_names} }}"
    );
    for (socket, expected) in [
        (tls(&verified), None),
        (tls(pinned), None),
        (socket(&by_sni), None),
        (proxied(&tls(&verified)), None),
        (tls(""), Some(Kind::UnverifiedConnection)),
        (tls(&no_names), Some(Kind::UnverifiedConnection)),
        (tls(&format!("validation_context: {{ {NAMES} }}")), Some(Kind::UnverifiedConnection)),
        (tls(&any), Some(Kind::UnverifiedConnection)),
        (proxied(&tls("")), Some(Kind::UnverifiedConnection)),
        (socket(quic), Some(Kind::UnverifiedConnection)),
        (socket("new.v3.Socket"), Some(Kind::UnverifiedConnection)),
        (socket("raw_buffer.v3.RawBuffer"), Some(Kind::Plaintext)),
        (proxied(&socket("raw_buffer.v3.RawBuffer")), Some(Kind::Plaintext)),
        (socket("starttls.v3.UpstreamStartTlsConfig"), Some(Kind::Plaintext)),
    ] {
        assert_eq!(kinds(REMOTE, &in_cluster(&socket)), Vec::from_iter(expected), "{socket}");
        assert_eq!(kinds("::1", &in_cluster(&socket)), [], "{socket}");
    }
    let by_endpoint = format!(
        "      transport_socket_matches: [{{ name: a, match: {{}}, transport_socket: {} }}]",
        tls("")
    );
    assert_eq!(kinds(REMOTE, &by_endpoint), [Kind::UnverifiedConnection]);
    let encrypted = tls(&format!("validation_context: {{ {AUTHORITY}, {NAMES} }}"));
    for (condition, expected) in [("{}", None), ("{ tls: on }", Some(Kind::Plaintext))] {
        let matches = format!("[{{ name: a, match: {condition}, transport_socket: {encrypted} }}]");
        let found = kinds(REMOTE, &format!("      transport_socket_matches: {matches}"));
        assert_eq!(found, Vec::from_iter(expected), "{condition}");
    }
    let wrapped = "      transport_socket: { name: a, typed_config: { \"@type\": x/xds.type.v3.TypedStruct, type_url: \
                   x/envoy.extensions.transport_sockets.tls.v3.UpstreamTlsContext, value: { common_tls_context: {} } } }";
    assert_eq!(kinds(REMOTE, wrapped), [Kind::UnverifiedConnection]);
}

#[test]
fn what_a_secret_says_counts_where_it_is_here() {
    let secret =
        |context: &str| format!("  secrets: [{{ name: ca, validation_context: {{ {context} }} }}]");
    let by_secret = "validation_context_sds_secret_config: { name: ca }";
    let combined = format!(
        "combined_validation_context: {{ default_validation_context: {{ {NAMES} }}, {by_secret} }}"
    );
    let both = format!("{AUTHORITY}, {NAMES}");
    for (common, context, expected) in [
        (by_secret, both.as_str(), None),
        (by_secret, AUTHORITY, Some(Kind::UnverifiedConnection)),
        (&combined, AUTHORITY, None),
    ] {
        let cluster = in_cluster(&tls(common));
        let text = |secrets: &str| {
            let text = GOOD
                .replace("127.0.0.1", REMOTE)
                .replace("  clusters:\n", &format!("{secrets}\n  clusters:\n"));
            text.replace("- name: rolegate\n", &format!("- name: rolegate\n{cluster}\n"))
        };
        assert_eq!(found(&text(&secret(context))), Vec::from_iter(expected), "{common} {context}");
        assert_eq!(found(&text("")), [Kind::UnseenCluster], "{common}");
    }
}

#[test]
fn googles_client_needs_credentials_over_a_network() {
    let authority =
        "channel_args: { args: { grpc.default_authority: { string_value: localhost } } }";
    for (target, credentials, is_safe) in [
        ("rolegate.example.com:9191", "", false),
        ("dns:///10.0.0.1:9191", "channel_credentials: {}, ", false),
        (
            "dns:///rolegate.example.com:9191",
            "channel_credentials: { ssl_credentials: {} }, ",
            true,
        ),
        ("unix:/run/rolegate.sock", "", true),
        ("dns:///localhost:9191", "", true),
        ("ipv6:[::1]:9191", "", true),
        ("127.0.0.1:9191", "", true),
    ] {
        let google =
            format!("google_grpc: {{ target_uri: \"{target}\", {credentials}{authority} }}");
        let kinds = found(&GOOD.replace("envoy_grpc: { cluster_name: rolegate }", &google));
        assert_eq!(kinds.contains(&Kind::Plaintext), !is_safe, "{target} {kinds:?}");
    }
}

/// The endpoints of a control plane are on another page of `/config_dump`, or unknown.
#[test]
fn endpoints_of_a_control_plane_count_where_they_are_here() {
    let (before, _) = GOOD.split_once("      load_assignment:").unwrap_or_default();
    let endpoints = |address: &str| {
        format!(
            "\n---\n\"@type\": type.googleapis.com/envoy.config.endpoint.v3.ClusterLoadAssignment\ncluster_name: checks\n\
             endpoints: [{{ lb_endpoints: [{{ endpoint: {{ address: {{ socket_address: {{ address: {address}, \
             port_value: 1 }} }} }} }}] }}]\n"
        )
    };
    for (endpoints, socket, expected) in [
        (endpoints("127.0.0.1"), None, None),
        (endpoints("10.0.0.1"), None, Some(Kind::Plaintext)),
        (String::new(), None, Some(Kind::UnseenEndpoints)),
        (String::new(), Some(tls("validation_context: { verify_certificate_spki: [a] }")), None),
    ] {
        let socket = socket.map(|socket| in_cluster(&socket)).unwrap_or_default();
        let eds = format!("      eds_cluster_config: {{ service_name: checks }}\n{socket}\n");
        let text = format!("{before}{eds}{endpoints}");
        assert_eq!(found(&text), Vec::from_iter(expected), "{text}");
    }
}
