//! TLS and mutual TLS on the gRPC listener.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair, SanType};
use rustix::process::Signal;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::version::{TLS12, TLS13};
use rustls::{ClientConfig, HandshakeKind, RootCertStore, SupportedProtocolVersion};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::client::{Answer, Envoy, basic};
use crate::process::{LONG, Server, example, run, wait_until};

const SPIFFE: &str = "spiffe://example.com/ns/web/sa/envoy";

/// A folder with a certificate authority and the certificates that it has signed, in PEM.
pub(crate) struct Certificates {
    folder: TempDir,
    authority: CertifiedIssuer<'static, KeyPair>,
}

impl Certificates {
    pub(crate) fn new() -> Self {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, "the tests' authority");
        let authority = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        let this = Self { folder: tempfile::tempdir().unwrap(), authority };
        fs::write(this.path("ca.pem"), this.authority.pem()).unwrap();
        this
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn text(&self, name: &str) -> String {
        self.path(name).display().to_string()
    }

    /// Writes `NAME.pem` and `NAME.key`.
    pub(crate) fn issue(&self, name: &str, names: &[SanType]) {
        self.issue_until(2100, name, names);
    }

    /// The same, valid until this year.
    fn issue_until(&self, year: i32, name: &str, names: &[SanType]) {
        let mut params = CertificateParams::default();
        params.not_after = rcgen::date_time_ymd(year, 1, 1);
        params.subject_alt_names = names.to_vec();
        self.sign(name, params);
    }

    /// The same, with these parameters.
    fn sign(&self, name: &str, params: CertificateParams) {
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.authority).unwrap();
        fs::write(self.path(&format!("{name}.key")), key.serialize_pem()).unwrap();
        fs::write(self.path(&format!("{name}.pem")), certificate.pem()).unwrap();
    }

    /// Starts a server with its certificate for `localhost`, and these settings.
    fn serve(&self, more: &[&str]) -> Server {
        self.issue("server", &[dns("localhost")]);
        let (certificate, key) = (self.text("server.pem"), self.text("server.key"));
        let tls = ["--tls-certificate", &certificate, "--tls-key", &key];
        Server::start(&example("people"), &[&tls, more].concat())
    }

    /// A client with this certificate, which resumes its sessions.
    fn client(
        &self,
        client: Option<&str>,
        versions: &[&'static SupportedProtocolVersion],
    ) -> ClientConfig {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_file(self.path("ca.pem")).unwrap()).unwrap();
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let builder = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(versions)
            .unwrap()
            .with_root_certificates(roots);
        match client {
            None => builder.with_no_client_auth(),
            Some(name) => {
                let chain =
                    vec![CertificateDer::from_pem_file(self.path(&format!("{name}.pem"))).unwrap()];
                let key = PrivateKeyDer::from_pem_file(self.path(&format!("{name}.key"))).unwrap();
                builder.with_client_auth_cert(chain, key).unwrap()
            }
        }
    }

    /// Connects to the server, as a client with this certificate.
    async fn connect(
        &self,
        address: SocketAddr,
        client: Option<&str>,
    ) -> std::io::Result<TlsStream<TcpStream>> {
        connect(address, self.client(client, rustls::ALL_VERSIONS)).await
    }

    /// The same, as a client that speaks HTTP/1.1 only.
    pub(crate) async fn connect_http(
        &self,
        address: SocketAddr,
        client: Option<&str>,
    ) -> std::io::Result<TlsStream<TcpStream>> {
        let mut config = self.client(client, rustls::ALL_VERSIONS);
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        connect(address, config).await
    }

    /// Whether a client with this certificate gets an answer, which must be the right one.
    async fn answers(&self, address: SocketAddr, client: Option<&str>) -> bool {
        // With TLS 1.3 a client learns only by its first read that it is not accepted.
        let Ok(stream) = self.connect(address, client).await else { return false };
        let Ok(mut envoy) = tokio::spawn(Envoy::over(stream)).await else { return false };
        let answer = tokio::spawn(async move {
            envoy.check("GET", "/people", &[("authorization", &basic("alice:wonderland"))]).await
        });
        answer.await.is_ok_and(|answer| {
            assert_eq!(answer, Answer::Http(200));
            true
        })
    }
}

async fn connect(
    address: SocketAddr,
    client: ClientConfig,
) -> std::io::Result<TlsStream<TcpStream>> {
    let stream = TcpStream::connect(address).await?;
    let name = ServerName::try_from("localhost").unwrap();
    TlsConnector::from(Arc::new(client)).connect(name, stream).await
}

/// Begins HTTP/2, and returns when the server has, too.
async fn begin_http2(stream: &mut TlsStream<TcpStream>) -> std::io::Result<()> {
    stream.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0").await?;
    stream.read_exact(&mut [0; 9]).await.map(drop)
}

async fn wait_for_end(stream: &mut TlsStream<TcpStream>) {
    let mut rest = Vec::new();
    // The end may be a reset.
    let _ = tokio::time::timeout(LONG, stream.read_to_end(&mut rest)).await.unwrap();
}

pub(crate) fn dns(name: &str) -> SanType {
    SanType::DnsName(name.try_into().unwrap())
}

fn failures(server: &Server, reason: &str) -> f64 {
    server.metric(&format!("rolegate_tls_handshakes_failed_total{{reason=\"{reason}\"}}")).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn checks_are_answered_over_tls_alone() {
    let certificates = Certificates::new();
    let server = certificates.serve(&[]);
    assert!(certificates.answers(server.address(), None).await);
    // HTTP/2 without TLS.
    let plain = TcpStream::connect(server.address()).await.unwrap();
    let alice = basic("alice:wonderland");
    let answered = tokio::spawn(async move {
        Envoy::over(plain).await.check("GET", "/people", &[("authorization", &alice)]).await
    });
    assert!(answered.await.is_err(), "an answer without TLS");
    wait_until(|| failures(&server, "not_tls") == 1.0, || server.log());
    server.wait_for_log("give the cluster a `transport_socket`");
}

#[tokio::test(flavor = "multi_thread")]
async fn only_the_clients_that_are_listed_may_connect() {
    let certificates = Certificates::new();
    certificates.issue("envoy", &[SanType::URI(SPIFFE.try_into().unwrap())]);
    certificates.issue("named", &[dns("Envoy.example.com")]);
    certificates.issue("other", &[dns("other.example.com")]);
    certificates.issue("uri", &[SanType::URI("envoy.example.com".try_into().unwrap())]);
    let stranger = Certificates::new();
    stranger.issue("envoy", &[SanType::URI(SPIFFE.try_into().unwrap())]);
    for name in ["stranger.pem", "stranger.key"] {
        fs::copy(stranger.path(&name.replace("stranger", "envoy")), certificates.path(name))
            .unwrap();
    }
    let names = format!("{SPIFFE},envoy.example.com");
    let ca = certificates.text("ca.pem");
    let server = certificates.serve(&["--tls-client-ca", &ca, "--tls-client-names", &names]);
    assert!(certificates.answers(server.address(), Some("envoy")).await, "{}", server.log());
    assert!(certificates.answers(server.address(), Some("named")).await, "{}", server.log());
    assert!(!certificates.answers(server.address(), None).await);
    wait_until(|| failures(&server, "client_certificate") == 1.0, || server.log());
    assert!(!certificates.answers(server.address(), Some("stranger")).await);
    wait_until(|| failures(&server, "client_certificate") == 2.0, || server.log());
    assert!(!certificates.answers(server.address(), Some("other")).await);
    wait_until(|| failures(&server, "client_name") == 1.0, || server.log());
    assert!(!certificates.answers(server.address(), Some("uri")).await);
    wait_until(|| failures(&server, "client_name") == 2.0, || server.log());
    server.wait_for_log("no name in the client's certificate is listed");
    assert_eq!(server.metric("rolegate_checks_total{decision=\"allowed\",reason=\"\"}"), Some(2.0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_changed_certificate_is_used_and_a_broken_one_is_not() {
    let certificates = Certificates::new();
    let server = certificates.serve(&["--poll-interval", "100ms"]);
    let presented = async || {
        let stream = certificates.connect(server.address(), None).await.unwrap();
        stream.get_ref().1.peer_certificates().unwrap().first().unwrap().to_vec()
    };
    let first = presented().await;
    let expiry = || server.metric("rolegate_tls_certificate_expiry_timestamp_seconds");
    // 1 January 2100, 00:00 UTC.
    assert_eq!(expiry(), Some(4_102_444_800.0));
    let mut before = Envoy::over(certificates.connect(server.address(), None).await.unwrap()).await;

    certificates.issue_until(2033, "server", &[dns("localhost")]);
    server.wait_for_metric("rolegate_tls_reloads_total{result=\"ok\"}", 1.0);
    assert_eq!(expiry(), Some(1_988_150_400.0));
    let second = presented().await;
    assert!(first != second);
    // Open connections are not disturbed.
    let alice = basic("alice:wonderland");
    assert_eq!(
        before.check("GET", "/people", &[("authorization", &alice)]).await,
        Answer::Http(200)
    );

    fs::write(certificates.path("server.pem"), "no certificate").unwrap();
    server.wait_for_log("the last good files stay in use");
    server.signal(Signal::HUP);
    assert_eq!(presented().await, second);
    assert!(certificates.answers(server.address(), None).await);
    assert!(server.metric("rolegate_tls_reloads_total{result=\"failed\"}").unwrap() >= 1.0);
    assert_eq!(expiry(), Some(1_988_150_400.0), "that of the certificate in use");

    certificates.issue("server", &[dns("localhost")]);
    wait_until(|| server.log().matches("loaded again").count() == 2, || server.log());
    assert!(presented().await != second);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_broken_authority_of_the_clients_lets_nobody_else_in() {
    let certificates = Certificates::new();
    certificates.issue("envoy", &[SanType::URI(SPIFFE.try_into().unwrap())]);
    let authority = certificates.path("authority.pem");
    fs::copy(certificates.path("ca.pem"), &authority).unwrap();
    let named = certificates.text("authority.pem");
    let server = certificates.serve(&["--poll-interval", "100ms", "--tls-client-ca", &named]);
    let failed = || server.metric("rolegate_tls_reloads_total{result=\"failed\"}").unwrap();
    for broken in [Some("no certificate"), Some(""), None] {
        let before = failed();
        match broken {
            Some(text) => fs::write(&authority, text).unwrap(),
            None => fs::remove_file(&authority).unwrap(),
        }
        wait_until(|| failed() > before, || server.log());
        assert!(
            certificates.answers(server.address(), Some("envoy")).await,
            "{broken:?}: {}",
            server.log()
        );
        assert!(
            !certificates.answers(server.address(), None).await,
            "{broken:?}: {}",
            server.log()
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_is_verified_at_each_connection() {
    let certificates = Certificates::new();
    certificates.issue("envoy", &[dns("envoy.example.com")]);
    let server = certificates.serve(&["--tls-client-ca", &certificates.text("ca.pem")]);
    for version in [&TLS12, &TLS13] {
        let client = certificates.client(Some("envoy"), &[version]);
        for _ in 0..2 {
            let mut stream = connect(server.address(), client.clone()).await.unwrap();
            assert_eq!(
                stream.get_ref().1.handshake_kind(),
                Some(HandshakeKind::Full),
                "{version:?}"
            );
            // A ticket comes before the server's first frame.
            begin_http2(&mut stream).await.unwrap();
        }
    }
}

/// This client does not obey when it is asked to open another connection.
#[expect(clippy::disallowed_methods, reason = "a certificate has dates, and this is a test")]
#[tokio::test(flavor = "multi_thread")]
async fn a_connection_ends_with_the_certificate_of_its_client() {
    let certificates = Certificates::new();
    let server = certificates.serve(&["--tls-client-ca", &certificates.text("ca.pem")]);
    for (version, closed) in [(&TLS12, 1.0), (&TLS13, 2.0)] {
        let mut lifetime = Duration::from_secs(2);
        // On a busy machine the first certificates may expire before they are used.
        let (client, mut stream) = loop {
            let mut params = CertificateParams::default();
            params.not_after = (SystemTime::now() + lifetime).into();
            certificates.sign("envoy", params);
            let client = certificates.client(Some("envoy"), &[version]);
            if let Ok(mut stream) = connect(server.address(), client.clone()).await
                && begin_http2(&mut stream).await.is_ok()
            {
                break (client, stream);
            }
            lifetime *= 2;
            assert!(lifetime < LONG, "{}", server.log());
        };
        wait_for_end(&mut stream).await;
        wait_until(|| failures(&server, "no_longer_accepted") == closed, || server.log());
        if let Ok(mut stream) = connect(server.address(), client).await {
            assert!(begin_http2(&mut stream).await.is_err(), "{version:?}: {}", server.log());
        }
    }
    server.wait_for_log("closed an open connection");
}

#[tokio::test(flavor = "multi_thread")]
async fn changed_authorities_close_the_connections_of_their_clients() {
    let certificates = Certificates::new();
    certificates.issue("envoy", &[dns("envoy.example.com")]);
    let (old, new) = (certificates.authority.pem(), Certificates::new().authority.pem());
    let authorities = certificates.path("authorities.pem");
    fs::write(&authorities, &old).unwrap();
    let named = certificates.text("authorities.pem");
    let server = certificates.serve(&["--poll-interval", "100ms", "--tls-client-ca", &named]);
    let mut stream = certificates.connect(server.address(), Some("envoy")).await.unwrap();
    begin_http2(&mut stream).await.unwrap();
    let mut envoy =
        Envoy::over(certificates.connect(server.address(), Some("envoy")).await.unwrap()).await;

    fs::write(&authorities, format!("{old}{new}")).unwrap();
    server.wait_for_metric("rolegate_tls_reloads_total{result=\"ok\"}", 1.0);
    let alice = basic("alice:wonderland");
    assert_eq!(
        envoy.check("GET", "/people", &[("authorization", &alice)]).await,
        Answer::Http(200)
    );

    fs::write(&authorities, &new).unwrap();
    wait_for_end(&mut stream).await;
    wait_until(|| failures(&server, "no_longer_accepted") == 2.0, || server.log());
    assert_eq!(failures(&server, "client_certificate"), 0.0, "{}", server.log());
}

#[test]
fn settings_and_files_of_tls_that_cannot_be_used_fail_the_start() {
    let certificates = Certificates::new();
    certificates.issue("server", &[dns("localhost")]);
    certificates.issue("other", &[dns("localhost")]);
    let (certificate, key) = (certificates.text("server.pem"), certificates.text("server.key"));
    let (missing, ca, other) =
        (certificates.text("no.pem"), certificates.text("ca.pem"), certificates.text("other.key"));
    let empty = Path::new(&ca).with_file_name("empty.pem");
    fs::write(&empty, "").unwrap();
    let empty = empty.display().to_string();
    let says =
        |setting: &str, file: &str, why: &str| format!("`--{setting}`: cannot use `{file}`: {why}");
    for (code, more, says) in [
        (2, vec!["--tls-certificate", &certificate], "`tls-certificate` needs `tls-key`"),
        (2, vec!["--tls-key", &key], "`tls-key` needs `tls-certificate`"),
        (2, vec!["--tls-client-ca", &ca], "`tls-client-ca` needs `tls-certificate`"),
        (
            2,
            vec!["--tls-certificate", &certificate, "--tls-key", &key, "--tls-client-names", "a"],
            "`tls-client-names` needs `tls-client-ca`",
        ),
        (
            2,
            vec!["--tls-client-names", "10.0.0.1"],
            "write a DNS name, such as `envoy.example.com`, or a URI",
        ),
        (
            5,
            vec!["--tls-certificate", &missing, "--tls-key", &key],
            &*says("tls-certificate", &missing, "no such file"),
        ),
        (
            5,
            vec!["--tls-certificate", &certificate, "--tls-key", &missing],
            &*says("tls-key", &missing, "no such file"),
        ),
        (
            5,
            vec!["--tls-certificate", &empty, "--tls-key", &key],
            &*says("tls-certificate", &empty, "no certificate in PEM"),
        ),
        (
            5,
            vec!["--tls-certificate", &certificate, "--tls-key", &certificate],
            &*says("tls-key", &certificate, "no private key in PEM"),
        ),
        (
            5,
            vec!["--tls-certificate", &certificate, "--tls-key", &other],
            &*says("tls-key", &other, "the key is not that of the certificate `"),
        ),
        (
            5,
            vec!["--tls-certificate", &certificate, "--tls-key", &key, "--tls-client-ca", &key],
            &*says("tls-client-ca", &key, "no certificate in PEM"),
        ),
    ] {
        let policy = example("people");
        let serve = ["serve", "--policy", &policy, "--listen", "127.0.0.1:0", "--admin", "off"];
        let (ended, _, err) = run(&[&serve, &more[..]].concat());
        assert_eq!(ended, code, "{more:?}: {err}");
        assert!(err.contains(says), "{more:?}: {err}");
        assert!(!err.contains("PRIVATE KEY"), "{err}");
    }
}
