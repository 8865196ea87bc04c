//! The form that explains a request: why it would be answered as it would, and who may make it.

use authorizer::{Authorizer, ExplainedSubject, Explanation, NamedCaller, Request, WhoCan, split_target};
use maud::{Markup, html};
use runtime::clock;

use super::field;
use crate::question::{ExplainedFields, names};

/// What is shown in place of the values of headers, which may be secrets between the policy and an application.
const NOT_SHOWN: &str = "(not shown)";

pub(super) fn section(policy: Option<&Authorizer>, fields: &ExplainedFields) -> Markup {
    let issuers: Vec<&str> = policy
        .iter()
        .flat_map(|policy| &policy.loaded().policy.identity.jwt)
        .map(|jwt| &*jwt.issuer)
        .collect();
    let shown =
        |value: &str, default: &str| if value.is_empty() { default.to_owned() } else { value.to_owned() };
    html! {
        section #explain aria-labelledby="explain-head" {
            h2 #explain-head { "Explain a request" }
            form action="/console#explain" method="get" {
                (field("explain", "method", "Method", &shown(&fields.method, "GET"), "GET"))
                (field("explain", "host", "Host", &fields.host, "localhost"))
                (field("explain", "path", "Path or URL", &fields.path, "/people/7"))
                (field("explain", "user", "User", &fields.user, "none: without credentials"))
                @if !issuers.is_empty() {
                    div.field {
                        label for="explain-issuer" { "Token of" }
                        select id="explain-issuer" name="issuer" {
                            option value="" { "as the name says" }
                            @for issuer in &issuers { option value=(issuer) selected[*issuer == fields.issuer] { (issuer) } }
                        }
                    }
                }
                (field("explain", "groups", "More groups", &fields.groups, "a, b"))
                (field("explain", "roles", "More roles", &fields.roles, "a, b"))
                button type="submit" { "Explain" }
            }
            p.hint { "Give no password and no token: a user is taken as if it were authenticated." }
            @if !fields.path.is_empty() {
                @match policy {
                    None => p.trouble.problem { "No policy is active: every check gets an error." },
                    Some(policy) => @match explain(policy, fields) {
                        Ok((explanation, who)) => {
                            div.answer role="status" {
                                p.trouble.(if explanation.status == 200 { "good" } else { "problem" }) {
                                    strong { (verdict(&explanation)) }
                                }
                                pre tabindex="0" { (explanation) }
                                h3 { "Who may make this request" }
                                pre tabindex="0" { (who) }
                            }
                        }
                        Err(error) => p.trouble.problem role="status" { strong { "✗ Not a question: " } (error) },
                    },
                }
            }
        }
    }
}

fn verdict(explanation: &Explanation) -> String {
    match (explanation.status, &explanation.because) {
        (200, _) => "✓ 200 allowed".to_owned(),
        (status, Some(because)) => format!("✗ {status} denied: {because}"),
        (status, None) => format!("✗ {status} denied"),
    }
}

fn explain(policy: &Authorizer, fields: &ExplainedFields) -> Result<(Explanation, WhoCan), String> {
    let ExplainedFields { method, user, issuer, groups, roles, .. } = fields;
    let (path, url_host) = split_target(&fields.path);
    let given = [fields.host.as_str(), url_host.unwrap_or_default()];
    let host = given.into_iter().find(|host| !host.is_empty()).unwrap_or("localhost");
    let (groups, roles) = (names(groups), names(roles));
    let issuer = Some(issuer.as_str()).filter(|issuer| !issuer.is_empty());
    let subject = if user.is_empty() {
        if issuer.is_some() || !groups.is_empty() || !roles.is_empty() {
            return Err("an issuer, groups and roles are those of a user: name one".to_owned());
        }
        ExplainedSubject::OfCredentials
    } else {
        let named = NamedCaller { user, issuer, groups: &groups, roles: &roles };
        policy.named_caller(host, named)?.map_or_else(ExplainedSubject::Invalid, ExplainedSubject::Given)
    };
    let request = Request {
        method: if method.is_empty() { b"GET" } else { method.as_bytes() },
        host: host.as_bytes(),
        path: path.as_bytes(),
        ..Request::default()
    };
    let mut explanation = policy.explain(&request, subject, clock::now());
    let known = Some(user.as_str()).filter(|user| !user.is_empty() && issuer.is_none());
    explanation.notes.extend(policy.unknown_names(host, known, (&groups, &roles)));
    if explanation.cluster.as_ref().is_some_and(|cluster| cluster.depends_on_body) {
        explanation
            .notes
            .push("what this operation needs depends on its body, which is taken to be empty".to_owned());
    }
    if let Some(keys) = &mut explanation.without_keys {
        "none fetched".clone_into(keys);
    }
    for (_, value) in &mut explanation.set_headers {
        NOT_SHOWN.clone_into(value);
    }
    Ok((explanation, policy.who_can(&request, clock::now())))
}
