//! Which segments of paths the decision log hides.

use std::borrow::Cow;
use std::str::FromStr;

use percent_encoding::percent_decode_str;

/// A pattern such as `/people/{id}`: in each path that begins like it, the segments in braces are
/// hidden.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PathMask(Vec<Segment>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Segment {
    Exactly(String),
    Any,
    Hidden,
}

/// Why a text is no [`PathMask`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "not a path with a segment to mask: write one such as `/people/{{id}}/letters/{{id}}`, and `*` \
     for any segment"
)]
pub struct PathMaskError;

impl FromStr for PathMask {
    type Err = PathMaskError;

    fn from_str(text: &str) -> Result<Self, PathMaskError> {
        let segments = text.strip_prefix('/').ok_or(PathMaskError)?.split('/');
        let segments: Vec<Segment> = segments
            .map(|segment| match segment {
                "*" => Ok(Segment::Any),
                _ if segment.starts_with('{') && segment.ends_with('}') => Ok(Segment::Hidden),
                _ if segment.is_empty() || segment.contains(['*', '{', '}', ';', '?', '#']) => {
                    Err(PathMaskError)
                }
                _ => Ok(Segment::Exactly(
                    percent_decode_str(segment).decode_utf8_lossy().into_owned(),
                )),
            })
            .collect::<Result<_, _>>()?;
        if segments.contains(&Segment::Hidden) { Ok(Self(segments)) } else { Err(PathMaskError) }
    }
}

impl PathMask {
    /// The indices of the hidden segments of a percent-decoded path.
    pub(super) fn hidden(&self, path: &[Cow<'_, str>]) -> impl Iterator<Item = usize> {
        let fits = self.0.len() <= path.len()
            && self.0.iter().zip(path).all(|(segment, text)| match segment {
                // Parameters (after `;`) are ignored.
                Segment::Exactly(exactly) => text.split(';').next() == Some(exactly),
                Segment::Any | Segment::Hidden => true,
            });
        let segments = self.0.iter().enumerate().filter(move |_| fits);
        segments.filter(|(_, segment)| **segment == Segment::Hidden).map(|(index, _)| index)
    }
}
