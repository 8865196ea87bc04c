//! A policy for a search cluster: its inventory, fetched from a server on the loopback interface,
//! and its files.

use std::fs;

use tonic_health::pb::health_check_response::ServingStatus;

use crate::client::{Answer, Envoy, check};
use crate::keys::{Issuer, ok};
use crate::process::{PolicyFolder, Server, run, wait_until};

/// `harbour`, hashed with SHA-1, which costs least.
const HASH: &str = "{SHA}YWi3kCY+Sqkj7dOAcDXAL7DeMiU=";
const READER: (&str, &str) = ("authorization", "Basic bGVvOmhhcmJvdXI=");
const ALLOWED: Answer = Answer::Http(200);
const DENIED: Answer = Answer::Http(403);

/// A policy whose inventory is at this server.
fn policy(server: &Issuer, max_age: &str) -> PolicyFolder {
    let policy = PolicyFolder::new(&format!(
        "version: 1\nsearch:\n  folder: cluster\n  inventory: {{ url: \"http://{}\", refresh: 100ms, max_age: {max_age}, \
         credentials_file: lister }}\n",
        server.at
    ));
    let cluster = policy.path().join("cluster");
    fs::create_dir(&cluster).unwrap();
    policy.write("lister", "lister:s3cret-of-lister\n");
    fs::write(cluster.join("roles.yml"), roles("logs-*")).unwrap();
    fs::write(
        cluster.join("roles_mapping.yml"),
        "_meta: { type: rolesmapping, config_version: 2 }\nreader: { users: [leo] }\n",
    )
    .unwrap();
    fs::write(
        cluster.join("internal_users.yml"),
        format!(
            "_meta: {{ type: internalusers, config_version: 2 }}\nleo: {{ hash: \"{HASH}\" }}\n"
        ),
    )
    .unwrap();
    policy
}

fn roles(pattern: &str) -> String {
    format!(
        "_meta: {{ type: roles, config_version: 2 }}\nreader:\n  cluster_permissions: [cluster_composite_ops_ro]\n  \
         index_permissions: [{{ index_patterns: [\"{pattern}\"], allowed_actions: [read] }}]\n"
    )
}

fn inventory(indices: &[&str]) -> String {
    let names: Vec<String> = indices
        .iter()
        .map(|name| format!("{{\"name\":\"{name}\",\"attributes\":[\"open\"]}}"))
        .collect();
    format!("{{\"indices\":[{}],\"aliases\":[],\"data_streams\":[]}}", names.join(","))
}

async fn search(server: &Server, indices: &str) -> Answer {
    check(server.address(), "GET", &format!("/{indices}/_mapping/field/f"), &[READER]).await
}

#[tokio::test]
async fn a_pattern_stands_for_what_the_cluster_contains() {
    let cluster = Issuer::start(&inventory(&["logs-a", "logs-b", "secret"]));
    let folder = policy(&cluster, "1h");
    let server = Server::start(&folder.arg(), &[]);
    assert_eq!(search(&server, "*-a,*-b").await, ALLOWED);
    assert_eq!(search(&server, "logs-*").await, ALLOWED);
    assert_eq!(search(&server, "s*,logs-a").await, DENIED);
    // A new index that the pattern stands for, and no role permits.
    cluster.answer(ok(&inventory(&["logs-a", "logs-b", "other-a", "secret"])));
    server.wait_for_logs("inventory changed", 2);
    assert_eq!(search(&server, "*-a,*-b").await, DENIED);
    assert_eq!(search(&server, "logs-*").await, ALLOWED);
    assert_eq!(server.metric("rolegate_inventory_loaded"), Some(1.0));
    assert!(!server.log().contains("s3cret"), "{}", server.log());
}

/// Otherwise they would show other answers than the server gives.
#[test]
fn commands_ask_about_patterns_with_the_inventory() {
    let cluster = Issuer::start(&inventory(&["logs-a", "logs-b"]));
    let folder = policy(&cluster, "1h");
    let (policy, url) = (folder.arg(), "https://search.example.com/*-a/_mapping/field/f");
    let asked = [
        &["explain", "--policy", &policy, "--user", "leo", "GET", url][..],
        &["who-can", "--policy", &policy, "GET", url],
    ];
    for arguments in asked {
        let (code, out, err) = run(arguments);
        assert_eq!(code, 0, "{arguments:?}: {out}{err}");
    }
    cluster.answer(
        "HTTP/1.1 503 Service Unavailable\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
            .to_owned(),
    );
    for arguments in asked {
        let (code, out, err) = run(arguments);
        assert_eq!(code, 1, "{arguments:?}: {out}{err}");
        assert!(err.contains("not fetched, so it counts as absent"), "{err}");
        assert!(!(out + &err).contains("s3cret"));
    }
}

/// Fails closed: without an inventory it is not known what a pattern stands for.
#[tokio::test]
async fn an_inventory_is_not_used_for_longer_than_its_age() {
    let cluster = Issuer::start(&inventory(&["logs-a", "logs-b"]));
    let folder = policy(&cluster, "2s");
    // The files are not polled, but the age counts all the same.
    let server = Server::start(&folder.arg(), &["--poll-interval", "0"]);
    assert_eq!(search(&server, "*-a").await, ALLOWED);
    cluster.answer(
        "HTTP/1.1 503 Service Unavailable\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
            .to_owned(),
    );
    server.wait_for_log("inventory not fetched: the last one is used until it is too old");
    assert_eq!(search(&server, "*-a").await, ALLOWED);
    server.wait_for_log("the inventory exceeds its `max_age`");
    assert_eq!(search(&server, "*-a").await, DENIED);
    assert_eq!(search(&server, "logs-*").await, ALLOWED);
    assert_eq!(server.metric("rolegate_inventory_loaded"), Some(0.0));
    cluster.answer(ok(&inventory(&["logs-a"])));
    server.wait_for_logs("inventory changed", 2);
    assert_eq!(search(&server, "*-a").await, ALLOWED);
}

#[tokio::test]
async fn an_inventory_that_other_credentials_got_is_not_loaded() {
    let cluster = Issuer::start(&inventory(&["logs-a"]));
    let folder = policy(&cluster, "1h");
    let server = Server::start(&folder.arg(), &["--poll-interval", "100ms"]);
    assert_eq!(search(&server, "*-a").await, ALLOWED);
    assert_eq!(server.metric("rolegate_inventory_loaded"), Some(1.0));
    cluster.answer(
        "HTTP/1.1 401 Unauthorized\r\ncontent-length: 0\r\nconnection: close\r\n\r\n".to_owned(),
    );
    folder.write("lister", "lister:an0ther-of-lister\n");
    server.wait_for_log("policy reloaded");
    assert_eq!(server.metric("rolegate_inventory_loaded"), Some(0.0));
    assert_eq!(search(&server, "*-a").await, DENIED);
}

#[tokio::test]
async fn an_answer_that_is_no_inventory_is_not_used() {
    let cluster = Issuer::start("{\"error\":\"no permissions\"}");
    let folder = policy(&cluster, "1h");
    let server = Server::start(&folder.arg(), &[]);
    server.wait_for_log("is no inventory: missing field `indices`");
    assert_eq!(search(&server, "*-a").await, DENIED);
    assert_eq!(search(&server, "logs-a").await, ALLOWED);
    cluster.answer(ok(&inventory(&["logs-a"])));
    server.wait_for_log("inventory changed");
    assert_eq!(search(&server, "*-a").await, ALLOWED);
    cluster.answer(ok("<html>"));
    server.wait_for_log("the fetched inventory is not used");
    assert_eq!(search(&server, "*-a").await, ALLOWED);
    let line = "ready\nthe inventory of the search cluster cannot be fetched again: the last one is used until its `max_age`. Newer indices are missing in it\n";
    wait_until(|| server.page("/readyz").1 == line, || server.page("/readyz").1);
}

/// Otherwise a rollout goes on where each new instance denies what the one before it has permitted.
#[tokio::test]
async fn readiness_waits_for_the_first_inventory_unless_configured_otherwise() {
    let cluster = Issuer::start("{\"error\":\"no permissions\"}");
    let folder = policy(&cluster, "2s");
    let without =
        Server::start(&folder.arg(), &["--keys-wait", "10ms", "--inventory-needed", "false"]);
    let line = "no inventory of the search cluster: patterns and aliases are permitted only where roles cover them by name\n";
    assert_eq!(without.page("/readyz"), (200, format!("ready\n{line}")));
    let server = Server::start(&folder.arg(), &["--keys-wait", "10ms"]);
    assert_eq!(
        server.page("/readyz"),
        (503, "not ready: no inventory of the search cluster yet\n".to_owned())
    );
    assert_eq!(server.metric("rolegate_ready"), Some(0.0));
    let mut envoy = Envoy::connect(server.address()).await;
    assert_eq!(envoy.health().await, ServingStatus::NotServing);
    // Requests are decided nevertheless.
    assert_eq!((search(&server, "logs-a").await, search(&server, "*-a").await), (ALLOWED, DENIED));
    cluster.answer(ok(&inventory(&["logs-a"])));
    server.wait_for_metric("rolegate_ready", 1.0);
    assert_eq!(server.page("/readyz"), (200, "ready\n".to_owned()));
    assert_eq!(envoy.health().await, ServingStatus::Serving);
    // One that is too old is reported, and the instance stays in service.
    cluster.answer(ok("<html>"));
    server.wait_for_log("the inventory exceeds its `max_age`");
    assert_eq!(server.page("/readyz"), (200, format!("ready\n{line}")));
    assert_eq!(envoy.health().await, ServingStatus::Serving);
}

#[tokio::test]
async fn a_changed_role_file_is_loaded_and_a_broken_one_is_not() {
    let cluster = Issuer::start(&inventory(&["logs-a", "secret"]));
    let folder = policy(&cluster, "1h");
    let server = Server::start(&folder.arg(), &["--poll-interval", "100ms"]);
    assert_eq!(
        (search(&server, "logs-a").await, search(&server, "secret").await),
        (ALLOWED, DENIED)
    );
    let file = folder.path().join("cluster").join("roles.yml");
    fs::write(&file, roles("secret")).unwrap();
    server.wait_for_log("policy reloaded");
    assert_eq!(
        (search(&server, "logs-a").await, search(&server, "secret").await),
        (DENIED, ALLOWED)
    );
    fs::write(&file, roles("/(unclosed/")).unwrap();
    server.wait_for_log_line(&["roles.yml", "\"level\":\"ERROR\""]);
    server.wait_for_log("policy not reloaded: the last good one stays active");
    assert_eq!(
        (search(&server, "logs-a").await, search(&server, "secret").await),
        (DENIED, ALLOWED)
    );
}
