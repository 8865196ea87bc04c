//! Hosts, and rules, which are brought into the canonical form of paths and hosts.

use super::*;

#[test]
fn rules_are_in_the_canonical_form_of_paths_and_hosts() {
    for (rule, raw) in [
        ("/people", "/people"),
        ("/%70eople", "/people"),
        ("/people", "/%70eople"),
        ("/café", "/caf%c3%a9"),
        ("/caf%c3%a9", "/caf%C3%A9"),
        ("/a%20b", "/a%20b"),
        ("/a%40b", "/a%40b"),
        ("/a%40b", "/a@b"),
        ("/%3a%40", "/%3A%40"),
        ("/a@b", "/a@b"),
        ("/100%25", "/100%25"),
        ("/a%2Ab", "/a%2ab"),
        ("/x-%7Bid%7D", "/x-%7bid%7d"),
        ("/a=1,b", "/a=1,b"),
        ("/caf%c3%a9-*", "/caf%C3%A9-1"),
        ("/*-%40x", "/a-%40x"),
    ] {
        let policy = policy(&format!("GET {rule}"));
        let interpretations = path(b"GET", raw.as_bytes()).unwrap();
        assert!(interpretations.all().all(|path| allows(&policy, b"", path)), "{rule} {raw}");
    }
    for (rule, raw) in [
        ("API.example.com", "api.example.com:80"),
        ("*.Example.com.", "a.EXAMPLE.com."),
        ("[0:0::1]", "[::1]:80"),
        ("[2001:DB8::A]", "[2001:db8:0::a]"),
        ("my_host-1.example", "my_host-1.example"),
    ] {
        let mut lowered = Vec::new();
        let raw = host(raw.as_bytes(), &mut lowered).unwrap();
        assert!(allows(&policy(&format!("GET {rule}/x")), raw, b"/x"), "{rule}");
    }
}

#[test]
fn hosts_lose_their_case_their_port_and_the_dot_at_their_end() {
    // RFC 3986, 3.2.2, 3.2.3 and 6.2.2.1; RFC 5952 for addresses.
    for (raw, expected) in [
        ("", ""),
        ("api.example.com", "api.example.com"),
        ("API.Example.COM", "api.example.com"),
        ("api.example.com:8443", "api.example.com"),
        ("api.example.com:", "api.example.com"),
        ("api.example.com.", "api.example.com"),
        ("API.example.com.:443", "api.example.com"),
        ("localhost", "localhost"),
        ("my_service-1", "my_service-1"),
        ("127.0.0.1:80", "127.0.0.1"),
        ("[::1]", "[::1]"),
        ("[::1]:80", "[::1]"),
        ("[0:0::0001]", "[::1]"),
        ("[2001:DB8::A]:1", "[2001:db8::a]"),
    ] {
        assert_eq!(host(raw.as_bytes(), &mut Vec::new()), Ok(expected.as_bytes()), "{raw}");
    }
}

#[test]
fn an_invalid_host_is_an_error() {
    // CWE-290, CWE-444.
    for raw in [
        "a..b",
        ".a",
        ".",
        "..",
        "a..",
        "a:b",
        "a:1:2",
        "::1",
        "a:80x",
        ":80",
        "user@host",
        "user:pw@host:80",
        "a b",
        "a\tb",
        "a\0",
        "a/b",
        "a\\b",
        "a?b",
        "a#b",
        "a,b",
        "a%2eb",
        "a%41",
        "a\u{7f}",
        "caf\u{e9}",
        "[::1",
        "::1]",
        "[]",
        "[::g]",
        "[::1]x",
        "[::1].",
        "[::1]:x",
        "[fe80::1%25eth0]",
        "a~b",
        "a!b",
        "a;b",
        "*",
        "*.example.com",
        "http://a",
        "a\r\nb",
        " a",
        "a ",
    ] {
        assert_eq!(host(raw.as_bytes(), &mut Vec::new()), Err(HostError), "{raw:?}");
    }
    let label = "a".repeat(64);
    let name = "abcdefg.".repeat(32);
    for raw in [&*label, &*name] {
        assert_eq!(host(raw.as_bytes(), &mut Vec::new()), Err(HostError), "{raw:?}");
    }
}
