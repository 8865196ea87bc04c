//! Tasks that panic.

use std::sync::mpsc::channel;

use tracing::subscriber::with_default;

use super::*;
use crate::threads::panicking_log;

/// Fetches from a URL where nothing listens, while the log panics `times` times at lines with this
/// text. Returns the facts about its keys once `failures` fetches have failed, panics included.
fn facts_with_panics_at(text: &'static str, times: u32, failures: u64) -> KeyFacts {
    let executor = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let url = KeyUrl::from("http://127.0.0.1:1/keys");
    let source = KeySource {
        refresh: Duration::from_secs(1),
        max_age: None,
        issuers: Issuers(vec!["https://issuer.example".into()]),
    };
    let status = Arc::new(Status::default());
    status.update(|facts| _ = facts.keys.insert(url.clone(), KeyFacts::default()));
    let (events, _taken) = channel();
    let (_requests, requests) = watch::channel(());
    let (_urls, urls) = watch::channel(KeyUrls::from([(url.clone(), source)]));
    let fetcher = Fetcher { current: Arc::default(), events, status: status.clone(), requests };
    with_default(panicking_log::at(text, times), || {
        executor.block_on(async {
            tokio::spawn(fetcher.run(urls));
            let end = Instant::now() + Duration::from_secs(60);
            loop {
                let facts = status.url_facts(&url).unwrap();
                if facts.failures >= failures {
                    return facts;
                }
                assert!(Instant::now() < end, "{facts:?}");
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        })
    })
}

#[test]
fn a_task_that_panics_is_reported_and_fetches_again() {
    // A fetch, whose failure is logged; the panic; a fetch.
    let facts = facts_with_panics_at("no keys yet", 1, 3);
    assert_eq!((facts.failures, facts.loaded), (3, false));
    assert!(facts.failing.is_some());
}

#[test]
fn a_panic_is_why_the_keys_are_not_fetched() {
    let facts = facts_with_panics_at("no keys yet", 1, 2);
    let (_, why) = facts.failing.unwrap();
    assert!(why.contains("panicked"), "{why}");
}
