//! Follows the frames in one direction of a connection (RFC 9113, 4.1), for what `h2` does not tell.

/// A frame begins with its length (3 bytes), type, flags and stream (4 bytes).
pub(super) const FRAME_HEADER: usize = 9;
/// A frame that resets a stream is a header and an error code.
const RESET: usize = FRAME_HEADER + 4;
const RST_STREAM: u8 = 3;

/// Finds where frames begin and end.
#[derive(Clone, Copy, Debug)]
pub(super) struct FrameReader {
    /// Bytes until the next frame begins.
    rest: usize,
    /// The beginning of a frame, as far as it has arrived.
    head: [u8; RESET],
    arrived: usize,
}

/// A step in a stream of frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FrameEvent {
    /// A frame begins.
    Begin { kind: u8, flags: u8 },
    /// A stream is reset with this error code.
    Reset(u32),
    /// The whole of a frame has arrived.
    End,
}

impl FrameReader {
    /// The first frame begins after so many bytes.
    pub(super) const fn new(preface: usize) -> Self {
        Self { rest: preface, head: [0; RESET], arrived: 0 }
    }

    /// Follows the next bytes.
    pub(super) fn read(&mut self, mut bytes: &[u8], mut handle: impl FnMut(FrameEvent)) {
        while !bytes.is_empty() {
            if self.rest == 0 {
                let (event, rest) = self.begin(bytes);
                bytes = rest;
                let Some(event) = event else { continue };
                handle(event);
            }
            let skipped = self.rest.min(bytes.len());
            bytes = bytes.get(skipped..).unwrap_or_default();
            self.rest -= skipped;
            if self.rest == 0 {
                handle(FrameEvent::End);
            }
        }
    }

    /// Reads the beginning of a frame, as far as it is there. Returns what is left.
    fn begin<'b>(&mut self, bytes: &'b [u8]) -> (Option<FrameEvent>, &'b [u8]) {
        let is_reset = self.arrived >= FRAME_HEADER && self.head.get(3) == Some(&RST_STREAM);
        let needed = if is_reset { RESET } else { FRAME_HEADER };
        let missing = self.head.iter_mut().take(needed).skip(self.arrived).zip(bytes);
        let count = missing.map(|(to, from)| *to = *from).count();
        self.arrived += count;
        let rest = bytes.get(count..).unwrap_or_default();
        let [high, middle, low, kind, flags, _, _, _, _, code @ ..] = self.head;
        if self.arrived < needed || (kind == RST_STREAM && needed < RESET) {
            return (None, rest);
        }
        self.arrived = 0;
        let length = usize::from(high) << 16 | usize::from(middle) << 8 | usize::from(low);
        self.rest = length.saturating_sub(needed - FRAME_HEADER);
        let event = if is_reset {
            FrameEvent::Reset(u32::from_be_bytes(code))
        } else {
            FrameEvent::Begin { kind, flags }
        };
        (Some(event), rest)
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
}
