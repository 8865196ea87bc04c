//! An Envoy for tests: it has the callbacks, calls the hooks of a filter as Envoy does, and records
//! what the filter asks for. It frees bytes as soon as Envoy may, so that a sanitizer finds their
//! later use.

#![expect(unsafe_code, reason = "it stands on the other side of the interface")]
#![expect(clippy::unwrap_used, reason = "a failed test is what it is for")]

mod callbacks;
mod envoy;
mod message;

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::ffi::c_void;
use std::marker::PhantomData;
use std::ptr;
use std::rc::Rc;
use std::sync::Arc;

use crate::abi::{Buffer, DNS_SAN_PEER, Filter, SOURCE_ADDRESS, URI_SAN_PEER, hooks, response};
#[cfg(test)]
pub(crate) use callbacks::only_the_log;
use envoy::{BUFFER_LIMIT, Envoy, object};
use message::{Message, copied, lines};

/// A filter configuration that was accepted.
#[derive(Debug)]
pub struct Host<F: Filter> {
    filter: *const c_void,
    metrics: Rc<Metrics>,
    types: PhantomData<F>,
}

/// The metrics of a configuration: their names, and values by name.
#[derive(Debug, Default)]
struct Metrics {
    defined: RefCell<Vec<String>>,
    values: RefCell<BTreeMap<String, u64>>,
}

/// A configuration of a route that was accepted.
#[derive(Debug)]
pub struct RouteConfig<F: Filter> {
    config: *const c_void,
    types: PhantomData<F>,
}

/// A stream. Dropping it ends it.
#[derive(Debug)]
pub struct FakeStream<'a, F: Filter> {
    envoy: Box<Envoy>,
    types: PhantomData<&'a F>,
}

/// A response that the filter sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sent {
    /// Its status.
    pub status: u32,
    /// Its headers.
    pub headers: Vec<(Vec<u8>, Vec<u8>)>,
    /// Its body.
    pub body: Vec<u8>,
    /// Its details.
    pub details: String,
}

thread_local! {
    /// What was logged on this thread: tests run on one each.
    static LOG: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) };
    /// Whether the Envoy of this thread only validates its configuration.
    static VALIDATING: Cell<bool> = const { Cell::new(false) };
    /// What another filter does while the next answer is sent.
    static ON_ANSWER: Cell<Option<Box<dyn FnOnce()>>> = const { Cell::new(None) };
}

/// Has another filter do this while the next answer of this thread is sent, such as beginning
/// another stream.
pub fn on_answer(meanwhile: impl FnOnce() + 'static) {
    ON_ANSWER.set(Some(Box::new(meanwhile)));
}

/// Runs `load` as an Envoy that only validates its configuration.
pub fn validating<T>(load: impl FnOnce() -> T) -> T {
    VALIDATING.set(true);
    let result = load();
    VALIDATING.set(false);
    result
}

/// The lines that were logged on this thread since the last call.
#[must_use]
pub fn logged() -> Vec<String> {
    LOG.with_borrow_mut(std::mem::take)
}

impl<F: Filter> Host<F> {
    /// Loads a filter configuration; `None` if the filter rejects it.
    #[must_use]
    pub fn load(name: &[u8], config: &[u8]) -> Option<Self> {
        callbacks::install();
        let metrics = Rc::new(Metrics::default());
        let envoy = Rc::as_ptr(&metrics).cast_mut().cast();
        // Copies, which are freed when the hook has returned.
        let (name, config) = (name.to_vec(), config.to_vec());
        // SAFETY: the name and the configuration live until the hook returns; `envoy` lives longer
        // than the filter.
        let filter =
            unsafe { hooks::config_new::<F>(envoy, Buffer::new(&name), Buffer::new(&config)) };
        (!filter.is_null()).then(|| Self { filter, metrics, types: PhantomData })
    }

    /// Loads the configuration of a route; `None` if the filter rejects it.
    #[must_use]
    pub fn route(name: &[u8], config: &[u8]) -> Option<RouteConfig<F>> {
        callbacks::install();
        let (name, config) = (name.to_vec(), config.to_vec());
        // SAFETY: both live until the hook returns.
        let config = unsafe { hooks::route_new::<F>(Buffer::new(&name), Buffer::new(&config)) };
        (!config.is_null()).then(|| RouteConfig { config, types: PhantomData })
    }

    /// A stream with these headers. `None` if the filter does not accept it.
    #[must_use]
    pub fn stream(&self, headers: &[(&[u8], &[u8])]) -> Option<FakeStream<'_, F>> {
        let envoy = Box::new(Envoy {
            request: Message::with(headers),
            attributes: RefCell::default(),
            metadata: RefCell::default(),
            metrics: Rc::clone(&self.metrics),
            route: Cell::new(ptr::null()),
            sent: RefCell::default(),
            resumed: Cell::new(0),
            response: Message::default(),
            buffer_limit: Cell::new(BUFFER_LIMIT),
            is_full: Cell::new(false),
            is_frozen: Cell::new(false),
            header_count: Cell::new(None),
            events: Arc::default(),
            ends_at_once: Cell::new(false),
            destroys_later: Cell::new(false),
            slot: Cell::new(ptr::null()),
            ended_slot: Cell::new(ptr::null()),
            destroy: hooks::filter_destroy::<F>,
        });
        // SAFETY: `filter` is dropped after its streams, which borrow `self`.
        let slot = unsafe { hooks::filter_new::<F>(self.filter, object(&envoy)) };
        envoy.slot.set(slot);
        (!slot.is_null()).then(|| FakeStream { envoy, types: PhantomData })
    }

    /// The filter.
    #[must_use]
    pub fn filter(&self) -> &F {
        // SAFETY: the hook has returned it as this type, and it is dropped with `self`.
        unsafe { &*self.filter.cast::<F>() }
    }

    /// The names of the metrics that it has defined.
    #[must_use]
    pub fn metric_names(&self) -> Vec<String> {
        self.metrics.defined.borrow().clone()
    }

    /// The value of a metric. That of a histogram is the sum.
    #[must_use]
    pub fn metric(&self, name: &str) -> u64 {
        self.metrics.values.borrow().get(name).copied().unwrap_or_default()
    }
}

impl<F: Filter> Drop for Host<F> {
    fn drop(&mut self) {
        // SAFETY: all streams have ended: they borrow `self`.
        unsafe { hooks::config_destroy::<F>(self.filter) };
    }
}

impl<F: Filter> Drop for RouteConfig<F> {
    fn drop(&mut self) {
        // SAFETY: streams with this route borrow `self`.
        unsafe { hooks::route_destroy::<F>(self.config) };
    }
}

impl<'a, F: Filter> FakeStream<'a, F> {
    /// Gives it the attribute `source.address`.
    #[must_use]
    pub fn with_source_address(self, address: &[u8]) -> Self {
        self.envoy.attributes.borrow_mut().insert(SOURCE_ADDRESS, address.into());
        self
    }

    /// Gives it the certificate of a client with these names, URI and DNS; an empty one is none.
    #[must_use]
    pub fn with_certificate(self, uri: &[u8], dns: &[u8]) -> Self {
        for (attribute, name) in [(URI_SAN_PEER, uri), (DNS_SAN_PEER, dns)] {
            if !name.is_empty() {
                self.envoy.attributes.borrow_mut().insert(attribute, name.into());
            }
        }
        self
    }

    /// Gives it a route with this configuration.
    #[must_use]
    pub fn with_route(self, route: &'a RouteConfig<F>) -> Self {
        self.envoy.route.set(route.config);
        self
    }

    /// Gives it a route that was configured by another library.
    #[must_use]
    pub fn with_foreign_route(self, route: &'a [usize; 4]) -> Self {
        self.envoy.route.set(ptr::from_ref(route).cast());
        self
    }

    /// With this limit of the buffers for its body.
    #[must_use]
    pub fn with_buffer_limit(self, limit: u64) -> Self {
        self.envoy.buffer_limit.set(limit);
        self
    }

    /// The hook for its body finds the last part apart from those that are buffered.
    #[must_use]
    pub fn with_last_part_apart(self) -> Self {
        self.envoy.request.joins_last.set(false);
        self
    }

    /// With headers that cannot be set.
    #[must_use]
    pub fn with_frozen_headers(self) -> Self {
        self.envoy.is_frozen.set(true);
        self
    }

    /// From now on it says that there are so many lines of headers.
    pub fn claim_headers(&self, count: usize) {
        self.envoy.header_count.set(Some(count));
    }

    /// Ends as soon as a response is sent or it goes on, before that call of the filter returns.
    #[must_use]
    pub fn ending_at_once(self) -> Self {
        self.envoy.ends_at_once.set(true);
        self
    }

    /// The same, but the filter hears of it only after that call, as from Envoy since 1.40. Until
    /// then the stream has neither headers nor bodies, and ignores what is done to it.
    #[must_use]
    pub fn ending_at_once_unheard(self) -> Self {
        self.envoy.destroys_later.set(true);
        self.ending_at_once()
    }

    /// Its headers have arrived. Returns the status: [`hooks::CONTINUE`] or [`hooks::STOP`]. After
    /// the end of the stream nothing is called.
    pub fn request_headers(&self, end_of_stream: bool) -> u32 {
        if self.ended() {
            return hooks::STOP;
        }
        self.envoy.within(|| self.call(hooks::request_headers::<F>, end_of_stream))
    }

    /// Calls a hook.
    fn call(
        &self,
        hook: unsafe extern "C" fn(*mut c_void, *const c_void, bool) -> u32,
        end_of_stream: bool,
    ) -> u32 {
        // SAFETY: the object is null or the stream has not ended.
        unsafe { hook(object(&self.envoy), self.envoy.slot.get(), end_of_stream) }
    }

    /// A part of its body has arrived. Returns the status.
    pub fn request_body(&self, part: &[u8], end_of_stream: bool) -> u32 {
        let hook = || self.call(hooks::request_body::<F>, end_of_stream);
        let status = self.envoy.within(|| self.envoy.request.with_part(part, end_of_stream, hook));
        if status == hooks::STOP_AND_WATERMARK && self.envoy.is_over_limit(&self.envoy.request) {
            self.envoy.is_full.set(true);
        }
        status
    }

    /// Whether more of the request is read: not once it has filled the buffers while it was paused.
    #[must_use]
    pub fn is_read(&self) -> bool {
        !self.envoy.is_full.get()
    }

    /// The headers of the response to it have arrived. Returns the status.
    pub fn response_headers(&self, headers: &[(&[u8], &[u8])], end_of_stream: bool) -> u32 {
        self.envoy.response.headers.replace(lines(headers));
        self.envoy.within(|| self.call(response::response_headers::<F>, end_of_stream))
    }

    /// A part of the response's body has arrived. Returns the status.
    pub fn response_body(&self, part: &[u8], end_of_stream: bool) -> u32 {
        let hook = || self.call(response::response_body::<F>, end_of_stream);
        self.envoy.within(|| self.envoy.response.with_part(part, end_of_stream, hook))
    }

    /// The trailers of the response have arrived. Returns the status.
    pub fn response_trailers(&self) -> u32 {
        let slot = self.envoy.slot.get();
        // SAFETY: the object is null or the stream has not ended.
        let hook = || unsafe { response::response_trailers::<F>(object(&self.envoy), slot) };
        let status = self.envoy.within(hook);
        if status == hooks::CONTINUE {
            self.envoy.response.pass_on();
        }
        status
    }

    /// The body that the upstream gets, as far as it has gone on.
    #[must_use]
    pub fn forwarded(&self) -> Vec<u8> {
        self.envoy.request.passed_on.borrow().clone()
    }

    /// The headers of the response to it now.
    #[must_use]
    pub fn answer_headers(&self) -> Vec<(Vec<u8>, Vec<u8>)> {
        copied(&self.envoy.response.headers)
    }

    /// The body of the response, as far as it has gone on.
    #[must_use]
    pub fn answer(&self) -> Vec<u8> {
        self.envoy.response.passed_on.borrow().clone()
    }

    /// Its body has arrived: an earlier filter has buffered it. Returns the status.
    pub fn request_buffered_body(&self, pieces: &[&[u8]], end_of_stream: bool) -> u32 {
        let hook = || self.call(hooks::request_body::<F>, end_of_stream);
        self.envoy.within(|| self.envoy.request.with_buffered(pieces, hook))
    }

    /// The body of the response has arrived: another filter has buffered it. Returns the status.
    pub fn response_buffered_body(&self, pieces: &[&[u8]], end_of_stream: bool) -> u32 {
        let hook = || self.call(response::response_body::<F>, end_of_stream);
        self.envoy.within(|| self.envoy.response.with_buffered(pieces, hook))
    }

    /// Its trailers have arrived. Returns the status.
    #[must_use]
    pub fn request_trailers(&self) -> u32 {
        let slot = self.envoy.slot.get();
        // SAFETY: the object is null or the stream has not ended.
        let hook = || unsafe { hooks::request_trailers::<F>(object(&self.envoy), slot) };
        let status = self.envoy.within(hook);
        if status == hooks::CONTINUE {
            self.envoy.request.pass_on();
        }
        status
    }

    /// How many bytes of its body are buffered at most; 0 is no limit.
    #[must_use]
    pub fn buffer_limit(&self) -> u64 {
        self.envoy.buffer_limit.get()
    }

    /// Delivers the events that schedulers have committed. Returns how many there were.
    pub fn deliver_events(&self) -> usize {
        let events = std::mem::take(&mut self.envoy.events.lock().unwrap().queue);
        for event in &events {
            self.scheduled(*event);
        }
        events.len()
    }

    /// Delivers an event, whoever has committed it.
    pub fn scheduled(&self, event: u64) {
        let slot = self.envoy.slot.get();
        if !slot.is_null() {
            // SAFETY: the stream has not ended.
            self.envoy
                .within(|| unsafe { hooks::scheduled::<F>(object(&self.envoy), slot, event) });
        }
    }

    /// The stream ends: the client has left.
    pub fn end(&self) {
        self.envoy.within(|| self.envoy.end());
    }

    /// Whether it has ended.
    #[must_use]
    pub fn ended(&self) -> bool {
        self.envoy.slot.get().is_null()
    }

    /// The response that the filter sent.
    #[must_use]
    pub fn sent(&self) -> Option<Sent> {
        self.envoy.sent.borrow().clone()
    }

    /// How often the filter has let it go on, after a pause.
    #[must_use]
    pub fn resumed(&self) -> u32 {
        self.envoy.resumed.get()
    }

    /// Its headers now.
    #[must_use]
    pub fn headers(&self) -> Vec<(Vec<u8>, Vec<u8>)> {
        copied(&self.envoy.request.headers)
    }

    /// The dynamic metadata `namespace.key`.
    #[must_use]
    pub fn metadata(&self, key: &str) -> Option<String> {
        self.envoy.metadata.borrow().get(key).cloned()
    }

    /// Commits that reached Envoy after the end of the stream: there must be none.
    #[must_use]
    pub fn late_commits(&self) -> usize {
        self.envoy.events.lock().unwrap().after_the_end
    }

    /// Schedulers that were not deleted.
    #[must_use]
    pub fn schedulers(&self) -> usize {
        self.envoy.events.lock().unwrap().schedulers
    }
}

impl<F: Filter> Drop for FakeStream<'_, F> {
    fn drop(&mut self) {
        self.end();
    }
}
