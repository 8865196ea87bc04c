//! The admin pages of the library, on a Unix socket.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use super::PATIENT;

/// The answer to a request for this path, with its head; `None` if nothing listens.
pub(crate) fn page(admin: &Path, path: &str) -> Option<String> {
    let mut stream = UnixStream::connect(admin).ok()?;
    write!(stream, "GET {path} HTTP/1.1\r\nhost: localhost\r\n\r\n").ok()?;
    let mut page = String::new();
    stream.read_to_string(&mut page).ok()?;
    Some(page)
}

/// The page of metrics at this socket; `None` if nothing listens.
pub(crate) fn metrics(admin: &Path) -> Option<String> {
    page(admin, "/metrics")
}

/// A number on the page of metrics; 0 if it is not there.
pub(crate) fn metric(page: &str, name: &str) -> f64 {
    page.lines()
        .find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.parse().ok())
        .unwrap_or_default()
}

/// Waits until a metric has this value.
pub(crate) async fn wait_for_metric(admin: &Path, name: &str, value: f64) {
    let until = Instant::now() + PATIENT;
    loop {
        let page = metrics(admin).unwrap();
        if metric(&page, name) == value {
            return;
        }
        assert!(Instant::now() < until, "{name} is not {value}: {page}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}
