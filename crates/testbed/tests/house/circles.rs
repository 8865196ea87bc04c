//! No two files of a crate use each other, in one step or in many, unless one is the module and the
//! other is within it.
//!
//! To understand one file of a circle, a reader must know all of them.

use std::collections::{BTreeMap, BTreeSet};

use crate::modules::{Modules, Uses};
use crate::tree::sources;

#[test]
fn files_of_a_crate_use_each_other_in_one_direction() {
    let mut found = String::new();
    for root in sources().into_iter().filter(|file| is_root(file)) {
        let uses = Modules::of_crate(&root).uses();
        for circle in circles(&uses) {
            found.push_str(&format!("\n{}", drawn(&circle, &uses)));
        }
    }
    assert!(found.is_empty(), "files use each other in circles:{found}");
}

/// The root of a crate: of a library, of a program.
fn is_root(file: &str) -> bool {
    let Some((_, within)) = file.split_once("/src/") else { return false };
    let program = within.strip_prefix("bin/");
    ["lib.rs", "main.rs"].contains(&within)
        || program.is_some_and(|name| {
            !name.contains('/') || name.matches('/').count() == 1 && name.ends_with("/main.rs")
        })
}

/// For each file that is in a circle, the shortest one; each once.
fn circles(uses: &Uses) -> BTreeSet<Vec<String>> {
    uses.keys().filter_map(|file| circle_through(file, uses)).collect()
}

/// The shortest circle through a file, beginning with its first file in the order of names.
fn circle_through(start: &str, uses: &Uses) -> Option<Vec<String>> {
    let mut came_from: BTreeMap<&str, &str> = BTreeMap::new();
    let mut queue = std::collections::VecDeque::from([start]);
    while let Some(file) = queue.pop_front() {
        for used in uses.get(file).into_iter().flat_map(BTreeMap::keys) {
            if used == start {
                let back = std::iter::successors(Some(file), |file| came_from.get(file).copied());
                let mut circle: Vec<String> = back.map(str::to_owned).collect();
                circle.reverse();
                let first = (0..circle.len()).min_by_key(|&at| circle[at].clone())?;
                circle.rotate_left(first);
                return Some(circle);
            }
            if !came_from.contains_key(used.as_str()) {
                came_from.insert(used, file);
                queue.push_back(used);
            }
        }
    }
    None
}

fn drawn(circle: &[String], uses: &Uses) -> String {
    let mut text = circle[0].clone();
    for (at, file) in circle.iter().enumerate() {
        let next = &circle[(at + 1) % circle.len()];
        text.push_str(&format!(" → {next} (`{}`)", uses[file][next]));
    }
    text
}

#[test]
fn a_circle_is_found_and_drawn() {
    let files = |names: &[&str]| {
        names.iter().map(|name| ((*name).to_owned(), format!("crate::{name}"))).collect()
    };
    let uses: Uses = [("a", files(&["b"])), ("b", files(&["c"])), ("c", files(&["d", "b"]))]
        .map(|(file, used)| (file.to_owned(), used))
        .into();
    let circle = vec!["b".to_owned(), "c".to_owned()];
    assert_eq!(circles(&uses), BTreeSet::from([circle.clone()]));
    assert_eq!(drawn(&circle, &uses), "b → c (`crate::c`) → b (`crate::b`)");
}
