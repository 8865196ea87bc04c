//! A rule: methods and a path, which may have a host in front; or a mapping, for several hosts or
//! paths, or for gRPC.

use crate::model::Rule;
use crate::parse::unresolved::UnresolvedRule;
use crate::parse::values::{is_name, user_id_from};
use crate::parse::{conditions, grpc, host, method, path};
use crate::pattern::{Actions, Pattern, Scope};
use document::{Fields, Node, Reader, Text, Value};

/// The maximum length of a rule in bytes.
const MAX_LENGTH: usize = 8192;

const PATH_STARTS: &str = "write a path, such as `/people/{id}`: it starts with `/`";

/// Reads a rule in either form.
pub(crate) fn read(reader: &mut Reader, node: &Node) -> Option<UnresolvedRule> {
    match &node.value {
        Value::Map(_) => read_long(reader, node),
        Value::Scalar(_) | Value::List(_) => {
            let text = reader.text(node, "a rule")?;
            let rule = is_short_enough(reader, &text).then(|| read_short(reader, &text))??;
            Some(UnresolvedRule { rule, user_id_from: None, when: None })
        }
    }
}

/// Whether a rule, or its path or host, is short enough to fit into a request line.
fn is_short_enough(reader: &mut Reader, text: &Text<'_>) -> bool {
    let length = text.text.len();
    if length > MAX_LENGTH {
        reader.error(text.at, format!("a rule has {length} bytes, more than {MAX_LENGTH}"));
    }
    length <= MAX_LENGTH
}

fn read_short(reader: &mut Reader, text: &Text<'_>) -> Option<Rule> {
    let trimmed = text.text.trim_matches(' ');
    let Some((methods, target)) = trimmed.split_once(' ') else {
        let help = if trimmed.starts_with('/') && path::is_path(trimmed) {
            format!("did you mean `GET {trimmed}` or `* {trimmed}`?")
        } else {
            "write methods, a space and a path, such as `GET|HEAD /people/{id}` or `* /**`"
                .to_owned()
        };
        let message = format!("the rule `{trimmed}` is not methods and a path");
        return reader.reject(text.at, message, help);
    };
    let target = target.trim_start_matches(' ');
    if target.split_once('/').is_some_and(|(before, _)| before.contains(' ')) {
        let message = "methods and host have no space in them: the first space ends the methods";
        let help = "write methods as in `GET|POST`, one space, and the path";
        return reader.reject(text.at, message, help);
    }
    let actions = method::read(reader, methods.split('|').map(|method| (*text, method)));
    let (scopes, resources) = read_target(reader, text, target, actions.as_ref())?;
    let name = if trimmed.len() == text.text.len() { text.shared.clone() } else { trimmed.into() };
    let at = reader.place(text.at);
    Some(Rule { name, actions: actions?, scopes, resources, when: None, at })
}

/// Reads the `[HOST]PATH` of a short rule.
fn read_target(
    reader: &mut Reader,
    text: &Text<'_>,
    target: &str,
    actions: Option<&Actions>,
) -> Option<(Vec<Scope>, Vec<Pattern>)> {
    if target == "*" {
        return Some((Vec::new(), vec![read_asterisk(reader, text, target, actions)?]));
    }
    if let Some((scheme, _)) = target.split_once("://").filter(|(scheme, _)| !scheme.contains('/'))
    {
        let message = format!("a rule has no scheme, such as `{scheme}:`");
        let help = "write host and path alone, such as `api.example.com/people`";
        return reader.reject(text.locate(target), message, help);
    }
    let start = path::split(target).first().map_or(target.len(), |host| host.len());
    let (host, path) = target.split_at_checked(start)?;
    if path.is_empty() {
        return reader.reject(text.locate(target), format!("`{target}` has no path"), PATH_STARTS);
    }
    if is_forgotten_slash(host) {
        let message = format!("`{host}` is read as a host, not as the start of the path");
        let help = if path::is_path(&format!("/{target}")) {
            format!(
                "did you mean `/{target}`? If it is a host, write `hosts: [{host}]` in the long \
                 form"
            )
        } else {
            PATH_STARTS.to_owned()
        };
        return reader.reject(text.locate(target), message, help);
    }
    let scopes = if host.is_empty() {
        Some(Vec::new())
    } else {
        host::read(reader, text, host).map(|scope| vec![scope])
    };
    let resources = path::read(reader, text, path);
    Some((scopes?, resources?))
}

/// Whether the author probably forgot the slash of a path, and means no host. The rule
/// `GET internal/**` would be for every path of the host `internal`. Hardly any request has this
/// host, so as a `deny` it would deny nothing. But a client can send any host, so as an `allow` it
/// would allow that client every path. Nearly all hosts have a dot; others can be written in the
/// long form. `localhost` is read as a host: a path hardly ever begins with it.
fn is_forgotten_slash(host: &str) -> bool {
    !host.is_empty()
        && !host.contains(['.', ':', '*', '['])
        && !host.eq_ignore_ascii_case("localhost")
}

/// The path `*` of `OPTIONS *`.
fn read_asterisk(
    reader: &mut Reader,
    text: &Text<'_>,
    target: &str,
    actions: Option<&Actions>,
) -> Option<Pattern> {
    if matches!(actions?, Actions::These(methods) if methods.iter().all(|m| **m == *"OPTIONS")) {
        return Some(path::asterisk());
    }
    let message = "the path `*` exists only for `OPTIONS`";
    reader.reject(text.locate(target), message, "write `/**` for every path")
}

fn read_long(reader: &mut Reader, node: &Node) -> Option<UnresolvedRule> {
    let keys = ["name", "rule", "methods", "hosts", "paths", "grpc", "user_id_from", "when"];
    let fields = reader.fields(node, "a rule", &keys)?;
    let user_id_from = user_id_from(reader, &fields);
    let when = conditions::read_when(reader, &fields);
    if let Some((_, text)) = fields.field("rule") {
        let rule = read_short_in_map(reader, &fields, text)?;
        return Some(UnresolvedRule { rule, user_id_from, when });
    }
    let target = if fields.lacks("grpc") {
        read_methods_and_paths(reader, &fields)
    } else {
        read_grpc(reader, &fields)
    };
    let hosts = fields.field("hosts").map(|field| {
        reader
            .nonempty_texts(field, "leave it out: the rule then applies to any host")
            .unwrap_or_default()
    });
    let scopes = match &hosts {
        Some(hosts) => read_hosts(reader, hosts),
        None => Some(Vec::new()),
    };
    let name = reader.field_text(&fields, "name");
    if fields.value("name").is_some() && !is_name(reader, name?.at, name?.text, "a rule's name") {
        return None;
    }
    let (LongTarget { actions, resources, paths }, scopes) = (target?, scopes?);
    let name = name.map(|name| name.shared.clone()).unwrap_or_else(|| {
        let hosts = join_texts(&hosts.unwrap_or_default());
        format!("{actions} {hosts}{paths}").into()
    });
    let rule = Rule { name, actions, scopes, resources, when: None, at: reader.place(node.at) };
    Some(UnresolvedRule { rule, user_id_from, when })
}

/// The short form under `rule`, beside `name` and `when`.
fn read_short_in_map(reader: &mut Reader, fields: &Fields<'_>, node: &Node) -> Option<Rule> {
    for key in ["methods", "hosts", "paths", "grpc"] {
        if let Some((key, _)) = fields.field(key) {
            let message = format!("`{}` beside `rule`, which has it already", key.text);
            reader.error_help(key.at, message, "write the one or the other");
            return None;
        }
    }
    let text = reader.text(node, "`rule`")?;
    let rule = is_short_enough(reader, &text).then(|| read_short(reader, &text))??;
    let name = reader.field_text(fields, "name");
    if fields.value("name").is_some() && !is_name(reader, name?.at, name?.text, "a rule's name") {
        return None;
    }
    Some(Rule { name: name.map_or(rule.name, |name| name.shared.clone()), ..rule })
}

/// The methods and paths of a rule in the long form.
struct LongTarget {
    actions: Actions,
    resources: Vec<Pattern>,
    /// The paths as written.
    paths: String,
}

fn read_methods_and_paths(reader: &mut Reader, fields: &Fields<'_>) -> Option<LongTarget> {
    let methods =
        required_texts(reader, fields, "methods", "such as `[GET]`, or `[\"*\"]` for any");
    let paths = required_texts(reader, fields, "paths", "such as `[\"/people/{id}\"]`");
    let actions = methods
        .and_then(|methods| method::read(reader, methods.iter().map(|text| (*text, text.text))));
    let resources = paths.as_ref().and_then(|paths| read_paths(reader, paths, actions.as_ref()));
    Some(LongTarget { actions: actions?, resources: resources?, paths: join_texts(&paths?) })
}

/// Reads `grpc`, which is short for `methods` and `paths`.
fn read_grpc(reader: &mut Reader, fields: &Fields<'_>) -> Option<LongTarget> {
    for key in ["methods", "paths"] {
        if let Some((at, _)) = fields.field(key) {
            let message = format!("a rule with `grpc` has no `{key}`");
            reader.error_help(at.at, message, "leave it out, or write a rule of its own");
        }
    }
    reader.report_empty(fields, &["grpc"]);
    let text = reader.field_text(fields, "grpc")?;
    let resources = is_short_enough(reader, &text).then(|| grpc::read(reader, &text))??;
    let paths = format!("/{}", text.text);
    Some(LongTarget { actions: grpc::actions(), resources, paths })
}

fn join_texts(texts: &[Text<'_>]) -> String {
    texts.iter().map(|text| text.text).collect::<Vec<_>>().join(",")
}

/// The texts of a required, non-empty list.
fn required_texts<'n>(
    reader: &mut Reader,
    fields: &Fields<'n>,
    key: &str,
    such_as: &str,
) -> Option<Vec<Text<'n>>> {
    let Some(field) = fields.field(key) else {
        reader.required(fields, key, &format!("add a list {such_as}"));
        return None;
    };
    let texts = reader.nonempty_texts(field, &format!("write a list {such_as}"))?;
    texts.iter().all(|text| is_short_enough(reader, text)).then_some(texts)
}

fn read_paths(
    reader: &mut Reader,
    paths: &[Text<'_>],
    actions: Option<&Actions>,
) -> Option<Vec<Pattern>> {
    // Every path is read, even after a problem, so that all problems are reported.
    let patterns: Vec<Option<Vec<Pattern>>> = paths
        .iter()
        .map(|text| match text.text {
            "*" => read_asterisk(reader, text, text.text, actions).map(|pattern| vec![pattern]),
            path => path::read(reader, text, path),
        })
        .collect();
    let patterns: Option<Vec<Vec<Pattern>>> = patterns.into_iter().collect();
    patterns.map(|patterns| patterns.into_iter().flatten().collect())
}

fn read_hosts(reader: &mut Reader, hosts: &[Text<'_>]) -> Option<Vec<Scope>> {
    let scopes: Vec<_> = hosts.iter().map(|text| host::read(reader, text, text.text)).collect();
    scopes.into_iter().collect::<Option<Vec<Scope>>>().filter(|scopes| !scopes.is_empty())
}
