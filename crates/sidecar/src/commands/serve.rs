//! `rolegate serve`: the server as a process.

use crate::exit::Exit;
use crate::logs;
use crate::output::Output;
use crate::serve::{ServeError, Server, signals};
use crate::settings::Settings;

/// Serves until a signal ends it.
pub(crate) fn serve(settings: Settings, output: &mut Output<'_>) -> Exit {
    if let Err(error) = logs::start(settings.log_format, settings.log_level) {
        output.error(&error.to_string());
        return Exit::Failed;
    }
    match run(settings) {
        Ok(()) => Exit::Fine,
        Err(error) => {
            output.error(&error.to_string());
            match error {
                ServeError::Policy(_) => Exit::Policy,
                ServeError::Bind(_) | ServeError::System(_) | ServeError::Interrupted => Exit::Failed,
            }
        }
    }
}

fn run(settings: Settings) -> Result<(), ServeError> {
    let server = Server::new(settings)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let ended = runtime.block_on(async { server.run(signals()?).await });
    // A look-up of a name may still run in a thread of its own: nobody waits for its answer any more.
    runtime.shutdown_background();
    ended
}
