//! Requests that look permitted by their parts, and that the plugin denies. Each was sent to
//! OpenSearch 3.4.0.

use std::sync::Arc;

use search::config::EvaluationType;
use search::{EvaluationSettings, InventoryBuilder, Privileges, Verdict, read};

use crate::requests::{config, request, subject};

fn lookup(index: &str) -> String {
    format!(
        r#"{{"query":{{"terms":{{"f":{{"path":"f","query":{{"match_all":{{}}}},"index":"{index}"}}}}}}}}"#
    )
}

fn remove_index(indices: &str) -> String {
    format!(r#"{{"actions":[{{"remove_index":{{"indices":{indices}}}}}]}}"#)
}

fn reindex(indices: &str) -> String {
    format!(r#"{{"source":{{"index":{indices}}},"dest":{{"index":"new"}}}}"#)
}

#[test]
fn what_the_plugin_denies_is_denied() {
    let mut all = InventoryBuilder::default();
    for name in ["pub-1", "pub-2", "secret"] {
        all.index(name, true, false);
    }
    for name in [".ds-ds_a-000001", ".ds-ds_b-000001"] {
        all.index(name, true, true);
    }
    all.data_stream("ds_a", [".ds-ds_a-000001"]).data_stream("ds_b", [".ds-ds_b-000001"]);
    all.alias("pub", ["pub-1"]);
    let inventory = Arc::new(all.build());
    // Patterns of a role that may do everything on what they match, a request, and whether the
    // plugin permits it.
    let requests: &[(&str, &str, &str, &str, bool)] = &[
        // A list that a node does not split.
        ("/pub-[0-9]/", "GET", "/pub-1/_analyze", "", true),
        ("/pub-[0-9]/", "GET", "/pub-1,/_analyze", "", false),
        ("/pub-[0-9]/", "GET", "/pub-1,pub-2/_analyze", "", false),
        ("/pub-[0-9]/", "POST", "/pub-1/_search", &lookup("pub-1"), true),
        ("/pub-[0-9]/", "POST", "/pub-1/_search", &lookup("pub-*"), true),
        ("/pub-[0-9]/", "POST", "/pub-1/_search", &lookup("pub-1,pub-2"), false),
        // `_all` among others, which no node accepts.
        ("/(?!secret).*/", "GET", "/_all,pub-1/_search", "", false),
        ("/(?!secret).*/", "GET", "/pub-1,_all/_search", "", false),
        // The name of a data stream beside what is resolved only without one.
        ("ds_*", "GET", "/ds_a,ds_b/_search", "", true),
        ("ds_*", "GET", "/ds_*,-.ds-ds_b*/_search", "", true),
        ("ds_*", "GET", "/ds_a,ds_b,-.ds-ds_b*/_search", "", false),
        ("ds_*", "GET", "/.ds-ds_b*,ds_a/_search", "", false),
        ("ds_*, .ds-ds_*", "GET", "/.ds-ds_b*,ds_a/_search", "", true),
        ("pub-*, ds_a", "GET", "/pub-*,ds_a/_search", "", true),
        ("pub-1, pub-2, ds_a", "GET", "/pub-*/_search", "", true),
        ("pub-1, pub-2, ds_a", "GET", "/pub-*,ds_a/_search", "", false),
        ("pub-1, pub-2, ds_a", "GET", "/pub-*,ds_a/_search?ignore_unavailable=true", "", false),
        ("pub-1, ds_a", "GET", "/pub/_search", "", true),
        ("pub, ds_a", "GET", "/pub,ds_a/_search", "", true),
        ("pub-1, ds_a", "GET", "/pub,ds_a/_search", "", false),
        // The same in a list of a body.
        ("pub, ds_a", "POST", "/_aliases", &remove_index(r#"["ds_a","pub"]"#), true),
        ("pub-1, ds_a", "POST", "/_aliases", &remove_index(r#"["ds_a","pub-1"]"#), true),
        ("pub-1, ds_a", "POST", "/_aliases", &remove_index(r#"["ds_a","pub"]"#), false),
        ("pub-1, ds_a", "POST", "/_msearch", "{\"index\":[\"pub\",\"ds_a\"]}\n{}\n", false),
        ("pub-1, ds_a, new", "POST", "/_reindex", &reindex(r#"["pub-1","ds_a"]"#), true),
        ("pub-1, ds_a, new", "POST", "/_reindex", &reindex(r#"["pub","ds_a"]"#), false),
        // A name that does not exist, also as an exclusion.
        ("pub-*", "GET", "/pub-*,-pub-2*/_search", "", true),
        ("pub-*", "GET", "/pub-*,-pub-9/_search", "", false),
        ("pub-*", "GET", "/pub-*,-pub-2*,pub-9/_search", "", false),
    ];
    let mut different = Vec::new();
    for (patterns, method, target, body, is_permitted) in requests {
        let roles = format!(
            "role: {{ cluster_permissions: ['*'], \
             index_permissions: [{{ index_patterns: ['{}'], allowed_actions: ['*'] }}] }}\n",
            patterns.replace(", ", "', '")
        );
        let (config, subject) = (config(&roles), subject(&["role"]));
        let settings = EvaluationSettings {
            evaluation: EvaluationType::Legacy,
            ..EvaluationSettings::default()
        };
        let request = request(method, target, body);
        for inventory in [Some(&inventory), None] {
            let context = format!("{patterns}: {method} {target} {body} {}", inventory.is_some());
            let mut needs = Vec::new();
            if read(&request, &mut needs).is_err() {
                assert!(!is_permitted, "{context}");
                continue;
            }
            let privileges = Privileges::new(config.clone(), settings.clone(), inventory.cloned());
            let answer = privileges.decide(&privileges.caller(&subject), &needs);
            let is_permitted_here = answer.verdict == Verdict::Permitted;
            // Without an inventory, less is permitted.
            if is_permitted_here != *is_permitted && (is_permitted_here || inventory.is_some()) {
                different.push(format!("{context}: {:?}", answer.verdict));
            }
        }
    }
    assert!(different.is_empty(), "{different:#?}");
}
