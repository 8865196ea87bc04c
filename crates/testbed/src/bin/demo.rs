//! `make demo`: the people example behind a real Envoy, held to its policy and to its cases.
//!
//! Nothing here says what the answers should be. Who may do what is computed from the policy by the reference
//! evaluator; what else must hold stands in `policies/people/cases.yaml`.

use std::collections::BTreeSet;
use std::io::{self, Write};
use std::process::ExitCode;
use std::sync::Arc;

use policy::cases::{Case, Expect, Proof, Request};
use policy::reference::{Answer, Caller as Asking, Question, decide};
use testbed::client::Version;
use testbed::golden::{self, Caller, Ran};
use testbed::policies::Example;
use testbed::{Failed, Options, Stack};

#[tokio::main]
async fn main() -> ExitCode {
    match demo(&mut io::stdout()).await {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            // Where standard error is gone as well there is nobody to tell.
            let _ = writeln!(io::stderr(), "demo: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Runs it all: whether everything was as the policy and its cases say.
async fn demo(out: &mut impl Write) -> Result<bool, Box<dyn std::error::Error>> {
    let example = Example::named("people")?;
    let mut options = Options::default();
    options.arguments.extend(golden::ARGUMENTS);
    let stack = Stack::start(&testbed::program()?, &example.file, &options).await?;
    writeln!(out, "Envoy {} -> rolegate (Unix socket) -> app {}", stack.envoy.address, stack.app.address)?;

    writeln!(out, "\nWho may do what, by the policy ({}):\n", shown(&example))?;
    let mut right = table(out, &stack, &example, &matrix(&example)).await?;
    writeln!(out, "\nWhat else must hold, by the cases beside it:\n")?;
    right &= table(out, &stack, &example, &example.cases).await?;

    writeln!(
        out,
        "\n{}",
        if right { "all as the policy says" } else { "NOT as the policy says: see the lines marked !" }
    )?;
    if std::env::var_os("KEEP").is_some_and(|it| !it.is_empty() && it != "0") {
        keep(out, &stack).await?;
    }
    Ok(right)
}

/// Runs cases and shows each: whether all were as expected.
async fn table(
    out: &mut impl Write,
    stack: &Stack,
    example: &Example,
    cases: &[Case],
) -> Result<bool, Box<dyn std::error::Error>> {
    let identity = &example.loaded.policy.identity;
    let mut caller = Caller::connect(stack, identity, None, Version::Http1).await?;
    writeln!(out, "  {:<10}{:<32}{:>9}{:>6}  why", "caller", "request", "expected", "got")?;
    let mut right = true;
    for case in cases {
        let ran = caller.run(case).await?;
        right &= ran.wrong.is_empty();
        let mark = if ran.wrong.is_empty() { ' ' } else { '!' };
        let request = format!("{} {}", case.request.method, case.request.path);
        let (who, expected) = (name(&case.request.proof), case.expect.status);
        writeln!(out, "{mark} {who:<10}{request:<32}{expected:>9}{:>6}  {}", ran.status, why(&ran))?;
    }
    Ok(right)
}

/// Every caller that the cases know, with every method that the policy speaks of and one more.
fn matrix(example: &Example) -> Vec<Case> {
    let mut seen = BTreeSet::new();
    let all = example.cases.iter().filter(|it| it.request.headers.is_empty());
    let callers: Vec<&Case> = all.filter(|it| seen.insert(format!("{:?}", it.request.proof))).collect();
    let methods = ["GET", "POST", "DELETE"];
    callers.iter().flat_map(|like| methods.map(|method| asked(example, like, method))).collect()
}

/// What must come when the caller of this case sends this method to `/people`.
fn asked(example: &Example, like: &Case, method: &str) -> Case {
    // A proof that some case lets in, or forbids something, is one that verifies.
    let same = |it: &&Case| format!("{:?}", it.request.proof) == format!("{:?}", like.request.proof);
    let verifies = example.cases.iter().filter(same).any(|it| matches!(it.expect.status, 200 | 403));
    let user = match &like.request.proof {
        Proof::Basic(both) if verifies => both.split(':').next(),
        _ => None,
    };
    let question = Question { action: method.as_bytes(), scope: b"localhost", resource: b"/people" };
    let asking = Asking { user, groups: groups(example, user), roles: Vec::new() };
    let refused_proof = user.is_none() && !matches!(like.request.proof, Proof::None);
    let status = match decide(&example.loaded.policy, &asking, &question) {
        _ if refused_proof => 401,
        Answer::Allowed(_) => 200,
        Answer::Denied(_) | Answer::NotAllowed if user.is_none() => 401,
        Answer::Denied(_) | Answer::NotAllowed => 403,
    };
    Case {
        name: format!("{method} /people"),
        request: Request {
            method: method.to_owned(),
            path: "/people".to_owned(),
            host: "localhost".to_owned(),
            headers: Vec::new(),
            proof: like.request.proof.clone(),
            at: None,
        },
        expect: Expect { status, rule: None, reason: None, headers: Vec::new() },
        at: like.at.clone(),
    }
}

fn groups<'a>(example: &'a Example, user: Option<&str>) -> Vec<&'a str> {
    let basic = example.loaded.policy.identity.basic.iter().flat_map(|it| &it.users);
    let own = basic.filter(|it| Some(&*it.name) == user).flat_map(|it| &it.groups);
    own.map(|it: &Arc<str>| &**it).collect()
}

/// Who a proof is of, as far as it may be shown.
fn name(proof: &Proof) -> &str {
    match proof {
        Proof::None => "-",
        Proof::Basic(both) => both.split(':').next().unwrap_or_default(),
        Proof::Bearer(_) | Proof::Claims(_) => "(token)",
    }
}

/// The rule that decided, or the reason of the refusal, and what was not as expected.
fn why(ran: &Ran) -> String {
    let text = |name: &str| ran.decision.get(name).and_then(|it| it.as_str());
    let decided = match (text("reason"), text("rule")) {
        (Some(reason), Some(rule)) => format!("{reason}, by {rule}"),
        (Some(reason), None) => reason.to_owned(),
        (None, Some(rule)) => rule.to_owned(),
        (None, None) => "refused by Envoy itself".to_owned(),
    };
    [vec![decided], ran.wrong.clone()].concat().join("; ")
}

/// Leaves it running until Ctrl-C.
async fn keep(out: &mut impl Write, stack: &Stack) -> Result<(), Box<dyn std::error::Error>> {
    let at = stack.envoy.address;
    writeln!(out, "\nIt goes on until Ctrl-C. Try:\n")?;
    writeln!(out, "  curl -i -u alice:wonderland http://{at}/people")?;
    writeln!(out, "  curl -i -u alice:wonderland -X POST http://{at}/people")?;
    writeln!(out, "  curl -i -u bob:builder -X POST -d '{{\"name\":\"carol\"}}' http://{at}/people")?;
    writeln!(out, "  curl -i http://{at}/people")?;
    writeln!(out, "  curl -i --path-as-is -u bob:builder http://{at}/people/..%2fadmin")?;
    for rolegate in &stack.rolegates {
        writeln!(out, "  curl http://{}/metrics", rolegate.admin)?;
    }
    out.flush()?;
    tokio::signal::ctrl_c().await.map_err(|error| Failed::new("Ctrl-C", error.to_string()))?;
    writeln!(out, "\nstopping")?;
    Ok(())
}

/// The path of the policy as one would type it.
fn shown(example: &Example) -> String {
    let parts: Vec<_> = example.file.components().rev().take(3).collect();
    parts.into_iter().rev().collect::<std::path::PathBuf>().display().to_string()
}
