//! The symbols that Envoy looks for in the library: the hooks of [`ExportedFilter`], and hooks that
//! a filter must have even if it does not need them. Envoy names a missing hook in its log.

#![expect(unsafe_code, reason = "symbols that are exported by name are unsafe to define")]

use std::ffi::{c_char, c_void};

use crate::ExportedFilter;
use crate::abi::{Buffer, Pair, hooks, response};

/// An object of Envoy.
type Object = *mut c_void;
/// An object of this library, which Envoy keeps.
type Ours = *const c_void;

/// Exports hooks.
macro_rules! hooks {
    ($(
        $symbol:literal $name:ident($($argument:ident: $type:ty),*) $(-> $result:ty)? = $hook:expr;
    )*) => {
        $(
            // SAFETY: no other function of this library has this name.
            #[unsafe(export_name = concat!("envoy_dynamic_module_on_", $symbol))]
            unsafe extern "C" fn $name($($argument: $type),*) $(-> $result)? {
                // SAFETY: Envoy calls this, as the hook requires.
                unsafe { $hook($($argument),*) }
            }
        )*
    };
}

hooks! {
    "http_filter_config_new" config_new(envoy: Object, name: Buffer, config: Buffer) -> Ours
        = hooks::config_new::<ExportedFilter>;
    "http_filter_config_destroy" config_destroy(filter: Ours)
        = hooks::config_destroy::<ExportedFilter>;
    "http_filter_per_route_config_new" route_new(name: Buffer, config: Buffer) -> Ours
        = hooks::route_new::<ExportedFilter>;
    "http_filter_per_route_config_destroy" route_destroy(route: Ours)
        = hooks::route_destroy::<ExportedFilter>;
    "http_filter_new" filter_new(filter: Ours, envoy: Object) -> Ours
        = hooks::filter_new::<ExportedFilter>;
    "http_filter_destroy" filter_destroy(stream: Ours) = hooks::filter_destroy::<ExportedFilter>;
    "http_filter_request_headers" request_headers(envoy: Object, stream: Ours, end: bool) -> u32
        = hooks::request_headers::<ExportedFilter>;
    "http_filter_request_body" request_body(envoy: Object, stream: Ours, end: bool) -> u32
        = hooks::request_body::<ExportedFilter>;
    "http_filter_request_trailers" request_trailers(envoy: Object, stream: Ours) -> u32
        = hooks::request_trailers::<ExportedFilter>;
    "http_filter_response_headers" response_headers(envoy: Object, stream: Ours, end: bool) -> u32
        = response::response_headers::<ExportedFilter>;
    "http_filter_response_body" response_body(envoy: Object, stream: Ours, end: bool) -> u32
        = response::response_body::<ExportedFilter>;
    "http_filter_response_trailers" response_trailers(envoy: Object, stream: Ours) -> u32
        = response::response_trailers::<ExportedFilter>;
    "http_filter_scheduled" scheduled(envoy: Object, stream: Ours, event: u64)
        = hooks::scheduled::<ExportedFilter>;
}

/// Exports hooks that do nothing.
macro_rules! unused {
    ($($symbol:literal $name:ident($($type:ty),*) $(-> $result:ty)? { $($value:expr)? })*) => {
        $(
            // SAFETY: no other function of this library has this name.
            #[unsafe(export_name = concat!("envoy_dynamic_module_on_", $symbol))]
            extern "C" fn $name($(_: $type),*) $(-> $result)? { $($value)? }
        )*
    };
}

unused! {
    "http_filter_stream_complete" stream_complete(Object, Ours) {}
    "http_filter_http_callout_done" callout_done(
        Object, Ours, u64, u32, *mut Pair, usize, *mut Buffer, usize
    ) {}
    "http_filter_http_stream_headers" call_headers(Object, Ours, u64, *mut Pair, usize, bool) {}
    "http_filter_http_stream_data" call_data(Object, Ours, u64, *const Buffer, usize, bool) {}
    "http_filter_http_stream_trailers" call_trailers(Object, Ours, u64, *mut Pair, usize) {}
    "http_filter_http_stream_complete" call_complete(Object, Ours, u64) {}
    "http_filter_http_stream_reset" call_reset(Object, Ours, u64, u32) {}
    "http_filter_downstream_above_write_buffer_high_watermark" above_high_watermark(Object, Ours) {}
    "http_filter_downstream_below_write_buffer_low_watermark" below_low_watermark(Object, Ours) {}
}

// SAFETY: no other function of this library has this name.
#[unsafe(export_name = "envoy_dynamic_module_on_program_init")]
extern "C" fn program_init() -> *const c_char {
    hooks::program_init()
}
