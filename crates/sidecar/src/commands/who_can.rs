//! `rolegate who-can`: lists who may make a request.

use super::loaded;
use crate::cli::{Format, WhoCanArgs};
use crate::exit::Exit;
use crate::output::Output;

/// Prints the rules that take part, and whom they apply to.
pub(crate) fn who_can(args: &WhoCanArgs, output: &mut Output<'_>) -> Exit {
    let snapshot = match loaded::load(&args.policy, args.output, output) {
        Ok(snapshot) => snapshot,
        Err(exit) => return exit,
    };
    let (path, host) = args.request.path_and_host();
    match snapshot.authorizer.who_can(args.request.method.as_bytes(), host.as_bytes(), path.as_bytes()) {
        Ok(who) => {
            match args.output {
                Format::Text => output.line(&who.to_string()),
                Format::Json => output.json(&who),
            }
            Exit::Fine
        }
        Err(reason) => {
            output.error(&format!("this request is invalid for every caller: {reason}"));
            Exit::Arguments
        }
    }
}
