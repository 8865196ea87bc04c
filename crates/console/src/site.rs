//! Answers the requests for the console.
//!
//! A thread of low priority renders the pages, one at a time. At most [`MAX_WAITING`] requests wait
//! for it; more get 503. So a client of the console delays only other clients of the console.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::time::Instant;

use hyper::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderName, HeaderValue, REFERRER_POLICY,
    X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS,
};
use hyper::{Response, StatusCode, Uri};
use runtime::threads::{Priority, catch, spawn};
use server::admin::ConsoleAnswer;
use tokio::sync::oneshot;

use crate::Sources;
use crate::history::{History, INTERVAL, Sample};
use crate::page::{self, ConsoleState, Current, LastComparison};
use crate::question::Question;

/// The maximum length of a query, in bytes.
const MAX_QUERY: usize = 4096;
/// The maximum number of requests that wait for the thread.
const MAX_WAITING: usize = 8;

const STYLE: &str = include_str!("style.css");
const ICON: &str = include_str!("icon.svg");

/// A browser may load the style sheet and the icon, and send forms back. It runs no script.
const SECURITY_POLICY: &str = "default-src 'none'; style-src 'self'; img-src 'self'; \
    form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

/// The console. Dropping it ends its thread.
#[derive(Debug)]
pub struct Console {
    state: Arc<ConsoleState>,
    requests: SyncSender<PageRequest>,
}

#[derive(Debug)]
struct PageRequest {
    question: Question,
    current: Current,
    page: oneshot::Sender<String>,
}

impl Console {
    /// Starts the thread.
    ///
    /// # Errors
    /// When the system cannot create the thread.
    pub fn start(sources: Sources) -> io::Result<Self> {
        let state = Arc::new(ConsoleState {
            sources,
            history: History::new(Instant::now()),
            last_comparison: LastComparison::default(),
        });
        let (requests, receiver) = sync_channel(MAX_WAITING);
        let thread_state = state.clone();
        spawn("console", Priority::Background, move || render_pages(&thread_state, &receiver))?;
        Ok(Self { state, requests })
    }

    /// Takes samples of the counters for as long as it is polled. Never resolves.
    pub fn samples(&self) -> impl Future<Output = ()> + Send + use<> {
        let state = self.state.clone();
        async move {
            loop {
                tokio::time::sleep(INTERVAL).await;
                state.history.add(Sample::take(&state.sources.pages));
            }
        }
    }

    fn page(&self, question: Question) -> ConsoleAnswer {
        let (page, rendered) = oneshot::channel();
        let current = Current::read(&self.state.sources.pages);
        match self.requests.try_send(PageRequest { question, current, page }) {
            Ok(()) => Box::pin(async {
                match rendered.await {
                    Ok(page) => answer(StatusCode::OK, "text/html; charset=utf-8", page),
                    Err(_) => plain(
                        StatusCode::INTERNAL_SERVER_ERROR,
                        "this page cannot be shown: the log has the place of the bug\n",
                    ),
                }
            }),
            Err(TrySendError::Full(_)) => ready(plain(
                StatusCode::SERVICE_UNAVAILABLE,
                "the console is busy with other requests: try again in a few seconds\n",
            )),
            Err(TrySendError::Disconnected(_)) => {
                ready(plain(StatusCode::SERVICE_UNAVAILABLE, "the console has ended\n"))
            }
        }
    }
}

impl server::admin::Console for Console {
    fn answer(&self, target: &Uri, host: &str) -> ConsoleAnswer {
        if !is_answered(host, &self.state.sources.hosts) {
            return ready(plain(
                StatusCode::FORBIDDEN,
                "the console is for `localhost`, loopback addresses and the names of \
                 `console-host`\n",
            ));
        }
        let query = target.query().unwrap_or_default();
        if query.len() > MAX_QUERY {
            return ready(plain(StatusCode::URI_TOO_LONG, "a query has at most 4096 bytes\n"));
        }
        match target.path() {
            "/console" => self.page(Question::parse(query)),
            "/console/style.css" => ready(answer(StatusCode::OK, "text/css; charset=utf-8", STYLE)),
            "/console/icon.svg" => ready(answer(StatusCode::OK, "image/svg+xml", ICON)),
            _ => ready(plain(StatusCode::NOT_FOUND, "not found: the console is at /console\n")),
        }
    }
}

/// Whether a request with this `Host` is answered. A website can give its own name the address of
/// this machine (DNS rebinding); a browser then sends that name.
fn is_answered(host: &str, hosts: &[String]) -> bool {
    let Ok(authority) = host.parse::<hyper::http::uri::Authority>() else { return false };
    let name = authority.host();
    let address = name.trim_start_matches('[').trim_end_matches(']').parse::<std::net::IpAddr>();
    address.is_ok_and(|address| address.to_canonical().is_loopback())
        || name.eq_ignore_ascii_case("localhost")
        || hosts.iter().any(|host| name.eq_ignore_ascii_case(host))
}

/// Renders pages until the console is dropped. After a panic, only the page at hand is missing.
fn render_pages(state: &ConsoleState, requests: &Receiver<PageRequest>) {
    while let Ok(PageRequest { question, current, page }) = requests.recv() {
        // The client may have disconnected already, or may do so while the page is rendered.
        if !page.is_closed()
            && let Ok(html) = catch("rendering a page", || page::render(state, &current, &question))
        {
            let _ = page.send(html);
        }
    }
}

fn ready(answer: Response<String>) -> ConsoleAnswer {
    Box::pin(std::future::ready(answer))
}

fn plain(status: StatusCode, text: &str) -> Response<String> {
    answer(status, "text/plain; charset=utf-8", text)
}

fn answer(
    status: StatusCode,
    content_type: &'static str,
    body: impl Into<String>,
) -> Response<String> {
    let mut answer = Response::new(body.into());
    *answer.status_mut() = status;
    let headers: [(HeaderName, &'static str); 8] = [
        (CONTENT_TYPE, content_type),
        (CONTENT_SECURITY_POLICY, SECURITY_POLICY),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (X_FRAME_OPTIONS, "DENY"),
        (REFERRER_POLICY, "no-referrer"),
        (CACHE_CONTROL, "no-store"),
        (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
        // A website that has opened the page in a tab cannot send that tab to another page.
        (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
    ];
    answer
        .headers_mut()
        .extend(headers.map(|(name, value)| (name, HeaderValue::from_static(value))));
    answer
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_of_this_machine_and_configured_ones_are_answered() {
        let hosts = ["console.internal".to_owned()];
        for host in [
            "localhost",
            "LOCALHOST:9192",
            "127.0.0.1:1",
            "127.9.9.9",
            "[::1]:9192",
            "console.internal:80",
        ] {
            assert!(is_answered(host, &hosts), "{host}");
        }
        for host in [
            "",
            "evil.example",
            "localhost.evil.example",
            "127.0.0.1.evil.example",
            "10.0.0.1",
            "[::2]",
            "a b",
        ] {
            assert!(!is_answered(host, &hosts), "{host}");
        }
    }

    #[test]
    fn the_pages_run_no_script_and_load_nothing_from_elsewhere() {
        let policy: Vec<&str> = SECURITY_POLICY.split("; ").collect();
        assert!(
            policy.contains(&"default-src 'none'") && policy.contains(&"frame-ancestors 'none'")
        );
        assert!(!SECURITY_POLICY.contains("unsafe") && !SECURITY_POLICY.contains("script"));
        assert!(!STYLE.contains("url(") && !STYLE.contains("@import"));
    }
}
