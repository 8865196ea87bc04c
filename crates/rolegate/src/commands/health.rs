//! `rolegate health`: an exec probe, for an admin address that only this machine can reach.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use server::{Address, AdminAddress};

use crate::cli::HealthArgs;
use crate::exit::Exit;
use crate::output::Output;

/// Maximum time until the whole answer has arrived. A kubelet waits for one second, unless it is configured
/// otherwise.
const TIMEOUT: Duration = Duration::from_secs(5);
/// Maximum size of the answer, in bytes: a header and some lines.
const MAX_ANSWER: usize = 16 << 10;

/// Prints the answer of the server. The exit code says whether it is ready, or alive.
pub(crate) fn health(args: &HealthArgs, output: &mut Output<'_>) -> Exit {
    let AdminAddress::On(address) = &args.admin else {
        output.error("`--admin` is `off`: there is no admin listener");
        return Exit::Arguments;
    };
    let path = if args.live { "/healthz" } else { "/readyz" };
    match get(address, path) {
        // An application answers any path, maybe with 200.
        Ok((_, body)) if !["ok", "ready", "not ready"].iter().any(|start| body.starts_with(start)) => {
            output.error(&format!(
                "the answer of `{address}` is not rolegate's: is this the address of its `--admin`?"
            ));
            Exit::Failed
        }
        Ok((status, body)) => {
            output.line(body.trim_end());
            if status == 200 { Exit::Success } else { Exit::Denied }
        }
        // Not HTTP.
        Err(error) if error.kind() == io::ErrorKind::InvalidData => {
            output.error(&format!(
                "the answer of `{address}` is not HTTP: is this the address of its `--admin`?"
            ));
            Exit::Failed
        }
        Err(error) => {
            output.error(&format!(
                "no answer at `{address}`: {error}: is rolegate running, and is this the address of its `--admin`?"
            ));
            Exit::Failed
        }
    }
}

fn get(address: &Address, path: &str) -> io::Result<(u16, String)> {
    let end = Instant::now() + TIMEOUT;
    match address {
        Address::Tcp(at) => {
            let stream = TcpStream::connect_timeout(at, TIMEOUT)?;
            stream.set_write_timeout(Some(TIMEOUT))?;
            talk(&stream, path, || stream.set_read_timeout(Some(left(end)?)))
        }
        Address::Unix(at) => {
            let stream = UnixStream::connect(at)?;
            stream.set_write_timeout(Some(TIMEOUT))?;
            talk(&stream, path, || stream.set_read_timeout(Some(left(end)?)))
        }
    }
}

/// Sends one request and reads its answer to the end. `limit` is called before each read to set its timeout, so that
/// one deadline bounds all reads.
fn talk<S>(mut stream: S, path: &str, mut limit: impl FnMut() -> io::Result<()>) -> io::Result<(u16, String)>
where
    S: Read + Write,
{
    let request = format!("GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes())?;
    let mut answer = Vec::new();
    let mut part = [0; 1024];
    while answer.len() < MAX_ANSWER {
        limit()?;
        let read = stream.read(&mut part)?;
        let Some(part) = part.get(..read).filter(|part| !part.is_empty()) else { break };
        answer.extend_from_slice(part);
    }
    parse(&String::from_utf8_lossy(&answer)).ok_or_else(|| io::ErrorKind::InvalidData.into())
}

fn left(end: Instant) -> io::Result<Duration> {
    let left = end.saturating_duration_since(Instant::now());
    if left.is_zero() { Err(io::ErrorKind::TimedOut.into()) } else { Ok(left) }
}

/// The status and the body.
fn parse(answer: &str) -> Option<(u16, String)> {
    let (head, body) = answer.split_once("\r\n\r\n")?;
    let status =
        head.strip_prefix("HTTP/1.1 ").or_else(|| head.strip_prefix("HTTP/1.0 "))?.split(' ').next()?;
    Some((status.parse().ok()?, body.to_owned()))
}
