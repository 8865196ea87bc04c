//! Sends the requests of `object_store` with the HTTP client of this crate, over `https:`. Only
//! loopback addresses and the metadata services of clouds may be asked over plain `http:`.

use std::net::{IpAddr, Ipv6Addr};
use std::time::Duration;

use async_trait::async_trait;
use http_body_util::{BodyExt, Collected, Full, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::{Request, Response, StatusCode, Uri};
use object_store::ClientOptions;
use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpResponse,
    HttpResponseBody, HttpService,
};
use tokio::time::timeout;

use super::{Cloud, StoreError};
use crate::https::{HttpsClient, HttpsError, body_error, is_allowed};

/// Maximum time until a metadata service answers: outside of a cloud, packets may get lost.
const METADATA_TIMEOUT: Duration = Duration::from_secs(2);
/// Maximum size of the body of an error, in bytes.
const MAX_ERROR: usize = 64 << 10;
/// The variable that tells the SDKs of Amazon not to ask [`EC2_METADATA_HOSTS`].
const METADATA_DISABLED: &str = "AWS_EC2_METADATA_DISABLED";
/// The metadata service of a virtual machine of Amazon.
const EC2_METADATA_HOSTS: [&str; 2] = ["169.254.169.254", "[fd00:ec2::254]"];
/// The metadata service of Google in networks without IPv4.
const GOOGLE_IPV6: Ipv6Addr = Ipv6Addr::new(0xfd20, 0xce, 0, 0, 0, 0, 0, 0x254);

#[derive(Clone, Debug)]
pub(super) struct Connector {
    pub(super) https: HttpsClient,
    pub(super) max: usize,
    pub(super) cloud: Cloud,
}

impl HttpConnector for Connector {
    /// Ignores the options: no user can set them.
    fn connect(&self, _: &ClientOptions) -> object_store::Result<HttpClient> {
        Ok(HttpClient::new(self.clone()))
    }
}

#[async_trait]
impl HttpService for Connector {
    async fn call(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        let (host, answer) = self.send(request).await.map_err(failed)?;
        let max = self.max;
        Ok(answer.map(|body| {
            HttpResponseBody::new(Limited::new(body, max).map_err(move |error| {
                failed(match body_error(&*error, max) {
                    HttpsError::TooLarge(_) => {
                        StoreError(format!("the object is larger than {} MiB", max >> 20))
                    }
                    error @ (HttpsError::Address
                    | HttpsError::Roots(_)
                    | HttpsError::Unreachable(_)) => host_error(&host, &error),
                })
            }))
        }))
    }
}

impl Connector {
    /// Sends a request. Returns only answers that `object_store` uses. All others are errors with
    /// our own texts.
    async fn send(&self, request: HttpRequest) -> Result<(String, Response<Incoming>), StoreError> {
        let (head, body) = request.into_parts();
        let uri = &head.uri;
        let host = uri.host().unwrap_or_default();
        let host = uri.port().map_or_else(|| host.to_owned(), |port| format!("{host}:{port}"));
        let is_metadata = is_metadata(uri);
        if !is_metadata && !is_allowed(uri) {
            return Err(host_error(&host, &HttpsError::Address));
        }
        let body = body.collect().await.map_err(|error| StoreError(error.to_string()))?;
        let request = Request::from_parts(head, Full::new(body.to_bytes()));
        if is_metadata {
            let answer = self.ask_metadata(&host, request).await?;
            return Ok((host, answer));
        }
        let answer = self.https.send(request).await.map_err(|error| host_error(&host, &error))?;
        if answer.status().is_success() || answer.status() == StatusCode::NOT_MODIFIED {
            return Ok((host, answer));
        }
        let (head, body) = answer.into_parts();
        let region =
            head.headers.get("x-amz-bucket-region").and_then(|region| region.to_str().ok());
        let body = Limited::new(body, MAX_ERROR).collect().await;
        let body = body.map(Collected::to_bytes).unwrap_or_default();
        Err(StoreError::from_status(self.cloud, &host, head.status, &body, region))
    }

    async fn ask_metadata(
        &self,
        host: &str,
        request: Request<Full<Bytes>>,
    ) -> Result<Response<Incoming>, StoreError> {
        let is_disabled = std::env::var_os(METADATA_DISABLED)
            .is_some_and(|value| value.eq_ignore_ascii_case("true"));
        let reason = if is_disabled && EC2_METADATA_HOSTS.contains(&host) {
            format!("not asked, because of `{METADATA_DISABLED}`")
        } else {
            match timeout(METADATA_TIMEOUT, self.https.send(request)).await {
                Ok(Ok(answer)) if answer.status().is_success() => return Ok(answer),
                Ok(Ok(answer)) => format!("status {}", answer.status().as_u16()),
                Ok(Err(error)) => error.to_string(),
                Err(_) => format!("no answer within {METADATA_TIMEOUT:?}"),
            }
        };
        let help = self.cloud.credentials();
        Err(StoreError(format!("no credentials: {help}; metadata service `{host}`: {reason}")))
    }
}

/// Whether this is a metadata service, which gives credentials to a machine or a pod. Metadata
/// services speak plain `http:` on reserved addresses.
fn is_metadata(uri: &Uri) -> bool {
    let host = uri.host().unwrap_or_default();
    let ip = host.trim_start_matches('[').trim_end_matches(']').parse();
    let is_known = match ip {
        Ok(IpAddr::V4(ip)) => ip.is_link_local(),
        Ok(IpAddr::V6(ip)) => ip == GOOGLE_IPV6 || matches!(ip.segments(), [0xfd00, 0x0ec2, ..]),
        Err(_) => host == "metadata.google.internal",
    };
    uri.scheme_str() == Some("http") && is_known
}

fn host_error(host: &str, error: &HttpsError) -> StoreError {
    StoreError(format!("`{host}`: {error}"))
}

fn failed(error: StoreError) -> HttpError {
    HttpError::new(HttpErrorKind::Unknown, error)
}

#[cfg(test)]
mod tests {
    use super::is_metadata;

    #[test]
    fn only_metadata_services_are_asked_without_tls() {
        for uri in [
            "http://169.254.169.254/latest/api/token",
            "http://169.254.170.2/v2/credentials",
            "http://[fd00:ec2::23]/v1/credentials",
            "http://metadata.google.internal/computeMetadata/v1",
        ] {
            assert!(is_metadata(&uri.parse().unwrap()), "{uri}");
        }
        for uri in [
            "http://10.0.0.1/",
            "http://[fd00::1]/",
            "http://169.254.169.254.example/",
            "https://169.254.169.254/",
        ] {
            assert!(!is_metadata(&uri.parse().unwrap()), "{uri}");
        }
    }
}
