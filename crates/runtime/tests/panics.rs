//! What a panic prints. A test of its own process, because the hook and the log belong to the whole
//! process.

use std::io;
use std::panic::catch_unwind;
use std::sync::{Arc, Mutex, PoisonError};

/// A log in memory.
#[derive(Clone, Default)]
struct Kept(Arc<Mutex<Vec<u8>>>);

impl io::Write for Kept {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Invariant 7 of `crates/README.md`: no credentials in a log, whatever value a panic message
/// contains.
#[test]
fn a_panic_shows_its_place_and_not_its_message() {
    let kept = Kept::default();
    let writer = kept.clone();
    tracing_subscriber::fmt().json().with_writer(move || writer.clone()).init();
    runtime::threads::show_only_the_place();
    let ended = catch_unwind(|| {
        let credentials = String::from("Basic YWxpY2U6d29uZGVybGFuZA==");
        assert_eq!(credentials, "", "this prints both");
    });
    assert!(ended.is_err());
    let log = String::from_utf8_lossy(&kept.0.lock().unwrap_or_else(PoisonError::into_inner))
        .into_owned();
    assert!(log.contains("panicked") && log.contains("panics.rs:"), "{log}");
    assert!(!log.contains("Basic") && !log.contains("YWxp"), "{log}");
}
