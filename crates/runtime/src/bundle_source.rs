//! Where a bundle comes from, and what it must be.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bundle::{Bundle, BundleError, PublicKey};
use hyper::header::HeaderValue;
use object_store::ObjectStore;
use policy::KeyUrl;

use crate::files;
use crate::https::{HttpsClient, basic, sensitive};
use crate::load_error::LoadError;
use crate::settings::BundleSettings;
use crate::trusted_ca::trusted_ca;

mod cache;
mod object;

use cache::Cache;
pub(crate) use object::{BundleObject, Got, StoreError};

/// Maximum size of a file with keys, certificates or credentials, in bytes.
const MAX_FILE: usize = 1 << 20;
/// Bytes by which the archive of files that cannot be compressed may be larger than these.
const OVERHEAD: usize = 8 << 20;

/// A bundle at a URL.
#[derive(Debug)]
pub(crate) struct BundleSource {
    pub(crate) url: KeyUrl,
    pub(crate) settings: BundleSettings,
    pub(crate) cache: Option<Cache>,
    pub(crate) client: HttpsClient,
    /// The object, if the URL is that of one in a store.
    pub(crate) object: Option<BundleObject>,
}

/// What a request to the server needs.
pub(crate) struct Access {
    pub(crate) ca: Option<Arc<[u8]>>,
    pub(crate) credentials: Option<HeaderValue>,
    /// The store of the object, if it is one.
    pub(crate) store: Option<Arc<dyn ObjectStore>>,
}

impl BundleSource {
    /// The source at this URL.
    ///
    /// # Errors
    /// When the URL may not be fetched, or a file that the settings name cannot be used.
    pub(crate) fn new(url: &KeyUrl, settings: &BundleSettings) -> Result<Arc<Self>, LoadError> {
        let wrong =
            |error: String| LoadError::Setting(format!("the bundle `{url}` cannot be fetched: {error}"));
        let object = match BundleObject::at(url) {
            None => url.fault().map_or(Ok(None), Err),
            Some(object) => object.map(Some),
        };
        let object = object.map_err(|(fault, help)| wrong(format!("{fault}: {help}")))?;
        if settings.public_keys.is_empty() {
            tracing::warn!(%url, "policy bundles need no signature: anyone who can write to this server decides who may do what; set `bundle-public-key`");
        }
        if object.is_some() && settings.credentials.is_some() {
            tracing::warn!(%url, "`bundle-credentials` has no effect on an object in a store: its credentials are in the environment");
        }
        let cache = settings.cache.as_deref().map(|folder| Cache::of(folder, url));
        let client = HttpsClient::default();
        let source = Self { url: url.clone(), settings: settings.clone(), cache, client, object };
        let usable = source.public_keys().and_then(|_| source.access());
        match usable {
            Ok(_) => Ok(Arc::new(source)),
            Err(error) => Err(wrong(error)),
        }
    }

    /// The keys that may have signed a bundle, as their files have them now.
    ///
    /// # Errors
    /// When a file cannot be read or has no public key. Nothing is accepted then: without this key, or without any, other
    /// bundles would be.
    pub(crate) fn public_keys(&self) -> Result<Vec<PublicKey>, String> {
        let key = |path: &PathBuf| {
            let pem =
                files::bytes(path, MAX_FILE).map_err(|error| in_file("bundle-public-key", path, &error))?;
            PublicKey::from_pem(&pem).map_err(|error| in_file("bundle-public-key", path, &error))
        };
        self.settings.public_keys.iter().map(key).collect()
    }

    /// Maximum size of a compressed bundle, in bytes.
    pub(crate) fn max_compressed(&self) -> usize {
        self.settings.max_size.saturating_add(OVERHEAD)
    }

    /// Opens a bundle.
    ///
    /// # Errors
    /// Why it is not accepted.
    pub(crate) fn open(&self, bytes: &[u8], keys: &[PublicKey]) -> Result<Bundle, BundleError> {
        let max_size = u64::try_from(self.settings.max_size).unwrap_or(u64::MAX);
        let open = || Bundle::open(bytes, keys, max_size);
        // A bug in reading what anyone may have sent must not end the thread that keeps the policy current.
        catch_unwind(AssertUnwindSafe(open)).unwrap_or_else(|_| {
            Err(BundleError::Malformed("reading it panicked: this is a bug in rolegate".to_owned()))
        })
    }

    /// The files about the server, as they are now.
    pub(crate) fn access(&self) -> Result<Access, String> {
        let ca = self.settings.ca.as_ref().map(|path| {
            let pem = files::bytes(path, MAX_FILE).map_err(|error| in_file("bundle-ca", path, &error))?;
            trusted_ca(&pem).map_err(|error| in_file("bundle-ca", path, &error))?;
            Ok::<_, String>(pem.into())
        });
        let credentials = self.settings.credentials.as_ref().map(|path| {
            let text = files::text(path).map_err(|error| in_file("bundle-credentials", path, &error))?;
            let text = text.trim();
            let value = if text.contains(':') { basic(text) } else { sensitive(format!("Bearer {text}")) };
            let empty = text.is_empty().then(|| "it is empty".to_owned());
            let fault =
                empty.or_else(|| value.is_err().then(|| "neither `user:password` nor a token".to_owned()));
            fault.map_or_else(|| Ok(value.ok()), |fault| Err(in_file("bundle-credentials", path, &fault)))
        });
        let ca = ca.transpose()?;
        let store = self
            .object
            .as_ref()
            .map(|object| object.client(ca.as_ref(), &self.client, self.max_compressed()));
        let store = store.transpose().map_err(|error| error.to_string())?;
        Ok(Access { ca, credentials: credentials.transpose()?.flatten(), store })
    }
}

fn in_file(setting: &str, path: &Path, error: &impl std::fmt::Display) -> String {
    format!("`{setting}` {}: {error}", path.display())
}
