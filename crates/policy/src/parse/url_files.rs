//! The files that belong to a URL in a policy: one with the credentials for the request, and one
//! with the certificate authorities, one of which must have signed the server's certificate.

use std::sync::Arc;

use crate::parse::cached_files::CachedFiles;
use document::{Fields, PolicyFile, Reader};

/// The contents of the `ca_file`, which has certificates; `Some(None)` if there is no `ca_file`,
/// and `None` if a problem was reported. The certificates themselves are checked where they are
/// used.
pub(crate) fn read_trusted_ca(
    reader: &mut Reader,
    files: &mut CachedFiles<'_>,
    fields: &Fields<'_>,
) -> Option<Option<Arc<[u8]>>> {
    let Some(node) = fields.value("ca_file") else { return Some(None) };
    let name = reader.text(node, "`ca_file`")?;
    let PolicyFile { path, bytes } = files.read_named(reader, &name)?;
    let text = String::from_utf8_lossy(&bytes);
    if text.contains(" PRIVATE KEY-----") {
        let message = format!("`{}` has a private key, which must not be here", path.display());
        let help = "name a file with nothing but certificates, and replace the key";
        return reader.reject(name.at, message, help);
    }
    if !text.contains("-----BEGIN CERTIFICATE-----") {
        let message = format!("`{}` has no certificate in PEM", path.display());
        let help = "a certificate in PEM begins with `-----BEGIN CERTIFICATE-----`";
        return reader.reject(name.at, message, help);
    }
    Some(Some(bytes))
}

/// The `user:password` in the `credentials_file`, which no message shows; `Some(None)` if there is
/// no `credentials_file`, and `None` if a problem was reported.
pub(crate) fn read_credentials(
    reader: &mut Reader,
    files: &mut CachedFiles<'_>,
    fields: &Fields<'_>,
    help: &str,
) -> Option<Option<String>> {
    let Some(node) = fields.value("credentials_file") else { return Some(None) };
    let name = reader.text(node, "`credentials_file`")?;
    let PolicyFile { path, bytes } = files.read_named(reader, &name)?;
    let text = std::str::from_utf8(&bytes).ok().map(|text| text.trim_end_matches(['\r', '\n']));
    let credentials = text.filter(|text| text.contains(':') && !text.contains(char::is_control));
    if credentials.is_none() {
        let message = format!("`{}` is not one line `user:password`", path.display());
        reader.error_help(name.at, message, help);
    }
    Some(Some(credentials?.to_owned()))
}
