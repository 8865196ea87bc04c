//! The layer.

use std::future::Future;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::thread::available_parallelism;

use axum::body::Body;
use axum::extract::{ConnectInfo, Request};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use rolegate_authorizer::{Allowed, Authorizer, Decision, Denied};
use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;
use tower_layer::Layer;
use tower_service::Service;

/// Authorizes each request before the service gets it. It needs the path as the client sent it, so
/// it goes around the outermost router: `Router::nest` takes a prefix away.
#[derive(Clone, Debug)]
pub struct AuthorizeLayer {
    authorizer: Arc<Authorizer>,
    /// How many requests are authorized at a time: a flood of wrong passwords must not take the
    /// memory of 500 hashes, which the pool of blocking threads would compute at the same time.
    turns: Arc<Semaphore>,
}

/// A service behind [`AuthorizeLayer`].
#[derive(Clone, Debug)]
pub struct Authorize<S> {
    layer: AuthorizeLayer,
    service: S,
}

impl AuthorizeLayer {
    /// A layer with this policy.
    #[must_use]
    pub fn new(authorizer: Arc<Authorizer>) -> Self {
        let cores = available_parallelism().map_or(1, usize::from);
        Self { authorizer, turns: Arc::new(Semaphore::new(cores)) }
    }

    /// The request as the service may get it, or the answer in its place.
    async fn authorize(self, mut request: Request) -> Result<Request, Response> {
        let failed = |_| StatusCode::INTERNAL_SERVER_ERROR.into_response();
        let Some(host) = host(&request) else {
            return Err(StatusCode::BAD_REQUEST.into_response());
        };
        let turn = self.turns.acquire().await.map_err(|_| failed(()))?;
        let (authorizer, parts) = (self.authorizer, Parts::new(&request, host));
        let decision = spawn_blocking(move || parts.authorize(&authorizer)).await;
        drop(turn);
        match decision.map_err(|_| failed(()))? {
            Decision::Denied(denied) => Err(answer(&denied)),
            Decision::Allowed(allowed) => {
                change_headers(request.headers_mut(), &allowed).ok_or_else(|| failed(()))?;
                Ok(request)
            }
        }
    }
}

/// The input of the decision, to be sent to another thread.
struct Parts {
    method: String,
    path: String,
    host: Vec<u8>,
    headers: HeaderMap,
    address: Option<SocketAddr>,
}

impl Parts {
    fn new(request: &Request, host: Vec<u8>) -> Self {
        let path = request.uri().path_and_query().map_or("", |path| path.as_str());
        // There if the service was made by `into_make_service_with_connect_info`.
        let address = request.extensions().get::<ConnectInfo<SocketAddr>>();
        Self {
            method: request.method().to_string(),
            path: path.to_owned(),
            host,
            headers: request.headers().clone(),
            address: address.map(|ConnectInfo(address)| *address),
        }
    }

    fn authorize(&self, authorizer: &Authorizer) -> Decision {
        let mut request =
            rolegate_authorizer::Request::new(&self.method, &self.path).host(&self.host);
        for (name, value) in &self.headers {
            request = request.header(name.as_str(), value);
        }
        if let Some(address) = self.address {
            request = request.client(address.ip()).peer(address.ip());
        }
        authorizer.authorize(&request)
    }
}

/// The only host that a request names; empty without one. `None` if it names several: the service
/// could read another one than the policy.
fn host(request: &Request) -> Option<Vec<u8>> {
    let authority = request.uri().authority().map(|authority| authority.as_str().as_bytes());
    let lines = request.headers().get_all(header::HOST).into_iter().map(HeaderValue::as_bytes);
    let mut hosts = authority.into_iter().chain(lines);
    let first = hosts.next().unwrap_or_default();
    hosts.all(|host| host == first).then(|| first.to_vec())
}

/// Makes the changes of an allowed request. `None` if one cannot be made.
fn change_headers(headers: &mut HeaderMap, allowed: &Allowed) -> Option<()> {
    for name in allowed.remove_headers() {
        headers.remove(name);
    }
    for (name, value) in allowed.set_headers() {
        // `insert` replaces all lines of this name.
        let name = HeaderName::from_bytes(name.as_bytes()).ok()?;
        headers.insert(name, HeaderValue::from_bytes(value.as_bytes()).ok()?);
    }
    Some(())
}

/// The response to a denied request.
fn answer(denied: &Denied) -> Response {
    let mut response = Response::builder().status(denied.status());
    for (name, value) in denied.headers() {
        response = response.header(name, value);
    }
    let response = response.body(Body::from(denied.body().to_owned()));
    response.unwrap_or_else(|_| StatusCode::INTERNAL_SERVER_ERROR.into_response())
}

impl<S> Layer<S> for AuthorizeLayer {
    type Service = Authorize<S>;

    fn layer(&self, service: S) -> Authorize<S> {
        Authorize { layer: self.clone(), service }
    }
}

impl<S> Service<Request> for Authorize<S>
where
    S: Service<Request, Response = Response, Future: Send> + Clone + Send + 'static,
{
    type Response = Response;
    type Error = S::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Response, S::Error>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.service.poll_ready(context)
    }

    fn call(&mut self, request: Request) -> Self::Future {
        // The service that is ready is this one, not its clone.
        let next = self.service.clone();
        let mut service = std::mem::replace(&mut self.service, next);
        let layer = self.layer.clone();
        Box::pin(async move {
            match layer.authorize(request).await {
                Ok(request) => service.call(request).await,
                Err(answer) => Ok(answer),
            }
        })
    }
}
