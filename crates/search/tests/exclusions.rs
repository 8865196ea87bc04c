//! A decision leaves out an excluded name only if a node certainly excludes it. Each request was
//! tried on a node: it showed or deleted indices on which the caller has no right.

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

/// A node looks the names of aliases and data streams up after it has taken out names of indices,
/// and takes out nothing where patterns expand to nothing.
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
fn what_a_node_does_not_take_out_is_not_forwarded() {
    for (evaluation, reduces) in [
        (EvaluationType::Legacy, false),
        (EvaluationType::Legacy, true),
        (EvaluationType::V4, false),
    ] {
        let privileges = privileges(evaluation, reduces);
        for list in [
            // The name of a data stream takes nothing out.
            "secret-s*,-secret-stream",
            "*-stream,-secret-stream,-logs-stream",
            "secret-s*,-secret-stream,-mix",
            // A pattern stands for hidden indices only if it begins with a dot.
            ".ds-secret*,-*secret-stream*",
            ".ds-secret*,-*ds-secret*",
            ".ds-secret*,-*ds-secret*,-pub",
            // It does not stand for a hidden alias.
            "secret-b*,-hid*",
            "secret-b*,-hid*,-mix",
            // Deleting ignores aliases.
            "publi*,-pu*b",
            // Nothing is left, but a node might see that in another way.
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
                // The caller may read `logs-stream`, which its name does not take out.
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
            // Roles grant the pattern whatever it stands for.
            assert!(
                sent == wanted || sent == format!("/{list}/_search"),
                "{evaluation:?} {list}: {sent}"
            );
        }
    }
}

/// Found by comparison with a node: where all that is missing may be taken out, the plugin may
/// reduce nothing, and then shows no hidden index, although `legacy` decides about hidden ones,
/// too.
#[test]
fn a_hidden_index_is_not_shown_where_only_what_may_be_taken_out_is_missing() {
    let privileges = with(EvaluationType::Legacy, true, |all| {
        all.index("logs-hid-b", true, true);
    });
    let sent = |list: &str| forwarded(&privileges, ("GET", &format!("/{list}/_search"), ""));
    assert_eq!(sent("*hid-b,mi*,-mi*").as_deref(), Some("/*,-*/_search"));
    // Something else is missing, so the plugin does reduce it, to hidden ones, too.
    assert_eq!(sent("*hid-b,secret,secret-b").as_deref(), Some("/logs-hid-b/_search"));
}

/// A pattern takes out the indices of the aliases that it stands for, unless these are hidden,
/// which is not known. So they are decided about, but a request is not reduced to them.
#[test]
fn a_request_is_not_reduced_to_what_a_pattern_may_take_out() {
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

/// A node deletes each data stream that is named or matched, and takes none out again.
#[test]
fn no_data_stream_is_taken_out_of_those_to_be_deleted() {
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
