//! A node with the security plugin.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;

use serde_json::Value;

use crate::requests::Sent;

/// A connection to a node.
pub(crate) struct Node {
    address: String,
    /// The `Host` of its requests.
    host: String,
    stream: BufReader<TcpStream>,
}

/// The answer of a node.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    /// Whether the request was permitted; nothing if it failed for another reason.
    pub(crate) allowed: Option<bool>,
    /// The indices of the documents that a search found.
    pub(crate) found: Option<BTreeSet<String>>,
    /// The contents of an answer without an error: documents, their number, buckets of aggregations
    /// and indices.
    pub(crate) shown: Option<BTreeSet<String>>,
}

/// Paths whose answer has parts, which are denied on their own, and the key of these.
const COMPOSITE: [(&str, &str); 4] =
    [("_bulk", "items"), ("_mget", "docs"), ("_msearch", "responses"), ("_mtermvectors", "docs")];

impl Node {
    /// Connects to a node at a URL.
    pub(crate) fn at(url: &str) -> Self {
        let address = url.trim_start_matches("http://").trim_end_matches('/').to_owned();
        Self { host: address.clone(), stream: connect(&address), address }
    }

    /// Does something as the administrator, and gives the status.
    pub(crate) fn administer(&mut self, method: &str, target: &str, body: &str) -> (u16, String) {
        self.send(method, target, ("user", "admins"), body, "")
    }

    /// The same with this `Host`.
    pub(crate) fn with_host(self, host: &str) -> Self {
        Self { host: host.to_owned(), ..self }
    }

    /// The answer to a request.
    pub(crate) fn decide(&mut self, sent: &Sent) -> Answer {
        let mut target = sent.target.clone();
        if sent.is_dry {
            target += if target.contains('?') { "&" } else { "?" };
            target += "perform_permission_check=true";
        }
        let (status, text) =
            self.send(&sent.method, &target, (&sent.user, &sent.roles), &sent.body, "");
        Self::read(sent, &target, status, &text)
    }

    /// The answer to a request with these header lines in addition, each with its end.
    pub(crate) fn answer(&mut self, sent: &Sent, lines: &str) -> (Answer, String) {
        let (status, text) =
            self.send(&sent.method, &sent.target, (&sent.user, &sent.roles), &sent.body, lines);
        (Self::read(sent, &sent.target, status, &text), text)
    }

    fn read(sent: &Sent, target: &str, status: u16, text: &str) -> Answer {
        let answer: Value = serde_json::from_str(text).unwrap_or_default();
        let is_denied = |error: &Value| {
            let text = error.to_string();
            text.contains("security_exception") && text.contains("no permissions")
        };
        let path = target.split('?').next().unwrap_or_default();
        let parts = COMPOSITE
            .iter()
            .find(|(end, _)| path.ends_with(end))
            .and_then(|(_, key)| answer[*key].as_array());
        let allowed = match (status, parts) {
            (403, _) => {
                Some(false).filter(|_| sent.method == "HEAD" || is_denied(&answer["error"]))
            }
            (200, Some(parts)) => Some(!parts.iter().any(is_denied)),
            (200, None) if answer["accessAllowed"].is_boolean() => {
                answer["accessAllowed"].as_bool()
            }
            (200..300 | 404 | 409, _) => Some(true),
            _ => None,
        };
        // A query finds some of the documents only.
        let hits =
            answer["hits"]["hits"].as_array().filter(|_| status == 200 && sent.body.is_empty());
        let found = hits.map(|hits| {
            hits.iter().filter_map(|hit| hit["_index"].as_str()).map(Into::into).collect()
        });
        let shown = (status == 200 && !sent.is_dry).then(|| shown(path, &answer));
        Answer { status, allowed, found, shown }
    }

    fn send(
        &mut self,
        method: &str,
        target: &str,
        (user, roles): (&str, &str),
        body: &str,
        lines: &str,
    ) -> (u16, String) {
        let kind = if target.contains("_bulk") || target.contains("_msearch") {
            "x-ndjson"
        } else {
            "json"
        };
        let kind = if body.is_empty() {
            String::new()
        } else {
            format!("content-type: application/{kind}\r\n")
        };
        let head = format!(
            "{method} {target} HTTP/1.1\r\nhost: {}\r\nx-proxy-user: {user}\r\nx-proxy-roles: {roles}\r\n\
             x-forwarded-for: 127.0.0.1\r\n{lines}{kind}content-length: {}\r\n\r\n{body}",
            self.host,
            body.len()
        );
        self.stream.get_mut().write_all(head.as_bytes()).expect("the node reads");
        let mut line = String::new();
        self.stream.read_line(&mut line).expect("the node answers");
        let status =
            line.split(' ').nth(1).and_then(|status| status.parse().ok()).expect("a status");
        let (mut length, mut closes) = (0, false);
        loop {
            line.clear();
            self.stream.read_line(&mut line).expect("the node answers");
            let Some((name, value)) = line.trim_end().split_once(':') else { break };
            if name.eq_ignore_ascii_case("content-length") {
                length = value.trim().parse().expect("a length");
            }
            closes |= name.eq_ignore_ascii_case("connection") && value.trim() == "close";
        }
        let mut text = vec![0; if method == "HEAD" { 0 } else { length }];
        self.stream.read_exact(&mut text).expect("the node answers");
        // Envoy closes a connection on which it has answered before it read the whole body.
        if closes {
            self.stream = connect(&self.address);
        }
        (status, String::from_utf8_lossy(&text).into_owned())
    }
}

fn connect(address: &str) -> BufReader<TcpStream> {
    let stream = TcpStream::connect(address).expect("the node listens");
    stream.set_nodelay(true).expect("a socket");
    BufReader::new(stream)
}

/// The contents of an answer that are the same on two nodes with the same contents.
fn shown(path: &str, answer: &Value) -> BTreeSet<String> {
    let texts = |values: &Value, prefix: &str| -> Vec<String> {
        values.as_array().into_iter().flatten().map(|value| format!("{prefix} {value}")).collect()
    };
    let mut shown: Vec<String> = Vec::new();
    for hit in answer["hits"]["hits"].as_array().into_iter().flatten() {
        shown.push(format!("document {}/{} {}", hit["_index"], hit["_id"], hit["_source"]));
    }
    for count in [&answer["hits"]["total"]["value"], &answer["count"]]
        .into_iter()
        .filter(|count| count.is_u64())
    {
        shown.push(format!("{count} documents"));
    }
    shown.extend(texts(&answer["aggregations"]["by_index"]["buckets"], "bucket"));
    if path.ends_with("/_field_caps") {
        shown.extend(texts(&answer["indices"], "index"));
    }
    let by_index = ["/_mapping", "/_settings", "/_alias", "/_mapping/field/f"];
    if by_index.iter().any(|end| path.ends_with(end)) {
        shown.extend(
            answer.as_object().into_iter().flatten().map(|(name, _)| format!("index {name:?}")),
        );
    }
    // Only the node with the plugin has its index.
    shown.into_iter().filter(|one| !one.contains(".opendistro_security")).collect()
}
