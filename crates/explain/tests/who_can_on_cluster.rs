//! `who_can` for requests to a search cluster, in words and compared with a decision for each
//! caller.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a failed set-up is a failed test")]
#![expect(clippy::indexing_slicing, reason = "a missing item is a failed test")]

use std::fmt::Write;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use authorizer::{Authorizer, Header, Request, RequestBody, Scratch, Verdict as Decided};
use document::MapFiles;
use explain::{Attribute, CallerSource, Callers, Explainer, WhoCan};
use generator::Rng;
use search::{Inventory, Pattern, Privileges, SecurityConfig, Subject, Verdict};

pub(crate) const POLICY: &str = "version: 1
search: { folder: os, inventory: { file: inventory.json } }
identity:
  jwt:
    - { issuer: https://id.example.com, audiences: [a], keys: { url: https://id.example.com/k }, claims: { user: sub, roles: roles, groups: groups } }
    - { issuer: https://ci.example.com, audiences: [a], keys: { url: https://ci.example.com/k }, user_prefix: 'ci:', group_prefix: 'ci:', claims: { user: sub, groups: groups } }
    - { issuer: https://plain.example.com, audiences: [a], keys: { url: https://plain.example.com/k } }
";
pub(crate) const NOW: Duration = Duration::from_secs(1_800_000_000);
pub(crate) const HASH: &str = "$2b$11$ZoaBbnHvrDS4zseU06GqZujX.QEt1xyWqTmO0kWabP8jJtkkov7fW";
const INVENTORY: &str = r#"{"indices": [{"name": "logs-1", "attributes": ["open"], "aliases": ["all"]}, {"name": "logs-2", "attributes": ["open"], "aliases": ["all"]}, {"name": "red-1", "attributes": ["open"]}, {"name": "red-2", "attributes": ["open"]}, {"name": "own-ann", "attributes": ["open"]}], "aliases": [{"name": "all", "indices": ["logs-1", "logs-2"]}], "data_streams": []}"#;

struct Policy {
    authorizer: Authorizer,
    config: Arc<SecurityConfig>,
    inventory: Option<Arc<Inventory>>,
    text: String,
}

pub(crate) fn head(kind: &str, text: &str) -> String {
    format!("_meta: {{ type: {kind}, config_version: 2 }}\n{text}")
}

fn policy_of(
    policy: &str,
    (roles, mapping, users): (&str, &str, &str),
    inventory: &str,
) -> Authorizer {
    let files = MapFiles::new("policy.yaml", policy)
        .and("os/roles.yml", head("roles", roles).as_str())
        .and("os/roles_mapping.yml", head("rolesmapping", mapping).as_str())
        .and("os/internal_users.yml", head("internalusers", users).as_str())
        .and("inventory.json", inventory);
    let loaded = policy::load(&files, Path::new("policy.yaml"))
        .unwrap_or_else(|problems| panic!("{problems:#?}"));
    Authorizer::compile(Arc::new(loaded), &identity::FetchedKeys::new(), None).unwrap().0
}

fn policy(roles: &str, mapping: &str, users: &str, has_inventory: bool) -> Policy {
    let policy = if has_inventory {
        POLICY.to_owned()
    } else {
        POLICY.replace(", inventory: { file: inventory.json }", "")
    };
    let authorizer = policy_of(&policy, (roles, mapping, users), INVENTORY);
    let files = MapFiles::new("os/roles.yml", head("roles", roles).as_str())
        .and("os/roles_mapping.yml", head("rolesmapping", mapping).as_str())
        .and("os/internal_users.yml", head("internalusers", users).as_str());
    let config = Arc::new(SecurityConfig::load(&files, Path::new("os")).unwrap().config);
    let inventory =
        has_inventory.then(|| Arc::new(Inventory::from_resolved(INVENTORY.as_bytes()).unwrap()));
    Policy { authorizer, config, inventory, text: format!("{roles}\n{mapping}\n{users}") }
}

fn who_can(policy: &Policy, (method, path): (&str, &str)) -> WhoCan {
    Explainer::new(&policy.authorizer).who_can(&request(method, path), NOW)
}

/// The lines of an answer, without those that repeat the request.
fn lines_of(who: &WhoCan) -> Vec<String> {
    let text = who.to_string();
    let repeats_request =
        |line: &&str| ["request: ", "         "].iter().any(|label| line.starts_with(label));
    text.lines().filter(|line| !repeats_request(line)).map(str::to_owned).collect()
}

pub(crate) fn request<'a>(method: &'a str, path: &'a str) -> Request<'a> {
    Request {
        method: method.as_bytes(),
        host: b"search.example.com",
        path: path.as_bytes(),
        body: RequestBody::Whole(b""),
        ..Request::default()
    }
}

/// A page shows who was found after so many steps, and says so; a command takes more.
#[test]
fn what_takes_too_many_steps_is_left_out() {
    let (mut mapping, mut users) = ("reader: { backend_roles: [".to_owned(), String::new());
    (0..3_000).for_each(|number| write!(mapping, "team-{number}, ").unwrap());
    mapping.push_str("all] }\n");
    (0..1_000).for_each(|number| {
        writeln!(users, "u{number}: {{ hash: {HASH}, backend_roles: [all] }}").unwrap()
    });
    let roles =
        "reader: { index_permissions: [{ index_patterns: [logs-*], allowed_actions: [read] }] }\n";
    let policy = policy(roles, &mapping, &users, true);
    let all = who_can(&policy, ("GET", "/logs-1/_search"));
    let listed = |who: &WhoCan| {
        who.callers.iter().flat_map(|callers| callers.users.iter().flatten()).count()
    };
    assert_eq!((listed(&all), all.left_out), (1_000, false));
    let page = Explainer::new(&policy.authorizer).who_can_listing(
        &request("GET", "/logs-1/_search"),
        NOW,
        50,
    );
    assert!(page.left_out && (1..1_000).contains(&listed(&page)), "{} listed", listed(&page));
    assert!(page.to_string().ends_with("mappings or users to find all of them"), "{page}");
    // Where none is found, it is not said that there is none.
    let nobody = WhoCan { callers: Vec::new(), ..page };
    assert!(nobody.to_string().starts_with("not known: "), "{nobody}");
}

/// Roles that have other patterns each, over many indices: the work ends before all were looked at.
#[test]
fn roles_with_many_patterns_take_a_bounded_number_of_steps() {
    let (mut roles, mut mapping) = (String::new(), String::new());
    for role in 0..2_000 {
        writeln!(
            roles,
            "r{role}: {{ index_permissions: [{{ index_patterns: ['*{role}*', '${{attr.jwt.a{role}}}*'], allowed_actions: [read] }}] }}"
        )
        .unwrap();
        writeln!(mapping, "r{role}: {{ backend_roles: [team-{role}] }}").unwrap();
    }
    let names =
        (0..5_000).map(|number| format!(r#"{{"name": "i{number}", "attributes": ["open"]}}"#));
    let inventory = format!(
        r#"{{"indices": [{}], "aliases": [], "data_streams": []}}"#,
        names.collect::<Vec<_>>().join(",")
    );
    let policy = policy_of(POLICY, (&roles, &mapping, ""), &inventory);
    let request = Request {
        method: b"GET",
        path: b"/_search",
        body: RequestBody::Whole(b""),
        ..Request::default()
    };
    let who = Explainer::new(&policy).who_can_listing(&request, NOW, 50);
    assert!(who.left_out && who.callers.is_empty(), "{who}");
}

#[test]
fn users_and_holders_of_tokens_are_described() {
    let policy = policy(
        "reader: { index_permissions: [{ index_patterns: [logs-*], allowed_actions: [read] }] }\n\
         own: { index_permissions: [{ index_patterns: ['own-${user.name}'], allowed_actions: [read] }] }\n\
         team: { index_permissions: [{ index_patterns: ['${attr.jwt.team}-*'], allowed_actions: [read] }] }\n\
         masked: { index_permissions: [{ index_patterns: [red-1], allowed_actions: [read], fls: [~a] }] }\n",
        "reader: { users: [ann], backend_roles: [dev-*, oncall], and_backend_roles: [a, b] }\n\
         own: { users: ['*'] }\nteam: { backend_roles: [hr] }\nmasked: { backend_roles: [intern] }\n",
        &format!(
            "ann: {{ hash: {HASH} }}\nbob: {{ hash: {HASH}, backend_roles: [oncall] }}\ncarl: {{ hash: {HASH} }}\nnobody: {{}}\n"
        ),
        true,
    );
    let lines = |path: &str| lines_of(&who_can(&policy, ("GET", path)));
    assert_eq!(
        lines("/logs-*/_search"),
        [
            "the users `ann` and `bob` by Basic",
            "any token of https://id.example.com with one of these:",
            "  - a role or group that matches `dev-*` or `oncall`",
            "  - a name that matches `ann`",
            "  - roles or groups that match each of `a`, `b`",
            "  - a role or group that matches `hr`, where `${attr.jwt.team}-*` with the caller's values matches each of logs-1, \
             logs-2",
            "any token of https://plain.example.com with a name that matches `ann`",
            "needs:   indices:data/read/search on logs-*, which stands for logs-1, logs-2",
        ]
    );
    assert_eq!(
        lines("/own-ann/_search"),
        [
            "the user `ann` by Basic",
            "any token of https://id.example.com with one of these:",
            "  - the name `ann`",
            "  - a role or group that matches `hr`, where `${attr.jwt.team}-*` with the caller's values matches own-ann",
            "any token of https://plain.example.com with the name `ann`",
            "needs:   indices:data/read/search on own-ann",
        ]
    );
    let red = lines("/red-1/_search");
    assert_eq!(
        red[0],
        "any token of https://id.example.com with a role or group that matches `hr`, where `${attr.jwt.team}-*` \
         with the caller's values matches red-1, unless with a role or group that matches `intern`"
    );
    assert_eq!(
        lines("/_cluster/health")[0],
        "nobody: no caller can have the roles of the search cluster that permit it"
    );
    let unknown = who_can(&policy, ("GET", "/_nothing/of/this/kind"));
    assert_eq!((unknown.reason, unknown.callers.is_empty()), (Some("unknown_operation"), true));
}

/// Names take the place of the pattern of a search, but not of that of `_cat/count`: an index that
/// was made since would be counted with what a role hides of it.
#[test]
fn a_pattern_that_stays_is_for_those_from_whom_no_role_hides_anything() {
    let policy = policy(
        "reader: { cluster_permissions: [cluster_monitor], index_permissions: [{ index_patterns: [logs-*], allowed_actions: [read] }] }\n\
         masked: { index_permissions: [{ index_patterns: [red-1], allowed_actions: [read], fls: [~a] }] }\n",
        "reader: { backend_roles: [dev] }\nmasked: { backend_roles: [intern] }\n",
        &format!(
            "ann: {{ hash: {HASH}, backend_roles: [dev] }}\nbob: {{ hash: {HASH}, backend_roles: [dev, intern] }}\n"
        ),
        true,
    );
    for (path, expected) in [
        ("/logs-*/_search", ["ann", "bob"].as_slice()),
        ("/_cat/count/logs-1", &["ann", "bob"]),
        ("/_cat/count/logs-*", &["ann"]),
    ] {
        let who = who_can(&policy, ("GET", path));
        let listed: Vec<&str> = who
            .callers
            .iter()
            .flat_map(|callers| callers.users.iter().flatten())
            .map(String::as_str)
            .collect();
        assert_eq!(listed, expected, "{path}");
        for name in ["ann", "bob"] {
            let subject = Explainer::new(&policy.authorizer)
                .subject_named::<&str>(b"search.example.com", name, &[], &[])
                .unwrap();
            let mut scratch = Scratch::default();
            let verdict = policy.authorizer.check_as(
                &request("GET", path),
                Ok(Some(subject)),
                &mut scratch,
                NOW,
            );
            assert_eq!(
                matches!(verdict, Decided::Allowed(_)),
                expected.contains(&name),
                "{path} {name}"
            );
        }
    }
}

/// Whoever reads "a or b and c" cannot tell what must be met.
#[test]
fn conditions_of_several_roles_are_a_list() {
    let policy = policy(
        "reader: { index_permissions: [{ index_patterns: [logs-*], allowed_actions: [read] }] }\n\
         other: { index_permissions: [{ index_patterns: [red-1], allowed_actions: [read] }] }\n\
         masked: { index_permissions: [{ index_patterns: [red-1], allowed_actions: [read], fls: [~a] }] }\n\
         hidden: { index_permissions: [{ index_patterns: ['${attr.jwt.team}-*'], allowed_actions: [read], fls: [~a] }] }\n",
        "reader: { users: ['x*', 'y*'], backend_roles: [dev-*] }\nother: { backend_roles: [red] }\n\
         masked: { backend_roles: [intern], hosts: ['10.*', '11.*'] }\nhidden: { backend_roles: [hr] }\n",
        &format!(
            "ann: {{ hash: {HASH}, backend_roles: [red], opendistro_security_roles: [reader] }}\n"
        ),
        true,
    );
    let who = who_can(&policy, ("GET", "/logs-1,red-1/_search"));
    assert_eq!(
        lines_of(&who),
        [
            "the user `ann` by Basic, unless with an address that matches `10.*` or `11.*`",
            "any token of https://id.example.com with all of these:",
            "  - one of: a role or group that matches `red`; a role or group that matches `hr`, where `${attr.jwt.team}-*` with \
             the caller's values matches red-1",
            "  - one of: a role or group that matches `dev-*`; a name that matches `x*` or `y*`; a role or group that matches `hr`, \
             where `${attr.jwt.team}-*` with the caller's values matches logs-1",
            "  unless with one of these:",
            "  - a role or group that matches `intern`",
            "  - an address that matches `10.*` or `11.*`",
            "  - a role or group that matches `hr`, where `${attr.jwt.team}-*` with the caller's values matches one of logs-1, red-1",
            "needs:   indices:data/read/search on logs-1,red-1",
        ]
    );
}

/// `kibana_user` writes in the global tenant, but not beside a role that only reads there.
#[test]
fn a_role_that_takes_writing_from_another_is_named() {
    let policy = policy(
        "look: { tenant_permissions: [{ tenant_patterns: [global_tenant], allowed_actions: [kibana_all_read] }] }\n",
        "kibana_user: { backend_roles: [ui] }\nlook: { backend_roles: [viewer] }\nall_access: { backend_roles: [admin] }\n",
        &format!(
            "ann: {{ hash: {HASH}, backend_roles: [ui] }}\nbob: {{ hash: {HASH}, backend_roles: [ui, viewer] }}\n\
             carl: {{ hash: {HASH}, backend_roles: [ui, viewer, admin] }}\n"
        ),
        true,
    );
    let lines = |method| lines_of(&who_can(&policy, (method, "/.kibana")));
    let writing = lines("DELETE");
    assert_eq!(
        writing,
        [
            "the users `ann` and `carl` by Basic",
            "any token of https://id.example.com with a role or group that matches `admin`",
            "any token of https://id.example.com with a role or group that matches `admin` or `ui`, unless with a role \
             or group that matches `viewer`",
            "any token of https://id.example.com for the user `kibanaserver`, with a role or group that matches `admin` or `ui`",
            "needs:   indices:admin/delete on .kibana",
        ]
    );
    let reading = lines("GET");
    assert_eq!(
        reading,
        [
            "the users `ann`, `bob` and `carl` by Basic",
            "any token of https://id.example.com with a role or group that matches `admin` or `ui`",
            "needs:   indices:admin/get on .kibana",
        ]
    );
}

/// With `bulk: per-item`, callers who are not listed can have some items of a request performed.
#[test]
fn a_bulk_request_whose_items_may_be_separated_has_a_note() {
    let notes = |bulk: &str, items: &[&str]| {
        let policy = POLICY.replace("folder: os", &format!("folder: os, bulk: {bulk}"));
        let authorizer =
            policy_of(&policy, ("writer: {}", "writer: { users: [ann] }", ""), INVENTORY);
        let line = |index: &&str| format!("{{\"index\":{{\"_index\":\"{index}\"}}}}\n{{}}\n");
        let body: String = items.iter().map(line).collect();
        let headers = [Header { name: b"content-type", value: b"application/x-ndjson" }];
        let body = RequestBody::Whole(body.as_bytes());
        let request = Request { headers: &headers, body, ..request("POST", "/_bulk") };
        let who = Explainer::new(&authorizer).who_can(&request, NOW);
        assert_eq!(who.reason, None, "{who}");
        who.notes
    };
    let [note] = &notes("per-item", &["logs-1", "red-1"])[..] else { panic!("one note") };
    assert!(note.starts_with("callers to whom only some of its items are permitted"), "{note}");
    assert!(notes("per-item", &["logs-1", "logs-1"]).is_empty());
    assert!(notes("whole", &["logs-1", "red-1"]).is_empty());
}

#[test]
fn a_request_that_nobody_can_make_is_called_invalid_only_if_it_is_and_only_once() {
    let policy = policy("a: {}\n", "a: { users: [x] }\n", "", true);
    for (method, path, expected) in [
        (
            "GET",
            "/_search?expand_wildcards=x",
            "nobody: the request is invalid: `expand_wildcards` has an unknown value (invalid_operation)",
        ),
        (
            "GET",
            "/_nothing/of/this/kind",
            "nobody: the cluster has no such method and path (unknown_operation)",
        ),
        ("GET", "/remote:logs/_search", "nobody: not supported: "),
        ("G T", "/logs/_search", "nobody: the request is invalid: "),
    ] {
        let text = who_can(&policy, (method, path)).to_string();
        assert!(text.starts_with(expected), "{text}");
        assert!(!text.contains("invalid: invalid"), "{text}");
    }
}

const PATTERNS: &[&str] = &[
    "*",
    "logs-*",
    "logs-1",
    "red-*",
    "own-${user.name}",
    "${attr.jwt.team}-*",
    "${attr.jwt.team}-1",
    "all",
];
const ACTIONS: &[&str] = &["read", "write", "'indices:data/read/search'", "'*'"];
const USERS: &[&str] = &["ann", "bob", "ci:ann", "'*'", "'ci:*'", "'b*'"];
const BACKEND: &[&str] = &["dev-a", "'dev-*'", "hr", "'ci:hr'", "'*'", "'/d.*/'"];
const PATHS: &[(&str, &str)] = &[
    ("GET", "/logs-1/_search"),
    ("GET", "/logs-*/_search"),
    ("GET", "/red-1,logs-2/_count"),
    ("GET", "/all/_search"),
    ("GET", "/own-ann/_doc/1"),
    ("GET", "/missing/_search"),
    ("GET", "/red-*/_search"),
    ("GET", "/_search"),
    ("GET", "/_cluster/health"),
];

pub(crate) fn some(rng: &mut Rng, from: &[&str]) -> String {
    let count = rng.below(3);
    (0..count).map(|_| from[rng.below(from.len())].to_owned()).collect::<Vec<_>>().join(", ")
}

fn generated(rng: &mut Rng) -> Policy {
    let (mut roles, mut mapping) = (String::new(), String::new());
    for number in 0..4 {
        let cluster = if rng.below(4) == 0 { "cluster_all" } else { "" };
        let pattern = PATTERNS[rng.below(PATTERNS.len())];
        let action = ACTIONS[rng.below(ACTIONS.len())];
        let rule = if rng.below(6) == 0 { ", fls: [~a]" } else { "" };
        writeln!(roles, "r{number}: {{ cluster_permissions: [{cluster}], index_permissions: [{{ index_patterns: ['{pattern}'], allowed_actions: [{action}]{rule} }}] }}").unwrap();
        let hosts = if rng.below(4) == 0 { "'10.*'" } else { "" };
        let (users, backend, all) = (some(rng, USERS), some(rng, BACKEND), some(rng, BACKEND));
        writeln!(mapping, "r{number}: {{ users: [{users}], backend_roles: [{backend}], and_backend_roles: [{all}], hosts: [{hosts}] }}").unwrap();
    }
    let users = format!(
        "ann: {{ hash: {HASH}, backend_roles: [hr], opendistro_security_roles: [r{}] }}\nbob: {{ hash: {HASH}, backend_roles: [dev-a] }}\n",
        rng.below(5)
    );
    let has_inventory = rng.below(3) > 0;
    policy(&roles, &mapping, &users, has_inventory)
}

/// A caller, with its source.
fn callers(rng: &mut Rng) -> Vec<(CallerSource, Subject)> {
    let address = || None;
    let subject = |name: &str, backend: &[&str], team: Option<&str>| Subject {
        name: name.to_owned(),
        backend_roles: backend.iter().map(ToString::to_string).collect(),
        attributes: team
            .iter()
            .map(|team| ("attr.jwt.team".to_owned(), (*team).to_owned()))
            .collect(),
        address: address(),
        ..Subject::default()
    };
    let token =
        |issuer: &str| CallerSource::Token { issuer: format!("https://{issuer}.example.com") };
    let team = [None, Some("red"), Some("logs"), Some("own")][rng.below(4)];
    let mut callers = vec![
        (CallerSource::Basic, subject("ann", &["hr"], None)),
        (CallerSource::Basic, subject("bob", &["dev-a"], None)),
    ];
    for name in ["ann", "bob", "x"] {
        for backend in [&[][..], &["hr"], &["dev-a"], &["dev-b", "hr"], &["z"]] {
            callers.push((token("id"), subject(name, backend, team)));
            let prefixed: Vec<String> = backend.iter().map(|name| format!("ci:{name}")).collect();
            let prefixed: Vec<&str> = prefixed.iter().map(String::as_str).collect();
            callers.push((token("ci"), subject(&format!("ci:{name}"), &prefixed, team)));
        }
        callers.push((token("plain"), subject(name, &[], team)));
    }
    let with_address = callers.clone().into_iter().map(|(source, subject)| {
        let address = ["10.1.1.1", "192.0.2.1"][rng.below(2)].parse().ok();
        (source, Subject { address, ..subject })
    });
    let with_address: Vec<_> = with_address.collect();
    callers.extend(with_address);
    callers
}

/// Whether a caller has an attribute. Patterns must match each name where it is needed, and one
/// where it must not be.
fn has(subject: &Subject, attribute: &Attribute, is_needed: bool) -> bool {
    let matches =
        |pattern: &str, name: &str| Pattern::parse(&pattern.into()).unwrap().matches(name);
    let backend =
        |pattern: &String| subject.backend_roles.iter().any(|role| matches(pattern, role));
    match attribute {
        Attribute::When { .. } => panic!("a cluster's roles have no conditions"),
        Attribute::Role(_) | Attribute::Group(_) => panic!("only for rules: {attribute:?}"),
        Attribute::Anyone => true,
        Attribute::BackendRole(pattern) => backend(pattern),
        Attribute::BackendRoles(patterns) => patterns.iter().all(backend),
        Attribute::Name(pattern) => matches(pattern, &subject.name),
        Attribute::Address(pattern) => {
            subject.address.is_some_and(|address| matches(pattern, &address.to_string()))
        }
        Attribute::Where { attribute, pattern, names, user } => {
            let mut values = vec![("${user.name}", subject.name.as_str())];
            values.extend(
                subject.attributes.iter().map(|(_, team)| ("${attr.jwt.team}", team.as_str())),
            );
            let mut text = pattern.clone();
            for (variable, value) in values {
                text = text.replace(variable, value);
            }
            // An alias has the names of its own pattern too.
            let matches = |name: &String| {
                let covers = Pattern::parse(&text.as_str().into()).unwrap();
                !text.contains("${")
                    && if name.contains('*') {
                        if is_needed { covers.covers(name) } else { covers.may_overlap(name) }
                    } else {
                        covers.matches(name)
                    }
            };
            let counts =
                if is_needed { names.iter().all(matches) } else { names.iter().any(matches) };
            user.as_ref().is_none_or(|user| *user == subject.name)
                && counts
                && has(subject, attribute, is_needed)
        }
    }
}

pub(crate) fn includes(callers: &Callers, source: &CallerSource, subject: &Subject) -> bool {
    let Callers { source: of, users, except_users, condition, .. } = callers;
    of == source
        && users.as_ref().is_none_or(|users| users.contains(&subject.name))
        && !except_users.contains(&subject.name)
        && condition
            .needs
            .iter()
            .all(|any| any.iter().any(|attribute| has(subject, attribute, true)))
        && !condition.unless.iter().any(|attribute| has(subject, attribute, false))
}

/// A request without a body, as search reads it.
pub(crate) fn read_by_search<'a>((method, target): (&'a str, &'a str)) -> search::Request<'a> {
    search::Request {
        method,
        target,
        content_type: None,
        content_encoding: None,
        scrolls_are_checked: false,
        body: RequestBody::Whole(b""),
        now: search::Request::time(NOW),
    }
}

#[test]
fn who_can_agrees_with_a_decision_for_each_caller() {
    let mut rng = Rng::new(31);
    let (mut permitted, mut denied, mut nobody, mut with_unless, mut by_address) = (0, 0, 0, 0, 0);
    // `make fuzz` compares more.
    let policies = if std::env::var_os("FULL_AGREEMENT").is_some() { 150 } else { 50 };
    for _ in 0..policies {
        let policy = generated(&mut rng);
        let settings = policy.config.settings.clone();
        let (config, inventory) = (policy.config.clone(), policy.inventory.clone());
        let privileges = Privileges::new(config, settings, inventory);
        for asked in PATHS {
            let who = who_can(&policy, *asked);
            nobody += usize::from(who.callers.is_empty());
            with_unless +=
                usize::from(who.callers.iter().any(|callers| !callers.condition.unless.is_empty()));
            let request = read_by_search(*asked);
            let mut needs = Vec::new();
            search::read(&request, &mut needs).unwrap();
            for (source, mut subject) in callers(&mut rng) {
                if source == CallerSource::Basic {
                    let user = policy
                        .config
                        .users
                        .iter()
                        .find(|user| *user.name == *subject.name)
                        .unwrap();
                    subject.roles = user.roles.iter().map(ToString::to_string).collect();
                }
                let is = privileges.decide(&privileges.caller(&subject), &needs).verdict
                    == Verdict::Permitted;
                let says = who.callers.iter().any(|callers| includes(callers, &source, &subject));
                assert_eq!(says, is, "{asked:?} {source:?} {subject:?}\n{}\n{who}", policy.text);
                *(if is { &mut permitted } else { &mut denied }) += 1;
                by_address += usize::from(is && subject.address.is_some());
            }
        }
    }
    println!(
        "permitted {permitted}, denied {denied}, nobody {nobody}, unless {with_unless}, by address {by_address}"
    );
    assert!(
        permitted > 3_000 && denied > 3_000 && nobody > 30 && with_unless > 30,
        "{permitted} {denied} {nobody} {with_unless}"
    );
}
