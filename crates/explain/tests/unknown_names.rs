//! What was probably meant by names that the policy or the search cluster does not have.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a failed set-up is a failed test")]

use std::fmt::Write;
use std::path::Path;
use std::sync::Arc;

use authorizer::Authorizer;
use document::MapFiles;
use explain::Explainer;

const HOST: &str = "search.example.com";

fn authorizer(files: &MapFiles) -> Authorizer {
    let loaded = policy::load(files, Path::new("policy.yaml"))
        .unwrap_or_else(|problems| panic!("{problems:#?}"));
    Authorizer::compile(Arc::new(loaded), &identity::FetchedKeys::new(), None).unwrap().0
}

/// Long names that differ in their numbers, and others of which each is like the one with its
/// number.
fn names(count: usize) -> [Vec<String>; 2] {
    [("known", count), ("knwon", 100)].map(|(start, count)| {
        (0..count)
            .map(|number| format!("{start}-{}-{number:04}", "of-a-long-name".repeat(12)))
            .collect()
    })
}

/// A name is looked for among many until that takes too long; then what was meant is not said, and
/// that it is unknown is.
#[test]
fn what_was_meant_is_looked_for_with_a_bound() {
    let [known, asked] = names(1_000);
    let roles = "_meta: { type: roles, config_version: 2 }\nreader: {}\n";
    let mapping = format!(
        "_meta: {{ type: rolesmapping, config_version: 2 }}\nreader: {{ backend_roles: [editors, {}] }}\n",
        known.join(", ")
    );
    let cluster = MapFiles::new("policy.yaml", "version: 1\nsearch: { folder: os }\n")
        .and("os/roles.yml", roles)
        .and("os/roles_mapping.yml", mapping.as_str());
    let mut rules = "version: 1\nroles: { reader: { allow: [GET /a] } }\ngrants:\n".to_owned();
    writeln!(rules, "  reader: {{ groups: [{}] }}", known.join(", ")).unwrap();
    writeln!(rules, "identity: {{ basic: {{ users: {{ ann: {{ groups: [editors] }}, bob: {{ groups: [editors] }} }}, verify: false }} }}").unwrap();
    for files in [cluster, MapFiles::new("policy.yaml", rules)] {
        let authorizer = authorizer(&files);
        let unknown = Explainer::new(&authorizer).unknown_name_messages(HOST, None, (&asked, &[]));
        let meant = unknown.iter().filter(|text| text.contains("did you mean")).count();
        assert_eq!(unknown.len(), asked.len());
        assert!(meant < 10, "{meant}");
        let few = ["edittors".to_owned(), "editors".to_owned()];
        let unknown = Explainer::new(&authorizer).unknown_name_messages(HOST, None, (&few, &[]));
        assert_eq!(unknown.len(), 1, "{unknown:?}");
        assert!(unknown.concat().ends_with("did you mean `editors`?"), "{unknown:?}");
    }
}
