//! Which URLs keys may come from, and what is shown of them.

use super::{KeyUrl, url_fault};

#[test]
fn keys_come_from_https_or_from_this_machine() {
    for url in [
        "https://id.example.com/jwks?v=1",
        "https://id.example.com:8443",
        "https://192.0.2.1/",
        "https://[2001:db8::1]:443/x",
        "http://localhost:8080/x",
        "http://127.1.2.3/x",
        "http://[::1]:80/x",
    ] {
        assert_eq!(url_fault(url), None, "{url}");
    }
    for url in [
        "http://id.example.com/",
        "http://localhost.example.com/",
        "http://127.0.0.1.nip.io/",
        "http://localhost@example.com/",
        "https://a@b/",
        "https:///x",
        "https://a b/",
        "https://a..b/",
        "https://a:x/",
        "https://a:+1/",
        "https://[::1",
        "file:///etc/x",
        "HTTP://example.com/",
        "https:/x",
        "",
    ] {
        assert!(url_fault(url).is_some(), "{url}");
    }
}

#[test]
fn a_url_is_shown_without_its_secrets() {
    for (url, shown) in [
        ("https://a/b", "https://a/b"),
        ("https://a/b?c=s3cret#s3cret", "https://a/b"),
        ("https://a/b#s3cret?s3cret", "https://a/b"),
        ("https://a?s3cret/b", "https://a"),
        ("https://s3cret:s3cret@a:1/b", "https://a:1/b"),
        ("https://s3cret@s3cret@[::1]:1/b@c", "https://[::1]:1/b@c"),
        ("https://s3cret:s3cret@a?s3cret@b", "https://a"),
        ("s3cret:s3cret@a/b?s3cret", "a/b"),
        ("//s3cret@a/b", "//a/b"),
        ("", ""),
    ] {
        let url = KeyUrl::from(url);
        assert_eq!(url.to_string(), shown);
        assert_eq!(format!("{url:?}"), format!("{shown:?}"));
    }
    let url = KeyUrl::from("https://user:passw0rd@a/path-of-it?v=1&api_key=s3cret-s3cret");
    for text in
        ["at https://a/path-of-it?v=1&api_key=s3cret-s3cret", "key `s3cret-s3cret`", "passw0rd"]
    {
        assert!(url.has_secret_in(text), "{text}");
    }
    for harmless in ["", "v=1", "https://a/path-of-it", "connection refused"] {
        assert!(!url.has_secret_in(harmless), "{harmless}");
    }
    assert_ne!(KeyUrl::from("https://a?1"), KeyUrl::from("https://a?2"));
}

/// OpenID Connect Discovery 1.0, 4.1: a slash at the end of the issuer is removed.
#[test]
fn a_discovery_document_is_below_its_issuer() {
    for (issuer, url) in [
        ("https://a", "https://a/.well-known/openid-configuration"),
        ("https://a/", "https://a/.well-known/openid-configuration"),
        ("https://a/realms/x", "https://a/realms/x/.well-known/openid-configuration"),
    ] {
        let at = KeyUrl::for_discovery(&issuer.into());
        assert_eq!((at.with_secrets(), at.discovery_of()), (url, Some(issuer)));
    }
}

#[test]
fn a_discovery_document_leads_only_to_urls_that_a_policy_could_name() {
    let at = KeyUrl::for_discovery(&"https://a".into()).trusting(Some(b"pem".as_slice().into()));
    let keys = at.key_set("https://keys.a/jwks?v=1").unwrap();
    assert_eq!((keys.with_secrets(), keys.discovery_of()), ("https://keys.a/jwks?v=1", None));
    assert_eq!(keys.trusted_ca(), at.trusted_ca());
    for bad in [
        "http://a/jwks",
        "http://127.0.0.1/jwks",
        "https://u:p@a/jwks",
        "file:///jwks",
        "/jwks",
        "",
    ] {
        assert!(at.key_set(bad).is_err(), "{bad}");
    }
    let local = KeyUrl::for_discovery(&"http://127.0.0.1:8080".into());
    assert!(local.key_set("http://127.0.0.1:8080/jwks").is_ok());
    assert!(local.key_set("https://a/jwks").is_ok());
    assert!(local.key_set("http://a/jwks").is_err());
}
