//! A connection to the server that counts its bytes.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use tokio::net::{TcpStream, UnixStream};
use tokio_util::either::Either;
use tokio_util::io::{InspectReader, InspectWriter};

use crate::address::Address;

/// The bytes that a thread has sent and received.
#[derive(Debug, Default)]
pub(super) struct Traffic {
    pub(super) sent: AtomicU64,
    pub(super) received: AtomicU64,
}

/// A connection to the server.
pub(super) type Socket =
    InspectWriter<InspectReader<Either<TcpStream, UnixStream>, Counter>, Counter>;

type Counter = Box<dyn FnMut(&[u8]) + Send>;

pub(super) async fn connect(address: &Address, traffic: &Arc<Traffic>) -> io::Result<Socket> {
    let stream = match address {
        Address::Tcp(host, port) => {
            let stream = TcpStream::connect((host.as_str(), *port)).await?;
            // Otherwise a request might wait for the acknowledgement of its predecessor (Nagle's
            // algorithm).
            stream.set_nodelay(true)?;
            Either::Left(stream)
        }
        Address::Unix(path) => Either::Right(UnixStream::connect(path).await?),
    };
    let stream = InspectReader::new(stream, counter(traffic, |traffic| &traffic.received));
    Ok(InspectWriter::new(stream, counter(traffic, |traffic| &traffic.sent)))
}

fn counter(traffic: &Arc<Traffic>, count: fn(&Traffic) -> &AtomicU64) -> Counter {
    let traffic = Arc::clone(traffic);
    Box::new(move |bytes| {
        count(&traffic).fetch_add(bytes.len() as u64, Relaxed);
    })
}
