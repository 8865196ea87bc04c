//! `docs/reference/`, and the tables in `policies/`: made from the program, so they say
//! what it does.
//! `UPDATE_REFERENCE=1 make test` writes them again.

use std::fmt::Write as _;
use std::path::Path;

use clap::{Arg, Command};
use document::{FindingKind as _, Node, Reader, Value, Warning};

use crate::process::run;

#[test]
#[expect(clippy::disallowed_methods, reason = "the pages are files")]
fn the_pages_are_made_from_the_program() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut pages = vec![
        ("docs/reference/settings.md", settings()),
        ("docs/reference/commands.md", commands()),
        ("docs/reference/decision-log.md", decision_fields()),
        ("docs/reference/envoy-findings.md", envoy_findings()),
        ("docs/reference/proxy-findings.md", proxy_findings()),
    ];
    for name in ["policies/README.md", "policies/search.md"] {
        let page = std::fs::read_to_string(root.join(name)).unwrap();
        pages.push((name, with_warnings(with_keys(&page))));
    }
    for (name, page) in pages {
        let file = root.join(name);
        if std::env::var_os("UPDATE_REFERENCE").is_some() {
            std::fs::write(&file, &page).unwrap();
        }
        let written = std::fs::read_to_string(&file).unwrap_or_default();
        assert_eq!(
            written, page,
            "{name} is not up to date: UPDATE_REFERENCE=1 make test writes it"
        );
    }
}

/// The settings of `serve`, a table for each heading of its help.
fn settings() -> String {
    let mut page = "# Settings\n\n\
        A setting of `rolegate serve` is a flag (`--drain-timeout 5s`), an environment variable \
        (`ROLEGATE_DRAIN_TIMEOUT=5s`) or an entry (`drain-timeout: 5s`) of the YAML file that \
        `--config` names. A flag wins over the environment, the environment over the file. Several \
        values are separated by commas. A time has a unit (`ms`, `s`, `m`, `h`, `d`), and so may a \
        size (`B`, `KiB`, `MiB`).\n\n\
        An unknown variable `ROLEGATE_…` or entry is an error; variables that Kubernetes sets for a \
        service (`ROLEGATE_PORT`) are ignored. A setting without effect is a warning in the log.\n"
        .to_owned();
    let command = program::command();
    let serve = command.find_subcommand("serve").unwrap();
    let mut headings: Vec<&str> = Vec::new();
    for heading in serve.get_arguments().filter_map(Arg::get_help_heading) {
        if !headings.contains(&heading) {
            headings.push(heading);
        }
    }
    for heading in headings {
        let _ = write!(page, "\n## {heading}\n\n| setting | default | meaning |\n|---|---|---|\n");
        for arg in serve.get_arguments().filter(|arg| arg.get_help_heading() == Some(heading)) {
            let name = arg.get_long().unwrap();
            let defaults: Vec<_> =
                arg.get_default_values().iter().map(|value| value.to_str().unwrap()).collect();
            let default = match defaults.is_empty() {
                true => String::new(),
                false => format!("`{}`", defaults.join(",")),
            };
            let _ = writeln!(page, "| `{name}` | {default} | {} |", meaning(arg));
        }
    }
    page
}

/// The kinds of findings of `lint-envoy`.
fn envoy_findings() -> String {
    let mut page = "# Findings of `lint-envoy`\n\n\
        What [`rolegate lint-envoy`](../lint-envoy.md) reports. *Unsafe*: requests can pass that \
        rolegate would deny, the application gets another request, or a second line of defence is \
        missing. *Broken*: no request is allowed. *Slow*: requests are delayed or fail that \
        rolegate would allow. *Note*: worth knowing.\n\n\
        | name | severity | what happens | remedy |\n|---|---|---|---|\n"
        .to_owned();
    for kind in envoy_lint::Kind::ALL {
        let effect = kind.effect().split_whitespace().collect::<Vec<_>>().join(" ");
        let (name, severity, remedy) = (kind.name(), kind.severity().name(), kind.remedy());
        let _ = writeln!(page, "| `{name}` | {severity} | {effect} | {remedy} |");
    }
    page
}

/// The kinds of findings of `lint-proxy`.
fn proxy_findings() -> String {
    let mut page = "# Findings of `lint-proxy`\n\n\
        What [`rolegate lint-proxy`](../lint-proxy.md) reports. *Unsafe*: requests can pass that \
        rolegate would deny, or the application gets another request. *Broken*: requests fail that \
        rolegate would allow. *Note*: worth knowing.\n\n\
        | name | severity | what happens | remedy |\n|---|---|---|---|\n"
        .to_owned();
    for kind in proxy_lint::Kind::ALL {
        let effect = kind.effect().split_whitespace().collect::<Vec<_>>().join(" ");
        let (name, severity, remedy) = (kind.name(), kind.severity().name(), kind.remedy());
        let _ = writeln!(page, "| `{name}` | {severity} | {effect} | {remedy} |");
    }
    page
}

/// The long help of a flag on one line, with its possible values.
fn meaning(arg: &Arg) -> String {
    let help = arg.get_long_help().or_else(|| arg.get_help()).unwrap().to_string();
    let mut meaning = help.split_whitespace().collect::<Vec<_>>().join(" ");
    // clap takes the period from the end of a first paragraph.
    if let (Some(short), Some(_)) = (arg.get_help(), arg.get_long_help()) {
        let short = short.to_string();
        if let Some(rest) = meaning.strip_prefix(&format!("{short} ")) {
            meaning = format!("{short}. {rest}");
        }
    }
    let values = arg.get_possible_values();
    for value in values.iter().filter(|value| value.get_help().is_some()) {
        let help = value.get_help().unwrap().to_string();
        let help = help.split_whitespace().collect::<Vec<_>>().join(" ");
        let _ = write!(meaning, "<br>`{}`: {help}", value.get_name());
    }
    meaning.replace('|', "\\|")
}

/// The help of each command.
fn commands() -> String {
    let mut page =
        "# Commands\n\nWhat `--help` prints. `serve` takes the [settings](settings.md).\n"
            .to_owned();
    let _ = write!(page, "\n## rolegate\n\n```text\n{}\n```\n", help(&["--help"]));
    let command = program::command();
    for command in command.get_subcommands().filter(|command| command.get_name() != "serve") {
        describe(&mut page, command, &[]);
    }
    page
}

fn describe(page: &mut String, command: &Command, parents: &[&str]) {
    let names: Vec<&str> = parents.iter().copied().chain([command.get_name()]).collect();
    let arguments: Vec<&str> = names.iter().copied().chain(["--help"]).collect();
    let _ = write!(page, "\n## {}\n\n```text\n{}\n```\n", names.join(" "), help(&arguments));
    for subcommand in command.get_subcommands() {
        describe(page, subcommand, &names);
    }
}

fn help(arguments: &[&str]) -> String {
    let (code, help, _) = run(arguments);
    assert_eq!(code, 0);
    help.lines().map(str::trim_end).collect::<Vec<_>>().join("\n").trim_end().to_owned()
}

/// The tables of keys of the policy language: the heading that each is under, the schema and the
/// mapping in it.
const KEYS: [(&str, &str, &str); 19] = [
    ("## A policy", "policy", ""),
    ("## Identity", "policy", "identity"),
    ("### `basic`", "policy", "basic"),
    ("### A user", "policy", "user"),
    ("### An entry of `jwt`", "policy", "issuer"),
    ("### `keys`", "policy", "keys"),
    ("### `claims`", "policy", "claims"),
    ("## A role", "policy", "role"),
    ("## A rule", "policy", "rule"),
    ("## A grant", "policy", "grant"),
    ("### `allow_response`", "policy", "allow_response"),
    ("### `deny_response`", "policy", "deny_response"),
    ("### `identity_header`", "policy", "identity_header"),
    ("## `search`", "policy", "search"),
    ("## `document_security`", "policy", "document_security"),
    ("## `inventory`", "policy", "inventory"),
    ("### A case", "cases", "case"),
    ("### A request", "cases", "request"),
    ("### `expect`", "cases", "expect"),
];

const TABLE: &str = "| key | meaning |\n|---|---|\n";
const WARNINGS: &str = "| warning | meaning |\n|---|---|\n";

/// The page with its table of warnings, if it has one.
fn with_warnings(mut page: String) -> String {
    if let Some(start) = page.find(WARNINGS) {
        let row = |kind: &Warning| {
            let meaning = kind.meaning().trim().trim_end_matches('.').replace('|', "\\|");
            format!("| `{kind}` | {meaning} |\n")
        };
        let rows: String = Warning::ALL.iter().map(row).collect();
        replace_rows(&mut page, start + WARNINGS.len(), &rows);
    }
    page
}

/// Replaces the rows of the table that begin here.
fn replace_rows(page: &mut String, start: usize, rows: &str) {
    let written =
        page.get(start..).unwrap().split_inclusive('\n').take_while(|line| line.starts_with('|'));
    let end = start + written.map(str::len).sum::<usize>();
    page.replace_range(start..end, rows);
}

/// A page of the policy language with the tables of keys that are on it.
fn with_keys(page: &str) -> String {
    let mut page = page.to_owned();
    for (heading, kind, mapping) in KEYS {
        let Some(start) = page.find(&format!("\n{heading}\n")) else { continue };
        let start = start + page.get(start..).unwrap().find(TABLE).unwrap() + TABLE.len();
        let path = if mapping.is_empty() { vec![] } else { vec!["$defs", mapping] };
        replace_rows(&mut page, start, &rows_of(kind, &path));
    }
    page
}

/// The fields of a line of the decision log.
fn decision_fields() -> String {
    let mut page = "# Fields of the decision log\n\n\
        Each line is a decision, as a JSON object; `rolegate schema decision` prints its JSON \
        Schema. Fields that do not apply are left out. A later rolegate may add fields with the \
        same `version`: ignore those that you do not know. \
        [The decision log](../operations.md#the-decision-log) says where the lines go.\n\n\
        | field | meaning |\n|---|---|\n"
        .to_owned();
    page.push_str(&rows_of("decision", &[]));
    page
}

/// A row for each property of the mapping at this path of a schema, in its order.
fn rows_of(kind: &str, path: &[&str]) -> String {
    let (code, schema, _) = run(&["schema", kind]);
    assert_eq!(code, 0);
    // JSON is YAML, and this reader keeps the order.
    let mut reader = Reader::new(Path::new("schema.json").into());
    let root = reader.parse(schema.as_bytes()).unwrap();
    let mapping = path.iter().chain(&["properties"]).fold(&root, |node, key| member(node, key));
    let Value::Map(properties) = &mapping.value else { panic!("{path:?} has no properties") };
    let row = |name: &str, property: &Node| match &member(property, "description").value {
        Value::Scalar(text) => {
            format!("| `{name}` | {} |\n", text.text.trim_end_matches('.').replace('|', "\\|"))
        }
        Value::List(_) | Value::Map(_) => panic!("the description of {name}"),
    };
    properties.iter().map(|(key, property)| row(&key.text, property)).collect()
}

fn member<'n>(node: &'n Node, name: &str) -> &'n Node {
    let Value::Map(entries) = &node.value else { panic!("no mapping with `{name}`") };
    entries.iter().find(|(key, _)| *key.text == *name).map(|(_, node)| node).unwrap()
}
