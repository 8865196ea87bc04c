//! Envoy's interface for dynamic modules, and safe types above it: a module implements a
//! [`Filter`], which gets a [`Stream`] for each request. This module and its submodules have all
//! the crate's `unsafe`, except for `exports.rs`, `allocator.rs` and the fake host of the tests.
//!
//! Envoy calls hooks (`hooks.rs`) and offers callbacks (`callbacks.rs`). Their names and types are
//! those of Envoy 1.38 to 1.40, declared here by hand: Envoy's own SDK is not published as a
//! package and needs libclang to be built.

#![expect(unsafe_code, reason = "Envoy's interface is one of C functions and raw pointers")]

mod callbacks;
pub mod hooks;
mod message;
pub(crate) mod response;
mod scheduler;
mod setup;
mod stream;

use std::fmt;

pub use callbacks::{Buffer, Callbacks, Pair};
pub use message::Headers;
pub use scheduler::Scheduler;
pub use setup::{Counter, Gauge, Histogram, MetricError, Setup};
#[cfg(any(test, feature = "fake-host"))]
pub(crate) use stream::{DNS_SAN_PEER, SOURCE_ADDRESS, URI_SAN_PEER};
pub use stream::{Handled, Route, Stream};

/// An HTTP filter. Envoy creates it from a filter configuration, and all requests of its listeners
/// share it.
///
/// Each method may panic. If it was deciding a request, the request is answered with
/// [`Filter::panicked`]; if it was reading a configuration, Envoy rejects it. The methods for
/// requests are called on the worker thread of the connection, and must not block.
pub trait Filter: Send + Sync + Sized + 'static {
    /// The configuration of a route (`typed_per_filter_config`).
    type Route: Send + Sync + 'static;
    /// The state of a request between the calls below. It is dropped on the worker thread, when the
    /// stream ends.
    type State: Default + 'static;

    /// Reads a filter configuration, `filter_name` and the bytes of `filter_config`, on Envoy's
    /// main thread. If it cannot be used, the method logs why and returns `None`: then Envoy
    /// rejects the configuration.
    fn new(name: &[u8], config: &[u8], setup: &mut Setup<'_>) -> Option<Self>;

    /// Reads the configuration of a route, as [`Self::new`]. There are no metrics to define here.
    /// If `validating`, Envoy only checks its configuration ([`Setup::validating`]).
    fn route(name: &[u8], config: &[u8], validating: bool) -> Option<Self::Route>;

    /// Decides about a request, or pauses it, or buffers its body.
    fn request_headers(&self, state: &mut Self::State, stream: Stream<'_, Self>) -> Handled;

    /// Goes on with a request whose body is buffered ([`Stream::buffer`]): more of it has arrived.
    fn request_body(&self, state: &mut Self::State, stream: Stream<'_, Self>) -> Handled;

    /// Goes on with a paused request, after [`Scheduler::commit`] of `event`.
    fn scheduled(&self, state: &mut Self::State, stream: Stream<'_, Self>, event: u64) -> Handled;

    /// Returns the body that replaces `body`, the whole body of a successful response (2xx). It is
    /// called once, if [`Stream::await_response`] was called before the request was allowed.
    ///
    /// # Errors
    /// The body of a response with status 502, in JSON, if the response cannot be changed.
    fn response(&self, state: &mut Self::State, body: &[u8]) -> Result<Vec<u8>, Vec<u8>>;

    /// Counts a panic of the methods for requests as an error, and returns the answer to that
    /// request.
    fn panicked(&self, stream: &Stream<'_, Self>) -> Reply<'static>;
}

/// A local reply: a response that Envoy sends instead of forwarding the request.
#[derive(Clone, Copy, Debug)]
pub struct Reply<'a> {
    /// Its status.
    pub status: u16,
    /// Its headers: names and values.
    pub headers: &'a [(&'a [u8], &'a [u8])],
    /// Its body. Envoy adds `content-type: text/plain` if it is not empty and `headers` has no
    /// type.
    pub body: &'a [u8],
    /// The reason, for `%RESPONSE_CODE_DETAILS%` in access logs. Without spaces.
    pub details: &'a str,
}

impl Reply<'_> {
    /// 503 without a body, for failures of our own.
    pub const FAILURE: Reply<'static> =
        Reply { status: 503, headers: &[], body: b"", details: "rolegate_failure" };
}

/// The level of a log line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Level {
    /// For debugging.
    Debug = 1,
    /// Information.
    Info = 2,
    /// A warning.
    Warn = 3,
    /// An error.
    Error = 4,
}

/// Writes `text` to Envoy's log (the logger `dynamic_modules`), one entry per line, from any
/// thread.
pub fn log(level: Level, text: impl fmt::Display) {
    if let Some(callbacks) = callbacks::loaded() {
        callbacks.write_log(level, &text.to_string());
    }
}

/// Registers `run`. It is called when the process exits by itself, after Envoy has destroyed its
/// filters, and when the library is unloaded.
pub fn at_exit(run: extern "C" fn()) {
    // SAFETY: the C library calls the function, which takes nothing, before the library is
    // unloaded. If there is no memory to register the function, it is not called.
    let _ = unsafe { libc::atexit(run) };
}

#[cfg(test)]
mod tests;
