//! `rolegate health`: an exec probe, for an admin address that only this machine can reach.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use server::{Address, AdminAddress};

use crate::cli::HealthArgs;
use crate::error::{CommandError, Exit};
use crate::output::Output;

/// Maximum time until the whole answer has arrived. A kubelet ends the probe after its own
/// `timeoutSeconds`, by default one second.
const TIMEOUT: Duration = Duration::from_secs(5);
/// Maximum size of the answer, in bytes: a header and some lines.
const MAX_ANSWER: u64 = 16 << 10;

/// Prints the answer of the server. The exit code says whether it is ready, or alive.
pub(crate) fn run(args: &HealthArgs, output: &Output) -> Result<Exit, CommandError> {
    let AdminAddress::On(address) = &args.admin else {
        return Err(CommandError::arguments("`--admin` is `off`: there is no admin listener"));
    };
    let question = "is this the address of its `--admin`?";
    let path = if args.live { "/healthz" } else { "/readyz" };
    let answer = get(address.clone(), path).map_err(|error| {
        CommandError::failed(format_args!(
            "no answer at `{address}`: {error}: is rolegate running, and {question}"
        ))
    })?;
    let Some((status, body)) = parse(&answer) else {
        return Err(CommandError::failed(format_args!(
            "the answer of `{address}` is not HTTP: {question}"
        )));
    };
    // Another program at this address may answer any path with 200.
    if !["ok", "ready", "not ready"].iter().any(|start| body.starts_with(start)) {
        return Err(CommandError::failed(format_args!(
            "the answer of `{address}` is not rolegate's: {question}"
        )));
    }
    output.line(body.trim_end());
    Ok(if status == 200 { Exit::Success } else { Exit::No })
}

/// The answer to a request. A thread waits for it, so that the deadline bounds all its reads.
fn get(address: Address, path: &'static str) -> io::Result<String> {
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        let answer = match address {
            Address::Tcp(at) => TcpStream::connect(at).and_then(|stream| exchange(stream, path)),
            Address::Unix(at) => UnixStream::connect(at).and_then(|stream| exchange(stream, path)),
        };
        sender.send(answer)
    });
    receiver.recv_timeout(TIMEOUT).unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
}

/// Sends a request and reads the answer to its end.
fn exchange(mut stream: impl Read + Write, path: &str) -> io::Result<String> {
    let request = format!("GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes())?;
    let mut answer = Vec::new();
    stream.take(MAX_ANSWER).read_to_end(&mut answer)?;
    Ok(String::from_utf8_lossy(&answer).into_owned())
}

/// The status and the body.
fn parse(answer: &str) -> Option<(u16, &str)> {
    let (head, body) = answer.split_once("\r\n\r\n")?;
    let status = head.strip_prefix("HTTP/1.1 ").or_else(|| head.strip_prefix("HTTP/1.0 "))?;
    Some((status.split(' ').next()?.parse().ok()?, body))
}
