//! The queue and the thread: what happens when they are full, slow or broken.

use std::path::Path;
use std::sync::mpsc::channel;

use authorizer::{Header, Outcome, Request};
use document::MapFiles;
use identity::FetchedKeys;

use super::*;
use crate::{Received, Via};

fn compiled(policy: &str) -> Authorizer {
    let files = MapFiles::new("policy.yaml", policy);
    let loaded = policy::load(&files, Path::new("policy.yaml")).unwrap();
    Authorizer::compile(Arc::new(loaded), &FetchedKeys::new(), None).unwrap().0
}

const OPEN: &str = "version: 1\nroles: { anyone: { allow: [GET /a] } }\n";

fn stats() -> Arc<ShadowStats> {
    Arc::new(ShadowStats::new(Arc::new(Status::default())))
}

fn count(stats: &ShadowStats, result: &str) -> u64 {
    stats.results().find(|(name, _)| *name == result).unwrap().1
}

/// Offers a request, as a worker thread does.
fn offer(shadow: &Shadow, active: &Authorizer, path: &[u8], headers: &[Header<'_>]) {
    let request = Request { method: b"GET", host: b"h", path, headers, ..Request::default() };
    let received = Received::now();
    let mut scratch = Scratch::default();
    let Outcome::Decided(verdict) =
        active.check(&request, None, &mut scratch, received.resumed_time)
    else {
        panic!("pending")
    };
    let (authorizer, request, client, decided_at) = (active, &request, &[][..], received.arrived);
    shadow.offer(
        &verdict,
        &DecisionContext {
            authorizer,
            request,
            client,
            received,
            decided_at,
            traceparent: &[],
            via: Via::Grpc,
        },
    );
}

/// A queue that nothing is taken from.
fn stuck(candidate: &str) -> (Shadow, Receiver<DecidedRequest>) {
    let (queue, requests) = sync_channel(SLOTS);
    let candidate = Arc::new(ArcSwapOption::from_pointee(compiled(candidate)));
    (Shadow { queue, waiting: Arc::default(), candidate, stats: stats() }, requests)
}

#[test]
fn a_full_queue_drops_requests_and_counts_them() {
    let active = compiled(OPEN);
    for path in [b"/a".to_vec(), [&b"/"[..], &[b'x'; 4000]].concat()] {
        let (shadow, requests) = stuck(OPEN);
        let offered = SLOTS + 100;
        for _ in 0..offered {
            offer(&shadow, &active, &path, &[]);
        }
        assert!(shadow.waiting.load(Ordering::Relaxed) <= MAX_BYTES);
        assert!(shadow.stats.dropped() >= 100);
        let queued = requests.try_iter().inspect(|request| {
            shadow.waiting.fetch_sub(request.size(), Ordering::Relaxed);
        });
        assert_eq!(queued.count() + usize::try_from(shadow.stats.dropped()).unwrap(), offered);
        assert_eq!(shadow.waiting.load(Ordering::Relaxed), 0);
    }
}

/// The candidate would see another caller, or none.
#[test]
fn a_candidate_that_reads_tokens_elsewhere_is_not_compared() {
    let places = |places: &str| {
        let issuer = "{ issuer: a, audiences: [x], keys: { url: 'https://a.example/keys' } }";
        format!(
            "version: 1\nidentity: {{ jwt: [{issuer}] {places} }}\n\
             roles: {{ anyone: {{ allow: [GET /a] }} }}\n"
        )
    };
    let cookies = places(", token_from: [{ cookie: session }]");
    let headers = places("");
    let cookie = Header { name: b"cookie", value: b"session=x" };
    let other = Header { name: b"cookie", value: b"sessions=x" };
    for (line, expected) in [(cookie, 0), (other, 1)] {
        let (shadow, requests) = stuck(&cookies);
        offer(&shadow, &compiled(&headers), b"/a", &[line]);
        assert_eq!(requests.try_iter().count(), expected);
    }
}

/// Only requests to a search cluster are read by their query and body, so other queries, which may
/// have secrets, are not copied.
#[test]
fn a_query_and_headers_are_not_copied() {
    let (shadow, requests) = stuck(OPEN);
    let secret = Header { name: b"cookie", value: b"secret" };
    offer(&shadow, &compiled(OPEN), b"/a?token=secret", &[secret]);
    let copied = requests.try_recv().unwrap();
    assert_eq!(copied.texts()[2], b"/a");
    assert!(!format!("{copied:?}").contains(&format!("{:?}", b"secret").replace(['[', ']'], "")));
}

#[test]
fn without_a_candidate_nothing_is_compared() {
    let (shadow, requests) = stuck(OPEN);
    shadow.candidate.store(None);
    offer(&shadow, &compiled(OPEN), b"/a", &[]);
    assert!(requests.try_recv().is_err());
    assert_eq!(count(&shadow.stats, "not_compared"), 1);
}

#[test]
fn a_panic_costs_one_comparison() {
    let (shadow, requests) = stuck(OPEN);
    for _ in 0..3 {
        offer(&shadow, &compiled(OPEN), b"/a", &[]);
    }
    let Shadow { queue, waiting, stats, .. } = shadow;
    drop(queue);
    let mut number = 0;
    consume(&requests, &waiting, |_| {
        number += 1;
        contain(&stats, || assert_ne!(number, 2, "a bug"));
        if number != 2 {
            stats.count(Difference::Same);
        }
    });
    assert_eq!((count(&stats, "same"), count(&stats, "error")), (2, 1));
    assert_eq!(waiting.load(Ordering::Relaxed), 0);
}

#[test]
fn the_thread_ends_with_the_last_sender() {
    struct OnDrop(std::sync::mpsc::Sender<()>);
    impl Drop for OnDrop {
        fn drop(&mut self) {
            self.0.send(()).unwrap();
        }
    }
    let (shadow, requests) = stuck(OPEN);
    let (ended, end) = channel();
    let waiting = shadow.waiting.clone();
    thread::spawn(move || {
        let _ended = OnDrop(ended);
        consume(&requests, &waiting, |_| {});
    });
    offer(&shadow, &compiled(OPEN), b"/a", &[]);
    drop(shadow);
    assert!(end.recv_timeout(Duration::from_secs(60)).is_ok());
}
