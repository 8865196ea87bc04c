//! Asks issuers about opaque tokens (RFC 7662). Each thread that asks has an [`Asker`].

use std::io;
use std::sync::Arc;
use std::time::Duration;

use hyper::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderValue};
use hyper::{HeaderMap, StatusCode};
use identity::{MalformedAnswer, Question, Verification, VerificationResult};
use policy::KeyUrl;
use tokio::runtime::{Builder, Runtime};

use crate::clock;
use crate::https::{HttpsClient, HttpsError, basic, body};
use crate::lines::LogLimit;

/// Maximum time of a question, from the DNS lookup to the last byte of the answer. The client that
/// sent the token waits meanwhile.
const TIMEOUT: Duration = Duration::from_secs(3);
/// Maximum size of an answer, in bytes: the claims of a token.
const MAX_ANSWER: usize = 64 << 10;
const FORM: HeaderValue = HeaderValue::from_static("application/x-www-form-urlencoded");
const JSON: HeaderValue = HeaderValue::from_static("application/json");

/// What a thread keeps from one question to the next.
#[derive(Debug, Default)]
pub(crate) struct Asker {
    /// Created for the first question. This thread alone runs it, only while waiting for an answer.
    runtime: Option<Runtime>,
    /// The client of the last URL: it trusts the certificate authorities of that URL.
    client: Option<(KeyUrl, HttpsClient)>,
    limit: LogLimit,
}

/// Why there is no answer about a token.
#[derive(Debug, thiserror::Error)]
enum AskError {
    #[error(transparent)]
    Http(#[from] HttpsError),
    #[error("status {0}")]
    Status(u16),
    #[error("status {0}: redirects are not followed")]
    Redirect(u16),
    #[error("the content type of the answer is not `application/json`")]
    ContentType,
    #[error("no complete answer within 3 s")]
    Timeout,
    #[error("cannot start a runtime: {0}")]
    Runtime(#[from] io::Error),
    #[error(transparent)]
    Malformed(#[from] MalformedAnswer),
}

impl Asker {
    /// Asks about the token of a verification, and blocks this thread meanwhile. Returns `None` if
    /// the issuer gives no valid answer; the log then has a line, unless it had too many of
    /// late. Also returns `None` if the token is not opaque.
    pub(crate) fn verify(&mut self, verification: Verification) -> Option<VerificationResult> {
        let question = verification.question()?;
        let url = question.url.clone();
        let answer = self.ask(question);
        let result = answer.and_then(|answer| Ok(verification.answered(&answer, clock::now())?));
        if let Err(error) = &result
            && self.limit.admit()
        {
            tracing::warn!(%url, %error, "introspection failed: its tokens get 503");
        }
        result.ok()
    }

    fn ask(&mut self, question: Question<'_>) -> Result<Arc<[u8]>, AskError> {
        let client = match &self.client {
            Some((url, client)) if url == question.url => client.clone(),
            Some(_) | None => client(question.url),
        };
        self.client = Some((question.url.clone(), client.clone()));
        let runtime = match self.runtime.take() {
            Some(runtime) => runtime,
            None => Builder::new_current_thread().enable_all().build()?,
        };
        let asking = async { tokio::time::timeout(TIMEOUT, ask(&client, question)).await };
        let answer = runtime.block_on(asking).unwrap_or(Err(AskError::Timeout));
        self.runtime = Some(runtime);
        answer
    }
}

fn client(url: &KeyUrl) -> HttpsClient {
    url.trusted_ca().map_or_else(HttpsClient::default, |ca| HttpsClient::trusting(ca.clone()))
}

async fn ask(
    client: &HttpsClient,
    Question { url, token }: Question<'_>,
) -> Result<Arc<[u8]>, AskError> {
    let mut headers = HeaderMap::from_iter([(ACCEPT, JSON), (CONTENT_TYPE, FORM)]);
    headers.extend(url.credentials().map(basic).transpose()?.map(|value| (AUTHORIZATION, value)));
    let answer = client.post(url, headers, form(token)).await?;
    match answer.status() {
        StatusCode::OK => {}
        status if status.is_redirection() => return Err(AskError::Redirect(status.as_u16())),
        status => return Err(AskError::Status(status.as_u16())),
    }
    let content_type = answer.headers().get(CONTENT_TYPE).map(HeaderValue::as_bytes);
    let media_type = content_type.and_then(|value| value.split(|byte| *byte == b';').next());
    if !media_type.is_some_and(|kind| kind.trim_ascii().eq_ignore_ascii_case(JSON.as_bytes())) {
        return Err(AskError::ContentType);
    }
    Ok(body(url, answer, MAX_ANSWER).await?)
}

/// The form of a question (RFC 7662, 2.1).
fn form(token: &str) -> Vec<u8> {
    let mut form = b"token_type_hint=access_token&token=".to_vec();
    for byte in token.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            form.push(byte);
        } else {
            form.extend(format!("%{byte:02X}").bytes());
        }
    }
    form
}

#[cfg(test)]
mod tests {
    use super::form;

    #[test]
    fn a_token_is_one_value_of_the_form() {
        let shown = String::from_utf8(form("a+b/c=&d~")).unwrap();
        assert_eq!(shown, "token_type_hint=access_token&token=a%2Bb%2Fc%3D%26d~");
    }
}
