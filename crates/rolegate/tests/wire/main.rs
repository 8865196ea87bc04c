//! The server over real sockets, with well-behaved clients, unusual ones and attackers: by gRPC,
//! and in `forward_auth` by HTTP.
#![expect(clippy::unwrap_used, reason = "a failed set-up is a failed test")]
#![expect(clippy::indexing_slicing, reason = "an answer that cannot be read is a failed test")]
#![expect(
    clippy::print_stdout,
    reason = "what an attack costs is worth reading even if the test passes"
)]

mod attacks;
mod checks;
mod forward_auth;
mod frames;
mod framing;
mod hashing;
mod introspection;
mod lifecycle;
mod other_services;
mod overload;
mod proxyless;
mod support;
mod tokens;
