//! `rolegate serve`: runs the server.

use std::sync::Arc;

use crate::exit::Exit;
use crate::logs;
use crate::output::Output;
use crate::serve::{ServeError, Server, expect_reloads, signals};
use crate::settings::Settings;
use runtime::LoadError;
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
    let is_text = logs::is_text(settings.log_format);
    let ended = run(settings, logs.counts());
    if let Err(error) = &ended {
        if is_text {
            logs.text(&format!("rolegate: {error}"));
        } else {
            log(error);
        }
    }
    logs.finish();
    match ended {
        Ok(()) => Exit::Success,
        Err(error) => match error {
            ServeError::NotLoaded(LoadError::Policy(_) | LoadError::Shadow(_)) => Exit::Policy,
            ServeError::NotLoaded(LoadError::Setting(_))
            | ServeError::SameAddress(_)
            | ServeError::Settings(_) => Exit::Arguments,
            ServeError::Bind(_) | ServeError::Tls(_) | ServeError::System(_) | ServeError::Interrupted => {
                Exit::Failed
            }
        },
    }
}

/// Logs why the server ends, so that whoever reads JSON lines gets no other ones.
fn log(error: &ServeError) {
    match error {
        ServeError::NotLoaded(LoadError::Policy(problems)) => {
            runtime::log_problems(problems);
            tracing::error!("cannot start: the policy does not compile");
        }
        ServeError::NotLoaded(LoadError::Shadow(problems)) => runtime::shadow_span().in_scope(|| {
            runtime::log_problems(problems);
            tracing::error!(
                "cannot start: the shadow policy does not compile: mend it, or start without `shadow`"
            );
        }),
        ServeError::NotLoaded(LoadError::Setting(error)) => tracing::error!("cannot start: {error}"),
        ServeError::SameAddress(_)
        | ServeError::Settings(_)
        | ServeError::Tls(_)
        | ServeError::Bind(_)
        | ServeError::System(_)
        | ServeError::Interrupted => tracing::error!("{error}"),
    }
}

fn run(settings: Settings, logs: Arc<Counts>) -> Result<(), ServeError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    {
        let _entered = runtime.enter();
        // While the policy is loaded, there is nothing to stop in good order, but a request to reload must not end the process.
        expect_reloads()?;
    }
    let server = Server::new(settings, logs)?;
    let ended = runtime.block_on(async { server.run(signals()?).await });
    // A DNS lookup may still run on a blocking thread: do not wait for it.
    runtime.shutdown_background();
    ended
}
