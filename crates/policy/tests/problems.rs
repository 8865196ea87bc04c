//! The messages for broken and doubtful policies: exactly these lines, for each of the policies in
//! `problems/`.
//!
//! A file there has cases: `=== title`, the text of `policy.yaml`, for each further file `>>> name`
//! and its text, then `---` and the messages, word for word.
#![expect(clippy::unwrap_used, reason = "a failed set-up is a failed test")]

use std::path::Path;

use document::{FileError, Files, MapFiles, Problem};
use lint::load;
use policy::Loaded;

/// Policies as people first write them, who know another system.
const FIRST: &str = include_str!("problems/first.txt");
const SYNTAX: &str = include_str!("problems/syntax.txt");
const RULES: &str = include_str!("problems/rules.txt");
const ROLES: &str = include_str!("problems/roles.txt");
const IDENTITY: &str = include_str!("problems/identity.txt");
const RESPONSES: &str = include_str!("problems/responses.txt");
const FILES: &str = include_str!("problems/files.txt");
const WARNINGS: &str = include_str!("problems/warnings.txt");
/// Denials that leave something open, and names that stand for less than they seem to.
const OPEN: &str = include_str!("problems/open.txt");

#[test]
fn first_attempts() {
    check(FIRST);
}

#[test]
fn syntax() {
    check(SYNTAX);
}

#[test]
fn rules() {
    check(RULES);
}

#[test]
fn roles() {
    check(ROLES);
}

#[test]
fn identity() {
    check(IDENTITY);
}

#[test]
fn responses() {
    check(RESPONSES);
}

#[test]
fn files() {
    check(FILES);
}

#[test]
fn warnings() {
    check(WARNINGS);
}

#[test]
fn what_seems_closed_and_is_open() {
    check(OPEN);
}

#[test]
fn a_problem_never_shows_a_secret() {
    for text in [FIRST, SYNTAX, RULES, ROLES, IDENTITY, RESPONSES, FILES, WARNINGS, OPEN] {
        for case in text.split("=== ").skip(1) {
            assert!(!messages(case.rsplit_once("---\n").unwrap().0).contains("hunter2"), "{case}");
        }
    }
}

#[test]
fn the_help_about_relative_paths_is_only_for_a_missing_file() {
    struct Locked(MapFiles);
    impl Files for Locked {
        fn read(&self, path: &Path) -> Result<Vec<u8>, FileError> {
            let locked = path == Path::new("roles.yaml");
            if locked { Err(FileError::new("permission denied")) } else { self.0.read(path) }
        }

        fn list(&self, folder: &Path) -> Result<Vec<String>, FileError> {
            self.0.list(folder)
        }
    }
    let files = Locked(MapFiles::new("policy.yaml", "version: 1\ninclude: [roles.yaml]\n"));
    let problems = load(&files, Path::new("policy.yaml")).unwrap_err();
    let shown: Vec<String> = problems.iter().map(ToString::to_string).collect();
    assert_eq!(shown, ["policy.yaml:2:11: error: cannot read `roles.yaml`: permission denied"]);
}

/// Whoever follows a help for a rule must not get the next error.
#[test]
fn what_a_help_for_a_rule_suggests_is_no_error() {
    let mut suggested = 0;
    let texts = [FIRST, RULES, WARNINGS, OPEN].concat();
    let lines: Vec<&str> = texts.lines().collect();
    let helps = lines.windows(2).filter_map(|pair| match pair {
        [problem, help]
            if !["[dotted-claim]", "[unknown-name]"].iter().any(|kind| problem.contains(kind)) =>
        {
            help.trim().strip_prefix("help: did you mean ")
        }
        _ => None,
    });
    for help in helps {
        let question = help.split('?').next().unwrap();
        for meant in question.split('`').skip(1).step_by(2) {
            let is_method = meant.bytes().all(|byte| byte.is_ascii_uppercase() || byte == b'|');
            let rule = match meant {
                rule if rule.contains(' ') => rule.to_owned(),
                target if target.contains('/') => format!("GET {target}"),
                segment if segment.contains(['{', '*']) => format!("GET /{segment}"),
                method if is_method => format!("{method} /people"),
                _ => continue,
            };
            suggested += 1;
            let policy = format!(
                "version: 1\nroles:\n  anyone: {{ user_id_from: [a], allow: ['{rule}'] }}\n"
            );
            let policy = if rule.contains("{user.id}") {
                policy
            } else {
                policy.replace("user_id_from: [a], ", "")
            };
            let policy = format!(
                "{policy}identity: {{ jwt: [{{ issuer: a, audiences: [x], keys: {{ file: k }} }}] }}"
            );
            let files = MapFiles::new("policy.yaml", policy).and("k", "{}");
            let loaded = load(&files, Path::new("policy.yaml"));
            assert!(loaded.is_ok(), "`{meant}`: {:?}", loaded.unwrap_err());
        }
    }
    assert!(suggested > 40, "{suggested}");
}

fn check(text: &str) {
    let mut wrong = String::new();
    for case in text.split("=== ").skip(1) {
        let (given, expected) = case.rsplit_once("---\n").unwrap();
        let found = messages(given);
        if found.trim() != expected.trim() {
            wrong += &format!("=== {given}---\n{found}\n");
        }
    }
    assert!(wrong.is_empty(), "the messages are:\n{wrong}");
}

fn messages(given: &str) -> String {
    let (_, text) = given.split_once('\n').unwrap();
    let mut texts = text.split(">>> ");
    let mut files = MapFiles::new("policy.yaml", texts.next().unwrap());
    for file in texts {
        let (name, text) = file.split_once('\n').unwrap();
        files = files.and(name, text);
    }
    let problems = load(&files, Path::new("policy.yaml"))
        .map_or_else(|errors| errors, |loaded| unaccepted(&loaded));
    problems.iter().map(|problem| format!("{problem}\n")).collect()
}

fn unaccepted(loaded: &Loaded) -> Vec<Problem> {
    let mut warnings = document::unaccepted(&loaded.files, loaded.warnings.clone());
    warnings.sort_by(|one, other| one.at.cmp(&other.at));
    warnings
}
