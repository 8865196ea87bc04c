//! The wire: borrowed decoding of `CheckRequest`, encoding of `CheckResponse` (`envoy.service.auth.v3`).
