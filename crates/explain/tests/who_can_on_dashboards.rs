//! Requests to the index of Dashboards, for which Dashboards itself needs no tenant: `who_can`, in
//! words and compared with asking the decision for each caller; and a warning of tokens that can
//! have its name.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a failed set-up is a failed test")]

use std::fmt::Write;
use std::path::Path;
use std::sync::Arc;

use authorizer::{Authorizer, Scratch, Verdict as Decided};
use document::MapFiles;
use explain::{CallerSource, Explainer, WhoCan};
use generator::Rng;
use search::{Inventory, Privileges, SecurityConfig, Subject, Verdict};

use crate::who_can_on_cluster::{HASH, NOW, POLICY, head, includes, read_by_search, request, some};

const INVENTORY: &str = r#"{"indices": [{"name": ".kibana_1", "attributes": ["open", "hidden"], "aliases": [".kibana"]}, {"name": ".kibana_7_ann_1", "attributes": ["open"]}, {"name": "logs-1", "attributes": ["open"]}], "aliases": [{"name": ".kibana", "indices": [".kibana_1"]}], "data_streams": []}"#;
/// Where the index of Dashboards has no alias.
const PLAIN: &str = r#"{"indices": [{"name": ".kibana", "attributes": ["open"]}, {"name": "logs-1", "attributes": ["open"]}], "aliases": [], "data_streams": []}"#;
const SERVER: &str = "kibanaserver";
const UNVERIFIED: &str = "identity:
  basic: { users: { ann: {} }, verify: false }
";

/// The files of a cluster.
#[derive(Default)]
struct ClusterFiles<'a> {
    roles: &'a str,
    mapping: &'a str,
    users: Option<&'a str>,
    settings: &'a str,
}

impl ClusterFiles<'_> {
    fn all(&self) -> MapFiles {
        let config = format!("config: {{ dynamic: {{ {} }} }}\n", self.settings);
        let files = MapFiles::new("os/roles.yml", head("roles", self.roles).as_str())
            .and("os/roles_mapping.yml", head("rolesmapping", self.mapping).as_str())
            .and("os/config.yml", head("config", &config).as_str());
        match self.users {
            Some(users) => {
                files.and("os/internal_users.yml", head("internalusers", users).as_str())
            }
            None => files,
        }
    }

    fn authorizer(&self, policy: &str) -> Authorizer {
        self.authorizer_with(policy, INVENTORY)
    }

    fn authorizer_with(&self, policy: &str, inventory: &str) -> Authorizer {
        let files = self.all().and("policy.yaml", policy).and("inventory.json", inventory);
        let loaded = policy::load(&files, Path::new("policy.yaml"))
            .unwrap_or_else(|problems| panic!("{problems:#?}"));
        Authorizer::compile(Arc::new(loaded), &identity::FetchedKeys::new(), None).unwrap().0
    }
}

fn who_can(authorizer: &Authorizer, (method, path): (&str, &str)) -> WhoCan {
    Explainer::new(authorizer).who_can(&request(method, path), NOW)
}

fn lines(authorizer: &Authorizer, asked: (&str, &str)) -> Vec<String> {
    let text = who_can(authorizer, asked).to_string();
    let of_callers = text.lines().take_while(|line| !line.starts_with("request: "));
    of_callers.map(str::to_owned).collect()
}

/// Dashboards needs roles on the index, but none in the tenant.
#[test]
fn dashboards_itself_is_listed() {
    let users =
        format!("{SERVER}: {{ hash: {HASH} }}\nleo: {{ hash: {HASH}, backend_roles: [oncall] }}\n");
    let mut files = ClusterFiles {
        roles: "reader: { index_permissions: [{ index_patterns: [logs-*], allowed_actions: [read] }] }\n",
        mapping: "kibana_server: { users: [kibanaserver] }\nreader: { backend_roles: [oncall] }\n",
        users: Some(&users),
        ..ClusterFiles::default()
    };
    let basic_only = POLICY.split("identity:").next().unwrap();
    for settings in ["", "privileges_evaluation_type: v4"] {
        files.settings = settings;
        let authorizer = files.authorizer(basic_only);
        for asked in
            [("GET", "/.kibana/_search"), ("DELETE", "/.kibana_1"), ("PUT", "/.kibana/_doc/1")]
        {
            assert_eq!(
                lines(&authorizer, asked)[0],
                "the user `kibanaserver` by Basic",
                "{settings} {asked:?}"
            );
        }
        assert_eq!(lines(&authorizer, ("GET", "/logs-1/_search"))[0], "the user `leo` by Basic");
    }
}

#[test]
fn a_token_with_the_name_of_dashboards_is_listed_with_what_else_it_needs() {
    let mut files = ClusterFiles {
        roles: "ops: { index_permissions: [{ index_patterns: ['*'], allowed_actions: [indices_all] }] }\n",
        mapping: "ops: { backend_roles: [oncall], users: [ops-*] }\n",
        ..ClusterFiles::default()
    };
    let asked = ("GET", "/.kibana/_search");
    assert_eq!(
        lines(&files.authorizer(POLICY), asked),
        [
            "any token of https://id.example.com for the user `kibanaserver`, with a role or group that matches `oncall`",
        ]
    );
    files.mapping = "ops: { backend_roles: [oncall], users: [kibana*] }\n";
    assert_eq!(
        lines(&files.authorizer(POLICY), asked),
        [
            "any token of https://id.example.com for the user `kibanaserver`",
            "any token of https://plain.example.com for the user `kibanaserver`",
        ]
    );
    let search = POLICY.split("identity:").next().unwrap();
    let unverified = format!("{search}{UNVERIFIED}");
    assert_eq!(lines(&files.authorizer(&unverified), asked), ["the user `kibanaserver` by Basic"]);
    let is_listed = unverified.replace("ann", SERVER);
    assert_eq!(lines(&files.authorizer(&is_listed), asked), ["the user `kibanaserver` by Basic"]);
}

/// Without `do_not_fail_on_forbidden`, too, a request is reduced where Dashboards' index is left
/// out of what it shows, and where its exclusions leave nothing.
#[test]
fn that_a_request_may_be_reduced_is_said_wherever_it_is_so() {
    let actions = "[read, 'indices:data/read/field_caps*']";
    let reader = format!(
        "reader: {{ index_permissions: [{{ index_patterns: ['*'], allowed_actions: {actions} }}] }}\n"
    );
    let users = format!("leo: {{ hash: {HASH}, backend_roles: [oncall] }}\n");
    for settings in [
        "",
        "privileges_evaluation_type: v4, privileges_evaluation_ignore_unauthorized_indices: false",
    ] {
        let authorizer = ClusterFiles {
            roles: &reader,
            mapping: "reader: { backend_roles: [oncall] }\n",
            users: Some(&users),
            settings,
        }
        .authorizer_with(POLICY.split("identity:").next().unwrap(), PLAIN);
        for (path, is_reduced) in [
            ("/_field_caps?fields=a", true),
            ("/logs-*/_field_caps?fields=a", false),
            ("/logs-*,-logs-*/_search", true),
            ("/logs-*/_search", false),
        ] {
            let who = who_can(&authorizer, ("GET", path));
            let says = who.notes.iter().any(|note| note.contains("reduced"));
            assert_eq!(
                (says, who.callers.is_empty()),
                (is_reduced, is_reduced),
                "{settings} {path}: {who}"
            );
            let subject = Explainer::new(&authorizer)
                .subject_named::<&str>(b"search.example.com", "leo", &[], &[])
                .unwrap();
            let mut scratch = Scratch::default();
            let verdict =
                authorizer.check_as(&request("GET", path), Ok(Some(subject)), &mut scratch, NOW);
            assert!(matches!(verdict, Decided::Allowed(_)), "{settings} {path}");
        }
    }
}

/// Who has its name needs no tenant: a token that can have it is worth a warning where there is an
/// index of Dashboards, or where the files name its user.
#[test]
fn a_token_that_can_have_the_name_of_dashboards_is_a_warning() {
    let none = r#"{"indices": [{"name": "logs-1", "attributes": ["open"]}], "aliases": [], "data_streams": []}"#;
    let by_group = "ops: { backend_roles: [oncall], users: ['*'] }\n";
    let by_name = "ops: { users: [kibanaserver] }\n";
    for (settings, mapping, inventory, issuers) in [
        ("", by_group, INVENTORY, vec!["id", "plain"]),
        ("", by_group, none, vec![]),
        ("", by_name, none, vec!["id", "plain"]),
        (
            "kibana: { server_username: 'ci:dashboards' }",
            by_group,
            INVENTORY,
            vec!["id", "ci", "plain"],
        ),
        ("kibana: { multitenancy_enabled: false }", by_name, INVENTORY, vec![]),
    ] {
        let roles =
            "ops: { index_permissions: [{ index_patterns: ['*'], allowed_actions: [read] }] }\n";
        let cluster = ClusterFiles { roles, mapping, users: None, settings };
        let files = cluster.all().and("policy.yaml", POLICY).and("inventory.json", inventory);
        let loaded = Arc::new(policy::load(&files, Path::new("policy.yaml")).unwrap());
        let (_, warnings) =
            Authorizer::compile(loaded, &identity::FetchedKeys::new(), None).unwrap();
        let warnings = warnings.iter().map(ToString::to_string);
        let places: Vec<String> = warnings
            .filter(|text| {
                text.contains("[ambiguous-name]") && text.contains("of Dashboards itself")
            })
            .map(|text| text.split(':').nth(1).unwrap().to_owned())
            .collect();
        // The lines of the issuers.
        let expected: Vec<&str> = issuers
            .iter()
            .map(|issuer| match *issuer {
                "id" => "5",
                "ci" => "6",
                _ => "7",
            })
            .collect();
        assert_eq!(places, expected, "{settings} {mapping} {inventory}");
    }
}

const PATTERNS: &[&str] =
    &["*", "logs-*", ".kibana", ".kibana*", ".kibana_1", ".*", "${user.name}*", ".kibana_7*"];
const ACTIONS: &[&str] = &["read", "write", "indices_all", "'*'"];
const TENANT: &[&str] = &["kibana_all_read", "kibana_all_write"];
const USERS: &[&str] = &["ann", SERVER, "ci:ann", "'*'", "'k*'"];
const BACKEND: &[&str] = &["dev-a", "'dev-*'", "hr", "'ci:hr'", "'*'"];
const SETTINGS: &[&str] = &[
    "",
    "privileges_evaluation_type: v4",
    "kibana: { server_username: 'ci:ann' }",
    "kibana: { multitenancy_enabled: false }",
];
const PATHS: &[(&str, &str)] = &[
    ("GET", "/.kibana/_search"),
    ("GET", "/.kibana_1/_search"),
    ("GET", "/.kibana*/_search"),
    ("GET", "/.kibana_7_ann_1/_search"),
    ("GET", "/.kibana_new/_search"),
    ("PUT", "/.kibana/_doc/1"),
    ("DELETE", "/.kibana_1"),
    ("GET", "/logs-1,.kibana/_search"),
    ("GET", "/_field_caps?fields=a"),
    ("GET", "/logs-*/_field_caps?fields=a"),
    ("GET", "/logs-1/_search"),
    ("GET", "/_search"),
];

#[test]
fn who_can_agrees_with_a_decision_about_dashboards() {
    let mut rng = Rng::new(33);
    let (mut permitted, mut as_server, mut denied) = (0, 0, 0);
    // `make fuzz` compares more.
    let policies = if std::env::var_os("FULL_AGREEMENT").is_some() { 200 } else { 60 };
    for _ in 0..policies {
        let (mut roles, mut mapping) = (String::new(), String::new());
        for number in 0..3 {
            let pattern = PATTERNS[rng.below(PATTERNS.len())];
            let action = ACTIONS[rng.below(ACTIONS.len())];
            let tenant = match rng.below(3) {
                0 => format!(
                    ", tenant_permissions: [{{ tenant_patterns: [global_tenant], allowed_actions: [{}] }}]",
                    TENANT[rng.below(2)]
                ),
                _ => String::new(),
            };
            writeln!(roles, "r{number}: {{ index_permissions: [{{ index_patterns: ['{pattern}'], allowed_actions: [{action}] }}]{tenant} }}").unwrap();
            let (users, backend) = (some(&mut rng, USERS), some(&mut rng, BACKEND));
            writeln!(mapping, "r{number}: {{ users: [{users}], backend_roles: [{backend}] }}")
                .unwrap();
        }
        let users = format!(
            "ann: {{ hash: {HASH}, backend_roles: [hr] }}\n{SERVER}: {{ hash: {HASH}, backend_roles: [dev-a], opendistro_security_roles: [r{}] }}\n",
            rng.below(4)
        );
        let files = ClusterFiles {
            roles: &roles,
            mapping: &mapping,
            users: Some(&users),
            settings: SETTINGS[rng.below(SETTINGS.len())],
        };
        let authorizer = files.authorizer(POLICY);
        let config = Arc::new(SecurityConfig::load(&files.all(), Path::new("os")).unwrap().config);
        let inventory = Arc::new(Inventory::from_resolved(INVENTORY.as_bytes()).unwrap());
        let privileges = Privileges::new(config.clone(), config.settings.clone(), Some(inventory));
        for asked in PATHS {
            let who = who_can(&authorizer, *asked);
            let request = read_by_search(*asked);
            let mut needs = Vec::new();
            search::read(&request, &mut needs).unwrap();
            for (source, mut subject) in callers() {
                if source == CallerSource::Basic {
                    let user =
                        config.users.iter().find(|user| *user.name == *subject.name).unwrap();
                    subject.roles = user.roles.iter().map(ToString::to_string).collect();
                }
                let is = privileges.decide(&privileges.caller(&subject), &needs).verdict
                    == Verdict::Permitted;
                let says = who.callers.iter().any(|callers| includes(callers, &source, &subject));
                assert_eq!(
                    says, is,
                    "{asked:?} {source:?} {subject:?}\n{roles}\n{mapping}\n{users}\n{}\n{who}",
                    files.settings
                );
                *(if is { &mut permitted } else { &mut denied }) += 1;
                let is_server = config
                    .settings
                    .dashboards
                    .as_ref()
                    .is_some_and(|one| *one.server == *subject.name);
                as_server += usize::from(is && is_server);
            }
        }
    }
    assert!(
        permitted > 1_500 && as_server > 300 && denied > 3_000,
        "{permitted} {as_server} {denied}"
    );
}

/// Callers, each with its source.
fn callers() -> Vec<(CallerSource, Subject)> {
    let subject = |name: &str, backend: &[&str]| Subject {
        name: name.to_owned(),
        backend_roles: backend.iter().map(ToString::to_string).collect(),
        ..Subject::default()
    };
    let token =
        |issuer: &str| CallerSource::Token { issuer: format!("https://{issuer}.example.com") };
    let mut callers = vec![
        (CallerSource::Basic, subject("ann", &["hr"])),
        (CallerSource::Basic, subject(SERVER, &["dev-a"])),
    ];
    for name in ["ann", SERVER, "x"] {
        for backend in [&[][..], &["hr"], &["dev-a"], &["dev-b", "hr"]] {
            callers.push((token("id"), subject(name, backend)));
            let prefixed: Vec<String> = backend.iter().map(|name| format!("ci:{name}")).collect();
            let prefixed: Vec<&str> = prefixed.iter().map(String::as_str).collect();
            callers.push((token("ci"), subject(&format!("ci:{name}"), &prefixed)));
        }
        callers.push((token("plain"), subject(name, &[])));
    }
    callers
}
