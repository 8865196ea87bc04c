//! Why an object was not fetched, in texts without secrets.

use hyper::StatusCode;

use super::Cloud;
use crate::errors::LoadError;
use crate::https;

/// Why there is no object.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(crate) struct StoreError(pub(super) String);

impl From<StoreError> for LoadError {
    fn from(error: StoreError) -> Self {
        Self::Setting(error.0)
    }
}

impl StoreError {
    /// The error for a failed call of `object_store`. If a [`StoreError`] is among the causes, it
    /// is returned. Otherwise the text of `object_store` is used, except for invalid JSON. This
    /// text has neither a URL with a signature nor a body that repeats the request.
    pub(super) fn from_store(error: &object_store::Error) -> Self {
        let errors: Vec<_> = https::chain(error).collect();
        if let Some(error) = errors.iter().find_map(|error| error.downcast_ref::<Self>()) {
            return error.clone();
        }
        // The text of a JSON error may repeat a value of the credentials.
        if let Some(json) = errors.iter().find_map(|e| e.downcast_ref::<serde_json::Error>()) {
            let (line, column) = (json.line(), json.column());
            return Self(format!(
                "the credentials are not JSON of a supported type: line {line}, column {column}"
            ));
        }
        // The outermost error says only that a store failed; the next one says why.
        let text = errors.get(1).map_or_else(|| error.to_string(), ToString::to_string);
        Self(document::excerpt(&text))
    }

    /// The error for an answer with this status. `region` is the region of the bucket, if the
    /// answer names it.
    pub(super) fn from_status(
        cloud: Cloud,
        host: &str,
        status: StatusCode,
        body: &[u8],
        region: Option<&str>,
    ) -> Self {
        let code = code(body);
        let help = match (code.as_deref(), status, region) {
            (Some("NoSuchBucket" | "ContainerNotFound"), ..) => {
                "the bucket or container does not exist".to_owned()
            }
            (Some("NoSuchKey" | "BlobNotFound"), ..) => "the object does not exist".to_owned(),
            (Some("RequestTimeTooSkewed"), ..) => "the clock of this machine is wrong".to_owned(),
            (Some(code), ..) if CREDENTIALS.contains(&code) => cloud.not_accepted(),
            (_, StatusCode::UNAUTHORIZED, _) => cloud.not_accepted(),
            (_, StatusCode::FORBIDDEN, _) => {
                format!("the credentials do not permit it: {}", cloud.permission())
            }
            (_, status, Some(region))
                if status.is_redirection() || status == StatusCode::BAD_REQUEST =>
            {
                let region = document::excerpt(region);
                format!("the bucket is in another region: set `AWS_REGION` to `{region}`")
            }
            _ => String::new(),
        };
        let code = code.map(|code| format!(" ({code})")).unwrap_or_default();
        let help = if help.is_empty() { help } else { format!(": {help}") };
        Self(format!("status {}{code} from `{host}`{help}", status.as_u16()))
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

    /// Where to look for the credentials.
    pub(super) fn credentials(self) -> &'static str {
        match self {
            Self::Amazon => {
                "check `AWS_ACCESS_KEY_ID` and `AWS_SECRET_ACCESS_KEY`, or the role of the service \
                 account"
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

/// The error code in a body: `<Code>` in XML of S3, Google, Azure and STS, or `error` in JSON of
/// OAuth. Nothing else of a body is shown: a body with the code `SignatureDoesNotMatch` repeats the
/// request, with the session token.
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
        let error = |status: u16, body: &[u8]| {
            let status = StatusCode::from_u16(status).unwrap();
            StoreError::from_status(Cloud::Amazon, "s3.example", status, body, None).to_string()
        };
        assert_eq!(
            error(403, body),
            "status 403 (SignatureDoesNotMatch) from `s3.example`: the credentials are not accepted: check \
             `AWS_ACCESS_KEY_ID` and `AWS_SECRET_ACCESS_KEY`, or the role of the service account"
        );
        assert_eq!(error(500, b"<Code>s3cret token=</Code>"), "status 500 from `s3.example`");
        assert_eq!(
            error(400, br#"{"error": "invalid_scope", "error_description": "s3cret"}"#),
            "status 400 (invalid_scope) from `s3.example`"
        );
    }

    #[test]
    fn the_region_of_the_bucket_is_named() {
        let region = Some("eu-west-1");
        let status = StatusCode::MOVED_PERMANENTLY;
        let error = StoreError::from_status(
            Cloud::Amazon,
            "s3.us-east-1.amazonaws.com",
            status,
            b"",
            region,
        );
        assert!(error.to_string().ends_with("set `AWS_REGION` to `eu-west-1`"), "{error}");
    }
}
