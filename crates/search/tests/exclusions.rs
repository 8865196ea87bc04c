//! rolegate leaves out an excluded name only if a node certainly excludes it. Each request was
//! tried on a node, which showed or deleted indices on which the caller has no right.

#![expect(clippy::expect_used, reason = "a failed set-up is a failed test")]

use std::sync::Arc;

use search::config::EvaluationType;
use search::{EvaluationSettings, InventoryBuilder, Privileges, Verdict, narrowed, read};

use crate::requests::{config, request, subject};

const ROLES: &str = "writer:
  cluster_permissions: [cluster_composite_ops, 'indices:data/read/*', 'indices:data/write/*', 'cluster:*']
  index_permissions: [{ index_patterns: ['logs-*'], allowed_actions: ['*'] }]
";

fn privileges(evaluation: EvaluationType, reduces: bool) -> Privileges {
    with(evaluation, reduces, |_| ())
}

fn with(
    evaluation: EvaluationType,
    reduces: bool,
    build: impl FnOnce(&mut InventoryBuilder),
) -> Privileges {
    let mut all = InventoryBuilder::default();
    for name in ["logs-a", "logs-b", "secret", "secret-b", "public"] {
        all.index(name, true, false);
    }
    for name in [".ds-logs-stream-1", ".ds-secret-stream-1"] {
        all.index(name, true, true);
    }
    all.data_stream("logs-stream", [".ds-logs-stream-1"])
        .data_stream("secret-stream", [".ds-secret-stream-1"]);
    // The inventory does not say which aliases are hidden.
    all.alias("mix", ["logs-b", "secret"]).alias("pub", ["public"]).alias("hid-al", ["secret-b"]);
    build(&mut all);
    let settings = EvaluationSettings {
        evaluation,
        do_not_fail_on_forbidden: reduces,
        do_not_fail_on_forbidden_empty: reduces,
        ..EvaluationSettings::default()
    };
    Privileges::new(config(ROLES), settings, Some(Arc::new(all.build())))
}

/// The path with which a request is forwarded; `None` if it is denied.
fn forwarded(
    privileges: &Privileges,
    (method, target, body): (&str, &str, &str),
) -> Option<String> {
    let request = request(method, target, body);
    let mut needs = Vec::new();
    read(&request, &mut needs).expect("it is read");
    let caller = privileges.caller(&subject(&["writer"]));
    match privileges.decide(&caller, &needs).verdict {
        Verdict::Permitted => Some(
            privileges
                .with_names_for_patterns(&caller, &request, &needs)
                .unwrap_or_else(|| target.to_owned()),
        ),
        Verdict::PermittedInPart(parts) => {
            let target = narrowed(&request, &parts)?;
            let again = search::Request { target: &target, ..request };
            let mut needs = Vec::new();
            read(&again, &mut needs).expect("it is read");
            assert_eq!(privileges.decide(&caller, &needs).verdict, Verdict::Permitted, "{target}");
            Some(target)
        }
        Verdict::Denied => None,
    }
}

/// A node looks up the names of aliases and data streams after the exclusions, and excludes nothing
/// if patterns expand to nothing.
#[test]
fn what_is_named_beside_a_pattern_stays() {
    for (evaluation, reduces) in [
        (EvaluationType::Legacy, false),
        (EvaluationType::Legacy, true),
        (EvaluationType::V4, false),
    ] {
        let privileges = privileges(evaluation, reduces);
        for list in [
            "logs-*,pub,-public",
            "logs-*,pub,-pub*",
            "logs-*,secret-stream,-secret*",
            "logs-*,mix,-secret,-logs-b",
            "logs-*,hid-al,-secret*",
        ] {
            for (method, verb) in
                [("GET", "_search"), ("GET", "_settings"), ("POST", "_delete_by_query")]
            {
                let sent = forwarded(&privileges, (method, &format!("/{list}/{verb}"), ""));
                let is_without = sent.as_ref().is_none_or(|sent| {
                    !["pub", "secret", "mix", "hid-al"].iter().any(|name| sent.contains(name))
                });
                assert!(is_without, "{evaluation:?} {reduces}: {list} {verb} as {sent:?}");
            }
        }
        for target in [
            "/secret,logs-*,-secret/_search?expand_wildcards=none&ignore_unavailable=true",
            "/public,logs-*,-publ*/_search?expand_wildcards=none&ignore_unavailable=true",
        ] {
            let sent = forwarded(&privileges, ("GET", target, ""));
            let is_without = sent
                .as_ref()
                .is_none_or(|sent| !["public", "secret"].iter().any(|name| sent.contains(name)));
            assert!(is_without, "{evaluation:?} {reduces}: {target} as {sent:?}");
        }
    }
}

#[test]
fn names_that_a_node_does_not_exclude_are_not_forwarded() {
    for (evaluation, reduces) in [
        (EvaluationType::Legacy, false),
        (EvaluationType::Legacy, true),
        (EvaluationType::V4, false),
    ] {
        let privileges = privileges(evaluation, reduces);
        for list in [
            // The name of a data stream excludes nothing.
            "secret-s*,-secret-stream",
            "*-stream,-secret-stream,-logs-stream",
            "secret-s*,-secret-stream,-mix",
            // A pattern excludes hidden indices only if it begins with a dot.
            ".ds-secret*,-*secret-stream*",
            ".ds-secret*,-*ds-secret*",
            ".ds-secret*,-*ds-secret*,-pub",
            // A pattern excludes no hidden alias.
            "secret-b*,-hid*",
            "secret-b*,-hid*,-mix",
            // Deleting ignores aliases.
            "publi*,-pu*b",
            // No name of the inventory is left, but the cluster may have newer indices.
            "publi*,-public",
        ] {
            for (method, verb) in
                [("POST", "_delete_by_query"), ("POST", "_update_by_query"), ("POST", "_open")]
            {
                let sent = forwarded(&privileges, (method, &format!("/{list}/{verb}"), "{}"));
                // `v4` reduces what changes something, too.
                let is_nothing = sent.as_ref().is_none_or(|sent| sent.starts_with("/*,-*/"));
                assert!(
                    is_nothing
                        || evaluation == EvaluationType::V4
                            && sent == Some(format!("/logs-stream/{verb}")),
                    "{evaluation:?} {reduces}: {list} {verb} as {sent:?}"
                );
            }
            let sent = forwarded(&privileges, ("DELETE", &format!("/{list}"), ""));
            let is_nothing =
                sent.as_ref().is_none_or(|sent| ["/*,-*", "/logs-stream"].contains(&&**sent));
            assert!(is_nothing, "{evaluation:?} {reduces}: DELETE {list} as {sent:?}");
            let search = format!("{{\"index\":\"{list}\"}}\n{{}}\n");
            assert_eq!(
                forwarded(&privileges, ("POST", "/_msearch", &search)),
                None,
                "{list} in a body"
            );
            for verb in ["_search", "_count", "_settings", "_search_shards"] {
                let sent = forwarded(&privileges, ("GET", &format!("/{list}/{verb}"), ""));
                // The caller may read `logs-stream`, which its name does not exclude.
                let may_be = ["*,-*", "logs-stream"].map(|list| format!("/{list}/{verb}"));
                let is_nothing = sent
                    .as_ref()
                    .is_none_or(|sent| may_be.iter().any(|path| sent.starts_with(path)));
                assert!(is_nothing, "{evaluation:?} {reduces}: {list} {verb} as {sent:?}");
            }
        }
        for (list, wanted) in [
            ("logs-*,-logs-a", "/logs-b,logs-stream/_search"),
            ("logs-*,-logs-b*", "/logs-a,logs-stream/_search"),
            ("logs-*,-logs-stream*", "/logs-a,logs-b/_search"),
        ] {
            let sent = forwarded(&privileges, ("GET", &format!("/{list}/_search"), ""))
                .expect("permitted");
            // Roles grant the pattern, whichever indices it matches.
            assert!(
                sent == wanted || sent == format!("/{list}/_search"),
                "{evaluation:?} {list}: {sent}"
            );
        }
    }
}

/// Found by comparison with a node. If the plugin may exclude all denied names, it may reduce
/// nothing. The patterns then show no hidden index, although `legacy` checks hidden indices, too.
#[test]
fn no_hidden_index_is_shown_if_the_plugin_may_exclude_all_denied_names() {
    let privileges = with(EvaluationType::Legacy, true, |all| {
        all.index("logs-hid-b", true, true);
    });
    let sent = |list: &str| forwarded(&privileges, ("GET", &format!("/{list}/_search"), ""));
    assert_eq!(sent("*hid-b,mi*,-mi*").as_deref(), Some("/*,-*/_search"));
    // Another name is denied, so the plugin does reduce the request, to hidden indices, too.
    assert_eq!(sent("*hid-b,secret,secret-b").as_deref(), Some("/logs-hid-b/_search"));
}

/// A pattern excludes the indices of the aliases that it matches, unless the aliases are hidden,
/// which rolegate cannot tell. So it checks these indices, but does not reduce a request to them.
#[test]
fn a_request_is_not_reduced_to_names_that_a_node_may_exclude() {
    for evaluation in [EvaluationType::Legacy, EvaluationType::V4] {
        let privileges = privileges(evaluation, true);
        let target = |list: &str| format!("/{list}/_search");
        let sent = |list: &str| forwarded(&privileges, ("GET", &target(list), ""));
        for (list, wanted) in [
            ("*b,-mi*", None),
            ("logs-*,secret,-mi*", Some("logs-a,logs-stream")),
            // Later parts are not excluded.
            ("-mi*,*b", Some("logs-b")),
            ("*b,-mi*,*-b", Some("logs-b")),
            ("*b,-mi*,logs-b", Some("logs-b")),
        ] {
            let is_wanted = match (sent(list), wanted) {
                (None, None) => true,
                (Some(sent), None) => sent == target("*,-*"),
                (sent, Some(wanted)) => sent == Some(target(wanted)),
            };
            assert!(is_wanted, "{evaluation:?}: {list} as {:?}", sent(list));
        }
    }
}

/// A node deletes each data stream that is named or matched, and excludes none.
#[test]
fn a_deletion_of_data_streams_has_no_exclusions() {
    for list in ["*-stream,-secret*", "logs-stream,secret-s*,-secret-stream", "*,-secret*"] {
        let target = format!("/_data_stream/{list}");
        assert!(read(&request("DELETE", &target, ""), &mut Vec::new()).is_err(), "{list}");
    }
    for evaluation in [EvaluationType::Legacy, EvaluationType::V4] {
        let sent =
            forwarded(&privileges(evaluation, true), ("DELETE", "/_data_stream/logs-str*", ""));
        assert!(sent.is_some(), "{evaluation:?}");
    }
}
