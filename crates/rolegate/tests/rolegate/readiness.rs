//! What `/readyz` and `rolegate health` say of a server that is ready and not as it should be.

use std::fs::OpenOptions;
use std::net::TcpListener;
use std::process::Command;

use rustix::process::Signal;
use testbed::tokens::Signer;

use crate::keys::{Issuer, key_set, policy_with_keys_at};
use crate::process::{PolicyFolder, Server, open_to_all, run, wait_until};

fn wait_for_ready(server: &Server, lines: &str) {
    let expected = (200, format!("ready\n{lines}"));
    wait_until(
        || server.page("/readyz") == expected,
        || format!("{expected:?}: {:?}", server.page("/readyz")),
    );
}

fn active(server: &Server) -> String {
    let (_, metrics) = server.page("/metrics");
    let after = metrics.split("rolegate_policy_info{policy=\"").nth(1).unwrap();
    after.split('"').next().unwrap().to_owned()
}

#[test]
fn a_changed_policy_that_does_not_load_is_named() {
    let folder = PolicyFolder::new(&open_to_all("/a"));
    let server = Server::start(&folder.arg(), &["--poll-interval", "50ms"]);
    wait_for_ready(&server, "");
    let active = active(&server);
    let users = "version: 1\nidentity: { basic: { users_file: users } }\n";
    for (text, place) in
        [("version: 1\nroles:\n  anyone: { alow: [\"GET /s3cret\"] }\n", "3:13"), (users, "2:34")]
    {
        folder.write("policy.yaml", text);
        wait_for_ready(
            &server,
            &format!(
                "the changed policy does not load (policy.yaml:{place}): {active} is still active, and newer changes have no effect; `rolegate check` and the log say what is wrong\n"
            ),
        );
    }
    let (code, out, _) = run(&["health", "--admin", &server.admin().to_string()]);
    assert!(
        code == 0 && out.starts_with("ready\nthe changed policy does not load (policy.yaml:2:34)"),
        "{out}"
    );
    folder.write("policy.yaml", &open_to_all("/b"));
    wait_for_ready(&server, "");
}

#[test]
fn a_shadow_policy_that_does_not_load_is_named() {
    let (folder, shadow) =
        (PolicyFolder::new(&open_to_all("/a")), PolicyFolder::new(&open_to_all("/a")));
    let server =
        Server::start(&folder.arg(), &["--poll-interval", "50ms", "--shadow", &shadow.arg()]);
    wait_for_ready(&server, "");
    shadow.write("policy.yaml", "version: 2\n");
    wait_for_ready(
        &server,
        "the changed shadow policy does not load (policy.yaml:1:10): no answer is affected: requests are compared with the last good one\n",
    );
}

#[test]
fn keys_that_cannot_be_fetched_again_are_named() {
    let signer = Signer::default();
    let issuer = Issuer::start(&key_set(&signer, "k"));
    let folder = issuer.policy("1s");
    let server = Server::start(&folder.arg(), &[]);
    wait_for_ready(&server, "");
    issuer.answer(String::new());
    wait_for_ready(
        &server,
        "newer keys of https://id.example cannot be fetched, or are not usable: the last good ones are used. Tokens that the issuer signs with a new key get 401\n",
    );
    issuer.publish(&key_set(&signer, "k"));
    wait_for_ready(&server, "");
}

/// The system's own handling of SIGHUP ends a process.
#[test]
fn a_reload_that_is_requested_during_the_first_load_ends_nothing() {
    let folder = PolicyFolder::new(&open_to_all("/a"));
    let (file, pipe) = (folder.path().join("policy.yaml"), folder.path().join("pipe"));
    // Reading it waits for a writer.
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    std::fs::rename(&pipe, &file).unwrap();
    let server = Server::start_unready(file.to_str().unwrap(), &[]);
    let hangup = 1 << (Signal::HUP.as_raw() - 1);
    let caught =
        || u64::from_str_radix(server.reported("SigCgt:").trim(), 16).unwrap() & hangup != 0;
    wait_until(caught, || "the signal is not caught".to_owned());
    server.signal(Signal::HUP);
    std::fs::hard_link(&file, &pipe).unwrap();
    folder.write("policy.yaml", &open_to_all("/a"));
    drop(OpenOptions::new().read(true).write(true).open(&pipe).unwrap());
    server.wait_for_log("listening");
}

#[test]
fn a_server_that_waits_for_keys_stops_at_once() {
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let policy = policy_with_keys_at(&format!("http://{}/keys", silent.local_addr().unwrap()));
    let mut server = Server::start_unready(&policy.arg(), &["--keys-wait", "1h"]);
    server.wait_for_log("admin pages");
    server.signal(Signal::HUP);
    server.signal(Signal::TERM);
    assert_eq!(server.ended(), 0);
    assert!(server.log().contains("stopped before requests were answered"), "{}", server.log());
}
