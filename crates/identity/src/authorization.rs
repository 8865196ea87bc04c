//! Parsing the value of an `Authorization` header (RFC 9110, 11.4 and 11.6.2).

/// The credentials of a request, by scheme.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scheme<'a> {
    /// HTTP Basic (RFC 7617): credentials in base64.
    Basic(&'a [u8]),
    /// Bearer (RFC 6750): a token.
    Bearer(&'a [u8]),
    /// Any other scheme, or none.
    Other,
}

/// Splits a value into its scheme, in any case (RFC 9110, 11.1), and what follows one or more
/// spaces.
pub(crate) fn parse(value: &[u8]) -> Scheme<'_> {
    let end = value.iter().position(|byte| *byte == b' ').unwrap_or(value.len());
    let (scheme, rest) = value.split_at_checked(end).unwrap_or_default();
    let spaces = rest.iter().take_while(|byte| **byte == b' ').count();
    let rest = rest.get(spaces..).unwrap_or_default();
    if scheme.eq_ignore_ascii_case(b"basic") {
        Scheme::Basic(rest)
    } else if scheme.eq_ignore_ascii_case(b"bearer") {
        Scheme::Bearer(rest)
    } else {
        Scheme::Other
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scheme_is_recognized_in_any_case() {
        for value in ["Basic YTpi", "basic YTpi", "BASIC YTpi", "bAsIc   YTpi"] {
            assert_eq!(parse(value.as_bytes()), Scheme::Basic(b"YTpi"), "{value}");
        }
        assert_eq!(parse(b"bearer a.b.c"), Scheme::Bearer(b"a.b.c"));
    }

    #[test]
    fn an_unsupported_scheme_is_other() {
        for value in [
            "",
            " ",
            "Negotiate x",
            "Basic\tYTpi",
            " Basic YTpi",
            "BasicYTpi",
            "Basic,YTpi",
            "\u{0}",
            "Bearerx y",
        ] {
            assert_eq!(parse(value.as_bytes()), Scheme::Other, "{value:?}");
        }
    }

    #[test]
    fn other_white_space_is_a_part_of_the_credentials() {
        assert_eq!(parse(b"Basic \tYTpi"), Scheme::Basic(b"\tYTpi"));
        assert_eq!(parse(b"Bearer  \x0ba.b.c"), Scheme::Bearer(b"\x0ba.b.c"));
    }

    #[test]
    fn a_scheme_without_credentials_is_recognized() {
        assert_eq!(parse(b"Basic"), Scheme::Basic(b""));
        assert_eq!(parse(b"Bearer "), Scheme::Bearer(b""));
    }
}
