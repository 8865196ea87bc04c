//! Queries, extensions and processors of plugins: what they do in the name of the caller.

use crate::needs::{assert_needs, needs};

/// Queries and extensions of plugins: a template in a text, a model, an index in which each search
/// is recorded.
#[test]
fn queries_of_plugins_need_what_they_do() {
    let all = "indices:data/read/get on all";
    let template = r#""{\"more_like_this\":{\"like\":[{\"_index\":\"secret\",\"_id\":\"1\"}]}}""#;
    let feature = format!(
        r#"{{"feature":{{"name":"f","template_language":"mustache","template":{template}}}}}"#
    );
    let query = format!(r#"{{"query":{{"validating_ltr_query":{feature}}}}}"#);
    assert_needs("POST", "/public/_search", &query, all);
    assert_needs("POST", "/public/_count", &query, all);
    for kind in ["neural", "neural_sparse"] {
        let query =
            format!(r#"{{"query":{{"{kind}":{{"v":{{"query_text":"x","model_id":"m"}}}}}}}}"#);
        assert_needs(
            "POST",
            "/public/_search",
            &query,
            "cluster:admin/opensearch/ml/predict on the cluster",
        );
    }
    let tokens = r#"{"query":{"neural_sparse":{"v":{"query_tokens":{"hello":1.2}}}}}"#;
    let needed = needs("POST", "/public/_search", tokens).expect("it is read");
    assert!(!needed.iter().any(|need| need.contains("predict")), "{needed:#?}");
    let recorded = r#"{"ext":{"ubi":{"query_id":"q","user_query":"forged"}}}"#;
    assert_needs("POST", "/public/_search", recorded, "indices:data/write/index on ubi_queries");
    // Once, however often it is there.
    let often = format!("{}1{}", r#"{"neural":{"model_id":"#.repeat(20), "}}".repeat(20));
    let needed = needs("POST", "/public/_search", &often).expect("it is read");
    assert_eq!(needed.iter().filter(|need| need.contains("predict")).count(), 1, "{needed:#?}");
}

/// `text_embedding` with `skip_existing` gets the document that `_index` and `_id` name, and copies
/// a field of it.
#[test]
fn a_simulated_ingest_pipeline_may_read_any_document() {
    let all = "indices:data/read/get on all";
    assert_needs("POST", "/_ingest/pipeline/_simulate", "{}", all);
    assert_needs("POST", "/_ingest/pipeline/p/_simulate", "{}", all);
    assert_needs("PUT", "/public/_doc/1?pipeline=p", "{}", all);
    assert_needs("POST", "/public/_bulk", "{\"index\":{\"pipeline\":\"p\"}}\n{}\n", all);
}
