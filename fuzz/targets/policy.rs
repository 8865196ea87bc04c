//! libFuzzer on [`fuzz::policy`].
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::policy(data));
