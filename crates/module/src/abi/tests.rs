//! Hooks, streams and schedulers, on the fake host.

mod bodies;
mod responses;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

use super::hooks::{CONTINUE, STOP, STOP_AND_BUFFER, STOP_AND_WATERMARK};
use super::{Counter, Filter, Gauge, Handled, Histogram, Level, Reply, Route, Scheduler};
use super::{Setup, Stream, log};
use crate::fake::{FakeStream, Host, Sent, logged};

/// What it does is what the request's `x-do` says.
struct Scripted {
    requests: Counter,
    level: Gauge,
    sizes: Histogram,
    panics: Counter,
    seen: Mutex<Vec<(Vec<u8>, Vec<u8>)>>,
    schedulers: Mutex<Vec<Scheduler>>,
    /// How many states there are.
    states: Arc<AtomicUsize>,
}

#[derive(Default)]
struct State {
    alive: Option<Alive>,
    events: Vec<u64>,
}

struct Alive(Arc<AtomicUsize>);

impl Drop for Alive {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Filter for Scripted {
    type Route = String;
    type State = State;

    fn new(name: &[u8], config: &[u8], setup: &mut Setup<'_>) -> Option<Self> {
        match config {
            b"panic" => panic!("a secret"),
            b"bad" => {
                log(Level::Error, "policy.yaml:1:2: no\npolicy.yaml:3:4: nor this");
                return None;
            }
            _ => {}
        }
        assert_eq!(name, b"main");
        assert!(!setup.validating());
        Some(Self {
            requests: setup.counter("requests").unwrap(),
            panics: setup.counter("panics").unwrap(),
            level: setup.gauge("level").unwrap(),
            sizes: setup.histogram("sizes").unwrap(),
            seen: Mutex::default(),
            schedulers: Mutex::default(),
            states: Arc::default(),
        })
    }

    fn route(_name: &[u8], config: &[u8], _validating: bool) -> Option<String> {
        let text = String::from_utf8(config.to_vec()).ok()?;
        assert_ne!(text, "panic");
        Some(text)
    }

    fn request_headers(&self, state: &mut State, mut stream: Stream<'_, Self>) -> Handled {
        self.states.fetch_add(1, Ordering::SeqCst);
        state.alive = Some(Alive(Arc::clone(&self.states)));
        let todo = {
            let headers = stream.headers();
            let all = headers.iter().map(|(name, value)| (name.to_vec(), value.to_vec()));
            *self.seen.lock().unwrap() = all.collect();
            headers
                .iter()
                .find(|(name, _)| *name == b"x-do")
                .map_or(&b""[..], |(_, value)| value)
                .to_vec()
        };
        stream.count(self.requests, 1);
        stream.set_gauge(self.level, 7);
        stream.record(self.sizes, 40);
        match todo.as_slice() {
            b"allow" => stream.proceed(),
            b"await" => {
                stream.await_response(2_000_000);
                stream.proceed()
            }
            b"change" => {
                assert!(
                    stream.set_header(b"x-user", b"alice")
                        && stream.add_header(b"x-role", b"admin")
                );
                assert!(stream.set_header(b"x-empty", b"") && !stream.add_header(b"x-empty", b""));
                assert!(stream.remove_header(b"x-alias"));
                assert!(
                    !stream.set_header(b"x-user", b"a\r\nb")
                        && !stream.add_header(b"x-user", b"\0")
                );
                stream.set_metadata("rolegate", &[("decision", b"allowed"), ("user", b"alice")]);
                stream.proceed()
            }
            b"pause" => {
                self.schedulers.lock().unwrap().extend(stream.scheduler());
                self.schedulers.lock().unwrap().extend(stream.scheduler());
                stream.pause()
            }
            b"buffer" => {
                stream.raise_buffer_limit(8);
                stream.buffer()
            }
            b"panic" => panic!("a secret"),
            b"reply, then panic" => {
                let _ = stream.reply(&Reply { status: 401, ..Reply::FAILURE });
                panic!("a secret")
            }
            b"split" => {
                stream.reply(&Reply { headers: &[(b"location", b"/\r\nx: y")], ..Reply::FAILURE })
            }
            b"address" => {
                let body = stream.source_address().unwrap_or(b"none").to_vec();
                stream.reply(&Reply { body: &body, ..Reply::FAILURE })
            }
            b"route" => {
                let body = match stream.route() {
                    Route::None => "none".to_owned(),
                    Route::Config(text) => format!("of {text}"),
                    Route::Foreign => "foreign".to_owned(),
                };
                stream.reply(&Reply { body: body.as_bytes(), ..Reply::FAILURE })
            }
            _ => stream.reply(&DENIED),
        }
    }

    /// Answers with the whole body, unless it says otherwise.
    fn request_body(&self, state: &mut State, mut stream: Stream<'_, Self>) -> Handled {
        let body = stream.body(&mut Vec::new()).to_vec();
        assert_eq!(stream.body_size(), body.len());
        match (&*body, stream.is_complete()) {
            (b"panic", _) => panic!("a secret"),
            (b"pause", _) => {
                state.events.push(0);
                self.schedulers.lock().unwrap().extend(stream.scheduler());
                stream.pause()
            }
            (b"allow", true) => stream.proceed(),
            (b"replace", true) => {
                assert!(stream.replace_body(b"another"));
                assert_eq!(stream.body_size(), 7);
                stream.proceed()
            }
            (b"empty", true) => {
                assert!(stream.replace_body(b""));
                stream.proceed()
            }
            (_, false) => stream.buffer(),
            _ => stream.reply(&Reply { status: 403, body: &body, ..DENIED }),
        }
    }

    /// Puts the whole body into brackets, unless it says otherwise.
    fn response(&self, _state: &mut State, body: &[u8]) -> Result<Vec<u8>, Vec<u8>> {
        match body {
            b"panic" => panic!("a secret"),
            b"fail" => Err(b"failed".to_vec()),
            b"grow" => Ok(vec![b'x'; 3_000_000]),
            _ => Ok([b"[", body, b"]"].concat()),
        }
    }

    fn scheduled(&self, state: &mut State, stream: Stream<'_, Self>, event: u64) -> Handled {
        state.events.push(event);
        match event {
            1 => stream.proceed(),
            2 => stream.reply(&DENIED),
            3 => panic!("a secret"),
            _ => stream.pause(),
        }
    }

    fn panicked(&self, stream: &Stream<'_, Self>) -> Reply<'static> {
        stream.count(self.panics, 1);
        Reply { status: 503, headers: &[], body: b"a failure", details: "rolegate_panic" }
    }
}

const DENIED: Reply<'static> = Reply {
    status: 403,
    headers: &[(b"x-a", b"1"), (b"x-a", b"2")],
    body: b"denied\n",
    details: "rolegate_denied",
};

fn host() -> Host<Scripted> {
    Host::load(b"main", b"").unwrap()
}

fn asking<'a>(host: &'a Host<Scripted>, todo: &[u8]) -> FakeStream<'a, Scripted> {
    host.stream(&[(b":path", b"/"), (b"x-do", todo)]).unwrap()
}

fn seen(host: &Host<Scripted>, headers: &[(&[u8], &[u8])]) -> Vec<(Vec<u8>, Vec<u8>)> {
    let stream = host.stream(headers).unwrap();
    stream.request_headers(true);
    host.filter().seen.lock().unwrap().clone()
}

#[test]
fn headers_of_any_shape_are_read() {
    let host = host();
    let long = vec![b'x'; 60_000];
    let shapes: [&[(&[u8], &[u8])]; 4] = [
        &[],
        &[(b":path", b""), (b"", b"")],
        &[(b"x-a", b"1"), (b"X-A", b"2"), (b"x-a", b"1"), (b"cookie", &[0, 0xff, 0xfe])],
        &[(b"x-long", &long), (b"x-a", b"1")],
    ];
    for shape in shapes {
        let copied: Vec<_> =
            shape.iter().map(|(name, value)| (name.to_vec(), value.to_vec())).collect();
        assert_eq!(seen(&host, shape), copied);
    }
    let many: Vec<(Vec<u8>, Vec<u8>)> =
        (0..1000).map(|n| (b"x-n".to_vec(), vec![b'n'; n])).collect();
    let borrowed: Vec<(&[u8], &[u8])> =
        many.iter().map(|(name, value)| (&name[..], &value[..])).collect();
    assert_eq!(seen(&host, &borrowed), many);
    assert_eq!(host.metric("requests"), 5);
    assert_eq!((host.metric("level"), host.metric("sizes")), (7, 200));
}

#[test]
fn a_request_is_changed_and_goes_on() {
    let host = host();
    let (user, alias): (&[u8], &[u8]) = (b"x-user", b"x-alias");
    let stream = host
        .stream(&[
            (user, b"evil"),
            (b"x-do", b"change"),
            (user, b"evil"),
            (alias, b"1"),
            (b"x-empty", b"no"),
            (alias, b"2"),
        ])
        .unwrap();
    assert_eq!(stream.request_headers(false), CONTINUE);
    let now = [(&b"x-do"[..], &b"change"[..]), (user, b"alice"), (b"x-role", b"admin")];
    assert_eq!(stream.headers(), now.map(|(name, value)| (name.to_vec(), value.to_vec())));
    assert_eq!(stream.metadata("rolegate.user").unwrap(), "alice");
    assert_eq!(stream.metadata("rolegate.decision").unwrap(), "allowed");
    assert_eq!((stream.request_body(b"a", true), stream.request_trailers()), (CONTINUE, CONTINUE));
    assert_eq!((stream.sent(), stream.resumed()), (None, 0));
}

#[test]
fn the_address_of_the_client_is_read() {
    let host = host();
    let body = |stream: FakeStream<'_, Scripted>| {
        stream.request_headers(true);
        stream.sent().unwrap().body
    };
    assert_eq!(body(asking(&host, b"address")), b"none");
    assert_eq!(body(asking(&host, b"address").with_source_address(b"10.0.0.1:5")), b"10.0.0.1:5");
}

#[test]
fn a_denial_is_sent_as_it_is() {
    let host = host();
    for ending in [false, true] {
        let stream = asking(&host, b"deny");
        let stream = if ending { stream.ending_at_once() } else { stream };
        assert_eq!(stream.request_headers(true), STOP);
        let headers = vec![(b"x-a".to_vec(), b"1".to_vec()), (b"x-a".to_vec(), b"2".to_vec())];
        let details = "rolegate_denied".to_owned();
        assert_eq!(
            stream.sent(),
            Some(Sent { status: 403, headers, body: b"denied\n".to_vec(), details })
        );
        assert_eq!(stream.request_trailers(), STOP);
    }
    let stream = asking(&host, b"split");
    assert_eq!(stream.request_headers(true), STOP);
    assert_eq!((stream.sent().unwrap().status, stream.sent().unwrap().headers), (503, vec![]));
}

#[test]
fn a_panic_denies_its_own_request_only() {
    let host = host();
    for (todo, status, panics) in
        [(&b"panic"[..], 503, 1), (b"reply, then panic", 401, 1), (b"deny", 403, 1)]
    {
        for ending in 0..3 {
            let stream = match ending {
                0 => asking(&host, todo),
                1 => asking(&host, todo).ending_at_once(),
                _ => asking(&host, todo).ending_at_once_unheard(),
            };
            assert_eq!(stream.request_headers(true), STOP);
            assert_eq!(stream.sent().unwrap().status, status);
        }
        assert_eq!(host.metric("panics"), panics * 3);
    }
    let stream = asking(&host, b"pause");
    assert_eq!(stream.request_headers(true), STOP);
    stream.scheduled(3);
    assert_eq!(stream.sent().unwrap().details, "rolegate_panic");
    assert_eq!((stream.resumed(), host.metric("panics")), (0, 4));
}

#[test]
fn a_configuration_with_a_problem_is_rejected() {
    assert!(Host::<Scripted>::load(b"main", b"bad").is_none());
    assert_eq!(logged(), ["policy.yaml:1:2: no", "policy.yaml:3:4: nor this"]);
    assert!(Host::<Scripted>::load(b"main", b"panic").is_none());
    assert!(Host::<Scripted>::route(b"main", &[0xff]).is_none());
    assert!(Host::<Scripted>::route(b"main", b"panic").is_none());
    assert_eq!(logged(), [""; 0]);
    log(Level::Warn, "one\ntwo");
    assert_eq!(logged(), ["one", "two"]);
}

#[test]
fn the_configuration_of_the_route_is_found() {
    let (host, route) = (host(), Host::<Scripted>::route(b"main", b"this one").unwrap());
    let body = |stream: FakeStream<'_, Scripted>| {
        stream.request_headers(true);
        String::from_utf8(stream.sent().unwrap().body).unwrap()
    };
    assert_eq!(body(asking(&host, b"route")), "none");
    assert_eq!(body(asking(&host, b"route").with_route(&route)), "of this one");
    let foreign = [0, 1, 2, 3];
    assert_eq!(body(asking(&host, b"route").with_foreign_route(&foreign)), "foreign");
}

#[test]
fn a_paused_request_goes_on_or_is_denied_once() {
    for (event, resumed, denied) in [(1, 1, false), (2, 0, true)] {
        for ending in [false, true] {
            let host = host();
            let stream = asking(&host, b"pause");
            let stream = if ending { stream.ending_at_once() } else { stream };
            assert_eq!(stream.request_headers(false), STOP);
            assert_eq!(stream.request_body(b"a", false), STOP_AND_WATERMARK);
            let schedulers = std::mem::take(&mut *host.filter().schedulers.lock().unwrap());
            assert_eq!(stream.schedulers(), 1, "the two are one of Envoy's");
            let commits = |scheduler: Scheduler| {
                scheduler.commit(9) && scheduler.commit(event) && scheduler.commit(1)
            };
            thread::scope(|scope| {
                for scheduler in schedulers {
                    scope.spawn(move || assert!(commits(scheduler)));
                }
            });
            assert_eq!(stream.deliver_events(), 6);
            assert_eq!(
                (stream.resumed(), stream.sent().is_some(), stream.ended()),
                (resumed, denied, ending)
            );
            if !ending {
                assert_eq!(
                    stream.request_body(b"a", true),
                    if denied { STOP_AND_WATERMARK } else { CONTINUE }
                );
            }
            stream.end();
            assert_eq!((stream.schedulers(), host.filter().states.load(Ordering::SeqCst)), (0, 0));
        }
    }
}

/// Also under a sanitizer: the stream ends while other threads commit.
#[test]
fn a_scheduler_outlives_its_stream() {
    let host = host();
    for _ in 0..200 {
        let stream = asking(&host, b"pause");
        stream.request_headers(false);
        let schedulers = std::mem::take(&mut *host.filter().schedulers.lock().unwrap());
        thread::scope(|scope| {
            for scheduler in schedulers {
                scope.spawn(move || while scheduler.commit(9) {});
            }
            stream.deliver_events();
            stream.end();
        });
        assert_eq!((stream.late_commits(), stream.schedulers(), stream.ended()), (0, 0, true));
        assert_eq!(host.filter().states.load(Ordering::SeqCst), 0);
    }
}

#[test]
fn hooks_in_a_wrong_order_forward_nothing() {
    let host = host();
    let stream = asking(&host, b"allow");
    assert_eq!(
        (stream.request_body(b"a", true), stream.request_trailers()),
        (STOP_AND_WATERMARK, STOP)
    );
    stream.scheduled(1);
    assert_eq!((stream.resumed(), stream.request_headers(true)), (0, CONTINUE));
    // Its headers again: this is no request that was decided.
    assert_eq!((stream.request_headers(true), stream.sent().unwrap().status), (STOP, 503));
    assert_eq!((stream.request_headers(true), stream.request_trailers()), (STOP, STOP));
    stream.scheduled(1);
    assert_eq!(stream.resumed(), 0);
    stream.end();
    stream.end();
    assert_eq!((stream.request_headers(true), stream.request_trailers()), (STOP, STOP));
    let paused = asking(&host, b"pause");
    assert_eq!(paused.request_headers(false), STOP);
    assert_eq!((paused.request_headers(false), paused.sent().unwrap().status), (STOP, 503));
}

/// A stream whose hooks are called in a random order, as its model says.
#[test]
fn no_order_of_hooks_forwards_what_was_not_allowed() {
    let host = host();
    for seed in 0..20_000 {
        let mut random = fastrand::Rng::with_seed(seed);
        let todo = [
            &b"allow"[..],
            b"change",
            b"pause",
            b"panic",
            b"reply, then panic",
            b"deny",
            b"buffer",
        ];
        let todo = todo[random.usize(..todo.len())];
        let stream = asking(&host, todo);
        let stream = match random.u8(..3) {
            0 => stream.ending_at_once(),
            1 => stream.ending_at_once_unheard(),
            _ => stream,
        };
        let (mut allowed, mut decided, mut body) = (false, false, Vec::<u8>::new());
        for _ in 0..random.usize(..10) {
            match random.u8(..6) {
                0 => {
                    let first = !decided && stream.request_headers(random.bool()) == CONTINUE;
                    allowed |= first;
                    assert!(!first || todo == b"allow" || todo == b"change", "seed {seed}");
                    decided = true;
                }
                1 => {
                    let event = random.u64(1..5);
                    let waits =
                        decided && todo == b"pause" && !stream.ended() && stream.sent().is_none();
                    stream.scheduled(event);
                    allowed |= waits && event == 1;
                }
                2 => {
                    let (part, end) =
                        ([&b"all"[..], b"ow", b"allow"][random.usize(..3)], random.bool());
                    body.extend(part);
                    let goes_on = stream.request_body(part, end) == CONTINUE;
                    let is_permitted = todo == b"buffer" && decided && end && body == b"allow";
                    assert!(!goes_on || allowed || is_permitted, "seed {seed}");
                    allowed |= goes_on;
                }
                3 => {
                    let goes_on = stream.request_trailers() == CONTINUE;
                    let is_permitted = todo == b"buffer" && decided && body == b"allow";
                    assert!(!goes_on || allowed || is_permitted, "seed {seed}");
                    allowed |= goes_on;
                }
                4 => {
                    let schedulers = host.filter().schedulers.lock().unwrap();
                    schedulers.iter().for_each(|scheduler| _ = scheduler.commit(4));
                }
                _ => stream.end(),
            }
            stream.deliver_events();
            assert!(stream.resumed() <= 1 && (stream.resumed() == 0 || allowed), "seed {seed}");
        }
        stream.end();
        let schedulers = std::mem::take(&mut *host.filter().schedulers.lock().unwrap());
        assert!(!schedulers.into_iter().any(|scheduler| scheduler.commit(1)), "seed {seed}");
        assert_eq!((stream.late_commits(), stream.schedulers()), (0, 0), "seed {seed}");
        assert_eq!(host.filter().states.load(Ordering::SeqCst), 0, "seed {seed}");
    }
}

/// This one has no callbacks. An Envoy that is too old has some: its log says which versions work.
#[test]
fn a_program_without_the_callbacks_is_rejected() {
    assert!(super::hooks::program_init().is_null());
    // SAFETY: it returns null or our own function, which has the type of Envoy's.
    assert!(unsafe { super::callbacks::load_from(crate::fake::only_the_log) }.is_none());
    assert_eq!(
        logged(),
        [
            "rolegate works with Envoy 1.38, 1.39 and 1.40: this one has no `envoy_dynamic_module_callback_is_validation_mode`"
        ]
    );
}
