//! `docs/reference/`: pages that are made from the program, so they say what it does.
//! `UPDATE_REFERENCE=1 make test` writes them again.

use std::fmt::Write as _;
use std::path::Path;

use clap::{Arg, Command};
use serde_json::Value;

use crate::process::run;

const FOLDER: &str = "../../docs/reference";

#[test]
fn the_pages_are_made_from_the_program() {
    let pages = [
        ("settings", settings()),
        ("commands", commands()),
        ("policy", policy_keys()),
        ("decision-log", decision_fields()),
    ];
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(FOLDER);
    for (name, page) in pages {
        let file = folder.join(format!("{name}.md"));
        if std::env::var_os("UPDATE_REFERENCE").is_some() {
            std::fs::create_dir_all(&folder).unwrap();
            std::fs::write(&file, &page).unwrap();
        }
        let written = std::fs::read_to_string(&file).unwrap_or_default();
        assert_eq!(
            written,
            page,
            "{} is not up to date: UPDATE_REFERENCE=1 make test writes it",
            file.display()
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

/// The keys of a policy, a table for each mapping of its schema.
fn policy_keys() -> String {
    let mut page = "# Keys of a policy\n\n\
        The keys of a `policy.yaml` and the files that it includes, from the JSON Schema that \
        `rolegate schema` prints. [The policy language](../../policies/README.md) says what they \
        mean together.\n"
        .to_owned();
    let schema = schema("policy");
    mapping(&mut page, "a policy", &schema);
    for (name, definition) in schema["$defs"].as_object().unwrap() {
        mapping(&mut page, name, definition);
    }
    page
}

/// The keys of a mapping: of itself, and of its alternatives.
fn mapping(page: &mut String, name: &str, schema: &Value) {
    let alternatives = ["anyOf", "oneOf"]
        .iter()
        .filter_map(|key| schema[key].as_array())
        .flatten()
        .chain([schema]);
    let rows: Vec<String> = alternatives
        .filter_map(|schema| schema["properties"].as_object())
        .flatten()
        .map(|(key, value)| row(key, value))
        .collect();
    if !rows.is_empty() {
        let name = name.replace('_', " ");
        let _ = write!(page, "\n## {name}\n\n| key | meaning |\n|---|---|\n{}", rows.concat());
    }
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
    for (field, value) in schema("decision")["properties"].as_object().unwrap() {
        page.push_str(&row(field, value));
    }
    page
}

fn row(name: &str, value: &Value) -> String {
    let meaning = value["description"].as_str().unwrap_or_default().replace('|', "\\|");
    format!("| `{name}` | {meaning} |\n")
}

fn schema(kind: &str) -> Value {
    let (code, schema, _) = run(&["schema", kind]);
    assert_eq!(code, 0);
    serde_json::from_str(&schema).unwrap()
}
