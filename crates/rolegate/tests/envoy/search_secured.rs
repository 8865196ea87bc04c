//! The configuration `deploy/envoy/search-secured.yaml` through a real Envoy: TLS to the cluster,
//! which gets an account of its own in place of the caller's credentials.

#![expect(clippy::disallowed_methods, reason = "the shipped configuration is what is tested")]

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use rustls::ServerConfig;
use rustls::pki_types::PrivateKeyDer;
use serde_json::json;
use testbed::client::{Connection, Version};
use testbed::envoy::Target;
use testbed::grpc::basic;
use testbed::manifests::deploy;
use testbed::{App, Envoy, Rolegate, policies};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;

use super::ROLEGATE;

/// The account in the secret file.
const ACCOUNT: &str = "gateway:of-the-cluster";

#[tokio::test(flavor = "multi_thread")]
async fn the_cluster_gets_its_own_account_in_place_of_the_callers_credentials() {
    let folder = tempfile::tempdir().unwrap();
    let app = App::start().await.unwrap();
    let cluster = serve_tls(folder.path(), app.address).await;
    let account = secret(&basic(ACCOUNT));
    std::fs::write(folder.path().join("cluster-account.yaml"), account).unwrap();
    let policy = keeping_credentials(folder.path());
    let listen = Target::Unix(folder.path().join("rolegate.sock"));
    let more = ["--max-message-size", "12MiB"];
    let rolegate =
        Rolegate::start(Path::new(ROLEGATE), &policy, listen, folder.path(), &more).await.unwrap();
    let text = configuration(folder.path(), cluster);
    let envoy = Envoy::start_configured(folder.path(), &text, &["public"]).await.unwrap();

    let document = "{\"a\": 1}";
    let bulk = format!("{{\"index\": {{\"_index\": \"logs-2026-11\"}}}}\n{document}\n");
    // Credentials, method, path, body, status.
    let requests = [
        (Some("leo:harbour"), "GET", "/logs-2026-11/_search", "", 200),
        (Some("shipper:anchor"), "POST", "/_bulk", &*bulk, 200),
        // A document, on the route whose bodies are not buffered.
        (Some("shipper:anchor"), "PUT", "/logs-2026-11/_doc/1", document, 200),
        (Some("leo:harbour"), "GET", "/salaries/_search", "", 403),
        (Some("leo:wrong"), "GET", "/logs-2026-11/_search", "", 401),
        // The account of the cluster is none of a caller.
        (Some(ACCOUNT), "GET", "/logs-2026-11/_search", "", 401),
        (None, "GET", "/logs-2026-11/_search", "", 401),
    ];
    for version in [Version::Http1, Version::Http2] {
        for (credentials, method, path, body, status) in requests {
            let mut headers = vec![("content-type".to_owned(), "application/json".to_owned())];
            headers.extend(credentials.map(|user| ("authorization".to_owned(), basic(user))));
            let mut connection = Connection::open(envoy.address, version).await.unwrap();
            let answer = connection
                .send(method, path, "search.example.com", &headers, body.as_bytes())
                .await
                .unwrap();
            assert_eq!(answer.status, status, "{version:?} {method} {path}: {}", answer.text());
            if status == 200 {
                let echo = answer.json();
                let (user, _) = credentials.and_then(|user| user.split_once(':')).unwrap();
                // Each header with all of its lines.
                assert_eq!(echo["headers"]["authorization"], json!([basic(ACCOUNT)]), "{echo}");
                assert_eq!(echo["headers"]["x-user"], json!([user]), "{echo}");
                assert_eq!(echo["body"], body, "{echo}");
            } else {
                assert!(!answer.text().contains("of-the-cluster"), "{}", answer.text());
            }
        }
    }
    assert_eq!(app.requests(), 6);
    drop(rolegate);
}

/// A copy of the example `search` that does not remove the callers' credentials: Envoy alone
/// replaces them.
fn keeping_credentials(folder: &Path) -> PathBuf {
    let copy = folder.join("policy");
    policies::copy(&testbed::repository().join("policies/search"), &copy).unwrap();
    let file = copy.join("policy.yaml");
    let text = std::fs::read_to_string(&file).unwrap();
    let removed = "  remove_headers: [authorization]\n";
    assert!(text.contains(removed), "{text}");
    std::fs::write(&file, text.replace(removed, "")).unwrap();
    file
}

/// The file with the account, as the header of the configuration has it.
fn secret(authorization: &str) -> String {
    let header = std::fs::read_to_string(deploy("envoy/search-secured.yaml")).unwrap();
    let lines = header.lines().skip_while(|line| *line != "#   resources:");
    let lines: Vec<&str> =
        lines.take_while(|line| *line != "#").filter_map(|line| line.get(4..)).collect();
    let (text, shown) = (lines.join("\n"), "Basic dXNlcjpwYXNzd29yZA==");
    assert!(text.contains(shown), "{text}");
    text.replace(shown, authorization)
}

/// The shipped configuration with other addresses and files.
fn configuration(folder: &Path, cluster: SocketAddr) -> String {
    let mut text = std::fs::read_to_string(deploy("envoy/search-secured.yaml")).unwrap();
    let (files, port) =
        (format!("{}/", folder.display()), format!("port_value: {}", cluster.port()));
    for (from, to) in [
        (
            "static_resources:",
            "admin: { address: { socket_address: { address: 127.0.0.1, port_value: 0 } } }\nstatic_resources:",
        ),
        (
            "    - address: { socket_address: { address: 127.0.0.1, port_value: 10000 } }",
            "    - name: public\n      address: { socket_address: { address: 127.0.0.1, port_value: 0 } }",
        ),
        ("port_value: 9200", &port),
        // A busy machine needs longer.
        ("                        timeout: 2s\n", "                        timeout: 60s\n"),
        ("interval: 1s, timeout: 0.5s", "interval: 1s, timeout: 60s"),
        ("path: /run/rolegate/", &format!("path: {files}")),
        ("path: /etc/envoy/", &format!("path: {files}")),
        ("filename: /etc/envoy/", &format!("filename: {files}")),
    ] {
        assert_eq!(text.matches(from).count(), 1, "{from}");
        text = text.replace(from, to);
    }
    text
}

/// The application over TLS, with a certificate for `search.internal`. Its authority is in
/// `cluster-ca.pem`.
async fn serve_tls(folder: &Path, app: SocketAddr) -> SocketAddr {
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    // By its name it is told from the certificate.
    params.distinguished_name.push(DnType::CommonName, "authority");
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
    std::fs::write(folder.join("cluster-ca.pem"), authority.pem()).unwrap();
    let key = KeyPair::generate().unwrap();
    let params = CertificateParams::new(["search.internal".to_owned()]).unwrap();
    let certificate = params.signed_by(&key, &authority).unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap();
    let key = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
    let chain = vec![certificate.der().clone()];
    let acceptor: TlsAcceptor =
        Arc::new(config.with_no_client_auth().with_single_cert(chain, key).unwrap()).into();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let acceptor = acceptor.clone();
            tokio::spawn(async move {
                let mut outside = acceptor.accept(stream).await?;
                let mut inside = TcpStream::connect(app).await?;
                tokio::io::copy_bidirectional(&mut outside, &mut inside).await
            });
        }
    });
    address
}
