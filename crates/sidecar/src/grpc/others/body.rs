//! The body of a request, for tonic: what is read opens the window again.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use h2::RecvStream;
use http_body::{Body, Frame};

/// What the client sends on a stream.
#[derive(Debug)]
pub(in super::super) struct Upload {
    stream: RecvStream,
    data_ended: bool,
}

impl Upload {
    pub(super) fn new(stream: RecvStream) -> Self {
        Self { stream, data_ended: false }
    }
}

impl Body for Upload {
    type Data = Bytes;
    type Error = h2::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, h2::Error>>> {
        if !self.data_ended {
            if let Some(data) = ready!(self.stream.poll_data(cx)) {
                let data = data?;
                self.stream.flow_control().release_capacity(data.len())?;
                return Poll::Ready(Some(Ok(Frame::data(data))));
            }
            self.data_ended = true;
        }
        let trailers = ready!(self.stream.poll_trailers(cx))?;
        Poll::Ready(trailers.map(Frame::trailers).map(Ok))
    }

    fn is_end_stream(&self) -> bool {
        self.stream.is_end_stream()
    }
}
