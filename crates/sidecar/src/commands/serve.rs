//! `rolegate serve`: runs the server.

use std::sync::Arc;

use crate::exit::Exit;
use crate::logs;
use crate::output::Output;
use crate::serve::{ServeError, Server, signals};
use crate::settings::{LogFormat, Settings};
use runtime::lines::Counts;

/// Serves until a signal stops it.
pub(crate) fn serve(settings: Settings, output: &mut Output<'_>) -> Exit {
    let logs = match logs::start(settings.log_format, settings.log_level) {
        Ok(logs) => logs,
        Err(error) => {
            output.error(&error.to_string());
            return Exit::Failed;
        }
    };
    let json = settings.log_format == LogFormat::Json;
    let ended = run(settings, logs.counts());
    if json && let Err(error) = &ended {
        // Whatever reads the log takes each line as a JSON object.
        tracing::error!("{error}");
    }
    logs.finish();
    match ended {
        Ok(()) => Exit::Success,
        Err(error) => {
            if !json {
                output.error(&error.to_string());
            }
            match error {
                ServeError::Policy(_) => Exit::Policy,
                ServeError::Bind(_) | ServeError::System(_) | ServeError::Interrupted => Exit::Failed,
            }
        }
    }
}

fn run(settings: Settings, logs: Arc<Counts>) -> Result<(), ServeError> {
    let server = Server::new(settings, logs)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let ended = runtime.block_on(async { server.run(signals()?).await });
    // A DNS lookup may still run on a blocking thread: do not wait for it.
    runtime.shutdown_background();
    ended
}
