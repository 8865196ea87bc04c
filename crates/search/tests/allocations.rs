//! A decision about a caller, an action and an expression that have been seen allocates nothing.

use std::path::Path;
use std::sync::Arc;

use policy::MapFiles;
use search::{
    Action, EvaluationSettings, Expression, InventoryBuilder, Need, Options, Privileges, Request,
    RequestBody, Resolution, SecurityConfig, Subject, Target,
};

const ROLES: &str = "_meta: { type: roles, config_version: 2 }
reader:
  cluster_permissions: ['indices:data/read/*']
  index_permissions:
    - { index_patterns: ['logs-*', 'own-${user.name}', '*-b*c', '/x[0-9]+/'], allowed_actions: [read] }
";

#[test]
fn a_permitted_request_allocates_nothing() {
    let files = MapFiles::of("os/roles.yml", ROLES);
    let config = Arc::new(SecurityConfig::load(&files, Path::new("os")).unwrap().config);
    let mut builder = InventoryBuilder::default();
    builder.index("logs-1", true, false).index("own-ann", true, false).alias("logs-all", ["logs-1"]);
    let inventory = Some(Arc::new(builder.build()));
    let search: &'static [Action] = Vec::leak(vec![Action::named("indices:data/read/search").unwrap()]);
    for inventory in [inventory, None] {
        let privileges = Privileges::new(
            config.clone(),
            EvaluationSettings::default(),
            Resolution::MappingOnly,
            inventory,
        );
        let subject =
            Subject { name: "ann".to_owned(), roles: vec!["reader".to_owned()], ..Subject::default() };
        let caller = privileges.caller(&subject);
        for text in ["logs-1", "logs-new", "logs-1,logs-new", "logs-*", "own-ann", "a-bbc", "x17", "logs-all"]
        {
            let need = Need {
                actions: search,
                target: Target::Indices(Expression::new(text, Options::OPEN)),
                is_copied: false,
                shows_hidden_terms: false,
                adds_names: false,
            };
            let cluster = Need {
                actions: search,
                target: Target::Cluster,
                is_copied: false,
                shows_hidden_terms: false,
                adds_names: false,
            };
            assert!(privileges.permits(&caller, [&need]), "{text}");
            let mut permitted = false;
            let counted =
                allocation_counter::measure(|| permitted = privileges.permits(&caller, [&cluster, &need]));
            assert!(permitted, "{text}");
            assert_eq!(counted.count_total, 0, "{text}");
        }
    }
}

/// The names are known since the first request: only the path with them is made anew.
#[test]
fn a_request_with_names_in_place_of_patterns_allocates_its_path_only() {
    let files = MapFiles::of("os/roles.yml", ROLES);
    let config = Arc::new(SecurityConfig::load(&files, Path::new("os")).unwrap().config);
    let mut builder = InventoryBuilder::default();
    let inventory = builder.index("logs-1", true, false).index("own-ann", true, false).build();
    let settings = EvaluationSettings::default();
    let privileges = Privileges::new(config, settings, Resolution::MappingOnly, Some(Arc::new(inventory)));
    let subject = Subject { name: "ann".to_owned(), roles: vec!["reader".to_owned()], ..Subject::default() };
    let caller = privileges.caller(&subject);
    for (target, wanted) in [
        ("/logs-*/_search", None),
        ("/o*/_search?size=1", Some("/own-ann/_search?size=1&ignore_unavailable=true")),
        ("/_search", Some("/_search?index=logs-1,own-ann&ignore_unavailable=true")),
    ] {
        let request = Request {
            method: "GET",
            target,
            content_type: None,
            content_encoding: None,
            scrolls_are_checked: false,
            body: RequestBody::Whole(b""),
            now: Request::time(std::time::Duration::ZERO),
        };
        let mut needs = Vec::new();
        search::read(&request, &mut needs).unwrap();
        assert_eq!(privileges.forwarded(&caller, &request, &needs).as_deref(), wanted);
        let counted = allocation_counter::measure(|| drop(privileges.forwarded(&caller, &request, &needs)));
        assert_eq!(counted.count_total, u64::from(wanted.is_some()), "{target}");
    }
}
