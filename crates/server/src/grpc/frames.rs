//! Follows the frames of a connection (RFC 9113, 4.1 and 6), for two facts that `h2` does not tell:
//! whether a request head of the peer is unfinished, and how many streams `h2` has reset as
//! invalid.

use std::cell::Cell;
use std::time::Instant;

use h2::Reason;

/// A frame begins with its length (3 bytes), type, flags and stream (4 bytes).
const FRAME_HEADER: usize = 9;
/// A frame that resets a stream is a header and an error code.
const RESET: usize = FRAME_HEADER + 4;
/// The bytes of a client before its first frame (RFC 9113, 3.4).
const PREFACE: usize = 24;

const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const CONTINUATION: u8 = 9;
const END_HEADERS: u8 = 4;

/// The head of a request that has begun and not ended.
///
/// `h2` decodes a head as it arrives, and keeps it until its last frame is there. A head of many
/// small fields takes 4 KB to send and up to 300 KiB to keep, because [`super::connection`] permits
/// long heads. The request is accepted only after its head, so until then no deadline runs and the
/// budget of messages does not count it.
#[derive(Debug)]
pub(super) struct HalfHead(Cell<HeadState>);

#[derive(Clone, Copy, Debug)]
struct HeadState {
    frames: FrameReader,
    /// When the head began, if it takes several frames and has not ended.
    since: Option<Instant>,
    /// Whether the current frame ends the head.
    is_last: bool,
}

/// Counts the streams that `h2` resets because their head or body is invalid.
#[derive(Debug)]
pub(super) struct InvalidStreams {
    frames: Cell<FrameReader>,
    count: Cell<u32>,
}

/// Finds where frames begin and end.
#[derive(Clone, Copy, Debug)]
struct FrameReader {
    /// Bytes until the next frame begins.
    until_next: usize,
    /// The beginning of a frame, as far as it has arrived.
    head: [u8; RESET],
    arrived: usize,
}

/// A step in a stream of frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FrameEvent {
    /// A frame begins.
    Begin { kind: u8, flags: u8 },
    /// A stream is reset with this error code.
    Reset(u32),
    /// The whole of a frame has arrived.
    End,
}

impl Default for HalfHead {
    fn default() -> Self {
        Self(Cell::new(HeadState {
            frames: FrameReader::new(PREFACE),
            since: None,
            is_last: false,
        }))
    }
}

impl HalfHead {
    /// Follows bytes from the peer.
    pub(super) fn read(&self, bytes: &[u8]) {
        let HeadState { mut frames, mut since, mut is_last } = self.0.get();
        frames.read(bytes, |event| match event {
            FrameEvent::Begin { kind: HEADERS, flags } if flags & END_HEADERS == 0 => {
                since = Some(Instant::now());
            }
            FrameEvent::Begin { kind: CONTINUATION, flags } => is_last = flags & END_HEADERS != 0,
            FrameEvent::End if is_last => (since, is_last) = (None, false),
            FrameEvent::Begin { .. } | FrameEvent::Reset(_) | FrameEvent::End => {}
        });
        self.0.set(HeadState { frames, since, is_last });
    }

    /// When the unfinished head began.
    pub(super) fn since(&self) -> Option<Instant> {
        self.0.get().since
    }
}

impl Default for InvalidStreams {
    fn default() -> Self {
        Self { frames: Cell::new(FrameReader::new(0)), count: Cell::default() }
    }
}

impl InvalidStreams {
    /// Follows bytes to the peer.
    pub(super) fn write(&self, bytes: &[u8]) {
        let mut frames = self.frames.get();
        frames.read(bytes, |event| {
            if event == FrameEvent::Reset(Reason::PROTOCOL_ERROR.into()) {
                self.count.set(self.count.get().saturating_add(1));
            }
        });
        self.frames.set(frames);
    }

    /// Their number since the last call.
    pub(super) fn take(&self) -> u32 {
        self.count.take()
    }
}

impl FrameReader {
    /// The first frame begins after so many bytes.
    const fn new(preface: usize) -> Self {
        Self { until_next: preface, head: [0; RESET], arrived: 0 }
    }

    /// Follows the next bytes.
    fn read(&mut self, mut bytes: &[u8], mut handle: impl FnMut(FrameEvent)) {
        while !bytes.is_empty() {
            if self.until_next == 0 {
                let (event, remaining) = self.begin(bytes);
                bytes = remaining;
                let Some(event) = event else { continue };
                handle(event);
            }
            let skipped = self.until_next.min(bytes.len());
            bytes = bytes.get(skipped..).unwrap_or_default();
            self.until_next -= skipped;
            if self.until_next == 0 {
                handle(FrameEvent::End);
            }
        }
    }

    /// Reads the beginning of a frame, as far as it is there. Returns the remaining bytes.
    fn begin<'b>(&mut self, bytes: &'b [u8]) -> (Option<FrameEvent>, &'b [u8]) {
        let is_reset = self.arrived >= FRAME_HEADER && self.head.get(3) == Some(&RST_STREAM);
        let needed = if is_reset { RESET } else { FRAME_HEADER };
        let missing = self.head.iter_mut().take(needed).skip(self.arrived).zip(bytes);
        let count = missing.map(|(to, from)| *to = *from).count();
        self.arrived += count;
        let remaining = bytes.get(count..).unwrap_or_default();
        let [high, middle, low, kind, flags, _, _, _, _, code @ ..] = self.head;
        if self.arrived < needed || (kind == RST_STREAM && needed < RESET) {
            return (None, remaining);
        }
        self.arrived = 0;
        let length = usize::from(high) << 16 | usize::from(middle) << 8 | usize::from(low);
        self.until_next = length.saturating_sub(needed - FRAME_HEADER);
        let event = if is_reset {
            FrameEvent::Reset(u32::from_be_bytes(code))
        } else {
            FrameEvent::Begin { kind, flags }
        };
        (Some(event), remaining)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_followed_in_pieces_of_any_size() {
        let frames = [
            &[0, 0, 2, 0, 1, 0, 0, 0, 1, b'x', b'y'][..],
            &[0, 0, 4, RST_STREAM, 0, 0, 0, 0, 1, 0, 0, 1, 2],
            &[0, 0, 0, 4, 1, 0, 0, 0, 0],
        ];
        let bytes = frames.concat();
        for size in 1..=bytes.len() {
            let (mut reader, mut events) = (FrameReader::new(0), Vec::new());
            for piece in bytes.chunks(size) {
                reader.read(piece, |event| events.push(event));
            }
            let wanted = [
                FrameEvent::Begin { kind: 0, flags: 1 },
                FrameEvent::End,
                FrameEvent::Reset(0x102),
                FrameEvent::End,
                FrameEvent::Begin { kind: 4, flags: 1 },
                FrameEvent::End,
            ];
            assert_eq!(events, wanted, "in pieces of {size}");
        }
    }

    fn frame(kind: u8, flags: u8, length: usize) -> Vec<u8> {
        let [.., high, middle, low] = length.to_be_bytes();
        let mut frame = vec![high, middle, low, kind, flags, 0, 0, 0, 1];
        frame.resize(FRAME_HEADER + length, b'x');
        frame
    }

    /// The frames after a preface, and what is open after each of their bytes.
    #[track_caller]
    fn opens(frames: &[Vec<u8>], wanted: impl Fn(usize) -> bool) {
        let bytes = frames.concat();
        for step in [1, 2, 7, bytes.len()] {
            let head = HalfHead::default();
            head.read(&[b'p'; PREFACE]);
            let mut read = 0;
            for part in bytes.chunks(step) {
                head.read(part);
                read += part.len();
                assert_eq!(head.since().is_some(), wanted(read), "after {read} in steps of {step}");
            }
        }
    }

    #[test]
    fn a_head_of_one_frame_is_never_half() {
        opens(&[frame(4, 0, 6), frame(HEADERS, END_HEADERS | 1, 40), frame(0, 1, 300)], |_| false);
    }

    #[test]
    fn a_head_of_several_frames_is_half_until_the_last_byte() {
        let frames = [
            frame(HEADERS, 1, 40),
            frame(CONTINUATION, 0, 300),
            frame(CONTINUATION, END_HEADERS, 20),
            frame(0, 1, 50),
        ];
        let (begun, ended) = (FRAME_HEADER, 3 * FRAME_HEADER + 360);
        opens(&frames, |read| (begun..ended).contains(&read));
    }

    #[test]
    fn heads_are_told_apart() {
        let head = HalfHead::default();
        head.read(&[b'p'; PREFACE]);
        head.read(&frame(HEADERS, 0, 5));
        let first = head.since().unwrap();
        head.read(&[frame(CONTINUATION, END_HEADERS, 5), frame(HEADERS, 0, 5)].concat());
        assert!(head.since().unwrap() > first);
    }

    #[test]
    fn empty_frames_end_a_head_too() {
        let frames = [
            frame(HEADERS, 0, 0),
            frame(CONTINUATION, END_HEADERS, 0),
            frame(HEADERS, END_HEADERS, 3),
        ];
        opens(&frames, |read| (FRAME_HEADER..2 * FRAME_HEADER).contains(&read));
    }
}
