//! The configuration `deploy/envoy/minimal.yaml` through a real Envoy: as it ships, and with the
//! mistakes that are easily made in it. Each mistake denies every request, and the log of rolegate
//! says what to change.

#![expect(clippy::disallowed_methods, reason = "the shipped configuration is what is tested")]

use std::path::Path;
use std::time::{Duration, Instant};

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use tempfile::TempDir;
use testbed::client::{Connection, Version};
use testbed::envoy::Target;
use testbed::manifests::deploy;
use testbed::policies::Example;
use testbed::rolegate::ANY_PORT;
use testbed::{App, Envoy, Rolegate};

use super::{ALICE, PATIENT, authorization};

/// The application, Envoy and rolegate.
pub(super) struct Running {
    pub(super) envoy: Envoy,
    pub(super) rolegate: Rolegate,
    pub(super) app: App,
    /// The configuration.
    pub(super) text: String,
    _folder: TempDir,
}

/// Starts all with the shipped configuration, in which these texts are replaced by others.
pub(super) async fn start(listen: impl Fn(&Path) -> Target, replaced: &[(&str, &str)]) -> Running {
    start_with(tempfile::tempdir().unwrap(), listen, &[], replaced).await
}

/// As [`start`], with files in this folder, and with more arguments of rolegate.
pub(super) async fn start_with(
    folder: TempDir,
    listen: impl Fn(&Path) -> Target,
    more: &[&str],
    replaced: &[(&str, &str)],
) -> Running {
    let policy = Example::named("people").unwrap().file;
    start_policy(folder, &policy, listen, more, replaced).await
}

/// As [`start_with`], with this policy.
pub(super) async fn start_policy(
    folder: TempDir,
    policy: &Path,
    listen: impl Fn(&Path) -> Target,
    more: &[&str],
    replaced: &[(&str, &str)],
) -> Running {
    let app = App::start().await.unwrap();
    let (program, listen) = (Path::new(env!("CARGO_BIN_EXE_rolegate")), listen(folder.path()));
    let rolegate = Rolegate::start(program, policy, listen, folder.path(), more).await.unwrap();
    let address = match &rolegate.listen {
        Target::Unix(path) => format!("pipe: {{ path: {} }}", path.display()),
        Target::Tcp(at) => {
            format!("socket_address: {{ address: {}, port_value: {} }}", at.ip(), at.port())
        }
    };
    let application = format!("port_value: {}", app.address.port());
    let mut text = std::fs::read_to_string(deploy("envoy/minimal.yaml")).unwrap();
    for (from, to) in [
        ("static_resources:", "admin: { address: { socket_address: { address: 127.0.0.1, port_value: 0 } } }\nstatic_resources:"),
        ("    - address: { socket_address: { address: 127.0.0.1, port_value: 10000 } }", "    - name: public\n      address: { socket_address: { address: 127.0.0.1, port_value: 0 } }"),
        ("port_value: 8080", &application),
        // A busy machine needs longer. More than 10 s is a finding of `lint-envoy`.
        ("                        timeout: 2s\n", "                        timeout: 10s\n"),
        ("interval: 1s, timeout: 0.5s", "interval: 1s, timeout: 10s"),
        ("pipe: { path: /run/rolegate/rolegate.sock }", &address),
    ]
    .iter()
    .chain(replaced)
    {
        assert_eq!(text.matches(from).count(), 1, "{from}");
        text = text.replace(from, to);
    }
    let has_listener = |name: &&str| text.contains(&format!("    - name: {name}\n      address:"));
    let listeners: Vec<&str> = ["public", "internal"].into_iter().filter(has_listener).collect();
    let envoy = Envoy::start_configured(folder.path(), &text, &listeners).await.unwrap();
    Running { envoy, rolegate, app, text, _folder: folder }
}

impl Running {
    async fn get(&self, path: &str) -> u16 {
        let mut connection = Connection::open(self.envoy.address, Version::Http1).await.unwrap();
        connection.send("GET", path, "localhost", &authorization(ALICE), b"").await.unwrap().status
    }

    /// A request that the policy allows gets this status, and rolegate logs the protocol and what
    /// to change.
    async fn refuses(&self, status: u16, protocol: &str, advice: &str) {
        assert_eq!(self.get("/people").await, status);
        assert_eq!(self.app.requests(), 0);
        let wanted = format!("\"protocol\":\"{protocol}\"");
        eventually(&wanted, || self.rolegate.log()).await;
        assert!(self.rolegate.log().contains(advice), "{}", self.rolegate.log());
        let detail = if status == 503 { "ext_authz_error" } else { "ext_authz_denied" };
        eventually(detail, || self.envoy.log()).await;
    }
}

pub(super) async fn eventually(wanted: &str, log: impl Fn() -> String) {
    let until = Instant::now() + PATIENT;
    while !log().contains(wanted) {
        assert!(Instant::now() < until, "no `{wanted}` in\n{}", log());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

pub(super) fn unix(folder: &Path) -> Target {
    Target::Unix(folder.join("rolegate.sock"))
}

pub(super) fn tcp(_: &Path) -> Target {
    Target::Tcp(ANY_PORT)
}

pub(super) const HTTP2: &str = "explicit_http_config: { http2_protocol_options: {} }";

#[tokio::test(flavor = "multi_thread")]
async fn the_minimal_configuration_authorizes_and_its_access_log_says_why() {
    let running = start(unix, &[]).await;
    assert_eq!((running.get("/people").await, running.get("/secret").await), (200, 403));
    assert_eq!(running.app.requests(), 1);
    eventually("GET /people 200 via_upstream", || running.envoy.log()).await;
    eventually(" - \"guest: GET /people\"\n", || running.envoy.log()).await;
    eventually("GET /secret 403 ext_authz_denied UAEX", || running.envoy.log()).await;
    eventually(" not_allowed \"-\"\n", || running.envoy.log()).await;
    assert!(!running.rolegate.log().contains("\"protocol\""), "{}", running.rolegate.log());
}

/// Envoy passes `Connection` on where a request switches protocols, and the next server removes
/// what it names.
#[tokio::test(flavor = "multi_thread")]
async fn an_upgrade_cannot_have_the_identity_removed() {
    let running = start(unix, &[]).await;
    let [alice] = authorization(ALICE);
    for (connection, status, requests) in [("upgrade, X-User", 400, 0), ("upgrade", 200, 1)] {
        let headers = [("connection", connection), ("upgrade", "websocket")];
        let headers = headers.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let headers = [alice.clone()].into_iter().chain(headers).collect::<Vec<_>>();
        let mut client = Connection::open(running.envoy.address, Version::Http1).await.unwrap();
        let answer = client.send("GET", "/people", "localhost", &headers, b"").await.unwrap();
        assert_eq!((answer.status, running.app.requests()), (status, requests), "{connection}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_without_http2_is_told_so() {
    let http1 = (HTTP2, "explicit_http_config: { http_protocol_options: {} }");
    // Envoy does not start with the health check of gRPC on such a cluster.
    let checks = (
        "health_checks:\n        - { grpc_health_check: {}",
        "health_checks:\n        - { tcp_health_check: {}",
    );
    let running = start(tcp, &[http1, checks]).await;
    running.refuses(503, "http1", "http2_protocol_options").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_with_tls_is_told_so() {
    let tls = format!(
        "{HTTP2}\n      transport_socket:\n        name: tls\n        typed_config:\n          \"@type\": \
         type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.UpstreamTlsContext"
    );
    start(unix, &[(HTTP2, &tls)]).await.refuses(503, "tls", "transport_socket").await;
}

/// To Envoy, the status with which rolegate answers is then the denial.
#[tokio::test(flavor = "multi_thread")]
async fn a_filter_that_asks_over_plain_http_is_told_so() {
    let grpc = "grpc_service:
                        # Checks have no side effects: they are repeated while rolegate restarts.
                        retry_policy:
                          retry_on: connect-failure,refused-stream,reset,unavailable
                          num_retries: 2
                          retry_back_off: { base_interval: 0.005s, max_interval: 2s }
                        # The default of 200 ms is too short for the first check of a password, which computes a hash.
                        timeout: 10s
                        envoy_grpc: { cluster_name: rolegate }";
    let http = "http_service: { server_uri: { uri: rolegate, cluster: rolegate, timeout: 2s } }";
    start(tcp, &[(grpc, http)]).await.refuses(405, "not_grpc", "grpc_service").await;
}

/// The lines that `docs/tls.md` adds to the cluster.
fn transport_socket() -> &'static str {
    let page = include_str!("../../../../docs/tls.md");
    page.split_once("add to the cluster `rolegate`:\n\n```yaml\n")
        .unwrap()
        .1
        .split_once("```")
        .unwrap()
        .0
}

#[tokio::test(flavor = "multi_thread")]
async fn envoy_and_rolegate_prove_who_they_are() {
    for (client, status) in [("envoy.example.com", 200), ("other.example.com", 503)] {
        let folder = tempfile::tempdir().unwrap();
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, "the tests' authority");
        let authority = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        let path = |name: &str| folder.path().join(name).display().to_string();
        std::fs::write(path("ca.pem"), authority.pem()).unwrap();
        for (file, name) in [("server", "rolegate.example.com"), ("envoy", client)] {
            let key = KeyPair::generate().unwrap();
            let params = CertificateParams::new([name.to_owned()]).unwrap();
            let certificate = params.signed_by(&key, &authority).unwrap();
            std::fs::write(path(&format!("{file}.pem")), certificate.pem()).unwrap();
            std::fs::write(path(&format!("{file}.key")), key.serialize_pem()).unwrap();
        }
        let socket = transport_socket().replace("/etc/envoy/", &path(""));
        let (ca, certificate, key) = (path("ca.pem"), path("server.pem"), path("server.key"));
        let more = ["--tls-certificate", &certificate, "--tls-key", &key, "--tls-client-ca", &ca];
        let more = [&more[..], &["--tls-client-names", "envoy.example.com"]].concat();
        let cluster = format!("{HTTP2}\n{socket}");
        let running = start_with(folder, tcp, &more, &[(HTTP2, &cluster)]).await;
        assert_eq!(running.get("/people").await, status, "{}", running.rolegate.log());
        let has_failed = || running.rolegate.log().contains("\"failure\":\"client_name\"");
        // The line may come after Envoy's answer.
        for _ in 0..1_000 {
            if status == 200 || has_failed() {
                break;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        assert_eq!(has_failed(), status == 503, "{}", running.rolegate.log());
    }
}
