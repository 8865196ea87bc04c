//! Holds a running stack to the cases beside a policy.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use policy::cases::{Case, Expect, Proof};
use policy::model::Identity;
use serde_json::Value;

use crate::client::{Answer, Connection};
use crate::process::Failed;
use crate::tokens::Signer;

/// What came of a case.
#[derive(Debug)]
pub struct Ran {
    /// The status that came.
    pub status: u16,
    /// What is not as the case says; empty where all is.
    pub wrong: Vec<String>,
}

/// Runs a case against Envoy.
///
/// # Errors
/// When the request cannot be sent or no answer comes.
pub async fn run(
    connection: &mut Connection,
    case: &Case,
    identity: &Identity,
    signer: Option<&Signer>,
) -> Result<Ran, Failed> {
    let request = &case.request;
    if request.at.is_some() {
        return Err(Failed::new(
            case.name.as_str(),
            "a running rolegate has no other clock than the machine's",
        ));
    }
    let mut headers = request.headers.clone();
    headers
        .extend(authorization(&request.proof, identity, signer)?.map(|it| ("authorization".to_owned(), it)));
    let answer = connection.send(&request.method, &request.path, &request.host, &headers, b"").await?;
    Ok(Ran { status: answer.status, wrong: differences(&case.expect, &request.method, &answer) })
}

/// The value of the `Authorization` header that carries a proof.
///
/// # Errors
/// When the proof is claims and there is nobody to sign them.
pub fn authorization(
    proof: &Proof,
    identity: &Identity,
    signer: Option<&Signer>,
) -> Result<Option<String>, Failed> {
    Ok(match proof {
        Proof::None => None,
        Proof::Basic(both) => Some(format!("Basic {}", STANDARD.encode(both))),
        Proof::Bearer(token) => Some(format!("Bearer {token}")),
        Proof::Claims(claims) => {
            let signer = signer.ok_or_else(|| Failed::new("claims", "nobody can sign them"))?;
            Some(format!("Bearer {}", signer.valid(identity, claims)?))
        }
    })
}

fn differences(expect: &Expect, method: &str, answer: &Answer) -> Vec<String> {
    let mut wrong = Vec::new();
    if answer.status != expect.status {
        wrong.push(format!("status {} instead of {}", answer.status, expect.status));
        return wrong;
    }
    let echo = answer.json();
    for (name, value) in &expect.headers {
        let got = match expect.status {
            200 if method == "HEAD" => Some("not to be seen, as the answer has no body".to_owned()),
            200 => echoed(&echo, name),
            _ => answer.header(name),
        };
        if got.as_deref().unwrap_or_default() != value {
            wrong.push(format!("header `{name}` is {got:?} instead of `{value}`"));
        }
    }
    wrong
}

/// A header as it reached the application; lines of the same name are joined by `, `.
fn echoed(echo: &Value, name: &str) -> Option<String> {
    let lines = echo.get("headers")?.get(name.to_ascii_lowercase())?.as_array()?;
    Some(lines.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(", "))
}
