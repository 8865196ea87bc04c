//! The process `rolegate`.
fn main() {}
