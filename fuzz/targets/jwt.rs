//! libFuzzer on [`fuzz::jwt`].
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::jwt(data));
