//! The form that explains a request: its answer, the reason, and who may make it.

use std::fmt::{self, Display, Write};

use authorizer::{Authorizer, Request, RequestBody};
use explain::{ExplainedSubject, Explainer, Explanation, NamedCaller, WhoCan, split_target};
use maud::{Markup, html};
use runtime::clock;

use super::field;
use crate::question::{ExplainedFields, names};

/// The maximum number of groups, and of roles, in a question.
const MAX_NAMES: usize = 100;
/// The maximum number of matching rules that are listed, and of the roles of each.
const MAX_LISTED: usize = 50;
/// The maximum length of an answer in bytes.
const MAX_ANSWER: usize = 256 << 10;

pub(super) fn section(policy: Option<&Authorizer>, fields: &ExplainedFields) -> Markup {
    let issuers: Vec<&str> = policy
        .iter()
        .flat_map(|policy| &policy.loaded().policy.identity.jwt)
        .map(|jwt| &*jwt.issuer)
        .collect();
    let method = if fields.method.is_empty() { "GET" } else { &fields.method };
    html! {
        form action="/console#explain" method="get" {
            (field("explain", "method", "Method", method, "GET"))
            (field("explain", "host", "Host", &fields.host, "localhost"))
            (field("explain", "path", "Path or URL", &fields.path, "/people/7"))
            (field("explain", "user", "User", &fields.user, "none: without credentials"))
            @if !issuers.is_empty() {
                div.field {
                    label for="explain-issuer" { "Issuer of the token" }
                    select id="explain-issuer" name="issuer" {
                        option value="" { "determined by the user name" }
                        @for issuer in &issuers {
                            option value=(issuer) selected[*issuer == fields.issuer] { (issuer) }
                        }
                    }
                }
            }
            (field("explain", "groups", "Additional groups", &fields.groups, "a, b"))
            (field("explain", "roles", "Additional roles", &fields.roles, "a, b"))
            button type="submit" { "Explain" }
        }
        p.hint {
            "Enter no password and no token: the answer assumes that the user's credentials are \
             valid. Additional roles are those in the token. Its issuer must be permitted to give \
             them. Users of Basic have the roles of the policy only."
        }
        @if !fields.path.is_empty() {
            @match policy {
                None => p.trouble.problem { "No policy is active: every check gets an error." },
                Some(policy) => @match explain(policy, fields) {
                    Ok((explanation, who)) => {
                        div.answer role="status" {
                            p.trouble.(if explanation.status == 200 { "good" } else { "problem" }) {
                                strong { (verdict(&explanation)) }
                                (assumption(fields, &explanation))
                            }
                            pre tabindex="0" { (cut(&explanation)) }
                            h3 { "Who may make this request" }
                            pre tabindex="0" { (cut(&who)) }
                        }
                    }
                    Err(error) => (no_answer(&error)),
                },
            }
        }
    }
}

/// The answer to a question that has an error.
pub(super) fn no_answer(error: &str) -> Markup {
    html! { p.trouble.problem role="status" { strong { "✗ No answer: " } (error) } }
}

fn verdict(explanation: &Explanation) -> String {
    match (explanation.status, &explanation.because) {
        (200, _) => "✓ 200 allowed".to_owned(),
        (status, Some(because)) => format!("✗ {status} denied: {because}"),
        (status, None) => format!("✗ {status} denied"),
    }
}

/// The assumption that the answer is based on.
fn assumption(fields: &ExplainedFields, explanation: &Explanation) -> Markup {
    let user = &fields.user;
    html! {
        br;
        span.hint {
            @if user.is_empty() {
                "This is the answer to a request without credentials."
            } @else if explanation.status == 401 {
                "No credentials of " code { (user) } " can be valid."
            } @else {
                "This assumes that the credentials of " code { (user) } " are valid: nothing was \
                 verified. With a wrong password or an invalid token the answer is 401. " a href="#denials" {
                 "Last denials" } " has the reason of a denial that differs."
            }
        }
    }
}

/// The text of an answer, cut if it is very long.
fn cut(answer: &impl Display) -> String {
    let mut cut = Cut(String::new());
    if write!(cut, "{answer}").is_err() {
        cut.0.push_str("\n… cut: `rolegate explain` and `rolegate who-can` print all");
    }
    cut.0
}

/// A text that takes no more than [`MAX_ANSWER`].
struct Cut(String);

impl Write for Cut {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let room = text.floor_char_boundary(MAX_ANSWER.saturating_sub(self.0.len()));
        let fitting = text.get(..room).unwrap_or_default();
        self.0.push_str(fitting);
        if fitting.len() == text.len() { Ok(()) } else { Err(fmt::Error) }
    }
}

fn explain(policy: &Authorizer, fields: &ExplainedFields) -> Result<(Explanation, WhoCan), String> {
    let explainer = Explainer::new(policy);
    let ExplainedFields { method, user, issuer, groups, roles, .. } = fields;
    let (path, url_host) = split_target(&fields.path);
    let hosts = [fields.host.as_str(), url_host.unwrap_or_default()];
    let given_host = hosts.into_iter().find(|host| !host.is_empty());
    let host = given_host.unwrap_or("localhost");
    let (groups, roles) = (names(groups), names(roles));
    if groups.len().max(roles.len()) > MAX_NAMES {
        return Err(format!("at most {MAX_NAMES} groups and {MAX_NAMES} roles are possible"));
    }
    let issuer = Some(issuer.as_str()).filter(|issuer| !issuer.is_empty());
    let subject = if user.is_empty() {
        if issuer.is_some() || !groups.is_empty() || !roles.is_empty() {
            return Err("an issuer, groups and roles need a user".to_owned());
        }
        ExplainedSubject::FromRequest
    } else {
        let caller = NamedCaller { user, issuer, groups: &groups, roles: &roles };
        let subject = explainer.named_caller(host, caller).map_err(|error| error.to_string())?;
        subject.map_or_else(ExplainedSubject::Invalid, ExplainedSubject::Given)
    };
    let request = Request {
        method: if method.is_empty() { b"GET" } else { method.as_bytes() },
        host: host.as_bytes(),
        path: path.as_bytes(),
        body: RequestBody::Whole(b""),
        ..Request::default()
    };
    let mut explanation = explainer.explain(&request, subject, clock::now());
    if !user.is_empty() {
        explanation.notes.extend(explainer.missing_identity_note(host).map(str::to_owned));
    }
    // With an issuer, `named_caller` has checked the name.
    let unchecked = (!user.is_empty() && issuer.is_none()).then_some(user.as_str());
    explanation.notes.extend(explainer.unknown_name_messages(host, unchecked, (&groups, &roles)));
    if explanation.cluster.as_ref().is_some_and(|cluster| cluster.depends_on_body) {
        explanation.notes.push(
            "the needs of this operation depend on its body, which is assumed to be empty"
                .to_owned(),
        );
    }
    if let Some(keys) = &mut explanation.keys_note {
        // Shown only if no keys are active.
        "none fetched".clone_into(keys);
    }
    for (_, value) in &mut explanation.set_headers {
        // May be a secret between the policy and an application.
        "(not shown)".clone_into(value);
    }
    let mut who_can = explainer.who_can_listing(&request, clock::now(), MAX_LISTED);
    if given_host.is_none() {
        who_can.notes.extend(explainer.other_hosts(&request));
    }
    Ok((explanation, who_can))
}

#[cfg(test)]
mod tests {
    use super::{MAX_ANSWER, cut};

    #[test]
    fn a_very_long_answer_is_cut() {
        assert_eq!(cut(&"ä"), "ä");
        let long = cut(&"ä".repeat(MAX_ANSWER));
        assert!(long.len() < MAX_ANSWER + 100 && long.ends_with("print all"), "{}", long.len());
    }
}
