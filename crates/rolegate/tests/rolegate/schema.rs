//! `schema`: the JSON Schemas against the parsers of the files.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use document::{MapFiles, Node, Problem, Reader, Value as Yaml};
use lint::load;
use policy::cases;
use program::Settings;
use serde_json::{Map, Value};
use testbed::manifests::schema_errors;

use crate::process::{example, run};

const PAGES: [&str; 8] = [
    include_str!("../../../../policies/README.md"),
    include_str!("../../../../policies/search.md"),
    include_str!("../../../../docs/callers.md"),
    include_str!("../../../../docs/mutual-tls.md"),
    include_str!("../../../../docs/grpc.md"),
    include_str!("../../../../docs/authzen.md"),
    include_str!("../../../../docs/policy.md"),
    include_str!("../../../policy/tests/wrong_examples.txt"),
];
const FIXTURES: [&str; 9] = [
    include_str!("../../../policy/tests/problems/first.txt"),
    include_str!("../../../policy/tests/problems/syntax.txt"),
    include_str!("../../../policy/tests/problems/rules.txt"),
    include_str!("../../../policy/tests/problems/roles.txt"),
    include_str!("../../../policy/tests/problems/identity.txt"),
    include_str!("../../../policy/tests/problems/responses.txt"),
    include_str!("../../../policy/tests/problems/files.txt"),
    include_str!("../../../policy/tests/problems/warnings.txt"),
    include_str!("../../../policy/tests/problems/open.txt"),
];

/// Each mapping with fixed keys: its name in the schema, what messages call it, and an example with
/// only the key `?`.
const MAPPINGS: [(&str, &str, &str); 28] = [
    ("", "a policy", "?: x"),
    ("identity", "`identity`", "identity: { ?: x }"),
    ("token_place", "an entry of `token_from`", "identity: { token_from: [{ ?: x }] }"),
    ("basic", "`basic`", "identity: { basic: { ?: x } }"),
    ("user", "a user", "identity: { basic: { users: { ann: { ?: x } } } }"),
    ("api_keys", "`api_keys`", "identity: { api_keys: { ?: x } }"),
    ("certificates", "`certificates`", "identity: { certificates: { ?: x } }"),
    ("issuer", "an entry of `jwt`", "identity: { jwt: [{ ?: x }] }"),
    ("keys", "`keys`", "identity: { jwt: [{ keys: { ?: x } }] }"),
    ("introspection", "`introspection`", "identity: { jwt: [{ introspection: { ?: x } }] }"),
    ("claims", "`claims`", "identity: { jwt: [{ claims: { ?: x } }] }"),
    ("act", "`act`", "identity: { jwt: [{ act: { ?: x } }] }"),
    ("role", "a role", "roles: { admin: { ?: x } }"),
    ("rule", "a rule", "roles: { admin: { allow: [{ ?: x }] } }"),
    ("grant", "a grant", "grants: { admin: { ?: x } }"),
    ("allow_response", "`allow_response`", "allow_response: { ?: x }"),
    ("deny_response", "`deny_response`", "deny_response: { ?: x }"),
    ("identity_header", "`identity_header`", "identity_header: { ?: x }"),
    ("search", "`search`", "search: { ?: x }"),
    (
        "document_security",
        "`document_security`",
        "search: { folder: cluster, document_security: { ?: x } }",
    ),
    ("inventory", "`inventory`", "search: { folder: cluster, inventory: { ?: x } }"),
    ("authzen", "`authzen`", "authzen: { ?: x }"),
    ("subject_type", "a type of subjects", "authzen: { subjects: { user: { ?: x } } }"),
    ("resource_type", "a type of resources", "authzen: { resources: { record: { ?: x } } }"),
    ("case", "a case", "- { ?: x }"),
    ("request", "a request", "- { request: { ?: x } }"),
    ("question", "`question`", "- { request: { question: { ?: x } } }"),
    ("expect", "`expect`", "- { expect: { ?: x } }"),
];

fn schema(of: &str) -> Value {
    let (code, out, err) = run(&["schema", of]);
    assert_eq!(code, 0, "{err}");
    serde_json::from_str(&out).unwrap()
}

/// The errors of each document by the schema with this name.
fn errors(of: &str, documents: &[Value]) -> Vec<Vec<String>> {
    schema_errors(&schema(of), documents).unwrap()
}

/// A YAML file as JSON, as an editor reads it; `None` if it is no YAML that the parser reads.
fn json(text: &str) -> Option<Value> {
    let mut reader = Reader::new(Path::new("file.yaml").into());
    let root = reader.parse(text.as_bytes()).map(|root| value(&root));
    root.filter(|_| reader.finish().is_empty())
}

fn value(node: &Node) -> Value {
    match &node.value {
        Yaml::Scalar(scalar) if node.is_nothing() && scalar.plain => Value::Null,
        Yaml::Scalar(scalar) if scalar.plain => match &*scalar.text {
            "true" => true.into(),
            "false" => false.into(),
            text => {
                serde_json::from_str::<serde_json::Number>(text).map_or(text.into(), Value::Number)
            }
        },
        Yaml::Scalar(scalar) => (*scalar.text).into(),
        Yaml::List(items) => items.iter().map(value).collect(),
        Yaml::Map(entries) => Value::Object(
            entries
                .iter()
                .map(|(key, node)| (key.text.to_string(), value(node)))
                .collect::<Map<_, _>>(),
        ),
    }
}

/// Whether a file of test cases is meant, and not a policy.
fn of(text: &str) -> &'static str {
    if text.lines().any(|line| line.starts_with("- ")) { "cases" } else { "policy" }
}

fn problems(text: &str) -> Vec<Problem> {
    if of(text) == "cases" {
        return cases::parse(Path::new("cases.yaml"), text.as_bytes()).err().unwrap_or_default();
    }
    // Some examples are parts of a policy.
    let head = if text.contains("version:") { "" } else { "version: 1\n" };
    match load(&MapFiles::new("policy.yaml", format!("{head}{text}")), Path::new("policy.yaml")) {
        Ok(loaded) => loaded.warnings,
        Err(problems) => problems,
    }
}

#[test]
fn a_schema_has_the_keys_that_the_parser_knows_each_with_a_description() {
    for (name, what, example) in MAPPINGS {
        let messages: Vec<String> = problems(example).iter().map(ToString::to_string).collect();
        let help = messages.join("\n");
        let (_, known) = help.split_once(&format!("help: {what} has ")).expect(&help);
        let known: BTreeSet<&str> =
            known.lines().next().unwrap().split('`').skip(1).step_by(2).collect();
        let schema = schema(of(example));
        let mapping = if name.is_empty() { &schema } else { &schema["$defs"][name] };
        let properties = mapping["properties"].as_object().unwrap();
        assert_eq!(properties.keys().map(String::as_str).collect::<BTreeSet<_>>(), known, "{what}");
        assert_eq!(mapping["additionalProperties"], false, "{what}");
        for (key, property) in properties {
            assert!(
                property["description"].as_str().is_some_and(|text| text.len() > 5),
                "{what}: {key}"
            );
        }
    }
}

#[test]
fn the_policies_and_cases_of_the_examples_are_valid() {
    let mut documents: BTreeMap<&str, Vec<(PathBuf, Value)>> = BTreeMap::new();
    for name in
        ["people", "jwt", "agents", "owner", "api", "keys", "certificates", "browser", "grpc"]
    {
        let folder = PathBuf::from(example(name));
        for file in [folder.clone(), folder.join("roles")]
            .iter()
            .flat_map(std::fs::read_dir)
            .flatten()
            .flatten()
        {
            let path = file.path();
            if path.extension().is_none_or(|extension| extension != "yaml") {
                continue;
            }
            let text = std::fs::File::open(&path).and_then(std::io::read_to_string).unwrap();
            let schema = match path.file_name().unwrap().to_str().unwrap() {
                "cases.yaml" => "cases",
                "policy.yaml" => "policy",
                // A file of API keys has no schema.
                "keys.yaml" => continue,
                _ => "include",
            };
            documents.entry(schema).or_default().push((path, json(&text).unwrap()));
        }
    }
    assert!(documents.values().flatten().count() >= 10, "{documents:?}");
    for (schema, files) in documents {
        let (paths, documents): (Vec<_>, Vec<_>) = files.into_iter().unzip();
        for (path, errors) in paths.iter().zip(errors(schema, &documents)) {
            assert!(errors.is_empty(), "{}: {errors:?}", path.display());
        }
    }
}

/// What the parser accepts is valid, and a mapping with an unknown key is not.
#[test]
fn a_schema_agrees_with_the_parser_on_each_example() {
    let fixtures =
        FIXTURES.iter().flat_map(|fixtures| fixtures.split("=== ").skip(1)).filter_map(|fixture| {
            let (_, text) = fixture.split_once('\n')?;
            text.split("\n---").next()?.split("\n>>>").next()
        });
    let pages = PAGES.into_iter().flat_map(|page| page.split("```yaml\n").skip(1));
    let pages = pages.filter_map(|after| after.split("```").next());
    let (mut valid, mut unknown, mut disagreements) = (0, 0, Vec::new());
    let examples: Vec<(&str, Value)> = fixtures
        .chain(pages)
        .filter_map(|text| Some((text, json(text).filter(|json| !json.is_null())?)))
        .collect();
    let (cases, policies): (Vec<_>, Vec<_>) =
        examples.into_iter().partition(|(text, _)| of(text) == "cases");
    // Some examples are parts of a policy, without a version.
    for (schema, examples) in [("include", policies), ("cases", cases)] {
        let (texts, documents): (Vec<_>, Vec<_>) = examples.into_iter().unzip();
        for (text, errors) in texts.into_iter().zip(errors(schema, &documents)) {
            let problems = problems(text);
            let messages: Vec<&str> = problems.iter().map(|problem| &*problem.message).collect();
            if problems.iter().all(Problem::is_warning) {
                if !errors.is_empty() {
                    disagreements.push(format!("{text}\n{errors:?}"));
                }
                valid += 1;
            } else if messages.iter().any(|message| message.starts_with("unknown key")) {
                if errors.is_empty() {
                    disagreements.push(format!("{text}\n{messages:?}"));
                }
                unknown += 1;
            }
        }
    }
    assert!(disagreements.is_empty(), "{}", disagreements.join("\n\n"));
    assert!(valid >= 40 && unknown >= 30, "{valid} valid, {unknown} with unknown keys");
}

#[test]
fn the_schema_of_settings_has_all_of_them() {
    use clap::Args;
    let command = Settings::augment_args(clap::Command::new("settings"));
    let names: BTreeSet<String> =
        command.get_arguments().filter_map(|arg| Some(arg.get_long()?.to_owned())).collect();
    let schema = schema("settings");
    let properties = schema["properties"].as_object().unwrap();
    assert_eq!(properties.keys().cloned().collect::<BTreeSet<_>>(), names);
    assert!(
        properties
            .values()
            .all(|property| property["description"].as_str().is_some_and(|text| !text.is_empty()))
    );
    let settings =
        "policy: /etc/rolegate\nthreads: 2\nlisten: [127.0.0.1:9191]\ndecision-log: off\n";
    let valid = [
        settings,
        "drain-timeout: 5s\n",
        "poll-interval: 0\n",
        "max-message-size: 4MiB\n",
        "hash-queue: 9\n",
    ];
    let without_unit = ["drain-timeout: 5\n", "keys-wait: \"5\"\n", "max-message-size: 4Mi\n"];
    let invalid = ["listn: a\n", "decision-log: some\n", "hash-queue: 70000\n", "threads: true\n"];
    let texts = [&valid[..], &without_unit, &invalid].concat();
    let documents: Vec<Value> = texts.iter().map(|text| json(text).unwrap()).collect();
    for (text, errors) in texts.iter().zip(errors("settings", &documents)) {
        assert_eq!(errors.is_empty(), valid.contains(text), "{text}: {errors:?}");
    }
}

/// What is said about each mistake, for people who see only the message.
#[test]
fn a_schema_says_what_is_wrong() {
    for (of, text, said) in [
        ("policy", "roles: {}\n", "'version' is a required property"),
        ("include", "roles: {}\n", ""),
        ("policy", "version: 1\nroles: { a: { extend: [b] } }\n", "('extend' was unexpected)"),
        (
            "policy",
            "version: 1\nroles: { a: { allow: [{ method: [GET], paths: [/a] }] } }\n",
            "('method' was unexpected)",
        ),
        ("policy", "version: 1\nroles: { a: { allow: [/x] } }\n", "'/x' does not match"),
        ("policy", "version: 1\nroles: { a: { allow: [GET x] } }\n", "'GET x' does not match"),
        (
            "policy",
            "version: 1\nroles: { a: { deny: [GET /x, OPTIONS *, 'GET|POST a.example/**'] } }\n",
            "",
        ),
        ("policy", "version: 1\nroles: { a: null }\nsearch: null\n", ""),
        ("settings", "bundle-interval: 60\n", "60 is not of type 'string'"),
        ("settings", "bundle-interval: 60s\n", ""),
    ] {
        let found = errors(of, &[json(text).unwrap()]).concat().join("\n");
        assert!(found.contains(said) && found.is_empty() == said.is_empty(), "{text}: {found}");
    }
    // Editors show the description of what is wrong.
    let settings = schema("settings");
    let interval = &settings["properties"]["bundle-interval"];
    for described in [&interval["description"], &interval["else"]["description"]] {
        assert!(described.as_str().unwrap().contains("with a unit, such as `60s`"), "{described}");
    }
}
