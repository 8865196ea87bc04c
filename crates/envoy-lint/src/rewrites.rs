//! Paths, methods and hosts that are rewritten behind the authorization. rolegate evaluates the
//! path as the client sent it. If two paths become the same for the application, a rule about one
//! of them does not cover the other. The host that a route sets for its cluster
//! (`host_rewrite_literal`) is usual, and is not reported.
//!
//! Internal redirects are not reported: the new request passes all filters again.

use document::View;

use crate::filter::Filter;
use crate::{Findings, Kind, client_routing, has_text, is_among, route_cache};

/// Filters that leave the path, the method and the host of a request as they were authorized. The
/// requests of `custom_response` pass all filters again.
const HARMLESS: &str = "\
    a2a adaptive_concurrency admission_control alternate_protocols_cache api_key_auth \
    aws_eventstream_parser aws_request_signing bandwidth_limit bandwidth_share basic_auth \
    body_size_limit buffer cache cache_v2 cdn_loop compressor cors credential_injector csrf \
    custom_response decompressor dynamic_forward_proxy ext_authz fault file_server \
    file_system_buffer gcp_authn geoip grpc_field_extraction grpc_stats grpc_web \
    header_to_metadata health_check ip_tagging istio json_to_metadata jwt_authn \
    local_ratelimit mcp oauth2 on_demand original_src proto_message_extraction \
    rate_limit_quota ratelimit rbac router set_metadata sse_to_metadata stateful_session tap \
    thrift_to_metadata upstream_codec";

/// The settings of a route that rewrite the path. Envoy accepts at most one per route.
const REWRITES: [&str; 4] =
    ["prefix_rewrite", "regex_rewrite", "path_rewrite_policy", "path_rewrite"];

/// Headers that rules depend on, and their names in messages.
const HEADERS: [(&str, &str); 4] =
    [(":path", PATH), (":method", "`:method`"), (":authority", "`:authority`"), ("host", "`host`")];

const PATH: &str = "path";

const FIX: &str = "write rules for the paths that clients send, not for those of the application, \
                   and accept this";

/// Reports rewrites on this route, or on the routes below this value.
pub(crate) fn lint(view: &View<'_>, findings: &mut Findings) {
    lint_route(view, findings);
    view.walk(&mut |key, value| {
        match key {
            "http_filters" | "access_log" => return false,
            "request_mutations" => lint_header(value.get("append/header"), findings),
            "request_headers_to_add" => lint_header(value.get("header"), findings),
            "query_parameter_mutations" => {
                report_rewritten(value, "query", findings);
                return false;
            }
            // Of `LuaPerRoute`.
            "source_code" => {
                lint_code(value, value, findings);
                return false;
            }
            _ => lint_route(value, findings),
        }
        true
    });
}

/// Reports a filter behind the authorization that may change the path, method or host.
pub(crate) fn lint_filter(filter: &Filter<'_>, findings: &mut Findings) {
    match filter.kind() {
        "header_mutation" => filter.all_configs().for_each(|config| lint(config, findings)),
        "set_filter_state" => {
            let states = filter.all_configs().flat_map(client_routing::states);
            states.for_each(|state| client_routing::lint_state(&state, findings));
        }
        "grpc_json_transcoder" => {
            let message = "rules are compared with the path that the client sent, and the \
                           application gets that of a gRPC method";
            findings.add(&filter.view, Kind::RewrittenPath, message, FIX);
        }
        "lua" => {
            for config in filter.all_configs() {
                lint_code(&filter.view, config, findings);
                if route_cache::has_code_elsewhere(config) {
                    lint_plugin(filter, findings);
                }
            }
        }
        kind if is_among(HARMLESS, kind) => {}
        // These filters run code that is not in the configuration.
        "dynamic_modules" | "ext_proc" | "golang" | "wasm" => lint_plugin(filter, findings),
        _ => {
            let message = format!(
                "`{}` turns, or may turn, an authorized request into another: rules are compared \
                 with what the client sent, and the application gets another path, method or host",
                filter.name()
            );
            let fix = "leave this out; or write rules for what clients send, and accept this";
            findings.add(&filter.view, Kind::OtherRequest, message, fix);
        }
    }
}

fn lint_plugin(filter: &Filter<'_>, findings: &mut Findings) {
    let message = format!(
        "whether `{}` changes an authorized request cannot be seen: rules are compared with what \
         the client sent, and the application may get another path, method or host",
        filter.name()
    );
    let fix = "accept this if it changes none of these";
    findings.add(&filter.view, Kind::PluginRewrite, message, fix);
}

/// Reports a setting that writes a header that rules depend on. Current versions of Envoy refuse
/// such a configuration; older versions accept `host`.
fn lint_header(header: Option<View<'_>>, findings: &mut Findings) {
    let Some(key) = header.as_ref().and_then(|header| header.get("key")) else { return };
    let text = key.text().unwrap_or_default();
    let Some((name, part)) = HEADERS.iter().find(|(name, _)| text.eq_ignore_ascii_case(name))
    else {
        return;
    };
    match header.and_then(|header| header.get("value")).filter(has_format) {
        Some(value) if [":authority", "host"].contains(name) => {
            client_routing::report_header(&value, findings);
        }
        Some(value) => lint_format(&value, part, findings),
        None => report_rewritten(&key, part, findings),
    }
}

/// Whether this has a part that Envoy fills in, such as `%REQ(x-path)%`.
fn has_format(value: &View<'_>) -> bool {
    value.text().is_some_and(|text| text.contains('%'))
}

/// Reports a format whose result the client can choose.
fn lint_format(value: &View<'_>, part: &str, findings: &mut Findings) {
    let message = format!(
        "rules are compared with the {part} that the client sent, and the application gets what \
         this format gives, such as a header of the client"
    );
    findings.add(value, Kind::AmbiguousRewrite, message, format!("write a {part} without `%`"));
}

/// Reports a part of the request that differs for the application.
fn report_rewritten(at: &View<'_>, part: &str, findings: &mut Findings) {
    let message = format!(
        "rules are compared with the {part} that the client sent, and the application gets another \
         one here"
    );
    findings.add(at, Kind::RewrittenPath, message, fix(part == PATH));
}

fn fix(is_path: bool) -> &'static str {
    if is_path {
        FIX
    } else {
        "write rules for what clients send, not for what the application gets, and accept this"
    }
}

/// Reports Lua code that may write headers that rules depend on.
fn lint_code(at: &View<'_>, code: &View<'_>, findings: &mut Findings) {
    let mut headers = HEADERS.to_vec();
    headers.retain(|(name, _)| has_text(code, &|text: &str| writes(text, name)));
    if headers.is_empty() {
        return;
    }
    let names: Vec<String> = headers.iter().map(|(_, part)| format!("the {part}")).collect();
    let those = if names.len() == 1 { "the one" } else { "those" };
    let message = format!(
        "this code may change {}: rules are compared with {those} that the client sent",
        names.join(" and ")
    );
    let is_path = headers.iter().all(|(_, part)| *part == PATH);
    findings.add(at, Kind::RewrittenPath, message, fix(is_path));
}

fn lint_route(route: &View<'_>, findings: &mut Findings) {
    let Some(action) = route.get("route") else { return };
    let case_setting = case_insensitive_setting(route);
    let rewrite = REWRITES.iter().find_map(|key| Some((*key, action.get(key)?)));
    let Some((key, rewrite)) = rewrite.filter(|(_, rewrite)| rewrite.text() != Some("")) else {
        case_setting.iter().for_each(|at| findings.add_kind(at, Kind::IgnoredCase));
        return;
    };
    if let Some(at) = case_setting.or_else(|| rewrite.get("pattern/regex").filter(ignores_case)) {
        let message = "paths that differ only in case become the same here, but rules distinguish \
                       them: a rule about `/api/x` does not match `/API/x`";
        let fix = "leave this out: match one case only";
        findings.add(&at, Kind::AmbiguousRewrite, message, fix);
        return;
    }
    if key == "path_rewrite" && has_format(&rewrite) {
        lint_format(&rewrite, PATH, findings);
        return;
    }
    let separated = route.text_of("match/path_separated_prefix");
    let prefix = route.text_of("match/prefix");
    let to = rewrite.text().filter(|_| key == "prefix_rewrite");
    if to.is_some() && to == prefix.or(separated) {
        return;
    }
    if let Some((message, fix)) = to.and_then(|to| ambiguous_prefix(prefix, separated, to)) {
        findings.add(&rewrite, Kind::AmbiguousRewrite, message, fix);
    } else if merges_paths(key, &rewrite, route) {
        let message = "several paths that clients send may become the same here: a rule about one \
                       of them does not match the others";
        let fix = "match: { prefix: \"/api/\" }, with `prefix_rewrite: \"/\"`; or write rules that \
                   hold for all of these paths, and accept this";
        findings.add(&rewrite, Kind::AmbiguousRewrite, message, fix);
    } else {
        report_rewritten(&rewrite, PATH, findings);
    }
}

/// The message and the fix if two paths become the same when `to` replaces the prefix.
fn ambiguous_prefix(
    prefix: Option<&str>,
    separated: Option<&str>,
    to: &str,
) -> Option<(String, String)> {
    let splits_segment = |prefix: &&str| !prefix.ends_with('/') && to.ends_with('/');
    let (prefix, message) = if let Some(prefix) = prefix.filter(splits_segment) {
        let message = format!(
            "`{prefix}x` becomes `{to}x` here, and a rule about `{prefix}/x` does not match it: \
             the prefix ends within a segment"
        );
        (prefix, message)
    } else {
        let prefix = separated.filter(|_| to == "/")?;
        let message = format!(
            "`{prefix}/a/x` becomes `//a/x` here, which many applications take for `/x` on the \
             host `a`, and a rule about `{prefix}/x` does not match it"
        );
        (prefix, message)
    };
    Some((message, format!("match: {{ prefix: \"{prefix}/\" }}")))
}

/// Whether several paths of a route may become the same for other reasons than in
/// [`ambiguous_prefix`].
fn merges_paths(key: &str, rewrite: &View<'_>, route: &View<'_>) -> bool {
    if route.text_of("match/path").is_some() {
        return false;
    }
    let separated = route.text_of("match/path_separated_prefix");
    let prefix = route.text_of("match/prefix").or(separated);
    // A patch may have a `route` without the `match`: nothing is known about its paths then.
    let has_match = route.get("match").is_some();
    match key {
        "prefix_rewrite" => prefix.is_none() && has_match,
        "regex_rewrite" => {
            !prefix.is_some_and(|prefix| keeps_apart(rewrite, prefix, separated.is_some()))
        }
        "path_rewrite_policy" => !keeps_variables(route, rewrite),
        _ => has_match,
    }
}

/// Whether this `regex_rewrite` replaces only the prefix that its route matches, and so keeps paths
/// apart. `is_separated`: whether the prefix matches whole segments only.
fn keeps_apart(rewrite: &View<'_>, prefix: &str, is_separated: bool) -> bool {
    // The route matches only paths with this prefix. So it does not matter whether the pattern
    // escapes the characters of the prefix.
    let pattern = rewrite.text_of("pattern/regex").unwrap_or_default().replace('\\', "");
    let Some(end) = pattern.strip_prefix('^').and_then(|pattern| pattern.strip_prefix(prefix))
    else {
        return false;
    };
    // `takes_slashes`: whether the pattern also matches the slashes after the prefix.
    let (group, takes_slashes) = match (end.strip_suffix('$').unwrap_or(end), is_separated) {
        ("", _) => ("", false),
        ("(.*)", _) => ("\\1", false),
        // Envoy Gateway and Istio write these where `/` replaces a prefix. They keep paths apart,
        // because Envoy merges adjacent slashes before it rewrites the path.
        ("/*", true) => ("", true),
        ("/*(.*)", true) => ("\\1", true),
        ("(/?)(.*)", true) => ("\\2", true),
        _ => return false,
    };
    let to = rewrite.text_of("substitution").unwrap_or_default();
    to.strip_suffix(group).is_some_and(|to| {
        !to.contains('\\') && (takes_slashes || prefix.ends_with('/') || !to.ends_with('/'))
    })
}

/// Whether the rewrite keeps every `{name}` of the matched template, and the template has no `*`
/// without a name.
fn keeps_variables(route: &View<'_>, rewrite: &View<'_>) -> bool {
    let from = route.text_of("match/path_match_policy/typed_config/path_template");
    let to = rewrite.text_of("typed_config/path_template_rewrite");
    let (Some(from), Some(to)) = (from, to) else { return false };
    let mut parts = from.split('{');
    !parts.next().unwrap_or_default().contains('*')
        && parts.all(|part| {
            let (variable, literal) = part.split_once('}').unwrap_or((part, ""));
            let name = variable.split('=').next().unwrap_or_default();
            to.contains(&format!("{{{name}}}")) && !literal.contains('*')
        })
}

/// The setting that makes a route ignore the case of the path.
fn case_insensitive_setting<'n>(route: &View<'n>) -> Option<View<'n>> {
    if let Some(regex) = route.get("match/safe_regex/regex") {
        return Some(regex).filter(ignores_case);
    }
    // A value that cannot be read is assumed to be unsafe.
    route.get("match/case_sensitive").filter(|value| value.boolean() != Some(true))
}

/// Whether at least a part of this RE2 expression ignores case.
fn ignores_case(regex: &View<'_>) -> bool {
    regex.text().is_some_and(|text| text.contains("(?i"))
}

/// Whether this Lua code may write this header: the code contains its name, and writes it or a
/// header whose name is in a variable.
fn writes(code: &str, header: &str) -> bool {
    let code = code.to_ascii_lowercase();
    let quotes = [("\"", "\""), ("'", "'"), ("[[", "]]")];
    let is_named =
        quotes.iter().any(|(open, close)| code.contains(&format!("{open}{header}{close}")));
    let mut calls = [":replace", ":add"].into_iter().flat_map(|call| code.split(call).skip(1));
    is_named
        && calls.any(|call| {
            let argument = call.trim_start().strip_prefix('(').map(str::trim_start);
            argument.is_some_and(|text| quoted(text).is_none_or(|text| text == header))
        })
}

/// The text of a quoted argument that is followed by another argument.
fn quoted(argument: &str) -> Option<&str> {
    let quote = argument.chars().next().filter(|c| ['"', '\''].contains(c))?;
    let (text, end) = argument.strip_prefix(quote)?.split_once(quote)?;
    end.trim_start().starts_with(',').then_some(text)
}
