//! Bulk requests with `bulk: per-item`: each item has the answer that the plugin gives it.

use std::collections::BTreeMap;

use fastrand::Rng;
use search::Inventory;
use serde_json::{Value, json};

use crate::decision::{self, Decision};
use crate::node::Node;
use crate::requests::{NAMES, Sent};
use crate::world::{self, ROLES, World};
use crate::{Gateway, NODES, PER_WORLD, Place, extent};

/// An item: the index that it names, and its lines.
type Item = (&'static str, String);

/// A bulk request with its items.
fn generate(random: &mut Rng) -> (Sent, Vec<Item>) {
    let roles: Vec<String> =
        (0..random.usize(2..=6)).map(|_| format!("r{}", random.usize(..ROLES))).collect();
    let names: Vec<&str> =
        (0..random.usize(1..=4)).map(|_| NAMES[random.usize(..NAMES.len())]).collect();
    let of_path = random.bool().then(|| names[0]);
    let mut items = Vec::new();
    for number in 0..random.usize(1..9) {
        let name = names[random.usize(..names.len())];
        let id = format!("new-{number}");
        let of = match of_path {
            Some(path) if path == name => json!({ "_id": id }),
            _ => json!({ "_index": name, "_id": id }),
        };
        let operation = ["index", "create", "delete", "update"][random.usize(..4)];
        let document = match operation {
            "delete" => "",
            "update" => "{\"doc\":{\"f\":\"x\"}}\n",
            _ => "{\"f\":\"x\"}\n",
        };
        items.push((name, format!("{}\n{document}", json!({ operation: of }))));
    }
    (request(&roles.join(","), of_path, items.iter()), items)
}

fn request<'i>(roles: &str, of_path: Option<&str>, items: impl Iterator<Item = &'i Item>) -> Sent {
    Sent {
        user: "user".to_owned(),
        roles: roles.to_owned(),
        method: "POST".to_owned(),
        target: of_path.map_or("/_bulk".to_owned(), |name| format!("/{name}/_bulk")),
        body: items.map(|(_, lines)| lines.as_str()).collect(),
        is_dry: false,
        may_create: true,
    }
}

/// The status of each item. `None` where the whole request has failed for another reason than
/// privileges.
fn statuses(status: u16, text: &str, count: usize) -> Option<Vec<u64>> {
    let answer: Value = serde_json::from_str(text).unwrap_or_default();
    match (status, answer["items"].as_array()) {
        (403, _) => Some(vec![403; count]),
        (200, Some(items)) => {
            let status = |item: &Value| item.as_object()?.values().next()?["status"].as_u64();
            let statuses: Option<Vec<u64>> = items.iter().map(status).collect();
            statuses.filter(|statuses| statuses.len() == count)
        }
        _ => None,
    }
}

/// What the library permits: each item by all items on its index, and nothing without the bulk
/// itself.
fn permitted(world: &World, sent: &Sent, items: &[Item]) -> Vec<bool> {
    let mut by_index: BTreeMap<&str, bool> = BTreeMap::new();
    for (index, _) in items {
        let same =
            items.iter().filter(|(other, _)| other == index).map(|(_, lines)| lines.as_str());
        let only = Sent {
            user: sent.user.clone(),
            roles: sent.roles.clone(),
            method: sent.method.clone(),
            target: sent.target.clone(),
            body: same.collect(),
            is_dry: false,
            may_create: true,
        };
        by_index.insert(index, matches!(decision::decide(world, &only), Decision::Permitted(_)));
    }
    items.iter().map(|(index, _)| by_index[index]).collect()
}

#[derive(Debug, Default)]
struct Compared {
    requests: usize,
    /// Requests of which some items are permitted.
    in_part: usize,
    items: usize,
    same: usize,
    stricter: usize,
    /// Items that the plugin refuses only because of another one in the same shard.
    by_batch: usize,
    undecided: usize,
    wrong: Vec<String>,
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a node with the security plugin and one without: make search-conformance"]
async fn each_item_of_a_bulk_request_has_the_answer_of_the_plugin() {
    let _nodes = NODES.lock().await;
    let place = Place { bulk: "per-item", ..Place::of_environment() };
    if place.module.is_none() {
        // Over `ext_authz` a request is denied as a whole.
        return;
    }
    let (count, seed) = extent();
    let mut random = Rng::with_seed(seed);
    let (mut secure, mut direct) = (Node::at(&place.secure), Node::at(&place.plain));
    world::create(&mut secure);
    world::create(&mut direct);
    let mut compared = Compared::default();
    let mut gateway: Option<Gateway> = None;
    for _ in 0..count.div_ceil(10 * PER_WORLD) {
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
            let (sent, items) = generate(&mut random);
            let (answer, text) = secure.answer(&sent, "");
            let theirs = statuses(answer.status, &text, items.len());
            let (answer, text) = current.answer(&mut behind, &sent);
            let ours = statuses(answer.status, &text, items.len());
            let permitted = permitted(&world, &sent, &items);
            compared.requests += 1;
            compared.in_part +=
                usize::from(permitted.contains(&true) && permitted.contains(&false));
            let shown = || format!("{}: {theirs:?}, ours {ours:?}: {text}", sent.shown());
            let (Some(theirs), Some(ours)) = (&theirs, &ours) else {
                compared.undecided += items.len();
                continue;
            };
            for (number, (item, is_permitted)) in items.iter().zip(permitted).enumerate() {
                compared.items += 1;
                let (is_theirs, is_ours) = (theirs[number] != 403, ours[number] != 403);
                if is_ours != is_permitted {
                    compared
                        .wrong
                        .push(format!("item {number} is not as the library decides: {}", shown()));
                }
                match (is_theirs, is_ours) {
                    (true, false) => compared.stricter += 1,
                    (false, true) => {
                        let (_, target) = sent.target.split_once('/').unwrap();
                        let of_path = target.strip_suffix("/_bulk");
                        let (alone, _) =
                            secure.answer(&request(&sent.roles, of_path, [item].into_iter()), "");
                        match alone.allowed {
                            Some(true) => compared.by_batch += 1,
                            _ => compared
                                .wrong
                                .push(format!("item {number} is over-granted: {}", shown())),
                        }
                    }
                    _ => compared.same += 1,
                }
            }
            if ours.iter().chain(theirs).any(|status| *status < 300) {
                world.restore(&mut secure);
                world.restore(&mut direct);
            }
        }
    }
    let wrong = std::mem::take(&mut compared.wrong);
    println!("{compared:?}");
    assert!(
        wrong.is_empty(),
        "{} wrong: {:#?}",
        wrong.len(),
        wrong.iter().take(5).collect::<Vec<_>>()
    );
    assert!(compared.in_part > 0 && compared.same > 0);
}
