//! Renders the requests of a workload: constant requests once, those with variables each time.

use std::fmt::Write as _;
use std::io::Read as _;
use std::sync::Arc;

use bytes::{BufMut, Bytes, BytesMut};
use fastrand::Rng;
use http::{HeaderName, HeaderValue, Method, Uri};

use crate::answer::Answer;
use crate::check_message::{CHECK_PATH, Checked};
use crate::failed::Failed;
use crate::plan::{Plan, Protocol};
use crate::workload::Request;
use crate::workload::template::{Scope, Template, Variables};

/// The requests of a workload, prepared for rendering. Shared by the threads.
pub(crate) struct Recipes {
    variables: Variables,
    recipes: Vec<Recipe>,
    /// The sum of all weights.
    weights: u64,
    protocol: Protocol,
    authority: String,
}

struct Recipe {
    weight: u64,
    method: String,
    path: Template,
    host: Template,
    headers: Vec<(String, Template)>,
    /// A line of the body.
    body: Template,
    /// The number of lines.
    repeat: u32,
    gzip: bool,
    expect: Arc<[u16]>,
    /// The rendered request, if it is constant.
    constant: Option<Rendered>,
}

/// A request in the form that the connection sends.
#[expect(clippy::large_enum_variant, reason = "one per request in flight: a box would cost more")]
#[derive(Clone)]
pub(crate) enum Rendered {
    Http1 {
        bytes: Bytes,
        /// Whether the response has no body, whatever its header says.
        bodiless: bool,
    },
    /// HTTP/2, and the HTTP/2 request of a Check call.
    Http2 { request: http::Request<()>, body: Bytes },
}

/// A request with its expected response.
pub(crate) struct PreparedRequest {
    /// `None` if the values of its variables make it invalid.
    pub(crate) rendered: Option<Rendered>,
    expect: Arc<[u16]>,
}

/// A request with its variables filled in, before rendering.
struct Plain {
    method: String,
    path: String,
    host: String,
    headers: Vec<(String, String)>,
    body: Bytes,
}

/// The sequence of requests of a thread.
pub(crate) struct RequestSequence {
    recipes: Arc<Recipes>,
    random: Rng,
}

impl Recipes {
    pub(crate) fn new(plan: &Plan) -> Result<Self, Failed> {
        let variables = Variables::new(&plan.workload.variables);
        // The first rendering of a request validates it, and is kept if it is constant. It has its
        // own variables, because it must not advance a sequence variable.
        let scratch_variables = Variables::new(&plan.workload.variables);
        let authority = plan.target.authority.clone();
        let mut recipes = Vec::new();
        for request in &plan.workload.requests {
            let mut recipe = Recipe::new(request, &variables, &authority)?;
            let plain = recipe.plain(&mut scratch_variables.scope(&mut Rng::with_seed(0)))?;
            let rendered = plain.render(plan.protocol, &authority)?;
            recipe.constant = recipe.is_constant().then_some(rendered);
            recipes.push(recipe);
        }
        let weights = recipes.iter().map(|recipe| recipe.weight).sum();
        if weights == 0 {
            return Err(Failed::plan("a workload needs a request whose weight is not 0"));
        }
        Ok(Self { variables, recipes, weights, protocol: plan.protocol, authority })
    }

    fn pick(&self, random: &mut Rng) -> Option<&Recipe> {
        if let [only] = self.recipes.as_slice() {
            return Some(only);
        }
        let choice = random.u64(..self.weights);
        let mut sum = 0;
        self.recipes.iter().find(|recipe| {
            sum += recipe.weight;
            choice < sum
        })
    }
}

impl RequestSequence {
    /// The requests of thread `number`. Equal seeds give equal requests.
    pub(crate) fn new(recipes: Arc<Recipes>, seed: u64, number: u64) -> Self {
        Self {
            recipes,
            random: Rng::with_seed(seed.wrapping_add(number.wrapping_mul(0x9E37_79B9))),
        }
    }

    pub(crate) fn next(&mut self) -> PreparedRequest {
        let recipes = &self.recipes;
        let recipe = recipes.pick(&mut self.random);
        let rendered = recipe.and_then(|recipe| {
            recipe.constant.clone().or_else(|| {
                let plain = recipe.plain(&mut recipes.variables.scope(&mut self.random)).ok()?;
                plain.render(recipes.protocol, &recipes.authority).ok()
            })
        });
        let expect = recipe.map(|recipe| Arc::clone(&recipe.expect)).unwrap_or_default();
        PreparedRequest { rendered, expect }
    }
}

impl PreparedRequest {
    /// Whether this response is expected.
    pub(crate) fn expects(&self, answer: Answer) -> bool {
        let status = answer.status();
        if self.expect.is_empty() { status < 400 } else { self.expect.contains(&status) }
    }
}

impl Recipe {
    fn new(request: &Request, variables: &Variables, authority: &str) -> Result<Self, Failed> {
        let mut host = request.host.as_deref().unwrap_or(authority);
        let mut headers = Vec::new();
        for (name, value) in &request.headers {
            match name.to_ascii_lowercase() {
                name if name == "host" => host = value,
                name => headers.push((name, Template::parse(value, variables)?)),
            }
        }
        if !headers.iter().any(|(name, _)| name == "user-agent") {
            let agent = Template::parse("rolegate-load", variables)?;
            headers.insert(0, ("user-agent".to_owned(), agent));
        }
        if request.gzip {
            headers.push(("content-encoding".to_owned(), Template::parse("gzip", variables)?));
        }
        Ok(Self {
            weight: request.weight.into(),
            method: request.method.clone(),
            path: Template::parse(&request.path, variables)?,
            host: Template::parse(host, variables)?,
            headers,
            body: Template::parse(&request.body, variables)?,
            repeat: request.repeat.max(1),
            gzip: request.gzip,
            expect: request.expect.as_slice().into(),
            constant: None,
        })
    }

    fn is_constant(&self) -> bool {
        let headers = self.headers.iter().map(|(_, value)| value);
        headers.chain([&self.path, &self.host, &self.body]).all(Template::is_constant)
    }

    fn plain(&self, scope: &mut Scope<'_>) -> Result<Plain, Failed> {
        let path = self.path.text_for_path(scope);
        let host = self.host.text(scope);
        let headers =
            self.headers.iter().map(|(name, value)| (name.clone(), value.text(scope))).collect();
        let mut body = String::new();
        for line in 0..self.repeat {
            if line > 0 {
                // Each line of a bulk body gets new values.
                scope.forget();
            }
            self.body.write(scope, &mut body);
        }
        let body = if self.gzip { compressed(body.as_bytes())? } else { body.into_bytes() };
        Ok(Plain { method: self.method.clone(), path, host, headers, body: body.into() })
    }
}

fn compressed(body: &[u8]) -> Result<Vec<u8>, Failed> {
    let mut compressed = Vec::new();
    let mut encoder = flate2::bufread::GzEncoder::new(body, flate2::Compression::fast());
    let read = encoder.read_to_end(&mut compressed);
    read.map(|_| compressed).map_err(|error| Failed::Generator(error.to_string()))
}

impl Plain {
    fn render(self, protocol: Protocol, authority: &str) -> Result<Rendered, Failed> {
        self.validate()?;
        match protocol {
            Protocol::Http1 => {
                Ok(Rendered::Http1 { bodiless: self.method == "HEAD", bytes: self.http1() })
            }
            Protocol::Http2 => self.http2(),
            Protocol::Check => self.check_call(authority),
        }
    }

    /// Returns an error for text that would not be a single request on the wire. The message does
    /// not repeat a value that may be a secret.
    fn validate(&self) -> Result<(), Failed> {
        if Method::from_bytes(self.method.as_bytes()).is_err() {
            return Err(Failed::plan(format!("`{}` is not a method", self.method)));
        }
        if self.path != "*" && (!self.path.starts_with('/') || has_space_or_control(&self.path)) {
            let why = "a path must begin with `/` and have no spaces";
            return Err(Failed::plan(format!("`{}`: {why}", self.path)));
        }
        if has_space_or_control(&self.host) {
            return Err(Failed::plan("the host contains a space or a control character"));
        }
        for (name, value) in &self.headers {
            if HeaderName::from_bytes(name.as_bytes()).is_err()
                || HeaderValue::from_str(value).is_err()
            {
                let why = "has a name or a value that HTTP does not allow";
                return Err(Failed::plan(format!("the header `{name}` {why}")));
            }
        }
        Ok(())
    }

    fn http1(&self) -> Bytes {
        let mut bytes = BytesMut::with_capacity(512 + self.body.len());
        let Self { method, path, host, .. } = self;
        // Writing to memory does not fail.
        let _ = write!(bytes, "{method} {path} HTTP/1.1\r\nhost: {host}\r\n");
        for (name, value) in &self.headers {
            let _ = write!(bytes, "{name}: {value}\r\n");
        }
        if let Some(length) = self.length() {
            let _ = write!(bytes, "content-length: {length}\r\n");
        }
        bytes.put_slice(b"\r\n");
        bytes.put_slice(&self.body);
        bytes.freeze()
    }

    /// The value of `content-length`, if it is required (RFC 9110, 8.6).
    fn length(&self) -> Option<String> {
        let is_set = self.headers.iter().any(|(name, _)| name == "content-length");
        let expects_body = matches!(self.method.as_str(), "POST" | "PUT" | "PATCH");
        (!is_set && (expects_body || !self.body.is_empty())).then(|| self.body.len().to_string())
    }

    fn http2(self) -> Result<Rendered, Failed> {
        let uri = Uri::builder()
            .scheme("http")
            .authority(self.host.as_str())
            .path_and_query(self.path.as_str())
            .build()
            .map_err(|_| Failed::plan("the host or the path is not valid in a URL"))?;
        let mut request = http::Request::builder().method(self.method.as_str()).uri(uri);
        for (name, value) in &self.headers {
            request = request.header(name, value);
        }
        if let Some(length) = self.length() {
            request = request.header("content-length", length);
        }
        let request = request.body(()).map_err(invalid)?;
        Ok(Rendered::Http2 { request, body: self.body })
    }

    fn check_call(self, authority: &str) -> Result<Rendered, Failed> {
        let request = http::Request::post(format!("http://{authority}{CHECK_PATH}"))
            .header("content-type", "application/grpc")
            .header("te", "trailers")
            .body(())
            .map_err(invalid)?;
        let headers = self.headers.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        let headers: Vec<_> = headers.collect();
        let checked = Checked {
            method: &self.method,
            path: &self.path,
            host: &self.host,
            headers: &headers,
            body: &self.body,
            ..Checked::default()
        };
        Ok(Rendered::Http2 { request, body: checked.framed() })
    }
}

fn has_space_or_control(text: &str) -> bool {
    text.bytes().any(|byte| byte <= b' ' || byte == 0x7F)
}

#[expect(clippy::needless_pass_by_value, reason = "it is used in `map_err`")]
fn invalid(error: http::Error) -> Failed {
    Failed::plan(error.to_string())
}
