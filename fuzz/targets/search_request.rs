//! libFuzzer on [`fuzz::search_request`].
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::search_request(data));
