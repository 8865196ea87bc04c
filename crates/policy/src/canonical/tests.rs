//! Paths and hosts: one test for each requirement, with its source.

mod bounds;
mod hosts;

use super::*;
use crate::ids::SourceId;
use crate::pattern::{Glob, PatternSubject, Segment};

/// Like `canonical::path`, but leaks its buffers so that the result has no lifetime of its own.
fn path<'a>(method: &[u8], raw: &'a [u8]) -> Result<PathInterpretations<'a>, PathError> {
    super::path(method, raw, Box::leak(Box::default()))
}

/// The expected result for a path: all its interpretations, or the error.
type Expected<'a> = Result<&'a [&'a str], PathError>;

#[track_caller]
fn holds(cases: &[(&str, Expected<'_>)]) {
    for (raw, expected) in cases {
        let got = path(b"GET", raw.as_bytes()).map(|interpretations| texts(interpretations.all()));
        let expected = expected.map(|all| all.iter().map(ToString::to_string).collect::<Vec<_>>());
        assert_eq!(got, expected, "{raw:?}");
    }
}

fn texts<'a>(interpretations: impl Iterator<Item = &'a [u8]>) -> Vec<String> {
    interpretations.map(|path| String::from_utf8(path.to_vec()).unwrap()).collect()
}

fn policy(rule: &str) -> crate::Policy {
    let text = format!("{{ version: 1, roles: {{ anyone: {{ allow: ['{rule}'] }} }} }}");
    let files = document::MapFiles::new("policy.yaml", text);
    crate::load(&files, std::path::Path::new("policy.yaml"))
        .unwrap_or_else(|problems| panic!("{problems:#?}"))
        .policy
}

fn allows(policy: &crate::Policy, scope: &[u8], resource: &[u8]) -> bool {
    let request = crate::AccessRequest { action: b"GET", scope, resource };
    let answer = crate::reference::decide(policy, &crate::reference::Caller::default(), &request);
    matches!(answer, crate::Decision::Allowed(_))
}

#[test]
fn a_path_is_cut_at_its_query_and_its_fragment() {
    // RFC 3986, 3.4 and 3.5.
    holds(&[
        ("/people?x=1", Ok(&["/people"])),
        ("/people?", Ok(&["/people"])),
        ("/people?a?b#c", Ok(&["/people"])),
        ("/people#top", Ok(&["/people"])),
        ("/people#top?x", Ok(&["/people"])),
        ("/people?/../admin//%2F\\%00", Ok(&["/people"])),
        ("/people#top?/../admin", Ok(&["/people"])),
    ]);
}

#[test]
fn a_fragment_that_continues_the_path_is_refused() {
    let continued = Err(PathError::ContinuedFragment);
    holds(&[
        ("/people/#/../admin", continued),
        ("/people#/", continued),
        ("/people#%2e%2e", continued),
        ("/people#\\..\\admin", continued),
    ]);
}

#[test]
fn a_path_with_an_encoded_query_is_interpreted_with_and_without_it() {
    // CVE-2024-38474 and CVE-2024-38475 (Apache), CWE-177: a hop that decodes and then parses again
    // cuts the path there.
    let end = Err(PathError::AmbiguousEnd);
    let nested = Err(PathError::NestedEncoding);
    holds(&[
        ("/people%3Fx=1", Ok(&["/people%3Fx=1", "/people?x=1", "/people"])),
        ("/people%3fx=1", Ok(&["/people%3Fx=1", "/people?x=1", "/people"])),
        ("/people%23top", Ok(&["/people%23top", "/people#top", "/people"])),
        ("/admin.php%3Fooo.php", Ok(&["/admin.php%3Fooo.php", "/admin.php?ooo.php", "/admin.php"])),
        ("/a/%3Fx", Ok(&["/a/%3Fx", "/a/?x", "/a/"])),
        ("/%3F", Ok(&["/%3F", "/?", "/"])),
        ("/a%3Fb/c", Ok(&["/a%3Fb/c", "/a?b/c", "/a"])),
        // Cut only at the `?`, or only at the `#`.
        ("/a%23b/c%3Fd", Ok(&["/a%23b/c%3Fd", "/a#b/c?d", "/a#b/c", "/a%23b/c", "/a"])),
        // Cut first, or dot segments resolved first.
        ("/a/b%3Fx/../c%3Fy", Ok(&["/a/c%3Fy", "/a/b", "/a/c?y", "/a/c"])),
        // Cut first, or parameters removed first.
        ("/a;x%3Fy/b", Ok(&["/a;x%3Fy/b", "/a;x?y/b", "/a/b", "/a;x", "/a"])),
        // Decoded twice.
        ("/a%253Fx", Ok(&["/a%253Fx", "/a?x", "/a%3Fx", "/a"])),
        ("/a%2523x", Ok(&["/a%2523x", "/a#x", "/a%23x", "/a"])),
        ("/a%25253Fx", nested),
        ("/public/..%3F/admin", end),
        ("/public/..%23/admin", end),
        ("/public/.%3Fx", end),
        ("/public/%2e%2E%3fx", end),
        ("/public/..%253F/admin", end),
        ("/public/%252e%252e%253F/admin", end),
        ("/public/%252e%252e%3F/admin", nested),
        ("/public/...%3F/x", Ok(&["/public/...%3F/x", "/public/...?/x", "/public/..."])),
        ("/public/a..%3F/x", Ok(&["/public/a..%3F/x", "/public/a..?/x", "/public/a.."])),
        ("/a%3F%2fb", Err(PathError::EncodedSlash)),
    ]);
}

#[test]
fn a_path_with_an_authority_is_invalid() {
    // RFC 3986, 4.2; the URL standard, 4.4: `new URL("//public/admin", base)` has the path
    // `/admin`.
    let invalid = Err(PathError::Authority);
    holds(&[
        ("//public/admin", invalid),
        ("//", invalid),
        ("//?x", invalid),
        ("///a", invalid),
        ("//a/../b", invalid),
        ("//user@host:80/a", invalid),
        // A step that removes dot segments or parameters runs before the URL is parsed.
        ("/.//public/admin", invalid),
        ("/%2e//public/admin", invalid),
        ("/a/..//public/admin", invalid),
        ("/;x/public/admin", invalid),
        ("/%3Bx/public/admin", invalid),
        ("/%253Bx/public/admin", invalid),
        ("/;/", invalid),
        ("/\\public/admin", Err(PathError::Backslash)),
        ("/\t/public/admin", Err(PathError::ForbiddenByte)),
        ("/%2Fpublic/admin", Err(PathError::EncodedSlash)),
        ("http://public/admin", Err(PathError::NotAbsolute)),
        ("javascript:/admin", Err(PathError::NotAbsolute)),
        ("/http://public/admin", Ok(&["/http:/public/admin"])),
        ("/a;x//public/admin", Ok(&["/a;x/public/admin", "/a/public/admin"])),
    ]);
}

#[test]
fn dot_segments_are_also_resolved_before_anything_is_decoded() {
    // RFC 3986, 6.2.2.2 says that `%2e` is `.`; a server that takes it for a name removes it at the
    // next `..`.
    holds(&[
        ("/a/b/%2e%2e/../c", Ok(&["/c", "/a/b/c"])),
        ("/a/b/%2e/../c", Ok(&["/a/c", "/a/b/c"])),
        ("/a/./%2e%2e/c", Ok(&["/c"])),
        (
            "/a;x%3By/b/d/%2e%2e/../c",
            Ok(&["/a;x%3By/c", "/a;x;y/b/d/c", "/a;x%3By/b/d/c", "/a/b/d/c", "/a;x;y/c", "/a/c"]),
        ),
    ]);
}

#[test]
fn a_segment_has_a_length() {
    // CWE-1333: the cost of a rule grows with the segment that it is matched with.
    let segment = "a".repeat(4096);
    for fits in [
        format!("/{segment}"),
        format!("/{segment}/{segment}?{segment}x"),
        format!("/b/{segment}/#{segment}"),
    ] {
        assert_eq!(path(b"GET", fits.as_bytes()).map(|_| ()), Ok(()));
    }
    for long in [
        format!("/{segment}b"),
        format!("/b/{segment}b/c"),
        format!("/{segment}/{segment}b?"),
        "%61".repeat(1_366),
    ] {
        let long = format!("/{}", long.trim_start_matches('/'));
        assert_eq!(path(b"GET", long.as_bytes()).map(|_| ()), Err(PathError::SegmentTooLong));
    }
}

#[test]
fn a_path_starts_with_a_slash() {
    // RFC 9112, 3.2.1.
    holds(&[
        ("", Err(PathError::Empty)),
        ("?x", Err(PathError::Empty)),
        ("#x", Err(PathError::Empty)),
        ("people", Err(PathError::NotAbsolute)),
        ("http://host/people", Err(PathError::NotAbsolute)),
        ("%2Fpeople", Err(PathError::NotAbsolute)),
        ("\\people", Err(PathError::NotAbsolute)),
        ("./people", Err(PathError::NotAbsolute)),
        ("*", Err(PathError::NotAbsolute)),
        ("/", Ok(&["/"])),
        ("/*", Ok(&["/*"])),
    ]);
}

#[test]
fn only_options_may_have_the_asterisk_form() {
    // RFC 9112, 3.2.4.
    assert_eq!(texts(path(b"OPTIONS", b"*").unwrap().all()), ["*"]);
    for (method, raw) in
        [("GET", "*"), ("options", "*"), ("OPTIONS", "*?x"), ("OPTIONS", "**"), ("OPTIONS", "*/")]
    {
        let got = path(method.as_bytes(), raw.as_bytes()).map(|_| ());
        assert_eq!(got, Err(PathError::NotAbsolute), "{method} {raw}");
    }
}

#[test]
fn a_raw_byte_that_is_no_uri_character_is_invalid() {
    // RFC 3986, 2: control bytes, space, 0x7F and everything from 0x80.
    for byte in (0..=0x20).chain(0x7F..=0xFF) {
        for raw in
            [vec![b'/', byte], vec![b'/', b'a', byte, b'b'], vec![b'/', b'%', b'4', b'1', byte]]
        {
            assert_eq!(path(b"GET", &raw).map(|_| ()), Err(PathError::ForbiddenByte), "{byte:#x}");
        }
    }
    for byte in (0x21..0x7F).filter(|byte| !b"%#?\\./;".contains(byte)) {
        assert_eq!(path(b"GET", &[b'/', byte]).unwrap().first(), [b'/', byte]);
    }
}

#[test]
fn every_percent_sign_has_two_hexadecimal_digits() {
    // RFC 3986, 2.1.
    let bad = Err(PathError::BadTriplet);
    for raw in
        ["/%", "/%4", "/a%zz", "/%g0", "/%0g", "/% 4", "/%%34%31", "/%2%35", "/a%u002f", "/%4/1"]
    {
        let expected = if raw.contains(' ') { Err(PathError::ForbiddenByte) } else { bad };
        holds(&[(raw, expected)]);
    }
}

#[test]
fn encoded_controls_and_slashes_and_backslashes_are_invalid() {
    // RFC 3986, 2.2 and 7.3; CWE-22, CWE-158, CWE-436.
    for control in (0..0x20).chain([0x7F]) {
        for raw in [format!("/a%{control:02x}"), format!("/%{control:02X}/b")] {
            holds(&[(&raw, Err(PathError::EncodedControl))]);
        }
    }
    for control in 0x80..=0x9F {
        holds(&[(&format!("/%c2%{control:02x}"), Err(PathError::EncodedControl))]);
    }
    holds(&[
        ("/a%2Fb", Err(PathError::EncodedSlash)),
        ("/a%2f..%2fb", Err(PathError::EncodedSlash)),
        ("/a%5Cb", Err(PathError::EncodedSlash)),
        ("/a%5cb", Err(PathError::EncodedSlash)),
        ("/a\\b", Err(PathError::Backslash)),
        ("/\\\\host/share", Err(PathError::Backslash)),
        ("/a/..\\b", Err(PathError::Backslash)),
    ]);
}

#[test]
fn only_unreserved_characters_are_decoded() {
    // RFC 3986, 2.3 and 6.2.2.
    holds(&[
        ("/%70eople", Ok(&["/people"])),
        ("/%41%5a%61%7A%30%39%2D%2e%5F%7e", Ok(&["/AZaz09-._~"])),
        ("/a%20b", Ok(&["/a%20b"])),
        ("/caf%c3%a9", Ok(&["/caf%C3%A9"])),
        ("/%e2%82%ac/%F0%9F%98%80", Ok(&["/%E2%82%AC/%F0%9F%98%80"])),
        ("/a%40b", Ok(&["/a%40b", "/a@b"])),
        ("/a%3ab", Ok(&["/a%3Ab", "/a:b"])),
        ("/a%2Ab", Ok(&["/a%2Ab", "/a*b"])),
        ("/%7Bid%7D", Ok(&["/%7Bid%7D", "/{id}"])),
        ("/a@b:c!$&'()*+,=", Ok(&["/a@b:c!$&'()*+,="])),
        ("/{id}|\"<>^`[]", Ok(&["/{id}|\"<>^`[]"])),
    ]);
}

#[test]
fn dot_segments_are_removed_and_stay_below_the_root() {
    // RFC 3986, 5.2.4 and 6.2.2.3; CWE-22.
    holds(&[
        ("/a/./b", Ok(&["/a/b"])),
        ("/a/../b", Ok(&["/b"])),
        ("/a/b/../../c", Ok(&["/c"])),
        ("/a/%2e%2E/b", Ok(&["/b"])),
        ("/a/%2e/b", Ok(&["/a/b"])),
        ("/a/.", Ok(&["/a/"])),
        ("/a/..", Ok(&["/"])),
        ("/.", Ok(&["/"])),
        ("/a/b/..", Ok(&["/a/"])),
        ("/a/.../b", Ok(&["/a/.../b"])),
        ("/.well-known/x", Ok(&["/.well-known/x"])),
        ("/a/..b/.c", Ok(&["/a/..b/.c"])),
        ("/..", Err(PathError::AboveRoot)),
        ("/../a", Err(PathError::AboveRoot)),
        ("/a/../../b", Err(PathError::AboveRoot)),
        ("/a/%2e%2e/%2e%2e/b", Err(PathError::AboveRoot)),
        ("/./../a", Err(PathError::AboveRoot)),
    ]);
}

#[test]
fn adjacent_slashes_are_merged_unless_that_changes_what_dots_remove() {
    // CWE-436; the nginx and Envoy option `merge_slashes`.
    holds(&[
        ("/a//b", Ok(&["/a/b"])),
        ("/a///b//", Ok(&["/a/b/"])),
        ("/a//./b", Ok(&["/a/b"])),
        ("/a/.//b", Ok(&["/a/b"])),
        ("/a/b/..//c", Ok(&["/a/c"])),
        ("/a//../b", Err(PathError::AmbiguousSlashes)),
        ("/a//b/../../c", Err(PathError::AmbiguousSlashes)),
        ("/a//%2e%2e/b", Err(PathError::AmbiguousSlashes)),
        ("/a//../..", Err(PathError::AboveRoot)),
    ]);
}

#[test]
fn a_path_is_interpreted_with_and_without_its_parameters_but_never_beside_dots() {
    // RFC 3986, 3.3; Tomcat and Jetty drop them before they resolve dot segments (CWE-436).
    let invalid = Err(PathError::AmbiguousParameter);
    holds(&[
        ("/a;x=1/b", Ok(&["/a;x=1/b", "/a/b"])),
        ("/a;", Ok(&["/a;", "/a"])),
        ("/a/;x", Ok(&["/a/;x", "/a/"])),
        ("/a/;x/b", Ok(&["/a/;x/b", "/a/b"])),
        ("/a/;/b", Ok(&["/a/;/b", "/a/b"])),
        ("/a%3bx", Ok(&["/a%3Bx", "/a;x", "/a"])),
        ("/a;x%3By", Ok(&["/a;x%3By", "/a;x;y", "/a"])),
        ("/a%3Bx;y", Ok(&["/a%3Bx;y", "/a;x;y", "/a;x", "/a%3Bx", "/a"])),
        ("/a/..;/b", invalid),
        ("/a/..;x=1/b", invalid),
        ("/a/..%3B/b", invalid),
        ("/a/%2e%2e;/b", invalid),
        ("/a/.;/b", invalid),
        ("/a/..;", invalid),
        ("/a;x/../b", invalid),
        ("/a%3bx/../b", invalid),
        ("/a;x/./b", invalid),
        ("/a/../b;x", invalid),
        ("/a/;/../b", invalid),
        ("/a/;../b", invalid),
        ("/a/x;..", invalid),
        ("/a/x;./b", invalid),
        ("/a/x;y=1;..;z/b", invalid),
        ("/a/x%3B%2e%2E/b", invalid),
        ("/a/x;%252e%252e/b", invalid),
        ("/a/x;..y/b", Ok(&["/a/x;..y/b", "/a/x/b"])),
        ("/a;x//./b", invalid),
        ("/a;x/b/../c", Ok(&["/a;x/c", "/a/c"])),
        ("/a/;x/b/../../c", Err(PathError::AmbiguousSlashes)),
    ]);
}

#[test]
fn a_path_encoded_twice_is_interpreted_decoded_once_and_twice() {
    // CWE-174; the canonical path itself is decoded only once.
    let nested = Err(PathError::NestedEncoding);
    holds(&[
        ("/100%25", Ok(&["/100%25"])),
        ("/100%25/a", Ok(&["/100%25/a"])),
        ("/100%25zz", Ok(&["/100%25zz"])),
        ("/%2541", Ok(&["/%2541", "/A"])),
        ("/%25%34%31", Ok(&["/%2541", "/A"])),
        ("/a%2520b", Ok(&["/a%2520b", "/a%20b"])),
        ("/a%2540b", Ok(&["/a%2540b", "/a@b", "/a%40b"])),
        ("/caf%25c3%25a9", Ok(&["/caf%25c3%25a9", "/caf%C3%A9"])),
        ("/a%253Bx", Ok(&["/a%253Bx", "/a;x", "/a%3Bx", "/a"])),
        ("/a%252Fb", Err(PathError::EncodedSlash)),
        ("/a%252fb", Err(PathError::EncodedSlash)),
        ("/a%255Cb", Err(PathError::EncodedSlash)),
        ("/a%2500", Err(PathError::EncodedControl)),
        ("/a%250a", Err(PathError::EncodedControl)),
        ("/a%25c2%2585", Err(PathError::EncodedControl)),
        ("/a%25c0%25af", Err(PathError::InvalidUtf8)),
        ("/a/%252e%252e/b", nested),
        ("/a/%252e/b", nested),
        ("/a/.%252e/b", nested),
        ("/a/%252e%252e%253b/b", nested),
        ("/a/%252e%252e/../b", nested),
        ("/a/%252e%252e;x/b", Err(PathError::NestedEncoding)),
        ("/a%252541", nested),
        ("/a%25252541", nested),
    ]);
}

#[test]
fn encoded_bytes_are_whole_utf8_characters() {
    // RFC 3629, 3; overlong forms as in CVE-2000-0884.
    let bad = Err(PathError::InvalidUtf8);
    for raw in [
        "/%80",
        "/%BF",
        "/%C3",
        "/%C3a",
        "/%C3/%A9",
        "/%C0%AF",
        "/%c0%ae%c0%ae/",
        "/%C1%81",
        "/%E0%80%AF",
        "/%E0%9F%BF",
        "/%ED%A0%80",
        "/%F0%80%80%AF",
        "/%F4%90%80%80",
        "/%F5%80%80%80",
        "/%FE",
        "/%FF",
        "/%E2%82",
        "/%E2%82%41",
        "/%C3%28",
        "/%C3%C3%A9",
        "/%F0%9F%98",
        "/a%E9",
    ] {
        holds(&[(raw, bad)]);
    }
}

#[test]
fn denials_also_hold_on_interpretations_with_dot_segments() {
    let deny_only = |raw: &str| texts(path(b"GET", raw.as_bytes()).unwrap().deny_only());
    assert!(deny_only("/people").is_empty());
    assert!(deny_only("/a%40b;x").is_empty());
    assert_eq!(deny_only("/a/../b"), ["/a/../b"]);
    assert!(deny_only("/a//b").is_empty(), "what matches this matches `/a/b` as well");
    assert_eq!(deny_only("/%61/../b"), ["/a/../b"]);
    assert_eq!(deny_only("/a/b/..//c"), ["/a/b/../c"]);
    assert_eq!(deny_only("/a/../b%3F/c"), ["/a/../b?/c", "/a/../b%3F/c", "/a/../b"]);
    assert_eq!(deny_only("/a/../%40"), ["/a/../@", "/a/../%40"]);
    assert_eq!(deny_only("/x;y/a/../b"), ["/x;y/a/../b", "/x/a/../b"]);
}

/// The property that permits merging the adjacent slashes of `deny_only`.
#[test]
fn no_segment_of_a_pattern_but_the_last_matches_an_empty_one() {
    for rule in ["/{id}/**", "/*/**", "/a/{user}/**", "/**"] {
        let policy = policy(&format!("GET {rule}"));
        for (with, without) in
            [("/a//b", "/a/b"), ("/a/b//", "/a/b/"), ("/a//", "/a/"), ("/a/b//c", "/a/b/c")]
        {
            let (with, without) =
                (allows(&policy, b"", with.as_bytes()), allows(&policy, b"", without.as_bytes()));
            assert!(without || !with, "{rule} {with}");
        }
    }
    for segment in [
        Segment::Any("id".into()),
        Segment::User,
        Segment::UserId(vec![SourceId::BASIC]),
        Segment::Glob(Glob(vec!["".into(), "".into()])),
    ] {
        assert!(
            !segment.matches(
                b"",
                Some(PatternSubject { user: b"", prefix_len: 0, source: Some(SourceId::BASIC) })
            ),
            "{segment}"
        );
    }
}

#[test]
fn a_path_that_is_canonical_is_borrowed() {
    for raw in [
        "/",
        "/people/1?x=/../y",
        "/a%20b/caf%C3%A9",
        "/100%25",
        "/a@b",
        "/.well-known/x",
        "/a/.b",
        "/a=1,b",
    ] {
        let interpretations = path(b"GET", raw.as_bytes()).unwrap();
        assert_eq!(interpretations.first().as_ptr(), raw.as_ptr(), "{raw}");
        assert_eq!(
            (interpretations.all().count(), interpretations.deny_only().count()),
            (1, 0),
            "{raw}"
        );
    }
}

#[test]
fn the_interpretations_of_a_path_do_not_depend_on_the_path_before() {
    let texts = |interpretations: PathInterpretations<'_>| {
        (texts(interpretations.all()), texts(interpretations.deny_only()))
    };
    let raw = [
        "/a;b/%40",
        "/a/../b",
        "/%70",
        "/x;y/../z",
        "/%2541;c",
        "/a//b",
        "/a%2Fb",
        "/p",
        "/..",
        "/;x%3By",
    ];
    let mut buffers = Buffers::default();
    for (one, other) in raw.iter().flat_map(|one| raw.map(|other| (one, other))) {
        let _ = super::path(b"GET", other.as_bytes(), &mut buffers);
        let got = super::path(b"GET", one.as_bytes(), &mut buffers).map(texts);
        assert_eq!(got, path(b"GET", one.as_bytes()).map(texts), "{one} after {other}");
    }
}

#[test]
fn a_segment_names_a_user_however_it_is_encoded() {
    for (segment, user) in [
        ("alice", "alice"),
        ("al%69ce", "alice"),
        ("a%40b", "a@b"),
        ("a@b", "a@b"),
        ("caf%C3%A9", "café"),
        ("a%25b", "a%b"),
    ] {
        assert!(segment_is_name(segment.as_bytes(), user.as_bytes()), "{segment} {user}");
    }
    for (segment, user) in [
        ("alice", "alic"),
        ("alic", "alice"),
        ("Alice", "alice"),
        ("a%2540", "a@"),
        ("", "a"),
        ("a%", "a%"),
        ("a%4", "a"),
    ] {
        assert!(!segment_is_name(segment.as_bytes(), user.as_bytes()), "{segment} {user}");
    }
}
