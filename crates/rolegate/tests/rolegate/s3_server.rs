//! An S3 server on the loopback interface, which verifies the signatures of requests. Its buckets are folders.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use hyper::body::Incoming;
use hyper::service::{Service, service_fn};
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use s3s::auth::SimpleAuth;
use s3s::dto::{ETagCondition, GetObjectInput, GetObjectOutput};
use s3s::service::{S3Service, S3ServiceBuilder};
use s3s::{S3, S3Request, S3Response, S3Result, s3_error};
use s3s_fs::FileSystem;
use tempfile::TempDir;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

/// Who may read objects.
pub(crate) const ACCESS_KEY: &str = "AKIAEXAMPLE";
pub(crate) const SECRET_KEY: &str = "s3cret-access-key";
/// The only bucket.
const BUCKET: &str = "policies";

/// The server. It stops when the test ends.
pub(crate) struct S3Server {
    at: SocketAddr,
    scheme: &'static str,
    root: TempDir,
    is_away: Arc<AtomicBool>,
    answered: Arc<Mutex<Vec<u16>>>,
}

/// What the files lack to be the S3 of Amazon: that a bucket exists, and conditional requests.
struct Buckets(FileSystem, std::path::PathBuf);

#[async_trait]
impl S3 for Buckets {
    async fn get_object(&self, request: S3Request<GetObjectInput>) -> S3Result<S3Response<GetObjectOutput>> {
        if !self.1.join(&request.input.bucket).is_dir() {
            return Err(s3_error!(NoSuchBucket));
        }
        let held = request.input.if_none_match.clone();
        let answer = self.0.get_object(request).await?;
        match (held, &answer.output.e_tag) {
            (Some(ETagCondition::ETag(held)), Some(tag)) if held == *tag => Err(s3_error!(NotModified)),
            _ => Ok(answer),
        }
    }
}

impl S3Server {
    pub(crate) fn start() -> Self {
        Self::start_with(None)
    }

    /// A server that speaks TLS.
    pub(crate) fn start_tls(config: rustls::ServerConfig) -> Self {
        Self::start_with(Some(TlsAcceptor::from(Arc::new(config))))
    }

    fn start_with(tls: Option<TlsAcceptor>) -> Self {
        let root = tempfile::tempdir().unwrap();
        std::fs::create_dir(root.path().join(BUCKET)).unwrap();
        let buckets = Buckets(FileSystem::new(root.path()).unwrap(), root.path().to_owned());
        let mut service = S3ServiceBuilder::new(buckets);
        service.set_auth(SimpleAuth::from_single(ACCESS_KEY, SECRET_KEY));
        let service = service.build();
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let at = listener.local_addr().unwrap();
        let scheme = if tls.is_some() { "https" } else { "http" };
        let (is_away, answered) = (Arc::<AtomicBool>::default(), Arc::<Mutex<Vec<u16>>>::default());
        let (away, answers) = (is_away.clone(), answered.clone());
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async move {
                let listener = TcpListener::from_std(listener).unwrap();
                while let Ok((stream, _)) = listener.accept().await {
                    if away.load(Ordering::Relaxed) {
                        continue;
                    }
                    let (service, answers, tls) = (service.clone(), answers.clone(), tls.clone());
                    tokio::spawn(async move {
                        let Some(tls) = tls else { return serve(stream, service, answers).await };
                        // Fails if the client does not trust the certificate.
                        if let Ok(stream) = tls.accept(stream).await {
                            serve(stream, service, answers).await;
                        }
                    });
                }
            });
        });
        Self { at, scheme, root, is_away, answered }
    }

    /// The endpoint for `AWS_ENDPOINT_URL`.
    pub(crate) fn endpoint(&self) -> String {
        format!("{}://{}", self.scheme, self.at)
    }

    /// Its address, as errors name it.
    pub(crate) fn host(&self) -> String {
        self.at.to_string()
    }

    /// Stores an object in one step.
    pub(crate) fn put(&self, key: &str, bytes: &[u8]) {
        let object = self.root.path().join(BUCKET).join(key);
        let new = self.root.path().join("new");
        std::fs::create_dir_all(object.parent().unwrap_or(Path::new("/"))).unwrap();
        std::fs::write(&new, bytes).unwrap();
        std::fs::rename(&new, &object).unwrap();
    }

    /// Whether connections are closed without an answer.
    pub(crate) fn away(&self, away: bool) {
        self.is_away.store(away, Ordering::Relaxed);
    }

    /// The number of answers with this status.
    pub(crate) fn answered(&self, status: u16) -> usize {
        self.answered.lock().unwrap().iter().filter(|answered| **answered == status).count()
    }
}

async fn serve(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    service: S3Service,
    answered: Arc<Mutex<Vec<u16>>>,
) {
    let answer = service_fn(|request: Request<Incoming>| {
        let (answer, answered) = (Service::call(&service, request), answered.clone());
        async move {
            let answer: Result<Response<s3s::Body>, _> = answer.await;
            answered.lock().unwrap().extend(answer.as_ref().map(|answer| answer.status().as_u16()).ok());
            answer
        }
    });
    let _ = hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), answer).await;
}
