//! Why an object was not fetched, in texts without secrets.

use hyper::StatusCode;

use super::Cloud;
use crate::https::{self, HttpsError};

/// Why there is no object.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum StoreError {
    /// A server did not give a complete answer.
    #[error("`{host}`: {error}")]
    Http { host: String, error: HttpsError },
    /// The environment has no credentials, and the metadata service of the machine did not answer.
    #[error("no credentials: {help}; metadata service `{host}`: {reason}")]
    Metadata { host: String, help: &'static str, reason: String },
    /// The store, or the server that gives credentials for it, answered with an error.
    #[error("status {}{} from `{host}`{}", .status.as_u16(), bracketed(.code.as_deref()), after_colon(.help))]
    Status { host: String, status: StatusCode, code: Option<String>, help: String },
    /// The object is larger than so many bytes.
    #[error("the object is larger than {} MiB", .0 >> 20)]
    TooLarge(usize),
    /// There is no client, or it does not understand an answer.
    #[error("{0}")]
    Other(String),
}

fn bracketed(code: Option<&str>) -> String {
    code.map(|code| format!(" ({code})")).unwrap_or_default()
}

fn after_colon(help: &str) -> String {
    if help.is_empty() { String::new() } else { format!(": {help}") }
}

impl StoreError {
    /// The text of `object_store` may have a URL with a signature, or a body that repeats what was
    /// sent, so it is shown only if the connector did not fail.
    pub(super) fn from_store(error: &object_store::Error) -> Self {
        let chain = || https::chain(error);
        if let Some(own) = chain().find_map(|error| error.downcast_ref::<Self>()) {
            return own.clone();
        }
        // Its text may have a value that it did not expect.
        if let Some(json) = chain().find_map(|error| error.downcast_ref::<serde_json::Error>()) {
            let (line, column) = (json.line(), json.column());
            let text = format!(
                "the credentials are not JSON of a supported type: line {line}, column {column}"
            );
            return Self::Other(text);
        }
        // The outermost text only adds that it is about a store.
        let text = chain().nth(1).map_or_else(|| error.to_string(), ToString::to_string);
        Self::Other(https::shown(&text))
    }

    /// The error for an answer with this status.
    pub(super) fn from_status(
        cloud: Cloud,
        host: String,
        status: StatusCode,
        body: &[u8],
        region: Option<&str>,
    ) -> Self {
        let code = code(body);
        let help = match code.as_deref() {
            Some("NoSuchBucket" | "ContainerNotFound") => {
                "the bucket or container does not exist".to_owned()
            }
            Some("NoSuchKey" | "BlobNotFound") => "the object does not exist".to_owned(),
            Some("RequestTimeTooSkewed") => "the clock of this machine is wrong".to_owned(),
            Some(code) if CREDENTIALS.contains(&code) => cloud.not_accepted(),
            Some(_) | None => match (status, region) {
                (StatusCode::UNAUTHORIZED, _) => cloud.not_accepted(),
                (StatusCode::FORBIDDEN, _) => {
                    format!("the credentials do not permit it: {}", cloud.permission())
                }
                (status, Some(region))
                    if status.is_redirection() || status == StatusCode::BAD_REQUEST =>
                {
                    format!(
                        "the bucket is in another region: set `AWS_REGION` to `{}`",
                        https::shown(region)
                    )
                }
                (_, _) => String::new(),
            },
        };
        Self::Status { host, status, code, help }
    }
}

/// Codes of errors that are about the credentials, not about what they permit.
const CREDENTIALS: [&str; 11] = [
    "AuthenticationFailed",
    "ExpiredToken",
    "ExpiredTokenException",
    "InvalidAccessKeyId",
    "InvalidAuthenticationInfo",
    "InvalidIdentityToken",
    "InvalidToken",
    "SignatureDoesNotMatch",
    "invalid_client",
    "invalid_grant",
    "unauthorized_client",
];

impl Cloud {
    fn not_accepted(self) -> String {
        format!("the credentials are not accepted: {}", self.credentials())
    }

    /// Where credentials are.
    pub(super) fn credentials(self) -> &'static str {
        match self {
            Self::Amazon => {
                "check `AWS_ACCESS_KEY_ID` and `AWS_SECRET_ACCESS_KEY`, or the role of the service account"
            }
            Self::Google => {
                "check the file of `GOOGLE_APPLICATION_CREDENTIALS`, or the service account"
            }
            Self::Azure => "check `AZURE_STORAGE_ACCOUNT_KEY`, or the other variables `AZURE_…`",
        }
    }

    fn permission(self) -> &'static str {
        match self {
            Self::Amazon => "they need `s3:GetObject` on the object, or there is no such object",
            Self::Google => "they need the role `roles/storage.objectViewer`",
            Self::Azure => "they need the role `Storage Blob Data Reader`",
        }
    }
}

/// `<Code>` of S3, Google, Azure and STS, `error` of OAuth. Nothing else of a body is shown: that
/// of `SignatureDoesNotMatch` repeats the request, with the session token.
fn code(body: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(body);
    let xml = text.split_once("<Code>").and_then(|(_, rest)| rest.split_once("</Code>"));
    let code = match xml {
        Some((code, _)) => code.to_owned(),
        None => serde_json::from_slice::<serde_json::Value>(body)
            .ok()?
            .get("error")?
            .as_str()?
            .to_owned(),
    };
    let is_code = (1..=48).contains(&code.len())
        && code.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    is_code.then_some(code)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_code_of_a_body_is_shown() {
        let body = b"<Error><Code>SignatureDoesNotMatch</Code><CanonicalRequest>x-amz-security-token:s3cret</CanonicalRequest></Error>";
        let of = |status: u16, body: &[u8]| {
            let status = StatusCode::from_u16(status).unwrap();
            StoreError::from_status(Cloud::Amazon, "s3.example".to_owned(), status, body, None)
                .to_string()
        };
        assert_eq!(
            of(403, body),
            "status 403 (SignatureDoesNotMatch) from `s3.example`: the credentials are not accepted: check \
             `AWS_ACCESS_KEY_ID` and `AWS_SECRET_ACCESS_KEY`, or the role of the service account"
        );
        assert_eq!(of(500, b"<Code>s3cret token=</Code>"), "status 500 from `s3.example`");
        assert_eq!(
            of(400, br#"{"error": "invalid_scope", "error_description": "s3cret"}"#),
            "status 400 (invalid_scope) from `s3.example`"
        );
    }

    #[test]
    fn the_region_of_the_bucket_is_named() {
        let region = Some("eu-west-1");
        let status = StatusCode::MOVED_PERMANENTLY;
        let error = StoreError::from_status(
            Cloud::Amazon,
            "s3.us-east-1.amazonaws.com".to_owned(),
            status,
            b"",
            region,
        );
        assert!(error.to_string().ends_with("set `AWS_REGION` to `eu-west-1`"), "{error}");
    }
}
