//! Dot segments, adjacent slashes and `;` parameters.

use std::borrow::Cow;

use super::PathError;
use super::encoding::reserved_decoded;

/// Whether a path has neither dot segments nor adjacent slashes.
pub(super) fn is_resolved(text: &[u8]) -> bool {
    !text.windows(2).any(|two| two == b"//") && !segments(text).any(|segment| matches!(segment, b"." | b".."))
}

/// The path without dot segments and adjacent slashes.
///
/// # Errors
/// When it climbs above the root, or the order of the two steps makes a difference.
pub(super) fn resolve(text: &[u8]) -> Result<Vec<u8>, PathError> {
    let dots_first = merged(&without_dots(text)?);
    let slashes_first = without_dots(&merged(text))?;
    if dots_first == slashes_first { Ok(dots_first) } else { Err(PathError::AmbiguousSlashes) }
}

/// What the path is to a server that leaves out a step, or both.
pub(super) fn unresolved(text: &[u8]) -> impl Iterator<Item = Vec<u8>> {
    let some = [Some(text.to_vec()), Some(merged(text)), without_dots(text).ok()];
    some.into_iter().flatten()
}

/// The path as it is, without its `;` parameters, and without those that an encoded `;` starts too, as far as these
/// differ.
pub(super) fn without_parameters(text: &[u8]) -> impl Iterator<Item = Cow<'_, [u8]>> {
    let raw = Some(cut_segments(text, raw_parameter)).filter(|raw| raw != text);
    let any = Some(cut_segments(text, parameter)).filter(|any| any != text && Some(any) != raw.as_ref());
    [Some(Cow::Borrowed(text)), raw.map(Cow::Owned), any.map(Cow::Owned)].into_iter().flatten()
}

/// Refuses a `;`, also an encoded one, in or beside a dot segment; and dots between one `;` and the next, which are a dot
/// segment to a server that takes the `;` for a separator.
pub(super) fn parameters_apart_from_dots(text: &[u8]) -> Result<(), PathError> {
    let plain = reserved_decoded(text);
    let (mut dots_before, mut parameter_before) = (false, false);
    for segment in segments(&plain).filter(|segment| !segment.is_empty()) {
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
fn without_dots(text: &[u8]) -> Result<Vec<u8>, PathError> {
    let mut path: Vec<u8> = Vec::with_capacity(text.len());
    let mut ends_in_dots = false;
    for segment in segments(text) {
        ends_in_dots = matches!(segment, b"." | b"..");
        match segment {
            b"." => {}
            b".." => path.truncate(path.iter().rposition(|byte| *byte == b'/').ok_or(PathError::AboveRoot)?),
            _ => {
                path.push(b'/');
                path.extend(segment);
            }
        }
    }
    if ends_in_dots {
        path.push(b'/');
    }
    Ok(path)
}

fn merged(text: &[u8]) -> Vec<u8> {
    let mut path = text.to_vec();
    path.dedup_by(|byte, before| *byte == b'/' && *before == b'/');
    path
}

/// What stands after each slash of an absolute path.
fn segments(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    text.strip_prefix(b"/").unwrap_or(text).split(|byte| *byte == b'/')
}

fn cut_segments(text: &[u8], parameter: impl Fn(&[u8]) -> Option<usize>) -> Vec<u8> {
    let mut path = Vec::with_capacity(text.len());
    for segment in segments(text) {
        path.push(b'/');
        path.extend(segment.iter().take(parameter(segment).unwrap_or(segment.len())));
    }
    path
}

/// Where in a segment its parameters start, if an encoded `;` starts them too.
fn parameter(segment: &[u8]) -> Option<usize> {
    let encoded = segment.windows(3).position(|three| three == b"%3B");
    raw_parameter(segment).into_iter().chain(encoded).min()
}

fn raw_parameter(segment: &[u8]) -> Option<usize> {
    segment.iter().position(|byte| *byte == b';')
}
