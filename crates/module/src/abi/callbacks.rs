//! The callbacks: functions of Envoy's program, found by name when Envoy loads the module. The
//! module is not linked to them. So it can log the name of a callback that an Envoy lacks, and
//! tests can have their own callbacks.

use std::ffi::{CStr, c_void};
use std::mem;
use std::sync::OnceLock;

use super::Level;

/// The version of the interface in 1.40. Envoy logs a warning if a module's version is not its own.
const V0_2: &CStr = c"v0.2.0";
/// The version in 1.38 and 1.39.
const V0_1: &CStr = c"v0.1.0";
/// A callback that is new in 1.40.
const NEW_IN_V0_2: &CStr = c"envoy_dynamic_module_callback_log_v2";

/// The versions of Envoy that have all callbacks in [`Callbacks`].
const ENVOYS: &str = "1.38, 1.39 and 1.40";

/// A pointer to bytes, and their number. The side that passes them owns them. Envoy does not read
/// ours after the call. Envoy's stay until the running hook returns, or until we change the headers
/// or the body that they are part of.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Buffer {
    /// The first byte. If there are no bytes, it is null or any other pointer.
    pub start: *const u8,
    /// How many bytes.
    pub length: usize,
}

impl Buffer {
    /// No bytes.
    pub const NULL: Self = Self { start: std::ptr::null(), length: 0 };

    /// These bytes.
    #[must_use]
    pub fn new(bytes: &[u8]) -> Self {
        Self { start: bytes.as_ptr(), length: bytes.len() }
    }

    /// The bytes.
    ///
    /// # Safety
    /// The owner keeps them unchanged as long as `'a`.
    #[must_use]
    pub unsafe fn bytes<'a>(self) -> &'a [u8] {
        if self.start.is_null() {
            return &[];
        }
        // SAFETY: not null, and the caller says that `length` bytes stay there. Bytes need no
        // alignment.
        unsafe { std::slice::from_raw_parts(self.start, self.length) }
    }
}

/// A header, or a key and its value.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Pair {
    /// The name.
    pub key: Buffer,
    /// The value.
    pub value: Buffer,
}

impl Pair {
    /// This name and this value.
    #[must_use]
    pub fn new(key: &[u8], value: &[u8]) -> Self {
        Self { key: Buffer::new(key), value: Buffer::new(value) }
    }
}

/// Envoy's object for a stream (with its filter), a filter configuration, or a scheduler.
type Object = *mut c_void;
/// Each of the three functions that define metrics. Its arguments: configuration, name, labels,
/// number of labels, where the id goes.
pub(super) type Define =
    unsafe extern "C" fn(Object, Buffer, *const Buffer, usize, *mut usize) -> u32;

/// A callback that only some Envoys of [`ENVOYS`] have.
pub(super) type SetMetadataStruct = unsafe extern "C" fn(Object, Buffer, Buffer);

macro_rules! callbacks {
    ($(
        $(#[$about:meta])*
        $field:ident: fn($($argument:ty),*) $(-> $result:ty)? = $symbol:literal;
    )*) => {
        /// Functions that Envoy offers.
        #[derive(Clone, Copy, Debug)]
        pub struct Callbacks {
            $(
                $(#[$about])*
                pub $field: unsafe extern "C" fn($($argument),*) $(-> $result)?,
            )*
            /// Stream, namespace, a `google.protobuf.Struct`. New in 1.40.
            pub set_metadata_struct: Option<SetMetadataStruct>,
        }

        impl Callbacks {
            /// Finds each function by its name.
            ///
            /// # Errors
            /// The name of the first missing function.
            ///
            /// # Safety
            /// `symbol` returns null, or the function that Envoy exports with this name.
            unsafe fn find(symbol: impl Fn(&CStr) -> *mut c_void) -> Result<Self, &'static CStr> {
                Ok(Self {
                    $($field: {
                        let function = symbol($symbol);
                        if function.is_null() {
                            return Err($symbol);
                        }
                        // SAFETY: not null, so the function with this name, which has this type in
                        // each Envoy of `ENVOYS`.
                        unsafe {
                            mem::transmute::<
                                *mut c_void,
                                unsafe extern "C" fn($($argument),*) $(-> $result)?,
                            >(function)
                        }
                    },)*
                    set_metadata_struct: {
                        let name = c"envoy_dynamic_module_callback_http_set_dynamic_metadata_struct";
                        let function = symbol(name);
                        // SAFETY: null is `None`; else this is the function with this name.
                        unsafe {
                            mem::transmute::<*mut c_void, Option<SetMetadataStruct>>(function)
                        }
                    },
                })
            }
        }
    };
}

callbacks! {
    /// Level, line.
    log: fn(u32, Buffer) = c"envoy_dynamic_module_callback_log";
    /// Whether Envoy only checks a configuration (`--mode validate`). Only on the main thread.
    validating: fn() -> bool = c"envoy_dynamic_module_callback_is_validation_mode";
    /// Metrics are defined with a configuration ([`Define`]); the result is 0 if that worked.
    define_counter: fn(Object, Buffer, *const Buffer, usize, *mut usize) -> u32 =
        c"envoy_dynamic_module_callback_http_filter_config_define_counter";
    /// As `define_counter`.
    define_gauge: fn(Object, Buffer, *const Buffer, usize, *mut usize) -> u32 =
        c"envoy_dynamic_module_callback_http_filter_config_define_gauge";
    /// As `define_counter`.
    define_histogram: fn(Object, Buffer, *const Buffer, usize, *mut usize) -> u32 =
        c"envoy_dynamic_module_callback_http_filter_config_define_histogram";
    /// Metrics are recorded with a stream: stream, id, values of the labels, how many, amount.
    count: fn(Object, usize, *const Buffer, usize, u64) -> u32 =
        c"envoy_dynamic_module_callback_http_filter_increment_counter";
    /// As `count`.
    set_gauge: fn(Object, usize, *const Buffer, usize, u64) -> u32 =
        c"envoy_dynamic_module_callback_http_filter_set_gauge";
    /// As `count`.
    record: fn(Object, usize, *const Buffer, usize, u64) -> u32 =
        c"envoy_dynamic_module_callback_http_filter_record_histogram_value";
    /// Stream, which headers: how many lines there are.
    header_count: fn(Object, u32) -> usize = c"envoy_dynamic_module_callback_http_get_headers_size";
    /// Stream, which headers, room for as many as `header_count` says: whether they were written
    /// there.
    headers: fn(Object, u32, *mut Pair) -> bool = c"envoy_dynamic_module_callback_http_get_headers";
    /// Stream, which headers, name, value: replaces all lines of this name; no value removes them.
    set_header: fn(Object, u32, Buffer, Buffer) -> bool =
        c"envoy_dynamic_module_callback_http_set_header";
    /// As `set_header`, but adds a line, which must have a value.
    add_header: fn(Object, u32, Buffer, Buffer) -> bool =
        c"envoy_dynamic_module_callback_http_add_header";
    /// Stream, status, headers, how many, body, details.
    send_response: fn(Object, u32, *const Pair, usize, Buffer, Buffer) =
        c"envoy_dynamic_module_callback_http_send_response";
    /// Stream, which body: how many bytes it has. 0 if there is none.
    body_size: fn(Object, u32) -> usize = c"envoy_dynamic_module_callback_http_get_body_size";
    /// Stream, which body: how many pieces it is in. 0 if there is none.
    body_pieces: fn(Object, u32) -> usize =
        c"envoy_dynamic_module_callback_http_get_body_chunks_size";
    /// Stream, which body, room for as many pieces as `body_pieces` says: whether they were written
    /// there.
    body: fn(Object, u32, *mut Buffer) -> bool =
        c"envoy_dynamic_module_callback_http_get_body_chunks";
    /// Stream, which body, bytes to add at its end: whether they were added. If nothing was
    /// buffered before, the buffered part begins with them.
    append_body: fn(Object, u32, Buffer) -> bool =
        c"envoy_dynamic_module_callback_http_append_body";
    /// Stream, which body, how many bytes to remove at its start: whether there is such a body.
    drain_body: fn(Object, u32, usize) -> bool = c"envoy_dynamic_module_callback_http_drain_body";
    /// Stream: whether the hook for bodies is called with the buffered body.
    is_request_body_buffered: fn(Object) -> bool =
        c"envoy_dynamic_module_callback_http_received_buffered_request_body";
    /// The same of the response.
    is_response_body_buffered: fn(Object) -> bool =
        c"envoy_dynamic_module_callback_http_received_buffered_response_body";
    /// Stream: how many bytes of a body are buffered at most.
    buffer_limit: fn(Object) -> u64 = c"envoy_dynamic_module_callback_http_get_buffer_limit";
    /// Stream, new limit.
    set_buffer_limit: fn(Object, u64) = c"envoy_dynamic_module_callback_http_set_buffer_limit";
    /// Stream, attribute, where its value goes: whether its value is a string.
    attribute: fn(Object, u32, *mut Buffer) -> bool =
        c"envoy_dynamic_module_callback_http_filter_get_attribute_string";
    /// Stream, namespace, key, value. Envoy 1.39 and 1.40 also take several at once, which is not
    /// faster.
    set_metadata: fn(Object, Buffer, Buffer, Buffer) =
        c"envoy_dynamic_module_callback_http_set_dynamic_metadata_string";
    /// As `set_metadata`, with a number.
    set_metadata_number: fn(Object, Buffer, Buffer, f64) =
        c"envoy_dynamic_module_callback_http_set_dynamic_metadata_number";
    /// As `set_metadata`, with a boolean.
    set_metadata_boolean: fn(Object, Buffer, Buffer, bool) =
        c"envoy_dynamic_module_callback_http_set_dynamic_metadata_bool";
    /// Stream: the pointer that the hook for a route's configuration returned, or null.
    route: fn(Object) -> *const c_void =
        c"envoy_dynamic_module_callback_get_most_specific_route_config";
    /// Stream: goes on with it, after a hook stopped it.
    resume: fn(Object) = c"envoy_dynamic_module_callback_http_filter_continue_decoding";
    /// Stream: a new scheduler, which is ours to delete.
    scheduler_new: fn(Object) -> Object =
        c"envoy_dynamic_module_callback_http_filter_scheduler_new";
    /// Scheduler, event. On any thread.
    scheduler_commit: fn(Object, u64) =
        c"envoy_dynamic_module_callback_http_filter_scheduler_commit";
    /// Scheduler.
    scheduler_delete: fn(Object) = c"envoy_dynamic_module_callback_http_filter_scheduler_delete";
}

/// The callback for the address of a connection. Its arguments: stream, where the address goes. It
/// returns whether there is an address. New in 1.40.
pub(crate) type DirectAddress = unsafe extern "C" fn(Object, *mut Buffer) -> bool;

static LOADED: OnceLock<Callbacks> = OnceLock::new();
static DIRECT_ADDRESS: OnceLock<DirectAddress> = OnceLock::new();

/// The callback for the address of a connection, if Envoy has it.
pub(super) fn direct_address() -> Option<DirectAddress> {
    DIRECT_ADDRESS.get().copied()
}

/// The callbacks, if Envoy has loaded the module.
pub(super) fn loaded() -> Option<&'static Callbacks> {
    LOADED.get()
}

/// Finds the callbacks in the running program, and returns the version of its interface. If a
/// callback is missing, it writes a line to the program's log and returns `None`.
pub(super) fn load() -> Option<&'static CStr> {
    // SAFETY: the module is loaded into Envoy, which exports no other symbols with these names, or
    // into a program that has none of them.
    unsafe { load_from(symbol) }
}

/// The function that the running program exports with this name; null if there is none.
fn symbol(name: &CStr) -> *mut c_void {
    // SAFETY: the name ends with a zero byte.
    unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) }
}

/// As [`load`], but `symbol` finds the functions.
///
/// # Safety
/// `symbol` returns null, or the function that Envoy exports with this name.
pub(super) unsafe fn load_from(symbol: impl Fn(&CStr) -> *mut c_void) -> Option<&'static CStr> {
    // SAFETY: says the caller.
    match unsafe { Callbacks::find(&symbol) } {
        Ok(callbacks) => {
            LOADED.get_or_init(|| callbacks);
            let direct =
                symbol(c"envoy_dynamic_module_callback_http_get_downstream_direct_remote_address");
            // SAFETY: null is `None`; else this is the function, which has this type in Envoy 1.40.
            let direct = unsafe { mem::transmute::<*mut c_void, Option<DirectAddress>>(direct) };
            if let Some(direct) = direct {
                DIRECT_ADDRESS.get_or_init(|| direct);
            }
            Some(if symbol(NEW_IN_V0_2).is_null() { V0_1 } else { V0_2 })
        }
        Err(missing) => {
            let text = format!(
                "rolegate works with Envoy {ENVOYS}: this one has no `{}`",
                missing.to_string_lossy()
            );
            let log = symbol(c"envoy_dynamic_module_callback_log");
            // SAFETY: null is `None`; else this is the function, whose type is the same in each
            // Envoy that has it.
            let log = unsafe {
                mem::transmute::<*mut c_void, Option<unsafe extern "C" fn(u32, Buffer)>>(log)
            };
            if let Some(log) = log {
                // SAFETY: `text` lives until the call returns, which copies it.
                unsafe { log(Level::Error as u32, Buffer::new(text.as_bytes())) };
            }
            None
        }
    }
}

impl Callbacks {
    /// Installs these callbacks, which belong to a fake host.
    #[cfg(any(test, feature = "fake-host"))]
    pub(crate) fn install(self) {
        LOADED.get_or_init(|| self);
    }

    /// Writes `text` to the log, one entry per line.
    pub(super) fn write_log(&self, level: Level, text: &str) {
        for line in text.lines() {
            // SAFETY: `line` lives until the call returns, which copies it. May be called on any
            // thread.
            unsafe { (self.log)(level as u32, Buffer::new(line.as_bytes())) };
        }
    }
}
