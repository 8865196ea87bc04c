//! The pages of the policy language: their examples, and the keys of the reference against those
//! that the parser knows. `wrong_examples.txt` has the wrong examples with their messages.
#![expect(clippy::unwrap_used, reason = "a failed set-up is a failed test")]
#![expect(clippy::disallowed_methods, reason = "the parser's source is read from files")]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use document::{MapFiles, Problem, Warning, unaccepted};
use lint::load;
use policy::{AccessRequest, Decision, api_keys, cases, reference};

const REFERENCE: &str = include_str!("../../../policies/README.md");
const GUIDE: &str = include_str!("../../../docs/policy.md");
const PAGES: [&str; 7] = [
    REFERENCE,
    GUIDE,
    include_str!("../../../policies/search.md"),
    include_str!("../../../docs/callers.md"),
    include_str!("../../../docs/mutual-tls.md"),
    include_str!("../../../docs/grpc.md"),
    include_str!("../../../docs/authzen.md"),
];
const WRONG_EXAMPLES: &str = include_str!("wrong_examples.txt");

/// The reference says that its examples without an `identity` have this one.
const IDENTITY: &str = r#"identity: { basic: { users: { alice: { password: "$6$x$y", groups: [staff] }, bob: { password: "$6$x$y" } } } }
"#;

/// The groups of its user are those that the examples grant.
fn keys() -> String {
    let hash = "0".repeat(64);
    format!("keys: {{ rk1: {{ sha256: \"{hash}\", user: ci, groups: [deploy] }} }}\n")
}

/// Each mapping with fixed keys: what messages call it, its heading on the page, and an example in
/// which it has only the key `?`.
const MAPPINGS: [(&str, &str, &str); 31] = [
    ("a policy", "## A policy", "?: x"),
    ("`identity`", "## Identity", "identity: { ?: x }"),
    (
        "an entry of `token_from`",
        "### An entry of `token_from`",
        "identity: { token_from: [{ ?: x }] }",
    ),
    ("`basic`", "### `basic`", "identity: { basic: { ?: x } }"),
    ("a user", "### A user", "identity: { basic: { users: { ann: { ?: x } } } }"),
    ("`api_keys`", "### `api_keys`", "identity: { api_keys: { ?: x } }"),
    ("a file of API keys", "### A file of API keys", "keys: {}\n?: x"),
    ("a key", "### A key", "keys: { rk1: { ?: x } }"),
    ("`certificates`", "### `certificates`", "identity: { certificates: { ?: x } }"),
    ("an entry of `jwt`", "### An entry of `jwt`", "identity: { jwt: [{ ?: x }] }"),
    ("`keys`", "### `keys`", "identity: { jwt: [{ keys: { ?: x } }] }"),
    ("`introspection`", "### `introspection`", "identity: { jwt: [{ introspection: { ?: x } }] }"),
    ("`claims`", "### `claims`", "identity: { jwt: [{ claims: { ?: x } }] }"),
    ("`act`", "### `act`", "identity: { jwt: [{ act: { ?: x } }] }"),
    ("a role", "## A role", "roles: { admin: { ?: x } }"),
    ("a rule", "## A rule", "roles: { admin: { allow: [{ ?: x }] } }"),
    ("a grant", "## A grant", "grants: { admin: { ?: x } }"),
    ("`allow_response`", "### `allow_response`", "allow_response: { ?: x }"),
    ("`deny_response`", "### `deny_response`", "deny_response: { ?: x }"),
    ("`identity_header`", "### `identity_header`", "identity_header: { ?: x }"),
    ("`search`", "## `search`", "search: { ?: x }"),
    (
        "`document_security`",
        "## `document_security`",
        "search: { folder: cluster, document_security: { ?: x } }",
    ),
    ("`inventory`", "## `inventory`", "search: { folder: cluster, inventory: { ?: x } }"),
    ("`authzen`", "## `authzen`", "authzen: { ?: x }"),
    ("a file of entities", "### A file of entities", "subjects: {}\n?: x"),
    ("a type of subjects", "### A type of subjects", "authzen: { subjects: { user: { ?: x } } }"),
    (
        "a type of resources",
        "### A type of resources",
        "authzen: { resources: { record: { ?: x } } }",
    ),
    ("a case", "### A case", "- { ?: x }"),
    ("a request", "### A request", "- { request: { ?: x } }"),
    ("`question`", "### `question`", "- { request: { question: { ?: x } } }"),
    ("`expect`", "### `expect`", "- { expect: { ?: x } }"),
];

#[test]
fn every_example_gives_the_messages_below_it() {
    let (mut right, mut wrong, mut differences) = (0, 0, String::new());
    for page in PAGES.into_iter().chain([WRONG_EXAMPLES]) {
        let identity = identity_of_parts(page);
        for (example, after) in examples_in(page) {
            let expected = if is_wrong(example) {
                wrong += 1;
                after
                    .trim_start()
                    .strip_prefix("```text\n")
                    .expect(example)
                    .split_once("```")
                    .unwrap()
                    .0
            } else {
                right += 1;
                ""
            };
            let messages = messages_with(&identity, example);
            if messages != expected {
                differences += &format!("=== {example}---\n{messages}\n");
            }
        }
    }
    assert!(differences.is_empty(), "the messages are:\n{differences}");
    assert!(right > 30 && wrong > 34, "{right} right and {wrong} wrong examples");
}

#[test]
fn the_reference_has_the_keys_that_the_parser_knows() {
    for (what, heading, example) in MAPPINGS {
        // The help for an unknown key lists the known ones.
        let help = messages(example);
        let (_, known) =
            help.split_once(&format!("help: {what} has ")).unwrap_or_else(|| panic!("{help}"));
        let known: BTreeSet<&str> =
            known.lines().next().unwrap().split('`').skip(1).step_by(2).collect();
        assert_eq!(keys_of(section_of_a_page(heading)), known, "{heading}");
    }
}

/// A right example on the page shows each key, and a wrong one what its misuse gives. Those of a
/// test case are under `expect`.
#[test]
fn every_key_has_a_right_and_a_wrong_example() {
    for (_, heading, example) in MAPPINGS {
        let examples = if example.starts_with('-') { "### `expect`" } else { heading };
        let wrong_examples = section(WRONG_EXAMPLES, examples).expect(examples);
        for (text, wrong) in [(section_of_a_page(examples), false), (wrong_examples, true)] {
            let shown: String = examples_in(text)
                .filter(|(example, _)| is_wrong(example) == wrong)
                .map(|(example, _)| example)
                .collect();
            let words: BTreeSet<&str> = shown
                .split(|character: char| !(character.is_alphanumeric() || character == '_'))
                .collect();
            for key in keys_of(section_of_a_page(heading)) {
                assert!(words.contains(key), "{heading}: `{key}`, wrong: {wrong}");
            }
        }
    }
}

#[test]
fn no_mapping_is_left_out() {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut read = BTreeSet::new();
    for folder in [source.clone(), source.join("parse"), source.join("cases")] {
        for file in rust_files(&folder) {
            let text = fs::read_to_string(file).unwrap();
            let lines = text.lines().filter(|line| !line.trim_start().starts_with("//"));
            let code = lines.flat_map(str::split_whitespace).collect::<Vec<_>>().join(" ");
            for call in code.split("fields(").skip(1) {
                let arguments = call.split_once(')').map_or(call, |(arguments, _)| arguments);
                if let Some((_, what)) = arguments.split_once(", \"") {
                    read.insert(what.split_once('"').unwrap().0.to_owned());
                }
            }
        }
    }
    let listed = MAPPINGS.iter().map(|(what, ..)| (*what).to_owned()).collect();
    assert_eq!(read, listed);
}

#[test]
fn every_placeholder_of_a_header_is_explained() {
    let help = messages("allow_response: { set_headers: { x-a: \"{nothing}\" } }");
    let (_, known) = help.split_once("help: there are ").unwrap();
    let (known, _) = known.split_once(';').unwrap();
    let (_, table) = section_of_a_page("### `allow_response`")
        .split_once("| placeholder | its value |\n")
        .unwrap();
    let rows = table.lines().take_while(|line| line.starts_with('|'));
    let explained: Vec<&str> = rows
        .flat_map(|row| row.split('`').skip(1).step_by(2))
        .filter(|name| name.ends_with('}'))
        .collect();
    for name in known.split('`').skip(1).step_by(2) {
        assert!(explained.contains(&name), "{name}");
    }
    for name in
        explained.iter().filter(|name| !name.starts_with("{claims.") && !name.starts_with('}'))
    {
        assert!(known.contains(&format!("`{name}`")), "{name}");
    }
}

#[test]
fn every_warning_is_listed() {
    for kind in Warning::ALL {
        assert!(REFERENCE.contains(&format!("\n| `{kind}` | ")), "{kind}");
    }
}

#[test]
fn what_is_denied_to_all_but_one_role_is_allowed_to_that_one() {
    let mut examples = 0;
    let heading = "### Denied to all but one role";
    let wrong_examples = section(WRONG_EXAMPLES, heading).unwrap();
    for (example, _) in
        [section_of_a_page(heading), wrong_examples].into_iter().flat_map(examples_in)
    {
        let files = MapFiles::new("policy.yaml", completed(example, IDENTITY));
        let policy = load(&files, Path::new("policy.yaml")).unwrap().policy;
        let may = |user| {
            let caller = reference::Caller { user: Some(user), ..reference::Caller::default() };
            let question =
                AccessRequest { action: b"GET", scope: b"localhost", resource: b"/internal/a" };
            matches!(reference::decide(&policy, &caller, &question), Decision::Allowed(_))
        };
        assert_eq!((may("alice"), may("bob")), (false, !is_wrong(example)), "{example}");
        examples += 1;
    }
    assert_eq!(examples, 3);
}

/// The YAML blocks of a text, each with what follows it.
fn examples_in(text: &str) -> impl Iterator<Item = (&str, &str)> {
    text.split("```yaml\n").skip(1).map(|part| part.split_once("```").unwrap())
}

fn is_wrong(example: &str) -> bool {
    example.starts_with("# wrong")
}

/// The text below a heading, up to the next one.
fn section<'a>(text: &'a str, heading: &str) -> Option<&'a str> {
    let (_, after) = text.split_once(&format!("\n{heading}\n"))?;
    Some(after.split_once("\n##").map_or(after, |(section, _)| section))
}

fn section_of_a_page(heading: &str) -> &'static str {
    PAGES.into_iter().find_map(|page| section(page, heading)).unwrap()
}

/// The first column of a section's table of keys.
fn keys_of(section: &'static str) -> BTreeSet<&'static str> {
    let (_, table) = section.split_once("| key | meaning |\n|---|---|\n").unwrap();
    let rows = table.lines().take_while(|line| line.starts_with('|'));
    rows.map(|row| row.split('`').nth(1).unwrap()).collect()
}

fn rust_files(folder: &Path) -> impl Iterator<Item = PathBuf> {
    let paths = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    paths.filter(|path| path.extension().is_some_and(|extension| extension == "rs"))
}

/// The `identity` of examples without one. Those of the guide have the one that it ends with.
fn identity_of_parts(page: &str) -> String {
    if page != GUIDE {
        return IDENTITY.to_owned();
    }
    let (_, whole_policy) = page.rsplit_once("\nidentity:\n").unwrap();
    format!("identity:\n{}\n", whole_policy.split_once("\nroles:").unwrap().0)
}

fn messages(example: &str) -> String {
    messages_with(IDENTITY, example)
}

fn messages_with(identity: &str, example: &str) -> String {
    let problems = if example.trim_start_matches("# wrong\n").starts_with('-') {
        cases::parse(Path::new("cases.yaml"), example.as_bytes()).err().unwrap_or_default()
    } else if example.trim_start_matches("# wrong\n").starts_with("keys:") {
        api_keys::parse(Path::new("keys.yaml"), example.as_bytes()).1
    } else if example.trim_start_matches("# wrong\n").starts_with("subjects:") {
        problems_of_entities(example)
    } else {
        problems_of(&completed(example, identity))
    };
    // An example may be a part of a policy.
    let problems = problems.iter().filter(|problem| problem.kind() != Some(Warning::NoRoles));
    problems.map(|problem| format!("{problem}\n")).collect()
}

/// A policy that the example is part of. The rest is added at the end, so that lines keep their
/// numbers.
fn completed(example: &str, identity: &str) -> String {
    let mut policy = format!("{example}\n");
    for (key, part) in [("version:", "version: 1\n"), ("identity:", identity)] {
        if !example.lines().any(|line| line.starts_with(key)) {
            policy += part;
        }
    }
    policy
}

fn problems_of_entities(entities: &str) -> Vec<Problem> {
    let policy = "version: 1\nauthzen: { subjects: { user: {} }, entities: entities.yaml, \
                  resources: { record: { path: \"/records/{id}\" } } }\n";
    let files = MapFiles::new("policy.yaml", policy).and("entities.yaml", entities);
    load(&files, Path::new("policy.yaml")).map_or_else(|errors| errors, |loaded| loaded.warnings)
}

fn problems_of(policy: &str) -> Vec<Problem> {
    let files = MapFiles::new("policy.yaml", policy)
        .and("htpasswd", "alice:$6$x$y\nbob:$6$x$y\n")
        .and(
            "broken",
            WRONG_EXAMPLES.split_once("```htpasswd\n").unwrap().1.split_once("```").unwrap().0,
        )
        .and("keys.yaml", keys())
        .and("jwks.json", "{}")
        .and("identity.pem", "")
        .and("identity.key", "")
        .and("next.pem", "")
        .and("cluster/roles.yml", "")
        .and("inventory.json", "")
        .and("entities.yaml", "resources: { record: { \"101\": { owner: alice } } }\n")
        .and("lister", "lister:secret\n")
        .and("client", "rolegate:secret\n")
        .and("company-ca.pem", "-----BEGIN CERTIFICATE-----\n")
        .and("roles/people.yaml", "roles: { anyone: { allow: [\"GET /people\"] } }\n");
    load(&files, Path::new("policy.yaml"))
        .map_or_else(|errors| errors, |loaded| unaccepted(&loaded.files, loaded.warnings.clone()))
}
