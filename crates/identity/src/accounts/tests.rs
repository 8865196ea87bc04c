//! Decoys: the accounts that stand in for users that do not exist.

use std::path::Path;

use document::{Place, Secret};
use policy::model::BasicUser;

use super::*;

/// The accounts of a policy with these hashes.
fn accounts(hashes: &[String]) -> Accounts {
    let place = || Place::start_of(Path::new("policy.yaml"));
    let user = |hash: &String| BasicUser {
        name: format!("user of {hash}").into(),
        password: Some(Secret(hash.as_str().into())),
        groups: Vec::new(),
        at: place(),
    };
    let settings = model::Basic {
        realm: "people".into(),
        users: hashes.iter().map(user).collect(),
        verify: true,
        user_prefix: "".into(),
        group_prefix: "".into(),
        at: place(),
    };
    let mut problems = Vec::new();
    let accounts = Accounts::compile(&settings, &mut problems);
    assert_eq!(accounts.decoys.len(), hashes.len());
    accounts
}

/// Hashes of four costs. Another seed gives other hashes.
fn hashes(seed: u32, count: u32) -> Vec<String> {
    let digest = "u".repeat(31);
    (0..count)
        .map(|number| format!("$2b$0{}${seed:011}{number:011}{digest}", 4 + number % 4))
        .collect()
}

/// The parameters of the hash that is computed for an unknown user.
fn cost(accounts: &Accounts, name: usize) -> String {
    let decoy = accounts.decoy(&format!("nobody {name}")).unwrap();
    decoy.hash_text.as_ref().unwrap().0.chars().take(6).collect()
}

/// The percentage of names whose cost differs.
fn differing(one: &Accounts, other: &Accounts) -> usize {
    (0..1_000).filter(|name| cost(one, *name) != cost(other, *name)).count() / 10
}

/// The decoy of an unknown name depends on the name and the policy alone.
#[test]
fn an_unknown_user_costs_the_same_after_a_restart_and_on_each_replica() {
    let mut hashes = hashes(1, 40);
    let one = accounts(&hashes);
    assert_eq!(differing(&one, &accounts(&hashes)), 0);
    hashes.reverse();
    hashes.swap(3, 17);
    assert_eq!(differing(&one, &accounts(&hashes)), 0, "whatever the order in the file");
}

#[test]
fn an_unknown_user_gets_another_decoy_under_another_policy() {
    let differing = differing(&accounts(&hashes(1, 40)), &accounts(&hashes(2, 40)));
    assert!((65..85).contains(&differing), "{differing} % of four costs, where 75 % are expected");
}

#[test]
fn each_account_is_the_decoy_of_equally_many_names() {
    let accounts = accounts(&hashes(1, 5));
    let mut counts: HashMap<&str, u32> = HashMap::new();
    for name in 0..10_000 {
        *counts.entry(&accounts.decoy(&format!("nobody {name}")).unwrap().name).or_default() += 1;
    }
    assert_eq!(counts.len(), 5);
    assert!(counts.values().all(|count| (1_850..2_150).contains(count)), "{counts:?}");
}

/// A user that exists keeps its cost when another changes its password. So must one that does not.
#[test]
fn a_changed_password_changes_the_cost_of_few_unknown_users() {
    let before = hashes(1, 100);
    let one = accounts(&before);
    let moved = |place: usize| {
        let mut after = before.clone();
        after[place] = hashes(2, 100)[place].clone();
        differing(&one, &accounts(&after))
    };
    let large = (0..100).filter(|place| moved(*place) > 5).count();
    assert!(large <= 10, "{large} of 100 changes move more than 5 % of the names");
}

#[test]
fn an_added_user_changes_the_cost_of_few_unknown_users() {
    let mut hashes = hashes(1, 100);
    let one = accounts(&hashes);
    let moved = (2..32).filter(|seed| {
        hashes.push(self::hashes(*seed, 1)[0].clone());
        let moved = differing(&one, &accounts(&hashes)) > 5;
        hashes.pop();
        moved
    });
    assert!(moved.count() <= 10);
}

#[test]
fn a_policy_without_accounts_has_no_decoy() {
    assert!(accounts(&[]).decoy("nobody").is_none());
}

/// It is not the first one, which would cost all unknown users the same, and users that exist
/// something else.
#[test]
fn the_password_of_an_unknown_user_is_hashed_like_that_of_its_decoy() {
    let accounts = accounts(&hashes(1, 40));
    for number in 0..20 {
        let name = format!("nobody {number}");
        let account = accounts.account_or_decoy(&name).unwrap();
        assert!(Arc::ptr_eq(&account, accounts.decoy(&name).unwrap()), "{name}");
    }
}
