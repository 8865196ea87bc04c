//! Answers the requests of the console: which ones, with which headers, and on which thread.
//!
//! One thread of low priority renders the pages, one after the other. Few requests wait for it;
//! more get 503. So a client of the console delays other clients of the console, and nobody else.

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
use crate::difference::Differences;
use crate::history::{History, INTERVAL, Sample};
use crate::page::{self, Current, Shown};
use crate::question::Question;

/// The maximum length of a query, in bytes.
const MAX_QUERY: usize = 4096;
/// The maximum number of requests that wait for the thread.
const MAX_WAITING: usize = 8;

/// The style sheet and the icon.
const STYLE: &str = include_str!("style.css");
const ICON: &str = include_str!("icon.svg");

/// What a browser may do with a page: use its style sheet and its icon, and send its forms back. It
/// runs no script.
const SECURITY_POLICY: &str = "default-src 'none'; style-src 'self'; img-src 'self'; form-action 'self'; \
    base-uri 'none'; frame-ancestors 'none'";

/// The console. Dropping it ends its thread.
#[derive(Debug)]
pub struct Console {
    shown: Arc<Shown>,
    questions: SyncSender<Waiting>,
}

/// A question with what it is about, and who waits for its page.
#[derive(Debug)]
struct Waiting {
    question: Question,
    current: Current,
    page: oneshot::Sender<String>,
}

impl Console {
    /// Starts the thread.
    ///
    /// # Errors
    /// When the system cannot create it.
    pub fn start(sources: Sources) -> io::Result<Self> {
        let shown = Arc::new(Shown {
            sources,
            history: History::new(Instant::now()),
            differences: Differences::default(),
        });
        let (questions, waiting) = sync_channel(MAX_WAITING);
        let renders = shown.clone();
        spawn("console", Priority::Policy, move || render(&renders, &waiting))?;
        Ok(Self { shown, questions })
    }

    /// Takes samples of the counters for as long as it is polled. Never resolves.
    pub fn samples(&self) -> impl Future<Output = ()> + Send + use<> {
        let shown = self.shown.clone();
        async move {
            loop {
                tokio::time::sleep(INTERVAL).await;
                shown.history.add(Sample::take(&shown.sources.metrics));
            }
        }
    }

    fn page(&self, question: Question) -> ConsoleAnswer {
        let (page, rendered) = oneshot::channel();
        let current = Current::read(&self.shown.sources.metrics);
        match self.questions.try_send(Waiting { question, current, page }) {
            Ok(()) => Box::pin(async {
                match rendered.await {
                    Ok(page) => answer(StatusCode::OK, "text/html; charset=utf-8", page),
                    Err(_) => plain(
                        StatusCode::INTERNAL_SERVER_ERROR,
                        "this page cannot be shown: the log has the place of the bug\n",
                    ),
                }
            }),
            Err(TrySendError::Full(_)) => now(plain(
                StatusCode::SERVICE_UNAVAILABLE,
                "the console is busy with other requests: try again in a few seconds\n",
            )),
            Err(TrySendError::Disconnected(_)) => {
                now(plain(StatusCode::SERVICE_UNAVAILABLE, "the console has ended\n"))
            }
        }
    }
}

impl server::admin::Console for Console {
    fn answer(&self, target: &Uri, host: &str) -> ConsoleAnswer {
        if !is_answered(host, &self.shown.sources.hosts) {
            return now(plain(
                StatusCode::FORBIDDEN,
                "the console is for `localhost`, loopback addresses and the names of `console-host`\n",
            ));
        }
        let query = target.query().unwrap_or_default();
        if query.len() > MAX_QUERY {
            return now(plain(StatusCode::URI_TOO_LONG, "a query has at most 4096 bytes\n"));
        }
        match target.path() {
            "/console" => self.page(Question::read(query)),
            "/console/style.css" => now(answer(StatusCode::OK, "text/css; charset=utf-8", STYLE)),
            "/console/icon.svg" => now(answer(StatusCode::OK, "image/svg+xml", ICON)),
            _ => now(plain(StatusCode::NOT_FOUND, "there is /console\n")),
        }
    }
}

/// Whether a request with this `Host` is answered. A website can give its own name the address of
/// this machine (DNS rebinding); a browser then sends that name.
fn is_answered(host: &str, more: &[String]) -> bool {
    let authority = host.parse::<hyper::http::uri::Authority>();
    let Ok(authority) = authority else { return false };
    let name = authority.host();
    let address = name.trim_start_matches('[').trim_end_matches(']').parse::<std::net::IpAddr>();
    address.is_ok_and(|address| address.to_canonical().is_loopback())
        || name.eq_ignore_ascii_case("localhost")
        || more.iter().any(|more| name.eq_ignore_ascii_case(more))
}

/// Renders pages until the console is dropped. A panic costs one page.
fn render(shown: &Shown, waiting: &Receiver<Waiting>) {
    while let Ok(Waiting { question, current, page }) = waiting.recv() {
        if page.is_closed() {
            continue;
        }
        if let Ok(rendered) = catch("rendering a page", || page::render(shown, &current, &question))
        {
            // Fails only if the client has gone.
            let _ = page.send(rendered);
        }
    }
}

fn now(answer: Response<String>) -> ConsoleAnswer {
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
        let more = ["console.internal".to_owned()];
        for host in [
            "localhost",
            "LOCALHOST:9192",
            "127.0.0.1:1",
            "127.9.9.9",
            "[::1]:9192",
            "console.internal:80",
        ] {
            assert!(is_answered(host, &more), "{host}");
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
            assert!(!is_answered(host, &more), "{host}");
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
