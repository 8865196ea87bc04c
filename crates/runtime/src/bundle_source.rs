//! The server or store that has a bundle, and the keys that may sign it.

use std::fmt::Display;
use std::path::Path;
use std::sync::Arc;

use bundle::{Bundle, BundleError, PublicKey};
use hyper::header::HeaderValue;
use object_store::ObjectStore;
use policy::KeyUrl;

use crate::errors::LoadError;
use crate::files;
use crate::https::{HttpsClient, basic, sensitive, trusted_ca};
use crate::settings::BundleSettings;
use crate::threads::catch;

mod cache;
mod object;

use cache::Cache;
pub(crate) use object::{BundleObject, Object, StoreError};

/// Maximum size of a file with keys, certificates or credentials, in bytes.
const MAX_FILE: usize = 1 << 20;
/// How many bytes a compressed bundle may have beyond the maximum size of its files. Files that
/// cannot be compressed make the bundle larger than they are.
const OVERHEAD: usize = 8 << 20;

#[derive(Debug)]
pub(crate) struct BundleSource {
    pub(crate) url: KeyUrl,
    pub(crate) settings: BundleSettings,
    pub(crate) cache: Option<Arc<Cache>>,
    client: HttpsClient,
    /// The object, if the URL names an object in a store.
    pub(crate) object: Option<BundleObject>,
}

/// What a fetch needs: the client, the credentials for a server, and the store if the bundle is an
/// object.
pub(crate) struct Access {
    pub(crate) client: HttpsClient,
    pub(crate) credentials: Option<HeaderValue>,
    pub(crate) store: Option<Arc<dyn ObjectStore>>,
}

impl BundleSource {
    pub(crate) fn new(url: &KeyUrl, settings: &BundleSettings) -> Result<Arc<Self>, LoadError> {
        let object = BundleObject::parse(url)
            .map_err(|(fault, help)| not_fetchable(url, format!("{fault}: {help}")))?;
        if settings.public_keys.is_empty() {
            tracing::warn!(
                %url,
                "policy bundles need no signature: anyone who can write to this server decides who \
                 may do what; set `bundle-public-key`"
            );
        }
        if object.is_some() && settings.credentials.is_some() {
            tracing::warn!(
                %url,
                "`bundle-credentials` has no effect on an object in a store: its credentials are \
                 in the environment"
            );
        }
        let cache = settings.cache.as_deref().map(|folder| Arc::new(Cache::new(folder, url)));
        let client = HttpsClient::default();
        let source = Self { url: url.clone(), settings: settings.clone(), cache, client, object };
        source.public_keys().map_err(|error| not_fetchable(url, error))?;
        source.access().map_err(|error| not_fetchable(url, error))?;
        Ok(Arc::new(source))
    }

    /// The keys that may sign a bundle, read from their files now.
    ///
    /// # Errors
    /// When a file cannot be read or has no public key. Then no bundle may be accepted. If the file
    /// were skipped instead, no key might be left, and unsigned bundles would be accepted.
    pub(crate) fn public_keys(&self) -> Result<Vec<PublicKey>, LoadError> {
        let mut keys = Vec::new();
        for path in &self.settings.public_keys {
            let pem = read_setting("bundle-public-key", path)?;
            let key = PublicKey::from_pem(&pem)
                .map_err(|error| LoadError::in_file("bundle-public-key", path, error))?;
            keys.push(key);
        }
        Ok(keys)
    }

    /// Maximum size of a compressed bundle, in bytes.
    pub(crate) fn max_compressed(&self) -> usize {
        self.settings.max_size.saturating_add(OVERHEAD)
    }

    pub(crate) fn open(&self, bytes: &[u8], keys: &[PublicKey]) -> Result<Bundle, BundleError> {
        let max_size = u64::try_from(self.settings.max_size).unwrap_or(u64::MAX);
        // Anyone may have sent the bundle: a panic while reading it must not end the thread.
        catch("reading it", || Bundle::open(bytes, keys, max_size))
            .unwrap_or_else(|panicked| Err(BundleError::Malformed(panicked.to_string())))
    }

    /// Reads the files with certificates and credentials for the server.
    pub(crate) fn access(&self) -> Result<Access, LoadError> {
        let ca = self.settings.ca.as_deref().map(read_ca).transpose()?;
        let client = ca.clone().map_or_else(|| self.client.clone(), HttpsClient::trusting);
        let credentials = self.settings.credentials.as_deref().map(read_credentials).transpose()?;
        let store = match &self.object {
            Some(object) => Some(object.store(ca, &client, self.max_compressed())?),
            None => None,
        };
        Ok(Access { client, credentials, store })
    }
}

fn not_fetchable(url: &KeyUrl, error: impl Display) -> LoadError {
    LoadError::Setting(format!("the bundle `{url}` cannot be fetched: {error}"))
}

fn read_ca(path: &Path) -> Result<Arc<[u8]>, LoadError> {
    let pem = read_setting("bundle-ca", path)?;
    trusted_ca(&pem).map_err(|error| LoadError::in_file("bundle-ca", path, error))?;
    Ok(pem.into())
}

/// A header value with `user:password` or a bearer token.
fn read_credentials(path: &Path) -> Result<HeaderValue, LoadError> {
    let fault = |why: &dyn Display| LoadError::in_file("bundle-credentials", path, why);
    let text = files::text(path).map_err(|error| fault(&error))?;
    let value = match text.trim() {
        "" => return Err(fault(&"it is empty")),
        text if text.contains(':') => basic(text),
        token => sensitive(format!("Bearer {token}")),
    };
    value.map_err(|_| fault(&"neither `user:password` nor a token"))
}

fn read_setting(setting: &'static str, path: &Path) -> Result<Vec<u8>, LoadError> {
    files::bytes(path, MAX_FILE).map_err(|error| LoadError::in_file(setting, path, error))
}
