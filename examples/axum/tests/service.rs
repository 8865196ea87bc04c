//! The service, asked over TCP.
#![expect(clippy::unwrap_used, reason = "a failed set-up is a failed test")]

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::time::Duration;

use axum::ServiceExt as _;
use rolegate_authorizer::Authorizer;
use tokio::runtime::{Builder, Runtime};

const POLICY: &str = r#"
version: 1
identity: { basic: { users: { ann: { password: "{SHA}W6ph5Mm5Pz8GgiULbPgzG37mj9g=" } } } }
roles:
  anyone: { allow: [GET /whoami, GET open.example/people] }
  writer: { allow: [GET|POST /people] }
grants: { writer: { users: [ann] } }
allow_response: { set_headers: { x-user: "{user}" } }
"#;
const ANN: &str = "authorization: Basic YW5uOnBhc3N3b3Jk\r\n";

/// Serves on a port that the system chooses, until the runtime is dropped.
fn serve(authorizer: Authorizer) -> (Runtime, SocketAddr) {
    let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let listener = runtime.block_on(tokio::net::TcpListener::bind("127.0.0.1:0")).unwrap();
    let address = listener.local_addr().unwrap();
    let service = axum_example::service(authorizer);
    runtime.spawn(async move {
        let service = service.into_make_service_with_connect_info::<SocketAddr>();
        axum::serve(listener, service).await
    });
    (runtime, address)
}

/// Sends a request with these header lines: the status, and the head and body.
fn ask(address: SocketAddr, line: &str, headers: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    write!(stream, "{line} HTTP/1.1\r\nconnection: close\r\n{headers}\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    (answer.split(' ').nth(1).unwrap().parse().unwrap(), answer)
}

#[test]
fn the_layer_answers_in_place_of_the_service_what_the_policy_denies() {
    let (_runtime, address) = serve(Authorizer::from_text(POLICY).unwrap());
    for (line, headers, status, contains) in [
        ("GET /whoami", "", 200, "nobody"),
        // What a client sends is not believed.
        ("GET /whoami", "x-user: root\r\n", 200, "nobody"),
        ("GET /whoami", "x_user: root\r\nX-User: root\r\n", 200, "nobody"),
        ("GET /whoami", &format!("x-user: root\r\n{ANN}"), 200, "ann"),
        ("GET /people", "", 401, "www-authenticate: Basic"),
        ("GET /people", ANN, 200, "[]"),
        ("POST /people", ANN, 200, "created"),
        ("GET /people", "authorization: Basic YW5uOndyb25n\r\n", 401, "www-authenticate"),
        ("GET /people", &format!("{ANN}{ANN}"), 400, ""),
        ("GET /people%2F", ANN, 400, ""),
        ("GET /nothing", ANN, 403, ""),
        // The denial is the policy's, not the 404 of the router.
        ("GET /nothing", "", 401, ""),
    ] {
        let (found, answer) = ask(address, line, &format!("host: a\r\n{headers}"));
        assert_eq!(found, status, "{line} {headers}: {answer}");
        assert!(answer.contains(contains), "{line} {headers}: {answer}");
    }
    let open = "host: open.example\r\n";
    assert_eq!(ask(address, "GET /people", open).0, 200);
    assert_eq!(ask(address, "GET http://open.example/people", open).0, 200);
    for (line, hosts) in [
        ("GET http://open.example/people", "host: a\r\n"),
        ("GET http://a/people", open),
        ("GET /people", "host: open.example\r\nhost: a\r\n"),
    ] {
        assert_eq!(ask(address, line, hosts).0, 400, "{line} {hosts}");
    }
}

#[test]
fn the_policy_of_the_readme_is_served() {
    let policies = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../policies");
    let (_runtime, address) = serve(Authorizer::load(policies.join("people")).unwrap());
    let (status, answer) = ask(address, "GET /people", "host: a\r\n");
    assert_eq!(status, 401, "{answer}");
    let Err(error) = Authorizer::load(policies.join("none")) else { panic!("it is missing") };
    assert!(error.to_string().contains("none:1:1: "), "{error}");
}
