//! Why a path is invalid.

/// Why a path is invalid. Each is answered with 400 and the reason `invalid_path`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum PathError {
    /// Empty, or empty before the query.
    #[error("the path is empty")]
    Empty,
    /// Neither the origin-form of a request target (RFC 9112, 3.2.1) nor `*` with `OPTIONS`
    /// (3.2.4).
    #[error("the path does not start with `/`")]
    NotAbsolute,
    /// A raw control byte, a space, or a byte that is not ASCII: a URI contains none of these (RFC
    /// 3986, 2).
    #[error("the path has a control byte, a space or a byte that is not ASCII in it")]
    ForbiddenByte,
    /// A `%` without two hexadecimal digits after it (RFC 3986, 2.1).
    #[error("a `%` is not followed by two hexadecimal digits")]
    BadTriplet,
    /// An encoded control character, including `%00` and the C1 controls (`%C2%80` to `%C2%9F`).
    #[error("an encoded control character")]
    EncodedControl,
    /// `%2F` or `%5C`: a separator to some servers, data to others.
    #[error("an encoded slash or backslash")]
    EncodedSlash,
    /// A raw `\`, which some servers treat as `/`.
    #[error("a backslash")]
    Backslash,
    /// Encoded bytes that are not UTF-8 (RFC 3629, 3): invalid, overlong, a surrogate, or cut
    /// short.
    #[error("encoded bytes that are not UTF-8")]
    InvalidUtf8,
    /// Dot segments that climb above the root.
    #[error("dot segments that climb above the root")]
    AboveRoot,
    /// Merging slashes before or after removing dot segments gives two different paths.
    #[error("adjacent slashes before a dot segment")]
    AmbiguousSlashes,
    /// The path begins with `//`, either as received or after removing dot segments or `;`
    /// parameters. Parsers of URL references expect an authority there (RFC 3986, 4.2): Node's `new
    /// URL("//public/admin", base)` has the path `/admin`.
    #[error("the path begins with `//`, where an authority may be read")]
    Authority,
    /// An encoded `?` or `#` after a dot segment, as in `/a/..%3F/b`. A server that cuts the path
    /// there ends up with a trailing dot segment.
    #[error("an encoded `?` or `#` right after a dot segment")]
    AmbiguousEnd,
    /// A `#` with more of a path behind it, as in `/a/#/../b`. nginx passes it on, and to an
    /// application in Go, whose paths do not end at a `#`, this is `/b`.
    #[error("more of a path behind a `#`")]
    ContinuedFragment,
    /// A `;` in or beside a dot segment.
    #[error("a `;` in or beside a dot segment")]
    AmbiguousParameter,
    /// Over 8 KiB without its query and not canonical; or shorter, but its interpretations are over
    /// 48 KiB together.
    #[error("the path has too many or too long interpretations")]
    TooLong,
    /// A segment over 4,096 bytes, as received.
    #[error("a segment of the path is over 4,096 bytes long")]
    SegmentTooLong,
    /// Encoded twice so that decoding it twice gives a dot segment, or encoded three times.
    #[error("an encoding inside an encoding that hides a dot segment or another encoding")]
    NestedEncoding,
}
