//! Requests that a node reads in another way than they look. Nearly all were tried on a node: it
//! answered with what the caller may not see, where the security plugin refused them.

use crate::needs::{assert_denied, assert_needs, needs};

const ALL: &str = "indices:data/read/get on all";

/// A node leaves out each `=` before a name: `=index` is `index`.
#[test]
fn a_parameter_whose_name_begins_with_an_equals_sign_is_denied() {
    let bulk = "{\"index\":{\"_id\":\"1\"}}\n{\"a\":1}\n";
    let document = "%7B%22docs%22:%5B%7B%22_index%22:%22secret%22,%22_id%22:%221%22%7D%5D%7D";
    for (method, target, body) in [
        ("GET", "/_search?index=logs-a&=index=secret", ""),
        ("GET", "/_search?index=logs-a;=index=secret", ""),
        ("GET", "/_search?=index=secret", ""),
        ("GET", "/_search?index=logs-a&==index=secret", ""),
        ("GET", "/logs-a/_search?==", ""),
        ("GET", "/logs-a/_search?a=b&=", ""),
        ("POST", "/_bulk?index=logs-a&=index=secret", bulk),
        ("DELETE", "/?index=logs-b&=index=secret", ""),
        (
            "GET",
            &format!("/logs-a/_mget?=source={document}&source_content_type=application/json"),
            "",
        ),
        ("PUT", "/logs-a/_doc/1?=pipeline=p", "{}"),
        ("DELETE", "/logs-a/_doc/1?=version_type=external", ""),
        ("GET", "/logs-*/_search?=expand_wildcards=all", ""),
    ] {
        assert_denied(method, target, body);
    }
    assert_needs(
        "GET",
        "/logs-a/_search?q=a==b&x=%3Dc",
        "",
        "indices:data/read/search on [logs-a]",
    );
}

/// A node goes on with the members of an array or object that it does not know, as if they were
/// those of the document.
#[test]
fn a_document_of_a_multi_get_has_known_keys_only() {
    for document in [
        r#"{"_id":"1","_index":"logs-a","foo":[{"_index":"secret"}]}"#,
        r#"{"_id":"1","_index":"logs-a","foo":{"_index":"secret"}}"#,
        r#"{"_id":"1","_index":"logs-a","foo":"bar"}"#,
        r#"{"_id":"1","_index":"logs-a","routing":[{"_index":"secret"}]}"#,
        r#"{"_index":"logs-a","_id":[{"_index":"secret","_id":"1"}]}"#,
        r#"{"_index":"logs-a","_id":{"_index":"secret"}}"#,
        r#"{"_index":"logs-a","_id":"1","version":[{"_index":"secret"}]}"#,
        r#"{"_index":"logs-a","_id":"1","stored_fields":[{"_index":"secret"}]}"#,
        r#"{"_index":"logs-a","_id":"1","stored_fields":[["a"],{"_index":"secret"}]}"#,
        r#"{"_index":"logs-a","_id":"1","stored_fields":{"_index":"secret"}}"#,
        r#"{"_index":"logs-a","_id":"1","_source":[{"_index":"secret"}]}"#,
        r#"{"_index":"logs-a","_id":"1","_source":{"includes":[{"_index":"secret"}]}}"#,
        r#"{"_index":"logs-a","_id":"1","_source":{"foo":{"_index":"secret"}}}"#,
    ] {
        assert_denied("POST", "/_mget", &format!(r#"{{"docs":[{document}]}}"#));
        assert_denied(
            "POST",
            "/logs-a/_mget",
            &format!(r#"{{"docs":[{{"_id":"2"}},{document}]}}"#),
        );
    }
    for body in [
        r#"{"ids":[{"_index":"secret"}]}"#,
        r#"{"ids":[["1"]]}"#,
        r#"{"ids":{"a":"b"}}"#,
        r#"{"docs":[[{"_index":"secret"}]]}"#,
    ] {
        assert_denied("POST", "/logs-a/_mget", body);
    }
    for document in [
        r#"{"_index":"logs-a","_id":1}"#,
        r#"{"_index":"logs-a","_id":"1","routing":"r","version":3,"version_type":"external","_source":false}"#,
        r#"{"_index":"logs-a","_id":"1","_source":"a*","stored_fields":"a"}"#,
        r#"{"_index":"logs-a","_id":"1","_source":["a","b"],"stored_fields":["a"]}"#,
        r#"{"_index":"logs-a","_id":"1","_source":{"includes":["a"],"excludes":"b","include":"c","exclude":["d"]}}"#,
    ] {
        let body = format!(r#"{{"docs":[{document}]}}"#);
        assert_needs("POST", "/_mget", &body, "indices:data/read/mget[shard] on logs-a");
    }
    assert_needs(
        "POST",
        "/logs-a/_mget",
        r#"{"ids":["1",2]}"#,
        "indices:data/read/mget[shard] on logs-a",
    );
}

/// Documents for term vectors have keys with objects; a list is one of texts.
#[test]
fn lists_of_a_document_for_term_vectors_are_flat() {
    for more in [
        r#""fields":[["a"],{"_index":"secret"}]"#,
        r#""fields":[{"_index":"secret"}]"#,
        r#""routing":["a"]"#,
    ] {
        assert_denied("POST", "/logs-a/_termvectors/1", &format!("{{{more}}}"));
        assert_denied(
            "POST",
            "/_mtermvectors",
            &format!(r#"{{"docs":[{{"_index":"logs-a","_id":"1",{more}}}]}}"#),
        );
    }
    let more = r#""fields":["a"],"filter":{"max_num_terms":3},"per_field_analyzer":{"a":"b"},"doc":{"a":[{"_index":"x"}]}"#;
    let body = format!(r#"{{"docs":[{{"_index":"logs-a",{more}}}]}}"#);
    assert_needs("POST", "/_mtermvectors", &body, "indices:data/read/mtv[shard] on logs-a");
}

/// `inline` and `template` are other names of `source`, and `id` takes its place.
#[test]
fn a_template_beside_a_harmless_one_counts() {
    let harmless = r#""source":{"query":{"match_all":{}}}"#;
    let lookup = r#"{"query":{"terms":{"user":{"index":"secret","id":"1","path":"user"}}}}"#;
    for other in [
        format!(r#""inline":{lookup}"#),
        format!(r#""template":{lookup}"#),
        r#""id":"stored""#.to_owned(),
        r#""anything":1"#.to_owned(),
    ] {
        for body in [format!("{{{harmless},{other}}}"), format!("{{{other},{harmless}}}")] {
            assert_needs("POST", "/logs-a/_search/template", &body, ALL);
        }
    }
    let two = format!(r#"{{"source":{lookup},{harmless}}}"#);
    assert_needs("POST", "/logs-a/_search/template", &two, ALL);
    let plain = format!(
        r#"{{{harmless},"params":{{"a":{{"index":"x"}}}},"explain":true,"profile":false}}"#
    );
    let needs = needs("POST", "/logs-a/_search/template", &plain).expect("it is read");
    assert!(!needs.contains(&ALL.to_owned()), "{needs:?}");
}

/// The source of a reindexing is a whole search.
#[test]
fn a_lookup_anywhere_in_the_source_of_a_reindexing_counts() {
    let lookup = r#"{"terms":{"user":{"index":"secret","id":"1","path":"user"}}}"#;
    for more in [
        format!(r#""query":{lookup}"#),
        format!(r#""post_filter":{lookup}"#),
        format!(r#""aggs":{{"a":{{"filter":{lookup}}}}}"#),
        format!(r#""aggregations":{{"a":{{"filters":{{"filters":[{lookup}]}}}}}}"#),
        format!(r#""sort":[{{"f":{{"nested":{{"path":"p","filter":{lookup}}}}}}}]"#),
        format!(r#""highlight":{{"highlight_query":{lookup}}}"#),
        format!(r#""highlight":{{"fields":{{"f":{{"highlight_query":{lookup}}}}}}}"#),
        format!(r#""rescore":{{"query":{{"rescore_query":{lookup}}}}}"#),
    ] {
        let body =
            format!(r#"{{"source":{{"index":"logs-a",{more}}},"dest":{{"index":"logs-b"}}}}"#);
        assert_needs("POST", "/_reindex", &body, "indices:data/read/get on secret");
    }
    let body = r#"{"source":{"index":"logs-a","pit":{"id":"x"}},"dest":{"index":"logs-b"}}"#;
    assert_needs("POST", "/_reindex", body, ALL);
}

#[test]
fn refreshing_what_was_changed_needs_its_privilege() {
    let reindex = r#"{"source":{"index":"logs-a"},"dest":{"index":"logs-b"}}"#;
    let refresh = "indices:admin/refresh on";
    for query in ["refresh=true", "refresh", "x=1&refresh="] {
        assert_needs("POST", &format!("/_reindex?{query}"), reindex, &format!("{refresh} logs-b"));
        for verb in ["_update_by_query", "_delete_by_query"] {
            assert_needs(
                "POST",
                &format!("/logs-*/{verb}?{query}"),
                "{}",
                &format!("{refresh} [logs-*]"),
            );
        }
    }
    for target in ["/_reindex", "/_reindex?refresh=false"] {
        let needs = needs("POST", target, reindex).expect("it is read");
        assert!(!needs.iter().any(|need| need.starts_with(refresh)), "{needs:?}");
    }
    assert_denied("POST", "/_reindex?refresh=wait_for", reindex);
}

/// Its processors may look up what the query does not show.
#[test]
fn a_stored_search_pipeline_needs_all_indices() {
    let (search, many) = ("{}", "{}\n{}\n");
    for (target, body) in [
        ("/logs-a/_search?search_pipeline=p", search),
        ("/logs-a/_search?search_pipeline=p", ""),
        ("/logs-a/_msearch?search_pipeline=p", many),
        ("/logs-a/_search", r#"{"search_pipeline":"p"}"#),
        // A node takes these for names.
        ("/logs-a/_search", r#"{"search_pipeline":123}"#),
        ("/logs-a/_search", r#"{"search_pipeline":true}"#),
        ("/logs-a/_msearch", "{}\n{\"search_pipeline\":7}\n"),
        (
            "/logs-a/_count",
            r#"{"query":{"function_score":{"random_score":{"z":{}}},"search_pipeline":1.5}}"#,
        ),
        ("/logs-a/_msearch", "{}\n{\"search_pipeline\":\"p\"}\n"),
    ] {
        assert_needs("POST", target, body, ALL);
    }
    let body = r#"{"query":{"term":{"search":"p"}},"search_pipeline":{"request_processors":[{"filter_query":{"query":{"terms":{"user":{"index":"secret","id":"1","path":"user"}}}}}]}}"#;
    assert_needs(
        "POST",
        "/logs-a/_search?search_pipeline=_none",
        body,
        "indices:data/read/get on secret",
    );
    let needs = needs("POST", "/logs-a/_search?search_pipeline=_none", body).expect("it is read");
    assert!(!needs.contains(&ALL.to_owned()), "{needs:?}");
}

/// Older nodes go on with the members of an object that they do not know.
#[test]
fn an_unknown_object_beside_an_alias_is_denied() {
    for body in
        [r#"{"foo":{"index":"secret"}}"#, r#"{"foo":[{"index":"secret"}]}"#, r#"{"routing":["a"]}"#]
    {
        assert_denied("PUT", "/logs-a/_alias/x", body);
    }
    let body = r#"{"filter":{"term":{"a":"b"}},"routing":"1","is_write_index":true}"#;
    assert_needs("PUT", "/logs-a/_alias/x", body, "indices:admin/aliases on [logs-a]");
}

/// A client chooses the names of aggregations, filters and fields.
#[test]
fn a_name_that_is_one_of_a_query_hides_no_lookup() {
    let terms = r#"{"terms":{"g":{"index":"secret","id":"1","path":"user"}}}"#;
    let get = "indices:data/read/get on secret";
    for body in [
        format!(r#"{{"size":0,"aggs":{{"more_like_this":{{"filter":{terms}}}}}}}"#),
        format!(r#"{{"aggs":{{"a":{{"filters":{{"filters":{{"more_like_this":{terms}}}}}}}}}}}"#),
        format!(r#"{{"aggs":{{"a":{{"filters":{{"filters":{{"terms":{terms}}}}}}}}}}}"#),
        format!(r#"{{"aggs":{{"a":{{"adjacency_matrix":{{"filters":{{"terms":{terms}}}}}}}}}}}"#),
        format!(r#"{{"aggs":{{"terms":{{"filter":{terms}}}}}}}"#),
        format!(r#"{{"aggs":{{"pit":{{"filter":{terms}}}}}}}"#),
        format!(r#"{{"aggs":{{"wrapper":{{"filter":{terms}}}}}}}"#),
        format!(r#"{{"query":{{"more_like_this":{{"like":[{{"_index":"logs-a","doc":{{"a":{terms}}}}}]}}}}}}"#),
        r#"{"query":{"geo_shape":{"more_like_this":{"indexed_shape":{"index":"secret","id":"1"}},"ignore_unmapped":true}}}"#.to_owned(),
        r#"{"query":{"geo_shape":{"terms":{"indexed_shape":{"index":"secret","id":"1"}}}}}"#.to_owned(),
        r#"{"query":{"terms":{"terms":{"index":"secret","id":"1","path":"user"}}}}"#.to_owned(),
        r#"{"query":{"terms":{"more_like_this":{"index":"secret","id":"1","path":"user"}}}}"#.to_owned(),
        r#"{"query":{"terms":{"wrapper":{"index":"secret","id":"1","path":"user"}}}}"#.to_owned(),
        r#"{"query":{"terms":{"template":{"index":"secret","id":"1","path":"user"}}}}"#.to_owned(),
    ] {
        assert_needs("POST", "/logs-a/_search", &body, get);
        assert_needs("POST", "/logs-a/_delete_by_query", &body, get);
        assert_needs("POST", "/_msearch", &format!("{{\"index\":\"logs-a\"}}\n{body}\n"), get);
    }
    let wrapper = r#"{"wrapper":{"query":"e30="}}"#;
    let body = format!(r#"{{"aggs":{{"a":{{"filters":{{"filters":{{"terms":{wrapper}}}}}}}}}}}"#);
    assert_needs("POST", "/logs-a/_search", &body, ALL);
    let alike = r#"{"more_like_this":{"like":[{"_index":"secret","_id":"1"}]}}"#;
    let body = format!(r#"{{"aggs":{{"a":{{"filters":{{"filters":{{"terms":{alike}}}}}}}}}}}"#);
    assert_needs("POST", "/logs-a/_search", &body, "indices:data/read/mtv[shard] on secret");
    let shape = r#"{"query":{"geo_shape":{"terms":{"indexed_shape":{"id":"1"}}}}}"#;
    assert_needs("POST", "/logs-a/_search", shape, "indices:data/read/get on shapes");
}

/// A look-up by a query is a search: a node expands its patterns.
#[test]
fn a_lookup_by_a_query_expands_patterns() {
    let body = |index: &str| {
        let lookup = format!(r#"{{"index":"{index}","path":"user","query":{{"match_all":{{}}}}}}"#);
        format!(r#"{{"query":{{"terms":{{"user":{lookup}}}}}}}"#)
    };
    for (index, wanted) in [("*", "[*]"), ("_all", "all"), ("secret", "[secret]")] {
        let search = format!("indices:data/read/search on {wanted}");
        assert_needs("POST", "/logs-a/_search", &body(index), &search);
    }
    // It does not split a list.
    assert_denied("POST", "/logs-a/_search", &body("s*,logs-a"));
}

/// Processors of the pipeline may look up what the template does not show.
#[test]
fn a_template_that_names_a_search_pipeline_needs_all_indices() {
    let body = r#"{"source":{"query":{"match_all":{}},"search_pipeline":"p"}}"#;
    assert_needs("POST", "/logs-a/_search/template", body, ALL);
}

/// A script, an ingest pipeline or a restore may make an index that no role names.
#[test]
fn what_may_write_anywhere_needs_indices_that_do_not_exist_yet() {
    let new = "indices:admin/create on [<???>]";
    let reindex = r#"{"source":{"index":"logs-a"},"dest":{"index":"logs-b"},"script":{"source":"ctx._index='new'"}}"#;
    assert_needs("POST", "/_reindex", reindex, new);
    assert_needs(
        "POST",
        "/_bulk?pipeline=p",
        "{\"delete\":{\"_index\":\"a\",\"_id\":\"1\"}}\n",
        new,
    );
    assert_needs("PUT", "/logs-a/_doc/1?pipeline=p", "{}", new);
    assert_needs("POST", "/_snapshot/r/s/_restore", "", new);
}

/// It holds templates, pipelines and settings. The security plugin refuses it, too.
#[test]
fn the_state_of_the_cluster_is_not_restored() {
    for value in ["true", "\"true\"", "\"false\"", "1", "[true]"] {
        let body = format!(r#"{{"indices":"logs-a","include_global_state":{value}}}"#);
        assert_denied("POST", "/_snapshot/r/s/_restore", &body);
    }
    let twice = r#"{"include_global_state":false,"include_global_state":true}"#;
    assert_denied("POST", "/_snapshot/r/s/_restore", twice);
    let body = r#"{"indices":"logs-a","include_global_state":false}"#;
    assert_needs("POST", "/_snapshot/r/s/_restore", body, "indices:admin/create on all");
}

/// The filter of an alias is a query, wherever an alias is made.
#[test]
fn a_lookup_in_the_filter_of_an_alias_counts() {
    let lookup = r#"{"terms":{"g":{"index":"secret","id":"1","path":"user"}}}"#;
    let aliases = format!(r#""aliases":{{"a":{{"filter":{lookup}}}}}"#);
    let (flat, nested) = (format!("{{{aliases}}}"), format!(r#"{{"template":{{{aliases}}}}}"#));
    for (method, target, body) in [
        ("PUT", "/logs-b", &flat),
        ("PUT", "/logs-a/_clone/logs-b", &flat),
        ("POST", "/logs-a/_shrink/logs-b", &flat),
        ("PUT", "/logs-a/_split/logs-b", &flat),
        ("POST", "/logs/_rollover", &flat),
        ("POST", "/logs/_rollover/logs-2", &flat),
        ("PUT", "/_template/t", &flat),
        ("PUT", "/_index_template/t", &nested),
        ("PUT", "/_component_template/t", &nested),
    ] {
        assert_needs(method, target, body, "indices:data/read/get on secret");
    }
    assert!(needs("POST", "/logs/_rollover", "").is_ok());
}

/// A node ends a tag at the next `}}`, also in another string.
#[test]
fn a_tag_of_a_template_that_spans_strings_hides_no_lookup() {
    for source in [
        r#"{"query":{"terms":{"f":{"id":"1","path":"user{{a","q":["}}","index{{b",{"}}":"secret{{c"}],"y":"}}"}}}}"#,
        r#"{"query":{"match":{"f":"{{a","g":"}}"}}}"#,
        r#"{"query":{"match":{"f":"{{}}"}}}"#,
        r#"{"query":{"match":{"f":"{{<a}}"}}}"#,
        r#"{"query":{"match":{"f":"{{a b}}"}}}"#,
        r#"{"query":{"match":{"f":"{{{a}}}"}}}"#,
        r#"{"query":{"match":{"f":"x{{a}x}}"}}}"#,
    ] {
        assert_needs("POST", "/logs-a/_search/template", &format!(r#"{{"source":{source}}}"#), ALL);
    }
    let plain = r#"{"source":{"query":{"bool":{"filter":{"term":{"f":"{{a.b-c_1}}{{d}}"}}}}}}"#;
    let needs = needs("POST", "/logs-a/_search/template", plain).expect("it is read");
    assert!(!needs.iter().any(|need| need == ALL), "{needs:#?}");
}

/// A node fills in variables after it has read the escapes of the text.
#[test]
fn an_escaped_variable_of_a_template_query_counts() {
    for text in [r"\u0024{A", r"$\u007bA", "${A"] {
        let body = format!(r#"{{"query":{{"template":{{"terms":{{"boost":"{text}"}}}}}}}}"#);
        assert_needs("POST", "/logs-a/_search", &body, ALL);
        assert_needs("POST", "/_msearch", &format!("{{\"index\":\"logs-a\"}}\n{body}\n"), ALL);
    }
}

/// It may make a query of a text.
#[test]
fn a_pipeline_in_the_body_with_an_unknown_processor_may_look_up_anything() {
    let body = |pipeline: &str| {
        format!(r#"{{"query":{{"match_all":{{}}}},"search_pipeline":{pipeline}}}"#)
    };
    for pipeline in [
        r#"{"request_processors":[{"ml_inference":{"query_template":"{}"}}]}"#,
        r#"{"request_processors":[{"oversample":{"sample_factor":1},"other":{}}]}"#,
        r#"{"response_processors":[{"other":{}}]}"#,
        r#"{"others":[]}"#,
        r#"{"request_processors":{}}"#,
    ] {
        assert_needs("POST", "/logs-a/_search", &body(pipeline), ALL);
    }
    let known = r#"{"request_processors":[{"filter_query":{"query":{"match_all":{}}}},{"oversample":{"sample_factor":1}}]}"#;
    let needs = needs("POST", "/logs-a/_search", &body(known)).expect("it is read");
    assert!(!needs.iter().any(|need| need == ALL), "{needs:#?}");
}

/// A phrase suggester checks its phrases by a query that is a text.
#[test]
fn the_query_of_a_phrase_suggester_may_look_up_anything() {
    for collate in
        [r#"{"query":{"source":"{}"}}"#, r#"{"query":{"id":"stored"}}"#, r#"[{"query":{}}]"#]
    {
        let phrase = format!(r#"{{"field":"f","collate":{collate}}}"#);
        let body = format!(r#"{{"suggest":{{"text":"a","s":{{"phrase":{phrase}}}}}}}"#);
        assert_needs("POST", "/logs-a/_search", &body, ALL);
        assert_needs("POST", "/logs-a/_search/template", &format!(r#"{{"source":{body}}}"#), ALL);
    }
}

#[test]
fn the_query_of_a_script_that_is_tried_counts() {
    let like = r#"{"more_like_this":{"like":[{"_index":"secret","_id":"1"}]}}"#;
    let body = format!(
        r#"{{"script":{{"source":"1"}},"context":"score","context_setup":{{"index":"public","document":{{}},"query":{like}}}}}"#
    );
    assert_needs(
        "POST",
        "/_scripts/painless/_execute",
        &body,
        "indices:data/read/mtv[shard] on secret",
    );
}

/// The module `opensearch-dashboards` has routes below `/_opensearch_dashboards`, with the indices
/// in the query: all of them without it. No index has a name that begins with `_`.
#[test]
fn what_begins_with_an_underscore_is_no_index() {
    let mget = "{\"ids\":[\"1\"]}";
    let delete = "{\"delete\":{\"_id\":\"1\"}}\n";
    for (method, target, body) in [
        ("GET", "/_opensearch_dashboards/_search?index=secret", ""),
        ("GET", "/_opensearch_dashboards/_search", ""),
        ("GET", "/%5Fopensearch_dashboards/_search", ""),
        ("GET", "/logs-a,_opensearch_dashboards/_search", ""),
        ("POST", "/_opensearch_dashboards/_mget?index=secret", mget),
        ("POST", "/_opensearch_dashboards/_bulk?index=secret", delete),
        ("POST", "/_opensearch_dashboards/_msearch?index=secret", "{}\n{}\n"),
        ("PUT", "/_opensearch_dashboards/_settings?index=secret", "{}"),
        ("PUT", "/_opensearch_dashboards/_alias/x?index=secret", ""),
        ("GET", "/_opensearch_dashboards/_alias", ""),
        ("GET", "/_opensearch_dashboards/_alias/x", ""),
        ("POST", "/_opensearch_dashboards/_refresh", ""),
        ("PUT", "/_opensearch_dashboards/_doc/1?index=secret", "{}"),
        ("POST", "/_opensearch_dashboards/_update/1?index=secret", "{\"doc\":{}}"),
        ("DELETE", "/_opensearch_dashboards", ""),
        ("GET", "/_all/_doc/1", ""),
    ] {
        assert_denied(method, target, body);
    }
    assert_needs("GET", "/_all/_search", "", "indices:data/read/search on all");
    assert_needs("GET", "/a,b_c/_search", "", "indices:data/read/search on [a,b_c]");
}

/// A node reads them as Latin-1, and as UTF-8 where a `%` or `+` stands beside them.
#[test]
fn bytes_outside_of_ascii_are_percent_encoded() {
    assert_denied("GET", "/caf\u{e9}/_search", "");
    assert_denied("DELETE", "/?index=c*,-caf\u{e9}*", "");
    assert_needs("GET", "/caf%C3%A9/_search", "", "indices:data/read/search on [caf\u{e9}]");
}

/// The parsers of a node may end at another brace than their own: what follows is read as members
/// of an object that is around.
#[test]
fn a_member_that_a_node_reads_at_another_level_counts() {
    let early = r#""random_score":{"z":{}}"#;
    let everything = |index: &str| format!("indices:data/read/search on [{index}]");
    let lookup = |query: &str| {
        format!(
            r#"{{"query":{{"terms":{{"user":{{"path":"user","query":{{"function_score":{{{query}}},"index":"secret"}}}}}}}}}}"#
        )
    };
    let terms = lookup(early);
    assert_needs("POST", "/logs-a/_count", &terms, &everything("secret"));
    assert_needs("POST", "/logs-a/_search", &terms, &everything("secret"));
    assert_needs(
        "POST",
        "/_msearch",
        &format!("{{\"index\":\"logs-a\"}}\n{terms}\n"),
        &everything("secret"),
    );
    let reindex = format!(
        r#"{{"source":{{"index":"logs-a","query":{{"terms":{{"u":{{"path":"u","query":{{{early}}}}}}}}},"sort":[{{"index":"secret"}}]}},"dest":{{"index":"logs-b"}}}}"#
    );
    assert_needs("POST", "/_reindex", &reindex, &everything("secret"));
    let filter = format!(
        r#"{{"filter":{{"terms":{{"u":{{"path":"u","query":{{"function_score":{{{early}}},"index":"secret"}}}}}}}}}}"#
    );
    assert_needs("PUT", "/logs-a/_alias/x", &filter, &everything("secret"));
    for (key, value) in [
        ("percolate", r#"{"field":"f","document":{"z":{},"index":"secret"}}"#),
        ("more_like_this", r#"{"fields":["f"],"like":"x"}"#),
    ] {
        let body = format!(
            r#"{{"query":{{"bool":{{"must":[{{"{key}":{value}}},{{"match":{{"_index":["secret"]}}}}]}}}}}}"#
        );
        assert_needs("POST", "/logs-a/_search", &body, &everything("secret"));
    }
    for shape in [r#""x""#, "[{}]", "1", "null"] {
        let body = format!(
            r#"{{"query":{{"function_score":{{"query":{{"geo_shape":{{"g":{{"indexed_shape":{shape},"index":"secret","id":"1"}}}}}},{early}}}}}}}"#
        );
        assert_denied("POST", "/logs-a/_search", &body);
    }
    let pipeline = format!(r#"{{"query":{{"function_score":{{{early}}},"search_pipeline":"p"}}}}"#);
    assert_needs("POST", "/_msearch", &format!("{{\"index\":\"logs-a\"}}\n{pipeline}\n"), ALL);
    let pipeline = format!(
        r#"{{"query":{{"function_score":{{{early}}},"search_pipeline":{{"request_processors":[{{"ml_inference":{{}}}}]}}}}}}"#
    );
    assert_needs("POST", "/logs-a/_search", &pipeline, ALL);
    // Fields of these names, where nothing is looked up.
    for query in [
        r#"{"term":{"index":"x"}}"#,
        r#"{"match":{"_index":"secret"}}"#,
        r#"{"bool":{"must":[{"terms":{"f":["a","b"]}},{"term":{"index":"x"}},{"nested":{"path":"p","query":{"match_all":{}}}}]}}"#,
    ] {
        let body = format!(
            r#"{{"query":{query},"aggs":{{"a":{{"terms":{{"field":"f","order":{{"_count":"desc"}}}}}}}}}}"#
        );
        let body = if query.contains("path") { format!(r#"{{"query":{query}}}"#) } else { body };
        let needs = needs("POST", "/logs-a/_search", &body).expect("it is read");
        assert_eq!(needs, ["indices:data/read/search on [logs-a]"], "{body}");
    }
}

/// The bound on names holds for the values of a body with a look-up. Without a look-up they are no
/// names.
#[test]
fn a_body_may_have_any_number_of_values_that_are_no_names() {
    let many = vec!["1"; 60_000].join(",");
    let values = format!(r#"{{"index":[{many}]}}"#);
    let body = format!(r#"{{"query":{{"terms":{values}}}}}"#);
    assert_needs("POST", "/logs-a/_search", &body, "indices:data/read/search on [logs-a]");
    let body =
        format!(r#"{{"query":{{"bool":{{"must":[{{"terms":{values}}},{{"percolate":{{}}}}]}}}}}}"#);
    assert_denied("POST", "/logs-a/_search", &body);
    // However deep they are in each other.
    for key in ["profile", "search_pipeline"] {
        let nested = format!("{}{}{}", format!(r#"{{"{key}":"#).repeat(60), "1", "}".repeat(60));
        let body = format!(r#"{{"query":{{"term":{nested}}}}}"#);
        assert!(needs("POST", "/logs-a/_search", &body).is_ok());
    }
}

/// For a node an alias of a new index is over with an object that it does not know.
#[test]
fn an_alias_of_a_new_index_has_no_unknown_object() {
    for aliases in [
        r#"{"logs-own":{"x":{},"secret-w":{"is_write_index":true}}}"#,
        r#"{"logs-own":{"x":{"filter":{"match_all":{}},"routing":"r"},"secret-w":{"is_write_index":true}}}"#,
        r#"{"logs-own":{"x":[{}],"secret-w":{}}}"#,
        r#"{"logs-own":{"filter":{"match_all":{}},"routing":{},"secret-w":1}}"#,
        r#"{"logs-own":1}"#,
        r#"{"logs-own":[{}]}"#,
    ] {
        assert_denied("PUT", "/logs-x", &format!(r#"{{"aliases":{aliases}}}"#));
    }
    let known = r#"{"aliases":{"logs-own":{"filter":{"term":{"a":"b"}},"routing":"1","is_write_index":true}}}"#;
    assert_needs("PUT", "/logs-x", known, "indices:admin/aliases on the new alias logs-own");
}

/// A node would go on for ever.
#[test]
fn the_filter_of_term_vectors_is_an_object() {
    for filter in ["1", "[]", r#""x""#, r#"{"a":{}}"#] {
        let document = format!(r#"{{"_index":"logs-a","_id":"1","filter":{filter}}}"#);
        assert_denied("POST", "/_mtermvectors", &format!(r#"{{"docs":[{document}]}}"#));
    }
    let document =
        r#"{"_index":"logs-a","_id":"1","filter":{"max_num_terms":3,"min_term_freq":1}}"#;
    assert_needs(
        "POST",
        "/_mtermvectors",
        &format!(r#"{{"docs":[{document}]}}"#),
        "indices:data/read/mtv[shard] on logs-a",
    );
}
