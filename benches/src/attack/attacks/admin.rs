//! Connections to the admin listener that are kept open, with probes beside them.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use super::Scene;
use crate::attack::server::ask;

/// More than the former limit of the admin listener, which was 64 connections.
const KEPT: usize = 72;
const PROBE_TIMEOUT: Duration = Duration::from_secs(1);
const PROBE_EVERY: Duration = Duration::from_millis(100);

/// Keeps connections open after one response each, reopens those that the server closes, and probes
/// like a kubelet.
pub(crate) fn kept_connections(scene: &Scene) -> String {
    let (mut kept, mut probes, mut answered) = (Vec::new(), 0, 0);
    while !scene.is_over() {
        kept.retain_mut(is_open);
        while kept.len() < KEPT && !scene.is_over() {
            kept.extend(keep(scene));
        }
        let start = Instant::now();
        probes += 1;
        answered += usize::from(ask(scene.admin, "/healthz", PROBE_TIMEOUT).is_ok());
        std::thread::sleep(PROBE_EVERY.saturating_sub(start.elapsed()));
    }
    format!("{answered} of {probes} probes answered")
}

fn keep(scene: &Scene) -> Option<TcpStream> {
    let mut stream = TcpStream::connect_timeout(&scene.admin, PROBE_TIMEOUT).ok()?;
    stream.write_all(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n").ok()?;
    stream.set_nonblocking(true).ok()?;
    Some(stream)
}

/// Whether the server has not closed the connection. Discards what it has sent.
fn is_open(stream: &mut TcpStream) -> bool {
    let mut buffer = [0; 4096];
    loop {
        match stream.read(&mut buffer) {
            Ok(0) => return false,
            Ok(_) => {}
            Err(error) => return error.kind() == std::io::ErrorKind::WouldBlock,
        }
    }
}
