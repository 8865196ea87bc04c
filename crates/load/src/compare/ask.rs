//! Small requests to admin interfaces and to the servers, on one connection each.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use hdrhistogram::Histogram;
use serde_json::Value;

/// The timeout of a response.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Sends `GET path` with these headers. Returns the status and the body.
///
/// # Errors
/// If there is no HTTP response.
pub fn get(at: SocketAddr, path: &str, headers: &[(String, String)]) -> Result<(u16, String), String> {
    let answer = exchange(at, path, headers).map_err(|error| format!("GET http://{at}{path}: {error}"))?;
    let text = String::from_utf8_lossy(&answer);
    let (head, body) = text.split_once("\r\n\r\n").ok_or_else(|| format!("{at} does not speak HTTP"))?;
    let status = head.split_whitespace().nth(1).and_then(|it| it.parse().ok());
    Ok((status.ok_or_else(|| format!("{at} gives no status"))?, body.to_owned()))
}

fn exchange(at: SocketAddr, path: &str, headers: &[(String, String)]) -> std::io::Result<Vec<u8>> {
    let mut stream = TcpStream::connect_timeout(&at, TIMEOUT)?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    // Avoids `chunked`, and makes the end of the connection the end of the response.
    let mut request = format!("GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n");
    for (name, value) in headers {
        request.push_str(&format!("{name}: {value}\r\n"));
    }
    request.push_str("\r\n");
    stream.write_all(request.as_bytes())?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer)?;
    Ok(answer)
}

/// The durations from rolegate's `GET /histograms`, cumulative since its start.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Inside {
    /// From a complete message to its response: pairs of a duration in nanoseconds and a count.
    pub handler: Vec<(u64, u64)>,
    /// Only the evaluation of the policy.
    pub evaluation: Vec<(u64, u64)>,
}

impl Inside {
    /// Requests it from this admin interface; `None` if the page does not exist.
    #[must_use]
    pub fn ask(admin: SocketAddr) -> Option<Self> {
        let (status, body) = get(admin, "/histograms", &[]).ok()?;
        if status == 200 { Self::read(&body) } else { None }
    }

    /// Parses the page.
    #[must_use]
    pub fn read(page: &str) -> Option<Self> {
        // The body may be chunked; the JSON is then between the chunk sizes.
        let (from, to) = (page.find('{')?, page.rfind('}')?);
        let all: Value = serde_json::from_str(page.get(from..=to)?).ok()?;
        let series = |name: &str| -> Option<Vec<(u64, u64)>> {
            let buckets = all.get(name)?.get("buckets")?.as_array()?;
            buckets.iter().map(|it| Some((it.get(0)?.as_u64()?, it.get(1)?.as_u64()?))).collect()
        };
        Some(Self { handler: series("handler")?, evaluation: series("evaluation")? })
    }

    /// Adds the counts since an earlier reading to these two histograms.
    pub fn add_since(&self, earlier: &Self, handler: &mut Histogram<u64>, evaluation: &mut Histogram<u64>) {
        add(handler, &self.handler, &earlier.handler);
        add(evaluation, &self.evaluation, &earlier.evaluation);
    }
}

fn add(to: &mut Histogram<u64>, now: &[(u64, u64)], before: &[(u64, u64)]) {
    for (value, count) in now {
        let known = before.binary_search_by_key(value, |it| it.0).ok().and_then(|at| before.get(at));
        let new = count.saturating_sub(known.map_or(0, |it| it.1));
        if new > 0 {
            to.saturating_record_n(*value, new);
        }
    }
}
