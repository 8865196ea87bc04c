//! `make demo`: runs the people example behind a real Envoy and compares the results with its
//! policy and its cases.
//!
//! No expected result is written here. Who may do what is computed from the policy by the reference
//! evaluator; everything else is in `policies/people/cases.yaml`.

#[path = "demo/identity.rs"]
mod identity;

use std::collections::BTreeSet;
use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use policy::cases::{Case, Credentials, Expect, Request};
use policy::reference::{Caller as Asking, decide};
use policy::{AccessRequest, Decision};
use testbed::client::Version;
use testbed::golden::{self, Caller, Outcome};
use testbed::policies::Example;
use testbed::{Failed, Options, Stack};

#[tokio::main]
async fn main() -> ExitCode {
    let mut out = io::stdout();
    let done = tokio::select! {
        // First, because the demo itself handles the signal while it keeps the stack running.
        biased;
        done = demo(&mut out) => done,
        // Dropping the demo stops everything that runs by then.
        stop = stopped() => stop.and(Err(Failed::new("stopped", "before all was asked").into())),
    };
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            // If standard error is closed too, the message is lost.
            let _ = writeln!(io::stderr(), "demo: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Waits for Ctrl-C or SIGTERM.
async fn stopped() -> Result<(), Box<dyn std::error::Error>> {
    Ok(load::signalled().await?)
}

/// Runs the demo. Returns whether everything matched the policy and its cases.
async fn demo(out: &mut impl Write) -> Result<bool, Box<dyn std::error::Error>> {
    let example = Example::named("people")?;
    let mut options = Options::default();
    if is_set("MODULE") {
        options.module = std::env::current_exe()?.parent().map(Path::to_owned);
    } else {
        options.arguments.extend(golden::ARGUMENTS);
    }
    let stack = Stack::start(&testbed::program()?, &example.file, &options).await?;
    let (envoy, app) = (stack.envoy.address, stack.app.address);
    if options.module.is_some() {
        writeln!(out, "Envoy {envoy} with rolegate inside it -> app {app}")?;
    } else {
        writeln!(out, "Envoy {envoy} -> rolegate (Unix socket) -> app {app}")?;
    }

    writeln!(
        out,
        "\n(invalid): wrong user name or password; (in the header): the case has its own `Authorization` header"
    )?;
    writeln!(out, "\nWho may do what, by the policy ({}):\n", shown(&example))?;
    let mut right = table(out, &stack, &example, &matrix(&example)).await?;
    writeln!(out, "\nWhat else must hold, by the cases beside it:\n")?;
    let others: Vec<Case> = example.cases.iter().filter(|case| !is_plain(case)).cloned().collect();
    right &= table(out, &stack, &example, &others).await?;
    right &= identity::show(out, &example, options).await?;

    writeln!(
        out,
        "\n{}",
        if right {
            "all as the policy says"
        } else {
            "NOT as the policy says: see the lines marked !"
        }
    )?;
    if is_set("KEEP") {
        keep(out, &stack).await?;
    }
    Ok(right)
}

/// Whether this variable of the environment is set, and not to 0.
fn is_set(name: &str) -> bool {
    std::env::var_os(name).is_some_and(|value| !value.is_empty() && value != "0")
}

/// Runs cases and prints each one. Returns whether all were as expected.
async fn table(
    out: &mut impl Write,
    stack: &Stack,
    example: &Example,
    cases: &[Case],
) -> Result<bool, Box<dyn std::error::Error>> {
    let identity = &example.loaded.policy.identity;
    let mut caller = Caller::connect(stack, identity, None, Version::Http1).await?;
    let mut right = true;
    // The cases of the matrix have the names of their requests.
    let named = cases.iter().any(|case| case.name != request_of(case));
    let title = if named { "case" } else { "" };
    let mut rows =
        vec![["", "caller", "request", "expected", "got", "why", title].map(str::to_owned)];
    for case in cases {
        let ran = caller.run(case).await?;
        right &= ran.wrong.is_empty();
        let request = request_of(case);
        let title = if named { case.name.clone() } else { String::new() };
        let mark = if ran.wrong.is_empty() { "" } else { "!" };
        let (expected, got) = (ran.expected.to_string(), ran.status.to_string());
        let who = name(example, &case.request);
        rows.push([mark.to_owned(), who, request, expected, got, why(case, &ran), title]);
    }
    print(out, &rows)?;
    Ok(right)
}

/// Prints rows in aligned columns. A text that is longer than most does not widen its column.
fn print(out: &mut impl Write, rows: &[[String; 7]]) -> io::Result<()> {
    let mut widths = [0; 7];
    for row in rows {
        for (width, text) in widths.iter_mut().zip(row) {
            let length = text.chars().count();
            *width = if length <= WIDEST { length.max(*width) } else { *width };
        }
    }
    for row in rows {
        let cells: Vec<_> =
            row.iter().zip(widths).map(|(text, width)| format!("{text:<width$}")).collect();
        writeln!(out, "{}", cells.join("  ").trim_end())?;
    }
    Ok(())
}

fn request_of(case: &Case) -> String {
    format!("{} {}", case.request.method, case.request.path)
}

/// Whether a case requests nothing beyond what the matrix covers.
fn is_plain(case: &Case) -> bool {
    case.request.path == "/people"
        && case.request.headers.is_empty()
        && METHODS.contains(&&*case.request.method)
}

/// The widest column.
const WIDEST: usize = 56;

/// The methods that the policy names, and another one.
const METHODS: [&str; 3] = ["GET", "POST", "DELETE"];

/// Every caller in the cases, with every method.
fn matrix(example: &Example) -> Vec<Case> {
    let mut seen = BTreeSet::new();
    let plain = example.cases.iter().filter(|case| is_plain(case));
    let callers: Vec<&Case> =
        plain.filter(|case| seen.insert(name(example, &case.request))).collect();
    callers.iter().flat_map(|like| METHODS.map(|method| asked(example, like, method))).collect()
}

/// The case for this caller and this method on `/people`, with the expected outcome.
fn asked(example: &Example, like: &Case, method: &str) -> Case {
    let user = match &like.request.credentials {
        Credentials::Basic(both) if verifies(example, &like.request) => both.split(':').next(),
        _ => None,
    };
    let question =
        AccessRequest { action: method.as_bytes(), scope: b"localhost", resource: b"/people" };
    let asking = Asking { user, groups: groups(example, user), ..Asking::default() };
    let invalid = user.is_none() && !matches!(like.request.credentials, Credentials::None);
    let status = match decide(&example.loaded.policy, &asking, &question) {
        _ if invalid => 401,
        Decision::Allowed(_) => 200,
        Decision::Denied(_) | Decision::NotAllowed if user.is_none() => 401,
        Decision::Denied(_) | Decision::NotAllowed => 403,
    };
    Case {
        name: format!("{method} /people"),
        request: Request {
            method: method.to_owned(),
            path: "/people".to_owned(),
            host: "localhost".to_owned(),
            body: String::new(),
            headers: Vec::new(),
            credentials: like.request.credentials.clone(),
            at: None,
        },
        expect: Expect { status, rule: None, reason: None, headers: Vec::new() },
        at: like.at.clone(),
    }
}

fn groups<'a>(example: &'a Example, user: Option<&str>) -> Vec<&'a str> {
    let basic = example.loaded.policy.identity.basic.iter().flat_map(|basic| &basic.users);
    let own = basic.filter(|entry| Some(&*entry.name) == user).flat_map(|entry| &entry.groups);
    own.map(|group: &Arc<str>| &**group).collect()
}

/// Whether these credentials are valid: in some case they are allowed, or denied with 403.
fn verifies(example: &Example, request: &Request) -> bool {
    let same = |case: &&Case| {
        format!("{:?}", case.request.credentials) == format!("{:?}", request.credentials)
    };
    example.cases.iter().filter(same).any(|case| matches!(case.expect.status, 200 | 403))
}

/// The caller's name for display, without secrets.
fn name(example: &Example, request: &Request) -> String {
    match &request.credentials {
        Credentials::None if request.headers.iter().any(|(name, _)| name == "authorization") => {
            "(in the header)".to_owned()
        }
        Credentials::None => "(anonymous)".to_owned(),
        Credentials::Basic(both) => {
            let user = both.split(':').next().unwrap_or_default();
            match user {
                user if verifies(example, request) => user.to_owned(),
                "" => "(no name, invalid)".to_owned(),
                user => format!("{user} (invalid)"),
            }
        }
        Credentials::Bearer(_) | Credentials::Claims(_) => "(token)".to_owned(),
        Credentials::User { name, .. } => name.clone(),
    }
}

/// The deciding rule or the reason of the denial, and what differs from the expectation.
fn why(case: &Case, ran: &Outcome) -> String {
    let text = |name: &str| ran.decision.get(name).and_then(|value| value.as_str());
    let mut all = vec![match (text("reason"), text("rule")) {
        (Some(reason), Some(rule)) => format!("{reason}, by {rule}"),
        (Some(reason), None) => reason.to_owned(),
        (None, Some(rule)) => rule.to_owned(),
        (None, None) => "denied by Envoy itself".to_owned(),
    }];
    if ran.expected != case.expect.status {
        all.push(format!("Envoy has made {} of it", text("path").unwrap_or_default()));
    }
    all.extend(ran.wrong.iter().cloned());
    all.join("; ")
}

/// Keeps the stack running until Ctrl-C.
async fn keep(out: &mut impl Write, stack: &Stack) -> Result<(), Box<dyn std::error::Error>> {
    let at = stack.envoy.address;
    writeln!(out, "\nIt goes on until Ctrl-C. Try:\n")?;
    writeln!(out, "  curl -i -u alice:wonderland http://{at}/people")?;
    writeln!(out, "  curl -i -u alice:wonderland -X POST http://{at}/people")?;
    writeln!(
        out,
        "  curl -i -u bob:builder -X POST -d '{{\"name\":\"carol\"}}' http://{at}/people"
    )?;
    writeln!(out, "  curl -i http://{at}/people")?;
    writeln!(out, "  curl -i --path-as-is -u bob:builder http://{at}/people/..%2fadmin")?;
    for rolegate in &stack.rolegates {
        writeln!(out, "  curl http://{}/metrics", rolegate.admin)?;
    }
    out.flush()?;
    stopped().await?;
    writeln!(out, "\nstopping")?;
    Ok(())
}

/// The policy's path, relative to the repository.
fn shown(example: &Example) -> String {
    let parts: Vec<_> = example.file.components().rev().take(3).collect();
    parts.into_iter().rev().collect::<std::path::PathBuf>().display().to_string()
}
