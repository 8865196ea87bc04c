//! The needs of requests, as text.
#![expect(clippy::expect_used, reason = "a failed set-up is a failed test")]

use search::{Problem, Request, Target, read};

use crate::requests::request;

/// The needs of a request, as lines such as `indices:data/read/get on secret`.
pub(crate) fn needs_of(request: &Request<'_>) -> Result<Vec<String>, Problem> {
    let mut needs = Vec::new();
    read(request, &mut needs)?;
    let lines = needs.iter().flat_map(|need| {
        let target = match &need.target {
            Target::Cluster => "the cluster".to_owned(),
            Target::Name(name) => name.to_string(),
            Target::CreatedIfMissing(name) => format!("{name} if it is missing"),
            Target::AliasOrNewIndex(name) => format!("the new alias {name}"),
            Target::Indices(expression) | Target::Fixed(expression)
                if expression.is_empty_or_all() =>
            {
                "all".to_owned()
            }
            Target::Indices(expression) | Target::Fixed(expression) => {
                format!("[{}]", expression.text())
            }
        };
        need.actions.iter().map(move |action| format!("{} on {target}", action.name()))
    });
    Ok(lines.collect())
}

pub(crate) fn needs(method: &str, target: &str, body: &str) -> Result<Vec<String>, Problem> {
    needs_of(&request(method, target, body))
}

#[track_caller]
pub(crate) fn assert_needs(method: &str, target: &str, body: &str, wanted: &str) {
    let needs = needs(method, target, body).expect("it is read");
    assert!(needs.iter().any(|need| need == wanted), "{method} {target} {body} needs {needs:#?}");
}

#[track_caller]
pub(crate) fn assert_denied(method: &str, target: &str, body: &str) {
    let needs = needs(method, target, body);
    assert!(needs.is_err(), "{method} {target} {body} needs {needs:#?}");
}
