//! libFuzzer on [`fuzz::filter`].
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::filter(data));
