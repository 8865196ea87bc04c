//! The signals that a server obeys.

use std::io;

use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

/// What a server is told from outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// End; the second time: at once (SIGTERM, SIGINT).
    Stop,
    /// Load the policy again (SIGHUP).
    Reload,
}

/// The signals of this process, from now on.
///
/// # Errors
/// When the system does not let us have them.
pub fn signals() -> io::Result<UnboundedReceiver<Signal>> {
    let (tell, signals) = unbounded_channel();
    let kinds = [
        (SignalKind::terminate(), Signal::Stop),
        (SignalKind::interrupt(), Signal::Stop),
        (SignalKind::hangup(), Signal::Reload),
    ];
    for (kind, meaning) in kinds {
        let mut stream = signal(kind)?;
        let tell = tell.clone();
        tokio::spawn(async move { while stream.recv().await.is_some() && tell.send(meaning).is_ok() {} });
    }
    Ok(signals)
}
