//! Names that make a reader look twice. Each is right somewhere, so their frequency is limited.

use super::{code_of, read, sources, split};

/// Names that say which part of a sentence a value is, and not what it is.
const PLACEHOLDERS: &[&str] = &[
    "all", "asked", "both", "first", "found", "given", "got", "held", "here", "it", "known",
    "left", "like", "named", "one", "other", "others", "own", "rest", "seen", "shown", "taken",
    "these", "those", "told", "what", "whole",
];

#[test]
fn names_are_plain() {
    let files = sources().into_iter().filter(|file| file.starts_with("crates/"));
    let texts: Vec<String> = files.filter(|file| !is_test(file)).map(|file| read(&file)).collect();
    let lines = texts.iter().flat_map(|text| code_of(split(text).0));
    let count = texts.iter().map(|text| split(text).0.lines().count()).sum::<usize>();
    let (mut bindings, mut placeholders) = (0, Vec::new());
    let (mut closures, mut prepositions) = (Vec::new(), Vec::new());
    for line in lines.map(str::trim_start) {
        let binding = line.strip_prefix("let ").map(|rest| rest.trim_start_matches("mut "));
        if let Some((name, value)) = binding.and_then(|binding| binding.split_once(" = ")) {
            bindings += 1;
            if PLACEHOLDERS.contains(&name) {
                placeholders.push(line);
            }
            if value.trim_start_matches("move ").starts_with('|') {
                closures.push(line);
            }
        }
        if line.contains("fn of(") || line.contains("fn of_") {
            prepositions.push(line);
        }
    }
    assert!(bindings > 1_000, "the bindings were not found");
    assert!(placeholders.len() * 1_000 <= bindings * 8, "{placeholders:#?}");
    assert!(
        closures.len() * 5 <= count / 1_000 * 6,
        "closures that could be functions: {closures:#?}"
    );
    assert!(prepositions.len() <= 10, "{prepositions:#?}");
}

fn is_test(file: &str) -> bool {
    file.contains("/tests")
}
