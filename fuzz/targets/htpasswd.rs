//! libFuzzer on [`fuzz::htpasswd`].
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::htpasswd(data));
