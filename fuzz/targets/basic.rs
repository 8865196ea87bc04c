//! libFuzzer on [`fuzz::basic`].
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::basic(data));
