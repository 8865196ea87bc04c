//! One rule: `METHODS [HOST]PATH`, or a mapping for rules that need more.

use std::sync::Arc;

use crate::load::{host, method, path};
use crate::model::Rule;
use crate::pattern::{Actions, Pattern, Scope};
use crate::report::{Fields, Report, Text};
use crate::yaml::{Mark, Node, Value};

/// The maximum length of a rule in bytes.
const LONGEST: usize = 8192;

/// Reads a rule in either form.
pub(crate) fn read(report: &mut Report, node: &Node) -> Option<Rule> {
    match &node.value {
        Value::Map(_) => long(report, node),
        Value::Scalar(_) | Value::List(_) => {
            let (text, shared) = report.shared(node, "a rule")?;
            if !is_short_enough(report, &text) {
                return None;
            }
            short(report, &text, shared)
        }
    }
}

/// Whether a rule, or its path or host, is short enough to fit into a request line.
fn is_short_enough(report: &mut Report, text: &Text<'_>) -> bool {
    let short = text.text.len() <= LONGEST;
    if !short {
        report.error(text.at, format!("a rule has {} bytes, more than {LONGEST}", text.text.len()));
    }
    short
}

fn short(report: &mut Report, text: &Text<'_>, shared: &Arc<str>) -> Option<Rule> {
    let trimmed = text.text.trim_matches(' ');
    let Some((methods, target)) = trimmed.split_once(' ') else {
        let help = if trimmed.contains('/') {
            format!("did you mean `GET {trimmed}` or `* {trimmed}`?")
        } else {
            "write methods, a space and a path, such as `GET|HEAD /people/{id}`".to_owned()
        };
        report.error_help(text.at, format!("the rule `{trimmed}` is not methods and a path"), help);
        return None;
    };
    let target = target.trim_start_matches(' ');
    let actions = method::read(report, methods.split('|').map(|method| (*text, method)));
    let (scopes, resources) = place(report, text, target, actions.as_ref())?;
    let name = if trimmed.len() == shared.len() { shared.clone() } else { trimmed.into() };
    Some(Rule { name, actions: actions?, scopes, resources, at: report.place(text.at) })
}

/// Reads the `[HOST]PATH` of a short rule.
fn place(
    report: &mut Report,
    text: &Text<'_>,
    target: &str,
    actions: Option<&Actions>,
) -> Option<(Vec<Scope>, Vec<Pattern>)> {
    if target == "*" {
        return asterisk(report, text, target, actions).map(|resource| (Vec::new(), vec![resource]));
    }
    if let Some((scheme, _)) = target.split_once("://").filter(|(scheme, _)| !scheme.contains('/')) {
        let message = format!("a rule has no scheme, such as `{scheme}:`");
        report.error_help(text.locate(target), message, "start with the host or the path");
        return None;
    }
    let start = target.find('/').unwrap_or(target.len());
    let (host, path) = target.split_at_checked(start)?;
    if path.is_empty() {
        let help = format!("did you mean `/{target}`? A path starts with `/`");
        report.error_help(text.locate(target), format!("`{target}` has no path"), help);
        return None;
    }
    let scope = (!host.is_empty()).then(|| host::read(report, text, host));
    let resources = path::read(report, text, path);
    let scopes = match scope {
        Some(scope) => vec![scope?],
        None => Vec::new(),
    };
    Some((scopes, resources?))
}

fn asterisk(
    report: &mut Report,
    text: &Text<'_>,
    target: &str,
    actions: Option<&Actions>,
) -> Option<Pattern> {
    let options = |them: &[Box<str>]| them.iter().all(|it| **it == *"OPTIONS");
    match actions {
        Some(Actions::These(them)) if options(them) => Some(path::asterisk()),
        Some(_) => {
            let help = "write `/**` for every path";
            report.error_help(text.locate(target), "the path `*` exists only for `OPTIONS`", help);
            None
        }
        None => None,
    }
}

fn long(report: &mut Report, node: &Node) -> Option<Rule> {
    let fields = report.fields(node, "a rule", &["name", "methods", "hosts", "paths"])?;
    let methods = required(report, &fields, "methods", "such as `[GET]`, or `[\"*\"]` for any");
    let paths = required(report, &fields, "paths", "such as `[\"/people/{id}\"]`");
    let hosts = fields.field("hosts").map(|field| {
        report.filled(field, "leave it out: the rule then applies to any host").unwrap_or_default()
    });
    let actions = methods
        .as_ref()
        .and_then(|them| method::read(report, them.iter().map(|(text, _)| (*text, text.text))));
    let resources = paths.as_ref().and_then(|them| resources(report, them, actions.as_ref()));
    let scopes = match &hosts {
        Some(hosts) => scopes(report, hosts),
        None => Some(Vec::new()),
    };
    let name = match fields.value("name") {
        Some(name) => Some(named(report, name)?),
        None => None,
    };
    let (actions, scopes, resources) = (actions?, scopes?, resources?);
    let name = match name {
        Some(name) => name,
        None => short_form(&actions, hosts.as_deref(), paths.as_deref()).into(),
    };
    Some(Rule { name, actions, scopes, resources, at: report.place(node.at) })
}

/// The texts of a required, non-empty list.
fn required<'n>(
    report: &mut Report,
    fields: &Fields<'n>,
    key: &str,
    such_as: &str,
) -> Option<Vec<(Text<'n>, &'n Arc<str>)>> {
    let Some(field) = fields.field(key) else {
        report.error_help(fields.at, format!("the rule has no `{key}`"), format!("add a list {such_as}"));
        return None;
    };
    let texts = report.filled(field, &format!("write a list {such_as}"))?;
    texts.iter().all(|(text, _)| is_short_enough(report, text)).then_some(texts)
}

fn resources(
    report: &mut Report,
    paths: &[(Text<'_>, &Arc<str>)],
    actions: Option<&Actions>,
) -> Option<Vec<Pattern>> {
    let mut resources = Vec::with_capacity(paths.len());
    let mut failed = false;
    for (text, _) in paths {
        let read = match text.text {
            "*" => asterisk(report, text, text.text, actions).map(|it| vec![it]),
            path => path::read(report, text, path),
        };
        match read {
            Some(read) => resources.extend(read),
            None => failed = true,
        }
    }
    (!failed).then_some(resources)
}

fn scopes(report: &mut Report, hosts: &[(Text<'_>, &Arc<str>)]) -> Option<Vec<Scope>> {
    let read: Vec<_> = hosts.iter().map(|(text, _)| host::read(report, text, text.text)).collect();
    read.into_iter().collect::<Option<Vec<Scope>>>().filter(|scopes| !scopes.is_empty())
}

fn named(report: &mut Report, node: &Node) -> Option<Arc<str>> {
    let (text, name) = report.shared(node, "`name`")?;
    is_name(report, text.at, text.text, "a rule's name").then(|| name.clone())
}

/// Whether this can be the name of a role or rule. Names appear in headers and logs.
pub(crate) fn is_name(report: &mut Report, at: Mark, name: &str, what: &str) -> bool {
    if name.trim().is_empty() {
        report.error(at, format!("{what} is empty"));
        return false;
    }
    if name.chars().any(char::is_control) {
        report.error(at, format!("{what} has a control character in it"));
        return false;
    }
    true
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
