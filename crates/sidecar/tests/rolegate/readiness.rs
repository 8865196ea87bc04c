//! What `/readyz` and `rolegate health` say of a server that is ready and not as it should be.

use crate::keys::{Issuer, key_set};
use crate::process::{PolicyFolder, Server, open_to_all, run, wait_until};
use testbed::tokens::Signer;

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
                "the changed policy does not load (policy.yaml:{place}), as `rolegate check` and the log say: {active} is still active\n"
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
    let (folder, shadow) = (PolicyFolder::new(&open_to_all("/a")), PolicyFolder::new(&open_to_all("/a")));
    let server = Server::start(&folder.arg(), &["--poll-interval", "50ms", "--shadow", &shadow.arg()]);
    wait_for_ready(&server, "");
    shadow.write("policy.yaml", "version: 2\n");
    wait_for_ready(
        &server,
        "the changed shadow policy does not load (policy.yaml:1:10), as `rolegate check` and the log say: requests are compared with the last good one\n",
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
        "the keys of https://id.example cannot be fetched again, or are not usable: the last good ones are used\n",
    );
    issuer.publish(&key_set(&signer, "k"));
    wait_for_ready(&server, "");
}
