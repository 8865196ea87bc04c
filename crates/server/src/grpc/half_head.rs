//! Request heads that have begun and not ended.
//!
//! `h2` decodes a head as it arrives, and keeps what it has until its last frame is there: up to 300 KiB of many small fields
//! that took 4 KB to send, since [`super::connection`] permits long heads. No request has been accepted then, so neither the deadline
//! of a request nor the budget of messages counts. So the frames are followed here (RFC 9113, 4.1 and 6.2), which tells whether a
//! connection is within such a head.

use std::cell::Cell;

use super::frame_reader::{FrameEvent, FrameReader};

/// A connection begins with so many bytes that are no frame (RFC 9113, 3.4).
const PREFACE: usize = 24;
const HEADERS: u8 = 1;
const CONTINUATION: u8 = 9;
const END_HEADERS: u8 = 4;

/// Follows the frames that a peer sends.
#[derive(Debug)]
pub(super) struct HalfHead(Cell<State>);

#[derive(Clone, Copy, Debug)]
struct State {
    frames: FrameReader,
    /// How many heads have begun that take several frames.
    begun: u64,
    /// Whether the last of them has not ended.
    is_open: bool,
    /// Whether the current frame is its last one.
    is_last: bool,
}

impl Default for HalfHead {
    fn default() -> Self {
        let frames = FrameReader::new(PREFACE);
        Self(Cell::new(State { frames, begun: 0, is_open: false, is_last: false }))
    }
}

impl HalfHead {
    /// Follows what was read.
    pub(super) fn read(&self, bytes: &[u8]) {
        let State { mut frames, mut begun, mut is_open, mut is_last } = self.0.get();
        frames.read(bytes, |event| match event {
            FrameEvent::Begin { kind: HEADERS, flags } if flags & END_HEADERS == 0 => {
                (begun, is_open) = (begun.wrapping_add(1), true);
            }
            FrameEvent::Begin { kind: CONTINUATION, flags } => is_last = flags & END_HEADERS != 0,
            FrameEvent::End if is_last => (is_open, is_last) = (false, false),
            FrameEvent::Begin { .. } | FrameEvent::Reset(_) | FrameEvent::End => {}
        });
        self.0.set(State { frames, begun, is_open, is_last });
    }

    /// The number of the head of which frames have arrived, and not the whole of its last one.
    pub(super) fn open(&self) -> Option<u64> {
        let State { begun, is_open, .. } = self.0.get();
        is_open.then_some(begun)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::grpc::frame_reader::FRAME_HEADER;

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
                assert_eq!(head.open().is_some(), wanted(read), "after {read} in steps of {step}");
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
        assert_eq!(head.open(), Some(1));
        head.read(&[frame(CONTINUATION, END_HEADERS, 5), frame(HEADERS, 0, 5)].concat());
        assert_eq!(head.open(), Some(2));
    }

    #[test]
    fn empty_frames_end_a_head_too() {
        let frames =
            [frame(HEADERS, 0, 0), frame(CONTINUATION, END_HEADERS, 0), frame(HEADERS, END_HEADERS, 3)];
        opens(&frames, |read| (FRAME_HEADER..2 * FRAME_HEADER).contains(&read));
    }
}
