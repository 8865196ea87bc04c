//! Server addresses, as written on the command line.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use http::Uri;

use crate::failed::Failed;

/// An address to connect to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    /// A host name or IP address, and a port.
    Tcp(String, u16),
    /// A Unix socket at this path.
    Unix(PathBuf),
}

/// The server to send requests to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// Where to connect to.
    pub address: Address,
    /// The default host of requests.
    pub authority: String,
    /// The path and query of the URL; `/` for Check calls.
    pub path: String,
    /// How reports display it.
    pub shown: String,
}

impl Target {
    /// Parses a URL such as `http://127.0.0.1:8080/people`.
    pub fn http(url: &str) -> Result<Self, Failed> {
        let uri: Uri = url.parse().map_err(|_| not_a_url("it cannot be read"))?;
        if uri.scheme_str() != Some("http") {
            return Err(not_a_url("only `http://` URLs are supported"));
        }
        let authority = uri.authority().ok_or_else(|| not_a_url("it has no host"))?;
        if authority.as_str().contains('@') {
            return Err(not_a_url("it contains user information; use `--basic`"));
        }
        let address =
            Address::Tcp(bare(authority.host()).to_owned(), authority.port_u16().unwrap_or(80));
        let path = uri.path_and_query().map_or("/", |path| path.as_str()).to_owned();
        Ok(Self { address, authority: authority.to_string(), path, shown: url.to_owned() })
    }

    /// Parses an address such as `127.0.0.1:9191` or `unix:/run/rolegate.sock`.
    pub fn check(address: &str) -> Result<Self, Failed> {
        let parsed: Address = address.parse()?;
        let authority = match &parsed {
            Address::Tcp(..) => address.to_owned(),
            Address::Unix(_) => "localhost".to_owned(),
        };
        Ok(Self { address: parsed, authority, path: "/".to_owned(), shown: address.to_owned() })
    }
}

fn not_a_url(why: &str) -> Failed {
    Failed::plan(format!(
        "not a URL to load: {why}; write one such as `http://127.0.0.1:8080/people`"
    ))
}

impl FromStr for Address {
    type Err = Failed;

    fn from_str(text: &str) -> Result<Self, Failed> {
        let address = match text.strip_prefix("unix:") {
            Some(path) => (!path.is_empty()).then(|| Self::Unix(PathBuf::from(path))),
            None => text.rsplit_once(':').and_then(|(host, port)| {
                let is_host = !host.is_empty() && !host.contains('/');
                Some(Self::Tcp(bare(host).to_owned(), port.parse().ok()?)).filter(|_| is_host)
            }),
        };
        address.ok_or_else(|| {
            Failed::plan(format!(
                "`{text}` is not an address: write one such as `127.0.0.1:9191` or \
                 `unix:/run/rolegate.sock`"
            ))
        })
    }
}

/// An IPv6 address without its brackets.
fn bare(host: &str) -> &str {
    host.strip_prefix('[').and_then(|address| address.strip_suffix(']')).unwrap_or(host)
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(host, port) if host.contains(':') => write!(f, "[{host}]:{port}"),
            Self::Tcp(host, port) => write!(f, "{host}:{port}"),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Address, Target};

    #[test]
    fn reads_what_it_shows() {
        for text in ["127.0.0.1:9191", "[::1]:80", "app.default.svc:8080", "unix:/run/a.sock"] {
            assert_eq!(text.parse::<Address>().unwrap().to_string(), text);
        }
        for text in ["", "80", ":80", "a", "unix:", "a:99999", "http://a:80"] {
            assert!(text.parse::<Address>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_url_says_where_and_what() {
        let target = Target::http("http://app:8080/people?a=b").unwrap();
        assert_eq!(target.address, Address::Tcp("app".into(), 8080));
        assert_eq!((target.authority.as_str(), target.path.as_str()), ("app:8080", "/people?a=b"));
        assert_eq!(Target::http("http://app").unwrap().address, Address::Tcp("app".into(), 80));
        assert_eq!(Target::http("http://[::1]:1/").unwrap().address, Address::Tcp("::1".into(), 1));
    }

    #[test]
    fn a_password_in_a_url_is_rejected_and_not_repeated() {
        for (url, why) in [
            ("https://app/", "only `http://` URLs are supported"),
            ("app:80", "only `http://` URLs are supported"),
            ("http://", "it cannot be read"),
            ("http://alice:wonderland@app/", "it contains user information; use `--basic`"),
            ("http://a b:wonderland/", "it cannot be read"),
        ] {
            let error = Target::http(url).unwrap_err().to_string();
            assert!(error.contains(why) && !error.contains("wonderland"), "{error}");
        }
    }
}
