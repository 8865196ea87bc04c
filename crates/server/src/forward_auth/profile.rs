//! Profiles: in which headers a proxy describes the request that it asks about.
//!
//! A *question* is the HTTP request that the proxy sends in order to ask. The *original* request is
//! the client's, which the question is about.

use clap::ValueEnum;
use http::header::{HOST, HeaderMap, HeaderName};
use http::request::Parts;

use super::ForwardAuth;

/// The proxy that asks, which determines where the original request is. It is never guessed, and a
/// header that the profile does not name has no meaning.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Profile {
    /// `auth_request`: `x-original-method`, `x-original-host`, `x-original-uri`, `x-real-ip`.
    Nginx,
    /// `ForwardAuth`: `x-forwarded-method`, `x-forwarded-host`, `x-forwarded-uri`, and the last
    /// address in `x-forwarded-for`.
    Traefik,
    /// `forward_auth`: the same headers as Traefik.
    Caddy,
    /// The same headers as nginx.
    Haproxy,
    /// `http_service` of `ext_authz`: the question has method, host and path of the request.
    Envoy,
}

/// The request that a question is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Original<'a> {
    pub(super) method: &'a [u8],
    pub(super) host: &'a [u8],
    pub(super) path: &'a [u8],
    /// The address of the client; empty if it is not known.
    pub(super) client: &'a [u8],
}

/// Why the original request cannot be read from a question.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum NoOriginal {
    /// The proxy does not send the header, or sends it empty.
    #[error("the header `{0}` is missing")]
    Missing(HeaderNameText),
    /// A client may have sent one of the two, so neither is trusted.
    #[error("the header `{0}` is there twice")]
    Twice(HeaderNameText),
    /// The path lacks the prefix, or the target of the question is no path (a whole URL, or `*`).
    #[error("the path does not begin with `http-path-prefix` and a `/`")]
    Path,
}

/// The name of a header, in lower case.
type HeaderNameText = &'static str;

/// The headers of a profile.
#[derive(Debug)]
struct Names {
    method: &'static str,
    host: &'static str,
    path: &'static str,
    client: &'static str,
}

const ORIGINAL: Names = Names {
    method: "x-original-method",
    host: "x-original-host",
    path: "x-original-uri",
    client: "x-real-ip",
};
const FORWARDED: Names = Names {
    method: "x-forwarded-method",
    host: "x-forwarded-host",
    path: "x-forwarded-uri",
    client: "x-forwarded-for",
};

impl Profile {
    /// The headers that describe the original request; `None` if the question itself has its
    /// method, host and path.
    fn names(self) -> Option<&'static Names> {
        match self {
            Self::Nginx | Self::Haproxy => Some(&ORIGINAL),
            Self::Traefik | Self::Caddy => Some(&FORWARDED),
            Self::Envoy => None,
        }
    }

    /// Whether a header of a question is not to be read as a header of the original request: it
    /// belongs to this profile, or to the question itself.
    pub(super) fn owns(self, name: &HeaderName) -> bool {
        *name == HOST
            || self.names().is_some_and(|names| {
                [names.method, names.host, names.path, names.client].contains(&name.as_str())
            })
    }
}

impl ForwardAuth {
    /// The request that a question is about.
    pub(super) fn original<'a>(&self, question: &'a Parts) -> Result<Original<'a>, NoOriginal> {
        let headers = &question.headers;
        // Without names, the question itself has the method, host and path of the original.
        let Some(names) = self.profile.names() else { return self.of_question(question) };
        Ok(Original {
            method: only(headers, names.method)?,
            host: only(headers, names.host)?,
            path: only(headers, names.path)?,
            client: last_element(only(headers, names.client)?),
        })
    }

    /// The original request, if the question itself has its method, host and path. The path has no
    /// fragment: `hyper` drops it, and Envoy sends none (`http_reject_path_with_fragment`).
    fn of_question<'a>(&self, question: &'a Parts) -> Result<Original<'a>, NoOriginal> {
        let uri = &question.uri;
        // A target with an authority is a whole URL (RFC 9112, 3.2.2). It is refused, because it
        // names a host of its own.
        let target = uri.path_and_query().filter(|_| uri.authority().is_none());
        let path = target
            .and_then(|target| target.as_str().strip_prefix(&*self.path_prefix))
            .filter(|path| path.starts_with('/'))
            .ok_or(NoOriginal::Path)?;
        Ok(Original {
            method: question.method.as_str().as_bytes(),
            host: only(&question.headers, HOST.as_str())?,
            path: path.as_bytes(),
            client: b"",
        })
    }
}

/// The value of a header that must be there once.
fn only<'a>(headers: &'a HeaderMap, name: &'static str) -> Result<&'a [u8], NoOriginal> {
    let mut values = headers.get_all(name).iter();
    match (values.next(), values.next()) {
        (Some(value), None) if !value.is_empty() => Ok(value.as_bytes()),
        (None | Some(_), None) => Err(NoOriginal::Missing(name)),
        (_, Some(_)) => Err(NoOriginal::Twice(name)),
    }
}

/// The last address of a list. The proxy itself has added it; a client may have sent the others.
fn last_element(list: &[u8]) -> &[u8] {
    list.rsplit(|byte| *byte == b',').next().unwrap_or_default().trim_ascii()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn question(method: &str, uri: &str, headers: &[(&'static str, &str)]) -> Parts {
        let mut request = http::Request::builder().method(method).uri(uri);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        request.body(()).unwrap().into_parts().0
    }

    fn forward_auth(profile: Profile, prefix: &str) -> ForwardAuth {
        ForwardAuth { profile, path_prefix: prefix.into(), trusted: None }
    }

    fn names(profile: Profile) -> [&'static str; 4] {
        let names = profile.names().unwrap();
        [names.method, names.host, names.path, names.client]
    }

    /// Other headers, and the method, host and path of the question, mean nothing.
    #[test]
    fn only_the_headers_of_the_profile_tell_the_request() {
        for profile in [Profile::Nginx, Profile::Haproxy, Profile::Traefik, Profile::Caddy] {
            let other = if profile.names().unwrap().method == ORIGINAL.method {
                names(Profile::Caddy)
            } else {
                names(Profile::Nginx)
            };
            let [method, host, path, client] = names(profile);
            let right = [
                (method, "PUT"),
                (host, "a.example"),
                (path, "/a?b"),
                (client, "1.1.1.1, 2.2.2.2"),
            ];
            let wrong = other.map(|name| (name, "wrong"));
            let question =
                question("GET", "/other", &[&right[..], &wrong, &[("host", "wrong")]].concat());
            let forward_auth = forward_auth(profile, "");
            let original = forward_auth.original(&question).unwrap();
            let client = &b"2.2.2.2"[..];
            assert_eq!(
                original,
                Original { method: b"PUT", host: b"a.example", path: b"/a?b", client }
            );
        }
    }

    #[test]
    fn a_header_that_is_missing_empty_or_there_twice_is_refused() {
        for profile in [Profile::Nginx, Profile::Traefik] {
            let names = names(profile);
            let forward_auth = forward_auth(profile, "");
            for name in names {
                let rest: Vec<_> = names
                    .into_iter()
                    .filter(|other| *other != name)
                    .map(|name| (name, "GET"))
                    .collect();
                let with = |more: &[(&'static str, &str)]| {
                    let question = question("GET", "/", &[&rest[..], more].concat());
                    forward_auth.original(&question).map(|_| ())
                };
                assert_eq!(with(&[]), Err(NoOriginal::Missing(name)));
                assert_eq!(with(&[(name, "")]), Err(NoOriginal::Missing(name)));
                assert_eq!(with(&[(name, "GET"), (name, "GET")]), Err(NoOriginal::Twice(name)));
                assert_eq!(with(&[(name, "GET")]), Ok(()));
            }
        }
    }

    #[test]
    fn envoy_asks_with_the_request_itself() {
        let path = |prefix: &str, uri: &str| {
            let question =
                question("POST", uri, &[("host", "a.example"), ("x-original-uri", "/wrong")]);
            forward_auth(Profile::Envoy, prefix)
                .original(&question)
                .map(|original| String::from_utf8(original.path.to_vec()).unwrap())
        };
        assert_eq!(path("", "/a/../b?c").unwrap(), "/a/../b?c");
        assert_eq!(path("/check", "/check/a?b").unwrap(), "/a?b");
        for (prefix, uri) in [
            ("/check", "/a"),
            ("/check", "/check"),
            ("/check", "/checka"),
            ("", "*"),
            ("", "http://b.example/a"),
        ] {
            assert_eq!(path(prefix, uri), Err(NoOriginal::Path), "{prefix} {uri}");
        }
        let twice = question("GET", "/", &[("host", "a"), ("host", "b")]);
        assert_eq!(
            forward_auth(Profile::Envoy, "").original(&twice),
            Err(NoOriginal::Twice("host"))
        );
    }
}
