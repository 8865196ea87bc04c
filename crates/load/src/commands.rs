//! The commands that generate load: from arguments to a plan, and from measurements to output.

use std::fmt::Write;
use std::io::{self, IsTerminal};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use serde_json::json;

use crate::cli::{CheckArgs, HttpArgs, LoadArgs, OutputArgs, RequestArgs, Secret};
use crate::failed::Failed;
use crate::find::{self, Step};
use crate::plan::{Plan, Progress};
use crate::results::{Protocol, RunResults};
use crate::workload::file::read;
use crate::workload::{Request, Workload};
use crate::{Exit, report, run, screen, units};

/// The default length of a run.
const DEFAULT_DURATION: Duration = Duration::from_secs(10);

/// Generates load on an HTTP server.
pub(crate) fn http(args: &HttpArgs) -> Exit {
    // It would never be true, and a check in CI that can never fail is worse than none.
    if let Some(threshold) = args.run.output.fail_if.iter().find(|threshold| threshold.is_of_check()) {
        screen::error(&format!(
            "`--fail-if {threshold}` counts answers of `check`; write `status 403>0` for those of an HTTP server"
        ));
        return Exit::Arguments;
    }
    let plan = Plan::http(&args.url).and_then(|plan| {
        let path = plan.target.path.clone();
        let protocol = if args.http2 { Protocol::Http2 } else { Protocol::Http1 };
        planned(Plan { protocol, ..plan }, &path, &args.run.load, &args.run.request)
    });
    execute(plan, &args.run.load, &args.run.output)
}

/// Generates load on a server of Check calls.
pub(crate) fn check(args: &CheckArgs) -> Exit {
    let plan = Plan::check(&args.address)
        .and_then(|plan| planned(plan, &args.path, &args.run.load, &args.run.request));
    execute(plan, &args.run.load, &args.run.output)
}

fn planned(plan: Plan, path: &str, load: &LoadArgs, request: &RequestArgs) -> Result<Plan, Failed> {
    let unlimited = load.duration.is_none() && load.requests.is_none();
    Ok(Plan {
        rate: load.ramp.unwrap_or(load.rate),
        connections: load.connections,
        streams: load.streams.unwrap_or(plan.streams),
        threads: load.threads,
        duration: if unlimited { Some(DEFAULT_DURATION) } else { load.duration },
        requests: load.requests,
        warmup: load.warmup,
        timeout: load.timeout,
        wait: load.wait,
        seed: load.seed,
        workload: workload(path, request).map_err(Failed::Plan)?,
        ..plan
    })
}

fn workload(path: &str, args: &RequestArgs) -> Result<Workload, String> {
    let mut workload = match &args.workload {
        Some(file) => Workload::read(file).map_err(|error| error.to_string())?,
        None => Workload::of(single(path, args)?),
    };
    let lines: Result<Vec<_>, _> = args.headers.iter().map(|header| units::header(&header.0)).collect();
    let lines = lines.map_err(|error| error.to_string())?;
    let authorization = authorization(args)?;
    for request in &mut workload.requests {
        request.headers.extend(lines.iter().cloned());
        request.headers.extend(authorization.clone());
        request.gzip |= args.gzip;
        if args.host.is_some() {
            request.host.clone_from(&args.host);
        }
        if !args.expect.is_empty() {
            request.expect.clone_from(&args.expect);
        }
    }
    Ok(workload)
}

fn single(path: &str, args: &RequestArgs) -> Result<Request, String> {
    let body = match &args.body_file {
        Some(file) => read(file)?,
        None => args.body.clone().unwrap_or_default(),
    };
    let usual = if body.is_empty() { "GET" } else { "POST" };
    let method = args.method.clone().unwrap_or_else(|| usual.to_owned());
    Ok(Request { method, body, ..Request::get(path) })
}

/// The header of the credentials, if there are any.
fn authorization(args: &RequestArgs) -> Result<Option<(String, String)>, String> {
    let carrier = Request::get("/");
    let carrier = match (
        secret(args.basic.as_ref(), args.basic_file.as_deref())?,
        secret(args.bearer.as_ref(), args.bearer_file.as_deref())?,
    ) {
        (Some(basic), _) => carrier.basic(&basic),
        (None, Some(token)) => carrier.bearer(&token),
        (None, None) => carrier,
    };
    Ok(carrier.headers.into_iter().next())
}

fn secret(given: Option<&Secret>, file: Option<&Path>) -> Result<Option<String>, String> {
    match (file, given) {
        (Some(file), _) => Ok(Some(read(file)?.trim_end_matches(['\r', '\n']).to_owned())),
        (None, given) => Ok(given.map(|secret| secret.0.clone())),
    }
}

fn execute(plan: Result<Plan, Failed>, load: &LoadArgs, output: &OutputArgs) -> Exit {
    let results = plan.and_then(|plan| {
        let plan = watched(plan);
        plan.stop.on_signals();
        match load.p99.filter(|_| load.find_max) {
            Some(limit) => found(&plan, limit),
            None => run(&plan),
        }
    });
    if io::stderr().is_terminal() {
        screen::status("");
    }
    match results {
        Ok(results) => finish(&results, output),
        Err(failed) => {
            screen::error(&failed.to_string());
            if matches!(failed, Failed::Plan(_)) { Exit::Arguments } else { Exit::Failed }
        }
    }
}

fn found(plan: &Plan, limit: Duration) -> Result<RunResults, Failed> {
    screen::note(&format!(
        "looking for the highest rate with a p99 of at most {limit:?}, {} connections",
        plan.connections
    ));
    let mut first = true;
    let best = find::find_max(plan, limit, |step| {
        screen::note(&tried(step, std::mem::take(&mut first)));
    })?;
    best.ok_or_else(|| Failed::Generator(format!("no tested rate keeps a p99 of {limit:?} without errors and unexpected answers (others than `--expect`)")))
}

fn tried(step: &Step, closed: bool) -> String {
    let p99 = step.p99.as_secs_f64() * 1e3;
    let verdict = match (closed, step.kept) {
        (true, _) => "closed loop",
        (false, true) => "kept",
        (false, false) => "not kept",
    };
    let mut line = format!("{:>10.1}/s   p99 {p99:>9.3} ms   {verdict}", step.rate);
    for (count, what) in [(step.errors, "errors"), (step.unexpected, "unexpected answers")] {
        if count > 0 {
            let _ = write!(line, "   {what}: {count}");
        }
    }
    line
}

/// Adds a progress line if standard error is a terminal.
fn watched(plan: Plan) -> Plan {
    if !io::stderr().is_terminal() {
        return plan;
    }
    Plan { watch: Some(Arc::new(|progress: &Progress| screen::status(&bar(progress)))), ..plan }
}

fn bar(progress: &Progress) -> String {
    const WIDTH: usize = 24;
    if progress.warming {
        return "warming up".to_owned();
    }
    let done = (1..=WIDTH).filter(|step| (*step as f64) <= progress.done * WIDTH as f64).count();
    format!(
        "[{}{}] {:3.0} %  {:.1} s  {:.0}/s  p99 {:.3} ms  errors {}",
        "#".repeat(done),
        "-".repeat(WIDTH - done),
        progress.done * 100.0,
        progress.elapsed.as_secs_f64(),
        progress.rate,
        progress.p99 as f64 / 1e6,
        progress.errors
    )
}

fn finish(results: &RunResults, output: &OutputArgs) -> Exit {
    let files = write(results, output);
    if !output.is_on_standard_output() {
        screen::text(&report::text(results));
    }
    if let Err(error) = files {
        screen::error(&error);
        return Exit::Failed;
    }
    let crossed: Vec<_> = output.fail_if.iter().filter(|threshold| threshold.is_true(results)).collect();
    for threshold in &crossed {
        screen::error(&format!("`--fail-if {threshold}` is true"));
    }
    if !crossed.is_empty() {
        Exit::Threshold
    } else if results.interrupted {
        Exit::Interrupted
    } else if results.corrected.is_empty() {
        screen::error("no request was answered");
        Exit::Failed
    } else {
        Exit::Success
    }
}

fn write(results: &RunResults, output: &OutputArgs) -> Result<(), String> {
    let json = || format!("{:#}\n", json!(report::fortio(results, &output.labels)));
    put(output.json.as_ref(), json)?;
    put(output.hgrm.as_ref(), || report::hgrm(&results.corrected))?;
    put(output.csv.as_ref(), || report::csv(results))?;
    put(output.html.as_ref(), || report::html(results))
}

fn put(file: Option<&PathBuf>, text: impl FnOnce() -> String) -> Result<(), String> {
    match file {
        None => Ok(()),
        Some(file) if file.as_os_str() == "-" => {
            screen::text(&text());
            Ok(())
        }
        Some(file) => std::fs::write(file, text())
            .map_err(|error| format!("cannot write `{}`: {error}", file.display())),
    }
}

impl OutputArgs {
    /// Whether machine-readable output goes to standard output.
    fn is_on_standard_output(&self) -> bool {
        [&self.json, &self.hgrm, &self.csv, &self.html]
            .into_iter()
            .flatten()
            .any(|file| file.as_os_str() == "-")
    }
}
