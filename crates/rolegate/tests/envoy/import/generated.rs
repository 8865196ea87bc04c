//! Random configurations of Envoy's RBAC filter, and requests for them.

use fastrand::Rng;
use serde_json::{Value, json};
use testbed::tokens::{Signer, now};

/// A configuration: HTTP filters, as Envoy reads them.
pub(super) struct Generated {
    pub(super) filters: Vec<Value>,
    /// Whether clients' addresses are those of their connections.
    pub(super) uses_remote_address: bool,
    credentials: Credentials,
}

/// One of these.
fn pick<T: Copy>(rng: &mut Rng, all: &[T]) -> T {
    all[rng.usize(..all.len())]
}

/// How callers of a configuration authenticate.
#[derive(Clone, Copy, PartialEq)]
enum Credentials {
    None,
    Basic,
    Tokens,
}

/// A request of a caller.
#[derive(Debug)]
pub(super) struct Sent {
    pub(super) method: &'static str,
    pub(super) path: &'static str,
    pub(super) host: &'static str,
    pub(super) headers: Vec<(String, String)>,
    /// Who is asking, for messages.
    pub(super) caller: String,
    /// Whether a condition may not be computable: a header in several lines, or a claim of an
    /// unusual type.
    pub(super) is_unusual: bool,
    /// Whether its token is of an issuer that the configuration does not name.
    pub(super) has_unknown_token: bool,
}

const METHODS: [&str; 5] = ["GET", "POST", "PUT", "DELETE", "OPTIONS"];
const HOSTS: [&str; 6] = [
    "api.example.com",
    "API.example.com",
    "api.example.com:8080",
    "x.example.com",
    "example.com",
    "other.test",
];
const PATHS: [&str; 44] = [
    "/",
    "/a",
    "/a/",
    "/a/b",
    "/a/b/",
    "/a/b/c",
    "/ab",
    "/ab/c",
    "/A",
    "/A/b",
    "/a/B",
    "/b",
    "/b/a",
    "/b/info",
    "/a/info",
    "/info",
    "/a/b/info.json",
    "/a.json",
    "/a?x=1",
    "/a/b?x=/b",
    "/%61",
    "/a//b",
    "/a/../b",
    "/a/./b",
    "/b/../a/b",
    "/a%2Fb",
    "/a;x=1",
    "/a/b;x",
    "/a/%2e%2e/b",
    "/a%3Fb",
    "/a/b%20c",
    "/a/x=y",
    "/a/x*y",
    "/a/x:y",
    "/a/%40",
    "/a/@",
    "/a%",
    "/a\\b",
    "/admin",
    "/admin/x",
    "/a/b%23c",
    "/%41",
    "/ab/",
    "/a/b/c/d/e",
];
const WORDS: [&str; 11] =
    ["/a", "/a/", "/a/b", "/ab", "/b", "/", "/admin", "/a/b/c", "/a/@", "//", "/a//b"];
const USERS: [&str; 3] = ["ann", "ben", "eve"];
const GROUPS: [&str; 2] = ["staff", "ops"];

impl Generated {
    /// A random configuration of conditions that a policy can have.
    pub(super) fn of_conditions(rng: &mut Rng, signer: &Signer) -> Self {
        let credentials = pick(rng, &[Credentials::None, Credentials::Tokens, Credentials::Tokens]);
        let mut filters = Vec::new();
        if credentials == Credentials::Tokens {
            let members = json!([{ "provider_name": "one" }, { "allow_missing": {} }]);
            let rule = json!({ "match": { "prefix": "/" }, "requires": { "requires_any": { "requirements": members } } });
            filters.push(json!({ "name": "envoy.filters.http.jwt_authn", "typed_config": {
                "@type": "type.googleapis.com/envoy.extensions.filters.http.jwt_authn.v3.JwtAuthentication",
                "providers": { "one": provider("one", rng, signer) }, "rules": [rule],
            }}));
        }
        let mut policies = json!({});
        for number in 0..rng.usize(1..3) {
            let permission = match rng.u8(..3) {
                0 => json!({ "header": header(rng) }),
                _ => json!({ "any": true }),
            };
            let principals: Vec<Value> =
                (0..rng.usize(1..3)).map(|_| condition(rng, credentials, 2)).collect();
            let mut policy = json!({ "permissions": [permission], "principals": principals });
            if rng.u8(..4) == 0 {
                policy["condition"] = cel(rng, 2);
            }
            policies[format!("p{number}")] = policy;
        }
        filters.push(json!({ "name": "envoy.filters.http.rbac", "typed_config": {
            "@type": "type.googleapis.com/envoy.extensions.filters.http.rbac.v3.RBAC",
            "rules": { "action": pick(rng, &["ALLOW", "DENY"]), "policies": policies },
        }}));
        Self { filters, uses_remote_address: rng.bool(), credentials }
    }

    /// A random configuration.
    pub(super) fn new(rng: &mut Rng, signer: &Signer) -> Self {
        let credentials =
            [Credentials::None, Credentials::Basic, Credentials::Tokens][rng.usize(..3)];
        let mut filters = Vec::new();
        match credentials {
            Credentials::None => {}
            Credentials::Basic => filters.push(basic_auth()),
            Credentials::Tokens => filters.push(jwt_authn(rng, signer)),
        }
        for _ in 0..rng.usize(1..3) {
            filters.push(rbac(rng, credentials));
        }
        Self { filters, uses_remote_address: rng.u8(..3) > 0, credentials }
    }

    /// A random request.
    pub(super) fn request(&self, rng: &mut Rng, signer: &Signer) -> Sent {
        let (mut is_unusual, mut has_unknown_token) = (false, false);
        let (caller, header) = match self.credentials {
            Credentials::None => ("nobody".to_owned(), None),
            _ if rng.u8(..4) == 0 => ("nobody".to_owned(), None),
            Credentials::Basic => {
                let user = pick(rng, &USERS);
                let encoded = base64::Engine::encode(
                    &base64::engine::general_purpose::STANDARD,
                    format!("{user}:password"),
                );
                (user.to_owned(), Some(format!("Basic {encoded}")))
            }
            Credentials::Tokens => {
                let issuer = ["https://one.example.com", "https://two.example.com"][rng.usize(..2)];
                let groups: Vec<&str> = GROUPS.into_iter().filter(|_| rng.bool()).collect();
                let mut claims = json!({ "iss": issuer, "aud": "api", "sub": pick(rng, &USERS), "groups": groups, "exp": now() + 600 });
                is_unusual |= add_claims(rng, &mut claims);
                let is_known = |filter: &Value| filter.to_string().contains(issuer);
                has_unknown_token = !self.filters.iter().any(is_known);
                let token = signer.sign(&json!({ "alg": "ES256", "kid": "ES256" }), &claims);
                (claims.to_string(), Some(format!("Bearer {token}")))
            }
        };
        let mut headers: Vec<(String, String)> =
            header.map(|value| ("authorization".to_owned(), value)).into_iter().collect();
        for (name, values) in [("x-team", &TEAMS[..]), ("x-level", &LEVELS[..])] {
            for _ in 0..pick(rng, &[0, 1, 1, 1, 1, 2]) {
                is_unusual |= headers.iter().any(|(other, _)| other == name);
                headers.push((name.to_owned(), pick(rng, values).to_owned()));
            }
        }
        if rng.u8(..3) == 0 {
            headers.push(("x-forwarded-for".to_owned(), "10.0.0.1".to_owned()));
        }
        let shown: Vec<String> =
            headers.iter().skip(1).map(|(name, value)| format!("{name}: {value}")).collect();
        Sent {
            method: pick(rng, &METHODS),
            path: pick(rng, &PATHS),
            host: pick(rng, &HOSTS),
            caller: format!("{caller} {}", shown.join(", ")),
            headers,
            is_unusual,
            has_unknown_token,
        }
    }
}

const TEAMS: [&str; 7] = ["red", "RED", "redder", "blue", "", "red,blue", "a red"];
const LEVELS: [&str; 10] = ["0", "5", "+7", "-3", "007", "12", "120", "5a", "", "-0"];

/// Adds claims to a token. Returns whether one of them has an unusual type.
fn add_claims(rng: &mut Rng, claims: &mut Value) -> bool {
    let usual = [
        ("tenant", json!("acme")),
        ("tenant", json!("Acme-2")),
        ("level", json!(2)),
        ("level", json!(3.5)),
        ("beta", json!(true)),
        ("beta", json!(false)),
        ("tags", json!(["a", "ab"])),
        ("tags", json!([])),
        ("org", json!({ "id": "acme" })),
        ("org", json!({})),
    ];
    let unusual = [
        ("tenant", json!(7)),
        ("tenant", json!(["acme"])),
        ("level", json!("2")),
        ("beta", json!("true")),
        ("tags", json!("a")),
        ("tags", json!([1, "ab", ["a"]])),
        ("tags", json!({ "a": 1 })),
        ("org", json!("acme")),
        ("org", json!({ "id": 1 })),
        ("level", json!(null)),
    ];
    for _ in 0..rng.usize(..5) {
        let (name, value) = &usual[rng.usize(..usual.len())];
        claims[*name] = value.clone();
    }
    let is_unusual = rng.u8(..4) == 0;
    if is_unusual {
        let (name, value) = &unusual[rng.usize(..unusual.len())];
        claims[*name] = value.clone();
    }
    is_unusual
}

fn basic_auth() -> Value {
    let users = "ann:{SHA}W6ph5Mm5Pz8GgiULbPgzG37mj9g=\nben:{SHA}W6ph5Mm5Pz8GgiULbPgzG37mj9g=\n";
    json!({ "name": "envoy.filters.http.basic_auth", "typed_config": {
        "@type": "type.googleapis.com/envoy.extensions.filters.http.basic_auth.v3.BasicAuth",
        "users": { "inline_string": users }, "forward_username_header": "x-username",
    }})
}

fn provider(name: &str, rng: &mut Rng, signer: &Signer) -> Value {
    json!({ "issuer": format!("https://{name}.example.com"), "audiences": ["api"], "forward": rng.bool(),
        "local_jwks": { "inline_string": signer.key_set() }, "payload_in_metadata": name })
}

fn jwt_authn(rng: &mut Rng, signer: &Signer) -> Value {
    let mut providers =
        json!({ "one": provider("one", rng, signer), "two": provider("two", rng, signer) });
    if rng.bool() {
        providers = json!({ "one": providers["one"] });
    }
    let names: Vec<&str> =
        ["one", "two"].into_iter().filter(|name| providers.get(name).is_some()).collect();
    let mut rules = Vec::new();
    for prefix in ["/b", "/a", "/"] {
        let route = json!({ "prefix": prefix });
        match rng.u8(..if prefix == "/" { 4 } else { 12 }) {
            0 => rules.push(json!({ "match": route })),
            1 => rules.push(json!({ "match": route, "requires": requirement(rng, &names, 3) })),
            2 | 3 => {
                // What most have.
                let mut members: Vec<Value> =
                    names.iter().map(|name| json!({ "provider_name": name })).collect();
                members.push(json!({ "allow_missing": {} }));
                let either = json!({ "requires_any": { "requirements": members } });
                rules.push(json!({ "match": route, "requires": either }));
            }
            _ => {}
        }
    }
    json!({ "name": "envoy.filters.http.jwt_authn", "typed_config": {
        "@type": "type.googleapis.com/envoy.extensions.filters.http.jwt_authn.v3.JwtAuthentication",
        "providers": providers, "rules": rules,
    }})
}

/// A requirement of tokens of these providers.
fn requirement(rng: &mut Rng, names: &[&str], depth: u8) -> Value {
    match rng.u8(..if depth == 0 { 6 } else { 12 }) {
        0..=3 => json!({ "provider_name": pick(rng, names) }),
        4 => json!({ "allow_missing": {} }),
        5 => match rng.u8(..3) {
            0 => json!({ "allow_missing_or_failed": {} }),
            1 => json!({ "extract_only_without_validation": {} }),
            _ => json!({}),
        },
        kind => {
            let key = if kind < 10 { "requires_any" } else { "requires_all" };
            let mut members: Vec<Value> =
                (0..rng.usize(2..4)).map(|_| requirement(rng, names, depth - 1)).collect();
            if key == "requires_any" && rng.bool() {
                members.push(json!({ "allow_missing": {} }));
            }
            json!({ key: { "requirements": members } })
        }
    }
}

fn rbac(rng: &mut Rng, credentials: Credentials) -> Value {
    let action = ["ALLOW", "ALLOW", "DENY"][rng.usize(..3)];
    let policies: serde_json::Map<String, Value> = (0..rng.usize(1..4))
        .map(|number| {
            let permissions: Vec<Value> =
                (0..rng.usize(1..3)).map(|_| permission(rng, 2)).collect();
            let principals: Vec<Value> =
                (0..rng.usize(1..3)).map(|_| principal(rng, credentials, 2)).collect();
            let mut policy = json!({ "permissions": permissions, "principals": principals });
            if rng.u8(..6) == 0 {
                policy["condition"] = cel(rng, 2);
            }
            (format!("p{number}"), policy)
        })
        .collect();
    json!({ "name": "envoy.filters.http.rbac", "typed_config": {
        "@type": "type.googleapis.com/envoy.extensions.filters.http.rbac.v3.RBAC",
        "rules": { "action": action, "policies": policies },
    }})
}

fn permission(rng: &mut Rng, depth: u8) -> Value {
    match rng.u8(..if depth == 0 { 8 } else { 12 }) {
        0 if rng.bool() => json!({ "header": header(rng) }),
        0 => json!({ "any": true }),
        1 | 2 => {
            json!({ "header": { "name": ":method", "string_match": { "exact": pick(rng, &METHODS) } } })
        }
        3..=5 => json!({ "url_path": { "path": text(rng) } }),
        6 => rare(rng),
        7 => template(rng),
        8 => json!({ "not_rule": permission(rng, depth - 1) }),
        9 => {
            json!({ "or_rules": { "rules": [permission(rng, depth - 1), permission(rng, depth - 1)] } })
        }
        _ => {
            json!({ "and_rules": { "rules": [permission(rng, depth - 1), permission(rng, depth - 1)] } })
        }
    }
}

/// A matcher of a path.
fn text(rng: &mut Rng) -> Value {
    let word = pick(rng, &WORDS);
    let matcher = match rng.u8(..9) {
        0..=2 => json!({ "exact": word }),
        3..=5 => json!({ "prefix": word }),
        6 => json!({ "suffix": pick(rng, &["/info", ".json", "b"]) }),
        7 => json!({ "contains": pick(rng, &["b", "/a/", "."]) }),
        _ => {
            json!({ "safe_regex": { "regex": pick(rng, &["/a/[^/]+", "/(a|b)", "/a/.*", "/a.*", "/[a-z]+", ".*b", ".*"]) } })
        }
    };
    match (rng.u8(..8), matcher) {
        (0, Value::Object(mut matcher)) if !matcher.contains_key("safe_regex") => {
            matcher.insert("ignore_case".to_owned(), json!(true));
            Value::Object(matcher)
        }
        (_, matcher) => matcher,
    }
}

fn template(rng: &mut Rng) -> Value {
    let templates = ["/a/{id}", "/a/*/c", "/{x}/**", "/a/**", "/a/{x=*}/{y}", "/a/b"];
    json!({ "uri_template": { "name": "envoy.path.match.uri_template.uri_template_matcher", "typed_config": {
        "@type": "type.googleapis.com/envoy.extensions.path.match.uri_template.v3.UriTemplateMatchConfig",
        "path_template": pick(rng, &templates),
    }}})
}

/// Conditions that rolegate lacks, or compares otherwise.
fn rare(rng: &mut Rng) -> Value {
    match rng.u8(..6) {
        0 => json!({ "destination_port": 1 }),
        1 => json!({ "header": { "name": ":path", "string_match": { "exact": "/a?x=1" } } }),
        2 => {
            json!({ "header": { "name": ":path", "string_match": { "prefix": "/a" }, "invert_match": rng.bool() } })
        }
        3 => {
            json!({ "header": { "name": ":authority", "string_match": { "exact": pick(rng, &HOSTS), "ignore_case": rng.bool() } } })
        }
        4 => {
            json!({ "header": { "name": ":authority", "string_match": { "suffix": ".example.com" } } })
        }
        _ => {
            json!({ "header": { "name": ":method", "string_match": { "safe_regex": { "regex": "GET|POST" } } } })
        }
    }
}

/// A matcher of a header.
fn header(rng: &mut Rng) -> Value {
    let mut header = match rng.u8(..8) {
        0 => json!({ "name": "x-team", "present_match": rng.bool() }),
        1 => {
            let (start, end) = (pick(rng, &[-5, 0, 3]), pick(rng, &[-2, 0, 8, 119]));
            return json!({ "name": "x-level", "range_match": { "start": start, "end": end }, "invert_match": rng.bool() });
        }
        2 => {
            let regex = pick(rng, &["red|blue", "r.*", "(?i)RED", "[^,]*", "\\w+", ".*"]);
            json!({ "name": "x-team", "string_match": { "safe_regex": { "regex": regex } } })
        }
        3 => json!({ "name": "X-Team" }),
        _ => {
            let kind = pick(rng, &["exact", "exact", "prefix", "suffix", "contains"]);
            let text = pick(rng, &["red", "RED", "d", "red,blue"]);
            json!({ "name": "x-team", "string_match": { kind: text, "ignore_case": rng.u8(..4) == 0 } })
        }
    };
    if rng.u8(..3) == 0 {
        header["invert_match"] = json!(true);
    }
    if rng.u8(..4) == 0 {
        header["treat_missing_header_as_empty"] = json!(true);
    }
    header
}

/// A condition in CEL, as Envoy has it after it was parsed.
fn cel(rng: &mut Rng, depth: u8) -> Value {
    let member = |field: &str| json!({ "select_expr": { "operand": { "ident_expr": { "name": "request" } }, "field": field } });
    let text = |text: &str| json!({ "const_expr": { "string_value": text } });
    let call = |function: &str, args: Vec<Value>| json!({ "call_expr": { "function": function, "args": args } });
    let team = || call("_[_]", vec![member("headers"), text("x-team")]);
    match rng.u8(..if depth == 0 { 5 } else { 10 }) {
        0 | 1 => {
            let operator = pick(rng, &["_==_", "_!=_"]);
            call(operator, vec![team(), text(pick(rng, &["red", ""]))])
        }
        2 => {
            let function = pick(rng, &["startsWith", "endsWith", "contains", "matches"]);
            json!({ "call_expr": { "target": team(), "function": function, "args": [text(pick(rng, &["red", "d"]))] } })
        }
        3 => call("@in", vec![text("x-team"), member("headers")]),
        4 => {
            let methods = json!({ "list_expr": { "elements": [text("GET"), text("PUT")] } });
            call("@in", vec![member("method"), methods])
        }
        5 | 6 => call("!_", vec![cel(rng, depth - 1)]),
        7 => call("_?_:_", vec![cel(rng, depth - 1), cel(rng, depth - 1), cel(rng, depth - 1)]),
        _ => {
            let operator = pick(rng, &["_&&_", "_||_"]);
            call(operator, vec![cel(rng, depth - 1), cel(rng, depth - 1)])
        }
    }
}

/// A path of claims, and a matcher of the value there.
fn claim(rng: &mut Rng) -> (Vec<&'static str>, Value) {
    let text = |rng: &mut Rng| {
        let kind = pick(rng, &["exact", "exact", "prefix", "suffix", "contains"]);
        json!({ "string_match": { kind: pick(rng, &["acme", "a", "ACME", "2"]), "ignore_case": rng.u8(..4) == 0 } })
    };
    match rng.u8(..7) {
        0 => (vec!["tenant"], text(rng)),
        1 => (vec!["org", "id"], text(rng)),
        2 => (vec!["beta"], json!({ "bool_match": rng.bool() })),
        3 => {
            let range = json!({ "range": { "start": 1, "end": 3.5 } });
            let exact = json!({ "exact": pick(rng, &[2.0, 3.5]) });
            (vec!["level"], json!({ "double_match": if rng.bool() { range } else { exact } }))
        }
        4 => (vec!["level"], json!({ "present_match": true })),
        5 => {
            let either =
                json!({ "or_match": { "value_matchers": [text(rng), { "bool_match": true }] } });
            (vec!["tenant"], either)
        }
        _ => (vec!["tags"], json!({ "list_match": { "one_of": text(rng) } })),
    }
}

fn metadata(provider: &'static str, rng: &mut Rng) -> Value {
    let (claim, value) = claim(rng);
    let keys = [provider].into_iter().chain(claim);
    let path: Vec<Value> = keys.map(|key| json!({ "key": key })).collect();
    json!({ "metadata": { "filter": "envoy.filters.http.jwt_authn", "path": path, "value": value, "invert": rng.u8(..3) == 0 } })
}

/// A principal that a condition can express.
fn condition(rng: &mut Rng, credentials: Credentials, depth: u8) -> Value {
    match rng.u8(..if depth == 0 { 4 } else { 8 }) {
        0 | 1 if credentials == Credentials::Tokens => metadata("one", rng),
        0..=2 => json!({ "header": header(rng) }),
        3 => {
            let kind = pick(rng, &["source_ip", "direct_remote_ip"]);
            let (address, length) = pick(rng, &[("127.0.0.0", 8), ("10.0.0.0", 8), ("::1", 128)]);
            json!({ kind: { "address_prefix": address, "prefix_len": length } })
        }
        4 | 5 => json!({ "not_id": condition(rng, credentials, depth - 1) }),
        kind => {
            let key = if kind == 6 { "or_ids" } else { "and_ids" };
            let both =
                [condition(rng, credentials, depth - 1), condition(rng, credentials, depth - 1)];
            json!({ key: { "ids": both } })
        }
    }
}

fn principal(rng: &mut Rng, credentials: Credentials, depth: u8) -> Value {
    let user = pick(rng, &USERS);
    match rng.u8(..if depth == 0 { 6 } else { 9 }) {
        0 => json!({ "any": true }),
        1 if rng.bool() => json!({ "header": header(rng) }),
        1..=4 => match credentials {
            Credentials::None if rng.bool() => json!({ "header": header(rng) }),
            Credentials::None => json!({ "any": true }),
            Credentials::Basic => {
                json!({ "header": { "name": "x-username", "string_match": { "exact": user } } })
            }
            Credentials::Tokens => {
                let provider = ["one", "one", "two"][rng.usize(..3)];
                if rng.u8(..3) == 0 {
                    return metadata(provider, rng);
                }
                let (claim, value) = match rng.u8(..4) {
                    0 => (
                        "iss",
                        json!({ "string_match": { "exact": format!("https://{provider}.example.com") } }),
                    ),
                    1 => ("sub", json!({ "string_match": { "exact": user } })),
                    2 => ("sub", json!({ "string_match": { "prefix": "a" } })),
                    _ => (
                        "groups",
                        json!({ "list_match": { "one_of": { "string_match": { "exact": pick(rng, &GROUPS) } } } }),
                    ),
                };
                json!({ "metadata": { "filter": "envoy.filters.http.jwt_authn", "path": [{ "key": provider }, { "key": claim }], "value": value, "invert": rng.u8(..6) == 0 } })
            }
        },
        5 => [
            json!({ "direct_remote_ip": { "address_prefix": "127.0.0.0", "prefix_len": 8 } }),
            json!({ "remote_ip": { "address_prefix": "10.0.0.0", "prefix_len": 8 } }),
            json!({ "remote_ip": { "address_prefix": "127.0.0.1", "prefix_len": 32 } }),
            json!({ "source_ip": { "address_prefix": "127.9.9.9", "prefix_len": 8 } }),
            json!({ "direct_remote_ip": { "address_prefix": "10.0.0.0", "prefix_len": 8 } }),
            json!({ "source_ip": { "address_prefix": "::", "prefix_len": 0 } }),
            json!({ "authenticated": {} }),
            json!({ "url_path": { "path": text(rng) } }),
        ][rng.usize(..8)]
        .clone(),
        6 => json!({ "not_id": principal(rng, credentials, depth - 1) }),
        7 => {
            json!({ "or_ids": { "ids": [principal(rng, credentials, depth - 1), principal(rng, credentials, depth - 1)] } })
        }
        _ => {
            json!({ "and_ids": { "ids": [principal(rng, credentials, depth - 1), principal(rng, credentials, depth - 1)] } })
        }
    }
}
