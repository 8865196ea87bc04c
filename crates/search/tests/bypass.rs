//! Ways around privileges that other gateways in front of a search cluster had: one test for each.

#![expect(clippy::expect_used, reason = "a failed set-up is a failed test")]

use std::sync::Arc;

use document::MapFiles;
use search::config::SecurityConfig;
use search::{
    Action, EvaluationSettings, Expression, Need, Options, Part, Privileges, Problem, Request,
    RequestBody, Subject, Target, Verdict, depends_on_body, read,
};

use crate::needs::{assert_denied, assert_needs, needs, needs_of};
use crate::requests::request;

#[test]
fn a_rethrottle_is_an_action_on_the_cluster() {
    for verb in ["_reindex", "_update_by_query", "_delete_by_query"] {
        let target = format!("/{verb}/node:1/_rethrottle?requests_per_second=1");
        assert_eq!(
            needs("POST", &target, ""),
            Ok(vec!["cluster:admin/reindex/rethrottle on the cluster".to_owned()])
        );
    }
}

#[test]
fn a_search_pipeline_is_no_search() {
    assert_needs(
        "PUT",
        "/_search/pipeline/p",
        "{}",
        "cluster:admin/search/pipeline/put on the cluster",
    );
    assert_needs(
        "DELETE",
        "/_search/pipeline/p",
        "",
        "cluster:admin/search/pipeline/delete on the cluster",
    );
}

#[test]
fn a_post_to_an_index_creates_none() {
    assert_eq!(needs("POST", "/secret", ""), Err(Problem::UnknownRoute));
    assert_needs("PUT", "/secret", "", "indices:admin/create on secret");
}

#[test]
fn an_unknown_path_or_method_is_denied() {
    for (method, target) in [
        ("GET", "/_nosuch/path"),
        ("GET", "/a/b/c"),
        ("POST", "/_prometheus/metrics"),
        ("PATCH", "/a"),
        ("OPTIONS", "/a"),
        ("TRACE", "/a"),
        ("get", "/_search"),
        ("GET", "http://other/_search"),
        ("GET", "*"),
        ("GET", ""),
    ] {
        assert_eq!(needs(method, target, ""), Err(Problem::UnknownRoute), "{method} {target}");
    }
}

#[test]
fn cluster_routing_and_decommission_are_not_the_state_of_the_cluster() {
    let weights = "cluster:admin/routing/awareness/weights/put on the cluster";
    assert_needs("PUT", "/_cluster/routing/awareness/zone/weights", "{}", weights);
    let decommission = "cluster:admin/decommission/awareness/put on the cluster";
    assert_needs("PUT", "/_cluster/decommission/awareness/zone/a", "", decommission);
}

#[test]
fn cat_fielddata_needs_the_statistics_of_nodes() {
    assert_needs("GET", "/_cat/fielddata", "", "cluster:monitor/nodes/stats on the cluster");
}

#[test]
fn restoring_a_snapshot_is_not_creating_one() {
    assert_needs(
        "POST",
        "/_snapshot/r/s/_restore",
        "",
        "cluster:admin/snapshot/restore on the cluster",
    );
    assert_needs("POST", "/_snapshot/r/s/_restore", "", "indices:data/write/index on all");
}

#[test]
fn a_script_is_run_by_get_too() {
    for method in ["GET", "POST"] {
        let action = "cluster:admin/scripts/painless/execute on the cluster";
        assert_needs(method, "/_scripts/painless/_execute", "{}", action);
    }
}

#[test]
fn rare_parts_of_the_interface_are_mapped_or_denied() {
    assert_needs("GET", "/_dangling", "", "cluster:admin/indices/dangling/list on the cluster");
    assert_needs(
        "POST",
        "/_remotestore/_restore",
        "{}",
        "cluster:admin/remotestore/restore on the cluster",
    );
    assert_denied("GET", "/_insights/top_queries", "");
    assert_denied("GET", "/_prometheus/metrics", "");
}

#[test]
fn an_index_in_a_later_segment_of_a_plugin_is_not_missed() {
    assert_denied("POST", "/_plugins/_ism/add/secret", "{}");
    assert_denied("GET", "/_plugins/_knn/warmup/secret", "");
}

#[test]
fn an_index_in_a_statement_of_sql_is_not_missed() {
    assert_denied("POST", "/_plugins/_sql", r#"{"query":"select * from secret"}"#);
    assert_denied("POST", "/_plugins/_ppl", r#"{"query":"source=secret"}"#);
}

#[test]
fn the_end_of_a_path_exempts_nothing() {
    for target in [
        "/secret/_search/_cat",
        "/secret/_cluster/health",
        "/secret/_doc/_plugins/_security/health",
    ] {
        assert_denied("GET", target, "");
    }
    assert_needs("GET", "/secret/_doc/_cat", "", "indices:data/read/get on secret");
}

/// The plugin expands it, and asks for what system indices need.
#[test]
fn a_pattern_is_not_the_name_of_an_index() {
    assert_denied("GET", "/.s*/_doc/1", "");
    assert_denied("POST", "/_mget", r#"{"docs":[{"_index":".s*","_id":"1"}]}"#);
    assert_denied("POST", "/_bulk", "{\"delete\":{\"_index\":\".s*\",\"_id\":\"1\"}}\n");
}

#[test]
fn an_encoded_comma_separates_indices() {
    assert_needs(
        "GET",
        "/public%2Csecret/_search",
        "",
        "indices:data/read/search on [public,secret]",
    );
    // And it does not hide a route.
    assert_denied("GET", "/public/%5Fsearch", "");
}

#[test]
fn a_regex_matches_the_whole_name() {
    let permits = |index| permits("{index_patterns: [/logs/], allowed_actions: [search]}", index);
    assert!(permits("logs"));
    assert!(!permits("logs-secret") && !permits("secret-logs"));
}

#[test]
fn a_leading_minus_excludes_only_after_a_pattern() {
    let expression = Expression::new("-secret,logs-*,-logs-a", Options::OPEN);
    let parts: Vec<_> = expression.parts().collect();
    assert_eq!(parts, [Part::Name("-secret"), Part::Pattern("logs-*"), Part::Except("logs-a")]);
}

#[test]
fn no_index_is_all_indices() {
    for target in [
        "/_search",
        "//_search",
        "/,/_search",
        "/_search?index=",
        "/_search?index",
        "/_all/_search",
        "/_search?index=%2C",
    ] {
        assert_needs("GET", target, "", "indices:data/read/search on all");
    }
    assert_needs("POST", "/_msearch", "{\"index\":[]}\n{}\n", "indices:data/read/search on all");
    assert!(!permits("{index_patterns: [logs-*], allowed_actions: [search]}", ""));
}

#[test]
fn a_query_of_a_role_that_cannot_be_read_does_not_show_everything() {
    assert!(!permits(
        "{index_patterns: [logs], dls: '{broken', allowed_actions: [search]}",
        "logs"
    ));
}

#[test]
fn a_missing_file_brings_no_users_of_a_demo() {
    let files = MapFiles::new("roles.yml", "_meta: {type: roles, config_version: 2}\n");
    let loaded = SecurityConfig::load(&files, "".as_ref()).expect("it loads");
    assert!(loaded.config.users.is_empty() && loaded.config.mappings.is_empty());
}

#[test]
fn a_query_that_looks_up_documents_elsewhere_needs_to_read_them() {
    let get = "indices:data/read/get on secret";
    for query in [
        r#"{"query":{"terms":{"f":{"index":"secret","id":"1","path":"p"}}}}"#,
        r#"{"query":{"bool":{"filter":[{"terms":{"f":{"path":"p","id":"1","ind\u0065x":"secr\u0065t"}}}]}}}"#,
        r#"{"aggs":{"a":{"filter":{"terms":{"f":{"index":"secret","id":"1","path":"p"}}}}}}"#,
        r#"{"post_filter":{"geo_shape":{"f":{"indexed_shape":{"index":"secret","id":"1"}}}}}"#,
        r#"{"query":{"percolate":{"field":"f","index":"secret","id":"1"}}}"#,
    ] {
        assert_needs("POST", "/public/_search", query, get);
        assert_needs("POST", "/public/_count", query, get);
        assert_needs("POST", "/public/_delete_by_query", query, get);
        assert_needs("POST", "/_msearch", &format!("{{\"index\":\"public\"}}\n{query}\n"), get);
    }
    let by_query =
        r#"{"query":{"terms":{"f":{"index":"secret","query":{"match_all":{}},"path":"p"}}}}"#;
    assert_needs("POST", "/public/_search", by_query, "indices:data/read/search on [secret]");
    let like = r#"{"query":{"more_like_this":{"like":[{"_index":"secret","_id":"1"}]}}}"#;
    assert_needs("POST", "/public/_search", like, "indices:data/read/mtv[shard] on secret");
    let unnamed = r#"{"query":{"geo_shape":{"f":{"indexed_shape":{"id":"1"}}}}}"#;
    assert_needs("POST", "/public/_search", unnamed, "indices:data/read/get on shapes");
    for query in [
        r#"{"query":{"terms":{"f":{"index":"public","index":"secret","id":"1","path":"p"}}}}"#,
        r#"{"query":{"terms":{"f":{"index":5,"id":"1","path":"p"}}}}"#,
        r#"{"query":{"terms":{"f":{"index":"other:secret","id":"1","path":"p"}}}}"#,
    ] {
        assert_denied("POST", "/public/_search", query);
    }
}

#[test]
fn a_query_in_base64_may_look_up_anything() {
    let wrapped = r#"{"query":{"wrapper":{"query":"eyJ0ZXJtcyI6e319"}}}"#;
    assert_needs("POST", "/public/_search", wrapped, "indices:data/read/get on all");
    let filled_in = r#"{"query":{"template":{"terms":{"f":{"index":"${i}"}}}}}"#;
    assert_needs("POST", "/public/_search", filled_in, "indices:data/read/get on all");
}

#[test]
fn an_ingest_pipeline_may_move_a_document_to_any_index() {
    let anywhere = "indices:data/write/index on all";
    assert_needs("PUT", "/public/_doc/1?pipeline=move", "{}", anywhere);
    assert_needs("POST", "/public/_bulk?pipeline=move", "{\"index\":{}}\n{}\n", anywhere);
    assert_needs("POST", "/public/_bulk", "{\"index\":{\"pipeline\":\"move\"}}\n{}\n", anywhere);
    let reindex = r#"{"source":{"index":"public"},"dest":{"index":"public","pipeline":"move"}}"#;
    assert_needs("POST", "/_reindex", reindex, anywhere);
}

#[test]
fn a_script_of_a_reindex_may_write_anywhere_and_one_of_an_update_may_delete() {
    let reindex = r#"{"source":{"index":"a"},"dest":{"index":"b"},"script":{"source":"ctx._index='secret'"}}"#;
    assert_needs("POST", "/_reindex", reindex, "indices:data/write/index on all");
    let script = r#"{"script":{"source":"ctx.op='delete'"}}"#;
    assert_needs("POST", "/a/_update/1", script, "indices:data/write/delete on a");
    assert_needs("POST", "/a/_update_by_query", script, "indices:data/write/delete on [a]");
}

#[test]
fn a_stored_template_may_look_up_anything() {
    let get = "indices:data/read/get on all";
    assert_needs("POST", "/public/_search/template", r#"{"id":"stored"}"#, get);
    for source in [
        r#""{\"query\":{\"terms\":{\"f\":{\"index\":\"secret\"}}}}""#,
        r#"{"query":{"terms":{"f":{"{{key}}":"secret"}}}}"#,
        r#""{\"query\":{{{query}}} }""#,
        r#""{\"query\":{{#toJson}}query{{/toJson}} }""#,
        r#""{\"query\":{\"terms\":{\"f\":{\"\\u0069ndex\":\"secret\"}}}}""#,
    ] {
        assert_needs("POST", "/public/_search/template", &format!(r#"{{"source":{source}}}"#), get);
    }
    let plain = r#"{"source":{"query":{"match":{"f":"{{text}}"}}},"params":{"text":"x"}}"#;
    let plain = needs("POST", "/public/_search/template", plain).expect("it is read");
    assert!(!plain.iter().any(|need| need == get), "{plain:#?}");
}

#[test]
fn a_point_in_time_may_be_of_any_index() {
    assert_needs("POST", "/_search", r#"{"pit":{"id":"abc"}}"#, "indices:data/read/search on all");
    assert_needs(
        "DELETE",
        "/_search/point_in_time",
        r#"{"pit_id":["abc"]}"#,
        "indices:data/read/point_in_time/delete on all",
    );
}

/// All of them are found by a second action, also if the body says so instead of the path.
#[test]
fn all_points_in_time_are_read_to_be_found() {
    let found = "indices:data/read/point_in_time/readall on all";
    for (method, path) in [("DELETE", "/_search/point_in_time"), ("GET", "/_cat/pit_segments")] {
        for all in ["_all", "\\u005fall"] {
            assert_needs(method, path, &format!(r#"{{"pit_id":["{all}"]}}"#), found);
        }
        assert_needs(method, &format!("{path}/_all"), "", found);
        let one = needs(method, path, r#"{"pit_id":["abc"]}"#).expect("it is read");
        assert!(!one.iter().any(|need| need == found), "{one:#?}");
    }
}

/// An id says neither whose scroll it is nor which indices it searches, and others can be computed
/// from one's own.
#[test]
fn a_scroll_may_be_of_any_index() {
    let body = r#"{"scroll_id":"abc"}"#;
    for (method, path, body) in [
        ("POST", "/_search/scroll", body),
        ("GET", "/_search/scroll/abc", ""),
        ("GET", "/_search/scroll?scroll_id=abc", ""),
    ] {
        assert_needs(method, path, body, "indices:data/read/scroll on the cluster");
        assert_needs(method, path, body, "indices:data/read/search on all");
    }
    let checked = Request { scrolls_are_checked: true, ..request("POST", "/_search/scroll", body) };
    assert_eq!(needs_of(&checked), Ok(vec!["indices:data/read/scroll on the cluster".to_owned()]));
}

#[test]
fn a_parameter_names_an_index_like_the_path() {
    assert_needs("GET", "/_search?index=secret", "", "indices:data/read/search on [secret]");
    assert_needs(
        "GET",
        "/_search?a=b;ind%65x=secr%65t",
        "",
        "indices:data/read/search on [secret]",
    );
    assert_needs("GET", "/public/_search?index=secret", "", "indices:data/read/search on [public]");
    assert_denied("GET", "/_search?index=public&index=secret", "");
    assert_denied("GET", "/_search?source=%7B%7D&source_content_type=application/json", "");
}

#[test]
fn a_body_names_an_index_in_place_of_the_path() {
    let document = r#"{"_index":"secret","_id":"1"}"#;
    assert_needs("POST", "/public/_termvectors", document, "indices:data/read/tv on secret");
    let shared = r#"{"ids":["1"],"parameters":{"_index":"secret"}}"#;
    assert_needs("POST", "/public/_mtermvectors", shared, "indices:data/read/mtv[shard] on secret");
    let alias = r#"{"index":"secret","alias":"b"}"#;
    assert_needs("PUT", "/public/_alias/a", alias, "indices:admin/aliases on [secret]");
    assert_needs(
        "POST",
        "/public/_mget",
        r#"{"docs":[{"_index":"secret","_id":"1"}]}"#,
        "indices:data/read/mget[shard] on secret",
    );
    let bulk = "{\"index\":{\"_index\":\"secret\"}}\n{}\n";
    assert_needs("POST", "/public/_bulk", bulk, "indices:data/write/index on secret");
    assert_needs(
        "POST",
        "/public/_msearch",
        "{\"index\":\"secret\"}\n{}\n",
        "indices:data/read/search on [secret]",
    );
    let remove = r#"{"actions":[{"remove_index":{"index":"secret"}},{"add":{"index":"public","alias":"a"}}]}"#;
    assert_needs("POST", "/_aliases", remove, "indices:admin/delete on [secret]");
    assert_needs("POST", "/_aliases", remove, "indices:admin/delete on [public]");
    for nothing in ["{}", r#"{"actions": []}"#, r#"{"actions": [{}]}"#] {
        assert_denied("POST", "/_aliases", nothing);
    }
}

#[test]
fn a_body_that_readers_read_differently_is_denied() {
    let item = "{\"index\":{\"_index\":\"public\"}}\n{}\n";
    for body in [
        "{\"index\":{\"_index\":\"public\",\"_index\":\"secret\"}}\n{}\n",
        "{\"index\":{\"_index\":\"public\"},\"delete\":{\"_index\":\"secret\"}}\n{}\n",
        "{\"index\":{\"_index\":\"public\"}}{\"index\":{\"_index\":\"secret\"}}\n{}\n",
        "/*x*/{\"index\":{\"_index\":\"secret\"}}\n{}\n",
        "{\"index\":{\"_index\":\"public\"}}\n{}",
        "{\"index\":{\"_index\":\"public\"}}\n",
        "{\"index\":{\"_index\":[\"public\"]}}\n{}\n",
        "{\"index\":{\"_index\":5}}\n{}\n",
        "{\"index\":{}}\n{}\n",
        "{\"Index\":{\"_index\":\"public\"}}\n{}\n",
        "\u{feff}{\"index\":{\"_index\":\"public\"}}\n{}\n",
        "",
    ] {
        assert_denied("POST", "/_bulk", body);
    }
    assert_needs("POST", "/_bulk", item, "indices:data/write/index on public");
    for (kind, encoding) in [
        (Some("application/cbor"), None),
        (Some("application/smile"), None),
        (Some("application/yaml"), None),
        (Some("text/plain"), None),
        (None, None),
        (Some("application/json"), Some("gzip")),
    ] {
        let request = Request {
            content_type: kind,
            content_encoding: encoding,
            ..request("POST", "/_bulk", item)
        };
        assert!(needs_of(&request).is_err(), "{kind:?} {encoding:?}");
    }
    let wide: String = r#"{"docs":[]}"#.chars().flat_map(|char| [char, '\0']).collect();
    assert!(needs_of(&request("POST", "/_mget", &wide)).is_err());
}

#[test]
fn an_unseen_body_is_not_an_empty_one() {
    for (method, target) in [
        ("POST", "/_bulk"),
        ("POST", "/_mget"),
        ("POST", "/_msearch"),
        ("POST", "/_reindex"),
        ("POST", "/_aliases"),
        ("PUT", "/a"),
        ("PUT", "/a/_alias/b"),
        ("POST", "/a/_search"),
        ("GET", "/a/_search"),
        ("POST", "/a/_termvectors"),
    ] {
        let request = Request { body: RequestBody::Unavailable, ..request(method, target, "") };
        assert_eq!(needs_of(&request), Err(Problem::BodyNeeded), "{method} {target}");
    }
    assert!(Problem::BodyNeeded.to_string().contains("with_request_body"));
    // An update without its body may have a script.
    let update = Request { body: RequestBody::Unavailable, ..request("POST", "/a/_update/1", "") };
    assert!(
        needs_of(&update)
            .expect("it is read")
            .contains(&"indices:data/write/delete on a".to_owned())
    );
    // A body that can be had is waited for only where it matters.
    let awaited =
        |method, target| Request { body: RequestBody::Pending, ..request(method, target, "") };
    assert_eq!(needs_of(&awaited("POST", "/a/_update/1")), Err(Problem::BodyNeeded));
    for (method, target) in [("PUT", "/a/_doc/1"), ("GET", "/a/_doc/1"), ("POST", "/a/_refresh")] {
        assert_eq!(
            needs_of(&awaited(method, target)),
            needs_of(&request(method, target, "")),
            "{target}"
        );
        assert!(!depends_on_body(&awaited(method, target)), "{target}");
    }
}

#[test]
fn an_index_of_another_cluster_is_denied() {
    for target in [
        "/other:secret/_search",
        "/*:secret/_search",
        "/public,other%3Asecret/_search",
        "/other:secret/_doc/1",
    ] {
        assert_denied("GET", target, "");
    }
    let remote =
        r#"{"source":{"remote":{"host":"http://other"},"index":"secret"},"dest":{"index":"a"}}"#;
    assert_denied("POST", "/_reindex", remote);
}

#[test]
fn dot_segments_and_fragments_are_denied() {
    for target in [
        "/public/../secret/_search",
        "/./_search",
        "/secret#/_search",
        "/public/_search#?index=secret",
    ] {
        assert_denied("GET", target, "");
    }
}

/// Whether a role with one permission may search an expression of a cluster whose contents are not
/// known.
fn permits(permission: &str, expression: &str) -> bool {
    let roles = format!(
        "_meta: {{type: roles, config_version: 2}}\nr: {{index_permissions: [{permission}]}}\n"
    );
    let Ok(loaded) = SecurityConfig::load(&MapFiles::new("roles.yml", roles), "".as_ref()) else {
        return false;
    };
    let subject = Subject { roles: vec!["r".to_owned()], ..Subject::default() };
    let (config, settings) = (Arc::new(loaded.config), EvaluationSettings::default());
    let privileges = Privileges::new(config, settings, None);
    let action = Action::named("indices:data/read/search").expect("an action");
    let need = Need {
        actions: Box::leak(Box::new([action])),
        target: Target::Indices(Expression::new(expression, Options::OPEN)),
        is_copied: false,
        shows_hidden_terms: false,
        adds_names: false,
    };
    privileges.decide(&privileges.caller(&subject), &[need]).verdict == Verdict::Permitted
}

#[test]
fn a_body_that_names_very_many_indices_is_denied() {
    let bulk = |count: usize| -> String {
        (0..count)
            .map(|number| format!("{{\"delete\":{{\"_index\":\"i{number}\",\"_id\":\"1\"}}}}\n"))
            .collect()
    };
    assert!(needs("POST", "/_bulk", &bulk(20_000)).is_ok());
    assert_denied("POST", "/_bulk", &bulk(60_000));
}

/// A node shows the recoveries of closed indices, too, where it shows nothing else of them.
#[test]
fn a_pattern_of_recoveries_stands_for_closed_indices_too() {
    for (target, is_closed) in [
        ("/logs-*/_recovery", true),
        ("/_recovery", true),
        ("/_cat/recovery/logs-*", true),
        ("/_cat/segment_replication/logs-*", true),
        ("/_cat/indices/logs-*", true),
        ("/logs-*/_recovery?expand_wildcards=open", false),
        ("/logs-*/_search", false),
        ("/logs-*/_segments", false),
    ] {
        let mut needs = Vec::new();
        read(&request("GET", target, ""), &mut needs).expect("it is read");
        let closed = needs.iter().find_map(|need| {
            let Target::Indices(expression) = &need.target else { return None };
            Some(expression.options.closed)
        });
        assert_eq!(closed, Some(is_closed), "{target}");
    }
}

/// The cluster refuses it, but what is forwarded must not need less than it names.
#[test]
fn a_reindex_from_no_index_is_denied() {
    assert_denied("POST", "/_reindex", r#"{"source":{"index":[]},"dest":{"index":"a"}}"#);
}
