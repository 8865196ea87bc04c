//! libFuzzer on [`fuzz::bundle`].
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::bundle(data));
