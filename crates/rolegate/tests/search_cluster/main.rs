//! A search cluster without the security plugin, behind Envoy and rolegate, gives the same answers
//! as one with the plugin.
//!
//! `make search-conformance NODE=http://127.0.0.1:9201 PLAIN=http://127.0.0.1:9200` generates roles
//! and requests, and sends each request to the node with the plugin and, through Envoy with the
//! shipped configuration, to the one without.

#![expect(clippy::expect_used, clippy::unwrap_used, reason = "a failed set-up is a failed test")]
#![expect(clippy::indexing_slicing, reason = "a failed set-up is a failed test")]
#![expect(clippy::disallowed_methods, reason = "it compares servers that the environment names")]

mod bulk;
#[path = "../../../search/tests/conformance/contents.rs"]
mod contents;
#[path = "../../../search/tests/conformance/decision.rs"]
mod decision;
#[path = "../../../search/tests/conformance/node.rs"]
mod node;
#[path = "../../../search/tests/conformance/requests.rs"]
#[expect(dead_code, reason = "recorded answers are compared elsewhere")]
mod requests;
#[path = "../../../search/tests/conformance/tally.rs"]
mod tally;
#[path = "../../../search/tests/conformance/world.rs"]
#[expect(dead_code, reason = "recorded answers are compared elsewhere")]
mod world;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::{env, fs};

use decision::Decision;
use node::{Answer, Node};
use requests::Sent;
use search::Inventory;
use serde_json::json;
use tally::Tally;
use tempfile::TempDir;
use testbed::envoy::Target;
use testbed::manifests::deploy;
use testbed::tokens::{Signer, now};
use testbed::{Envoy, Rolegate};
use tokio::sync::Mutex;
use world::World;

const HOST: &str = "search.example.com";
const ISSUER: &str = "https://id.example.com";
/// Requests for each set of roles.
const PER_WORLD: usize = 200;

/// Each test has the nodes for itself.
static NODES: Mutex<()> = Mutex::const_new(());

/// The nodes, and how rolegate decides in front of the plain one.
struct Place {
    /// The URL of the node with the plugin.
    secure: String,
    /// That of the one without.
    plain: String,
    /// The folder of the module, if Envoy has it.
    module: Option<PathBuf>,
    bulk: &'static str,
}

impl Place {
    fn of_environment() -> Self {
        let url = |name: &str, default: &str| env::var(name).unwrap_or_else(|_| default.to_owned());
        Self {
            secure: url("NODE", "http://127.0.0.1:9201"),
            plain: url("PLAIN", "http://127.0.0.1:9200"),
            module: env::var_os("MODULE").filter(|folder| !folder.is_empty()).map(PathBuf::from),
            bulk: "whole",
        }
    }
}

/// How many requests are compared, and the seed that they are generated from.
fn extent() -> (usize, u64) {
    let setting = |name: &str, default: &str| env::var(name).unwrap_or_else(|_| default.to_owned());
    let count = setting("REQUESTS", "20000").parse().expect("REQUESTS is a number");
    (count, setting("SEED", "1").parse().expect("SEED is a number"))
}

/// Envoy and rolegate in front of a node.
struct Gateway {
    envoy: Envoy,
    /// A process of its own, unless Envoy has it as a module.
    rolegate: Option<Rolegate>,
    signer: Signer,
    folder: TempDir,
}

impl Gateway {
    async fn start(place: &Place, world: &World) -> Self {
        let (plain, module) = (&*place.plain, place.module.as_deref());
        let folder = tempfile::tempdir().unwrap();
        let signer = Signer::default();
        fs::create_dir(folder.path().join("cluster")).unwrap();
        fs::write(
            folder.path().join("jwks.json"),
            json!({ "keys": [signer.jwk("HS256")] }).to_string(),
        )
        .unwrap();
        let policy = folder.path().join("policy.yaml");
        fs::write(&policy, policy_for(plain, place.bulk)).unwrap();
        write(world, folder.path());
        let rolegate = match module {
            Some(_) => None,
            None => {
                let program = env::var_os("ROLEGATE")
                    .map_or_else(|| env!("CARGO_BIN_EXE_rolegate").into(), PathBuf::from);
                let listen = Target::Unix(folder.path().join("rolegate.sock"));
                let more = ["--max-message-size", "12MiB"];
                Some(
                    Rolegate::start(&program, &policy, listen, folder.path(), &more).await.unwrap(),
                )
            }
        };
        let text = configuration(plain, folder.path(), module.is_some());
        let modules = module.unwrap_or(folder.path());
        let program = testbed::envoy::program().unwrap();
        let envoy = Envoy::start_with_modules(&program, folder.path(), &text, &["public"], modules)
            .await
            .unwrap();
        Self { envoy, rolegate, signer, folder }
    }

    /// The same with other roles.
    async fn activate(mut self, place: &Place, world: &World) -> Self {
        if let Some(rolegate) = &mut self.rolegate {
            write(world, self.folder.path());
            rolegate.kill();
            rolegate.restart().await.unwrap();
            self
        } else {
            drop(self);
            Self::start(place, world).await
        }
    }

    fn connect(&self) -> Node {
        Node::at(&self.envoy.address.to_string()).with_host(HOST)
    }

    fn answer(&self, node: &mut Node, sent: &Sent) -> (Answer, String) {
        let roles: Vec<&str> = sent.roles.split(',').collect();
        let claims = json!({ "iss": ISSUER, "aud": "search", "exp": now() + 600, "iat": now(), "sub": sent.user, "roles": roles });
        let token =
            self.signer.sign(&json!({ "alg": "HS256", "kid": "HS256", "typ": "JWT" }), &claims);
        let dry = if sent.is_dry { "x-dry: 1\r\n" } else { "" };
        node.answer(sent, &format!("authorization: Bearer {token}\r\n{dry}"))
    }
}

fn policy_for(plain: &str, bulk: &str) -> String {
    format!(
        "version: 1\nidentity:\n  jwt:\n    - {{ issuer: \"{ISSUER}\", audiences: [search], keys: {{ file: jwks.json }}, \
         claims: {{ user: sub, roles: roles }} }}\nsearch:\n  folder: cluster\n  bulk: {bulk}\n  hosts: [{HOST}]\n  inventory: {{ url: \"{plain}\", \
         refresh: 1h, max_age: 2h }}\nallow_response: {{ remove_headers: [authorization] }}\n"
    )
}

fn write(world: &World, folder: &Path) {
    for (name, text) in world.files() {
        fs::write(folder.join("cluster").join(name), text).unwrap();
    }
}

/// The shipped configuration. Requests that only ask whether they would be permitted are answered
/// by Envoy.
fn configuration(plain: &str, folder: &Path, is_module: bool) -> String {
    let file = if is_module { "envoy/module-search.yaml" } else { "envoy/search.yaml" };
    let mut text = fs::read_to_string(deploy(file)).unwrap();
    let (_, port) = plain.trim_end_matches('/').rsplit_once(':').unwrap();
    let socket = format!("pipe: {{ path: {} }}", folder.join("rolegate.sock").display());
    let policy = folder.join("policy.yaml").display().to_string();
    let place = match is_module {
        true => ("/etc/rolegate/policy.yaml", &policy),
        false => ("pipe: { path: /run/rolegate/rolegate.sock }", &socket),
    };
    let routes = "                      routes:
                        - match: { prefix: \"/\", headers: [{ name: x-dry, present_match: true }] }
                          direct_response: { status: 200, body: { inline_string: \"{}\" } }
";
    for (from, to) in [
        (
            "static_resources:",
            "admin: { address: { socket_address: { address: 127.0.0.1, port_value: 0 } } }\nstatic_resources:",
        ),
        (
            "    - address: { socket_address: { address: 127.0.0.1, port_value: 10000 } }",
            "    - name: public\n      address: { socket_address: { address: 127.0.0.1, port_value: 0 } }",
        ),
        ("port_value: 9200", &format!("port_value: {port}")),
        (place.0, place.1),
        ("                      routes:\n", routes),
    ] {
        assert_eq!(text.matches(from).count(), 1, "{from}");
        text = text.replace(from, to);
    }
    text
}

/// What Envoy and rolegate have decided. It must be what the library decides: `ours`.
fn decision(sent: &Sent, answer: &Answer, text: &str, ours: Decision) -> Result<Decision, String> {
    let is_denied =
        answer.status == 403 && (sent.method == "HEAD" || text.contains("security_exception"));
    let shown = || format!("{}: {} {text}", sent.shown(), answer.status);
    match ours {
        Decision::Permitted(None) if is_denied => Err(format!("denied: {}", shown())),
        Decision::Permitted(Some(_)) if is_denied => Ok(Decision::Denied {
            operation: "partly permitted".to_owned(),
            why: "NotGranted (reduces)".to_owned(),
        }),
        Decision::Permitted(only) => Ok(Decision::Permitted(only)),
        Decision::Denied { operation, why }
            if is_denied || (answer.status == 400 && operation == "unread") =>
        {
            Ok(Decision::Denied { operation, why })
        }
        Decision::Denied { .. } => Err(format!("allowed: {}", shown())),
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a node with the security plugin and one without: make search-conformance"]
async fn a_cluster_behind_envoy_gives_the_same_answers() {
    let _nodes = NODES.lock().await;
    let (place, (count, seed)) = (Place::of_environment(), extent());
    let (mut secure, mut direct) = (Node::at(&place.secure), Node::at(&place.plain));
    let mut random = fastrand::Rng::with_seed(seed);
    let (mut tally, mut wrong, mut others) = (Tally::default(), Vec::new(), BTreeSet::new());
    let (mut whole, mut reduced) = (0_usize, 0_usize);
    world::create(&mut secure);
    world::create(&mut direct);
    let mut gateway: Option<Gateway> = None;
    for _ in 0..count.div_ceil(PER_WORLD) {
        let mut world = World::generate(&mut random);
        for node in [&mut secure, &mut direct] {
            world.fill(node);
        }
        let (_, resolved) = direct.administer("GET", "/_resolve/index/*?expand_wildcards=all", "");
        world.inventory = Inventory::from_resolved(resolved.as_bytes()).expect("an inventory");
        world.activate(&mut secure);
        let current = match gateway.take() {
            None => Gateway::start(&place, &world).await,
            Some(gateway) => gateway.activate(&place, &world).await,
        };
        let current = gateway.insert(current);
        let mut behind = current.connect();
        for _ in 0..PER_WORLD {
            let mut sent = match world.reduces && random.bool() {
                true => requests::generate_reading(&mut random),
                false => requests::generate(&mut random),
            };
            requests::lengthen(&mut random, &mut sent);
            let theirs = secure.decide(&sent);
            let (answer, text) = current.answer(&mut behind, &sent);
            match decision(&sent, &answer, &text, decision::decide(&world, &sent)) {
                Ok(decision) => {
                    if let (Decision::Permitted(only), Some(ours), Some(shown)) =
                        (&decision, &answer.shown, &theirs.shown)
                    {
                        *if only.is_some() { &mut reduced } else { &mut whole } += 1;
                        if ours != shown && !DIFFERS.iter().any(|part| sent.target.contains(part)) {
                            others.insert(difference(&world, &sent, ours, shown));
                        }
                    }
                    tally.add(&sent, &theirs, &decision);
                }
                Err(error) => wrong.push(error),
            }
            // One that has failed may have created an index before.
            if sent.may_create && [answer.status, theirs.status].iter().any(|status| *status != 403)
            {
                world.restore(&mut secure);
                world.restore(&mut direct);
            }
        }
    }
    tally.print(count);
    println!("{whole} answers compared, and {reduced} of requests that are permitted in part");
    println!("{} of them show something else: {others:#?}", others.len());
    assert!(
        wrong.is_empty(),
        "{} decisions differ from the library: {:#?}",
        wrong.len(),
        wrong.first()
    );
    assert!(others.is_empty());
    let problems = tally.problems();
    assert!(problems.is_empty(), "{problems}");
}

/// Parts of expressions for which a node with the plugin does not show all that the caller may see,
/// or leaves out that an alias is hidden: the same decision does not give the same answer.
const DIFFERS: [&str; 3] = ["hid-", ",-*stream*", ",-*ds-*"];

/// What one of two answers shows and the other does not.
fn difference(
    world: &World,
    sent: &Sent,
    ours: &BTreeSet<String>,
    theirs: &BTreeSet<String>,
) -> String {
    let more: Vec<_> = ours.difference(theirs).collect();
    let less: Vec<_> = theirs.difference(ours).collect();
    let roles: Vec<String> =
        sent.roles.split(',').map(|role| world.roles[role].to_string()).collect();
    format!("{}: {more:?} in place of {less:?} (roles {})", sent.shown(), roles.join(", "))
}
