//! Rules for the code that a program can check: dependencies between crates and files, lengths of
//! files, what no file contains, and that what pages cite exists.

#![expect(clippy::unwrap_used, reason = "a failed set-up is a failed test")]
#![expect(clippy::panic, reason = "a file that cannot be read as Rust is a failed test")]
#![expect(
    clippy::indexing_slicing,
    reason = "modules are found by their index, files by their name"
)]
#![expect(clippy::disallowed_methods, reason = "the tree is what is tested")]

#[path = "house/circles.rs"]
mod circles;
#[path = "house/citations.rs"]
mod citations;
#[path = "house/modules.rs"]
mod modules;
#[path = "house/plain.rs"]
mod plain;
#[path = "house/tree.rs"]
mod tree;

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use tree::{code_of, files, read, root, sources, split};

/// The table of `crates/README.md`: which crates of this workspace each crate may use outside its
/// tests.
const ARROWS: &[(&str, &[&str])] = &[
    ("document", &[]),
    ("condition", &[]),
    ("policy", &["condition", "document"]),
    ("lint", &["condition", "document", "policy"]),
    ("generator", &["condition", "document", "policy"]),
    ("engine", &["condition", "document", "policy"]),
    ("identity", &["document", "policy"]),
    ("identity-header", &[]),
    (
        "authorizer",
        &["condition", "document", "policy", "engine", "identity", "identity-header", "search"],
    ),
    (
        "explain",
        &[
            "condition",
            "document",
            "policy",
            "engine",
            "identity",
            "authorizer",
            "search",
            "review",
        ],
    ),
    ("authzen", &["authorizer", "explain", "identity", "policy"]),
    ("rolegate-authorizer", &["authorizer", "document", "explain", "identity", "policy"]),
    ("axum-example", &["rolegate-authorizer"]),
    ("search", &["document"]),
    ("envoy", &[]),
    ("bundle", &["document"]),
    ("runtime", &["document", "policy", "lint", "bundle", "identity", "authorizer"]),
    ("server", &["condition", "identity", "authorizer", "authzen", "envoy", "runtime"]),
    ("console", &["document", "policy", "authorizer", "explain", "review", "runtime", "server"]),
    ("review", &["condition", "document", "policy"]),
    ("import", &["condition", "document", "policy", "lint"]),
    ("envoy-lint", &["document"]),
    ("proxy-lint", &["document"]),
    (
        "rolegate",
        &[
            "document",
            "policy",
            "bundle",
            "identity",
            "authorizer",
            "explain",
            "review",
            "import",
            "envoy-lint",
            "proxy-lint",
            "runtime",
            "server",
            "console",
        ],
    ),
    (
        "module",
        &["document", "policy", "identity", "authorizer", "envoy", "runtime", "server", "console"],
    ),
    ("install", &[]),
    ("load", &[]),
    ("testbed", &["document", "policy", "load"]),
    ("benches", &["envoy", "identity", "load", "testbed"]),
    ("micro", &["document", "policy"]),
    (
        "fuzz",
        &[
            "document",
            "policy",
            "bundle",
            "engine",
            "identity",
            "identity-header",
            "authorizer",
            "envoy",
            "module",
            "search",
        ],
    ),
];

/// Crates that may do I/O and read the clock and the environment, or only exist to test or to
/// measure.
const MAY_DO_IO: &[&str] = &[
    "crates/console/",
    "crates/install/",
    "crates/module/",
    "crates/rolegate/",
    "crates/rolegate-authorizer/",
    "crates/runtime/",
    "crates/server/",
    "crates/load/",
    "crates/testbed/",
    "benches/",
    "examples/",
    "fuzz/",
];

/// Names of I/O, the clock and the environment.
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
    let ours: Vec<&str> =
        packages.iter().map(|package| package["name"].as_str().unwrap()).collect();
    let drawn: BTreeMap<&str, &[&str]> = ARROWS.iter().copied().collect();
    for package in packages {
        let name = package["name"].as_str().unwrap();
        let allowed = drawn
            .get(name)
            .unwrap_or_else(|| panic!("`{name}` is not a crate of the table `ARROWS`"));
        for dependency in package["dependencies"].as_array().unwrap() {
            let to = dependency["name"].as_str().unwrap();
            let only_for_tests = dependency["kind"] == "dev";
            assert!(
                only_for_tests || !ours.contains(&to) || allowed.contains(&to),
                "`{name}` must not use `{to}`"
            );
        }
    }
}

#[test]
fn each_package_inherits_the_lints_and_the_versions() {
    for manifest in files(&[]).into_iter().filter(|file| file.ends_with("/Cargo.toml")) {
        let text = read(&manifest);
        let inherits = text.contains("[lints]\nworkspace = true");
        assert!(inherits || manifest == UNSAFE, "{manifest} does not inherit the lints");
        let mut section = "";
        for line in text.lines() {
            if line.starts_with('[') {
                section = line;
            } else if section.ends_with("dependencies]")
                && line.contains('=')
                && !line.starts_with('#')
            {
                assert!(
                    line.contains("workspace = true"),
                    "{manifest}: `{line}` names a version of its own"
                );
            }
        }
    }
}

/// The only crate with `unsafe`. A package cannot change one of the workspace's lints, so it has
/// them all again.
const UNSAFE: &str = "crates/module/Cargo.toml";

#[test]
fn only_the_module_for_envoy_has_unsafe_code_and_only_where_it_says_so() {
    let (workspace, module) = (read("Cargo.toml"), read(UNSAFE));
    let forbidden = "unsafe_code = \"forbid\"";
    for tool in ["rust", "clippy"] {
        let own = section(&module, &format!("[lints.{tool}]"));
        for lint in section(&workspace, &format!("[workspace.lints.{tool}]")) {
            let expected = if lint == forbidden { "unsafe_code = \"deny\"" } else { lint };
            assert!(own.contains(&expected), "{UNSAFE} has no `{expected}`");
        }
    }
    let expects = |file: &String| read(file).contains(concat!("expect(", "unsafe_code"));
    let found: Vec<String> = sources().into_iter().filter(expects).collect();
    let allowed = ["abi.rs", "allocator.rs", "exports.rs", "fake.rs"]
        .map(|file| format!("crates/module/src/{file}"));
    assert!(found.iter().all(|file| allowed.contains(file)), "{found:?} have unsafe code");
}

/// The lines of a section of a manifest.
fn section<'a>(manifest: &'a str, head: &str) -> Vec<&'a str> {
    let lines = manifest.lines().skip_while(|line| *line != head).skip(1);
    lines
        .take_while(|line| !line.starts_with('['))
        .filter(|line| line.contains(" = ") && !line.starts_with('#'))
        .collect()
}

#[test]
fn files_are_short() {
    for file in sources() {
        let text = read(&file);
        let (code, tests) = split(&text);
        let in_tests = file.ends_with("/tests.rs") || file.contains("/tests/");
        let (code, tests) = (code.lines().count(), tests.lines().count());
        assert!(
            in_tests || code < 800,
            "{file} has {code} lines before its tests; 800 are too many"
        );
        assert!(
            tests <= 150,
            "{file} has {tests} lines of tests; over 150 they have their own file"
        );
    }
}

#[test]
fn each_file_begins_with_a_header() {
    for file in sources() {
        assert!(read(&file).starts_with("//! "), "{file} does not begin with `//! `");
    }
}

#[test]
fn names_say_something() {
    for file in sources() {
        let path = Path::new(&file);
        let stem = path.file_stem().unwrap().to_str().unwrap();
        assert_ne!(path.file_name().unwrap(), "mod.rs", "{file}: there is no mod.rs");
        let empty = [
            "util", "utils", "common", "core", "manager", "handler", "handlers", "helpers", "misc",
            "kind",
        ];
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
        let tests =
            file.ends_with("/tests.rs") || file.contains("/tests/") || file.contains("/examples/");
        if tests || MAY_DO_IO.iter().any(|folder| file.starts_with(folder)) {
            continue;
        }
        let text = read(&file);
        for line in code_of(split(&text).0) {
            let nested = line.contains("std::{")
                && ["fs", "env", "process"].iter().any(|name| has_word(line, name));
            let found = IO.iter().find(|name| has_word(line, name));
            assert!(
                !nested && found.is_none(),
                "{file} does I/O or reads the clock: `{}`",
                line.trim()
            );
        }
    }
}

#[test]
fn nothing_is_unfinished() {
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

/// The tree must not depend on one machine.
#[test]
fn no_file_names_a_place_of_one_machine() {
    let places = [
        concat!("/wo", "rk/main"),
        concat!("/wo", "rk/shared"),
        concat!("/ro", "ot/."),
        concat!("/ho", "me/"),
    ];
    let hosts =
        [concat!("py", "pi.org"), concat!("index.cra", "tes.io"), concat!("static.cra", "tes.io")];
    for file in
        files(&[".svg", ".bin"]).into_iter().filter(|file| !file.starts_with("fuzz/corpus/"))
    {
        let text = read(&file);
        for place in places.into_iter().chain(hosts) {
            assert!(!text.contains(place), "{file} names `{place}`");
        }
    }
}

/// Nothing builds what the scripts and pages name until somebody runs them, so a renamed crate
/// breaks a release unseen.
#[test]
fn packages_that_scripts_and_pages_name_exist() {
    let metadata = metadata();
    let packages = metadata["packages"].as_array().unwrap();
    let package_names: Vec<&str> =
        packages.iter().map(|package| package["name"].as_str().unwrap()).collect();
    for file in files(&[]).into_iter().filter(|file| !file.ends_with(".rs")) {
        let text = read(&file);
        let words: Vec<&str> = text.split([' ', '\n', '`', '=']).collect();
        let after_flags = words.windows(2).filter(|pair| ["--package", "-p"].contains(&pair[0]));
        for package in after_flags.map(|pair| pair[1]) {
            let is_name = package.starts_with(|c: char| c.is_ascii_lowercase());
            assert!(
                !text.contains("cargo") || !is_name || package_names.contains(&package),
                "{file} names the package `{package}`, which is not in the workspace"
            );
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
    assert!(read("README.md").lines().count() < 200, "README.md has 200 lines or more");
}

#[test]
fn readers_find_the_functions_that_the_map_names() {
    let rows = read("crates/README.md");
    let (_, table) = rows.split_once("| question | file | function |").unwrap();
    for row in table.lines().skip(2).take_while(|line| line.starts_with('|')) {
        let named: Vec<&str> = in_code(row.rsplit_once('?').unwrap().1).collect();
        let text = read(&format!("crates/{}", named[0]));
        assert!(text.contains(&format!("fn {}", named[1])), "{row}");
    }
}

/// Invariant 1 of `crates/README.md`: a new variant must not get an old answer. Clippy checks that
/// where the lint is on.
#[test]
fn catch_all_arms_are_forbidden_where_answers_are_made() {
    for name in [
        "authorizer",
        "console",
        "engine",
        "envoy",
        "explain",
        "identity",
        "module",
        "rolegate",
        "runtime",
        "search",
        "server",
    ] {
        let denied = "\n#![deny(clippy::wildcard_enum_match_arm)]\n";
        assert!(
            read(&format!("crates/{name}/src/lib.rs")).contains(denied),
            "`{name}` does not deny the lint"
        );
    }
}

/// The tests exist that `docs/guarantees.md` and the invariants in `crates/README.md` name, and
/// each guarantee has some.
#[test]
fn readers_find_the_tests_that_are_named() {
    let (map, table, page) =
        (read("crates/README.md"), read("docs/guarantees.md"), read("SECURITY.md"));
    let invariants = map.split("\n## ").find(|section| section.starts_with("Invariants")).unwrap();
    let guarantees = page.lines().filter_map(|line| line.strip_prefix("* S")?.split_once(':'));
    for (id, _) in guarantees {
        assert!(
            table.contains(&format!("\n| S{id} | `")),
            "docs/guarantees.md has no test of S{id}"
        );
    }
    let all: Vec<String> = sources().iter().map(|file| read(file)).collect();
    let names =
        table.lines().chain([invariants]).flat_map(in_code).filter(|name| name.contains('_'));
    for name in names.filter(|name| !name.contains(['/', '.', ' ', ':'])) {
        let head = format!("fn {name}()");
        assert!(all.iter().any(|text| text.contains(&head)), "`{name}` is no test");
    }
}

/// What a text has between backticks.
fn in_code(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

#[test]
fn a_name_is_found_as_a_whole_word() {
    assert!(
        has_word("let at = Instant::now();", "Instant")
            && has_word("use std::env::var;", "std::env::")
    );
    assert!(!has_word("Instantiate", "Instant") && !has_word("not_tokio::spawn", "tokio::"));
}

/// The Makefile fetches the versions of Envoy that the tests start.
#[test]
fn the_versions_of_envoy_and_chromium_are_the_same_everywhere() {
    let makefile = read("Makefile");
    for (fetched, constant, program) in [
        ("ENVOY_VERSION", "VERSION", "envoy"),
        ("ENVOY_OLDER_VERSION", "OLDER_VERSION", "envoy"),
        ("CHROMIUM_VERSION", "VERSION", "browser"),
    ] {
        let started = read(&format!("crates/testbed/src/{program}.rs"));
        let prefix = format!("{fetched} := ");
        let version = makefile.lines().find_map(|line| line.strip_prefix(&prefix)).unwrap();
        assert!(started.contains(&format!("const {constant}: &str = \"{version}\";")), "{version}");
    }
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

/// Whether `line` contains `word`, not as a part of a longer name.
fn has_word(line: &str, word: &str) -> bool {
    let part_of_name = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || c == '_');
    line.match_indices(word).any(|(at, _)| {
        let (before, rest) = line.split_at(at);
        let after = rest.strip_prefix(word).and_then(|rest| rest.chars().next());
        !part_of_name(before.chars().next_back()) && (word.ends_with(':') || !part_of_name(after))
    })
}
