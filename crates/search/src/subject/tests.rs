//! Tests of the roles of a subject.

use super::*;
use crate::explain::role_sources;

fn config() -> SecurityConfig {
    let list = |texts: &[&str]| -> Vec<Pattern> {
        texts.iter().map(|text| Pattern::parse(&(*text).into()).unwrap()).collect()
    };
    let mapping =
        |role: &str, users: &[&str], any: &[&str], all: &[&str], hosts: &[&str]| RoleMapping {
            role: role.into(),
            users: list(users),
            backend_roles: list(any),
            and_backend_roles: list(all),
            hosts: list(hosts),
        };
    SecurityConfig {
        mappings: vec![
            mapping("by_name", &["ann", "b*"], &[], &[], &[]),
            mapping("by_backend", &[], &["dev-*"], &[], &[]),
            mapping("by_all", &[], &[], &["dev-*", "/on-?call/"], &[]),
            mapping("by_host", &[], &[], &[], &["10.1.*", "2001:db8::1"]),
            mapping("by_nothing", &[""], &[], &[], &[]),
        ],
        ..SecurityConfig::default()
    }
}

fn roles(subject: &Subject) -> Vec<String> {
    config().roles_of(subject).iter().map(ToString::to_string).collect()
}

#[test]
fn each_part_of_a_mapping_gives_its_role() {
    let subject = |name: &str, backend: &[&str], address: &str| Subject {
        name: name.to_owned(),
        backend_roles: backend.iter().map(ToString::to_string).collect(),
        address: address.parse().ok(),
        ..Subject::default()
    };
    for (subject, expected) in [
        (subject("ann", &[], ""), &["by_name"][..]),
        (subject("bob", &[], ""), &["by_name"]),
        (subject("Ann", &[], ""), &[]),
        (subject("", &[], ""), &[]),
        (subject("x", &["dev-a"], ""), &["by_backend"]),
        (subject("x", &["dev-a", "oncall"], ""), &["by_all", "by_backend"]),
        (subject("x", &["oncall"], ""), &[]),
        (subject("x", &[], "10.1.2.3"), &["by_host"]),
        (subject("x", &[], "10.2.2.3"), &[]),
        (subject("x", &[], "2001:db8:0::1"), &["by_host"]),
    ] {
        assert_eq!(roles(&subject), expected, "{subject:?}");
        let sources = role_sources(&config(), &subject);
        assert_eq!(sources.keys().map(|role| &**role).collect::<Vec<_>>(), expected, "{subject:?}");
    }
}

#[test]
fn each_reason_for_a_role_is_named() {
    let subject = Subject {
        name: "bob".to_owned(),
        backend_roles: vec!["dev-a".to_owned(), "oncall".to_owned()],
        roles: vec!["by_name".to_owned()],
        address: "10.1.2.3".parse().ok(),
        ..Subject::default()
    };
    let sources = role_sources(&config(), &subject);
    let shown = sources.iter().map(|(role, from)| {
        let from: Vec<String> = from.iter().map(ToString::to_string).collect();
        format!("{role}: {}", from.join("; "))
    });
    assert_eq!(
        shown.collect::<Vec<_>>(),
        [
            "by_all: mapped from all of the backend roles `dev-*`, `/on-?call/`",
            "by_backend: mapped from the backend role `dev-*`, which matches `dev-a`",
            "by_host: mapped from the address `10.1.*`",
            "by_name: a role of the user in `internal_users.yml`; mapped from the user `b*`",
        ]
    );
}

#[test]
fn direct_roles_count_beside_mapped_ones() {
    let subject = Subject {
        name: "ann".to_owned(),
        backend_roles: vec!["dev-a".to_owned()],
        roles: vec!["direct".to_owned()],
        ..Subject::default()
    };
    assert_eq!(roles(&subject), ["by_backend", "by_name", "direct"]);
}

#[test]
fn a_variable_of_the_subject_cannot_be_replaced_by_an_attribute() {
    let subject = Subject {
        name: "ann".to_owned(),
        attributes: vec![("user.name".to_owned(), "root".to_owned())],
        ..Subject::default()
    };
    let template = crate::config::Template::parse(&"${user.name}${user_name}".into()).unwrap();
    assert!(
        template
            .pattern(&subject.variables(&BTreeSet::new(), EvaluationType::Legacy))
            .unwrap()
            .matches("annann")
    );
}
