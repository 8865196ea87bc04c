//! Evaluates policies of Istio, as their documentation says: slow and obvious.

use serde_json::Value;

/// A request of a client at 10.0.0.1.
#[derive(Debug)]
pub(crate) struct Request {
    pub(crate) method: &'static str,
    pub(crate) path: &'static str,
    pub(crate) host: &'static str,
    /// The lines of the header `x-team`.
    pub(crate) teams: Vec<&'static str>,
    pub(crate) token: Option<Token>,
}

/// A valid token, if a `RequestAuthentication` accepts its issuer. Otherwise it does not count.
#[derive(Debug)]
pub(crate) struct Token {
    pub(crate) issuer: &'static str,
    pub(crate) subject: &'static str,
    pub(crate) groups: Vec<&'static str>,
    /// A text, or a list of texts.
    pub(crate) tags: Option<Value>,
}

/// `DENY` first; then, if there is an `ALLOW` policy, one of them must match.
pub(crate) fn is_allowed(resources: &[Value], request: &Request) -> bool {
    let issuers: Vec<&str> = resources
        .iter()
        .flat_map(|resource| list(&resource["spec"]["jwtRules"]))
        .filter_map(|rule| rule["issuer"].as_str())
        .collect();
    let token = request.token.as_ref().filter(|token| issuers.contains(&token.issuer));
    let policies = |action: &str| {
        let is = |resource: &&Value| {
            resource["kind"] == "AuthorizationPolicy" && resource["spec"]["action"] == action
        };
        resources.iter().filter(is).collect::<Vec<_>>()
    };
    let matches = |policy: &&Value| {
        list(&policy["spec"]["rules"]).iter().any(|rule| holds(rule, request, token))
    };
    if policies("DENY").iter().any(matches) {
        return false;
    }
    let allow = policies("ALLOW");
    allow.is_empty() || allow.iter().any(matches)
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn holds(rule: &Value, request: &Request, token: Option<&Token>) -> bool {
    let one = |list: &[Value], inner: &str| {
        list.is_empty() || list.iter().any(|item| fields_hold(&item[inner], request, token))
    };
    one(list(&rule["from"]), "source")
        && one(list(&rule["to"]), "operation")
        && list(&rule["when"]).iter().all(|when| {
            let key = when["key"].as_str().unwrap();
            let any = |values: &Value| {
                list(values).iter().any(|value| has(key, value.as_str().unwrap(), request, token))
            };
            (when["values"].is_null() || any(&when["values"]))
                && (when["notValues"].is_null() || !any(&when["notValues"]))
        })
}

fn fields_hold(fields: &Value, request: &Request, token: Option<&Token>) -> bool {
    fields.as_object().unwrap().iter().all(|(name, values)| {
        let (negated, name) = match name.strip_prefix("not") {
            Some(name) => (true, name.to_lowercase()),
            None => (false, name.to_lowercase()),
        };
        let any =
            list(values).iter().any(|value| has(&name, value.as_str().unwrap(), request, token));
        any != negated
    })
}

fn has(name: &str, value: &str, request: &Request, token: Option<&Token>) -> bool {
    match name {
        "methods" => wildcard(value, request.method),
        "hosts" => wildcard(value, request.host),
        "paths" if value.contains("{*") => template(value, request.path),
        "paths" => wildcard(value, request.path),
        "ipblocks" | "source.ip" | "remote.ip" => value == "10.0.0.0/8",
        // Envoy joins several lines.
        "request.headers[X-Team]" if value == "*" => !request.teams.is_empty(),
        "request.headers[X-Team]" => {
            !request.teams.is_empty() && wildcard(value, &request.teams.join(","))
        }
        "request.auth.claims[tags]" => {
            let tags = token.and_then(|token| token.tags.as_ref());
            tags.is_some_and(|tags| {
                let texts = tags.as_array().cloned().unwrap_or_else(|| vec![tags.clone()]);
                texts.iter().any(|tag| wildcard(value, tag.as_str().unwrap()))
            })
        }
        "request.auth.principal" | "requestprincipals" => token.is_some_and(|token| {
            let (issuer, subject) = value.rsplit_once('/').unwrap_or(("*", value));
            [(issuer, token.issuer), (subject, token.subject)]
                .iter()
                .all(|(pattern, text)| wildcard(pattern, text))
        }),
        "request.auth.claims[groups]" => token.is_some_and(|token| token.groups.contains(&value)),
        "request.auth.claims[iss]" => token.is_some_and(|token| token.issuer == value),
        other => panic!("{other}"),
    }
}

/// Exact, prefix, suffix or presence.
fn wildcard(pattern: &str, text: &str) -> bool {
    if pattern == "*" {
        return !text.is_empty();
    }
    if let Some(end) = pattern.strip_prefix('*') {
        return text.ends_with(end);
    }
    pattern.strip_suffix('*').map_or(pattern == text, |start| text.starts_with(start))
}

/// `{*}` is one segment, `{**}` any number.
fn template(pattern: &str, path: &str) -> bool {
    match (pattern.split_once('/'), path.split_once('/')) {
        _ if pattern == "{**}" => true,
        (Some((first, pattern)), Some((segment, path))) => {
            one(first, segment) && template(pattern, path)
        }
        (None, None) => one(pattern, path),
        _ => false,
    }
}

fn one(pattern: &str, segment: &str) -> bool {
    if pattern == "{*}" { !segment.is_empty() } else { pattern == segment }
}
