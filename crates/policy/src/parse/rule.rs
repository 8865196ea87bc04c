//! One rule: methods and a path, with or without a host in front of it, or a mapping for rules that need more.

use std::sync::Arc;

use crate::levels::RULE;
use crate::model::Rule;
use crate::parse::names::{is_name, user_id_from};
use crate::parse::unresolved::{NameRefs, UnresolvedRule};
use crate::parse::{host, method, path};
use crate::pattern::{Actions, Pattern, Scope};
use document::{Fields, Node, Reader, Text, Value};

/// The maximum length of a rule in bytes.
const MAX_LENGTH: usize = 8192;

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
        let help = if matches!(trimmed, "*" | "all" | "ALL" | "any" | "ANY") {
            "write `* /**` for every request".to_owned()
        } else if let Some((methods, path)) = joined(trimmed).filter(|(_, path)| path::is_path(path)) {
            format!("did you mean `{methods} {path}`?")
        } else if let Some(target) = Some(trimmed).filter(|text| text.contains('/')).and_then(meant_target) {
            format!("did you mean `GET {target}` or `* {target}`?")
        } else {
            "write methods, a space and a path, such as `GET|HEAD /people/{id}`".to_owned()
        };
        reader.error_help(text.at, format!("the rule `{trimmed}` is not methods and a path"), help);
        return None;
    };
    let target = target.trim_start_matches(' ');
    if let Some(help) = spaced_methods(methods, target) {
        let message = "methods and host have no space in them: the first one ends the methods";
        reader.error_help(text.at, message, help);
        return None;
    }
    let actions = method::read(reader, methods.split('|').map(|method| (*text, method)));
    let (scopes, resources) = place(reader, text, target, actions.as_ref())?;
    let name = if trimmed.len() == shared.len() { shared.clone() } else { trimmed.into() };
    Some(Rule { name, actions: actions?, scopes, resources, at: reader.place(text.at) })
}

/// Methods and path that are joined by something else than a space: `GET:/people`, or a tab.
fn joined(rule: &str) -> Option<(&str, &str)> {
    let (methods, path) = rule.split_at_checked(rule.find('/')?)?;
    let methods = methods.trim_end_matches(['\t', ':', ',', '=', '>', '-']);
    let is_method = |method: &str| method == "*" || method.bytes().all(|byte| byte.is_ascii_uppercase());
    (!methods.is_empty() && methods.split('|').all(is_method)).then_some((methods, path))
}

/// What to write instead of methods with spaces: `GET, POST /people`, `GET | POST /people`, `[GET, POST] /people`.
fn spaced_methods(first: &str, target: &str) -> Option<String> {
    let (more, path) = target.split_at_checked(target.find('/')?)?;
    if !more.contains(' ') {
        return None;
    }
    let separators = |character: char| !(character.is_ascii_alphanumeric() || character == '*');
    let methods: Vec<String> = [first, more]
        .iter()
        .flat_map(|part| part.split(separators))
        .filter(|method| !method.is_empty())
        .map(str::to_ascii_uppercase)
        .collect();
    let are_methods = match methods.as_slice() {
        [method] if method == "*" => true,
        methods => methods.iter().all(|method| method::is_known(method)),
    };
    Some(if are_methods && path::is_path(path) {
        format!("did you mean `{} {path}`?", methods.join("|"))
    } else {
        "write methods as in `GET|POST`, one space, and the path".to_owned()
    })
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
    if let Some((scheme, rest)) = without_scheme(target) {
        let message = format!("a rule has no scheme, such as `{scheme}:`");
        reader.error_help(text.locate(target), message, instead_of_url(rest));
        return None;
    }
    let start = target.find('/').unwrap_or(target.len());
    let (host, path) = target.split_at_checked(start)?;
    if path.is_empty() {
        let help = if target.contains('.') && !target.contains('*') {
            if is_target(&format!("{target}/**")) && path::is_path(&format!("/{target}")) {
                format!("did you mean `{target}/**` for this host, or `/{target}`?")
            } else {
                PATH_STARTS.to_owned()
            }
        } else if path::is_path(&format!("/{target}")) {
            format!("did you mean `/{target}`? A path starts with `/`")
        } else {
            PATH_STARTS.to_owned()
        };
        reader.error_help(text.locate(target), format!("`{target}` has no path"), help);
        return None;
    }
    if let Some(help) = forgotten_slash(host, path) {
        let message = format!("`{host}` is read as a host, not as the start of the path");
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

/// What to write instead of `internal/**`, which would be every path of a host named `internal`: a `deny` rule that
/// denies nothing, or an `allow` rule for every path of whoever sends that host. Nearly all hosts have a dot. One of a
/// single label must be meant, and can be written in the long form. `localhost` is no likely start of a path.
fn forgotten_slash(host: &str, path: &str) -> Option<String> {
    let is_label = |host: &str| !host.is_empty() && !host.contains(['.', ':', '*', '[']);
    (is_label(host) && !host.eq_ignore_ascii_case("localhost")).then(|| {
        if host == "^" {
            return match path::of_regex(path) {
                Some(path) => format!("did you mean `{path}`? A path is not a regular expression"),
                None => "a path is not a regular expression: write `{id}` for any segment, and `/**` at the end for \
                         everything below"
                    .to_owned(),
            };
        }
        if !path::is_path(&format!("/{host}{path}")) {
            return PATH_STARTS.to_owned();
        }
        format!("did you mean `/{host}{path}`? If it is a host, write `hosts: [{host}]` in the long form")
    })
}

const PATH_STARTS: &str = "write a path, such as `/people/{id}`: it starts with `/`";

/// The scheme of a URL, and what follows `://`.
fn without_scheme(target: &str) -> Option<(&str, &str)> {
    target.split_once("://").filter(|(scheme, _)| !scheme.contains('/'))
}

/// Whether this is a `[HOST]PATH` without errors: only such a one is suggested.
fn is_target(target: &str) -> bool {
    let (host, path) = target.split_at(target.find('/').unwrap_or(target.len()));
    let mut reader = Reader::new(std::path::Path::new("").into());
    let is_host = host.is_empty() || host::read(&mut reader, &Text::of(host), host).is_some();
    is_host && forgotten_slash(host, path).is_none() && path::is_path(path)
}

/// The `[HOST]PATH` that the author of a faulty one probably wants.
fn meant_target(target: &str) -> Option<String> {
    if let Some((_, rest)) = without_scheme(target) {
        return of_url(rest).map(|(host, path)| format!("{host}{path}")).filter(|target| is_target(target));
    }
    let regex = || target.strip_prefix('^').and_then(path::of_regex);
    let own = || Some(target.to_owned()).filter(|target| is_target(target));
    let slash =
        || Some(format!("/{target}")).filter(|_| !target.contains(':')).filter(|path| path::is_path(path));
    own().or_else(regex).or_else(slash)
}

/// The host of a URL without its port, empty if it is this machine, and the path without a query.
fn of_url(rest: &str) -> Option<(&str, &str)> {
    let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    let path = path.split(['?', '#']).next().filter(|path| !path.is_empty()).unwrap_or("/");
    let host = match authority.rsplit_once(':') {
        Some((host, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => host,
        _ => authority,
    };
    let here = host.eq_ignore_ascii_case("localhost") || ["127.0.0.1", "[::1]"].contains(&host);
    path::is_path(path).then_some((if here { "" } else { host }, path))
}

/// What to write instead of a URL, of which this follows the scheme.
fn instead_of_url(rest: &str) -> String {
    match of_url(rest) {
        None => PATH_STARTS.to_owned(),
        Some((host, path)) if is_target(&format!("{host}{path}")) => format!("did you mean `{host}{path}`?"),
        Some((host, path)) => {
            let mut reader = Reader::new(std::path::Path::new("").into());
            if host::read(&mut reader, &Text::of(host), host).is_some() {
                format!(
                    "did you mean `{path}`? For this host alone, write `hosts: [{host}]` in the long form"
                )
            } else {
                "write host and path alone, such as `api.example.com/people`".to_owned()
            }
        }
    }
}

fn asterisk(
    reader: &mut Reader,
    text: &Text<'_>,
    target: &str,
    actions: Option<&Actions>,
) -> Option<Pattern> {
    let only_options = |methods: &[Box<str>]| methods.iter().all(|action| **action == *"OPTIONS");
    match actions {
        Some(Actions::These(methods)) if only_options(methods) => Some(path::asterisk()),
        Some(_) => {
            let help = "write `/**` for every path";
            reader.error_help(text.locate(target), "the path `*` exists only for `OPTIONS`", help);
            None
        }
        None => None,
    }
}

fn long(reader: &mut Reader, node: &Node) -> Option<UnresolvedRule> {
    if let Some(help) = reader.entries(node, "a rule").and_then(|fields| short_in_mapping(&fields)) {
        reader.error_help(node.at, "a rule in the short form is text, not a mapping", help);
        return None;
    }
    let fields = reader.fields(node, "a rule", RULE)?;
    let user_id_from: Option<NameRefs> = user_id_from(reader, &fields);
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

/// What to write instead of `GET: /people`.
fn short_in_mapping(fields: &Fields<'_>) -> Option<String> {
    let (key, node) = fields.iter().next()?;
    let Value::Scalar(path) = &node.value else { return None };
    let is_short = method::is_known(&key.text) && is_target(&path.text);
    is_short.then(|| format!("did you mean `{} {}`?", key.text, path.text))
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
