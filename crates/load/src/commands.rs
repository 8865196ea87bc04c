//! The commands that generate load: from arguments to a plan, and from measurements to output.

use std::io::{self, IsTerminal};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use crate::cli::{CheckArgs, HttpArgs, LoadArgs, OutputArgs, RequestArgs, RunArgs};
use crate::failed::Failed;
use crate::find::find_max;
use crate::plan::{Plan, Progress, Protocol, Watch};
use crate::results::RunResults;
use crate::workload::file::read;
use crate::workload::{Request, Workload};
use crate::{Exit, report, run, screen, units};

/// The default length of a run.
const DEFAULT_DURATION: Duration = Duration::from_secs(10);

pub(crate) fn http(args: &HttpArgs) -> Exit {
    // This threshold would never be true, and a CI job that can never fail is worse than none.
    let mut thresholds = args.run.output.fail_if.iter();
    if let Some(threshold) = thresholds.find(|threshold| threshold.is_of_check()) {
        screen::error(&format!(
            "`--fail-if {threshold}` counts answers of `check`; write `status 403>0` for those of \
             an HTTP server"
        ));
        return Exit::Arguments;
    }
    let plan = Plan::http(&args.url).map(|plan| {
        let protocol = if args.http2 { Protocol::Http2 } else { Protocol::Http1 };
        let path = plan.target.path.clone();
        (Plan { protocol, ..plan }, path)
    });
    execute(plan, &args.run)
}

pub(crate) fn check(args: &CheckArgs) -> Exit {
    execute(Plan::check(&args.address).map(|plan| (plan, args.path.clone())), &args.run)
}

fn execute(plan: Result<(Plan, String), Failed>, args: &RunArgs) -> Exit {
    let results = plan.and_then(|(plan, path)| {
        let workload = workload(&path, &args.request)?;
        let plan = with_arguments(plan, workload, &args.load);
        plan.stop.on_signals();
        match args.load.p99.filter(|_| args.load.find_max) {
            Some(limit) => search(&plan, limit),
            None => run(&plan),
        }
    });
    if io::stderr().is_terminal() {
        screen::status("");
    }
    match results {
        Ok(results) => finish(&results, &args.output),
        Err(failed) => {
            screen::error(&failed.to_string());
            if matches!(failed, Failed::Plan(_)) { Exit::Arguments } else { Exit::Failed }
        }
    }
}

fn with_arguments(plan: Plan, workload: Workload, load: &LoadArgs) -> Plan {
    let unlimited = load.duration.is_none() && load.requests.is_none();
    Plan {
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
        workload,
        watch: io::stderr().is_terminal().then(|| Arc::new(show_progress) as Watch),
        ..plan
    }
}

fn workload(path: &str, args: &RequestArgs) -> Result<Workload, Failed> {
    let mut workload = match &args.workload {
        Some(file) => Workload::read(file)?,
        None => Workload::single(single_request(path, args)?),
    };
    let headers = args.headers.iter().map(|header| units::header(header));
    let headers = headers.collect::<Result<Vec<_>, _>>()?;
    let basic = secret(args.basic.as_ref(), args.basic_file.as_deref())?;
    let bearer = secret(args.bearer.as_ref(), args.bearer_file.as_deref())?;
    for request in &mut workload.requests {
        request.headers.extend(headers.iter().cloned());
        request.headers.extend(match (&basic, &bearer) {
            (Some(basic), _) => Request::get("/").basic(basic).headers,
            (None, Some(token)) => Request::get("/").bearer(token).headers,
            (None, None) => Vec::new(),
        });
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

fn single_request(path: &str, args: &RequestArgs) -> Result<Request, Failed> {
    let body = match &args.body_file {
        Some(file) => read(file)?,
        None => args.body.clone().unwrap_or_default(),
    };
    let default = if body.is_empty() { "GET" } else { "POST" };
    let method = args.method.clone().unwrap_or_else(|| default.to_owned());
    Ok(Request { method, body, ..Request::get(path) })
}

fn secret(argument: Option<&String>, file: Option<&Path>) -> Result<Option<String>, Failed> {
    match file {
        Some(file) => Ok(Some(read(file)?.trim_end_matches(['\r', '\n']).to_owned())),
        None => Ok(argument.cloned()),
    }
}

fn search(plan: &Plan, limit: Duration) -> Result<RunResults, Failed> {
    let connections = plan.connections;
    screen::note(&format!(
        "looking for the highest rate with a p99 of at most {limit:?}, {connections} connections"
    ));
    let best = find_max(plan, limit, screen::note)?;
    best.ok_or_else(|| {
        Failed::Generator(format!(
            "no tested rate keeps a p99 of {limit:?} without errors and unexpected answers \
             (others than `--expect`)"
        ))
    })
}

fn show_progress(progress: &Progress) {
    const WIDTH: usize = 24;
    if progress.warming {
        return screen::status("warming up");
    }
    let width = (1..=WIDTH).filter(|step| (*step as f64) <= progress.done * WIDTH as f64).count();
    screen::status(&format!(
        "[{:-<WIDTH$}] {:3.0} %  {:.1} s  {:.0}/s  p99 {:.3} ms  errors {}",
        "#".repeat(width),
        progress.done * 100.0,
        progress.elapsed.as_secs_f64(),
        progress.rate,
        progress.p99 as f64 / 1e6,
        progress.errors
    ));
}

fn finish(results: &RunResults, output: &OutputArgs) -> Exit {
    if let Err(error) = write(results, output) {
        screen::error(&error.to_string());
        return Exit::Failed;
    }
    let mut exit = if results.interrupted { Exit::Interrupted } else { Exit::Success };
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

/// Writes the requested formats. Prints the table, unless a format goes to standard output.
fn write(results: &RunResults, output: &OutputArgs) -> Result<(), Failed> {
    type Format<'a> = (&'a Option<PathBuf>, &'a dyn Fn() -> String);
    let formats: [Format<'_>; 4] = [
        (&output.json, &|| format!("{:#}\n", report::fortio(results, &output.labels))),
        (&output.hgrm, &|| report::hgrm(&results.corrected)),
        (&output.csv, &|| report::csv(results)),
        (&output.html, &|| report::html(results)),
    ];
    let requested = formats.iter().filter_map(|(file, text)| Some((file.as_ref()?, text)));
    let (printed, files): (Vec<_>, Vec<_>) =
        requested.partition(|(file, _)| file.as_os_str() == "-");
    if printed.is_empty() {
        screen::text(&report::text(results));
    }
    printed.iter().for_each(|(_, text)| screen::text(&text()));
    for (file, text) in files {
        write_file(file, &text())?;
    }
    Ok(())
}

fn write_file(file: &Path, text: &str) -> Result<(), Failed> {
    std::fs::write(file, text)
        .map_err(|error| Failed::System(format!("cannot write `{}`: {error}", file.display())))
}
