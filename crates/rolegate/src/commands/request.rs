//! The headers and the body of a request, as given on the command line.

use std::fs::File;
use std::io::{self, Read};

use authorizer::{Header, RequestBody};

use crate::cli::BodyArgs;
use crate::error::CommandError;

/// Maximum bytes that are read: more than Envoy buffers for an authorization request.
const MAX_BODY: u64 = 64 << 20;

/// A note for requests whose needs depend on their body.
pub(super) const NO_BODY: &str =
    "what this operation needs depends on its body, which is taken to be empty: `--body` gives one";

/// A body and its type.
#[derive(Debug, Default)]
pub(super) struct Body {
    bytes: Option<Vec<u8>>,
    content_type: String,
}

impl Body {
    /// Reads the body that the arguments name.
    pub(super) fn read(args: &BodyArgs) -> Result<Self, CommandError> {
        let bytes = args.body.as_deref().map(read_bytes).transpose()?;
        Ok(Self { bytes, content_type: args.content_type.clone() })
    }

    /// The whole body, which is empty if none is given.
    pub(super) fn whole(&self) -> RequestBody<'_> {
        RequestBody::Whole(self.bytes.as_deref().unwrap_or_default())
    }

    pub(super) const fn is_given(&self) -> bool {
        self.bytes.is_some()
    }

    /// The header for its type, if a body is given and these headers do not have one.
    pub(super) fn header(&self, headers: &[(String, String)]) -> Option<(String, String)> {
        let has_type = headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("content-type"));
        (self.is_given() && !has_type)
            .then(|| ("content-type".to_owned(), self.content_type.clone()))
    }
}

/// Headers as the authorizer takes them.
pub(super) fn borrowed_headers(headers: &[(String, String)]) -> Vec<Header<'_>> {
    headers
        .iter()
        .map(|(name, value)| Header { name: name.as_bytes(), value: value.as_bytes() })
        .collect()
}

fn read_bytes(given: &str) -> Result<Vec<u8>, CommandError> {
    let mut bytes = Vec::new();
    let read = match given.strip_prefix('@') {
        None if given != "-" => return Ok(given.as_bytes().to_vec()),
        None => io::stdin().lock().take(MAX_BODY).read_to_end(&mut bytes),
        Some(name) => File::open(name).and_then(|file| file.take(MAX_BODY).read_to_end(&mut bytes)),
    };
    read.map_err(|error| {
        CommandError::Arguments(format!("cannot read the body `{given}`: {error}"))
    })?;
    Ok(bytes)
}
