//! A bundle over TLS, from a server with a certificate of a private authority.

use std::sync::Arc;

use rustls::{ServerConnection, StreamOwned};

use crate::bundle_server::{Answer as Sent, BundleServer};
use crate::bundles::{Publisher, result, start, wait_for_another};
use crate::client::{Answer, Envoy};
use crate::discovery::Authority;
use crate::process::{Server, rolegate};

/// A server with a certificate of this authority.
fn serve(authority: &Authority, answer: Sent) -> BundleServer {
    let config = Arc::new(authority.server());
    BundleServer::start_over("https", answer, move |stream| {
        StreamOwned::new(ServerConnection::new(config.clone()).unwrap(), stream)
    })
}

const UNTRUSTED: &str = "its certificate was not issued by an authority in the file that is configured for it: name the authority \
                         itself there, and let the server send all certificates between that and its own";

#[tokio::test]
async fn a_bundle_is_fetched_over_a_private_authority() {
    let (publisher, authority, other) =
        (Publisher::new(), Authority::new("a"), Authority::new("b"));
    let files = serve(&authority, Sent::File(publisher.signed("/a", 1)));
    std::fs::write(publisher.path("ca.pem"), authority.pem()).unwrap();
    let server = start(&files, &publisher, &["--bundle-ca", &publisher.arg("ca.pem")]);
    assert_eq!(server.page("/readyz").0, 200, "{}", server.log());
    let mut envoy = Envoy::connect(server.address()).await;
    assert_eq!(envoy.check("GET", "/a", &[]).await, Answer::Http(200));
    files.answer(Sent::File(publisher.signed("/b", 2)));
    server.wait_for_metric("rolegate_bundle_revision", 2.0);
    wait_for_another(&server, "unchanged");
    // The file is read again at each fetch: with another authority, and with none, the last good
    // policy stays.
    let next = Sent::File(publisher.signed("/c", 3));
    for (ca, logged) in [
        (other.pem(), UNTRUSTED),
        (String::new(), "no certificate in PEM"),
        (authority.pem().replace("MI", "**"), "certificate 1 cannot be used"),
    ] {
        std::fs::write(publisher.path("ca.pem"), ca).unwrap();
        files.answer(next.clone());
        wait_for_another(&server, "failed");
        server.wait_for_log_line(&["policy bundle not fetched", logged]);
        assert_eq!(envoy.check("GET", "/b", &[]).await, Answer::Http(200));
        assert_eq!(server.page("/readyz").0, 200);
        assert!(server.metric("rolegate_bundle_failing_seconds").unwrap() > 0.0);
        assert_eq!(server.metric("rolegate_bundle_revision"), Some(2.0));
    }
    std::fs::write(publisher.path("ca.pem"), authority.pem()).unwrap();
    server.wait_for_metric("rolegate_bundle_revision", 3.0);
    assert_eq!(envoy.check("GET", "/c", &[]).await, Answer::Http(200));
}

/// Without a policy the process is not ready, and says why; only `bundle-ca` counts where it is
/// set.
#[tokio::test]
async fn no_bundle_comes_from_a_server_of_another_authority() {
    let (publisher, authority, other) =
        (Publisher::new(), Authority::new("a"), Authority::new("b"));
    let files = serve(&authority, Sent::File(publisher.signed("/a", 1)));
    std::fs::write(publisher.path("right.pem"), authority.pem()).unwrap();
    std::fs::write(publisher.path("wrong.pem"), other.pem()).unwrap();
    let start = |roots: &str, more: &[&str]| {
        let (url, key) = (files.url(), publisher.arg("key.pub"));
        let own =
            ["serve", "--policy", &url, "--bundle-public-key", &key, "--bundle-interval", "1s"];
        let listen = ["--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--keys-wait", "1s"];
        let mut command = rolegate(&[&own[..], &listen, more].concat());
        command.env("SSL_CERT_FILE", publisher.path(roots));
        let server = Server::spawn(command);
        server.wait_for_log("listening");
        server
    };
    let wrong = start("right.pem", &["--bundle-ca", &publisher.arg("wrong.pem")]);
    wrong.wait_for_log_line(&["policy bundle not fetched", UNTRUSTED]);
    assert_eq!(wrong.page("/readyz"), (503, "not ready: no policy bundle yet\n".to_owned()));
    assert!(wrong.metric(&result("failed")).unwrap() > 0.0);
    let mut envoy = Envoy::connect(wrong.address()).await;
    assert_eq!(envoy.check("GET", "/a", &[]).await, Answer::Error(14));
    // The system's authorities count only without `bundle-ca`.
    let system = start("right.pem", &[]);
    system.wait_for_metric("rolegate_bundle_revision", 1.0);
    // Their file may be there only later.
    let late = start("late.pem", &[]);
    late.wait_for_log("cannot load root certificates");
    std::fs::write(publisher.path("late.pem"), authority.pem()).unwrap();
    late.wait_for_metric("rolegate_bundle_revision", 1.0);
}
