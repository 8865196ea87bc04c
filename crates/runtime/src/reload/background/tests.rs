//! Work that ends, that takes long, that never ends, and that panics.

use std::sync::Mutex;
use std::sync::mpsc::{Sender, channel};
use std::thread;
use std::time::Duration;

use super::{Background, HIGHER, STUCK, Unfinished};

const SHORT: Duration = Duration::from_millis(20);

fn name() -> String {
    thread::current().name().unwrap_or_default().to_owned()
}

fn on(thread: &str) -> Option<String> {
    Some(thread.to_owned())
}

/// Hangs until the sender is used or dropped.
fn hanging() -> (Sender<()>, impl Fn() + Send + Sync + 'static) {
    let (release, wait) = channel::<()>();
    let wait = Mutex::new(wait);
    (release, move || {
        let _ = wait.lock().unwrap().recv();
    })
}

/// Waits until the thread is used again.
fn until(background: &Background, thread: &str) {
    let again = (0..6_000).any(|_| {
        thread::sleep(Duration::from_millis(5));
        background.run(name).ok() == on(thread)
    });
    assert!(again, "{thread}");
}

#[test]
fn runs_work_at_the_lowest_priority() {
    let background = Background::start().unwrap();
    for _ in 0..3 {
        assert_eq!(background.run(name).ok(), on("background"));
        assert_eq!(background.run_short(name).ok(), on("policy-files"));
    }
}

#[test]
fn runs_work_at_a_higher_priority_if_it_takes_too_long() {
    let background = Background::with(SHORT, HIGHER, STUCK).unwrap();
    let (release, hang) = hanging();
    let done = background.run(move || {
        if name() == "background" {
            hang();
        }
        name()
    });
    assert_eq!(done.ok(), on("policy-files"));
    // While that job hangs, nothing is queued behind it.
    assert_eq!(background.run(name).ok(), on("policy-files"));
    let (send, by) = channel();
    background.free(ReportsDrop(send));
    assert_eq!(by.try_recv(), Ok(name()));
    release.send(()).unwrap();
    until(&background, "background");
}

#[test]
fn work_that_never_ends_stops_nobody() {
    let background = Background::with(SHORT, SHORT, STUCK).unwrap();
    let (release, hang) = hanging();
    let late = background.run(hang);
    let Err(Unfinished::TimedOut(late)) = late else { panic!("{late:?}") };
    assert!(matches!(background.run(name), Err(Unfinished::Busy)), "no thread is free");
    assert!(matches!(background.run_short(name), Err(Unfinished::Busy)), "nor this one");
    drop(release);
    assert_eq!(late.recv(), Ok(()), "the result comes late");
    until(&background, "background");
    while background.run_short(name).ok() != on("policy-files") {
        thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn a_thread_that_never_comes_back_is_replaced() {
    let background = Background::with(SHORT, SHORT, 5 * SHORT).unwrap();
    let (_release, hang) = hanging();
    assert!(background.run(hang).is_err());
    until(&background, "background");
}

/// Reports which thread has dropped it.
struct ReportsDrop(Sender<String>);

impl Drop for ReportsDrop {
    fn drop(&mut self) {
        self.0.send(name()).unwrap();
    }
}

#[test]
fn frees_at_the_lowest_priority() {
    let background = Background::start().unwrap();
    let (send, by) = channel();
    background.free(ReportsDrop(send));
    assert_eq!(by.recv().as_deref(), Ok("background"));
}

#[test]
fn work_that_panics_ends_no_thread() {
    let background = Background::start().unwrap();
    let panics = || -> String { panic!("a bug") };
    assert!(matches!(background.run(panics), Err(Unfinished::Panicked)));
    until(&background, "background");
    let higher = || if name() == "background" { panic!("a bug") } else { name() };
    assert_eq!(background.run(higher).ok(), on("policy-files"));
}
