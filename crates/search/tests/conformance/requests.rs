//! Generated requests.

use fastrand::Rng;
use serde_json::{Value, json};

use crate::node::Answer;
use crate::world::ROLES;

/// A request, and who sends it.
pub(crate) struct Sent {
    pub(crate) user: String,
    /// Backend roles, separated by commas.
    pub(crate) roles: String,
    pub(crate) method: String,
    pub(crate) target: String,
    pub(crate) body: String,
    /// It changes the cluster, so a node is asked only whether it would be permitted.
    pub(crate) is_dry: bool,
    /// It may create an index.
    pub(crate) may_create: bool,
}

pub(crate) const NAMES: [&str; 26] = [
    "logs-a",
    "logs-b",
    "logs-c",
    "logs-2026.01",
    "logs-old",
    "secret",
    "secret-b",
    "public",
    "team-user",
    "team-other",
    ".dotted",
    "hidden-x",
    "all-logs",
    "mix",
    "pub",
    "logs-now",
    "stream-app",
    ".ds-stream-app-000001",
    ".kibana",
    "new-1",
    "new-2",
    "gen-a",
    "logs-gen",
    ".gen",
    "al-gen",
    "al-logs",
];
/// The users that send requests.
const USERS: [&str; 5] = ["user", "user", "user", "other", "a.b"];
const EXPRESSIONS: [&str; 65] = [
    "*",
    "_all",
    "",
    "logs-*",
    "logs-*",
    "*-b",
    "secret*",
    "l*",
    "pub*",
    "p*,s*",
    "logs-a,logs-b",
    "logs-a,secret",
    "logs-*,-logs-b",
    "*,-secret*",
    "logs-*,-logs-*",
    "-logs-a",
    "-logs-a,logs-*",
    "nothing*",
    "stream-*",
    "s*",
    ".d*",
    "hidden-*",
    "all-logs,public",
    "m*",
    "logs-*,new-1",
    "logs-a%2Clogs-b",
    "%6Cogs-a",
    "logs-a,",
    "*-now",
    ".ds-*",
    "logs-*,-nothing",
    "logs-*,-logs-b,new-1",
    "logs-*,-logs-b*,new-1",
    // These exclusions exclude less than they name.
    "stream-*,-stream-app",
    "stream-*,-stream-app,-mix",
    "*,-stream-app",
    ".ds-*,-*ds-*",
    ".ds-*,-*ds-*,-mix",
    ".ds-*,-*stream*",
    "stream-*,-.ds-*",
    "secret-b*,-hid-*",
    "secret-b*,-hid-*,-mix",
    "publi*,-pu*b",
    "hid-*",
    "secret*,-mix",
    "logs-*,pub,-public",
    "logs-*,mix,-secret*",
    "logs-*,stream-app,-stream*",
    "secret,logs-*,-secret",
    ".kibana",
    ".kib*",
    ".kibana,.kibana",
    ".kibana*,public",
    "gen-*",
    "al-*",
    "*gen",
    "*gen*,-al-*",
    "al-gen,-secret*",
    "al-*,-al-gen",
    "al-*,-gen-a,-secret",
    "stream-gen",
    "stream-*,-stream-gen",
    "old-*",
    "gen-a,gen-b,al-logs",
    "_all,logs-a",
];
/// Parts of lists, beside [`NAMES`].
const PARTS: [&str; 14] = [
    "logs-*",
    "secret*",
    "stream-*",
    "stream-app",
    ".ds-*",
    "al-*",
    "all-logs",
    "mix",
    "-logs-b",
    "-logs-*",
    "-secret*",
    "-.ds-*",
    "-stream-app",
    "-nothing",
];
const PARAMETERS: [&str; 10] = [
    "",
    "",
    "",
    "",
    "ignore_unavailable=true",
    "expand_wildcards=open,hidden",
    "expand_wildcards=all",
    "allow_no_indices=false",
    "expand_wildcards=closed",
    "expand_wildcards=none&ignore_unavailable=true",
];

impl Sent {
    pub(crate) fn from_record(record: &Value) -> Self {
        let text = |name: &str| record[name].as_str().unwrap_or_default().to_owned();
        let user = record["user"].as_str().unwrap_or("user").to_owned();
        Self {
            user,
            roles: text("roles"),
            method: text("method"),
            target: text("target"),
            body: text("body"),
            is_dry: record["dry"].as_bool().unwrap_or_default(),
            may_create: false,
        }
    }

    /// For messages: the request, who sends it, and the start of its body.
    pub(crate) fn shown(&self) -> String {
        let Self { user, roles, method, target, body, .. } = self;
        format!("{method} {target} {body:.400} by {user} with {roles}")
    }

    pub(crate) fn recorded_answer(record: &Value) -> Answer {
        let found = record["found"].as_array();
        Answer {
            status: record["status"]
                .as_u64()
                .and_then(|status| status.try_into().ok())
                .unwrap_or_default(),
            allowed: record["allowed"].as_bool(),
            found: found
                .map(|found| found.iter().filter_map(Value::as_str).map(Into::into).collect()),
            shown: None,
        }
    }

    pub(crate) fn record(&self, answer: &Answer) -> Value {
        let mut record = json!({
            "roles": self.roles, "method": self.method, "target": self.target, "status": answer.status,
            "allowed": answer.allowed,
        });
        if self.user != "user" {
            record["user"] = json!(self.user);
        }
        if !self.body.is_empty() {
            record["body"] = json!(self.body);
        }
        if self.is_dry {
            record["dry"] = json!(true);
        }
        if let Some(found) = &answer.found {
            record["found"] = json!(found);
        }
        record
    }
}

/// A random request.
pub(crate) fn generate(random: &mut Rng) -> Sent {
    let mut roles: Vec<String> =
        (0..random.usize(1..=3)).map(|_| format!("r{}", random.usize(..ROLES))).collect();
    roles.sort_unstable();
    roles.dedup();
    let mut sent = Sent {
        user: pick(random, &USERS).to_owned(),
        roles: roles.join(","),
        method: "GET".to_owned(),
        target: String::new(),
        body: String::new(),
        is_dry: false,
        may_create: false,
    };
    match random.u8(..12) {
        0..4 => read_indices(random, &mut sent),
        4 => read_document(random, &mut sent),
        5..7 => write(random, &mut sent),
        7 => administer(random, &mut sent),
        8 => cluster(random, &mut sent),
        _ => with_body(random, &mut sent),
    }
    if random.u8(..16) == 0 && !sent.is_dry {
        mislead(random, &mut sent);
    }
    sent
}

/// Makes a request of which a node reads something else than it seems to say.
fn mislead(random: &mut Rng, sent: &mut Sent) {
    let name = pick(random, &NAMES);
    let other = pick(random, &NAMES);
    let lookup = json!({ "terms": { "f": { "index": other, "id": "1", "path": "f" } } });
    "POST".clone_into(&mut sent.method);
    let (target, body) = match random.u8(..8) {
        0 => (format!("/_search?index={name}&=index={other}"), String::new()),
        1 => (format!("/_count?index={name};==index={other}"), String::new()),
        2 => {
            let nested = json!({ "_id": "1", "_index": name, "more": [{ "_index": other }] });
            ("/_mget".to_owned(), json!({ "docs": [nested] }).to_string())
        }
        3 => {
            let nested = json!({ "_id": "1", "_index": name, "routing": [{ "_index": other }] });
            ("/_mget".to_owned(), json!({ "docs": [nested] }).to_string())
        }
        4 => {
            let harmless = json!({ "query": { "match_all": {} } });
            let key = pick(random, &["inline", "template"]);
            let body = json!({ "source": harmless, key: { "query": lookup } });
            (format!("/{name}/_search/template"), body.to_string())
        }
        5 => {
            // Read as a member of the look-up: `random_score` is over at the first `}`.
            let query = r#"{"function_score":{"random_score":{"z":{}}},"index":"#;
            let lookup =
                format!(r#"{{"terms":{{"f":{{"path":"f","query":{query}"{other}"}}}}}}}}"#);
            (format!("/{name}/_count"), format!(r#"{{"query":{lookup}}}"#))
        }
        6 => {
            let body = json!({ "source": { "index": name, "post_filter": lookup }, "dest": { "index": "new-2" } });
            ("/_reindex?max_docs=1".to_owned(), body.to_string())
        }
        _ => {
            let verb = pick(random, &["_update_by_query", "_delete_by_query"]);
            let query = json!({ "query": { "term": { "f": "nobody" } } });
            (
                format!("/{}/{verb}?conflicts=proceed&refresh=true", changed(random)),
                query.to_string(),
            )
        }
    };
    (sent.target, sent.body, sent.may_create) = (target, body, true);
}

/// A random request for what several indices have, which may be reduced to some of them.
pub(crate) fn generate_reading(random: &mut Rng) -> Sent {
    let end = pick(
        random,
        &["/_search?size=100", "/_search?size=100", "/_count", "/_field_caps?fields=*"],
    );
    let indices = pick(random, &EXPRESSIONS);
    let place = if indices.is_empty() { String::new() } else { format!("/{indices}") };
    Sent {
        user: pick(random, &USERS).to_owned(),
        roles: format!("r{}", random.usize(..ROLES)),
        method: "GET".to_owned(),
        target: format!("{place}{end}"),
        body: String::new(),
        is_dry: false,
        may_create: false,
    }
}

/// Sometimes makes the body of a bulk request some hundred kilobytes long, with the same items
/// again and again.
pub(crate) fn lengthen(random: &mut Rng, sent: &mut Sent) {
    if sent.target.ends_with("/_bulk") && random.u8(..8) == 0 {
        sent.body = sent.body.repeat(random.usize(1_000..3_000));
    }
}

fn pick<'t>(random: &mut Rng, from: &[&'t str]) -> &'t str {
    from[random.usize(..from.len())]
}

fn expression(random: &mut Rng) -> String {
    match random.u8(..8) {
        0 => list(random).join(","),
        1..4 => pick(random, &EXPRESSIONS).to_owned(),
        _ => pick(random, &NAMES).to_owned(),
    }
}

fn list(random: &mut Rng) -> Vec<&'static str> {
    (0..random.usize(2..=3))
        .map(|_| if random.bool() { pick(random, &NAMES) } else { pick(random, &PARTS) })
        .collect()
}

/// An expression that does not stand for the index of the plugin: only the node has that.
fn changed(random: &mut Rng) -> String {
    let indices = expression(random);
    if matches!(&*indices, "" | "_all" | "*" | "*,-secret*") {
        "logs-*".to_owned()
    } else {
        indices
    }
}

/// A path below an expression, with or without parameters.
fn on_indices(random: &mut Rng, end: &str) -> String {
    let indices = expression(random);
    let parameters = pick(random, &PARAMETERS);
    let (path, query) = end.split_once('?').unwrap_or((end, ""));
    let place = if indices.is_empty() { String::new() } else { format!("/{indices}") };
    let query = [query, parameters]
        .into_iter()
        .filter(|part| !part.is_empty())
        .collect::<Vec<_>>()
        .join("&");
    // Sometimes the indices are named by the query.
    let (place, query) = if random.u8(..8) == 0 && !end.is_empty() {
        (String::new(), format!("index={indices}&{query}"))
    } else {
        (place, query)
    };
    let path = format!("{place}{path}");
    if query.is_empty() { path } else { format!("{path}?{query}") }
}

fn read_indices(random: &mut Rng, sent: &mut Sent) {
    let end = pick(
        random,
        &[
            "/_search?size=100",
            "/_search?size=100",
            "/_search?size=100",
            "/_count",
            "/_field_caps?fields=*",
            "/_validate/query",
            "/_mapping",
            "/_settings",
            "/_stats",
            "/_segments",
            "/_recovery",
            "/_alias",
            "/_search_shards",
            "/_mapping/field/f",
            "/_refresh",
            "/_flush",
            "/_analyze",
            "",
        ],
    );
    sent.target = on_indices(random, end);
    if end.is_empty() {
        sent.target = format!("/{}", pick(random, &NAMES));
        if random.bool() {
            sent.method = "HEAD".to_owned();
        }
    }
    if end == "/_search?size=100" && random.u8(..4) == 0 {
        let buckets = json!({ "by_index": { "terms": { "field": "_index", "size": 100 } } });
        sent.body = json!({ "aggs": buckets }).to_string();
    }
    match random.u8(..8) {
        _ if !sent.body.is_empty() => {}
        0 => sent.target = format!("/_cat/indices/{}", pick(random, &EXPRESSIONS)),
        1 => sent.target = format!("/_resolve/index/{}", pick(random, &NAMES)),
        2 => {
            sent.target =
                format!("/_data_stream/{}", pick(random, &["stream-app", "*", "stream-*"]))
        }
        _ => {}
    }
}

fn read_document(random: &mut Rng, sent: &mut Sent) {
    let name = if random.u8(..8) == 0 { pick(random, &PARTS) } else { pick(random, &NAMES) };
    let end =
        pick(random, &["_doc/1", "_source/1", "_termvectors/1", "_explain/1?q=f:a", "_doc/none"]);
    sent.target = format!("/{name}/{end}");
    if end.starts_with("_doc") && random.bool() {
        sent.method = "HEAD".to_owned();
    }
}

fn write(random: &mut Rng, sent: &mut Sent) {
    let name = pick(random, &NAMES);
    sent.may_create = true;
    let known = json!({ "f": name }).to_string();
    let (method, target, body) = match random.u8(..6) {
        0 => ("PUT", format!("/{name}/_doc/2"), known),
        1 => ("POST", format!("/{name}/_doc"), known),
        2 => ("DELETE", format!("/{name}/_doc/2"), String::new()),
        // The update changes nothing, since this document is kept.
        3 => ("POST", format!("/{name}/_update/1"), json!({ "doc": { "id": "1" } }).to_string()),
        4 => ("PUT", format!("/{name}/_create/1"), known),
        _ => {
            let verb = pick(random, &["_update_by_query", "_delete_by_query"]);
            let query = json!({ "query": { "term": { "f": "nobody" } } }).to_string();
            ("POST", format!("/{}/{verb}?conflicts=proceed", changed(random)), query)
        }
    };
    (sent.method, sent.target, sent.body) = (method.to_owned(), target, body);
}

fn administer(random: &mut Rng, sent: &mut Sent) {
    let name = pick(random, &NAMES);
    let (method, target, body) = match random.u8(..9) {
        0 => ("PUT", format!("/{name}"), String::new()),
        1 => ("DELETE", format!("/{name}"), String::new()),
        2 => ("POST", format!("/{name}/_close"), String::new()),
        3 => (
            "PUT",
            format!("/{name}/_mapping"),
            json!({ "properties": { "g": { "type": "keyword" } } }).to_string(),
        ),
        4 => (
            "PUT",
            format!("/{name}/_settings"),
            json!({ "index.refresh_interval": "1s" }).to_string(),
        ),
        5 => ("PUT", format!("/{name}/_alias/fresh"), String::new()),
        6 => {
            let one = match random.u8(..3) {
                0 => json!({ "add": { "index": name, "alias": "fresh" } }),
                1 => json!({ "remove": { "indices": list(random), "alias": "fresh" } }),
                _ => json!({ "remove_index": { "indices": list(random) } }),
            };
            let other = json!({ "add": { "indices": [pick(random, &NAMES)], "alias": "other" } });
            ("POST", "/_aliases".to_owned(), json!({ "actions": [one, other] }).to_string())
        }
        7 => ("PUT", "/new-3".to_owned(), json!({ "aliases": { "fresh": {} } }).to_string()),
        _ => ("POST", format!("/{}/_open", changed(random)), String::new()),
    };
    (sent.method, sent.target, sent.body) = (method.to_owned(), target, body);
    sent.is_dry = true;
}

fn cluster(random: &mut Rng, sent: &mut Sent) {
    let target = pick(
        random,
        &[
            "/",
            "/_cluster/health",
            "/_cluster/health/secret",
            "/_cluster/state",
            "/_cluster/stats",
            "/_cluster/settings",
            "/_nodes",
            "/_nodes/stats",
            "/_cat/nodes",
            "/_cat/health",
            "/_cat/aliases",
            "/_cat/count",
            "/_cat/shards/logs-a",
            "/_cat/segments",
            "/_cat/templates",
            "/_cat",
            "/_tasks",
            "/_template",
            "/_index_template",
            "/_component_template",
            "/_ingest/pipeline",
            "/_snapshot",
            "/_scripts/none",
            "/_analyze?text=a",
            "/_search/pipeline",
            "/_search/point_in_time/_all",
            "/_dangling",
            "/_remote/info",
            "/_cluster/pending_tasks",
            "/_alias/fresh",
        ],
    );
    target.clone_into(&mut sent.target);
}

fn with_body(random: &mut Rng, sent: &mut Sent) {
    "POST".clone_into(&mut sent.method);
    let name = pick(random, &NAMES);
    let other = pick(random, &NAMES);
    let place =
        if random.u8(..4) == 0 { format!("/{}", pick(random, &NAMES)) } else { String::new() };
    match random.u8(..8) {
        0 | 1 => {
            sent.target = format!("{place}/_bulk");
            sent.may_create = true;
            for _ in 0..random.usize(1..4) {
                let meta = match (place.is_empty(), random.u8(..3)) {
                    (false, 0) => json!({ "_id": "2" }),
                    _ => json!({ "_index": pick(random, &[name, other]), "_id": "2" }),
                };
                let action = pick(random, &["index", "create", "delete", "update"]);
                sent.body += &format!("{}\n", json!({ action: meta }));
                match action {
                    "delete" => {}
                    "update" => sent.body += "{\"doc\":{\"f\":\"x\"}}\n",
                    _ => sent.body += "{\"f\":\"x\"}\n",
                }
            }
        }
        2 => {
            sent.target = format!("{place}/_mget");
            let docs =
                [json!({ "_index": name, "_id": "1" }), json!({ "_index": other, "_id": "1" })];
            sent.body = json!({ "docs": docs[..random.usize(1..3)] }).to_string();
            if !place.is_empty() && random.bool() {
                sent.body = json!({ "ids": ["1"] }).to_string();
            }
        }
        3 => {
            sent.target = format!("{place}/_msearch");
            for _ in 0..random.usize(1..3) {
                let header = match random.u8(..4) {
                    0 if !place.is_empty() => json!({}),
                    1 => {
                        json!({ "index": [pick(random, &NAMES), pick(random, &["logs-*", "public"])] })
                    }
                    _ => {
                        json!({ "index": expression(random).replace("%2C", ",").replace("%6C", "l") })
                    }
                };
                sent.body += &format!("{header}\n{{\"query\":{{\"match_all\":{{}}}}}}\n");
            }
        }
        4 => {
            sent.target = format!("{place}/_mtermvectors");
            sent.body = json!({ "docs": [{ "_index": name, "_id": "1" }] }).to_string();
        }
        5 => {
            sent.target = "/_reindex".to_owned();
            sent.may_create = true;
            let query = json!({ "match_none": {} });
            let indices = if random.bool() { vec![name] } else { list(random) };
            let body = json!({ "source": { "index": indices, "query": query }, "dest": { "index": "new-2" } });
            sent.body = body.to_string();
        }
        6 => {
            sent.target = format!("/{name}/_search");
            let index = if random.bool() { other.to_owned() } else { list(random).join(",") };
            let mut lookup = json!({ "index": index, "id": "1", "path": "f" });
            if random.bool() {
                lookup["query"] = json!({ "match_all": {} });
            }
            let terms = json!({ "terms": { "f": lookup } });
            sent.body = json!({ "query": { "bool": { "filter": [terms] } } }).to_string();
        }
        _ => {
            sent.target = format!("/{name}/_search/template");
            sent.body = json!({ "source": { "query": { "match_all": {} } } }).to_string();
        }
    }
}
