//! `rolegate schema`: JSON Schemas (2020-12) of the files that people write, for editors, and of
//! the decision log.

use clap::{Arg, ArgAction};
use runtime::settings::command_of;
use serde_json::{Map, Value, json};

use crate::cli::{SchemaArgs, SchemaKind};
use crate::error::{CommandError, Exit};
use crate::output::Output;
use crate::settings::Settings;

const POLICY: &str = include_str!("../../schema/policy.json");
const CASES: &str = include_str!("../../schema/cases.json");
const DECISION: &str = include_str!("../../schema/decision.json");

/// Prints the schema of a kind of files.
pub(crate) fn run(args: &SchemaArgs, output: &Output) -> Result<Exit, CommandError> {
    match args.kind {
        SchemaKind::Policy => output.text(POLICY),
        SchemaKind::Include => output.json(&included()),
        SchemaKind::Cases => output.text(CASES),
        SchemaKind::Decision => output.text(DECISION),
        SchemaKind::Settings => output.json(&settings()),
    }
    Ok(Exit::Success)
}

/// The schema of a file that a policy includes: the schema of a policy, but without a required
/// `version`.
fn included() -> Value {
    let mut schema: Value = serde_json::from_str(POLICY).unwrap_or_default();
    if let Some(schema) = schema.as_object_mut() {
        schema.remove("required");
        schema.insert("title".to_owned(), "a file that a policy of rolegate includes".into());
    }
    schema
}

/// The schema of the settings file, from the flags of `serve`.
fn settings() -> Value {
    let command = command_of::<Settings>();
    let properties: Map<String, Value> = command
        .get_arguments()
        .filter_map(|arg| Some((arg.get_long()?.to_owned(), setting(arg))))
        .filter(|(name, _)| name != "help")
        .collect();
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "the settings file of rolegate serve",
        "type": ["object", "null"],
        "properties": properties,
        "additionalProperties": false,
    })
}

/// The schema of a setting. Its value is the text that would follow the flag. YAML may read this
/// text as a string, a number or a boolean.
fn setting(arg: &Arg) -> Value {
    let mut description =
        arg.get_long_help().or_else(|| arg.get_help()).map(ToString::to_string).unwrap_or_default();
    let values: Vec<Value> =
        arg.get_possible_values().iter().map(|value| Value::from(value.get_name())).collect();
    let is_boolean = values == [Value::from("true"), Value::from("false")];
    let value_name = arg.get_value_names().and_then(<[_]>::first).map_or("", |name| name.as_str());
    let value = match values.is_empty() || is_boolean {
        true => value_schema(value_name),
        // Some editors read the value `off` as false.
        false => {
            json!({ "enum": values.into_iter().chain([Value::Bool(false)]).collect::<Vec<_>>() })
        }
    };
    let list = json!({ "type": "array", "minItems": 1, "items": value });
    let is_repeatable = matches!(arg.get_action(), ArgAction::Append);
    let mut setting = if is_repeatable { json!({ "anyOf": [value, list] }) } else { value };
    let defaults = arg.get_default_values().iter().filter_map(|value| value.to_str());
    let default = defaults.collect::<Vec<_>>().join(",");
    if let Some(setting) = setting.as_object_mut() {
        if let Some(form) = form(value_name) {
            description = format!("{} {form}", description.trim_end());
        }
        setting.insert("description".to_owned(), description.into());
        if !default.is_empty() {
            setting.insert("default".to_owned(), default.into());
        }
    }
    setting
}

/// The syntax of a value with this name in the help, if people may not guess it.
fn form(name: &str) -> Option<&'static str> {
    match name {
        "TIME" => {
            Some("A time is a whole number with a unit, such as `60s`: `ms`, `s`, `m`, `h` or `d`.")
        }
        "SIZE" => Some("A size is a whole number, alone or with a unit: `B`, `KiB` or `MiB`."),
        _ => None,
    }
}

/// The schema of a value with this name in the help.
fn value_schema(name: &str) -> Value {
    match name {
        // The only valid number is 0. Other times have a unit.
        "TIME" => {
            let text = json!({
                "type": "string",
                "pattern": "^(0|[0-9]+(ms|s|m|h|d))$",
                "patternErrorMessage": form(name),
                "description": form(name),
            });
            json!({ "if": { "const": 0 }, "then": true, "else": text })
        }
        "SIZE" => json!({
            "type": ["string", "integer"],
            "pattern": "^[0-9]+(B|KiB|MiB)?$",
            "minimum": 1,
        }),
        "N" => json!({
            "type": ["string", "integer"],
            "pattern": "^[0-9]+$",
            "minimum": 0,
            "maximum": 65535,
        }),
        _ => json!({ "type": ["string", "number", "boolean"] }),
    }
}
