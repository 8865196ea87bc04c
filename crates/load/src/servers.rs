//! The commands that serve: the sample application and the baseline.

use std::io;

use tokio::net::{TcpListener, UnixListener};
use tokio::runtime::Runtime;
use tokio::signal::unix::{SignalKind, signal};

use crate::address::Address;
use crate::baseline::{self, Listener};
use crate::{app, screen};

/// Runs the sample application until SIGTERM or Ctrl-C.
pub(crate) fn app(address: &Address, threads: usize) -> Result<(), String> {
    runtime(threads)?.block_on(async {
        let end = end().map_err(|error| error.to_string())?;
        let listener = bind_tcp(address).await?;
        announce(&listener)?;
        app::serve(listener, end).await.map_err(|error| error.to_string())
    })
}

/// Runs the baseline until SIGTERM or Ctrl-C.
pub(crate) fn baseline(address: &Address, threads: usize) -> Result<(), String> {
    runtime(threads)?.block_on(async {
        let end = end().map_err(|error| error.to_string())?;
        let listener = match address {
            Address::Tcp(..) => {
                let listener = bind_tcp(address).await?;
                announce(&listener)?;
                Listener::Tcp(listener)
            }
            Address::Unix(path) => {
                remove_stale(path).map_err(|error| cannot(address, &error))?;
                let listener = UnixListener::bind(path).map_err(|error| cannot(address, &error))?;
                screen::line(&format!("listening on {address}"));
                Listener::Unix(listener, path.clone())
            }
        };
        baseline::serve(listener, end).await.map_err(|error| error.to_string())
    })
}

/// A runtime with the requested number of threads; 0 means one per available core. A single thread gets a scheduler for
/// one thread: with it, the baseline answers 1.8 times as many checks (2026-11-21).
fn runtime(threads: usize) -> Result<Runtime, String> {
    let cores = || std::thread::available_parallelism().map_or(1, usize::from);
    let threads = if threads == 0 { cores() } else { threads };
    let mut builder = match threads {
        1 => tokio::runtime::Builder::new_current_thread(),
        _ => tokio::runtime::Builder::new_multi_thread(),
    };
    if threads > 1 {
        builder.worker_threads(threads);
    }
    builder.enable_all().build().map_err(|error| error.to_string())
}

async fn bind_tcp(address: &Address) -> Result<TcpListener, String> {
    match address {
        Address::Tcp(host, port) => {
            TcpListener::bind((host.as_str(), *port)).await.map_err(|error| cannot(address, &error))
        }
        Address::Unix(_) => Err("the sample application listens on a port only".to_owned()),
    }
}

fn announce(listener: &TcpListener) -> Result<(), String> {
    let at = listener.local_addr().map_err(|error| error.to_string())?;
    screen::line(&format!("listening on {at}"));
    Ok(())
}

fn cannot(address: &Address, error: &io::Error) -> String {
    format!("cannot listen on `{address}`: {error}")
}

/// Removes a socket on which no process listens. Any other file is kept, and binding fails.
fn remove_stale(path: &std::path::Path) -> io::Result<()> {
    use std::os::unix::fs::FileTypeExt;
    let is_socket = std::fs::symlink_metadata(path).is_ok_and(|it| it.file_type().is_socket());
    let refused = std::os::unix::net::UnixStream::connect(path)
        .is_err_and(|error| error.kind() == io::ErrorKind::ConnectionRefused);
    if is_socket && refused { std::fs::remove_file(path) } else { Ok(()) }
}

/// Completes on SIGTERM or SIGINT. Without handlers, the first process of a container would ignore these signals.
fn end() -> io::Result<impl Future<Output = ()>> {
    let (mut terminate, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    Ok(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
    })
}
