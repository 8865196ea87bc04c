//! Client certificates through a real Envoy that verifies them: the cases of the example, each sent
//! by a client with a certificate of these names.

#![expect(clippy::panic, reason = "what cannot be sent is a failed test")]

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use policy::cases::{Case, Credentials};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair, SanType};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tempfile::TempDir;
use testbed::envoy::Target;
use testbed::policies::Example;
use testbed::{App, Envoy, Rolegate};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpSocket;
use tokio_rustls::TlsConnector;

/// An authority, in a folder for its files.
struct Authority {
    folder: TempDir,
    issuer: CertifiedIssuer<'static, KeyPair>,
}

impl Authority {
    fn new() -> Self {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        // Another name than its certificates have, which are not self-signed.
        params.distinguished_name.push(DnType::CommonName, "the tests' authority");
        let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        Self { folder: tempfile::tempdir().unwrap(), issuer }
    }

    /// A certificate with these names and its key, in PEM.
    fn issue(&self, names: &[String]) -> (String, String) {
        let mut params = CertificateParams::default();
        params.subject_alt_names = names.iter().map(|name| san(name)).collect();
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        (certificate.pem(), key.serialize_pem())
    }

    fn client(&self, names: Option<&[String]>) -> ClientConfig {
        let mut roots = RootCertStore::empty();
        let root = self.issuer.pem();
        roots.add(CertificateDer::from_pem_slice(root.as_bytes()).unwrap()).unwrap();
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let builder = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots);
        let Some(names) = names else { return builder.with_no_client_auth() };
        let (certificate, key) = self.issue(names);
        let chain = vec![CertificateDer::from_pem_slice(certificate.as_bytes()).unwrap()];
        let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).unwrap();
        builder.with_client_auth_cert(chain, key).unwrap()
    }
}

/// A name as a policy writes it.
fn san(name: &str) -> SanType {
    match name.strip_prefix("dns:") {
        Some(name) => SanType::DnsName(name.try_into().unwrap()),
        None => SanType::URI(name.try_into().unwrap()),
    }
}

/// rolegate with this policy, and an Envoy that asks for certificates and verifies them.
struct Running {
    envoy: Envoy,
    authority: Authority,
    _rolegate: Rolegate,
    _app: App,
}

async fn start(policy: &Path, manager: &str, filter: &str) -> Running {
    let authority = Authority::new();
    let folder = authority.folder.path();
    let (certificate, key) = authority.issue(&["dns:localhost".to_owned()]);
    for (name, text) in
        [("ca.pem", &authority.issuer.pem()), ("server.pem", &certificate), ("server.key", &key)]
    {
        std::fs::write(folder.join(name), text).unwrap();
    }
    let app = App::start().await.unwrap();
    let program = Path::new(env!("CARGO_BIN_EXE_rolegate"));
    let listen = Target::Unix(folder.join("rolegate.sock"));
    let rolegate = Rolegate::start(program, policy, listen, folder, &[]).await.unwrap();
    let (at, app_port) = (folder.display(), app.address.port());
    let text = format!(
        r#"
admin: {{ address: {{ socket_address: {{ address: 127.0.0.1, port_value: 0 }} }} }}
static_resources:
  listeners:
    - name: public
      address: {{ socket_address: {{ address: 127.0.0.1, port_value: 0 }} }}
      filter_chains:
        - transport_socket:
            name: envoy.transport_sockets.tls
            typed_config:
              "@type": type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.DownstreamTlsContext
              common_tls_context:
                tls_certificates:
                  - {{ certificate_chain: {{ filename: {at}/server.pem }}, private_key: {{ filename: {at}/server.key }} }}
                validation_context: {{ trusted_ca: {{ filename: {at}/ca.pem }} }}
          filters:
            - name: envoy.filters.network.http_connection_manager
              typed_config:
                "@type": type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager
                stat_prefix: public
                normalize_path: true
                merge_slashes: true
                {manager}
                http_filters:
                  - name: envoy.filters.http.ext_authz
                    typed_config:
                      "@type": type.googleapis.com/envoy.extensions.filters.http.ext_authz.v3.ExtAuthz
                      transport_api_version: V3
                      encode_raw_headers: true
                      {filter}
                      grpc_service: {{ timeout: 60s, envoy_grpc: {{ cluster_name: rolegate }} }}
                  - name: envoy.filters.http.router
                    typed_config:
                      "@type": type.googleapis.com/envoy.extensions.filters.http.router.v3.Router
                route_config:
                  virtual_hosts:
                    - {{ name: all, domains: ["*"], routes: [{{ match: {{ prefix: / }}, route: {{ cluster: app }} }}] }}
  clusters:
    - name: app
      load_assignment:
        cluster_name: app
        endpoints: [{{ lb_endpoints: [{{ endpoint: {{ address: {{ socket_address: {{ address: 127.0.0.1, port_value: {app_port} }} }} }} }}] }}]
    - name: rolegate
      typed_extension_protocol_options:
        envoy.extensions.upstreams.http.v3.HttpProtocolOptions:
          "@type": type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions
          explicit_http_config: {{ http2_protocol_options: {{}} }}
      load_assignment:
        cluster_name: rolegate
        endpoints: [{{ lb_endpoints: [{{ endpoint: {{ address: {{ pipe: {{ path: {at}/rolegate.sock }} }} }} }}] }}]
"#
    );
    let envoy = Envoy::start_configured(folder, &text, &["public"]).await.unwrap();
    Running { envoy, authority, _rolegate: rolegate, _app: app }
}

impl Running {
    /// The status of a request from this address, with a certificate of these names.
    async fn status(
        &self,
        from: &str,
        names: Option<&[String]>,
        (method, path): (&str, &str),
        headers: &[(String, String)],
    ) -> u16 {
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind(SocketAddr::new(from.parse().unwrap(), 0)).unwrap();
        let stream = socket.connect(self.envoy.address).await.unwrap();
        let connector = TlsConnector::from(Arc::new(self.authority.client(names)));
        let name = ServerName::try_from("localhost").unwrap();
        let mut stream = connector.connect(name, stream).await.unwrap();
        let headers = headers.iter().map(|(name, value)| format!("{name}: {value}\r\n"));
        let head = format!(
            "{method} {path} HTTP/1.1\r\nhost: localhost\r\ncontent-length: 0\r\nconnection: close\r\n{}\r\n",
            headers.collect::<String>()
        );
        stream.write_all(head.as_bytes()).await.unwrap();
        let mut answer = Vec::new();
        let end = stream.read_to_end(&mut answer).await;
        let text = String::from_utf8_lossy(&answer).into_owned();
        let status = text.split(' ').nth(1).and_then(|status| status.parse().ok());
        status.unwrap_or_else(|| {
            panic!("no answer to {method} {path}: {text} {end:?}\n{}", self.envoy.log())
        })
    }

    async fn run(&self, case: &Case) -> u16 {
        let request = &case.request;
        let mut headers = request.headers.clone();
        match &request.credentials {
            Credentials::None => {}
            Credentials::Basic(pair) => headers.push((
                "authorization".to_owned(),
                format!("Basic {}", BASE64_STANDARD.encode(pair)),
            )),
            other => panic!("{other:?}"),
        }
        let names = request.certificate.as_deref();
        self.status("127.0.0.1", names, (&request.method, &request.path), &headers).await
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_cases_of_certificates_hold_through_envoy() {
    let example = Example::named("certificates").unwrap();
    for filter in ["include_peer_certificate: true", ""] {
        let running = start(&example.file, "", filter).await;
        for case in example.cases.iter() {
            // Without the certificate only its first name arrives.
            let names = case.request.certificate.as_deref().unwrap_or_default();
            if filter.is_empty() && names.len() > 1 {
                continue;
            }
            let status = running.run(case).await;
            assert_eq!(status, case.expect.status, "{filter}: {}", case.name);
        }
    }
}

/// A header counts if the address at the other end of the connection is a trusted proxy's, whatever
/// `x-forwarded-for` says.
#[tokio::test(flavor = "multi_thread")]
async fn only_a_trusted_proxy_names_certificates_through_envoy() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("policy.yaml");
    let policy = "version: 1\nidentity:\n  certificates:\n    from: xfcc\n    trusted_proxies: [127.0.0.2]\n    \
                  users: { \"spiffe://example.org/{name}\": \"{name}\" }\nroles: { web: { allow: [GET /a] } }\n\
                  grants: { web: { users: [web] } }\n";
    std::fs::write(&file, policy).unwrap();
    let manager = "forward_client_cert_details: ALWAYS_FORWARD_ONLY";
    let running = start(&file, manager, "include_peer_certificate: true").await;
    let header = |value: &str| ("x-forwarded-client-cert".to_owned(), value.to_owned());
    let web = header("By=spiffe://example.org/proxy;Hash=1;URI=spiffe://example.org/web");
    let other = header("By=spiffe://example.org/proxy;Hash=1;URI=spiffe://example.org/other");
    let forged = ("x-forwarded-for".to_owned(), "127.0.0.2".to_owned());
    let proxy = Some(&["spiffe://example.org/web".to_owned()][..]);
    for (from, names, headers, wanted) in [
        ("127.0.0.2", None, vec![web.clone()], 200),
        ("127.0.0.2", None, vec![other.clone(), web.clone()], 200),
        ("127.0.0.2", None, vec![web.clone(), other], 403),
        ("127.0.0.2", None, vec![], 401),
        ("127.0.0.2", proxy, vec![], 401),
        ("127.0.0.2", None, vec![header("URI=\"")], 400),
        ("127.0.0.3", None, vec![web.clone()], 401),
        ("127.0.0.3", None, vec![web, forged], 401),
        ("127.0.0.3", None, vec![header("URI=\"")], 401),
    ] {
        let status = running.status(from, names, ("GET", "/a"), &headers).await;
        assert_eq!(status, wanted, "{from} {headers:?}");
    }
}

/// With `combine: both`, a request may do what the user and the application may both do.
#[tokio::test(flavor = "multi_thread")]
async fn user_and_application_are_needed_together_through_envoy() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("policy.yaml");
    let policy = r#"version: 1
identity:
  combine: both
  basic: { users: { alice: { password: "{SHA}W6ph5Mm5Pz8GgiULbPgzG37mj9g=" } } }
  certificates: { from: peer, users: { "spiffe://example.org/{name}": "{name}" }, user_prefix: "app:" }
roles:
  reader: { allow: [GET /orders] }
  buyer: { allow: [POST /orders] }
grants:
  reader: { users: [alice, "app:web", "app:batch"] }
  buyer: { users: [alice, "app:web"] }
"#;
    std::fs::write(&file, policy).unwrap();
    let running = start(&file, "", "include_peer_certificate: true").await;
    let basic = |pair: &str| {
        vec![("authorization".to_owned(), format!("Basic {}", BASE64_STANDARD.encode(pair)))]
    };
    let (web, batch) = ("spiffe://example.org/web", "spiffe://example.org/batch");
    for (application, headers, method, wanted) in [
        (Some(web), basic("alice:password"), "GET", 200),
        (Some(web), basic("alice:password"), "POST", 200),
        (Some(batch), basic("alice:password"), "GET", 200),
        (Some(batch), basic("alice:password"), "POST", 403),
        (Some(web), basic("alice:wrong"), "GET", 401),
        (Some("spiffe://other.org/web"), basic("alice:password"), "GET", 401),
        (Some(web), vec![], "GET", 401),
        (None, basic("alice:password"), "GET", 401),
    ] {
        let names = application.map(|name| [name.to_owned()]);
        let names = names.as_ref().map(|names| &names[..]);
        let status = running.status("127.0.0.1", names, (method, "/orders"), &headers).await;
        assert_eq!(status, wanted, "{application:?} {method} {}", headers.len());
    }
}
