//! `rolegate lint-proxy`: finds causes why rolegate would be unsafe or broken behind nginx or Caddy.

use std::path::Path;

use document::{Files, MapFiles};
use proxy_lint::Options;
use runtime::files::RecordedFiles;

use super::findings;
use super::import::read;
use crate::cli::LintProxyArgs;
use crate::error::{CommandError, Exit};
use crate::output::Output;

/// Prints every finding, then a summary.
pub(crate) fn run(args: &LintProxyArgs, output: &mut Output) -> Result<Exit, CommandError> {
    output.format = args.output;
    let file = &args.file;
    let on_disk = RecordedFiles::default();
    let standard_input;
    let files: &dyn Files = if file == Path::new("-") {
        standard_input = MapFiles::new("-", read(file)?);
        &standard_input
    } else {
        &on_disk
    };
    let identity_headers: Vec<String> =
        args.identity_header.iter().map(|name| name.to_ascii_lowercase()).collect();
    let options = Options {
        proxy: args.proxy(),
        identity_headers: &identity_headers,
        accepted: &args.accept,
    };
    let found = proxy_lint::lint(files, file, options)?;
    Ok(findings::print(file, &found, args.strict, output))
}
