//! The commands that generate load: from arguments to a plan, and from measurements to output.

use std::fmt::Write;
use std::io::{self, IsTerminal};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use crate::cli::{CheckArgs, HttpArgs, LoadArgs, OutputArgs, RequestArgs};
use crate::failed::Failed;
use crate::find::{self, Step};
use crate::plan::{Plan, Progress, Protocol};
use crate::results::RunResults;
use crate::workload::file::read;
use crate::workload::{Request, Workload};
use crate::{Exit, report, run, screen, units};

/// The default length of a run.
const DEFAULT_DURATION: Duration = Duration::from_secs(10);

pub(crate) fn http(args: &HttpArgs) -> Exit {
    // It would never be true, and a check in CI that can never fail is worse than none.
    if let Some(threshold) =
        args.run.output.fail_if.iter().find(|threshold| threshold.is_of_check())
    {
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
        workload: workload(path, request)?,
        ..plan
    })
}

fn workload(path: &str, args: &RequestArgs) -> Result<Workload, Failed> {
    let mut workload = match &args.workload {
        Some(file) => Workload::read(file)?,
        None => Workload::of(single(path, args)?),
    };
    let lines = args.headers.iter().map(|header| units::header(header));
    let lines = lines.collect::<Result<Vec<_>, _>>()?;
    let basic = secret(args.basic.clone(), args.basic_file.as_deref())?;
    let bearer = secret(args.bearer.clone(), args.bearer_file.as_deref())?;
    for request in &mut workload.requests {
        request.headers.extend(lines.iter().cloned());
        let credentials = match (&basic, &bearer) {
            (Some(basic), _) => Request::get("/").basic(basic).headers,
            (None, Some(token)) => Request::get("/").bearer(token).headers,
            (None, None) => Vec::new(),
        };
        request.headers.extend(credentials);
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

fn single(path: &str, args: &RequestArgs) -> Result<Request, Failed> {
    let body = match &args.body_file {
        Some(file) => read(file)?,
        None => args.body.clone().unwrap_or_default(),
    };
    let usual = if body.is_empty() { "GET" } else { "POST" };
    let method = args.method.clone().unwrap_or_else(|| usual.to_owned());
    Ok(Request { method, body, ..Request::get(path) })
}

fn secret(argument: Option<String>, file: Option<&Path>) -> Result<Option<String>, Failed> {
    match file {
        Some(file) => Ok(Some(read(file)?.trim_end_matches(['\r', '\n']).to_owned())),
        None => Ok(argument),
    }
}

fn execute(plan: Result<Plan, Failed>, load: &LoadArgs, output: &OutputArgs) -> Exit {
    let results = plan.and_then(|plan| {
        let plan = watched(plan);
        plan.stop.on_signals();
        match load.p99.filter(|_| load.find_max) {
            Some(limit) => search(&plan, limit),
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

fn search(plan: &Plan, limit: Duration) -> Result<RunResults, Failed> {
    screen::note(&format!(
        "looking for the highest rate with a p99 of at most {limit:?}, {} connections",
        plan.connections
    ));
    let mut is_closed = true;
    let best = find::find_max(plan, limit, |step| {
        screen::note(&step_line(step, std::mem::take(&mut is_closed)));
    })?;
    best.ok_or_else(|| {
        Failed::Generator(format!(
            "no tested rate keeps a p99 of {limit:?} without errors and unexpected answers \
             (others than `--expect`)"
        ))
    })
}

fn step_line(step: &Step, is_closed: bool) -> String {
    let p99 = step.p99.as_secs_f64() * 1e3;
    let verdict = match (is_closed, step.kept) {
        (true, _) => "closed loop",
        (false, true) => "kept",
        (false, false) => "not kept",
    };
    let mut line = format!("{:>10.1}/s   p99 {p99:>9.3} ms   {verdict}", step.rate);
    for (count, name) in [(step.errors, "errors"), (step.unexpected, "unexpected answers")] {
        if count > 0 {
            let _ = write!(line, "   {name}: {count}");
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
    let files = output.write(results);
    if !output.is_on_standard_output() {
        screen::text(&report::text(results));
    }
    if let Err(error) = files {
        screen::error(&error.to_string());
        return Exit::Failed;
    }
    let mut exit = match results.interrupted {
        true => Exit::Interrupted,
        false => Exit::Success,
    };
    for threshold in output.fail_if.iter().filter(|threshold| threshold.is_true(results)) {
        screen::error(&format!("`--fail-if {threshold}` is true"));
        exit = Exit::Threshold;
    }
    if exit == Exit::Success && results.corrected.is_empty() {
        screen::error("no request was answered");
        exit = Exit::Failed;
    }
    exit
}

impl OutputArgs {
    fn write(&self, results: &RunResults) -> Result<(), Failed> {
        put(self.json.as_ref(), || format!("{:#}\n", report::fortio(results, &self.labels)))?;
        put(self.hgrm.as_ref(), || report::hgrm(&results.corrected))?;
        put(self.csv.as_ref(), || report::csv(results))?;
        put(self.html.as_ref(), || report::html(results))
    }

    /// Whether machine-readable output goes to standard output.
    fn is_on_standard_output(&self) -> bool {
        let files = [&self.json, &self.hgrm, &self.csv, &self.html];
        files.into_iter().flatten().any(|file| file.as_os_str() == "-")
    }
}

fn put(file: Option<&PathBuf>, text: impl FnOnce() -> String) -> Result<(), Failed> {
    match file {
        None => Ok(()),
        Some(file) if file.as_os_str() == "-" => {
            screen::text(&text());
            Ok(())
        }
        Some(file) => std::fs::write(file, text())
            .map_err(|error| Failed::System(format!("cannot write `{}`: {error}", file.display()))),
    }
}
