//! Paths that are rewritten behind the authorization. rolegate evaluates the path as the client sent it, and the
//! application gets the rewritten one: where two paths become the same one, a rule about one of them does not hold for it.
//!
//! Internal redirects are none of these: the new request passes all filters again.

use policy::document::View;

use crate::{Findings, Kind};

/// What rewrites the path on a route; Envoy accepts one of them.
const REWRITES: [&str; 4] = ["prefix_rewrite", "regex_rewrite", "path_rewrite_policy", "path_rewrite"];

const FIX: &str =
    "write rules for the paths that clients send, not for those of the application, and accept this";

/// Reports rewritten paths on the routes below this value.
pub(crate) fn lint(view: &View<'_>, findings: &mut Findings) {
    if let Some(action) = view.get("route") {
        lint_route(view.get("match"), &action, findings);
    }
    for (key, value) in view.entries() {
        match &*key {
            "http_filters" | "access_log" => {}
            "request_mutations" => lint_mutations(&value, findings),
            _ => lint(&value, findings),
        }
    }
    view.items().iter().for_each(|item| lint(item, findings));
}

/// Reports a filter of this kind behind the authorization that gives the application another path.
pub(crate) fn lint_filter(filter: &View<'_>, kind: &str, findings: &mut Findings) {
    let Some(config) = filter.get("typed_config") else { return };
    match kind {
        "header_mutation" => lint(&config, findings),
        "grpc_json_transcoder" => {
            let message = "rules are compared with the path that the client sent, and the application gets that of a gRPC method";
            findings.add(filter, Kind::RewrittenPath, message, FIX);
        }
        "lua" if has_text(&config, &writes_path) => {
            let message =
                "this code may change the path: rules are compared with the one that the client sent";
            findings.add(filter, Kind::RewrittenPath, message, FIX);
        }
        _ => {}
    }
}

fn lint_mutations(mutations: &View<'_>, findings: &mut Findings) {
    for mutation in mutations.items() {
        let key = mutation.at(&["append", "header", "key"]);
        if let Some(key) = key.filter(|key| key.text() == Some(":path")) {
            findings.add(&key, Kind::RewrittenPath, REWRITTEN, FIX);
        }
    }
}

const REWRITTEN: &str =
    "rules are compared with the path that the client sent, and the application gets another one here";

fn lint_route(matching: Option<View<'_>>, action: &View<'_>, findings: &mut Findings) {
    let any_case = matching.as_ref().and_then(ignores_case);
    let rewrite = REWRITES.iter().find_map(|key| Some((*key, action.get(key)?)));
    let Some((key, rewrite)) = rewrite.filter(|(_, rewrite)| rewrite.text() != Some("")) else {
        if let Some(at) = any_case {
            let message = "the route matches in any case, and rules do not: an application that ignores the case, too, serves \
                           `/ADMIN` as `/admin`, which a rule about `/admin` does not match";
            let fix = "leave this out; or accept it if the application distinguishes them";
            findings.add(&at, Kind::IgnoredCase, message, fix);
        }
        return;
    };
    let any_case = any_case.or_else(|| rewrite.at(&["pattern", "regex"]).filter(has_any_case));
    if let Some(at) = any_case {
        let message = "paths in any case become the same one here, and rules distinguish them: a rule about `/api/x` does not match \
                       `/API/x`";
        findings.add(&at, Kind::AmbiguousRewrite, message, "leave this out: match one case only");
        return;
    }
    let text = rewrite.text().unwrap_or_default();
    if key == "path_rewrite" && text.contains('%') {
        let message = "rules are compared with the path that the client sent, and the application gets what this format gives, such \
                       as a header of the client";
        findings.add(&rewrite, Kind::AmbiguousRewrite, message, "write a path without `%`");
        return;
    }
    if key == "prefix_rewrite" {
        let prefix = |key: &str| matching.as_ref().and_then(|matching| matching.text_of(key));
        let (any, separated) = (prefix("prefix"), prefix("path_separated_prefix"));
        if any.or(separated) == Some(text) {
            return;
        }
        if let Some((message, fix)) = ambiguous_prefix(any, separated, text) {
            findings.add(&rewrite, Kind::AmbiguousRewrite, message, fix);
            return;
        }
    }
    findings.add(&rewrite, Kind::RewrittenPath, REWRITTEN, FIX);
}

/// Why what replaces this prefix gives two paths the same meaning, and what to write.
fn ambiguous_prefix(any: Option<&str>, separated: Option<&str>, to: &str) -> Option<(String, String)> {
    let fix = |prefix: &str| format!("match: {{ prefix: \"{prefix}/\" }}");
    if let Some(prefix) = any.filter(|prefix| !prefix.ends_with('/') && to.ends_with('/')) {
        let message = format!(
            "`{prefix}x` becomes `{to}x` here, and a rule about `{prefix}/x` does not match it: the prefix ends within a segment"
        );
        return Some((message, fix(prefix)));
    }
    let prefix = separated.filter(|_| to == "/")?;
    let message = format!(
        "`{prefix}/a/x` becomes `//a/x` here, which many applications take for `/x` on the host `a`, and a rule about `{prefix}/x` \
         does not match it"
    );
    Some((message, fix(prefix)))
}

/// What says that a `RouteMatch` ignores the case of the path.
fn ignores_case<'n>(matching: &View<'n>) -> Option<View<'n>> {
    if let Some(regex) = matching.at(&["safe_regex", "regex"]) {
        return Some(regex).filter(has_any_case);
    }
    // As elsewhere, what cannot be read counts as what is unsafe.
    matching.get("case_sensitive").filter(|value| value.boolean() != Some(true))
}

/// Whether this regular expression of RE2 ignores the case, at least in a part.
fn has_any_case(regex: &View<'_>) -> bool {
    regex.text().is_some_and(|text| text.contains("(?i"))
}

/// Whether this code may write the header `:path`.
fn writes_path(code: &str) -> bool {
    code.contains(":path") && [":replace(", ":add("].iter().any(|call| code.contains(call))
}

fn has_text(view: &View<'_>, is_it: &dyn Fn(&str) -> bool) -> bool {
    view.text().is_some_and(is_it)
        || view.entries().iter().any(|(_, value)| has_text(value, is_it))
        || view.items().iter().any(|item| has_text(item, is_it))
}
