//! The protobuf wire format (protobuf.dev, "Encoding"), as far as proto3 messages need it. Strict:
//! groups, field number zero, varints of more than ten bytes or 64 bits, and truncated messages are
//! errors.

/// Why bytes are not a protobuf message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WireError {
    /// The message ends in the middle of a field.
    #[error("the message is cut short")]
    Truncated,
    /// A varint does not end within ten bytes, or does not fit 64 bits.
    #[error("a number is too long")]
    Varint,
    /// A field number that is zero or over 2^29 - 1.
    #[error("a field number is out of range")]
    FieldNumber,
    /// A field is a group, which proto3 does not have, or has an unknown wire type.
    #[error("a field has an unsupported wire type")]
    WireType,
}

/// The value of a field, not yet interpreted as the schema defines it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Value<'a> {
    /// Wire type 0.
    Varint(u64),
    /// Wire types 1 and 5, which no decoded field has.
    Fixed,
    /// Wire type 2: a string, bytes, or a message.
    Bytes(&'a [u8]),
}

/// The fields of a message, in order.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fields<'a> {
    remaining: &'a [u8],
}

impl<'a> Fields<'a> {
    pub(crate) const fn new(message: &'a [u8]) -> Self {
        Self { remaining: message }
    }

    /// The next field, or `None` at the end.
    #[inline]
    pub(crate) fn next(&mut self) -> Result<Option<(u32, Value<'a>)>, WireError> {
        if self.remaining.is_empty() {
            return Ok(None);
        }
        let key = u32::try_from(self.varint()?).map_err(|_| WireError::FieldNumber)?;
        let number = key >> 3;
        if number == 0 {
            return Err(WireError::FieldNumber);
        }
        let value = match key & 7 {
            0 => Value::Varint(self.varint()?),
            1 => self.take(8).map(|_| Value::Fixed)?,
            2 => Value::Bytes(self.length_delimited()?),
            5 => self.take(4).map(|_| Value::Fixed)?,
            _ => return Err(WireError::WireType),
        };
        Ok(Some((number, value)))
    }

    #[inline]
    fn length_delimited(&mut self) -> Result<&'a [u8], WireError> {
        let length = self.varint()?;
        self.take(usize::try_from(length).map_err(|_| WireError::Truncated)?)
    }

    #[inline]
    fn take(&mut self, length: usize) -> Result<&'a [u8], WireError> {
        let (bytes, remaining) =
            self.remaining.split_at_checked(length).ok_or(WireError::Truncated)?;
        self.remaining = remaining;
        Ok(bytes)
    }

    #[inline]
    fn varint(&mut self) -> Result<u64, WireError> {
        let (&first, remaining) = self.remaining.split_first().ok_or(WireError::Truncated)?;
        if first < 0x80 {
            self.remaining = remaining;
            return Ok(u64::from(first));
        }
        self.long_varint()
    }

    fn long_varint(&mut self) -> Result<u64, WireError> {
        let mut value = 0_u64;
        for (place, &byte) in self.remaining.iter().take(MAX_VARINT).enumerate() {
            let last_place = place + 1 == MAX_VARINT;
            if last_place && byte > 1 {
                return Err(WireError::Varint);
            }
            value |= u64::from(byte & 0x7F) << (7 * place);
            if byte < 0x80 {
                self.take(place + 1)?;
                return Ok(value);
            }
        }
        Err(WireError::Truncated)
    }
}

/// Maximum bytes of a varint.
const MAX_VARINT: usize = 10;

/// The number of bytes that `value` takes as a varint.
pub(crate) const fn varint_length(value: usize) -> usize {
    let bits = usize::BITS - (value | 1).leading_zeros();
    bits.div_ceil(7) as usize
}

/// Writes a varint.
pub(crate) fn write_varint(buffer: &mut Vec<u8>, mut value: usize) {
    while value >= 0x80 {
        buffer.push(low_seven(value) | 0x80);
        value >>= 7;
    }
    buffer.push(low_seven(value));
}

/// The bytes of a length-delimited field with `length` bytes of content: its key (for field numbers
/// below 16), its length, its content.
pub(crate) const fn delimited_length(length: usize) -> usize {
    1 + varint_length(length) + length
}

/// Writes the key and the length of a length-delimited field.
pub(crate) fn start(buffer: &mut Vec<u8>, key: u8, length: usize) {
    buffer.push(key);
    write_varint(buffer, length);
}

fn low_seven(value: usize) -> u8 {
    u8::try_from(value & 0x7F).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn first(bytes: &[u8]) -> Result<Option<(u32, Value<'_>)>, WireError> {
        Fields::new(bytes).next()
    }

    #[test]
    fn reads_each_wire_type() {
        assert_eq!(first(&[]), Ok(None));
        assert_eq!(first(&[0x08, 0x96, 0x01]), Ok(Some((1, Value::Varint(150)))));
        assert_eq!(first(&[0x12, 0x02, b'h', b'i']), Ok(Some((2, Value::Bytes(b"hi")))));
        assert_eq!(first(&[0x09, 0, 0, 0, 0, 0, 0, 0, 0]), Ok(Some((1, Value::Fixed))));
        assert_eq!(first(&[0x0D, 0, 0, 0, 0]), Ok(Some((1, Value::Fixed))));
    }

    #[test]
    fn rejects_malformed_messages() {
        let max = [0x08, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0x01];
        assert_eq!(first(&max), Ok(Some((1, Value::Varint(u64::MAX)))));
        let over = [0x08, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0x02];
        let endless = [0x08, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x01];
        for (bytes, error) in [
            (&over[..], WireError::Varint),
            (&endless, WireError::Varint),
            (&[0x00, 0x00], WireError::FieldNumber),
            (&[0x0B], WireError::WireType),
            (&[0x0C], WireError::WireType),
            (&[0x0E], WireError::WireType),
            (&[0x0F], WireError::WireType),
            (&[0x80], WireError::Truncated),
            (&[0x08], WireError::Truncated),
            (&[0x08, 0x80], WireError::Truncated),
            (&[0x12, 0x02, b'h'], WireError::Truncated),
            (
                &[0x12, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0x01],
                WireError::Truncated,
            ),
            (&[0x09, 0, 0, 0], WireError::Truncated),
            (&[0x0D, 0, 0, 0], WireError::Truncated),
            // 2^32 and a field number of 2^29.
            (&[0x80, 0x80, 0x80, 0x80, 0x10, 0x00], WireError::FieldNumber),
        ] {
            assert_eq!(first(bytes), Err(error), "{bytes:02x?}");
        }
    }

    #[test]
    fn a_varint_has_its_computed_length_and_decodes() {
        for value in
            [0, 1, 0x7F, 0x80, 0x3FFF, 0x4000, 0x1F_FFFF, 0x20_0000, u32::MAX as usize, usize::MAX]
        {
            let mut buffer = vec![0x08];
            write_varint(&mut buffer, value);
            assert_eq!(buffer.len() - 1, varint_length(value));
            assert_eq!(first(&buffer), Ok(Some((1, Value::Varint(value as u64)))));
        }
    }
}
