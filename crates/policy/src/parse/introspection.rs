//! `introspection` of an issuer: where it is asked about opaque tokens (RFC 7662).

use std::time::Duration;

use crate::key_url::KeyUrl;
use crate::model::Introspection;
use crate::parse::cached_files::CachedFiles;
use crate::parse::{url_files, values};
use document::{Key, Node, Reader};

const MAX_CACHE: Duration = Duration::from_secs(60);
/// A shorter time would end before the answer is used.
const MIN_MAX_CACHE: &str = "1s";

pub(crate) fn read(
    reader: &mut Reader,
    files: &mut CachedFiles<'_>,
    (key, node): (&Key, &Node),
) -> Option<Introspection> {
    let field_names = ["url", "credentials_file", "max_cache", "ca_file"];
    let fields = reader.filled_fields(node, "`introspection`", &field_names)?;
    reader.required(&fields, "url", "add `url`: the `introspection_endpoint` of the issuer");
    let help =
        "add `credentials_file`: a file with `CLIENT:SECRET`, with which the issuer is asked";
    reader.required(&fields, "credentials_file", help);
    let max_cache = values::duration(reader, &fields, "max_cache", MIN_MAX_CACHE);
    let help = "write the id and the secret of the client that asks about tokens";
    let credentials = url_files::read_credentials(reader, files, &fields, help);
    let trusted_ca = url_files::read_trusted_ca(reader, files, &fields);
    let text = reader.field_text(&fields, "url")?;
    if !values::is_url(reader, &text) {
        return None;
    }
    let url = KeyUrl::for_introspection(text.text, &credentials??).trusting(trusted_ca?);
    let at = reader.place(key.at);
    Some(Introspection { url, max_cache: max_cache.unwrap_or(MAX_CACHE), at })
}
