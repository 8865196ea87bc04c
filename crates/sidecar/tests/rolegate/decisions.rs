//! The decision log: the revision on each line, and what it takes to repeat a decision with `explain`.

use serde_json::Value;
use testbed::tokens::Signer;

use crate::client::{Answer, Envoy};
use crate::keys::{Issuer, key_set, token};
use crate::process::{Server, run};

fn json(args: &[&str]) -> Value {
    let (_, out, err) = run(args);
    serde_json::from_str(&out).unwrap_or_else(|_| panic!("{args:?}: {out}{err}"))
}

/// The keys that only a server has do not change the revision of its policy.
#[tokio::test]
async fn the_same_policy_has_the_same_revision_everywhere() {
    let signer = Signer::default();
    let issuer = Issuer::start(&key_set(&signer, "k"));
    let folder = issuer.policy("1h");
    let checked = json(&["check", "--output", "json", &folder.arg()]);
    let policy = checked["policy"].as_str().unwrap();
    let (_, text, _) = run(&["check", &folder.arg()]);
    assert!(text.trim_end().ends_with(&format!("policy {policy}")), "{text}");

    let explain = |more: &[&str]| {
        json(&[&["explain", "--policy", &folder.arg(), "--output", "json"], more, &["GET", "/"]].concat())
    };
    let without_keys = explain(&[]);
    assert_eq!((without_keys["policy"].as_str(), &without_keys["keys"]), (Some(policy), &Value::Null));
    let bearer = token(&signer, "k");
    let with_keys = explain(&["--bearer", bearer.strip_prefix("Bearer ").unwrap()]);
    assert_eq!(with_keys["policy"], *policy);
    let keys = with_keys["keys"].as_str().unwrap();
    let (_, text, _) = run(&["explain", "--policy", &folder.arg(), "GET", "/"]);
    assert!(text.ends_with(&format!("policy:  {policy}\nkeys:    none fetched\n")), "{text}");

    let server = Server::start(&folder.arg(), &["--decision-log", "all"]);
    let mut envoy = Envoy::connect(server.address()).await;
    assert_eq!(envoy.check("GET", "/", &[("authorization", &bearer)]).await, Answer::Http(200));
    server.wait_for_log("policy loaded");
    let metric = format!("rolegate_policy_info{{policy=\"{policy}\",keys=\"{keys}\"}}");
    assert_eq!(server.metric(&metric), Some(1.0), "{}", server.page("/metrics").1);
    let line = server.wait_for_decision();
    assert_eq!((line["policy"].as_str(), line["keys"].as_str()), (Some(policy), Some(keys)));
    let log = server.log();
    let logged: Vec<Value> = log.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let with = |message: &str| logged.iter().find(|line| line["message"] == message).unwrap();
    assert_eq!(with("policy loaded")["policy"], *policy);
    assert_eq!(
        (&with("keys changed")["policy"], &with("keys changed")["keys"]),
        (&policy.into(), &keys.into())
    );
}
