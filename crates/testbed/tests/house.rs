//! The rules of the house that a program can check: who may use whom, how long a file is, what no file contains.

#![expect(clippy::unwrap_used, reason = "a failed set-up is a failed test")]
#![expect(clippy::panic, reason = "a file that cannot be read as Rust is a failed test")]
#![expect(clippy::indexing_slicing, reason = "modules are found by their index, files by their name")]
#![expect(clippy::disallowed_methods, reason = "the tree is what is tested")]

#[path = "house/circles.rs"]
mod circles;
#[path = "house/citations.rs"]
mod citations;
#[path = "house/modules.rs"]
mod modules;
#[path = "house/tree.rs"]
mod tree;

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use tree::{code_of, files, read, root, sources, split};

/// The table of `crates/README.md`: the crates of ours that each of ours may use outside its tests.
const ARROWS: &[(&str, &[&str])] = &[
    ("policy", &[]),
    ("engine", &["policy"]),
    ("identity", &["policy"]),
    ("authorizer", &["policy", "engine", "identity"]),
    ("envoy", &[]),
    ("sidecar", &["policy", "engine", "identity", "authorizer", "envoy"]),
    ("load", &["envoy", "testbed"]),
    ("testbed", &["policy"]),
    ("benches", &["policy", "engine", "identity", "authorizer", "envoy", "sidecar"]),
    ("fuzz", &["policy", "engine", "identity", "authorizer", "envoy"]),
];

/// Those that do I/O and read the clock and the environment, or only exist to test or to measure.
const MAY_DO_IO: &[&str] = &["crates/sidecar/", "crates/load/", "crates/testbed/", "benches/", "fuzz/"];

/// What I/O, the clock and the environment look like.
const IO: &[&str] = &[
    "std::fs",
    "std::env::",
    "std::process",
    "std::os::unix::net",
    "std::net::Tcp",
    "std::net::Udp",
    "std::net::ToSocketAddrs",
    "std::io::stdin",
    "std::io::stdout",
    "std::io::stderr",
    "std::thread::sleep",
    "SystemTime",
    "Instant",
    "tokio::",
];

#[test]
fn dependencies_between_our_crates_point_as_drawn() {
    let metadata = metadata();
    let packages = metadata["packages"].as_array().unwrap();
    let ours: Vec<&str> = packages.iter().map(|it| it["name"].as_str().unwrap()).collect();
    let drawn: BTreeMap<&str, &[&str]> = ARROWS.iter().copied().collect();
    for package in packages {
        let name = package["name"].as_str().unwrap();
        let allowed =
            drawn.get(name).unwrap_or_else(|| panic!("`{name}` is not a crate of the table `ARROWS`"));
        for dependency in package["dependencies"].as_array().unwrap() {
            let to = dependency["name"].as_str().unwrap();
            let only_for_tests = dependency["kind"] == "dev";
            assert!(
                only_for_tests || !ours.contains(&to) || allowed.contains(&to),
                "`{name}` uses `{to}`, and may not"
            );
        }
    }
}

#[test]
fn each_package_inherits_the_lints_and_the_versions() {
    for manifest in files(&[]).into_iter().filter(|it| it.ends_with("/Cargo.toml")) {
        let text = read(&manifest);
        assert!(text.contains("[lints]\nworkspace = true"), "{manifest} does not inherit the lints");
        let mut section = "";
        for line in text.lines() {
            if line.starts_with('[') {
                section = line;
            } else if section.ends_with("dependencies]") && line.contains('=') && !line.starts_with('#') {
                assert!(line.contains("workspace = true"), "{manifest}: `{line}` names a version of its own");
            }
        }
    }
}

#[test]
fn files_are_short() {
    for file in sources() {
        let text = read(&file);
        let (code, tests) = split(&text);
        let in_tests = file.ends_with("/tests.rs") || file.contains("/tests/");
        let (code, tests) = (code.lines().count(), tests.lines().count());
        assert!(in_tests || code < 500, "{file} has {code} lines before its tests; 500 are too many");
        assert!(tests <= 105, "{file} has {tests} lines of tests; over 100 they have their own file");
    }
}

#[test]
fn each_file_opens_with_what_it_is() {
    for file in sources() {
        assert!(read(&file).starts_with("//! "), "{file} does not say what it is");
    }
}

#[test]
fn names_say_something() {
    for file in sources() {
        let path = Path::new(&file);
        let stem = path.file_stem().unwrap().to_str().unwrap();
        assert_ne!(path.file_name().unwrap(), "mod.rs", "{file}: there is no mod.rs");
        let empty =
            ["util", "utils", "common", "core", "manager", "handler", "handlers", "helpers", "misc", "kind"];
        assert!(!empty.contains(&stem), "{file}: `{stem}` says nothing");
        let folders = path.parent().into_iter().flat_map(Path::components);
        for folder in folders {
            let folder = folder.as_os_str().to_str().unwrap();
            assert!(!empty.contains(&folder), "{file}: `{folder}` says nothing");
        }
    }
}

/// Invariant 4 of `crates/README.md`.
#[test]
fn only_the_outermost_crates_do_io() {
    for file in sources() {
        let tests = file.ends_with("/tests.rs") || file.contains("/tests/") || file.contains("/examples/");
        if tests || MAY_DO_IO.iter().any(|it| file.starts_with(it)) {
            continue;
        }
        let text = read(&file);
        for line in code_of(split(&text).0) {
            let nested =
                line.contains("std::{") && ["fs", "env", "process"].iter().any(|it| has_word(line, it));
            let found = IO.iter().find(|it| has_word(line, it));
            assert!(!nested && found.is_none(), "{file} does I/O or reads the clock: `{}`", line.trim());
        }
    }
}

#[test]
fn nothing_is_left_undone() {
    for file in sources() {
        // Written in two halves, so that this file is not found.
        let marks = [
            concat!("TO", "DO"),
            concat!("FIX", "ME"),
            concat!("to", "do!("),
            concat!("unimplemented", "!("),
        ];
        let text = read(&file);
        for mark in marks.into_iter().chain([concat!("db", "g!(")]) {
            assert!(!text.contains(mark), "{file} contains `{mark}`");
        }
    }
}

/// What is true on one machine only has no place in the tree.
#[test]
fn no_file_names_a_place_of_one_machine() {
    let places = [
        concat!("/wo", "rk/main"),
        concat!("/wo", "rk/shared"),
        concat!("/ro", "ot/."),
        concat!("/ho", "me/"),
    ];
    let hosts = [concat!("py", "pi.org"), concat!("index.cra", "tes.io"), concat!("static.cra", "tes.io")];
    for file in files(&[".svg", ".bin"]).into_iter().filter(|it| !it.starts_with("fuzz/corpus/")) {
        let text = read(&file);
        for place in places.into_iter().chain(hosts) {
            assert!(!text.contains(place), "{file} names `{place}`");
        }
    }
}

#[test]
fn readers_find_every_crate_on_the_map() {
    let map = read("crates/README.md");
    for crate_ in std::fs::read_dir(root().join("crates")).unwrap().flatten() {
        let name = crate_.file_name().into_string().unwrap();
        assert!(
            !crate_.path().is_dir() || map.contains(&format!("`{name}`")),
            "`{name}` is not in crates/README.md"
        );
    }
    assert!(read("README.md").lines().count() < 200, "README.md is too long for a user in a hurry");
}

/// Invariant 1 of `crates/README.md`: a new variant must not get an old answer. Clippy checks that where the lint is on.
#[test]
fn catch_all_arms_are_forbidden_where_answers_are_made() {
    for name in ["authorizer", "engine", "envoy", "identity", "sidecar"] {
        let denied = "\n#![deny(clippy::wildcard_enum_match_arm)]\n";
        assert!(
            read(&format!("crates/{name}/src/lib.rs")).contains(denied),
            "`{name}` does not deny the lint"
        );
    }
}

/// What is said of the invariants is true: the tests that are named are there.
#[test]
fn readers_find_the_tests_of_the_invariants() {
    let map = read("crates/README.md");
    let invariants = map.split("\n## ").find(|it| it.starts_with("Invariants")).unwrap();
    let quoted = invariants.split('`').skip(1).step_by(2);
    let tests: Vec<&str> = quoted.filter(|name| name.contains('_') && !name.contains(['/', ':'])).collect();
    assert!(tests.len() >= 8, "the invariants name only {tests:?}");
    let all: Vec<String> = sources().iter().map(|it| read(it)).collect();
    for test in tests {
        let head = format!("fn {test}()");
        assert!(all.iter().any(|it| it.contains(&head)), "crates/README.md names `{test}`, which is nowhere");
    }
}

/// The tests that `SECURITY.md` names in the last column of its guarantees exist.
#[test]
fn readers_find_the_tests_of_the_guarantees() {
    let page = read("SECURITY.md");
    let all: Vec<String> = sources().iter().map(|file| read(file)).collect();
    let mut found = 0;
    for row in page.lines().filter(|line| line.starts_with("| S")) {
        let held_by = row.trim_end_matches(" |").rsplit(" | ").next().unwrap_or_default();
        let quoted = held_by.split('`').skip(1).step_by(2);
        for test in quoted.filter(|name| name.contains('_') && !name.contains(['/', '.', ' '])) {
            let head = format!("fn {test}()");
            assert!(all.iter().any(|text| text.contains(&head)), "SECURITY.md names `{test}`, not a test");
            found += 1;
        }
    }
    assert!(found >= 50, "the guarantees name only {found} tests");
}

#[test]
fn a_name_is_found_as_a_whole_word() {
    assert!(has_word("let at = Instant::now();", "Instant") && has_word("use std::env::var;", "std::env::"));
    assert!(!has_word("Instantiate", "Instant") && !has_word("not_tokio::spawn", "tokio::"));
}

/// The version of Envoy that is fetched is the one that is looked for.
#[test]
fn the_version_of_envoy_is_the_same_everywhere() {
    let makefile = read("Makefile");
    let version = makefile.lines().find_map(|line| line.strip_prefix("ENVOY_VERSION := ")).unwrap();
    assert!(read("crates/testbed/src/envoy.rs").contains(&format!(".tools/envoy-{version}\"")));
}

fn metadata() -> Value {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version", "1", "--no-deps", "--offline"])
        .current_dir(root())
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Whether `word` stands in `line`, and not as a part of a longer name.
fn has_word(line: &str, word: &str) -> bool {
    let part_of_name = |it: Option<char>| it.is_some_and(|it| it.is_alphanumeric() || it == '_');
    line.match_indices(word).any(|(at, _)| {
        let (before, rest) = line.split_at(at);
        let after = rest.strip_prefix(word).and_then(|it| it.chars().next());
        !part_of_name(before.chars().next_back()) && (word.ends_with(':') || !part_of_name(after))
    })
}
