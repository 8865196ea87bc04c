//! A bundle that is an object in a store: Amazon S3, Google Cloud Storage or Azure Blob Storage.
//!
//! `object_store` makes the requests, with credentials that it finds where the SDK of each cloud
//! does; [`Connector`] sends them. Neither sends a failed request again: `bundles` decides when to
//! fetch.

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

/// A client with its temporary credentials. It is replaced when the certificate authorities change,
/// and after a failure: the credentials may be in a file that has changed.
struct Client {
    ca: Option<Arc<[u8]>>,
    store: Arc<dyn ObjectStore>,
}

/// The provider of a store.
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
    /// The object at this URL; `None` if it begins with `https:` or `http:`, as on a file server.
    ///
    /// # Errors
    /// What is wrong with the URL, and how to fix it. Neither text shows a part of the URL.
    pub(crate) fn parse(url: &KeyUrl) -> Result<Option<Self>, (&'static str, &'static str)> {
        let (cloud, object) = match url.with_secrets().split_once("://") {
            Some(("s3", object)) => (Cloud::Amazon, object),
            Some(("gs", object)) => (Cloud::Google, object),
            Some(("az", object)) => (Cloud::Azure, object),
            Some(("https" | "http", _)) | None => return url.fault().map_or(Ok(None), Err),
            Some(_) => {
                let form = "write `https://host/path` or `s3://bucket/path`";
                return Err(("the URL is not one of `https`, `s3`, `gs` and `az`", form));
            }
        };
        let fault = (
            "the URL does not name an object",
            "write `s3://bucket/path`, `gs://bucket/path` or `az://container/path`, \
             percent-encoded; credentials are in the environment",
        );
        let (bucket, path) = object.split_once('/').ok_or(fault)?;
        let is_bucket = !bucket.is_empty()
            && bucket.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte));
        let is_path = !path.is_empty()
            && !path.ends_with('/')
            && path.bytes().all(|byte| byte.is_ascii_graphic() && !b"?#".contains(&byte));
        let path = Path::from_url_path(path).map_err(|_| fault)?;
        if !is_bucket || !is_path {
            return Err(fault);
        }
        Ok(Some(Self { cloud, bucket: bucket.to_owned(), path, client: Mutex::default() }))
    }

    /// The store, accessed with the HTTP client `https`, which trusts `ca`. Answers have at most
    /// `max` bytes. This may read files with credentials.
    pub(super) fn store(
        &self,
        ca: Option<Arc<[u8]>>,
        https: &HttpsClient,
        max: usize,
    ) -> Result<Arc<dyn ObjectStore>, StoreError> {
        let mut client = self.client.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(client) = client.as_ref().filter(|client| client.ca == ca) {
            return Ok(client.store.clone());
        }
        let connector = Connector { https: https.clone(), max, cloud: self.cloud };
        let store = match self.cloud {
            Cloud::Amazon => self.amazon(connector),
            Cloud::Google => self.google(connector),
            Cloud::Azure => self.azure(connector),
        }?;
        *client = Some(Client { ca, store: store.clone() });
        Ok(store)
    }

    /// Fetches the object; `None` if it still has this ETag.
    pub(crate) async fn get(
        &self,
        store: &dyn ObjectStore,
        etag: Option<&HeaderValue>,
    ) -> Result<Option<Object>, StoreError> {
        let if_none_match = etag.and_then(|etag| etag.to_str().ok());
        let options = GetOptions::new().with_if_none_match(if_none_match);
        let error = match store.get_opts(&self.path, options).await {
            Ok(object) => {
                let etag = object.meta.e_tag.as_deref();
                let etag = etag.and_then(|etag| HeaderValue::from_str(etag).ok());
                match object.bytes().await {
                    Ok(bytes) => return Ok(Some(Object { bytes: bytes.as_ref().into(), etag })),
                    Err(error) => error,
                }
            }
            Err(object_store::Error::NotModified { .. }) if etag.is_some() => return Ok(None),
            Err(error) => error,
        };
        *self.client.lock().unwrap_or_else(PoisonError::into_inner) = None;
        Err(StoreError::from_store(&error))
    }

    fn amazon(&self, connector: Connector) -> Result<Arc<dyn ObjectStore>, StoreError> {
        let builder =
            from_environment("AWS_", AmazonS3Builder::new(), AmazonS3Builder::with_config);
        for (name, key) in [
            ("AWS_ENDPOINT_URL", AmazonS3ConfigKey::Endpoint),
            ("AWS_ENDPOINT_URL_S3", AmazonS3ConfigKey::S3Endpoint),
            ("AWS_ENDPOINT_URL_STS", AmazonS3ConfigKey::StsEndpoint),
        ] {
            check_endpoint(name, builder.get_config_value(&key))?;
        }
        let builder =
            builder.with_bucket_name(&self.bucket).with_client_options(ClientOptions::new());
        shared_store(builder.with_retry(no_retry()).with_http_connector(connector).build())
    }

    fn google(&self, connector: Connector) -> Result<Arc<dyn ObjectStore>, StoreError> {
        let builder = from_environment(
            "GOOGLE_",
            GoogleCloudStorageBuilder::new(),
            GoogleCloudStorageBuilder::with_config,
        );
        check_endpoint("GOOGLE_BASE_URL", builder.get_config_value(&GoogleConfigKey::BaseUrl))?;
        let builder =
            builder.with_bucket_name(&self.bucket).with_client_options(ClientOptions::new());
        shared_store(builder.with_retry(no_retry()).with_http_connector(connector).build())
    }

    fn azure(&self, connector: Connector) -> Result<Arc<dyn ObjectStore>, StoreError> {
        let mut builder = from_environment(
            "AZURE_",
            MicrosoftAzureBuilder::new(),
            MicrosoftAzureBuilder::with_config,
        );
        // Variables that the Azure command line reads, and `object_store` does not.
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
        let emulator = builder.get_config_value(&AzureConfigKey::UseEmulator);
        if emulator.as_deref() == Some("false")
            && builder.get_config_value(&AzureConfigKey::AccountName).is_none()
        {
            return Err(StoreError(
                "name the storage account in `AZURE_STORAGE_ACCOUNT_NAME`".to_owned(),
            ));
        }
        let builder =
            builder.with_container_name(&self.bucket).with_client_options(ClientOptions::new());
        shared_store(builder.with_retry(no_retry()).with_http_connector(connector).build())
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
fn from_environment<B, K: std::str::FromStr>(
    prefix: &str,
    builder: B,
    with: impl Fn(B, K, String) -> B,
) -> B {
    let mut builder = builder;
    for (name, value) in std::env::vars_os() {
        if let (Ok(name), Ok(value)) = (name.into_string(), value.into_string())
            && name.starts_with(prefix)
            && !value.is_empty()
            && let Ok(key) = name.to_ascii_lowercase().parse()
        {
            builder = with(builder, key, value);
        }
    }
    builder
}

/// Checks the endpoint that the variable `name` sets. An endpoint that is no URL would cause a
/// panic in the first request.
fn check_endpoint(name: &str, url: Option<String>) -> Result<(), StoreError> {
    match url.and_then(|url| KeyUrl::from(url.as_str()).fault()) {
        Some((fault, help)) => Err(StoreError(format!("`{name}`: {fault}: {help}"))),
        None => Ok(()),
    }
}

fn no_retry() -> RetryConfig {
    RetryConfig { max_retries: 0, retry_timeout: Duration::ZERO, ..RetryConfig::default() }
}

fn shared_store(
    store: object_store::Result<impl ObjectStore>,
) -> Result<Arc<dyn ObjectStore>, StoreError> {
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
        let parse = |url: &str| {
            let object = BundleObject::parse(&url.into())?;
            Ok(object.map(|object| format!("{object:?}")))
        };
        assert_eq!(parse("https://files.example/b"), Ok(None));
        for (url, object) in [
            ("s3://bucket/a/b.tar.gz", "Amazon bucket/a/b.tar.gz"),
            ("gs://my_bucket.example/b", "Google my_bucket.example/b"),
            ("az://container/a%20b", "Azure container/a b"),
        ] {
            assert_eq!(parse(url), Ok(Some(object.to_owned())), "{url}");
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
            let (fault, help): (&str, &str) = parse(url).unwrap_err();
            assert!(
                fault.contains("does not name an object") && help.contains("percent-encoded"),
                "{url}"
            );
        }
    }
}
