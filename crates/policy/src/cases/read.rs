//! Converts the tree of a `cases.yaml` to cases. Cases may contain passwords and tokens, so no problem shows one.

use std::sync::Arc;

use crate::cases::{Case, Credentials, Expect, Request, json, time};
use crate::parse::values::is_name;
use document::{Fields, Node, Reader, Value};

/// Reads every case; a problem in one does not prevent reading the others.
pub(super) fn cases(reader: &mut Reader, root: &Node) -> Vec<Case> {
    if let Value::Map(entries) = &root.value
        && let Some((key, _)) = entries.iter().find(|(key, _)| matches!(&*key.text, "cases" | "tests"))
    {
        let help = format!("leave `{}:` out: the file begins with `- name: …`", key.text);
        reader.error_help(root.at, "a file of cases must be a list, not a mapping", help);
        return Vec::new();
    }
    let Some(items) = reader.list(root, "a file of cases") else { return Vec::new() };
    if items.is_empty() {
        reader.error(root.at, "there are no cases");
    }
    items.iter().filter_map(|item| case(reader, item)).collect()
}

fn case(reader: &mut Reader, node: &Node) -> Option<Case> {
    let fields = reader.filled_fields(node, "a case", &["name", "request", "expect"])?;
    let name = required(reader, &fields, "name").and_then(|node| owned(reader, node, "`name`"));
    let request = required(reader, &fields, "request").and_then(|node| request(reader, node));
    let expect = required(reader, &fields, "expect").and_then(|node| expect(reader, node));
    Some(Case { name: name?, request: request?, expect: expect?, at: reader.place(node.at) })
}

fn required<'n>(reader: &mut Reader, fields: &Fields<'n>, key: &str) -> Option<&'n Node> {
    // A key without a value was reported.
    if fields.lacks(key) {
        reader.error(fields.at, format!("`{key}` is missing"));
    }
    fields.value(key)
}

fn owned(reader: &mut Reader, node: &Node, what: &str) -> Option<String> {
    reader.text(node, what).map(|text| text.text.to_owned())
}

fn request(reader: &mut Reader, node: &Node) -> Option<Request> {
    let known =
        ["method", "path", "host", "headers", "body", "basic", "bearer", "claims", "user", "groups", "at"];
    let fields = reader.filled_fields(node, "a request", &known)?;
    let path = required(reader, &fields, "path").and_then(|node| owned(reader, node, "`path`"));
    let method = fields.value("method").and_then(|node| owned(reader, node, "`method`"));
    let host = fields.value("host").and_then(|node| owned(reader, node, "`host`"));
    let headers = fields.value("headers").map(|node| headers(reader, node));
    let body = fields.value("body").and_then(|node| owned(reader, node, "`body`"));
    let credentials = credentials(reader, &fields);
    let at = fields.value("at").and_then(|node| {
        let text = reader.text(node, "`at`")?;
        let at = time::parse(text.text);
        if at.is_none() {
            let help = "write it in UTC, such as `2026-01-01T00:00:00Z`";
            reader.error_help(text.at, format!("`{}` is not a time", text.text), help);
        }
        at
    });
    Some(Request {
        method: method.unwrap_or_else(|| "GET".to_owned()),
        path: path?,
        host: host.unwrap_or_else(|| "localhost".to_owned()),
        body: body.unwrap_or_default(),
        headers: headers.unwrap_or_default(),
        credentials: credentials?,
        at,
    })
}

fn credentials(reader: &mut Reader, fields: &Fields<'_>) -> Option<Credentials> {
    let mut given = ["basic", "bearer", "claims", "user"].into_iter().filter_map(|key| fields.field(key));
    let Some((key, node)) = given.next() else {
        reject_groups(reader, fields);
        return Some(Credentials::None);
    };
    if let Some((second, _)) = given.next() {
        let message = format!("a request has either `{}` or `{}`", key.text, second.text);
        reader.error_help(second.at, message, "make two cases of it");
    }
    if &*key.text != "user" {
        reject_groups(reader, fields);
    }
    match &*key.text {
        "basic" => {
            let pair = owned(reader, node, "`basic`")?;
            if !pair.contains(':') {
                reader.error(node.at, "`basic` is not `user:password`");
            }
            Some(Credentials::Basic(pair))
        }
        "bearer" => owned(reader, node, "`bearer`").map(Credentials::Bearer),
        "user" => {
            let text = reader.text(node, "`user`")?;
            let groups = fields.value("groups").map(|node| reader.texts(node, "`groups`", "a group"));
            let mut groups = groups.unwrap_or_default();
            groups.retain(|(group, _)| is_name(reader, group.at, group.text, "a group"));
            let groups = groups.into_iter().map(|(_, group)| Arc::clone(group)).collect();
            let name = is_name(reader, text.at, text.text, "`user`").then(|| text.text.to_owned())?;
            Some(Credentials::User { name, groups })
        }
        _ => {
            reader.entries(node, "`claims`")?;
            json::write(reader, node).map(Credentials::Claims)
        }
    }
}

fn reject_groups(reader: &mut Reader, fields: &Fields<'_>) {
    if let Some((key, _)) = fields.field("groups") {
        let help = "write `user` beside it, or the groups of a token in its `claims`";
        reader.error_help(key.at, "only a request with `user` has `groups`", help);
    }
}

/// Headers: a name with a value, or with a list of values, each of which becomes one header line.
fn headers(reader: &mut Reader, node: &Node) -> Vec<(String, String)> {
    let entries = reader.entries(node, "`headers`");
    let mut lines = Vec::new();
    for (key, node) in entries.iter().flat_map(Fields::iter) {
        let values = match &node.value {
            Value::List(items) => items.as_slice(),
            Value::Scalar(_) | Value::Map(_) => std::slice::from_ref(node),
        };
        for value in values {
            if let Some(value) = owned(reader, value, "the value of a header") {
                lines.push((key.text.to_string(), value));
            }
        }
    }
    lines
}

fn expect(reader: &mut Reader, node: &Node) -> Option<Expect> {
    if matches!(node.value, Value::Scalar(_)) {
        let status = status(reader, node)?;
        return Some(Expect { status, rule: None, reason: None, headers: Vec::new() });
    }
    let fields = reader.filled_fields(node, "`expect`", &["status", "rule", "reason", "headers"])?;
    let status = required(reader, &fields, "status").and_then(|node| status(reader, node));
    let rule = fields.value("rule").and_then(|node| owned(reader, node, "`rule`"));
    let reason = fields.value("reason").and_then(|node| owned(reader, node, "`reason`"));
    let headers = fields.value("headers").map(|node| expected_headers(reader, node));
    Some(Expect { status: status?, rule, reason, headers: headers.unwrap_or_default() })
}

/// Expected headers; one without a value must be absent.
fn expected_headers(reader: &mut Reader, node: &Node) -> Vec<(String, String)> {
    let entries = reader.entries(node, "`headers`");
    let mut headers = Vec::new();
    for (key, node) in entries.iter().flat_map(Fields::iter) {
        let value = if node.is_nothing() {
            Some(String::new())
        } else {
            owned(reader, node, "the value of a header")
        };
        headers.extend(value.map(|value| (key.text.to_string(), value)));
    }
    headers
}

fn status(reader: &mut Reader, node: &Node) -> Option<u16> {
    let text = reader.text(node, "a status")?;
    let status = text.text.parse::<u16>().ok().filter(|status| (100..=599).contains(status));
    if status.is_none() {
        let message = format!("`{}` is not a status", text.text);
        reader.error_help(text.at, message, "write a number such as `200`, `401` or `403`");
    }
    status
}
