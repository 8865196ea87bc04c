//! Receives the gRPC message of a stream. Its prefix has five bytes: whether the message is
//! compressed, and its length.
//!
//! Nearly every message arrives in a single DATA frame, and is used without a copy. Others are
//! assembled in a buffer, whose memory is bounded by a [`Budget`].

use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use authorizer::Limit;
use bytes::{Buf as _, Bytes};
use h2::RecvStream;
use runtime::counters::ErrorKind;
use tokio::time::{Instant, timeout_at};

use crate::checks::budget::{Budget, Reservation};
use crate::checks::checker::Failure;
use crate::checks::notices::Overload;

/// Size of the gRPC prefix of a message: flag and length.
pub(super) const GRPC_PREFIX: usize = 5;
/// How long the rest of a message may take before its check counts as waiting, and takes one of the
/// places for waiting requests in the [`Budget`]. Head and message often arrive in two reads, a
/// moment apart. Such a check must not be denied because slow peers have taken all places. Chosen,
/// not measured: far longer than that moment on a busy machine, and less than Envoy's default
/// timeout, 200 ms.
pub(super) const GRACE: Duration = Duration::from_millis(100);

/// Maximum size of a message, and the budget that all waiting requests share.
#[derive(Clone, Debug)]
pub(crate) struct Limits {
    pub(crate) message: usize,
    pub(crate) budget: Arc<Budget>,
}

/// A message that is being received.
#[derive(Debug)]
pub(super) struct Incoming {
    body: RecvStream,
    arrived: Arrived,
}

/// The part of a message that has arrived.
#[derive(Debug)]
enum Arrived {
    Nothing,
    /// The whole message, in a single frame.
    Whole(Bytes),
    /// The bytes so far, copied into a buffer, with their share of the budget.
    Parts(Vec<u8>, Reservation),
}

impl Incoming {
    pub(super) fn new(body: RecvStream) -> Self {
        Self { body, arrived: Arrived::Nothing }
    }

    /// The message without its prefix, once the stream has ended after it. A message that is not
    /// complete yet reserves memory in the budget.
    ///
    /// The limits are borrowed: to clone the `Arc` of their budget for each message would write to
    /// a reference count that all workers share.
    pub(super) fn poll(
        &mut self,
        limits: &Limits,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Bytes, Failure>> {
        while !self.body.is_end_stream() {
            match self.body.poll_data(cx) {
                Poll::Ready(Some(Ok(data))) => self.add(data, limits)?,
                Poll::Ready(Some(Err(_))) => return Poll::Ready(Err(ErrorKind::Cancelled.into())),
                // Trailers may follow. They mean nothing in a request.
                Poll::Ready(None) => break,
                Poll::Pending => {
                    self.reserve(limits)?;
                    return Poll::Pending;
                }
            }
        }
        Poll::Ready(self.finish(limits))
    }

    /// The same as [`Incoming::poll`], until a deadline. After `grace` it takes a place among the
    /// requests that wait.
    pub(super) async fn receive(
        &mut self,
        limits: &Limits,
        grace: Instant,
        deadline: Instant,
    ) -> Result<Bytes, Failure> {
        let grace = deadline.min(grace);
        if let Ok(message) = timeout_at(grace, poll_fn(|cx| self.poll(limits, cx))).await {
            return message;
        }
        if let Arrived::Parts(_, reservation) = &mut self.arrived {
            reservation.take_place()?;
        }
        let message = timeout_at(deadline, poll_fn(|cx| self.poll(limits, cx))).await;
        message.unwrap_or(Err(Limit::Deadline.into()))
    }

    /// Reopens the connection's flow-control window for a message that is kept for a while, so that
    /// the peer can send others meanwhile. For messages that are answered at once, dropping the
    /// stream reopens it.
    pub(super) fn release(&mut self) {
        let unreleased = self.body.flow_control().used_capacity();
        // It fails only if more is released than was received.
        let _ = self.body.flow_control().release_capacity(unreleased);
    }

    fn reserve(&mut self, limits: &Limits) -> Result<(), Overload> {
        let message = match &self.arrived {
            Arrived::Parts(..) => return Ok(()),
            Arrived::Nothing => Vec::new(),
            // Only the end of the stream is missing. Copied, because `message` keeps alive the
            // buffer that `h2` has read into, which is larger than most messages.
            Arrived::Whole(message) => message.to_vec(),
        };
        let reservation = limits.budget.reserve_bytes(message.capacity())?;
        self.arrived = Arrived::Parts(message, reservation);
        Ok(())
    }

    fn add(&mut self, data: Bytes, limits: &Limits) -> Result<(), Failure> {
        match &mut self.arrived {
            Arrived::Nothing => {
                if expected(&data, limits.message)?.is_some_and(|length| length == data.len()) {
                    // The flow-control window for it reopens when the stream is dropped.
                    self.arrived = Arrived::Whole(data);
                    return Ok(());
                }
                self.reserve(limits)?;
                self.add(data, limits)
            }
            Arrived::Whole(_) if data.is_empty() => Ok(()),
            Arrived::Whole(_) => Err(ErrorKind::Framing.into()),
            Arrived::Parts(parts, reservation) => {
                let mut prefix = [0; GRPC_PREFIX];
                // The prefix may begin in `parts` and end in `data`.
                let copied = prefix
                    .iter_mut()
                    .zip(parts.iter().chain(&data))
                    .map(|(to, from)| *to = *from)
                    .count();
                let length = expected(prefix.get(..copied).unwrap_or_default(), limits.message)?;
                if length.is_some_and(|length| length < parts.len().saturating_add(data.len())) {
                    return Err(ErrorKind::Framing.into());
                }
                grow(parts, data.len(), length, reservation)?;
                parts.extend_from_slice(&data);
                let released = self.body.flow_control().release_capacity(data.len());
                released.map_err(|_| ErrorKind::Cancelled.into())
            }
        }
    }

    fn finish(&mut self, limits: &Limits) -> Result<Bytes, Failure> {
        let mut message = match std::mem::replace(&mut self.arrived, Arrived::Nothing) {
            Arrived::Nothing => return Err(ErrorKind::Framing.into()),
            Arrived::Whole(message) => message,
            Arrived::Parts(parts, _) => Bytes::from(parts),
        };
        if expected(&message, limits.message)? != Some(message.len()) {
            return Err(ErrorKind::Framing.into());
        }
        message.advance(GRPC_PREFIX);
        Ok(message)
    }
}

/// Makes room for `more` bytes. `length` is the length of the whole message; `None` while it is not
/// known. The budget is charged for the capacity of the buffer: at most twice the bytes that have
/// arrived, and never more than the length.
fn grow(
    parts: &mut Vec<u8>,
    more: usize,
    length: Option<usize>,
    reservation: &mut Reservation,
) -> Result<(), Overload> {
    let needed = parts.len().saturating_add(more);
    if needed > parts.capacity() {
        let twice = parts.capacity().saturating_mul(2);
        let capacity = needed.max(length.map_or(twice, |length| twice.min(length)));
        reservation.more(capacity - parts.capacity())?;
        parts.reserve_exact(capacity - parts.len());
    }
    Ok(())
}

/// The length of the message including its prefix; `None` until the prefix has arrived.
fn expected(arrived: &[u8], limit: usize) -> Result<Option<usize>, Failure> {
    let Some((&[flag, ref length @ ..], _)) = arrived.split_first_chunk::<GRPC_PREFIX>() else {
        return Ok(None);
    };
    let length = usize::try_from(u32::from_be_bytes(*length)).map_err(|_| Limit::MessageSize)?;
    match flag {
        0 if length <= limit => Ok(Some(GRPC_PREFIX + length)),
        0 => Err(Limit::MessageSize.into()),
        1 => Err(ErrorKind::Compressed.into()),
        _ => Err(ErrorKind::Framing.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checks::budget::OVERHEAD;

    #[test]
    fn the_length_is_read_from_the_prefix() {
        assert_eq!(expected(&[0, 0, 0, 0], 9), Ok(None));
        assert_eq!(expected(&[0, 0, 0, 0, 0], 9), Ok(Some(5)));
        assert_eq!(expected(&[0, 0, 0, 0, 9], 9), Ok(Some(14)));
        assert_eq!(expected(&[0, 0, 0, 0, 10], 9), Err(Limit::MessageSize.into()));
        assert_eq!(expected(&[0, 0xFF, 0xFF, 0xFF, 0xFF], 9), Err(Limit::MessageSize.into()));
        assert_eq!(expected(&[1, 0, 0, 0, 1], 9), Err(ErrorKind::Compressed.into()));
        assert_eq!(expected(&[2, 0, 0, 0, 1], 9), Err(ErrorKind::Framing.into()));
    }

    #[test]
    fn a_message_is_charged_its_length_and_at_no_time_more_than_twice_what_has_arrived() {
        for length in
            [GRPC_PREFIX, GRPC_PREFIX + 1, GRPC_PREFIX + (10 << 20), (1 << 20) + 1, 8 << 20]
        {
            let budget = Budget::new(1, length + OVERHEAD);
            let (mut parts, mut held) = (Vec::new(), budget.reserve_bytes(0).unwrap());
            // The length is not known before the whole prefix has arrived.
            grow(&mut parts, 3, None, &mut held).unwrap();
            parts.extend_from_slice(&[0; 3]);
            while parts.len() < length {
                let more = (16 << 10).min(length - parts.len());
                grow(&mut parts, more, Some(length), &mut held).unwrap();
                parts.resize(parts.len() + more, 0);
                assert_eq!(held.bytes - OVERHEAD, parts.capacity());
                assert!(parts.capacity() <= 2 * parts.len(), "{} of {length}", parts.len());
            }
            assert_eq!(held.bytes - OVERHEAD, length);
        }
    }
}
