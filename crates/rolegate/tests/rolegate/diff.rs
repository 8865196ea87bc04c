//! `diff`: what a change of a policy grants and revokes.

use serde_json::Value;

use crate::process::{PolicyFolder, example, run};

const OLD: &str = r#"version: 1
identity:
  basic:
    users:
      ann: { password: "{SHA}W6ph5Mm5Pz8GgiULbPgzG37mj9g=", groups: [staff] }
      bob: { password: "{SHA}W6ph5Mm5Pz8GgiULbPgzG37mj9g=" }
  jwt:
    - issuer: https://id.example.com
      audiences: [shop]
      keys: { url: "https://id.example.com/jwks?api_key=s3cr3t-of-the-url" }
      claims: { user: sub, roles: roles, groups: groups }
      user_prefix: "id:"
      group_prefix: "id:"
roles:
  reader: { allow: ["GET /reports/{id}", "GET /users/{user}"] }
  editor: { extends: [reader], allow: ["PUT /reports/{id}"], deny: ["* /reports/locked"] }
grants:
  reader: { users: [bob], groups: ["id:readers"] }
  editor: { groups: [staff] }
allow_response: { set_headers: { x-user: "{user}" } }
"#;

/// The difference to the same policy with these replacements.
fn diff(replaced: &[(&str, &str)], more: &[&str]) -> (i32, String) {
    let new = replaced.iter().fold(OLD.to_owned(), |text, (from, to)| {
        assert!(text.contains(from), "{from}");
        text.replace(from, to)
    });
    let (old, new) = (PolicyFolder::new(OLD), PolicyFolder::new(&new));
    let (code, out, err) = run(&[&["diff", &old.arg(), &new.arg()][..], more].concat());
    assert!(err.is_empty(), "{err}");
    (code, out)
}

/// The lines without the places of the rules.
fn lines(out: &str) -> Vec<String> {
    let without_place =
        |line: &str| line.split_once(" (/").map_or(line, |(before, _)| before).trim().to_owned();
    out.lines().map(without_place).collect()
}

#[test]
fn a_rule_that_is_added_is_granted_to_each_of_its_callers() {
    let (code, out) = diff(
        &[(
            "\"PUT /reports/{id}\"",
            "\"PUT /reports/{id}\", \"DELETE a.example.com/reports/{id}\"",
        )],
        &[],
    );
    let expected = [
        "granted: DELETE a.example.com/reports/{id}, except /reports/locked",
        "because: `editor: DELETE a.example.com/reports/{id}` allows it now",
        "to: the user `ann` by Basic",
        "to: any token of https://id.example.com with the role `editor`",
    ];
    assert_eq!((code, lines(&out)), (1, expected.map(str::to_owned).to_vec()), "{out}");
}

#[test]
fn a_rule_for_any_host_is_named_as_such_beside_rules_for_hosts() {
    let more = "\"PUT /reports/{id}\", \"GET a.example.com/x\", \"DELETE /reports/{id}\"";
    let (_, out) = diff(&[("\"PUT /reports/{id}\"", more)], &[]);
    assert!(out.contains("DELETE /reports/{id} on any host"), "{out}");
}

#[test]
fn without_a_second_policy_its_default_is_named() {
    let (code, _, err) = run(&["diff", &PolicyFolder::new(OLD).arg()]);
    assert!(code != 0 && err.contains("NEW is not given"), "{code} {err}");
}

#[test]
fn a_deny_that_is_removed_grants_and_one_that_is_added_revokes() {
    let (_, out) = diff(&[(", deny: [\"* /reports/locked\"]", "")], &[]);
    assert!(out.starts_with("granted: GET|PUT /reports/locked\n"), "{out}");
    assert!(out.contains("`editor: * /reports/locked` no longer denies it"), "{out}");
    let (_, out) = diff(
        &[(
            "[\"GET /reports/{id}\", \"GET /users/{user}\"]",
            "[\"GET /reports/{id}\", \"GET /users/{user}\"], deny: [\"* /users/**\"]",
        )],
        &[],
    );
    assert!(
        out.starts_with("revoked: GET /users/{user}\n") && out.contains("denies it now"),
        "{out}"
    );
    assert!(out.contains("from: the users `ann` and `bob` by Basic\n"), "{out}");
}

#[test]
fn what_is_granted_to_anyone_is_warned_of() {
    let anyone = ("roles:\n", "roles:\n  anyone: { allow: [\"GET /reports/**\"] }\n");
    let (code, out) = diff(&[anyone], &[]);
    assert_eq!(code, 1);
    assert!(
        out.contains(
            "granted: GET /reports/**\n  warning: anyone may do this, also without credentials\n"
        ),
        "{out}"
    );
    assert!(out.contains("  to: anyone without credentials\n"), "{out}");
    let (_, out) = diff(&[anyone], &["--output", "json"]);
    let diff: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(diff["changes"][0]["to_anyone"], true, "{out}");
}

/// Another order, what others cover, another name, a role that nobody has.
#[test]
fn a_refactoring_without_effect_is_no_difference() {
    let rules = "\"GET /reports/{id}\", \"GET /users/{user}\"";
    for replaced in [
        &[("GET /reports/{id}", "GET /reports/{number}")][..],
        &[(rules, "\"GET /users/{user}\", \"GET /reports/{id}\", \"GET /reports/1\"")],
        &[(
            "deny: [\"* /reports/locked\"]",
            "deny: [\"GET|PUT /reports/locked\", \"* /reports/locked\"]",
        )],
        &[(
            "users: [bob], groups: [\"id:readers\"]",
            "groups: [\"id:readers\"], users: [bob, nobody]",
        )],
    ] {
        let (code, out) = diff(replaced, &[]);
        let no = "no difference: everybody may do the same under both policies\n";
        assert_eq!((code, out.as_str()), (0, no), "{replaced:?}");
    }
}

#[test]
fn another_name_of_a_role_is_a_difference_only_for_tokens_that_can_name_it() {
    let (code, out) = diff(&[("editor", "author")], &[]);
    assert!(code == 1 && out.contains("with the role `author`"), "{out}");
    let no_roles = OLD.replace("roles: roles, ", "");
    let (old, new) =
        (PolicyFolder::new(&no_roles), PolicyFolder::new(&no_roles.replace("editor", "author")));
    let (code, out, _) = run(&["diff", &old.arg(), &new.arg()]);
    assert_eq!(code, 0, "{out}");
}

#[test]
fn users_and_grants_are_compared_by_what_they_may_do() {
    let (_, out) =
        diff(&[("groups: [\"id:readers\"]", "groups: [\"id:readers\", \"id:guests\"]")], &[]);
    let expected = [
        "granted: GET /reports/{id}",
        "because: `reader: GET /reports/{id}` allows it now",
        "to: any token of https://id.example.com with the group `id:guests`",
        "granted: GET /users/{user}",
        "because: `reader: GET /users/{user}` allows it now",
        "to: any token of https://id.example.com with the group `id:guests`",
    ];
    assert_eq!(lines(&out), expected, "{out}");
    let (_, out) = diff(&[("      bob: {", "      rob: {"), ("users: [bob]", "users: [rob]")], &[]);
    assert!(
        out.contains("  to: the user `rob` by Basic\n")
            && out.contains("  from: the user `bob` by Basic\n"),
        "{out}"
    );
    assert!(
        out.contains(
            "setting: identity.basic.users.bob removed\nsetting: identity.basic.users.rob added\n"
        ),
        "{out}"
    );
}

#[test]
fn other_settings_are_listed_and_no_secret_is_shown() {
    let replaced = [
        (
            "ann: { password: \"{SHA}W6ph5Mm5Pz8GgiULbPgzG37mj9g=\"",
            "ann: { password: \"{SHA}0DPiKuNIrrVmD8IUCuw1hQxNqZc=\"",
        ),
        ("s3cr3t-of-the-url", "0th3r-secret"),
        ("audiences: [shop]", "audiences: [shop, desk]"),
        ("x-user: \"{user}\"", "x-user: \"{user}!\""),
    ];
    for output in ["text", "json", "markdown"] {
        let (code, out) = diff(&replaced, &["--format", output]);
        assert_eq!(code, 1);
        for secret in ["W6ph5Mm5", "0DPiKuNI", "s3cr3t", "0th3r"] {
            assert!(!out.contains(secret), "{out}");
        }
        let said = "identity.basic.users.ann.password";
        assert!(out.contains(said), "{out}");
    }
    let (_, out) = diff(&replaced, &[]);
    let expected = [
        "setting: allow_response.set_headers.x-user changed from `{user}` to `{user}!`",
        "setting: identity.basic.users.ann.password changed",
        "setting: identity.jwt.https://id.example.com.audiences: desk added (warning: tokens that were issued for this audience are accepted now)",
        "setting: identity.jwt.https://id.example.com.keys changed",
    ];
    assert_eq!(lines(&out), expected);
}

#[test]
fn metadata_is_a_setting() {
    let policy = |metadata: &str| {
        let headers = "allow_response: {";
        PolicyFolder::new(&OLD.replace(headers, &format!("{headers} metadata: {{ {metadata} }},")))
    };
    let old =
        policy("limit: { editor: { rate: 5, unit: HOUR }, reader: 2, else: 1 }, tag: \"{user}\"");
    let new = policy("limit: { editor: { rate: 5, unit: HOUR }, else: \"1\" }, on: true");
    let (_, out, err) = run(&["diff", &old.arg(), &new.arg()]);
    let expected = [
        "setting: allow_response.metadata.limit changed from `editor: { rate: 5, unit: \"HOUR\" }, else reader: 2, else 1` \
         to `editor: { rate: 5, unit: \"HOUR\" }, else \"1\"`",
        "setting: allow_response.metadata.on added",
        "setting: allow_response.metadata.tag removed",
    ];
    assert_eq!(lines(&out), expected, "{err}");
}

/// The default is the `Authorization` header.
#[test]
fn each_place_of_tokens_counts() {
    let settings = |places: &str| {
        let with_places = format!("  token_from: {places}\nroles:\n");
        let (_, out) = diff(&[("roles:\n", &with_places)], &[]);
        let mut settings = lines(&out);
        settings.retain(|line| line.starts_with("setting:"));
        settings
    };
    assert_eq!(settings("[{ header: authorization }]"), [""; 0]);
    assert_eq!(
        settings("[{ header: x-access-token }, { cookie: session }]"),
        [
            "setting: identity.token_from: cookie session added (warning: browsers send cookies with requests of other sites, too)",
            "setting: identity.token_from: header x-access-token added",
            "setting: identity.token_from: not header authorization added",
        ]
    );
}

#[test]
fn what_a_question_of_authzen_means_counts() {
    let policy = |subject: &str, method: &str, path: &str| {
        PolicyFolder::new(&format!(
            "version: 1\nauthzen:\n  subjects: {{ user: {{ {subject} }} }}\n  \
             actions: {{ view: {method} }}\n  resources: {{ record: {{ path: \"{path}\" }} }}\n"
        ))
    };
    let old = policy("", "GET", "/a/{id}");
    let new = policy("roles: /roles", "PUT", "/b/{id}");
    let [old, new] =
        [&old, &new].map(|folder| folder.path().join("policy.yaml").display().to_string());
    let (_, out, _) = run(&["diff", &old, &new]);
    let mut settings = lines(&out);
    settings.retain(|line| line.starts_with("setting:"));
    assert_eq!(
        settings,
        [
            "setting: authzen.actions.view changed from `GET` to `PUT`",
            "setting: authzen.resources.record changed from `/a/{id}` to `/b/{id}`",
            "setting: authzen.subjects.user.roles changed from nothing to `roles`",
        ]
    );
}

/// What a stale inventory permits is bounded by its age.
#[test]
fn each_setting_of_an_inventory_counts() {
    let policy = |inventory: &str| {
        let folder = PolicyFolder::new(&format!(
            "version: 1\nidentity: {{ basic: {{ realm: r, verify: false }} }}\nsearch: {{ folder: cluster, inventory: {{ {inventory} }} }}\n"
        ));
        std::fs::create_dir(folder.path().join("cluster")).unwrap();
        let roles = "_meta: { type: roles, config_version: 2 }\nreader: {}\n";
        std::fs::write(folder.path().join("cluster/roles.yml"), roles).unwrap();
        folder.write("one", "reader:s3cr3t\n");
        folder.write("other", "reader:0th3r\n");
        folder
    };
    let old = policy("url: \"https://127.0.0.1:9200\", credentials_file: one");
    for (new, expected) in [
        ("url: \"https://127.0.0.1:9200\", credentials_file: one", None),
        ("url: \"https://127.0.0.1:9201\", credentials_file: one", Some(" changed")),
        ("url: \"https://127.0.0.1:9200\", credentials_file: other", Some(" changed")),
        ("url: \"https://127.0.0.1:9200\", credentials_file: one, refresh: 31s", Some(" changed")),
        (
            "url: \"https://127.0.0.1:9200\", credentials_file: one, max_age: 30d",
            Some(".max_age changed from `300s` to `2592000s`"),
        ),
    ] {
        let (code, out, err) = run(&["diff", &old.arg(), &policy(new).arg()]);
        let settings: Vec<String> =
            lines(&out).into_iter().filter(|line| line.starts_with("setting:")).collect();
        let expected: Vec<String> =
            expected.iter().map(|change| format!("setting: search.inventory{change}")).collect();
        assert_eq!(
            (code, settings),
            (i32::from(!expected.is_empty()), expected),
            "{new}: {out}{err}"
        );
        assert!(!out.contains("s3cr3t") && !out.contains("0th3r"), "{out}");
    }
}

/// The application trusts what rolegate sets: without that, clients may send it.
#[test]
fn a_header_that_clients_may_send_now_is_warned_of() {
    let (_, out) =
        diff(&[("set_headers: { x-user: \"{user}\" }", "remove_headers: [x-user]")], &[]);
    assert!(!out.contains("warning"), "{out}");
    let (_, out) = diff(&[("x-user: \"{user}\"", "x-name: \"{user}\"")], &[]);
    let warned = "setting: allow_response.set_headers.x-user removed (warning: clients can send this header to the application now)";
    assert!(lines(&out).contains(&warned.to_owned()), "{out}");
}

#[test]
fn markdown_is_a_table_for_a_pull_request() {
    let (_, out) =
        diff(&[("GET /reports/{id}", "GET|HEAD /reports/{id}")], &["--output", "markdown"]);
    assert!(
        out.starts_with(
            "### Granted\n\n| requests | callers | because |\n|---|---|---|\n| `HEAD /reports/{id}, except /reports/locked` |"
        ),
        "{out}"
    );
    assert!(out.contains("`reader: GET\\|HEAD /reports/{id}` allows it now"), "{out}");
}

#[test]
fn policies_that_cannot_be_read_are_no_difference_but_an_error() {
    let people = example("people");
    assert_eq!(run(&["diff", &people, &people]).0, 0);
    let (code, _, err) = run(&["diff", &people, "/does/not/exist"]);
    assert!(code == 3 && err.contains("/does/not/exist"), "{err}");
    // The new one is `./policy.yaml` by default.
    let (code, _, err) = run(&["diff", &people]);
    assert!(code == 3 && err.contains("policy.yaml"), "{err}");
}

/// The cause stands once, before what it changes; a change of words without a change of meaning is
/// none.
#[test]
fn a_changed_condition_with_a_name_is_named_once() {
    let old = "conditions: { office: \"cidr('10.0.0.0/8').containsIP(source.ip)\" }\nroles:\n";
    let rule = ", { rule: \"GET /reports/{id}\", when: office }, \
                { rule: \"PUT /drafts/{id}\", when: office }";
    let policy = OLD
        .replace("roles:\n", old)
        .replace(", \"GET /users/{user}\"", rule)
        .replace("\"GET /reports/{id}\", {", "{");
    let changed = policy.replace("10.0.0.0/8", "10.1.0.0/16");
    let (old, new) = (PolicyFolder::new(&policy), PolicyFolder::new(&changed));
    let (code, out, err) = run(&["diff", &old.arg(), &new.arg()]);
    assert_eq!(code, 1, "{err}");
    let line = "condition `office` changed from `cidr('10.0.0.0/8').containsIP(source.ip)` to \
                `cidr('10.1.0.0/16').containsIP(source.ip)`\n";
    assert!(out.starts_with(line) && out.matches("condition `office`").count() == 1, "{out}");
    let (_, out, _) = run(&["diff", &old.arg(), &new.arg(), "--output", "markdown"]);
    assert!(out.starts_with("### Conditions\n\n* condition `office` changed from"), "{out}");

    let halves = "cidr('10.0.0.0/9').containsIP(source.ip) || \
                  cidr('10.128.0.0/9').containsIP(source.ip)";
    let same = policy.replace("cidr('10.0.0.0/8').containsIP(source.ip)", halves);
    let (code, out, _) = run(&["diff", &old.arg(), &PolicyFolder::new(&same).arg()]);
    assert!(code == 0 && out.starts_with("no difference"), "{out}");
}
