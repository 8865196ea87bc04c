//! The files of the repository.

use std::path::{Path, PathBuf};

pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap().to_path_buf()
}

pub(crate) fn read(file: &str) -> String {
    String::from_utf8_lossy(&std::fs::read(root().join(file)).unwrap()).into_owned()
}

/// Our Rust files, without generated ones.
pub(crate) fn sources() -> Vec<String> {
    files(&[])
        .into_iter()
        .filter(|file| file.ends_with(".rs") && !file.contains("/generated/"))
        .collect()
}

/// Every file that is neither built nor fetched, by its path from the root.
pub(crate) fn files(but: &[&str]) -> Vec<String> {
    let mut all = Vec::new();
    for top in
        ["crates", "benches", "docs", "examples", "fuzz", "policies", "proto", "deploy", ".ci"]
    {
        walk(&root(), Path::new(top), &mut all);
    }
    let at_the_root = [
        "Cargo.toml",
        "Makefile",
        "README.md",
        "SECURITY.md",
        "CONTRIBUTING.md",
        "CHANGELOG.md",
        "deny.toml",
        "clippy.toml",
        "rustfmt.toml",
    ];
    all.extend(at_the_root.map(str::to_owned));
    all.retain(|file| !but.iter().any(|end| file.ends_with(end)));
    assert!(all.len() > 50, "the tree was not found");
    all
}

fn walk(root: &Path, folder: &Path, all: &mut Vec<String>) {
    for entry in std::fs::read_dir(root.join(folder)).into_iter().flatten().flatten() {
        let path = folder.join(entry.file_name());
        match entry.file_type().unwrap() {
            kind if kind.is_dir() && path.file_name().unwrap() != "target" => {
                walk(root, &path, all)
            }
            kind if kind.is_file() => all.push(path.to_str().unwrap().to_owned()),
            _ => {}
        }
    }
}

/// The text of a file before its tests, and its tests.
pub(crate) fn split(text: &str) -> (&str, &str) {
    text.find("#[cfg(test)]\nmod tests {").map_or((text, ""), |at| text.split_at(at))
}

/// The lines of a text that are not comments.
pub(crate) fn code_of(text: &str) -> impl Iterator<Item = &str> {
    text.lines().filter(|line| !line.trim_start().starts_with("//"))
}
