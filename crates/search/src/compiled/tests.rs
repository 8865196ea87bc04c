//! Tests of the evaluator: what it keeps, and in other files what it answers.

mod meaning;
mod random;

use std::path::Path;
use std::sync::mpsc;
use std::time::Duration;

use document::MapFiles;

use super::*;
use crate::explain::{requirement, with_each_role};
use crate::{Expression, InventoryBuilder, Need, Options, Target};

fn privileges() -> Privileges {
    with_roles(&["a", "b", "c"])
}

fn with_roles(names: &[&str]) -> Privileges {
    let mut roles = "_meta: { type: roles, config_version: 2 }\n".to_owned();
    for role in names {
        roles.push_str(&format!(
            "{role}: {{ index_permissions: [{{ index_patterns: [{role}], allowed_actions: [read] }}] }}\n"
        ));
    }
    let files = MapFiles::new("os/roles.yml", roles);
    let config = Arc::new(SecurityConfig::load(&files, Path::new("os")).unwrap().config);
    let mut builder = InventoryBuilder::default();
    let inventory = builder.index("a", true, false).index("b", true, false).build();
    let settings = EvaluationSettings::default();
    Privileges::new(config, settings, Some(Arc::new(inventory)))
}

fn subject(roles: &[&str]) -> Subject {
    Subject { roles: roles.iter().map(ToString::to_string).collect(), ..Subject::default() }
}

#[test]
fn a_set_of_roles_is_kept_for_those_who_have_the_same() {
    let privileges = privileges();
    let [one, other, third] = [&["a", "b"][..], &["b", "a"], &["a"]]
        .map(|roles| privileges.caller(&subject(roles)).roles);
    assert!(Arc::ptr_eq(&one, &other));
    assert!(!Arc::ptr_eq(&one, &third));
    assert_eq!(privileges.lock_role_sets().len(), 2);
}

#[test]
fn the_sets_of_roles_that_are_kept_are_bounded() {
    // All their subsets are more than are kept.
    let names = ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l", "m", "n"];
    let privileges = with_roles(&names);
    for set in 0..1_u32 << names.len() {
        let roles = names.iter().enumerate().filter(|(number, _)| set >> number & 1 == 1);
        drop(privileges.caller(&subject(&roles.map(|(_, name)| *name).collect::<Vec<_>>())));
    }
    assert_eq!(privileges.lock_role_sets().len(), MAX_ROLE_SETS);
}

/// Explanations may run at a low priority: no decision waits for them, and they take no place in a
/// cache.
#[test]
fn explaining_takes_no_lock_and_no_place_in_a_cache() {
    let privileges = privileges();
    let (done, is_done) = mpsc::channel();
    std::thread::scope(|scope| {
        let sets = privileges.lock_role_sets();
        let shards = privileges.expressions.lock_all();
        scope.spawn(|| {
            let search = Action::named("indices:data/read/search").unwrap();
            let expression = Expression::new("a*,b*", Options::OPEN);
            let needs = [Need {
                actions: Vec::leak(vec![search]),
                target: Target::Indices(expression),
                is_copied: false,
                shows_hidden_terms: false,
                adds_names: false,
            }];
            let caller = privileges.uncached_caller(&subject(&["a"]));
            assert_eq!(privileges.decide(&caller, &needs).missing.len(), 1);
            let asking = subject(&["a"]);
            let permitting = with_each_role(&privileges, &asking, &needs);
            let permitting = permitting.filter(|(_, answer)| answer.missing.is_empty());
            assert!(permitting.map(|(role, _)| &**role).any(|role| role == "b"));
            requirement(&privileges, (&needs, false), |_| true, &mut crate::Steps::new(1_000_000))
                .unwrap();
            done.send(()).unwrap();
        });
        let waited = is_done.recv_timeout(Duration::from_secs(10));
        drop((sets, shards));
        waited.unwrap();
    });
    assert_eq!(privileges.lock_role_sets().len(), 0);
}
