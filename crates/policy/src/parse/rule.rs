//! One rule: methods and a path, with or without a host in front of it, or a mapping for rules that need more.

use std::sync::Arc;

use crate::keys::RULE;
use crate::model::Rule;
use crate::parse::unresolved::UnresolvedRule;
use crate::parse::values::{is_name, user_id_from};
use crate::parse::{host, method, path};
use crate::pattern::{Actions, Pattern, Scope};
use document::{Fields, Node, Reader, Text, Value};

/// The maximum length of a rule in bytes.
const MAX_LENGTH: usize = 8192;

const PATH_STARTS: &str = "write a path, such as `/people/{id}`: it starts with `/`";

/// Reads a rule in either form.
pub(crate) fn read(reader: &mut Reader, node: &Node) -> Option<UnresolvedRule> {
    match &node.value {
        Value::Map(_) => long(reader, node),
        Value::Scalar(_) | Value::List(_) => {
            let (text, shared) = reader.shared(node, "a rule")?;
            if !is_short_enough(reader, &text) {
                return None;
            }
            short(reader, &text, shared).map(|rule| UnresolvedRule { rule, user_id_from: None })
        }
    }
}

/// Whether a rule, or its path or host, is short enough to fit into a request line.
fn is_short_enough(reader: &mut Reader, text: &Text<'_>) -> bool {
    let short = text.text.len() <= MAX_LENGTH;
    if !short {
        reader.error(text.at, format!("a rule has {} bytes, more than {MAX_LENGTH}", text.text.len()));
    }
    short
}

fn short(reader: &mut Reader, text: &Text<'_>, shared: &Arc<str>) -> Option<Rule> {
    let trimmed = text.text.trim_matches(' ');
    let Some((methods, target)) = trimmed.split_once(' ') else {
        let help = if trimmed.starts_with('/') && path::is_path(trimmed) {
            format!("did you mean `GET {trimmed}` or `* {trimmed}`?")
        } else {
            "write methods, a space and a path, such as `GET|HEAD /people/{id}` or `* /**`".to_owned()
        };
        reader.error_help(text.at, format!("the rule `{trimmed}` is not methods and a path"), help);
        return None;
    };
    let target = target.trim_start_matches(' ');
    if target.split_once('/').is_some_and(|(before, _)| before.contains(' ')) {
        let message = "methods and host have no space in them: the first one ends the methods";
        reader.error_help(text.at, message, "write methods as in `GET|POST`, one space, and the path");
        return None;
    }
    let actions = method::read(reader, methods.split('|').map(|method| (*text, method)));
    let (scopes, resources) = place(reader, text, target, actions.as_ref())?;
    let name = if trimmed.len() == shared.len() { shared.clone() } else { trimmed.into() };
    Some(Rule { name, actions: actions?, scopes, resources, at: reader.place(text.at) })
}

/// Reads the `[HOST]PATH` of a short rule.
fn place(
    reader: &mut Reader,
    text: &Text<'_>,
    target: &str,
    actions: Option<&Actions>,
) -> Option<(Vec<Scope>, Vec<Pattern>)> {
    if target == "*" {
        return asterisk(reader, text, target, actions).map(|resource| (Vec::new(), vec![resource]));
    }
    if let Some((scheme, _)) = target.split_once("://").filter(|(scheme, _)| !scheme.contains('/')) {
        let message = format!("a rule has no scheme, such as `{scheme}:`");
        let help = "write host and path alone, such as `api.example.com/people`";
        reader.error_help(text.locate(target), message, help);
        return None;
    }
    let start = target.find('/').unwrap_or(target.len());
    let (host, path) = target.split_at_checked(start)?;
    if path.is_empty() {
        reader.error_help(text.locate(target), format!("`{target}` has no path"), PATH_STARTS);
        return None;
    }
    if is_forgotten_slash(host) {
        let message = format!("`{host}` is read as a host, not as the start of the path");
        let help = if path::is_path(&format!("/{target}")) {
            format!("did you mean `/{target}`? If it is a host, write `hosts: [{host}]` in the long form")
        } else {
            PATH_STARTS.to_owned()
        };
        reader.error_help(text.locate(target), message, help);
        return None;
    }
    let scope = (!host.is_empty()).then(|| host::read(reader, text, host));
    let resources = path::read(reader, text, path);
    let scopes = match scope {
        Some(scope) => vec![scope?],
        None => Vec::new(),
    };
    Some((scopes, resources?))
}

/// Whether this is not meant as a host. `internal/**` would be every path of a host named `internal`: a `deny` rule that denies
/// nothing, or an `allow` rule for every path of whoever sends that host. Nearly all hosts have a dot. One of a
/// single label must be meant, and can be written in the long form. `localhost` is no likely start of a path.
fn is_forgotten_slash(host: &str) -> bool {
    !host.is_empty() && !host.contains(['.', ':', '*', '[']) && !host.eq_ignore_ascii_case("localhost")
}

fn asterisk(
    reader: &mut Reader,
    text: &Text<'_>,
    target: &str,
    actions: Option<&Actions>,
) -> Option<Pattern> {
    match actions? {
        Actions::These(methods) if methods.iter().all(|action| **action == *"OPTIONS") => {
            Some(path::asterisk())
        }
        Actions::Any | Actions::These(_) => {
            let help = "write `/**` for every path";
            reader.error_help(text.locate(target), "the path `*` exists only for `OPTIONS`", help);
            None
        }
    }
}

fn long(reader: &mut Reader, node: &Node) -> Option<UnresolvedRule> {
    let fields = reader.fields(node, "a rule", RULE)?;
    let user_id_from = user_id_from(reader, &fields);
    let methods = required(reader, &fields, "methods", "such as `[GET]`, or `[\"*\"]` for any");
    let paths = required(reader, &fields, "paths", "such as `[\"/people/{id}\"]`");
    let hosts = fields.field("hosts").map(|field| {
        reader.filled(field, "leave it out: the rule then applies to any host").unwrap_or_default()
    });
    let actions = methods
        .as_ref()
        .and_then(|methods| method::read(reader, methods.iter().map(|(text, _)| (*text, text.text))));
    let resources = paths.as_ref().and_then(|paths| resources(reader, paths, actions.as_ref()));
    let scopes = match &hosts {
        Some(hosts) => scopes(reader, hosts),
        None => Some(Vec::new()),
    };
    let name = match fields.value("name") {
        Some(name) => Some(named(reader, name)?),
        None => None,
    };
    let (actions, scopes, resources) = (actions?, scopes?, resources?);
    let name = match name {
        Some(name) => name,
        None => short_form(&actions, hosts.as_deref(), paths.as_deref()).into(),
    };
    let rule = Rule { name, actions, scopes, resources, at: reader.place(node.at) };
    Some(UnresolvedRule { rule, user_id_from })
}

/// The texts of a required, non-empty list.
fn required<'n>(
    reader: &mut Reader,
    fields: &Fields<'n>,
    key: &str,
    such_as: &str,
) -> Option<Vec<(Text<'n>, &'n Arc<str>)>> {
    let Some(field) = fields.field(key) else {
        if fields.lacks(key) {
            reader.error_help(fields.at, format!("the rule has no `{key}`"), format!("add a list {such_as}"));
        }
        return None;
    };
    let texts = reader.filled(field, &format!("write a list {such_as}"))?;
    texts.iter().all(|(text, _)| is_short_enough(reader, text)).then_some(texts)
}

fn resources(
    reader: &mut Reader,
    paths: &[(Text<'_>, &Arc<str>)],
    actions: Option<&Actions>,
) -> Option<Vec<Pattern>> {
    let mut resources = Vec::with_capacity(paths.len());
    let mut failed = false;
    for (text, _) in paths {
        let read = match text.text {
            "*" => asterisk(reader, text, text.text, actions).map(|pattern| vec![pattern]),
            path => path::read(reader, text, path),
        };
        match read {
            Some(read) => resources.extend(read),
            None => failed = true,
        }
    }
    (!failed).then_some(resources)
}

fn scopes(reader: &mut Reader, hosts: &[(Text<'_>, &Arc<str>)]) -> Option<Vec<Scope>> {
    let read: Vec<_> = hosts.iter().map(|(text, _)| host::read(reader, text, text.text)).collect();
    read.into_iter().collect::<Option<Vec<Scope>>>().filter(|scopes| !scopes.is_empty())
}

fn named(reader: &mut Reader, node: &Node) -> Option<Arc<str>> {
    let (text, name) = reader.shared(node, "`name`")?;
    is_name(reader, text.at, text.text, "a rule's name").then(|| name.clone())
}

/// The short-form text of a rule that was written in long form.
fn short_form(
    actions: &Actions,
    hosts: Option<&[(Text<'_>, &Arc<str>)]>,
    paths: Option<&[(Text<'_>, &Arc<str>)]>,
) -> String {
    let methods = match actions {
        Actions::Any => "*".to_owned(),
        Actions::These(methods) => methods.join("|"),
    };
    let list = |texts: Option<&[(Text<'_>, &Arc<str>)]>| {
        texts.unwrap_or_default().iter().map(|(text, _)| text.text).collect::<Vec<_>>().join(",")
    };
    format!("{methods} {}{}", list(hosts), list(paths))
}
