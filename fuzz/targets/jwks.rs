//! libFuzzer on [`fuzz::jwks`].
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::jwks(data));
