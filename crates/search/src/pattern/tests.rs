//! Tests of patterns.

use super::*;

fn pattern(text: &str) -> Pattern {
    Pattern::parse(&text.into()).unwrap()
}

#[test]
fn wildcards_match_whole_names() {
    for (text, name, expected) in [
        ("logs", "logs", true),
        ("logs", "logs-1", false),
        ("logs-*", "logs-", true),
        ("logs-*", "logs-1", true),
        ("logs-*", "Logs-1", false),
        ("*logs*", "my-logs-1", true),
        ("*-prod", "a-prod-prod", true),
        ("*-prod", "a-prod-", false),
        ("a*b*c", "a-b-b-c", true),
        ("a*b*c", "a-c-b", false),
        ("a?c", "abc", true),
        ("a?c", "aäc", true),
        ("a?c", "ac", false),
        ("a?c", "a😀c", false),
        ("*", "", true),
        ("", "", false),
        ("  ", "  ", false),
        ("**", "anything", true),
        ("?*", "", false),
    ] {
        assert_eq!(pattern(text).matches(name), expected, "{text} {name}");
    }
}

#[test]
fn a_regular_expression_matches_whole_names() {
    for (text, name, expected) in [
        ("/team-[0-9]+/", "team-12", true),
        ("/team-[0-9]+/", "team-12x", false),
        ("/team-[0-9]+/", "x-team-12", false),
        ("/a|b/", "ab", false),
        ("/^a.c$/", "abc", true),
        (r"/\w+/", "straße", false),
        (r"/[\w-]+/", "a-b_c", true),
        (r"/(?!special|alsonotallowed)(\S|\s)*/", "normal", true),
        (r"/(?!special|alsonotallowed)(\S|\s)*/", "special-1", false),
        (r"/(?!special|alsonotallowed)(\S|\s)*/", "my-special", true),
        ("/^(?!t.*).*/", "team", false),
        ("/^(?!t.*).*/", "other", true),
        ("/(?=a)(?!ab).*/", "ac", true),
        ("/(?=a)(?!ab).*/", "abc", false),
        ("/.*/", "a\nb", false),
        (r"/a\.b/", "a.b", true),
        (r"/a\-b/", "a-b", true),
        ("//", "", true),
    ] {
        assert_eq!(pattern(text).matches(name), expected, "{text} {name}");
    }
}

#[test]
fn what_a_regular_expression_cannot_do_is_an_error_at_its_place() {
    for (text, offset, message) in [
        (r"/(a)\1/", 3, r"`\1` is not supported"),
        ("/a(?!b).*/", 1, "only `(?:…)`"),
        ("/(?<=a)b/", 0, "only `(?:…)`"),
        ("/(?i)a/", 0, "only `(?:…)`"),
        ("/a++/", 1, "possessive"),
        (r"/\p{Lower}/", 0, r"`\p` is not supported"),
        (r"/a\Qb\E/", 1, r"`\Q` is not supported"),
        ("/[]a]/", 0, "must not start"),
        ("/[a--b]/", 2, "are not supported"),
        ("/a(/", 0, "not a regular expression"),
        ("/(.{0,500}a){0,500}/", 0, "too complex"),
        ("/", 0, "ends with"),
    ] {
        let error = Pattern::parse(&text.into()).unwrap_err();
        assert_eq!(error.offset, offset, "{text}: {error:?}");
        assert!(error.message.contains(message), "{text}: {error:?}");
    }
}

#[test]
fn a_pattern_covers_an_expression_only_for_certain() {
    for (text, expression, expected) in [
        ("*", "*", true),
        ("*", "logs-*", true),
        ("logs-*", "logs-*", true),
        ("logs-*", "logs-2026*", true),
        ("logs-*", "logs*", false),
        ("logs-*", "*", false),
        ("logs-*", "logs-*-x", true),
        ("logs-?", "logs-*", false),
        ("*-prod", "*-prod", true),
        ("*-prod", "logs-*-prod", true),
        ("*-prod", "logs-*", false),
        ("a*c", "a*b*c", true),
        ("a?*", "ab*", true),
        ("a?*", "a*", false),
        ("logs", "logs", true),
        ("logs", "logs*", false),
        ("/l.*/", "logs", true),
        ("/l.*/", "l*", false),
    ] {
        assert_eq!(pattern(text).covers(expression), expected, "{text} {expression}");
    }
}
