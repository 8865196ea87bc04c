//! The request that a filter gets.

use std::cell::{Cell, OnceCell, RefCell};
use std::ffi::c_void;
use std::fmt;
use std::ptr;
use std::sync::atomic::AtomicU8;

use smallvec::SmallVec;

use super::callbacks::{Buffer, Pair};
use super::message::{Headers, Message};
use super::scheduler::Scheduler;
use super::setup::{Counter, Gauge, Histogram};
use super::{Filter, Reply};

/// Envoy's number for the headers of the request, where a callback asks which headers are meant.
const REQUEST: u32 = 0;

/// The attribute `source.address` (Envoy's documentation: "Attributes"): the address of the
/// downstream connection, with its port.
pub(crate) const SOURCE_ADDRESS: u32 = 24;
/// The attribute `connection.dns_san_peer_certificate`: the first DNS name of the client's
/// certificate.
pub(crate) const DNS_SAN_PEER: u32 = 35;
/// The attribute `connection.uri_san_peer_certificate`: the first URI name of that certificate.
pub(crate) const URI_SAN_PEER: u32 = 37;

/// The result of a [`Filter`]'s method for requests. `hooks.rs` makes it the status that Envoy
/// expects of the hook, such as `FilterHeadersStatus`. Only the methods that use up a [`Stream`]
/// create it.
#[derive(Debug)]
#[must_use]
pub struct Handled(pub(super) Phase);

/// The phase of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// Its headers have not arrived.
    New,
    /// It waits until [`Scheduler::commit`] is called for it.
    Paused,
    /// It waits for the rest of its body.
    Buffering,
    /// It goes on to the next filter.
    Allowed,
    /// It was answered.
    Replied,
}

/// The phase of the response to a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum ResponsePhase {
    /// It goes on as it is.
    #[default]
    Untouched,
    /// The filter wants to change its body. Envoy's buffer limit is raised to this many bytes, if
    /// it is lower.
    Awaited(u64),
    /// Its body is buffered.
    Buffering,
}

/// The module's object for a stream. Envoy gets a pointer to it.
///
/// It is only used through shared references, because Envoy may call a hook of a stream while
/// another hook runs: sending a response ends the stream, and calls the hook that destroys this
/// object.
pub(super) struct Slot<F: Filter> {
    pub(super) filter: *const F,
    pub(super) state: RefCell<F::State>,
    pub(super) phase: Cell<Phase>,
    /// Whether a hook uses this object. If the stream ends meanwhile, that hook frees the object.
    pub(super) entered: Cell<bool>,
    /// Whether the stream has ended.
    pub(super) destroyed: Cell<bool>,
    /// Whether the whole request has arrived.
    pub(super) complete: Cell<bool>,
    /// Whether more than its headers has arrived.
    pub(super) has_body: Cell<bool>,
    pub(super) response: Cell<ResponsePhase>,
    pub(super) scheduler: OnceCell<Scheduler>,
}

/// A request in a hook of its filter.
///
/// Its methods return bytes that Envoy owns. These are borrowed from it, because changing the
/// request frees them. It is used up by [`Self::proceed`], [`Self::reply`], [`Self::pause`] and
/// [`Self::buffer`]: after them the stream may have ended.
pub struct Stream<'a, F: Filter> {
    pub(super) message: Message,
    pub(super) slot: &'a Slot<F>,
}

impl<F: Filter> fmt::Debug for Stream<'_, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stream").finish_non_exhaustive()
    }
}

// In each method, `envoy` is the stream of the running hook, and alive: a `Stream` is created by
// such a hook, cannot leave it (`'a`), cannot be sent to another thread (`*mut`), and is used up by
// each method that may end the stream.
impl<F: Filter> Stream<'_, F> {
    /// Reads all headers of the request in their order, those with `:` and repeated lines among
    /// them. Nothing of them is copied; up to 64 lines cost no allocation.
    pub fn read_headers<'s>(&'s self, headers: &mut Headers<'s>) {
        self.message.read_headers(headers);
    }

    /// As [`Self::read_headers`], but returns the list of lines, which moves its 2 KiB.
    #[must_use]
    pub fn headers(&self) -> Headers<'_> {
        self.message.headers()
    }

    /// Whether the whole request has arrived: [`Self::body`] is then the whole body.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.slot.complete.get()
    }

    /// How many bytes of its body have arrived.
    #[must_use]
    pub fn body_size(&self) -> usize {
        if self.slot.has_body.get() { self.message.body_size() } else { 0 }
    }

    /// The body, as far as it has arrived. It is copied, into `copy`, only if Envoy has it in
    /// several pieces.
    #[must_use]
    pub fn body<'b>(&'b self, copy: &'b mut Vec<u8>) -> &'b [u8] {
        if self.slot.has_body.get() { self.message.body(copy) } else { b"" }
    }

    /// Replaces the body, which has arrived as a whole. If it returns false, the request must not
    /// go on.
    pub fn replace_body(&mut self, body: &[u8]) -> bool {
        // Envoy may have ended the stream meanwhile: then nothing may be done with it.
        self.message.replace_body(body) && !self.slot.destroyed.get()
    }

    /// Has [`Filter::response`] change the response, if its status is 2xx. Envoy's buffer limit is
    /// raised to `limit`, if it is lower: Envoy answers with 500 if the response's body has more
    /// bytes.
    pub fn await_response(&mut self, limit: u64) {
        self.slot.response.set(ResponsePhase::Awaited(limit));
    }

    /// Raises Envoy's buffer limit to this many bytes, if it is lower. Envoy answers a request with
    /// 413 if its body is buffered and exceeds the limit.
    pub fn raise_buffer_limit(&mut self, limit: u64) {
        self.message.raise_buffer_limit(limit);
    }

    /// The address of the downstream connection, with its port; Unix sockets have none.
    #[must_use]
    pub fn source_address(&self) -> Option<&[u8]> {
        self.attribute(SOURCE_ADDRESS)
    }

    /// The first URI name and the first DNS name of the client's certificate.
    #[must_use]
    pub fn certificate_names(&self) -> [Option<&[u8]>; 2] {
        [URI_SAN_PEER, DNS_SAN_PEER].map(|attribute| self.attribute(attribute))
    }

    /// The address at the other end of the connection, with its port, whatever headers say. Before
    /// Envoy 1.40 it is `None`: those versions do not tell it.
    #[must_use]
    pub fn direct_address(&self) -> Option<&[u8]> {
        let (message, mut value) = (&self.message, Buffer::NULL);
        let direct_address = super::callbacks::direct_address()?;
        // SAFETY: as in `attribute`.
        let has_value = unsafe { direct_address(message.envoy, &raw mut value) };
        // SAFETY: as in `attribute`.
        has_value.then(|| unsafe { value.bytes() })
    }

    fn attribute(&self, attribute: u32) -> Option<&[u8]> {
        let (message, mut value) = (&self.message, Buffer::NULL);
        // SAFETY: `envoy` is alive, and `value` is written during the call only.
        let has_value =
            unsafe { (message.callbacks.attribute)(message.envoy, attribute, &raw mut value) };
        // SAFETY: Envoy keeps the bytes until the hook returns or a setter is called, which takes
        // `&mut self`.
        has_value.then(|| unsafe { value.bytes() })
    }

    /// The configuration of the request's route for this filter.
    #[must_use]
    pub fn route(&self) -> Route<'_, F::Route> {
        // SAFETY: `envoy` is alive.
        let config = unsafe { (self.message.callbacks.route)(self.message.envoy) };
        // SAFETY: Envoy keeps the route, which owns its configuration, until the hook returns or
        // the route is chosen again, which takes `&mut self`.
        unsafe { Tagged::read(config) }
    }

    /// Replaces all lines of the header `name`. Without a value it removes them: Envoy cannot set
    /// an empty header. Returns false, and changes nothing, if `value` has a line break or a zero
    /// byte.
    pub fn set_header(&mut self, name: &[u8], value: &[u8]) -> bool {
        is_valid_value(value) && self.message.set_header(name, value)
    }

    /// Adds a line. Returns false as [`Self::set_header`] does, or if `value` is empty.
    pub fn add_header(&mut self, name: &[u8], value: &[u8]) -> bool {
        let (message, name, line) = (&self.message, Buffer::new(name), Buffer::new(value));
        // SAFETY: `envoy` is alive; both are copied before the call returns.
        is_valid_value(value)
            && unsafe { (message.callbacks.add_header)(message.envoy, REQUEST, name, line) }
    }

    /// Removes all lines of the header `name`. If it returns false, the request must not go on.
    pub fn remove_header(&mut self, name: &[u8]) -> bool {
        self.message.set_header(name, b"")
    }

    /// Sets dynamic metadata in `namespace`, for later filters and access logs. Each entry takes
    /// 100 ns.
    pub fn set_metadata(&mut self, namespace: &str, entries: &[(&str, &[u8])]) {
        let namespace = Buffer::new(namespace.as_bytes());
        for (key, value) in entries {
            let (key, value) = (Buffer::new(key.as_bytes()), Buffer::new(value));
            // SAFETY: `envoy` is alive; all is copied before the call returns.
            unsafe {
                (self.message.callbacks.set_metadata)(self.message.envoy, namespace, key, value)
            };
        }
    }

    /// Sets one entry of dynamic metadata, whose value is a number.
    pub fn set_metadata_number(&mut self, namespace: &str, key: &str, value: f64) {
        let Message { callbacks, envoy, .. } = self.message;
        let [namespace, key] = [namespace, key].map(|text| Buffer::new(text.as_bytes()));
        // SAFETY: `envoy` is alive; all is copied before the call returns.
        unsafe { (callbacks.set_metadata_number)(envoy, namespace, key, value) };
    }

    /// Sets one entry of dynamic metadata, whose value is a boolean.
    pub fn set_metadata_boolean(&mut self, namespace: &str, key: &str, value: bool) {
        let Message { callbacks, envoy, .. } = self.message;
        let [namespace, key] = [namespace, key].map(|text| Buffer::new(text.as_bytes()));
        // SAFETY: as in `set_metadata_number`.
        unsafe { (callbacks.set_metadata_boolean)(envoy, namespace, key, value) };
    }

    /// Sets dynamic metadata in `namespace`: all keys of `message`, a serialized
    /// `google.protobuf.Struct`. Other keys of the namespace may be lost. Returns false if this
    /// Envoy is too old for it.
    pub fn set_metadata_struct(&mut self, namespace: &str, message: &[u8]) -> bool {
        let Message { callbacks, envoy, .. } = self.message;
        let [namespace, message] = [namespace.as_bytes(), message].map(Buffer::new);
        let Some(set) = callbacks.set_metadata_struct else { return false };
        // SAFETY: as in `set_metadata_number`.
        unsafe { set(envoy, namespace, message) };
        true
    }

    /// Adds `by` to a counter.
    pub fn count(&self, counter: Counter, by: u64) {
        let Message { callbacks, envoy, .. } = self.message;
        // SAFETY: `envoy` is alive, and no labels are read. Envoy checks the id.
        unsafe { (callbacks.count)(envoy, counter.0, ptr::null(), 0, by) };
    }

    /// Sets a gauge.
    pub fn set_gauge(&self, gauge: Gauge, to: u64) {
        let Message { callbacks, envoy, .. } = self.message;
        // SAFETY: as in `count`.
        unsafe { (callbacks.set_gauge)(envoy, gauge.0, ptr::null(), 0, to) };
    }

    /// Records a value in a histogram.
    pub fn record(&self, histogram: Histogram, value: u64) {
        let Message { callbacks, envoy, .. } = self.message;
        // SAFETY: as in `count`.
        unsafe { (callbacks.record)(envoy, histogram.0, ptr::null(), 0, value) };
    }

    /// The scheduler that wakes this request when it is paused. `None` if Envoy gives none.
    #[must_use]
    pub fn scheduler(&self) -> Option<Scheduler> {
        if self.slot.scheduler.get().is_none() {
            // SAFETY: `envoy` is alive.
            let new = unsafe { Scheduler::new(self.message.callbacks, self.message.envoy) }?;
            // It was empty: only this thread uses the slot.
            let _ = self.slot.scheduler.set(new);
        }
        self.slot.scheduler.get().cloned()
    }

    /// Lets the request go on to the next filter (`Continue`).
    pub fn proceed(self) -> Handled {
        Handled(Phase::Allowed)
    }

    /// Keeps the request until [`Scheduler::commit`]. Meanwhile Envoy takes in no more of its body
    /// than fits the buffers. If nobody commits, only Envoy's timeouts end it.
    pub fn pause(self) -> Handled {
        Handled(Phase::Paused)
    }

    /// Keeps the request until more of its body has arrived: [`Filter::request_body`] is called
    /// next.
    pub fn buffer(self) -> Handled {
        Handled(Phase::Buffering)
    }

    /// Answers the request with a local reply. If a header's value has a line break or a zero byte,
    /// the answer is [`Reply::FAILURE`].
    ///
    /// Envoy turns a local reply to a gRPC request into a 200 with the header `grpc-status`. For
    /// its own filters, Envoy derives this header from the HTTP status. For a module it would be
    /// 0, which is "OK": so this function adds the header to the reply.
    pub fn reply(self, reply: &Reply<'_>) -> Handled {
        if self.slot.destroyed.get() {
            // A setter has ended the stream, such as one that exceeded Envoy's buffer limit.
            return Handled(Phase::Replied);
        }
        let is_valid = reply.headers.iter().all(|(_, value)| is_valid_value(value));
        let reply = if is_valid { reply } else { &Reply::FAILURE };
        let mut headers: SmallVec<[Pair; 8]> =
            reply.headers.iter().map(|(name, value)| Pair::new(name, value)).collect();
        if is_grpc(&self.headers()) {
            headers.push(Pair::new(b"grpc-status", grpc_status(reply.status)));
        }
        // These are set before the call, because the stream may end in it.
        self.slot.phase.set(Phase::Replied);
        self.slot.response.set(ResponsePhase::Untouched);
        let Message { callbacks, envoy, .. } = self.message;
        let (lines, count) = (headers.as_ptr(), headers.len());
        let (body, details) = (Buffer::new(reply.body), Buffer::new(reply.details.as_bytes()));
        // SAFETY: `envoy` is alive, and not used after this call; all is copied before it returns.
        unsafe {
            (callbacks.send_response)(envoy, reply.status.into(), lines, count, body, details)
        };
        Handled(Phase::Replied)
    }
}

/// Whether a header's value has no line break and no zero byte: Envoy's HTTP/1.1 codec writes
/// values as they are.
fn is_valid_value(value: &[u8]) -> bool {
    // There is no early exit, so that the compiler vectorizes the loop: a signed identity is long.
    !value.iter().fold(false, |invalid, byte| invalid | matches!(byte, b'\r' | b'\n' | 0))
}

/// Whether Envoy takes these for the headers of a gRPC request: the content type is
/// `application/grpc`, alone or with `+` and the encoding of the messages. `application/grpc-web`
/// is not gRPC.
fn is_grpc(headers: &Headers<'_>) -> bool {
    let content_type = headers.iter().find(|(name, _)| *name == b"content-type");
    content_type
        .and_then(|(_, value)| value.strip_prefix(b"application/grpc"))
        .is_some_and(|suffix| matches!(suffix.first(), None | Some(b'+')))
}

/// The gRPC status for an HTTP status. It is the one that the sidecar sends
/// (`Reason::grpc_status`): a test sends the same calls to the sidecar and to the module.
fn grpc_status(http: u16) -> &'static [u8] {
    match http {
        400 => b"3",
        401 => b"16",
        403 => b"7",
        413 => b"8",
        503 => b"14",
        _ => b"2",
    }
}

/// The configuration of a request's route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Route<'a, R> {
    /// The route configures nothing.
    None,
    /// The result of [`Filter::route`].
    Config(&'a R),
    /// Another library has created it, such as another version of this library that is loaded from
    /// another file. It cannot be read.
    Foreign,
}

/// A route's configuration as Envoy keeps it, marked as created by this library: a route may have a
/// configuration for another library.
#[repr(C)]
pub(super) struct Tagged<R> {
    tag: *const AtomicU8,
    pub(super) route: R,
}

/// The address of this variable is the tag: it differs between libraries. The variable is atomic,
/// so that it is not merged with another constant.
static TAG: AtomicU8 = AtomicU8::new(0);

impl<R> Tagged<R> {
    pub(super) fn new(route: R) -> Self {
        Self { tag: &raw const TAG, route }
    }

    /// # Safety
    /// `config` is null, or a hook for routes, of this or another library, has returned it, and it
    /// is alive as long as `'a`.
    unsafe fn read<'a>(config: *const c_void) -> Route<'a, R> {
        if config.is_null() {
            return Route::None;
        }
        // SAFETY: an object of ours starts with an address. Envoy's interface does not promise that
        // the object of another library is large enough to read one from it. But all known SDKs
        // return a heap object of at least one pointer.
        let tag = unsafe { config.cast::<*const AtomicU8>().read_unaligned() };
        if !ptr::eq(tag, &raw const TAG) {
            return Route::Foreign;
        }
        // SAFETY: only this library writes this address, at the start of a `Tagged`.
        Route::Config(unsafe { &(*config.cast::<Self>()).route })
    }
}
