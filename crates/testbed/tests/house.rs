//! The rules of the house that a program can check: who may use whom, how long a file is, what no file contains.

#![expect(clippy::unwrap_used, reason = "a failed set-up is a failed test")]
#![expect(clippy::disallowed_methods, reason = "the tree is what is tested")]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

/// The table of `crates/README.md`: the crates of ours that each of ours may use outside its tests.
const ARROWS: &[(&str, &[&str])] = &[
    ("policy", &[]),
    ("engine", &["policy"]),
    ("identity", &["policy"]),
    ("authorizer", &["policy", "engine", "identity"]),
    ("envoy", &[]),
    ("sidecar", &["policy", "engine", "identity", "authorizer", "envoy"]),
    ("load", &[]),
    ("testbed", &["policy"]),
    ("benches", &["policy", "engine", "identity", "authorizer", "envoy", "load", "testbed"]),
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

/// Invariant 1 of `crates/README.md`: where an answer is chosen, a new case must not fall into an old answer.
#[test]
fn answers_are_chosen_without_a_rest() {
    let authorizer = ["lib.rs", "verdict.rs"].map(|it| format!("crates/authorizer/src/{it}"));
    let server = ["check.rs", "decision.rs"].map(|it| format!("crates/sidecar/src/grpc/{it}"));
    for file in authorizer.into_iter().chain(server) {
        let text = read(&file);
        let rest = code_of(split(&text).0).find(|line| line.trim_start().starts_with("_ =>"));
        assert!(rest.is_none(), "{file} has a match with a rest: `{}`", rest.unwrap_or_default().trim());
    }
}

/// What is said of the invariants is true: the tests that are named are there.
#[test]
fn readers_find_the_tests_of_the_invariants() {
    let map = read("crates/README.md");
    let invariants = map.split("\n## ").find(|it| it.starts_with("Invariants")).unwrap();
    let quoted = invariants.split('`').skip(1).step_by(2);
    let tests: Vec<&str> = quoted.filter(|it| it.contains('_') && !it.contains('/')).collect();
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

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap().to_path_buf()
}

fn read(file: &str) -> String {
    String::from_utf8_lossy(&std::fs::read(root().join(file)).unwrap()).into_owned()
}

/// Our Rust files, without generated ones.
fn sources() -> Vec<String> {
    files(&[]).into_iter().filter(|it| it.ends_with(".rs") && !it.contains("/generated/")).collect()
}

/// Every file of the tree that is not built or fetched, by its path from the root.
fn files(but: &[&str]) -> Vec<String> {
    let mut all = Vec::new();
    for top in ["crates", "benches", "docs", "fuzz", "policies", "proto", "deploy", ".ci"] {
        walk(&root(), Path::new(top), &mut all);
    }
    let at_the_root = ["Makefile", "README.md", "SECURITY.md", "CONTRIBUTING.md", "deny.toml", "clippy.toml"];
    all.extend(at_the_root.map(str::to_owned));
    all.retain(|it| !but.iter().any(|end| it.ends_with(end)));
    assert!(all.len() > 50, "the tree was not found");
    all
}

fn walk(root: &Path, folder: &Path, all: &mut Vec<String>) {
    for entry in std::fs::read_dir(root.join(folder)).into_iter().flatten().flatten() {
        let path = folder.join(entry.file_name());
        match entry.file_type().unwrap() {
            it if it.is_dir() && path.file_name().unwrap() != "target" => walk(root, &path, all),
            it if it.is_file() => all.push(path.to_str().unwrap().to_owned()),
            _ => {}
        }
    }
}

/// What stands before the tests of a file, and its tests.
fn split(text: &str) -> (&str, &str) {
    text.find("#[cfg(test)]\nmod tests {").map_or((text, ""), |at| text.split_at(at))
}

/// The lines of a text that are not comments.
fn code_of(text: &str) -> impl Iterator<Item = &str> {
    text.lines().filter(|line| !line.trim_start().starts_with("//"))
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
