//! The request body of a call, for tonic. It is read as it arrives, so that nothing waits inside `h2`, where a stream
//! may hold 256 KiB and a connection 1 MiB. What waits here is bounded, too.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use h2::RecvStream;
use http_body::{Body, Frame};
use tokio::sync::mpsc::{self, UnboundedReceiver, UnboundedSender};
use tokio::time::timeout;

/// Maximum bytes that wait until tonic reads them.
const MAX_WAITING: usize = 16 << 10;
/// Bytes that each part takes in addition to its content: its allocation, and its slot in the channel.
const PART: usize = 64;

/// The body that tonic reads.
#[derive(Debug)]
pub(super) struct Upload {
    parts: UnboundedReceiver<Bytes>,
    waiting: Arc<AtomicUsize>,
}

/// Reads the stream and fills the [`Upload`].
#[derive(Debug)]
pub(super) struct Pump {
    stream: RecvStream,
    parts: UnboundedSender<Bytes>,
    waiting: Arc<AtomicUsize>,
}

/// The peer sends nothing for too long, or more than is read. This ends its call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Misbehaved;

pub(super) fn upload(stream: RecvStream) -> (Upload, Pump) {
    let (sender, parts) = mpsc::unbounded_channel();
    let waiting = Arc::<AtomicUsize>::default();
    (Upload { parts, waiting: Arc::clone(&waiting) }, Pump { stream, parts: sender, waiting })
}

impl Pump {
    /// Reads to the end of the body; each part must arrive within `idle_timeout`.
    pub(super) async fn run(mut self, idle_timeout: Duration) -> Result<(), Misbehaved> {
        while let Some(data) = timeout(idle_timeout, self.stream.data()).await.map_err(|_| Misbehaved)? {
            let data = data.map_err(|_| Misbehaved)?;
            self.stream.flow_control().release_capacity(data.len()).map_err(|_| Misbehaved)?;
            let size = data.len().saturating_add(PART);
            if self.waiting.fetch_add(size, Relaxed).saturating_add(size) > MAX_WAITING {
                return Err(Misbehaved);
            }
            // Sending fails if tonic has ended the call; the rest of the body is then of no use. Copied, because
            // `data` keeps alive the buffer that `h2` has read into, 8 KiB for a part of one byte.
            let _ = self.parts.send(Bytes::copy_from_slice(&data));
        }
        Ok(())
    }
}

impl Body for Upload {
    type Data = Bytes;
    type Error = h2::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, h2::Error>>> {
        self.parts.poll_recv(cx).map(|part| {
            let part = part?;
            self.waiting.fetch_sub(part.len().saturating_add(PART), Relaxed);
            Some(Ok(Frame::data(part)))
        })
    }
}
