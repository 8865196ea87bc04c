//! The body of a request, as given on the command line.

use std::fs::File;
use std::io::{self, Read};

use authorizer::RequestBody;

use crate::cli::BodyArgs;

/// Maximum bytes that are read: more than Envoy buffers for an authorization request.
const LONGEST: u64 = 64 << 20;

/// What is said where a body would count.
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
    ///
    /// # Errors
    /// When the file cannot be read.
    pub(super) fn read(args: &BodyArgs) -> Result<Self, String> {
        let bytes = args.body.as_deref().map(bytes).transpose()?;
        Ok(Self { bytes, content_type: args.content_type.clone() })
    }

    /// The whole body, which is empty if none is given.
    pub(super) fn whole(&self) -> RequestBody<'_> {
        RequestBody::Whole(self.bytes.as_deref().unwrap_or_default())
    }

    /// Whether it is given.
    pub(super) const fn is_given(&self) -> bool {
        self.bytes.is_some()
    }

    /// The header for its type, if a body is given and these headers do not have one.
    pub(super) fn header(&self, headers: &[(String, String)]) -> Option<(String, String)> {
        let has_type = headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("content-type"));
        (self.is_given() && !has_type).then(|| ("content-type".to_owned(), self.content_type.clone()))
    }
}

fn bytes(given: &str) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    let read = match given.strip_prefix('@') {
        None if given != "-" => return Ok(given.as_bytes().to_vec()),
        None => io::stdin().lock().take(LONGEST).read_to_end(&mut bytes),
        Some(name) => File::open(name).and_then(|file| file.take(LONGEST).read_to_end(&mut bytes)),
    };
    read.map_err(|error| format!("cannot read the body `{given}`: {error}"))?;
    Ok(bytes)
}
