//! Dot segments, adjacent slashes and `;` parameters.

use super::encoding::decode_reserved;
use super::error::PathError;

/// Whether a path has neither dot segments nor adjacent slashes.
pub(super) fn is_resolved(text: &[u8]) -> bool {
    !text.windows(2).any(|two| two == b"//") && !has_dots(text)
}

/// Whether a path has dot segments.
pub(super) fn has_dots(text: &[u8]) -> bool {
    segments(text).any(|segment| matches!(segment, b"." | b".."))
}

/// Removes the dot segments of `text`, merges adjacent slashes, and writes the result to `path`.
/// `scratch` is overwritten.
///
/// # Errors
/// If `text` climbs above the root, if it begins with `//` without its dot segments, or if the
/// result depends on which of the two steps comes first.
pub(super) fn resolve(
    text: &[u8],
    path: &mut Vec<u8>,
    scratch: &mut Vec<u8>,
) -> Result<(), PathError> {
    without_dots(segments(text), path)?;
    reject_authority(path)?;
    merge(path);
    without_dots(merged_segments(text), scratch)?;
    if path == scratch { Ok(()) } else { Err(PathError::AmbiguousSlashes) }
}

/// Returns an error for a path that begins with `//`: a parser of URL references (RFC 3986, 4.2)
/// takes the next segment for an authority, and starts the path after it.
pub(super) fn reject_authority(text: &[u8]) -> Result<(), PathError> {
    if text.starts_with(b"//") { Err(PathError::Authority) } else { Ok(()) }
}

/// Returns an error if `text` ends in a dot segment. It is the part of a path before an encoded `?`
/// or `#`, where a server may cut the path. A server that removes dot segments before the cut gets
/// another path than a server that removes them after it.
pub(super) fn reject_dots_at_end(text: &[u8]) -> Result<(), PathError> {
    match segments(text).next_back() {
        Some(b"." | b"..") => Err(PathError::AmbiguousEnd),
        _ => Ok(()),
    }
}

/// Merges adjacent slashes.
pub(super) fn merge(path: &mut Vec<u8>) {
    path.dedup_by(|byte, before| *byte == b'/' && *before == b'/');
}

/// Writes `text` without its raw `;` parameters to `path`. Parameters after an encoded `;` are
/// kept.
pub(super) fn without_raw_parameters(text: &[u8], path: &mut Vec<u8>) {
    cut_segments(text, raw_parameters_start, path);
}

/// Writes `text` without its `;` parameters, raw and encoded, to `path`.
pub(super) fn without_parameters(text: &[u8], path: &mut Vec<u8>) {
    cut_segments(text, parameters_start, path);
}

/// Returns an error if a segment with a `;`, raw or encoded, is next to a dot segment (`/a;x/..`);
/// empty segments between them do not count. Also returns an error if a part of a segment before,
/// between or after a `;` is `.` or `..` (`/..;x`): a server that treats `;` as a separator sees a
/// dot segment there. `decoded` is overwritten.
pub(super) fn reject_parameters_near_dots(
    text: &[u8],
    decoded: &mut Vec<u8>,
) -> Result<(), PathError> {
    decode_reserved(text, decoded);
    let (mut previous_has_dots, mut previous_has_parameter) = (false, false);
    for segment in segments(decoded).filter(|segment| !segment.is_empty()) {
        let has_dots = segment.split(|byte| *byte == b';').any(|part| matches!(part, b"." | b".."));
        let has_parameter = raw_parameters_start(segment).is_some();
        if (has_dots || previous_has_dots) && (has_parameter || previous_has_parameter) {
            return Err(PathError::AmbiguousParameter);
        }
        (previous_has_dots, previous_has_parameter) = (has_dots, has_parameter);
    }
    Ok(())
}

/// Returns an error if decoding `text` to `decoded` has turned a segment into a dot segment.
pub(super) fn reject_revealed_dots(text: &[u8], decoded: &[u8]) -> Result<(), PathError> {
    let mut pairs = segments(text).zip(segments(decoded));
    let reveals = pairs.any(|(before, after)| is_dot_segment(after) && !is_dot_segment(before));
    if reveals { Err(PathError::NestedEncoding) } else { Ok(()) }
}

/// Whether a segment is a dot segment, possibly with a `;` parameter after the dots.
fn is_dot_segment(segment: &[u8]) -> bool {
    matches!(segment.get(..parameters_start(segment).unwrap_or(segment.len())), Some(b"." | b".."))
}

/// Writes the path of these segments without dot segments to `path` (RFC 3986, 5.2.4). Unlike in
/// the RFC, climbing above the root is an error.
fn without_dots<'a>(
    segments: impl Iterator<Item = &'a [u8]>,
    path: &mut Vec<u8>,
) -> Result<(), PathError> {
    path.clear();
    let mut ends_in_dots = false;
    for segment in segments {
        ends_in_dots = matches!(segment, b"." | b"..");
        match segment {
            b"." => {}
            b".." => path
                .truncate(path.iter().rposition(|byte| *byte == b'/').ok_or(PathError::AboveRoot)?),
            _ => {
                path.push(b'/');
                path.extend_from_slice(segment);
            }
        }
    }
    if ends_in_dots {
        path.push(b'/');
    }
    Ok(())
}

/// The segments of the path with its adjacent slashes merged. Only the last may be empty.
fn merged_segments(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut segments = segments(text).peekable();
    std::iter::from_fn(move || {
        loop {
            let segment = segments.next()?;
            if !segment.is_empty() || segments.peek().is_none() {
                return Some(segment);
            }
        }
    })
}

/// The segments of an absolute path, each after a slash.
fn segments(text: &[u8]) -> impl DoubleEndedIterator<Item = &[u8]> {
    text.strip_prefix(b"/").unwrap_or(text).split(|byte| *byte == b'/')
}

/// Writes `text` to `path`, with each segment cut at the offset that `cut_at` returns.
fn cut_segments(text: &[u8], cut_at: impl Fn(&[u8]) -> Option<usize>, path: &mut Vec<u8>) {
    path.clear();
    for segment in segments(text) {
        path.push(b'/');
        path.extend_from_slice(
            segment.get(..cut_at(segment).unwrap_or(segment.len())).unwrap_or(segment),
        );
    }
}

/// The offset of a segment's parameters, which start at a raw or encoded `;`.
fn parameters_start(segment: &[u8]) -> Option<usize> {
    let encoded = segment.windows(3).position(|three| three == b"%3B");
    raw_parameters_start(segment).into_iter().chain(encoded).min()
}

fn raw_parameters_start(segment: &[u8]) -> Option<usize> {
    segment.iter().position(|byte| *byte == b';')
}
