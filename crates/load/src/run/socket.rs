//! A connection to the server that counts its bytes.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpStream, UnixStream};
use tokio_util::either::Either;

use crate::address::Address;

/// The bytes that one thread has sent and received.
#[derive(Debug, Default)]
pub(super) struct Traffic {
    pub(super) sent: AtomicU64,
    pub(super) received: AtomicU64,
}

/// A connection to the server.
#[derive(Debug)]
pub(super) struct Socket {
    stream: Either<TcpStream, UnixStream>,
    traffic: Arc<Traffic>,
}

impl Socket {
    /// Connects.
    pub(super) async fn connect(address: &Address, traffic: &Arc<Traffic>) -> io::Result<Self> {
        let stream = match address {
            Address::Tcp(host, port) => {
                let stream = TcpStream::connect((host.as_str(), *port)).await?;
                // Otherwise a request might wait for the acknowledgement of the previous one (Nagle's algorithm).
                stream.set_nodelay(true)?;
                Either::Left(stream)
            }
            Address::Unix(path) => Either::Right(UnixStream::connect(path).await?),
        };
        Ok(Self { stream, traffic: Arc::clone(traffic) })
    }

    fn sent(&self, result: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        if let Poll::Ready(Ok(bytes)) = &result {
            self.traffic.sent.fetch_add(*bytes as u64, Relaxed);
        }
        result
    }
}

impl AsyncRead for Socket {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let result = Pin::new(&mut self.stream).poll_read(cx, buffer);
        self.traffic.received.fetch_add((buffer.filled().len() - before) as u64, Relaxed);
        result
    }
}

impl AsyncWrite for Socket {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let result = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.sent(result)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let result = Pin::new(&mut self.stream).poll_write_vectored(cx, bytes);
        self.sent(result)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        // Neither kind of stream buffers anything.
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
