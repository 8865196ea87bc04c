//! A client of HTTP/1.1 that costs much less than the servers it measures: it sends the same bytes
//! again and again, and expects answers of the same length.

use std::io;
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use super::client::Run;

/// As many requests as there are under way on the streams of a Check client.
const CONNECTIONS: usize = 64;

/// Sends `request` for so long, on each connection one after the other.
///
/// # Errors
/// If an answer is not a 200 of the usual length, or a connection ends.
pub(super) async fn run(address: &str, request: &[u8], time: Duration) -> io::Result<Run> {
    let start = Instant::now();
    let mut connections = JoinSet::new();
    for _ in 0..CONNECTIONS {
        let (address, request) = (address.to_owned(), request.to_vec());
        connections.spawn(async move { connection(&address, &request, start + time).await });
    }
    let mut answered = 0;
    while let Some(connection) = connections.join_next().await {
        answered += connection.map_err(io::Error::other)??;
    }
    let rate = load::report::units::float(answered) / start.elapsed().as_secs_f64();
    Ok(Run { rate, answered, message: Vec::new() })
}

/// Returns the number of answers.
async fn connection(address: &str, request: &[u8], end: Instant) -> io::Result<u64> {
    let mut socket = TcpStream::connect(address).await?;
    socket.set_nodelay(true)?;
    socket.write_all(request).await?;
    let mut answer = read_answer(&mut socket).await?;
    let mut answered = 1;
    while Instant::now() < end {
        socket.write_all(request).await?;
        socket.read_exact(&mut answer).await?;
        if !answer.starts_with(b"HTTP/1.1 200 ") || !answer.ends_with(b"\r\n\r\n") {
            return Err(io::Error::other("an answer that is no 200, or of another length"));
        }
        answered += 1;
    }
    Ok(answered)
}

/// Reads an answer without a body.
async fn read_answer(socket: &mut TcpStream) -> io::Result<Vec<u8>> {
    let mut answer = Vec::new();
    while !answer.ends_with(b"\r\n\r\n") {
        if socket.read_buf(&mut answer).await? == 0 {
            return Err(io::Error::other("the server closed the connection"));
        }
    }
    Ok(answer)
}
