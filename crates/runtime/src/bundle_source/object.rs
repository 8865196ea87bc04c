//! A bundle that is an object in a store: Amazon S3, Google Cloud Storage or Azure Blob Storage.
//!
//! `object_store` makes the requests, with credentials that it finds where the SDK of each cloud
//! does; [`Connector`] sends them. It tries nothing again: `bundles` decides when to fetch.

use std::ffi::OsString;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use hyper::header::HeaderValue;
use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey};
use object_store::azure::{AzureConfigKey, MicrosoftAzureBuilder};
use object_store::gcp::{GoogleCloudStorageBuilder, GoogleConfigKey};
use object_store::path::Path;
use object_store::{ClientOptions, GetOptions, ObjectStore, RetryConfig};
use policy::KeyUrl;

use crate::https::HttpsClient;
use crate::threads::catch_future;

mod connector;
mod error;

use connector::Connector;
pub(crate) use error::StoreError;

pub(crate) struct BundleObject {
    cloud: Cloud,
    bucket: String,
    path: Path,
    client: Mutex<Option<Client>>,
}

/// A client with the temporary credentials that it object. It is made anew when the certificate
/// authorities change, and after a failure: the credentials may be in a file that has changed.
struct Client {
    ca: Option<Arc<[u8]>>,
    store: Arc<dyn ObjectStore>,
}

/// Whose store it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cloud {
    Amazon,
    Google,
    Azure,
}

/// The bytes of a bundle, and their ETag.
#[derive(Debug)]
pub(crate) struct Object {
    pub(crate) bytes: Arc<[u8]>,
    pub(crate) etag: Option<HeaderValue>,
}

impl BundleObject {
    /// The object at this URL; `None` if a file server has it.
    ///
    /// # Errors
    /// What is wrong with the URL, and how to fix it. Neither shows anything of it.
    pub(crate) fn at(url: &KeyUrl) -> Option<Result<Self, (&'static str, &'static str)>> {
        let (scheme, rest) = url.with_secrets().split_once("://")?;
        let cloud = match scheme {
            "s3" => Cloud::Amazon,
            "gs" => Cloud::Google,
            "az" => Cloud::Azure,
            "https" | "http" => return None,
            _ => {
                let form = "write `https://host/path` or `s3://bucket/path`";
                return Some(Err(("the URL is not one of `https`, `s3`, `gs` and `az`", form)));
            }
        };
        Some(Self::parse(cloud, rest))
    }

    fn parse(cloud: Cloud, rest: &str) -> Result<Self, (&'static str, &'static str)> {
        let fault = "the URL is not that of an object";
        let help = match cloud {
            Cloud::Amazon => {
                "write `s3://bucket/path`, percent-encoded; credentials are in the environment"
            }
            Cloud::Google => {
                "write `gs://bucket/path`, percent-encoded; credentials are in the environment"
            }
            Cloud::Azure => {
                "write `az://container/path`, percent-encoded; credentials are in the environment"
            }
        };
        let (bucket, path) = rest.split_once('/').ok_or((fault, help))?;
        let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
        let is_path = |byte: u8| byte.is_ascii_graphic() && !b"?#".contains(&byte);
        if bucket.is_empty() || !bucket.bytes().all(is_name) || !path.bytes().all(is_path) {
            return Err((fault, help));
        }
        match Path::from_url_path(path) {
            Ok(path) if !path.as_ref().is_empty() && !rest.ends_with('/') => {
                Ok(Self { cloud, bucket: bucket.to_owned(), path, client: Mutex::default() })
            }
            _ => Err((fault, help)),
        }
    }

    /// Trusts only these certificate authorities. Answers have at most `max` bytes. It reads files.
    pub(super) fn client(
        &self,
        ca: Option<&Arc<[u8]>>,
        https: &HttpsClient,
        max: usize,
    ) -> Result<Arc<dyn ObjectStore>, StoreError> {
        let mut client = self.client.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(client) = client.as_ref().filter(|client| client.ca.as_ref() == ca) {
            return Ok(client.store.clone());
        }
        let https = ca.map_or_else(|| https.clone(), |ca| HttpsClient::trusting(ca.clone()));
        let store = self.connect(Connector { https, max, cloud: self.cloud })?;
        *client = Some(Client { ca: ca.cloned(), store: store.clone() });
        Ok(store)
    }

    /// The object; `None` if it is the one with this ETag.
    pub(crate) async fn get(
        &self,
        store: &dyn ObjectStore,
        etag: Option<&HeaderValue>,
        max: usize,
    ) -> Result<Option<Object>, StoreError> {
        // A setting that `object_store` does not expect may make it panic.
        let object = catch_future("the request", self.get_with(store, etag, max)).await;
        let object = object.unwrap_or_else(|panicked| Err(StoreError::Other(panicked.to_string())));
        if object.is_err() {
            *self.client.lock().unwrap_or_else(PoisonError::into_inner) = None;
        }
        object
    }

    async fn get_with(
        &self,
        store: &dyn ObjectStore,
        etag: Option<&HeaderValue>,
        max: usize,
    ) -> Result<Option<Object>, StoreError> {
        let etag = etag.and_then(|etag| etag.to_str().ok());
        let object =
            match store.get_opts(&self.path, GetOptions::new().with_if_none_match(etag)).await {
                Ok(object) => object,
                Err(object_store::Error::NotModified { .. }) if etag.is_some() => return Ok(None),
                Err(error) => return Err(StoreError::from_store(&error)),
            };
        if usize::try_from(object.meta.size).unwrap_or(usize::MAX) > max {
            return Err(StoreError::TooLarge(max));
        }
        let etag = object.meta.e_tag.as_deref().and_then(|etag| HeaderValue::from_str(etag).ok());
        let bytes = object.bytes().await.map_err(|error| StoreError::from_store(&error))?;
        Ok(Some(Object { bytes: bytes.as_ref().into(), etag }))
    }

    fn connect(&self, connector: Connector) -> Result<Arc<dyn ObjectStore>, StoreError> {
        match self.cloud {
            Cloud::Amazon => self.amazon(connector),
            Cloud::Google => self.google(connector),
            Cloud::Azure => self.azure(connector),
        }
    }

    fn amazon(&self, connector: Connector) -> Result<Arc<dyn ObjectStore>, StoreError> {
        let builder = settings("AWS_", AmazonS3Builder::new(), AmazonS3Builder::with_config);
        for (name, key) in [
            ("AWS_ENDPOINT_URL", AmazonS3ConfigKey::Endpoint),
            ("AWS_ENDPOINT_URL_S3", AmazonS3ConfigKey::S3Endpoint),
            ("AWS_ENDPOINT_URL_STS", AmazonS3ConfigKey::StsEndpoint),
        ] {
            check_endpoint(name, builder.get_config_value(&key))?;
        }
        let builder =
            builder.with_bucket_name(&self.bucket).with_client_options(ClientOptions::new());
        made(builder.with_retry(no_retry()).with_http_connector(connector).build())
    }

    fn google(&self, connector: Connector) -> Result<Arc<dyn ObjectStore>, StoreError> {
        let builder = settings(
            "GOOGLE_",
            GoogleCloudStorageBuilder::new(),
            GoogleCloudStorageBuilder::with_config,
        );
        check_endpoint("GOOGLE_BASE_URL", builder.get_config_value(&GoogleConfigKey::BaseUrl))?;
        let builder =
            builder.with_bucket_name(&self.bucket).with_client_options(ClientOptions::new());
        made(builder.with_retry(no_retry()).with_http_connector(connector).build())
    }

    fn azure(&self, connector: Connector) -> Result<Arc<dyn ObjectStore>, StoreError> {
        let mut builder =
            settings("AZURE_", MicrosoftAzureBuilder::new(), MicrosoftAzureBuilder::with_config);
        // Names that the command line of Azure has, and `object_store` does not.
        for (name, key) in [
            ("AZURE_STORAGE_ACCOUNT", AzureConfigKey::AccountName),
            ("AZURE_STORAGE_KEY", AzureConfigKey::AccessKey),
            ("IDENTITY_ENDPOINT", AzureConfigKey::MsiEndpoint),
        ] {
            let value = std::env::var_os(name).and_then(|value| value.into_string().ok());
            if let Some(value) = value.filter(|_| builder.get_config_value(&key).is_none()) {
                builder = builder.with_config(key, value);
            }
        }
        check_endpoint(
            "AZURE_STORAGE_ENDPOINT",
            builder.get_config_value(&AzureConfigKey::Endpoint),
        )?;
        let is_emulator =
            builder.get_config_value(&AzureConfigKey::UseEmulator).as_deref() != Some("false");
        if builder.get_config_value(&AzureConfigKey::AccountName).is_none() && !is_emulator {
            return Err(StoreError::Other(
                "name the storage account in `AZURE_STORAGE_ACCOUNT_NAME`".to_owned(),
            ));
        }
        let builder =
            builder.with_container_name(&self.bucket).with_client_options(ClientOptions::new());
        made(builder.with_retry(no_retry()).with_http_connector(connector).build())
    }
}

/// The client has credentials, which no text may show.
impl fmt::Debug for BundleObject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} {}/{}", self.cloud, self.bucket, self.path)
    }
}

/// A builder with the variables of the environment that have this prefix. The `from_env` of
/// `object_store` also reads variables without a prefix, such as `SERVICE_ACCOUNT`, which may be
/// for something else. An empty variable counts as not set, as for the SDKs.
fn settings<B, K: std::str::FromStr>(
    prefix: &str,
    builder: B,
    with: impl Fn(B, K, String) -> B,
) -> B {
    let text = |(name, value): (OsString, OsString)| {
        Some((name.into_string().ok()?, value.into_string().ok()?))
    };
    let set = std::env::vars_os().filter_map(text);
    let set = set.filter(|(name, value)| name.starts_with(prefix) && !value.is_empty());
    set.fold(builder, |builder, (name, value)| match name.to_ascii_lowercase().parse() {
        Ok(key) => with(builder, key, value),
        Err(_) => builder,
    })
}

/// An endpoint that is no URL would panic in the first request.
fn check_endpoint(name: &str, url: Option<String>) -> Result<(), StoreError> {
    match url.and_then(|url| KeyUrl::from(url.as_str()).fault()) {
        Some((fault, help)) => Err(StoreError::Other(format!("`{name}`: {fault}: {help}"))),
        None => Ok(()),
    }
}

fn no_retry() -> RetryConfig {
    RetryConfig { max_retries: 0, retry_timeout: Duration::ZERO, ..RetryConfig::default() }
}

fn made(store: object_store::Result<impl ObjectStore>) -> Result<Arc<dyn ObjectStore>, StoreError> {
    match store {
        Ok(store) => Ok(Arc::new(store)),
        Err(error) => Err(StoreError::from_store(&error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_of_objects() {
        let at = |url: &str| {
            BundleObject::at(&url.into()).map(|object| object.map(|object| format!("{object:?}")))
        };
        assert_eq!(at("https://files.example/b").map(|object| object.is_ok()), None);
        for (url, object) in [
            ("s3://bucket/a/b.tar.gz", "Amazon bucket/a/b.tar.gz"),
            ("gs://my_bucket.example/b", "Google my_bucket.example/b"),
            ("az://container/a%20b", "Azure container/a b"),
        ] {
            assert_eq!(at(url), Some(Ok(object.to_owned())), "{url}");
        }
        for url in [
            "s3://bucket",
            "s3://bucket/",
            "s3://bucket/a/",
            "s3://bucket/a//b",
            "s3://bucket/../b",
            "s3:///b",
            "s3://bucket:9000/b",
            "az://container@account.blob.core.windows.net/b",
            "az://container/b?sig=s3cret",
            "gs://bucket/a b",
        ] {
            let (fault, help) = at(url).unwrap().unwrap_err();
            assert!(
                fault.contains("not that of an object") && help.contains("percent-encoded"),
                "{url}"
            );
        }
    }
}
