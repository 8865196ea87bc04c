//! What pages and comments refer to is in the repository: the targets of links, and files that are
//! named.

use std::path::{Component, Path, PathBuf};

use crate::tree::{files, read, root};

/// Files with these extensions are named to be read. Others may be those of a user, or be written
/// by a program.
const DOCUMENTS: [&str; 4] = [".md", ".rs", ".proto", ".yaml"];

/// `CONTRIBUTING.md` forbids it.
const NAMED_BUT_ABSENT: &str = "mod.rs";

#[test]
fn links_lead_to_files_of_the_repository() {
    let pages = files(&[]).into_iter().filter(|file| file.ends_with(".md"));
    for page in pages {
        let text = read(&page);
        for target in links(&text) {
            let target_path = beside(&page, target);
            assert!(
                root().join(target_path).exists(),
                "{page} links to `{target}`, which is not there"
            );
        }
    }
}

#[test]
fn documents_that_are_cited_are_in_the_repository() {
    let all = files(&[]);
    let is_there = |cited: &str| all.iter().any(|file| Path::new(file).ends_with(cited));
    // Examples in the help name files of the reader.
    let is_prose =
        |file: &&String| !file.starts_with("fuzz/corpus/") && !file.starts_with("docs/reference/");
    for file in all.iter().filter(is_prose) {
        let text = read(file);
        for cited in text.lines().filter_map(|line| prose(file, line)).flat_map(citations) {
            assert!(
                is_there(&cited) || cited == NAMED_BUT_ABSENT,
                "{file} cites `{cited}`, which is not in the repository"
            );
        }
    }
}

/// The targets of the links of a Markdown page that are neither on the web nor on the page itself.
fn links(page: &str) -> impl Iterator<Item = &str> {
    let targets = page.split("](").skip(1).filter_map(|after| after.split(')').next());
    let files = targets.filter(|target| !target.contains("://") && !target.starts_with('#'));
    files.filter_map(|target| target.split(['#', ' ']).next())
}

/// The path from the root of a target that is relative to a page.
fn beside(page: &str, target: &str) -> PathBuf {
    let mut path = PathBuf::new();
    let folder = Path::new(page).parent().unwrap();
    for component in folder.join(target).components() {
        if component == Component::ParentDir {
            assert!(path.pop(), "{page} links to `{target}`, which is outside of the repository");
        } else {
            path.push(component);
        }
    }
    path
}

/// What of a line is prose: all of it in a page, else its comment.
fn prose<'a>(file: &str, line: &'a str) -> Option<&'a str> {
    let extension = Path::new(file).extension().and_then(|extension| extension.to_str());
    let mark = match extension {
        Some("md") => return Some(line),
        Some("rs" | "proto") => "//",
        Some("yaml" | "yml" | "toml" | "py" | "sh" | "tpl") | None => "#",
        _ => return None,
    };
    // After `:` it is of a URL.
    let starts = line.match_indices(mark).map(|(at, _)| line.split_at(at));
    let mut comments =
        starts.filter(|(before, _)| before.is_empty() || before.ends_with(char::is_whitespace));
    comments.next().map(|(_, comment)| comment)
}

/// The documents that a text names, with or without their folder. Not `target/`, which is written,
/// and absolute paths, which are those of a user.
fn citations(prose: &str) -> Vec<String> {
    let is_of_path = |c: char| c.is_alphanumeric() || "_-./".contains(c);
    let words = prose.split_whitespace().filter(|word| !word.contains("://"));
    let names = words
        .flat_map(|word| word.split(|c| !is_of_path(c)))
        .filter(|name| !name.starts_with("target/") && !name.starts_with('/'));
    let names = names.map(|name| name.trim_start_matches(['.', '/']).trim_end_matches('.'));
    names
        .filter(|name| {
            DOCUMENTS.iter().any(|end| name.strip_suffix(end).is_some_and(|stem| !stem.is_empty()))
        })
        .map(str::to_owned)
        .collect()
}

#[test]
fn links_and_citations_are_found() {
    let page = "See [a](../a.md#part), [b](https://b.example/c.md), [d](#d) and [e](e/f.rs).";
    assert_eq!(links(page).collect::<Vec<_>>(), ["../a.md", "e/f.rs"]);
    assert_eq!(beside("docs/page.md", "../a.md"), Path::new("a.md"));
    assert_eq!(
        citations("As `page.md` and (dir/file.rs) say. Not *.rs, https://a.b/c.md."),
        ["page.md", "dir/file.rs"]
    );
    assert_eq!(prose("a.rs", "let a = 1; // as in lib.rs"), Some("// as in lib.rs"));
    assert_eq!(prose("a.rs", "let b = include_str!(\"lib.rs\");"), None);
}
