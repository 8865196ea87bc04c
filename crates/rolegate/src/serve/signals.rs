//! The signals that the server handles.

use std::io;

use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

/// A signal to the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// Stop; a second one stops at once (SIGTERM, SIGINT).
    Stop,
    /// Reload the policy (SIGHUP).
    Reload,
}

/// Ends the system's handling of SIGHUP, which would end the process. Until [`signals`] is called, the signal has no effect.
///
/// # Errors
/// When the handler cannot be installed.
pub(crate) fn expect_reloads() -> io::Result<()> {
    // The handler stays when this stream of signals is dropped.
    signal(SignalKind::hangup()).map(drop)
}

/// Installs the signal handlers. Returns the signals from now on.
///
/// # Errors
/// When a handler cannot be installed.
pub fn signals() -> io::Result<UnboundedReceiver<Signal>> {
    let (sender, signals) = unbounded_channel();
    let kinds = [
        (SignalKind::terminate(), Signal::Stop),
        (SignalKind::interrupt(), Signal::Stop),
        (SignalKind::hangup(), Signal::Reload),
    ];
    for (kind, meaning) in kinds {
        let mut stream = signal(kind)?;
        let sender = sender.clone();
        tokio::spawn(async move { while stream.recv().await.is_some() && sender.send(meaning).is_ok() {} });
    }
    Ok(signals)
}
