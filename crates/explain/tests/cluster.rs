//! Explanations of requests to a search cluster.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a failed set-up is a failed test")]

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use authorizer::{Authorizer, Header, Request, RequestBody};
use explain::{ExplainedSubject, Explainer, Explanation};
use identity::Subject;

const POLICY: &str = "version: 1
search: { folder: os, hosts: [search.example.com], inventory: { file: inventory.json }, do_not_fail_on_forbidden: true }
identity: { jwt: [{ issuer: https://id.example.com, audiences: [a], keys: { url: https://id.example.com/k } }] }
allow_response: { set_headers: { x-user: \"{user}\" }, remove_headers: [authorization] }
";
const ROLES: &str = "_meta: { type: roles, config_version: 2 }
reader: { cluster_permissions: [cluster_composite_ops_ro], index_permissions: [{ index_patterns: [logs-*], allowed_actions: [read] }] }
masked:
  index_permissions:
    - { index_patterns: [people], allowed_actions: [read], dls: '{\"term\": {\"team\": \"${attr.internal.team}\"}}', fls: [~pay], masked_fields: [mail] }
team: { index_permissions: [{ index_patterns: ['${attr.jwt.team}-*'], allowed_actions: [read] }] }
writer: { cluster_permissions: ['indices:data/write/bulk'], index_permissions: [{ index_patterns: [logs-*], allowed_actions: [write] }] }
";
const MAPPING: &str = "_meta: { type: rolesmapping, config_version: 2 }
reader: { users: [ann], backend_roles: ['dev-*'] }
masked: { and_backend_roles: [hr, lead] }
team: { users: ['*'] }
writer: { hosts: ['10.*'] }
gone: { users: [ann] }
";
const USERS: &str = "_meta: { type: internalusers, config_version: 2 }
ann: { hash: $2b$11$ZoaBbnHvrDS4zseU06GqZujX.QEt1xyWqTmO0kWabP8jJtkkov7fW, attributes: { team: red } }
bob: { hash: $2b$11$ZoaBbnHvrDS4zseU06GqZujX.QEt1xyWqTmO0kWabP8jJtkkov7fW, backend_roles: [hr, lead], attributes: { team: red }, opendistro_security_roles: [reader] }
";
const INVENTORY: &str = r#"{"indices": [{"name": "logs-1", "attributes": ["open"]}, {"name": "people", "attributes": ["open"]}, {"name": "red-1", "attributes": ["open"]}], "aliases": [], "data_streams": []}"#;

fn authorizer() -> Authorizer {
    compiled(POLICY)
}

fn compiled(policy: &str) -> Authorizer {
    with_inventory(policy, INVENTORY)
}

fn with_inventory(policy: &str, inventory: &str) -> Authorizer {
    let files = document::MapFiles::new("policy.yaml", policy)
        .and("os/roles.yml", ROLES)
        .and("os/roles_mapping.yml", MAPPING)
        .and("os/internal_users.yml", USERS)
        .and("inventory.json", inventory);
    let loaded = policy::load(&files, Path::new("policy.yaml"))
        .unwrap_or_else(|problems| panic!("{problems:#?}"));
    Authorizer::compile(Arc::new(loaded), &identity::FetchedKeys::new(), None).unwrap().0
}

fn named(authorizer: &Authorizer, user: &str) -> ExplainedSubject {
    ExplainedSubject::Given(
        Explainer::new(authorizer)
            .subject_named::<&str>(b"search.example.com", user, &[], &[])
            .unwrap(),
    )
}

fn explain(user: &str, client: &str, request: (&str, &str, &str)) -> Explanation {
    explain_by(&authorizer(), user, client, request)
}

fn explain_by(
    authorizer: &Authorizer,
    user: &str,
    client: &str,
    (method, path, body): (&str, &str, &str),
) -> Explanation {
    let headers = [Header { name: b"content-type", value: b"application/json" }];
    let request = Request {
        method: method.as_bytes(),
        host: b"search.example.com",
        path: path.as_bytes(),
        headers: &headers,
        client: client.as_bytes(),
        body: RequestBody::Whole(body.as_bytes()),
        ..Request::default()
    };
    let subject = match user.split_once('@') {
        None => named(authorizer, user),
        Some((name, issuer)) => ExplainedSubject::Given(Subject {
            user: name.into(),
            issuer: Some(issuer.into()),
            source: None,
            groups: vec!["dev-a".into()],
            roles: Vec::new(),
            claims: serde_json::json!({ "team": "red" }),
            actor: None,
        }),
    };
    Explainer::new(authorizer).explain(&request, subject, Duration::from_secs(1_800_000_000))
}

/// The lines of the explanation, without those about the policy and its keys.
fn lines(explanation: &Explanation) -> Vec<String> {
    let text = explanation.to_string();
    let lines =
        text.lines().filter(|line| !line.starts_with("policy: ") && !line.starts_with("keys: "));
    lines.map(str::to_owned).collect()
}

#[test]
fn a_permitted_request_is_explained_by_operation_needs_and_roles() {
    let why = explain("ann", "", ("GET", "/logs-*/_search?size=1", ""));
    assert_eq!(
        lines(&why),
        [
            "200 allowed",
            "request: GET search.example.com/logs-*/_search?size=1",
            "         the operation `search` of the search cluster",
            "caller:  ann",
            "roles:   gone (mapped from the user `ann`; the cluster has no such role)",
            "roles:   reader (mapped from the user `ann`)",
            "roles:   team (mapped from the user `*`)",
            "needs:   indices:data/read/search on logs-*, which stands for logs-1",
            "granted: indices:data/read/search on logs-1 by `logs-*` of the role `reader`",
            "cluster: 3 names in the inventory",
            "sets:    x-user: ann",
            "removes: authorization",
        ]
    );
    assert!(why.cluster.unwrap().depends_on_body);
}

/// Also where an operation is read as one that needs the most if its body is not seen.
#[test]
fn that_the_body_counts_is_explained() {
    for (method, path, expected) in [
        ("POST", "/logs-1/_update/1", true),
        ("DELETE", "/_search/point_in_time", true),
        ("GET", "/_cat/pit_segments", true),
        ("POST", "/_bulk", true),
        ("GET", "/<logs-{now}>/_search", true),
        ("GET", "/logs-1/_doc/1", false),
        ("GET", "/<logs-{now}>/_doc/1", false),
        ("DELETE", "/_search/point_in_time/_all", false),
        // These are denied for their paths, whatever their bodies are.
        ("POST", "/other:logs-1/_search", false),
        ("POST", "/_nothing/of/this/kind", false),
    ] {
        for body in ["", "{}"] {
            let why = explain("ann", "", (method, path, body));
            assert_eq!(why.cluster.unwrap().depends_on_body, expected, "{method} {path}");
        }
    }
}

/// The pattern of a role may match an alias and not its indices, or its indices and not the alias.
#[test]
fn by_which_index_or_alias_a_permission_holds_is_explained() {
    let inventory = r#"{"indices": [{"name": "logs-1", "attributes": ["open"], "aliases": ["current", "red-all"]}, {"name": "logs-2", "attributes": ["open"], "aliases": ["current"]}, {"name": "old", "attributes": ["open"], "aliases": ["red-all"]}], "aliases": [{"name": "current", "indices": ["logs-1", "logs-2"]}, {"name": "red-all", "indices": ["logs-1", "old"]}], "data_streams": []}"#;
    let authorizer = with_inventory(POLICY, inventory);
    let found = |user: &str, request: (&str, &str, &str)| {
        let why = explain_by(&authorizer, user, "", request);
        let about = ["needs:", "granted:", "missing:"];
        lines(&why)
            .into_iter()
            .filter(|line| about.iter().any(|name| line.starts_with(name)))
            .collect::<Vec<_>>()
    };
    assert_eq!(
        found("ann", ("GET", "/current/_search", "")),
        [
            "needs:   indices:data/read/search on current, which stands for logs-1, logs-2",
            "granted: indices:data/read/search on logs-1, logs-2 by `logs-*` of the role `reader`",
        ]
    );
    assert_eq!(
        found("ann@x", ("GET", "/old/_search", "")),
        [
            "needs:   indices:data/read/search on old",
            "granted: indices:data/read/search on old by `${attr.jwt.team}-*` of the role `team`, which matches red-all, an alias \
             or data stream of it",
        ]
    );
    assert_eq!(
        found("ann", ("POST", "/_mget", r#"{"docs": [{"_index": "logs-1", "_id": "1"}]}"#)),
        [
            "needs:   indices:data/read/mget on the cluster",
            "needs:   indices:data/read/mget[shard] on logs-1",
            "granted: indices:data/read/mget on the cluster by the role `reader`",
            "granted: indices:data/read/mget[shard] on logs-1 by `logs-*` of the role `reader`",
        ]
    );
    let denied = found("ann", ("GET", "/red-all/_doc/1", ""));
    assert_eq!(
        denied[0],
        "needs:   indices:data/read/get on red-all, which stands for logs-1, old"
    );
    assert!(
        denied[1].starts_with("missing: indices:data/read/get on old (not granted): "),
        "{denied:?}"
    );
    assert_eq!(denied.len(), 2, "{denied:?}");
}

#[test]
fn a_denied_request_is_explained_by_what_is_missing_and_the_roles_that_permit_it() {
    let why = explain("ann", "", ("PUT", "/logs-1/_doc/1", "{}"));
    let cluster = why.cluster.as_deref().unwrap();
    assert_eq!((why.status, why.reason), (403, Some("not_permitted")));
    assert!(cluster.missing.iter().all(|missing| missing.granted_by[0] == "writer"), "{cluster:?}");
    assert!(
        lines(&why)
            .contains(&"permits: the role `writer`, mapped from the address `10.*`".to_owned())
    );
    assert_eq!(cluster.permitting[0].name, "writer", "the cluster's own roles come first");
    let why = explain("ann", "10.1.2.3", ("PUT", "/logs-1/_doc/1", "{}"));
    assert_eq!(why.status, 200);
    assert!(lines(&why).contains(&"roles:   writer (mapped from the address `10.*`)".to_owned()));
}

#[test]
fn that_a_request_needs_nothing_is_explained() {
    let why = explain("ann", "", ("GET", "/_cat", ""));
    assert_eq!(why.status, 200);
    let needs = "needs:   nothing: every authenticated caller may";
    assert!(lines(&why).contains(&needs.to_owned()), "{why}");
    assert!(!explain("ann", "", ("GET", "/_search", "")).to_string().contains(needs));
}

#[test]
fn what_a_body_needs_is_explained() {
    let body = r#"{"query": {"terms": {"a": {"index": "people", "id": "1", "path": "p"}}}}"#;
    let why = explain("ann", "", ("POST", "/logs-1/_search", body));
    let missing =
        "\nmissing: indices:data/read/get on people (not granted): granted by masked, all_access, ";
    assert!(why.to_string().contains(missing), "{why}");
}

#[test]
fn what_is_permitted_in_part_and_filters_are_explained() {
    let why = explain("ann", "", ("GET", "/logs-1,red-1/_search", ""));
    assert_eq!(why.status, 200);
    for line in ["in part: permitted on logs-1", "sets:    :path: /logs-1/_search"] {
        assert!(lines(&why).contains(&line.to_owned()), "{why}");
    }
    let why = explain("bob", "", ("GET", "/people/_search", ""));
    assert_eq!(why.reason, Some("not_permitted"));
    let lines = lines(&why);
    for line in [
        "caller:  bob, with the backend roles hr, lead",
        "roles:   masked (mapped from all of the backend roles `hr`, `lead`)",
        "roles:   reader (a role of the user in `internal_users.yml`)",
        "missing: indices:data/read/search on people (a role shows only some documents or fields)",
        "filter:  the role `masked` shows on people only documents that match \
         {\"term\": {\"team\": \"${attr.internal.team}\"}}, and only the fields ~pay, and masked the fields mail",
    ] {
        assert!(lines.contains(&line.to_owned()), "{line}\n{why}");
    }
}

#[test]
fn a_holder_of_a_token_has_its_groups_as_backend_roles_and_its_claims() {
    let why = explain("carol@https://id.example.com", "", ("GET", "/red-1,logs-1/_search", ""));
    assert_eq!(why.status, 200, "{why}");
    let lines = lines(&why);
    assert!(
        lines.contains(
            &"caller:  carol, by a token of https://id.example.com, with the backend roles dev-a"
                .to_owned()
        ),
        "{why}"
    );
    let role = "roles:   reader (mapped from the backend role `dev-*`, which matches `dev-a`)";
    assert!(lines.contains(&role.to_owned()), "{why}");
}

/// Its id may be that of another caller's scroll, on any index.
#[test]
fn a_scroll_is_continued_only_where_the_cluster_checks_whose_it_is() {
    let status = |settings: &str| {
        let policy = POLICY.replace("hosts:", &format!("{settings}hosts:"));
        let authorizer = compiled(&policy);
        let headers = [Header { name: b"content-type", value: b"application/json" }];
        let request = Request {
            method: b"POST",
            host: b"search.example.com",
            path: b"/_search/scroll",
            headers: &headers,
            body: RequestBody::Whole(br#"{"scroll_id":"abc"}"#),
            ..Request::default()
        };
        Explainer::new(&authorizer)
            .explain(&request, named(&authorizer, "ann"), Duration::from_secs(1_800_000_000))
            .status
    };
    assert_eq!(status(""), 403);
    assert_eq!(status("cluster_checks_scrolls: false, "), 403);
    assert_eq!(status("cluster_checks_scrolls: true, "), 200);
    // Nobody knows what to hide of what it answers.
    assert_eq!(
        status("cluster_checks_scrolls: true, document_security: { header: x-hide }, "),
        403
    );
}

#[test]
fn an_operation_that_is_not_known_and_other_hosts_are_explained() {
    let why = explain("ann", "", ("GET", "/_nothing/of/this/kind", ""));
    assert_eq!((why.status, why.reason), (403, Some("unknown_operation")));
    assert_eq!(why.cluster.unwrap().operation, None);
    let authorizer = authorizer();
    let request =
        Request { method: b"GET", host: b"other.example.com", path: b"/a", ..Request::default() };
    let why = Explainer::new(&authorizer).explain(
        &request,
        ExplainedSubject::FromRequest,
        Duration::from_secs(1_800_000_000),
    );
    assert!(why.cluster.is_none());
}

#[test]
fn a_token_that_can_have_the_name_of_a_user_is_a_warning() {
    let warnings = |policy: &str| {
        let files = document::MapFiles::new("policy.yaml", policy)
            .and("os/roles.yml", ROLES)
            .and("os/roles_mapping.yml", MAPPING)
            .and("os/internal_users.yml", USERS)
            .and("inventory.json", INVENTORY);
        let loaded = Arc::new(policy::load(&files, Path::new("policy.yaml")).unwrap());
        let (_, warnings) =
            Authorizer::compile(loaded.clone(), &identity::FetchedKeys::new(), None).unwrap();
        let left = document::unaccepted(&loaded.files, warnings);
        left.iter()
            .map(ToString::to_string)
            .filter(|text| text.contains("ambiguous-name"))
            .collect::<Vec<_>>()
    };
    let found = warnings(POLICY);
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].starts_with("policy.yaml:3:"), "{found:?}");
    assert!(
        found[0].contains("can have the name `ann` of a user of the search cluster"),
        "{found:?}"
    );
    assert!(found[0].contains("os/internal_users.yml:2:1: the user"), "{found:?}");
    assert!(warnings(&POLICY.replace("audiences", "user_prefix: 'id:', audiences")).is_empty());
    let accepted = POLICY.replace(
        "identity:",
        "# accept: ambiguous-name because both are the same people\nidentity:",
    );
    assert!(warnings(&accepted).is_empty());
    // A comment in a file of the cluster accepts its warnings, too.
    let roles = ROLES
        .replace("team: {", "# accept: unused-role because it is for later\nlater: {}\nteam: {");
    let files = document::MapFiles::new("policy.yaml", POLICY)
        .and("os/roles.yml", roles.as_str())
        .and("os/roles_mapping.yml", MAPPING)
        .and("inventory.json", INVENTORY);
    let loaded = Arc::new(policy::load(&files, Path::new("policy.yaml")).unwrap());
    let (_, all) =
        Authorizer::compile(loaded.clone(), &identity::FetchedKeys::new(), None).unwrap();
    let unused = |problems: &[document::Problem]| {
        problems.iter().filter(|problem| problem.to_string().contains("unused-role")).count()
    };
    assert_eq!((unused(&all), unused(&document::unaccepted(&loaded.files, all.clone()))), (1, 0));
}

/// Each role is tried in addition to those of the caller: as many as a page waits for.
#[test]
fn that_not_each_role_was_tried_is_explained() {
    let mut roles = ROLES.to_owned();
    (0..7_000).for_each(|role| {
        roles.push_str(&format!(
            "r{role}: {{ index_permissions: [{{ index_patterns: [x], allowed_actions: [read] }}] }}\n"
        ));
    });
    let files = document::MapFiles::new("policy.yaml", POLICY)
        .and("os/roles.yml", roles)
        .and("os/roles_mapping.yml", MAPPING)
        .and("os/internal_users.yml", USERS)
        .and("inventory.json", INVENTORY);
    let loaded = Arc::new(policy::load(&files, Path::new("policy.yaml")).unwrap());
    let authorizer = Authorizer::compile(loaded, &identity::FetchedKeys::new(), None).unwrap().0;
    let request = Request {
        method: b"GET",
        host: b"search.example.com",
        path: b"/people/_doc/1",
        ..Request::default()
    };
    let why = Explainer::new(&authorizer).explain(
        &request,
        named(&authorizer, "ann"),
        Duration::from_secs(1_800_000_000),
    );
    let cluster = why.cluster.as_deref().unwrap();
    assert!(cluster.roles_left_out && !cluster.permitting.is_empty(), "{why}");
    assert!(
        lines(&why).contains(
            &"permits: maybe other roles, too: there are too many to try each".to_owned()
        )
    );
    assert!(!explain("ann", "", ("GET", "/people/_doc/1", "")).cluster.unwrap().roles_left_out);
}

/// Tokens with other numbers would have the same one.
#[test]
fn a_claim_that_was_rounded_is_no_attribute() {
    for (team, expected) in [("17", 200), ("18446744073709551617", 403)] {
        let claims: serde_json::Value =
            serde_json::from_str(&format!("{{\"team\": {team}}}")).unwrap();
        let path = format!("/{}-a/_search", claims.get("team").unwrap()).replace('+', "%2B");
        let subject = Subject {
            user: "eve".into(),
            issuer: Some("https://id.example.com".into()),
            source: None,
            groups: Vec::new(),
            roles: Vec::new(),
            claims,
            actor: None,
        };
        let request = Request {
            method: b"GET",
            host: b"search.example.com",
            path: path.as_bytes(),
            body: RequestBody::Whole(b""),
            ..Request::default()
        };
        let now = Duration::from_secs(1_800_000_000);
        let why =
            Explainer::new(&authorizer()).explain(&request, ExplainedSubject::Given(subject), now);
        assert_eq!(why.status, expected, "{why}");
    }
}
