//! Short requests for much work are denied before the work is done, and the work for long requests
//! grows like their length.

use std::sync::Arc;

use search::config::EvaluationType;
use search::{EvaluationSettings, InventoryBuilder, Need, Privileges, Problem, Verdict, read};

use crate::needs::needs;
use crate::requests::{config, request, subject};

const TOO_MANY: Problem =
    Problem::Unsupported("more than 50,000 names of indices (25,000 in a bulk request)");

const TOO_LONG: Problem =
    Problem::Invalid("it names an index by more than 255 bytes, which no name has");

fn names(count: usize, separator: &str) -> String {
    (0..count).map(|number| format!("none-{number}")).collect::<Vec<_>>().join(separator)
}

#[test]
fn so_many_names_are_read_and_no_more() {
    let search = |count| format!("{{\"index\":\"{}\"}}\n{{}}\n", names(count, ","));
    assert!(needs("POST", "/_msearch", &search(45_000)).is_ok());
    assert_eq!(needs("POST", "/_msearch", &search(50_001)), Err(TOO_MANY));
    let reindex = format!(
        r#"{{"source":{{"index":["{}"]}},"dest":{{"index":"logs"}}}}"#,
        names(50_001, "\",\"")
    );
    assert_eq!(needs("POST", "/_reindex", &reindex), Err(TOO_MANY));
    let path = format!("/{}/_search", names(50_001, ","));
    assert_eq!(needs("GET", &path, ""), Err(TOO_MANY));
}

/// A node refuses such a name, so no index has it. Each comparison with it would take time for each
/// of its bytes.
#[test]
fn a_name_is_not_longer_than_an_index_can_have_it() {
    for (name, is_read) in [
        ("x".repeat(255), true),
        ("x".repeat(256), false),
        ("é".repeat(127), true),
        ("é".repeat(128), false),
    ] {
        let requests = [
            ("GET", format!("/{name}/_doc/1"), String::new()),
            ("GET", format!("/logs-a,{name}/_search"), String::new()),
            ("GET", format!("/*,-{name},b/_search"), String::new()),
            ("PUT", format!("/logs-a/_alias/{name}"), String::new()),
            (
                "POST",
                "/_mget".to_owned(),
                format!(r#"{{"docs":[{{"_index":"{name}","_id":"1"}}]}}"#),
            ),
            ("POST", "/_msearch".to_owned(), format!("{{\"index\":[\"a\",\"{name}\"]}}\n{{}}\n")),
            (
                "POST",
                "/_bulk".to_owned(),
                format!("{{\"delete\":{{\"_index\":\"{name}\",\"_id\":\"1\"}}}}\n"),
            ),
            (
                "POST",
                "/_aliases".to_owned(),
                format!(r#"{{"actions":[{{"add":{{"index":"logs-a","alias":"{name}"}}}}]}}"#),
            ),
        ];
        for (method, path, body) in requests {
            let path = path.replace('é', "%C3%A9");
            let found = needs(method, &path, &body);
            if is_read {
                assert!(found.is_ok(), "{path} {body}: {found:?}");
            } else {
                assert_eq!(found, Err(TOO_LONG), "{path} {body}");
            }
        }
    }
    let path = format!("/{}*/_search", "x".repeat(255));
    assert_eq!(needs("GET", &path, ""), Err(TOO_LONG));
    let path = format!("/{}/_msearch", "x".repeat(60_000));
    assert_eq!(needs("POST", &path, &"{}\n\n".repeat(1_000)), Err(TOO_LONG));
}

/// The list of the path is needed again for each line or document that names no other one.
#[test]
fn a_list_that_is_needed_often_takes_its_memory_once() {
    // Encoded, so that it cannot be borrowed from the path.
    let list = names(1_000, "%2C");
    for (verb, body) in [
        ("_msearch", "{}\n\n".repeat(100_000)),
        ("_msearch", "{\"preference\":\"x\"}\n{}\n".repeat(100_000)),
        (
            "_search",
            format!(
                r#"{{"query":{{"more_like_this":{{"like":[{}{{}}]}}}}}}"#,
                "{},".repeat(300_000)
            ),
        ),
        ("_search", format!(r#"{{"query":[{}{{}}]}}"#, r#"{"wrapper":{}},"#.repeat(100_000))),
    ] {
        let path = format!("/{list}/{verb}");
        let request = request("POST", &path, &body);
        let mut result = Ok("");
        let counted = allocation_counter::measure(|| result = read(&request, &mut Vec::new()));
        assert_eq!(result, Err(TOO_MANY), "{verb}");
        assert!(counted.bytes_max < 8 << 20, "{verb}: {} bytes", counted.bytes_max);
    }
}

/// Work that grows with the square of the number of names takes minutes here.
#[test]
fn many_unknown_names_are_denied_with_the_first_of_them() {
    let config = config(
        "r: { index_permissions: [{ index_patterns: ['logs-*', '*-z'], allowed_actions: [read] }] }",
    );
    let mut builder = InventoryBuilder::default();
    builder.index("logs-a", true, false).index("logs-b", true, false).alias("logs-all", ["logs-a"]);
    let inventory = Arc::new(builder.build());
    let excluded = format!("logs-*,{},-{}", names(20_000, ","), names(20_000, ",-"));
    let unknown = names(40_000, ",");
    let aliases = vec!["logs-all"; 40_000].join(",");
    let excluded_patterns = format!("logs-*,-{}*", names(40_000, "*,-"));
    for (list, inventory, evaluation, wanted) in [
        (&unknown, Some(&inventory), EvaluationType::Legacy, 20),
        (&unknown, Some(&inventory), EvaluationType::V4, 20),
        (&unknown, None, EvaluationType::V4, 20),
        (&excluded, Some(&inventory), EvaluationType::V4, 0),
        (&aliases, Some(&inventory), EvaluationType::Legacy, 0),
        (&excluded_patterns, None, EvaluationType::Legacy, 0),
    ] {
        let settings = EvaluationSettings { evaluation, ..EvaluationSettings::default() };
        let privileges = Privileges::new(config.clone(), settings, inventory.cloned());
        let caller = privileges.caller(&subject(&["r"]));
        let path = format!("/{list}/_count");
        let mut needs: Vec<Need<'_>> = Vec::new();
        let request = request("GET", &path, "");
        read(&request, &mut needs).expect("it is read");
        let answer = privileges.decide(&caller, &needs);
        assert_eq!(answer.missing.len(), wanted, "{evaluation:?}");
        assert_eq!(answer.verdict == Verdict::Permitted, wanted == 0, "{evaluation:?}");
        let forwarded = privileges.with_names_for_patterns(&caller, &request, &needs);
        assert_eq!(forwarded, None, "{evaluation:?}");
    }
}

/// A template within others is looked through once.
#[test]
fn nested_templates_are_read_once() {
    let text = "x".repeat(1 << 20);
    let nested = |inner: &str| {
        let depth = 60;
        format!(
            r#"{{"query":{}{{"a":"{inner}{text}"}}{}}}"#,
            r#"{"template":"#.repeat(depth),
            "}".repeat(depth)
        )
    };
    let all = "indices:data/read/get on all".to_owned();
    assert!(!needs("POST", "/logs-a/_search", &nested("")).expect("it is read").contains(&all));
    assert!(needs("POST", "/logs-a/_search", &nested("${x}")).expect("it is read").contains(&all));
}
