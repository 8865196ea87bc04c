//! The metrics that a filter configuration defines when it is created.

use std::ffi::c_void;
use std::marker::PhantomData;
use std::ptr;

use super::callbacks::{Buffer, Callbacks, Define};

/// A filter configuration that is being created, on Envoy's main thread.
#[derive(Debug)]
pub struct Setup<'a> {
    callbacks: &'static Callbacks,
    envoy: *mut c_void,
    hook: PhantomData<&'a ()>,
}

/// A counter. It belongs to the streams of its configuration: in another configuration its id means
/// another counter, or none.
#[derive(Clone, Copy, Debug)]
pub struct Counter(pub(super) usize);

/// A gauge. See [`Counter`].
#[derive(Clone, Copy, Debug)]
pub struct Gauge(pub(super) usize);

/// A histogram. See [`Counter`].
#[derive(Clone, Copy, Debug)]
pub struct Histogram(pub(super) usize);

/// Envoy did not define a metric.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("Envoy does not define the metric `{name}` (result {result})")]
pub struct MetricError {
    name: String,
    /// Envoy's result, such as 3: no more metrics may be created.
    result: u32,
}

impl Setup<'_> {
    /// # Safety
    /// `envoy` is the configuration that the running hook creates, and the result is not used after
    /// the hook.
    pub(super) unsafe fn new(callbacks: &'static Callbacks, envoy: *mut c_void) -> Self {
        Self { callbacks, envoy, hook: PhantomData }
    }

    /// Defines a counter without labels. Envoy puts `dynamicmodulescustom.` before its name, or the
    /// value of `metrics_namespace`. Counting takes Envoy 22 ns.
    ///
    /// # Errors
    /// If Envoy does not define it.
    pub fn counter(&mut self, name: &str) -> Result<Counter, MetricError> {
        self.define(self.callbacks.define_counter, name).map(Counter)
    }

    /// Defines a gauge.
    ///
    /// # Errors
    /// As [`Self::counter`].
    pub fn gauge(&mut self, name: &str) -> Result<Gauge, MetricError> {
        self.define(self.callbacks.define_gauge, name).map(Gauge)
    }

    /// Defines a histogram.
    ///
    /// # Errors
    /// As [`Self::counter`].
    pub fn histogram(&mut self, name: &str) -> Result<Histogram, MetricError> {
        self.define(self.callbacks.define_histogram, name).map(Histogram)
    }

    /// Whether Envoy only checks its configuration (`--mode validate`).
    #[must_use]
    pub fn validating(&self) -> bool {
        // SAFETY: a `Setup` cannot be sent, so this is Envoy's main thread, in the hook.
        unsafe { (self.callbacks.validating)() }
    }

    fn define(&mut self, define: Define, name: &str) -> Result<usize, MetricError> {
        let mut id = 0;
        let (text, labels) = (Buffer::new(name.as_bytes()), ptr::null());
        // SAFETY: `envoy` is alive during the hook. The call copies the name, reads no labels, and
        // writes `id` before it returns.
        let result = unsafe { define(self.envoy, text, labels, 0, &raw mut id) };
        if result == 0 { Ok(id) } else { Err(MetricError { name: name.to_owned(), result }) }
    }
}
