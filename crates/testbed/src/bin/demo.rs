//! `make demo`: runs the people example behind a real Envoy, or another proxy, and compares the
//! results with its policy and its cases.
//!
//! The expected results of the matrix of callers and methods come from the reference evaluator, all
//! others from `policies/people/cases.yaml`.

#[path = "demo/identity.rs"]
mod identity;
#[path = "demo/setup.rs"]
mod setup;

use std::collections::BTreeSet;
use std::io::{self, Write};
use std::process::ExitCode;
use std::sync::Arc;

use policy::cases::{Case, Credentials, Expect, Request};
use policy::reference::{Caller as Subject, decide};
use policy::{AccessRequest, Decision};
use testbed::client::Version;
use testbed::golden::{Caller, Outcome};
use testbed::policies::Example;
use testbed::{Failed, Guarded};

use setup::Setup;

#[tokio::main]
async fn main() -> ExitCode {
    let mut out = io::stdout();
    let done = tokio::select! {
        // The demo is polled first: while it keeps the stack running, it handles signals itself.
        biased;
        done = demo(&mut out) => done,
        // A signal drops the demo, which stops everything that it has started.
        stop = load::signalled() => {
            stop.map_err(Into::into).and(Err(Failed::new("stopped", "before the end").into()))
        }
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

/// Runs the demo. Returns whether everything matched the policy and its cases.
async fn demo(out: &mut impl Write) -> Result<bool, Box<dyn std::error::Error>> {
    let example = Example::named("people")?;
    let setup = Setup::from_environment()?;
    let stack = setup.start(&example.file).await?;
    let stack = &*stack;
    let (proxy, address, app) = (stack.proxy(), stack.address(), stack.app().address);
    writeln!(out, "{proxy} {address} {} app {app}", setup.way())?;

    writeln!(
        out,
        "\n(invalid): wrong user name or password; (in the header): the case has its own \
         `Authorization` header"
    )?;
    writeln!(out, "\nWho may do what, according to the policy ({}):\n", policy_path(&example))?;
    let mut right = table(out, stack, &example, &matrix(&example)).await?;
    writeln!(out, "\nWhat else must hold, according to the cases next to it:\n")?;
    let special: Vec<Case> = example.cases.iter().filter(|case| !is_plain(case)).cloned().collect();
    right &= table(out, stack, &example, &special).await?;
    right &= identity::show(out, &example, &setup).await?;

    let summary = match right {
        true => "all as the policy says",
        false => "NOT as the policy says: see the lines marked !",
    };
    writeln!(out, "\n{summary}")?;
    if setup::is_set("KEEP") {
        keep(out, stack).await?;
    }
    Ok(right)
}

/// Runs cases and prints each outcome. Returns whether all were as expected.
async fn table(
    out: &mut impl Write,
    stack: &dyn Guarded,
    example: &Example,
    cases: &[Case],
) -> Result<bool, Box<dyn std::error::Error>> {
    let identity = &example.loaded.policy.identity;
    let mut caller = Caller::connect(stack, identity, None, Version::Http1).await?;
    let mut right = true;
    // In the matrix, the name of a case only repeats its request, so no name is shown.
    let has_names = cases.iter().any(|case| case.name != request_of(case));
    let title = if has_names { "case" } else { "" };
    let mut rows =
        vec![["", "caller", "request", "expected", "got", "why", title].map(str::to_owned)];
    for case in cases {
        let outcome = caller.run(case).await?;
        right &= outcome.wrong.is_empty();
        rows.push([
            if outcome.wrong.is_empty() { String::new() } else { "!".to_owned() },
            name(example, &case.request),
            request_of(case),
            outcome.expected.to_string(),
            outcome.status.to_string(),
            why(stack.proxy(), case, &outcome),
            if has_names { case.name.clone() } else { String::new() },
        ]);
    }
    print(out, &rows)?;
    Ok(right)
}

/// Prints rows in aligned columns. A text longer than [`WIDEST`] does not widen its column.
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

/// Whether the matrix covers the request of a case.
fn is_plain(case: &Case) -> bool {
    case.request.path == "/people"
        && case.request.headers.is_empty()
        && METHODS.contains(&&*case.request.method)
}

/// The maximum width of a column, in characters. A longer text sticks out of it.
const WIDEST: usize = 56;

/// The methods that the policy names, and `DELETE`.
const METHODS: [&str; 3] = ["GET", "POST", "DELETE"];

/// The matrix: every caller of a plain case, with every method.
fn matrix(example: &Example) -> Vec<Case> {
    let mut names = BTreeSet::new();
    let plain = example.cases.iter().filter(|case| is_plain(case));
    let callers = plain.filter(|case| names.insert(name(example, &case.request)));
    callers.flat_map(|case| METHODS.map(|method| with_method(example, case, method))).collect()
}

/// A request of the case's caller with this method on `/people`, with the status to expect.
fn with_method(example: &Example, case: &Case, method: &str) -> Case {
    let credentials = &case.request.credentials;
    let user = match credentials {
        Credentials::Basic(basic) if has_valid_credentials(example, &case.request) => {
            basic.split(':').next()
        }
        _ => None,
    };
    let request =
        AccessRequest { action: method.as_bytes(), scope: b"localhost", resource: b"/people" };
    let subject = Subject { user, groups: groups(example, user), ..Subject::default() };
    let invalid = user.is_none() && !matches!(credentials, Credentials::None);
    let status = match decide(&example.loaded.policy, &subject, &request) {
        _ if invalid => 401,
        Decision::Allowed(_) => 200,
        Decision::Denied(_) | Decision::ConditionFailed(_) | Decision::NotAllowed => {
            if user.is_none() { 401 } else { 403 }
        }
    };
    Case {
        name: format!("{method} /people"),
        request: Request {
            method: method.to_owned(),
            path: "/people".to_owned(),
            host: "localhost".to_owned(),
            client: String::new(),
            body: String::new(),
            headers: Vec::new(),
            credentials: credentials.clone(),
            certificate: None,
            question: None,
            at: None,
        },
        expect: Expect { status, ..Expect::default() },
        at: case.at.clone(),
    }
}

fn groups<'a>(example: &'a Example, user: Option<&str>) -> Vec<&'a str> {
    let basic = example.loaded.policy.identity.basic.iter().flat_map(|basic| &basic.users);
    let entries = basic.filter(|entry| Some(&*entry.name) == user);
    entries.flat_map(|entry| &entry.groups).map(|group: &Arc<str>| &**group).collect()
}

/// Whether these credentials are valid: some case with the same credentials expects 200 or 403.
fn has_valid_credentials(example: &Example, request: &Request) -> bool {
    let credentials = format!("{:?}", request.credentials);
    let cases = example.cases.iter();
    cases
        .filter(|case| format!("{:?}", case.request.credentials) == credentials)
        .any(|case| matches!(case.expect.status, 200 | 403))
}

/// The caller's name for display, without secrets.
fn name(example: &Example, request: &Request) -> String {
    match &request.credentials {
        Credentials::None if request.headers.iter().any(|(name, _)| name == "authorization") => {
            "(in the header)".to_owned()
        }
        Credentials::None => "(anonymous)".to_owned(),
        Credentials::Basic(basic) => match basic.split(':').next().unwrap_or_default() {
            user if has_valid_credentials(example, request) => user.to_owned(),
            "" => "(no name, invalid)".to_owned(),
            user => format!("{user} (invalid)"),
        },
        Credentials::Bearer(_) | Credentials::Claims(_) => "(token)".to_owned(),
        Credentials::ApiKey(_) => "(API key)".to_owned(),
        Credentials::User { name, .. } => name.clone(),
    }
}

/// The deciding rule or the reason of the denial, and the differences from the expectation.
fn why(proxy: &str, case: &Case, outcome: &Outcome) -> String {
    let [reason, rule, path] = ["reason", "rule", "path"]
        .map(|name| outcome.decision.get(name).and_then(|value| value.as_str()));
    let mut parts = vec![match (reason, rule) {
        (Some(reason), Some(rule)) => format!("{reason}, by {rule}"),
        (Some(reason), None) => reason.to_owned(),
        (None, Some(rule)) => rule.to_owned(),
        (None, None) => format!("denied by {proxy} itself"),
    }];
    // The expected status differs from that of the case only if the proxy has changed the path.
    if outcome.expected != case.expect.status {
        parts.push(format!("{proxy} turned the path into {}", path.unwrap_or_default()));
    }
    parts.extend(outcome.wrong.iter().cloned());
    parts.join("; ")
}

/// Keeps the stack running until Ctrl-C.
async fn keep(out: &mut impl Write, stack: &dyn Guarded) -> Result<(), Box<dyn std::error::Error>> {
    let proxy = stack.address();
    writeln!(out, "\nThe stack runs until Ctrl-C. Try:\n")?;
    for (arguments, path) in [
        (" -u alice:wonderland", "/people"),
        (" -u alice:wonderland -X POST", "/people"),
        (" -u bob:builder -X POST -d '{\"name\":\"carol\"}'", "/people"),
        ("", "/people"),
        (" --path-as-is -u bob:builder", "/people/..%2fadmin"),
    ] {
        writeln!(out, "  curl -i{arguments} http://{proxy}{path}")?;
    }
    for rolegate in stack.rolegates() {
        writeln!(out, "  curl http://{}/metrics", rolegate.admin)?;
    }
    out.flush()?;
    load::signalled().await?;
    writeln!(out, "\nstopping")?;
    Ok(())
}

/// The policy's path, relative to the repository.
fn policy_path(example: &Example) -> String {
    let parts: Vec<_> = example.file.components().rev().take(3).collect();
    parts.into_iter().rev().collect::<std::path::PathBuf>().display().to_string()
}
