//! libFuzzer on [`fuzz::identity_header`].
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::identity_header(data));
