//! `rolegate who-can`: lists who may make a request.

use super::loaded;
use crate::cli::{Format, WhoCanArgs};
use crate::exit::Exit;
use crate::output::Output;

/// Prints who may make the request, and the rules that take part.
pub(crate) fn who_can(args: &WhoCanArgs, output: &mut Output<'_>) -> Exit {
    let compiled = match loaded::load(&args.policy, args.output, output) {
        Ok(compiled) => compiled,
        Err(exit) => return exit,
    };
    let (path, host) = args.request.path_and_host();
    let who = compiled.authorizer.who_can(args.request.method.as_bytes(), host.as_bytes(), path.as_bytes());
    match args.output {
        Format::Text => output.line(&who.to_string()),
        Format::Json => output.json(&who),
    }
    if who.callers.is_empty() { Exit::Denied } else { Exit::Success }
}
