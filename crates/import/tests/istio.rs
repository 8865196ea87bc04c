//! Imported policies of Istio, compared with an evaluator written from the documentation of
//! `AuthorizationPolicy`, on random policies and requests.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a failed set-up is a failed test"
)]
#![expect(clippy::panic, reason = "a difference is a failed test")]

#[path = "istio/evaluator.rs"]
mod evaluator;

use std::net::{IpAddr, Ipv4Addr};
use std::path::{Path, PathBuf};

use condition::{CallerClaims, CallerInputs, Fault, Headers, Inputs, RequestInputs};
use document::MapFiles;
use evaluator::{Request, Token, is_allowed};
use fastrand::Rng;
use import::{Effect, Imported, Options, istio};
use policy::reference::{self, Caller};
use policy::{AccessRequest, Decision, Policy};
use serde_json::{Value, json};

const KEYS: &str =
    r#"{"keys":[{"kty":"oct","alg":"HS256","k":"AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8"}]}"#;
const PATHS: [&str; 12] = [
    "/",
    "/a",
    "/a/",
    "/a/b",
    "/a/b/c",
    "/ab",
    "/b",
    "/b/info",
    "/info",
    "/admin",
    "/admin/x",
    "/a/b.json",
];
const PATTERNS: [&str; 16] = [
    "/a",
    "/a/*",
    "/a*",
    "*",
    "/",
    "/*",
    "/admin*",
    "/admin",
    "*/info",
    "*.json",
    "/a/{*}",
    "/{*}/info",
    "/a/{**}",
    "/b/*",
    "/a/b",
    "/info",
];
const METHODS: [&str; 4] = ["GET", "POST", "DELETE", "PUT"];
const HOSTS: [&str; 3] = ["api.example.com", "x.example.com", "other.test"];
const SUBJECTS: [&str; 3] = ["ann", "ben", "eve"];
const GROUPS: [&str; 2] = ["staff", "ops"];
const TEAMS: [&str; 4] = ["red", "Red", "redder", ""];
const TAGS: [&str; 3] = ["a", "ab", "b"];

#[test]
fn an_imported_policy_never_allows_more_than_istio() {
    let mut rng = Rng::with_seed(7);
    let (mut exact, mut allowed, mut stricter) = (0, 0, 0);
    for number in 0..1_000 {
        let resources = resources(&mut rng);
        let text = json!({ "items": resources }).to_string();
        let options = Options { allow_wider: rng.u8(..3) == 0, ..Options::default() };
        let files = [(PathBuf::from("istio.json"), text.into_bytes())];
        let imported =
            istio(&files, &options).unwrap_or_else(|problems| panic!("{number}: {problems:?}"));
        let policy = loaded(&imported);
        let is_exact = !imported.is_stricter();
        exact += u32::from(is_exact);
        for _ in 0..25 {
            let request = request(&mut rng);
            let (ours, theirs) = (decide(&policy, &request), is_allowed(&resources, &request));
            let shown = || {
                format!(
                    "{number}: {request:?}\n{resources:#?}\n{}\n{:#?}",
                    imported.policy, imported.notes
                )
            };
            assert!(theirs || !ours, "rolegate allows more: {}", shown());
            assert!(
                ours || !theirs || !is_exact || is_unusual(&request),
                "rolegate allows less without a note: {}",
                shown()
            );
            allowed += u32::from(ours);
            stricter += u32::from(theirs && !ours);
        }
    }
    println!(
        "{exact} of 1000 exact, {allowed} requests allowed, {stricter} denied only by rolegate"
    );
    assert!(exact > 200 && allowed > 1_000);
}

/// A header in two lines, or a claim that is a text where most are lists, cannot always be computed.
fn is_unusual(request: &Request) -> bool {
    let tags = request.token.as_ref().and_then(|token| token.tags.as_ref());
    request.teams.len() > 1 || tags.is_some_and(Value::is_string)
}

fn loaded(imported: &Imported) -> Policy {
    let files = imported.key_sets.iter().fold(
        MapFiles::new("policy.yaml", imported.policy.as_bytes()),
        |files, (name, key_set)| files.and(name, key_set.as_bytes()),
    );
    let loaded = policy::load(&files, Path::new("policy.yaml"));
    loaded.unwrap_or_else(|problems| panic!("{}\n{problems:?}", imported.policy)).policy
}

fn decide(policy: &Policy, request: &Request) -> bool {
    let prefixed = policy.identity.jwt.len() > 1;
    let named = |token: &Token, name: &str| {
        let issuer = token.issuer.trim_start_matches("https://");
        if prefixed { format!("{issuer}:{name}") } else { name.to_owned() }
    };
    let token = request
        .token
        .as_ref()
        .filter(|token| policy.identity.jwt.iter().any(|issuer| *issuer.issuer == *token.issuer));
    let user = token.map(|token| named(token, token.subject));
    let groups: Vec<String> = token
        .iter()
        .flat_map(|token| groups(policy, token).into_iter().map(|name| named(token, &name)))
        .collect();
    let caller = Caller {
        user: user.as_deref(),
        groups: groups.iter().map(String::as_str).collect(),
        ..Caller::default()
    };
    let claims = token.map(claims);
    let claims = claims.as_ref().and_then(Value::as_object);
    let inputs = Inputs {
        request: RequestInputs {
            headers: Some(&Teams(request.teams.clone())),
            client: Some(CLIENT),
            ..RequestInputs::default()
        },
        caller: Some(&CallerInputs {
            user: user.as_deref(),
            groups: groups.iter().map(String::as_str).collect(),
            claims: claims.map_or(CallerClaims::None, CallerClaims::Known),
            ..CallerInputs::default()
        }),
        ..Inputs::default()
    };
    let request = AccessRequest {
        action: request.method.as_bytes(),
        scope: request.host.as_bytes(),
        resource: request.path.as_bytes(),
    };
    matches!(reference::decide_with(policy, &caller, &request, &inputs), Decision::Allowed(_))
}

/// The claim of the groups is the first one that the import finds.
fn groups(policy: &Policy, token: &Token) -> Vec<String> {
    let claims = claims(token);
    let path = policy.identity.jwt[0].claims.groups.as_ref().map(|path| path.0.as_slice());
    let claim =
        path.and_then(|path| path.iter().try_fold(&claims, |claim, name| claim.get(&**name)));
    match claim {
        Some(Value::Array(items)) => {
            items.iter().filter_map(Value::as_str).map(str::to_owned).collect()
        }
        Some(Value::String(text)) => text.split(' ').map(str::to_owned).collect(),
        _ => Vec::new(),
    }
}

const CLIENT: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1));

fn claims(token: &Token) -> Value {
    let mut claims = json!({ "iss": token.issuer, "sub": token.subject, "groups": token.groups });
    if let Some(tags) = &token.tags {
        claims["tags"] = tags.clone();
    }
    claims
}

/// The lines of the header `x-team`.
struct Teams(Vec<&'static str>);

impl Headers for Teams {
    fn header(&self, name: &str) -> Result<&[u8], Fault> {
        match self.0.as_slice() {
            [team] if name == "x-team" => Ok(team.as_bytes()),
            [_, ..] if name == "x-team" => Err(Fault::Repeated),
            _ => Err(Fault::Absent),
        }
    }

    fn count(&self) -> usize {
        self.0.len()
    }
}

fn request(rng: &mut Rng) -> Request {
    let token = (rng.u8(..4) > 0).then(|| Token {
        issuer: if rng.bool() { "https://one.test" } else { "https://two.test" },
        subject: SUBJECTS[rng.usize(..3)],
        groups: GROUPS.into_iter().filter(|_| rng.bool()).collect(),
        tags: match rng.u8(..6) {
            0 => Some(json!(TAGS[rng.usize(..3)])),
            1 => None,
            _ => Some(TAGS.into_iter().filter(|_| rng.bool()).collect()),
        },
    });
    Request {
        method: METHODS[rng.usize(..4)],
        path: PATHS[rng.usize(..PATHS.len())],
        host: HOSTS[rng.usize(..3)],
        teams: (0..[0, 1, 1, 1, 2][rng.usize(..5)]).map(|_| TEAMS[rng.usize(..4)]).collect(),
        token,
    }
}

/// Both issuers, one or none, and some policies.
fn resources(rng: &mut Rng) -> Vec<Value> {
    let rule = |issuer: &str| json!({ "issuer": issuer, "audiences": ["x"], "jwks": KEYS });
    let rules: Vec<Value> = match rng.u8(..3) {
        0 => vec![rule("https://one.test")],
        1 => vec![rule("https://one.test"), rule("https://two.test")],
        _ => Vec::new(),
    };
    let authentication = json!({ "kind": "RequestAuthentication", "spec": { "jwtRules": rules } });
    let policies = (0..rng.usize(1..4)).map(|number| {
        let action = ["ALLOW", "ALLOW", "DENY", "AUDIT"][rng.usize(..4)];
        let rules: Vec<Value> = (0..rng.usize(..3)).map(|_| self::rule(rng)).collect();
        let name = format!("p{number}");
        json!({ "kind": "AuthorizationPolicy", "metadata": { "name": name }, "spec": { "action": action, "rules": rules } })
    });
    std::iter::once(authentication).chain(policies).collect()
}

fn rule(rng: &mut Rng) -> Value {
    let mut rule = json!({});
    if rng.bool() {
        let one = |rng: &mut Rng| json!({ "source": fields(rng, &["requestPrincipals", "requestPrincipals", "ipBlocks"]) });
        rule["from"] = (0..rng.usize(1..3)).map(|_| one(rng)).collect();
    }
    if rng.u8(..4) > 0 {
        let one = |rng: &mut Rng| json!({ "operation": fields(rng, &["methods", "paths", "paths", "hosts"]) });
        rule["to"] = (0..rng.usize(1..3)).map(|_| one(rng)).collect();
    }
    if rng.u8(..3) == 0 {
        let (key, values) = [
            ("request.auth.claims[groups]", GROUPS.to_vec()),
            ("request.auth.claims[iss]", vec!["https://one.test"]),
            ("source.ip", vec!["10.0.0.0/8", "10.0.0.2"]),
            ("remote.ip", vec!["10.0.0.0/8"]),
            ("request.headers[X-Team]", vec!["red", "red*", "*d", "*"]),
            ("request.auth.claims[tags]", vec!["a", "b", "a*", "*b", "*"]),
            ("request.auth.principal", vec!["https://one.test/a*", "*n"]),
        ][rng.usize(..7)]
        .clone();
        let values = [values[rng.usize(..values.len())]];
        let list = if rng.u8(..3) == 0 { "notValues" } else { "values" };
        rule["when"] = json!([{ "key": key, list: values }]);
    }
    rule
}

/// One or two fields with one or two values, negated now and then.
fn fields(rng: &mut Rng, names: &[&str]) -> Value {
    let mut fields = json!({});
    for _ in 0..rng.usize(1..3) {
        let name = names[rng.usize(..names.len())];
        let values: Vec<&str> = (0..rng.usize(1..3)).map(|_| value(rng, name)).collect();
        let (first, rest) = name.split_at(1);
        let negated = format!("not{}{rest}", first.to_uppercase());
        let name = if rng.u8(..4) == 0 { negated.as_str() } else { name };
        fields[name] = json!(values);
    }
    fields
}

fn value(rng: &mut Rng, name: &str) -> &'static str {
    match name {
        "methods" => METHODS[rng.usize(..4)],
        "paths" => PATTERNS[rng.usize(..PATTERNS.len())],
        "hosts" => ["api.example.com", "*.example.com", "*", "other.test"][rng.usize(..4)],
        "ipBlocks" => ["10.0.0.0/8", "192.168.0.0/16"][rng.usize(..2)],
        _ => ["*", "https://one.test/ann", "https://one.test/*", "*/ben", "https://two.test/eve"]
            [rng.usize(..5)],
    }
}

/// What the notes promise.
#[test]
fn each_note_says_what_it_means() {
    let mut rng = Rng::with_seed(1);
    for _ in 0..200 {
        let text = json!({ "items": resources(&mut rng) }).to_string();
        let imported =
            istio(&[(PathBuf::from("x"), text.into_bytes())], &Options::default()).unwrap();
        for note in imported.notes.iter().filter(|note| note.effect == Effect::Stricter) {
            let means = ["nothing is allowed by it", "less is allowed", "more is denied"];
            assert!(means.iter().any(|means| note.message.ends_with(means)), "{note}");
        }
    }
}
