//! OpenID Connect discovery and private certificate authorities, with issuers that speak TLS on the
//! loopback interface.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::sync::{Arc, Mutex};

use rcgen::{
    BasicConstraints, Certificate, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair,
};
use rustls::pki_types::PrivateKeyDer;
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use serde_json::json;
use testbed::tokens::Signer;

use crate::client::{Answer, Envoy};
use crate::keys::{check, key_set, ok};
use crate::process::{PolicyFolder, Server, rolegate, run};

/// A private certificate authority.
pub(crate) struct Authority(CertifiedIssuer<'static, KeyPair>);

impl Authority {
    pub(crate) fn new(name: &str) -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        Self(CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap())
    }

    pub(crate) fn pem(&self) -> String {
        self.0.pem()
    }

    /// The TLS settings of a server on the loopback address, with a certificate of this authority.
    pub(crate) fn server(&self) -> ServerConfig {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap();
        server_with(&params.signed_by(&key, &self.0).unwrap(), &key)
    }
}

fn server_with(certificate: &Certificate, key: &KeyPair) -> ServerConfig {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap();
    let key = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
    config.with_no_client_auth().with_single_cert(vec![certificate.der().clone()], key).unwrap()
}

/// An issuer with a discovery document and a key set, over TLS.
struct Issuer {
    at: SocketAddr,
    /// The discovery document; the key set is at `/keys` below the issuer.
    document: Arc<Mutex<String>>,
}

impl Issuer {
    fn start(authority: &Authority, keys: &str) -> Self {
        Self::with(authority.server(), keys)
    }

    fn with(config: ServerConfig, keys: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let at = listener.local_addr().unwrap();
        let document = Arc::new(Mutex::new(String::new()));
        let issuer = Self { at, document: document.clone() };
        issuer.document(
            &json!({ "issuer": issuer.name(), "jwks_uri": format!("{}/keys", issuer.name()) })
                .to_string(),
        );
        let (config, keys) = (Arc::new(config), ok(keys));
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let Ok(stream) = stream else { continue };
                let mut stream =
                    StreamOwned::new(ServerConnection::new(config.clone()).unwrap(), stream);
                let mut request = [0; 4096];
                // Fails if the client does not trust the certificate.
                let Ok(size) = stream.read(&mut request) else { continue };
                let discovers =
                    request[..size].starts_with(b"GET /realm/.well-known/openid-configuration ");
                let answer = if discovers { ok(&document.lock().unwrap()) } else { keys.clone() };
                let _ = stream.write_all(answer.as_bytes());
                stream.conn.send_close_notify();
                let _ = stream.flush();
            }
        });
        issuer
    }

    fn name(&self) -> String {
        format!("https://{}/realm", self.at)
    }

    fn document(&self, document: &str) {
        *self.document.lock().unwrap() = document.to_owned();
    }

    /// A policy for this issuer with these `keys`, and this file of certificate authorities.
    fn policy(&self, keys: &str, authorities: &str) -> PolicyFolder {
        let folder = PolicyFolder::new(&format!(
            "version: 1\nidentity:\n  jwt:\n    - issuer: {}\n      audiences: [a]\n      keys: {keys}\nroles:\n  \
             authenticated: {{ allow: [\"GET /\"] }}\n  anyone: {{ allow: [\"GET /open\"] }}\n",
            self.name()
        ));
        folder.write("ca.pem", authorities);
        folder
    }

    #[expect(clippy::disallowed_methods, reason = "a token has a time, and this is a test")]
    fn token(&self, signer: &Signer) -> String {
        let now =
            std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs();
        let claims = json!({ "iss": self.name(), "aud": "a", "sub": "carol", "exp": now + 3600 });
        format!("Bearer {}", signer.sign(&json!({ "alg": "ES256", "kid": "k" }), &claims))
    }
}

const DISCOVERY: &str = "{ discovery: true, ca_file: ca.pem }";

#[tokio::test]
async fn keys_are_discovered_over_a_private_authority() {
    let (signer, authority) = (Signer::default(), Authority::new("a"));
    let issuer = Issuer::start(&authority, &key_set(&signer, "k"));
    let (token, by_url) =
        (issuer.token(&signer), format!("{{ url: \"{}/keys\", ca_file: ca.pem }}", issuer.name()));
    for keys in [DISCOVERY, &by_url] {
        let folder = issuer.policy(keys, &authority.pem());
        let server = Server::start(&folder.arg(), &[]);
        let mut envoy = Envoy::connect(server.address()).await;
        assert_eq!(check(&mut envoy, &token).await, Answer::Http(200), "{}", server.log());
        let bearer = token.strip_prefix("Bearer ").unwrap();
        let (code, out, err) =
            run(&["explain", "--policy", &folder.arg(), "--bearer", bearer, "GET", "/"]);
        assert_eq!(code, 0, "{out}{err}");
        folder.write(
            "cases.yaml",
            &format!("- {{ name: a, request: {{ path: /, bearer: {bearer} }}, expect: 200 }}\n"),
        );
        let (code, out, err) = run(&["test", &folder.arg()]);
        assert_eq!(code, 0, "{out}{err}");
        let (code, out, err) = run(&["check", &folder.arg()]);
        assert_eq!(code, 0, "{out}{err}");
    }
}

/// Only the authority of `ca_file` is trusted, even if the system trusts another that has issued
/// the certificate.
#[tokio::test]
async fn a_private_authority_is_trusted_instead_of_those_of_the_system() {
    let (signer, authority) = (Signer::default(), Authority::new("a"));
    // One has the same name as the right one.
    let (other, namesake) = (Authority::new("b"), Authority::new("a"));
    let issuer = Issuer::start(&authority, &key_set(&signer, "k"));
    let token = issuer.token(&signer);
    let start = |keys: &str, authorities: &str| {
        let folder = issuer.policy(keys, authorities);
        folder.write("system.pem", &authority.pem());
        let mut command = rolegate(&[
            "serve",
            "--policy",
            &folder.arg(),
            "--listen",
            "127.0.0.1:0",
            "--admin",
            "127.0.0.1:0",
            "--keys-wait",
            "2s",
        ]);
        command.env("SSL_CERT_FILE", folder.path().join("system.pem"));
        let server = Server::spawn(command);
        server.wait_for_log("listening");
        (server, folder)
    };
    let (server, _folder) = start("{ discovery: true }", "");
    let mut envoy = Envoy::connect(server.address()).await;
    assert_eq!(check(&mut envoy, &token).await, Answer::Http(200), "{}", server.log());
    for wrong in [other, namesake] {
        let (server, folder) = start(DISCOVERY, &wrong.pem());
        server.wait_for_log(
            "its certificate was not issued by an authority in the file that is configured for it: name the authority itself \
             there, and let the server send all certificates between that and its own",
        );
        let mut envoy = Envoy::connect(server.address()).await;
        assert_eq!(check(&mut envoy, &token).await, Answer::Http(401));
        // The file is watched like the others.
        folder.write("ca.pem", &[wrong.pem(), authority.pem()].concat());
        server.wait_for_log("keys changed");
        server.wait_for_log("policy active with other keys");
        assert_eq!(check(&mut envoy, &token).await, Answer::Http(200), "{}", server.log());
    }
}

/// `openssl req -x509` makes an authority, unless it is told otherwise. Other clients accept it as
/// that of a server.
#[test]
fn a_self_signed_certificate_of_an_authority_is_named_as_such() {
    let (signer, key) = (Signer::default(), KeyPair::generate().unwrap());
    for (is_ca, logged) in [
        (
            IsCa::Ca(BasicConstraints::Unconstrained),
            "its certificate is an authority's, which no server may use",
        ),
        (IsCa::ExplicitNoCa, "keys changed"),
    ] {
        let mut params = CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap();
        params.is_ca = is_ca;
        let certificate = params.self_signed(&key).unwrap();
        let issuer = Issuer::with(server_with(&certificate, &key), &key_set(&signer, "k"));
        let server = Server::start(
            &issuer.policy(DISCOVERY, &certificate.pem()).arg(),
            &["--keys-wait", "10ms"],
        );
        server.wait_for_log(logged);
    }
}

/// OpenID Connect Discovery 1.0, 4.3: the `issuer` in the document must be exactly that of the
/// policy.
#[tokio::test]
async fn a_discovery_document_that_is_not_right_gives_no_keys() {
    let (signer, authority) = (Signer::default(), Authority::new("a"));
    let issuer = Issuer::start(&authority, &key_set(&signer, "k"));
    let keys = format!("{}/keys", issuer.name());
    let name = issuer.name();
    for (document, logged) in [
        (
            json!({ "issuer": format!("{name}/"), "jwks_uri": keys }).to_string(),
            format!("its `issuer` is `{name}/`, not `{name}`"),
        ),
        (json!({ "issuer": name }).to_string(), "it has no `jwks_uri`".to_owned()),
        (
            json!({ "issuer": name, "jwks_uri": format!("http://{}/keys", issuer.at) }).to_string(),
            "`http`, while the document is at `https`".to_owned(),
        ),
        (
            json!({ "issuer": name, "jwks_uri": "https://127.0.0.1:1/keys?s3cret-s3cret" })
                .to_string(),
            "discovery: `https://127.0.0.1:1/keys`: ".to_owned(),
        ),
        (
            "<html>".to_owned(),
            "not a discovery document: not JSON (begins with `<html>`)".to_owned(),
        ),
        (" ".repeat((1 << 20) + 1), "the answer is larger than 1 MiB".to_owned()),
    ] {
        issuer.document(&document);
        let folder = issuer.policy(DISCOVERY, &authority.pem());
        let server = Server::start(&folder.arg(), &["--keys-wait", "10ms"]);
        server.wait_for_log(&logged);
        assert!(!server.log().contains("s3cret"), "{}", server.log());
        let mut envoy = Envoy::connect(server.address()).await;
        assert_eq!(check(&mut envoy, &issuer.token(&signer)).await, Answer::Http(401));
    }
}

/// The document may be right, and the policy names only it.
#[test]
fn a_key_set_that_cannot_be_used_is_named_and_not_the_document_that_leads_to_it() {
    let (signer, authority) = (Signer::default(), Authority::new("a"));
    for (keys, fault) in [
        ("<html>", "not JSON (begins with `<html>`)"),
        ("{\"keys\":[]}", "no key that can verify tokens"),
        (
            "{\"keys\":[{\"kty\":\"oct\",\"kid\":\"k\"}]}",
            "no key that can verify tokens: key 1 (`k`): ",
        ),
    ] {
        let issuer = Issuer::start(&authority, keys);
        let folder = issuer.policy(DISCOVERY, &authority.pem());
        let named = format!("discovery: `{}/keys`: {fault}", issuer.name());
        let server = Server::start(&folder.arg(), &["--keys-wait", "10ms"]);
        server.wait_for_log(&named);
        let token = issuer.token(&signer);
        let arguments =
            ["explain", "--policy", &folder.arg(), "--bearer", token.trim_start_matches("Bearer ")];
        let (code, out, err) = run(&[&arguments[..], &["GET", "/"]].concat());
        assert!(
            code == 1 && out.contains("keys_unavailable") && err.contains(&named),
            "{out}{err}"
        );
    }
}

/// The document and the key set share one deadline.
#[test]
fn a_silent_issuer_holds_up_explain_for_ten_seconds_at_most() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let folder = PolicyFolder::new(&format!(
        "version: 1\nidentity:\n  jwt:\n    - {{ issuer: \"https://{}\", audiences: [a], keys: {{ discovery: true }} }}\n",
        listener.local_addr().unwrap()
    ));
    let (code, out, err) =
        run(&["explain", "--policy", &folder.arg(), "--bearer", "x", "GET", "/"]);
    assert!(code == 1 && err.contains("no complete answer within 10 s"), "{out}{err}");
}

/// A certificate that cannot be used is found when the policy is loaded, not when keys are fetched.
#[test]
fn a_file_of_authorities_that_cannot_be_used_is_a_problem_of_the_policy() {
    let folder = PolicyFolder::new(
        "version: 1\nidentity:\n  jwt:\n    - issuer: https://a.example\n      audiences: [a]\n      \
         keys: { discovery: true, ca_file: ca.pem }\nroles:\n  anyone: { allow: [\"GET /\"] }\n",
    );
    folder.write("ca.pem", "-----BEGIN CERTIFICATE-----\nMA==\n-----END CERTIFICATE-----\n");
    for command in ["check", "serve"] {
        let policy = folder.arg();
        let args = if command == "check" {
            vec!["check", &policy]
        } else {
            vec!["serve", "--policy", &policy]
        };
        let (code, out, err) = run(&args);
        let printed = out + &err;
        assert!(
            code == 3
                && printed.contains("the `ca_file` of `https://a.example/")
                && printed.contains("certificate 1 cannot be used"),
            "{printed}"
        );
    }
}
