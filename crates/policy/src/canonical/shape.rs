//! Dot segments, adjacent slashes and `;` parameters.

use super::PathError;
use super::encoding::reserved_decoded;

/// Whether a path has neither dot segments nor adjacent slashes.
pub(super) fn is_resolved(text: &[u8]) -> bool {
    !text.windows(2).any(|two| two == b"//") && !has_dots(text)
}

/// Whether a path has dot segments.
pub(super) fn has_dots(text: &[u8]) -> bool {
    segments(text).any(|segment| matches!(segment, b"." | b".."))
}

/// Writes the path without dot segments and adjacent slashes. `other` is overwritten.
///
/// # Errors
/// When it climbs above the root, begins with `//` once the dot segments are removed, or the order of the two steps makes
/// a difference.
pub(super) fn resolve(text: &[u8], path: &mut Vec<u8>, other: &mut Vec<u8>) -> Result<(), PathError> {
    without_dots(segments(text), path)?;
    has_no_authority(path)?;
    merge(path);
    without_dots(merged_segments(text), other)?;
    if path == other { Ok(()) } else { Err(PathError::AmbiguousSlashes) }
}

/// Refuses a path that begins with `//`: to a parser of URL references (RFC 3986, 4.2) an authority comes next, and the
/// path begins after it.
pub(super) fn has_no_authority(text: &[u8]) -> Result<(), PathError> {
    if text.starts_with(b"//") { Err(PathError::Authority) } else { Ok(()) }
}

/// Refuses a path that ends in a dot segment: who resolves it after cutting it there leads elsewhere than who does not.
pub(super) fn ends_apart_from_dots(text: &[u8]) -> Result<(), PathError> {
    match segments(text).next_back() {
        Some(b"." | b"..") => Err(PathError::AmbiguousEnd),
        _ => Ok(()),
    }
}

/// Makes one slash of adjacent ones.
pub(super) fn merge(path: &mut Vec<u8>) {
    path.dedup_by(|byte, before| *byte == b'/' && *before == b'/');
}

/// Writes the path without its `;` parameters as they are seen before anything is decoded.
pub(super) fn without_raw_parameters(text: &[u8], path: &mut Vec<u8>) {
    cut_segments(text, raw_parameter, path);
}

/// Writes the path without its `;` parameters, those that an encoded `;` starts among them.
pub(super) fn without_parameters(text: &[u8], path: &mut Vec<u8>) {
    cut_segments(text, parameter, path);
}

/// Refuses a `;`, also an encoded one, in or beside a dot segment; and dots between one `;` and the next, which are a dot
/// segment to a server that takes the `;` for a separator. `plain` is overwritten.
pub(super) fn parameters_apart_from_dots(text: &[u8], plain: &mut Vec<u8>) -> Result<(), PathError> {
    reserved_decoded(text, plain);
    let (mut dots_before, mut parameter_before) = (false, false);
    for segment in segments(plain).filter(|segment| !segment.is_empty()) {
        let dots = segment.split(|byte| *byte == b';').any(|part| matches!(part, b"." | b".."));
        let parameter = raw_parameter(segment).is_some();
        if (dots || dots_before) && (parameter || parameter_before) {
            return Err(PathError::AmbiguousParameter);
        }
        (dots_before, parameter_before) = (dots, parameter);
    }
    Ok(())
}

/// Whether a segment is a dot segment, also with a `;` parameter after the dots.
pub(super) fn is_dotted(segment: &[u8]) -> bool {
    matches!(segment.get(..parameter(segment).unwrap_or(segment.len())), Some(b"." | b".."))
}

/// RFC 3986, 5.2.4, but for a path that climbs above the root.
fn without_dots<'a>(segments: impl Iterator<Item = &'a [u8]>, path: &mut Vec<u8>) -> Result<(), PathError> {
    path.clear();
    let mut ends_in_dots = false;
    for segment in segments {
        ends_in_dots = matches!(segment, b"." | b"..");
        match segment {
            b"." => {}
            b".." => path.truncate(path.iter().rposition(|byte| *byte == b'/').ok_or(PathError::AboveRoot)?),
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

/// The segments of the path with its adjacent slashes merged: an empty one is left only at the end.
fn merged_segments(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = segments(text).peekable();
    std::iter::from_fn(move || {
        loop {
            let segment = rest.next()?;
            if !segment.is_empty() || rest.peek().is_none() {
                return Some(segment);
            }
        }
    })
}

/// What stands after each slash of an absolute path.
fn segments(text: &[u8]) -> impl DoubleEndedIterator<Item = &[u8]> {
    text.strip_prefix(b"/").unwrap_or(text).split(|byte| *byte == b'/')
}

fn cut_segments(text: &[u8], parameter: impl Fn(&[u8]) -> Option<usize>, path: &mut Vec<u8>) {
    path.clear();
    for segment in segments(text) {
        path.push(b'/');
        path.extend_from_slice(segment.get(..parameter(segment).unwrap_or(segment.len())).unwrap_or(segment));
    }
}

/// Where in a segment its parameters start, if an encoded `;` starts them too.
fn parameter(segment: &[u8]) -> Option<usize> {
    let encoded = segment.windows(3).position(|three| three == b"%3B");
    raw_parameter(segment).into_iter().chain(encoded).min()
}

fn raw_parameter(segment: &[u8]) -> Option<usize> {
    segment.iter().position(|byte| *byte == b';')
}
