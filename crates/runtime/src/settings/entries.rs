//! Settings as names and values, in a settings file or in the module's configuration. A value is
//! parsed like the value of the flag with the same name.

use clap::error::{ContextKind, ErrorKind};
use clap::{Args, Command};
use document::{Fields, Key, Mark, Node, Reader, Value};

/// A setting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its name.
    pub name: String,
    /// The id of its flag.
    pub id: String,
    /// Its values; never empty.
    pub values: Vec<String>,
}

/// A command with a flag for each setting. No flag is required or has an environment variable.
#[must_use]
pub fn command_of<T: Args>() -> Command {
    T::augment_args(Command::new("settings")).mut_args(|arg| arg.required(false).env(None::<&str>))
}

/// Reads a mapping of names to values or lists of values. Reports each entry that a flag of
/// `settings` would not accept.
pub fn read_entries(
    reader: &mut Reader,
    root: &Node,
    what: &str,
    settings: &Command,
) -> Vec<Entry> {
    let mapping = reader.entries(root, what);
    let fields = mapping.iter().flat_map(Fields::iter);
    fields.filter_map(|(key, node)| entry(reader, key, node, settings)).collect()
}

fn entry(reader: &mut Reader, key: &Key, node: &Node, settings: &Command) -> Option<Entry> {
    let name = &*key.text;
    let Some(arg) = settings.get_arguments().find(|arg| arg.get_long() == Some(name)) else {
        reader.error_help(key.at, format!("unknown setting `{name}`"), suggestion(name, settings));
        return None;
    };
    let values = values(reader, name, node)?;
    let is_repeatable = matches!(arg.get_action(), clap::ArgAction::Append);
    if let Some((at, _)) = values.get(1).filter(|_| !is_repeatable) {
        reader.error(*at, format!("`{name}` takes one value, not a list"));
        return None;
    }
    let mut texts = Vec::with_capacity(values.len());
    for (at, value) in values {
        let mut value = value;
        let mut message = problem(settings, name, value);
        // YAML 1.1, which Envoy reads, takes `off` for `false`.
        if value == "false" && message.is_some() && problem(settings, name, "off").is_none() {
            (value, message) = ("off", None);
        }
        if let Some(message) = message {
            reader.error(at, message);
        }
        texts.push(value.to_owned());
    }
    Some(Entry { name: name.to_owned(), id: arg.get_id().as_str().to_owned(), values: texts })
}

/// A value or a list of values, each with its place. Nothing is interpreted as YAML would: a value
/// is the text that would follow `--name=`.
fn values<'n>(reader: &mut Reader, name: &str, node: &'n Node) -> Option<Vec<(Mark, &'n str)>> {
    let nodes = match &node.value {
        Value::Scalar(_) => std::slice::from_ref(node),
        Value::List(nodes) => nodes,
        Value::Map(_) => &[],
    };
    if nodes.is_empty() {
        reader.error(node.at, format!("at least one value for `{name}` is expected"));
        return None;
    }
    let mut values = Vec::with_capacity(nodes.len());
    for node in nodes {
        match &node.value {
            Value::Scalar(scalar) if !scalar.is_nothing() && !scalar.text.is_empty() => {
                values.push((node.at, &*scalar.text));
            }
            Value::Scalar(_) | Value::List(_) | Value::Map(_) => {
                reader.error(node.at, format!("a value for `{name}` is expected"));
                return None;
            }
        }
    }
    Some(values)
}

fn suggestion(name: &str, settings: &Command) -> String {
    let names: Vec<&str> =
        settings.get_arguments().filter_map(|argument| argument.get_long()).collect();
    let kebab = name.replace('_', "-").to_lowercase();
    let longer = names.iter().copied().find(|setting| setting.starts_with(&*kebab));
    match longer.or_else(|| document::closest(name, names.iter().copied())) {
        Some(setting) => format!("did you mean `{setting}`?"),
        None => format!("the settings are {}", names.join(", ")),
    }
}

/// Why a value is not accepted as `--name=value` on the command line.
fn problem(settings: &Command, name: &str, value: &str) -> Option<String> {
    let arguments = ["settings".to_owned(), format!("--{name}={value}")];
    let error = settings.clone().try_get_matches_from(arguments).err()?;
    let reason = match (error.kind(), std::error::Error::source(&error)) {
        (ErrorKind::InvalidValue, _) => match error.get(ContextKind::ValidValue) {
            Some(valid) => format!("one of {valid} is expected"),
            None => "a value is missing".to_owned(),
        },
        (_, Some(source)) => source.to_string(),
        (kind, None) => kind.to_string(),
    };
    Some(format!("`{value}` for `{name}`: {reason}"))
}
