//! Converts the tree of a `cases.yaml` to cases. Cases may contain passwords and tokens, so
//! problems never show them.

use std::time::Duration;

use serde_json::{Map, Value as Json};

use crate::cases::{AskedQuestion, Case, Credentials, Expect, Request, parse_time};
use crate::json;
use crate::parse::values::is_name;
use document::{Fields, Node, Reader, Text, Value};

/// Reads every case, even after a problem.
pub(super) fn read_cases(reader: &mut Reader, root: &Node) -> Vec<Case> {
    if let Value::Map(entries) = &root.value
        && let Some((key, _)) =
            entries.iter().find(|(key, _)| matches!(&*key.text, "cases" | "tests"))
    {
        let help = format!("leave `{}:` out: the file begins with `- name: …`", key.text);
        reader.error_help(root.at, "a file of cases must be a list, not a mapping", help);
        return Vec::new();
    }
    let Some(items) = reader.list(root, "a file of cases") else { return Vec::new() };
    if items.is_empty() {
        reader.error(root.at, "there are no cases");
    }
    items.iter().filter_map(|item| read_case(reader, item)).collect()
}

fn read_case(reader: &mut Reader, node: &Node) -> Option<Case> {
    let fields = reader.filled_fields(node, "a case", &["name", "request", "expect"])?;
    reader.required(&fields, "name", "say what the case shows");
    let name = read_text(reader, &fields, "name");
    let request = reader.required(&fields, "request", "write `request: { path: … }`");
    let request = request.and_then(|node| read_request(reader, node));
    let expect = reader.required(&fields, "expect", "write the status, such as `expect: 403`");
    let expect = expect.and_then(|node| read_expect(reader, node));
    Some(Case { name: name?, request: request?, expect: expect?, at: reader.place(node.at) })
}

fn read_text(reader: &mut Reader, fields: &Fields<'_>, key: &str) -> Option<String> {
    reader.field_text(fields, key).map(|text| text.text.to_owned())
}

fn read_request(reader: &mut Reader, node: &Node) -> Option<Request> {
    let field_names = [
        "method",
        "path",
        "query",
        "host",
        "headers",
        "client",
        "body",
        "basic",
        "bearer",
        "api_key",
        "certificate",
        "claims",
        "user",
        "groups",
        "question",
        "at",
        "time",
    ];
    let fields = reader.filled_fields(node, "a request", &field_names)?;
    reader.required(&fields, "path", "write the path that is requested");
    let path = read_text(reader, &fields, "path");
    let query = fields
        .value("query")
        .map(|node| read_pairs(reader, node, ("`query`", "the value of a parameter")));
    let method = read_text(reader, &fields, "method");
    let host = read_text(reader, &fields, "host");
    let headers = fields
        .value("headers")
        .map(|node| read_pairs(reader, node, ("`headers`", "the value of a header")));
    let client = reader.field_text(&fields, "client");
    if let Some(text) = client.filter(|text| text.text.parse::<std::net::IpAddr>().is_err()) {
        let message = format!("`{}` is not an address", text.text);
        reader.error_help(text.at, message, "write `192.0.2.7` or `2001:db8::1`");
    }
    if let Some((time, _)) = fields.field("time").filter(|_| fields.field("at").is_some()) {
        reader.error_help(time.at, "`time` beside `at`", "write the one or the other");
    }
    let body = read_text(reader, &fields, "body");
    let credentials = read_credentials(reader, &fields);
    let certificate = fields.value("certificate").map(|node| read_certificate(reader, node));
    let question = fields.value("question").map(|node| read_question(reader, node));
    let at = reader.field_text(&fields, "at").or_else(|| reader.field_text(&fields, "time"));
    let at = at.and_then(|text| read_time(reader, &text));
    Some(Request {
        method: method.unwrap_or_else(|| "GET".to_owned()),
        path: with_query(path?, &query.unwrap_or_default()),
        host: host.unwrap_or_else(|| "localhost".to_owned()),
        body: body.unwrap_or_default(),
        headers: headers.unwrap_or_default(),
        client: client.map(|client| client.text.to_owned()).unwrap_or_default(),
        credentials: credentials?,
        certificate,
        question: question.map_or(Some(None), |question| question.map(Some))?,
        at,
    })
}

fn read_question(reader: &mut Reader, node: &Node) -> Option<AskedQuestion> {
    let fields = reader.filled_fields(node, "`question`", &["resource", "action", "context"])?;
    let [resource, action, context] =
        ["resource", "action", "context"].map(|key| read_members(reader, &fields, key));
    Some(AskedQuestion { resource: resource?, action: action?, context: context? })
}

/// Reads one of the objects in `question`, such as `resource`. It is empty if its key is absent.
fn read_members(reader: &mut Reader, fields: &Fields<'_>, key: &str) -> Option<Map<String, Json>> {
    let Some(node) = fields.value(key) else { return Some(Map::new()) };
    reader.entries(node, &format!("`{key}`"))?;
    match json::from_yaml(reader, node)? {
        Json::Object(members) => Some(members),
        _ => None,
    }
}

fn read_time(reader: &mut Reader, text: &Text<'_>) -> Option<Duration> {
    let time = parse_time(text.text);
    if time.is_none() {
        let help = "write it in UTC, such as `2026-01-01T00:00:00Z`";
        reader.error_help(text.at, format!("`{}` is not a time", text.text), help);
    }
    time
}

/// The names of a certificate: a text, or a list of texts.
fn read_certificate(reader: &mut Reader, node: &Node) -> Vec<String> {
    let names = match &node.value {
        Value::List(_) => reader.texts(node, "`certificate`", "a name of a certificate"),
        Value::Scalar(_) | Value::Map(_) => {
            reader.text(node, "`certificate`").into_iter().collect()
        }
    };
    for name in &names {
        if !name.text.contains(':') {
            let message = format!("`{}` is no name of a certificate", name.text);
            let help = "write `spiffe://example.org/ns/a/sa/b`, or `dns:` before a DNS name";
            reader.error_help(name.at, message, help);
        }
    }
    names.iter().map(|name| name.text.to_owned()).collect()
}

fn read_credentials(reader: &mut Reader, fields: &Fields<'_>) -> Option<Credentials> {
    let keys = ["basic", "bearer", "api_key", "claims", "user"];
    let mut credentials = keys.into_iter().filter_map(|key| fields.field(key));
    let Some((key, node)) = credentials.next() else {
        reject_groups(reader, fields);
        return Some(Credentials::None);
    };
    if let Some((second, _)) = credentials.next() {
        let message = format!("a request has either `{}` or `{}`", key.text, second.text);
        reader.error_help(second.at, message, "write two cases");
    }
    if &*key.text != "user" {
        reject_groups(reader, fields);
    }
    match &*key.text {
        "basic" => {
            let pair = read_text(reader, fields, "basic")?;
            if !pair.contains(':') {
                reader.error(node.at, "`basic` is not `user:password`");
            }
            Some(Credentials::Basic(pair))
        }
        "bearer" => read_text(reader, fields, "bearer").map(Credentials::Bearer),
        "api_key" => read_text(reader, fields, "api_key").map(Credentials::ApiKey),
        "user" => {
            let name = reader.field_text(fields, "user")?;
            let groups =
                fields.value("groups").map(|node| reader.texts(node, "`groups`", "a group"));
            let mut groups = groups.unwrap_or_default();
            groups.retain(|group| is_name(reader, group.at, group.text, "a group"));
            let groups = groups.iter().map(|text| text.shared.clone()).collect();
            let has_valid_name = is_name(reader, name.at, name.text, "`user`");
            has_valid_name.then(|| Credentials::User { name: name.text.to_owned(), groups })
        }
        // The key is `claims`.
        _ => {
            reader.entries(node, "`claims`")?;
            json::from_yaml(reader, node).map(|claims| Credentials::Claims(claims.to_string()))
        }
    }
}

fn reject_groups(reader: &mut Reader, fields: &Fields<'_>) {
    if let Some((key, _)) = fields.field("groups") {
        let help = "write `user` beside it, or the groups of a token in its `claims`";
        reader.error_help(key.at, "only a request with `user` has `groups`", help);
    }
}

/// Adds these parameters to a path. Each character that has a meaning in a query, such as `&`, is
/// percent-encoded.
fn with_query(mut path: String, query: &[(String, String)]) -> String {
    for (name, value) in query {
        path.push(if path.contains('?') { '&' } else { '?' });
        for (index, text) in [name, value].into_iter().enumerate() {
            path.push_str(if index == 0 { "" } else { "=" });
            for byte in text.bytes() {
                if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
                    path.push(char::from(byte));
                } else {
                    path.push_str(&format!("%{byte:02X}"));
                }
            }
        }
    }
    path
}

/// Reads headers or parameters. A name has a value or a list of values; each value becomes a pair
/// of the name and this value. Messages call the mapping `subject`, and a value of it `item`.
fn read_pairs(
    reader: &mut Reader,
    node: &Node,
    (subject, item): (&str, &str),
) -> Vec<(String, String)> {
    let entries = reader.entries(node, subject);
    let mut pairs = Vec::new();
    for (key, node) in entries.iter().flat_map(Fields::iter) {
        let values = match &node.value {
            Value::List(items) => items.as_slice(),
            Value::Scalar(_) | Value::Map(_) => std::slice::from_ref(node),
        };
        for value in values {
            if let Some(value) = reader.text(value, item) {
                pairs.push((key.text.to_string(), value.text.to_owned()));
            }
        }
    }
    pairs
}

fn read_expect(reader: &mut Reader, node: &Node) -> Option<Expect> {
    if matches!(node.value, Value::Scalar(_)) {
        let status = read_status(reader, node)?;
        return Some(Expect { status, ..Expect::default() });
    }
    let keys = ["status", "rule", "reason", "headers", "metadata"];
    let fields = reader.filled_fields(node, "`expect`", &keys)?;
    let status = reader.required(&fields, "status", "write a number such as `200`, `401` or `403`");
    let status = status.and_then(|node| read_status(reader, node));
    let rule = read_text(reader, &fields, "rule");
    let reason = read_text(reader, &fields, "reason");
    let headers = fields.value("headers").map(|node| read_expected_headers(reader, node));
    let metadata = fields.value("metadata").map(|node| read_expected_metadata(reader, node));
    Some(Expect {
        status: status?,
        rule,
        reason,
        headers: headers.unwrap_or_default(),
        metadata: metadata.unwrap_or_default(),
    })
}

/// Reads the expected headers. A header without a value is expected to be absent; its text is then
/// empty.
fn read_expected_headers(reader: &mut Reader, node: &Node) -> Vec<(String, String)> {
    let entries = reader.entries(node, "`headers`");
    let mut headers = Vec::new();
    for (key, node) in entries.iter().flat_map(Fields::iter) {
        let value = read_expected_value(reader, node, "the value of a header");
        headers.extend(value.map(|value| (key.text.to_string(), value)));
    }
    headers
}

/// Reads the expected metadata. A key without a value is expected to be absent; its text is then
/// empty. A field of a mapping is read as the key `KEY.FIELD`.
fn read_expected_metadata(reader: &mut Reader, node: &Node) -> Vec<(String, String)> {
    const VALUE: &str = "a value of metadata";
    let entries = reader.entries(node, "`metadata`");
    let mut metadata = Vec::new();
    for (key, node) in entries.iter().flat_map(Fields::iter) {
        if matches!(node.value, Value::Map(_)) {
            let fields = reader.entries(node, VALUE);
            for (field, node) in fields.iter().flat_map(Fields::iter) {
                let value = read_expected_value(reader, node, VALUE);
                metadata.extend(value.map(|value| (format!("{}.{}", key.text, field.text), value)));
            }
        } else {
            let value = read_expected_value(reader, node, VALUE);
            metadata.extend(value.map(|value| (key.text.to_string(), value)));
        }
    }
    metadata
}

/// Reads an expected text. It is empty if the node has no value.
fn read_expected_value(reader: &mut Reader, node: &Node, what: &str) -> Option<String> {
    if node.is_nothing() {
        return Some(String::new());
    }
    reader.text(node, what).map(|text| text.text.to_owned())
}

fn read_status(reader: &mut Reader, node: &Node) -> Option<u16> {
    let text = reader.text(node, "a status")?;
    let status = text.text.parse::<u16>().ok().filter(|status| (100..=599).contains(status));
    if status.is_none() {
        let message = format!("`{}` is not a status", text.text);
        reader.error_help(text.at, message, "write a number such as `200`, `401` or `403`");
    }
    status
}
