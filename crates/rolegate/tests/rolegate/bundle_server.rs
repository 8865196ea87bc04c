//! A plain file server with one policy bundle, which can misbehave.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// What it answers.
#[derive(Clone, Debug)]
pub(crate) enum Answer {
    /// This file, with its ETag; 304 if the client has it.
    File(Vec<u8>),
    /// This file, without an ETag.
    Untagged(Vec<u8>),
    /// The head of an answer with this file, and only half of the file.
    Truncated(Vec<u8>),
    /// The head of an answer and then one byte per second.
    Slow(Vec<u8>),
    /// A status without a body.
    Status(u16),
    /// A status and the code of an error, as S3 sends them.
    Error(u16, &'static str),
    /// What this makes of the head of the request.
    Computed(Compute),
    /// Nothing: the connection is closed.
    Away,
}

#[derive(Clone)]
pub(crate) struct Compute(pub(crate) Arc<dyn Fn(&str) -> Answer + Send + Sync>);

impl std::fmt::Debug for Compute {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Compute")
    }
}

/// What a client asked for.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    pub(crate) head: String,
    /// The status of the answer; 0 if there was none.
    pub(crate) status: u16,
}

/// The server. It stops answering when the test ends.
pub(crate) struct BundleServer {
    scheme: &'static str,
    at: SocketAddr,
    answer: Arc<Mutex<Answer>>,
    requests: Arc<Mutex<Vec<Request>>>,
}

impl BundleServer {
    pub(crate) fn start(answer: Answer) -> Self {
        Self::start_over("http", answer, |stream| stream)
    }

    /// Starts one whose connections are those that `wrap` makes of TCP connections.
    pub(crate) fn start_over<S: Read + Write>(
        scheme: &'static str,
        answer: Answer,
        wrap: impl Fn(TcpStream) -> S + Clone + Send + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let at = listener.local_addr().unwrap();
        let (answer, requests) =
            (Arc::new(Mutex::new(answer)), Arc::<Mutex<Vec<Request>>>::default());
        let (answers, seen) = (answer.clone(), requests.clone());
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let Ok(stream) = stream else { continue };
                let (answer, seen) = (answers.lock().unwrap().clone(), seen.clone());
                let wrap = wrap.clone();
                std::thread::spawn(move || serve(wrap(stream), &answer, &seen));
            }
        });
        Self { scheme, at, answer, requests }
    }

    pub(crate) fn url(&self) -> String {
        format!("{}://{}/bundle.tar.gz", self.scheme, self.at)
    }

    pub(crate) fn answer(&self, answer: Answer) {
        *self.answer.lock().unwrap() = answer;
    }

    /// Every request so far.
    pub(crate) fn requests(&self) -> Vec<Request> {
        self.requests.lock().unwrap().clone()
    }

    /// The number of answers with this status.
    pub(crate) fn answered(&self, status: u16) -> usize {
        self.requests().iter().filter(|request| request.status == status).count()
    }
}

/// The ETag of a file.
fn tag(file: &[u8]) -> String {
    let sum = file.iter().fold(0xCBF2_9CE4_8422_2325_u64, |sum, byte| {
        (sum ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01B3)
    });
    format!("\"{sum:x}\"")
}

fn serve(mut stream: impl Read + Write, answer: &Answer, requests: &Mutex<Vec<Request>>) {
    let mut head = Vec::new();
    let mut part = [0; 4096];
    while !head.ends_with(b"\r\n\r\n") {
        match stream.read(&mut part) {
            Ok(size) if size > 0 => head.extend_from_slice(&part[..size]),
            _ => return,
        }
    }
    let head = String::from_utf8_lossy(&head).into_owned();
    let computed;
    let answer = match answer {
        Answer::Computed(Compute(compute)) => {
            computed = compute(&head);
            &computed
        }
        answer => answer,
    };
    let error;
    let (status, headers, body): (u16, String, &[u8]) = match answer {
        Answer::File(file) if head.contains(&format!("if-none-match: {}", tag(file))) => {
            (304, format!("etag: {}\r\n", tag(file)), b"")
        }
        // Object stores send both.
        Answer::File(file) => {
            let modified = "last-modified: Thu, 01 Jan 2026 00:00:00 GMT";
            (200, format!("etag: {}\r\n{modified}\r\n", tag(file)), file)
        }
        Answer::Untagged(file) | Answer::Truncated(file) | Answer::Slow(file) => {
            (200, String::new(), file)
        }
        Answer::Status(status) => (*status, String::new(), b""),
        Answer::Error(status, code) => {
            error = format!("<?xml version=\"1.0\"?><Error><Code>{code}</Code></Error>");
            (*status, "content-type: application/xml\r\n".to_owned(), error.as_bytes())
        }
        Answer::Away | Answer::Computed(_) => (0, String::new(), b""),
    };
    requests.lock().unwrap().push(Request { head, status });
    if status == 0 {
        return;
    }
    let length =
        if status == 304 { String::new() } else { format!("content-length: {}\r\n", body.len()) };
    let _ = write!(stream, "HTTP/1.1 {status} X\r\n{headers}{length}connection: close\r\n\r\n");
    match answer {
        Answer::Truncated(file) => _ = stream.write_all(&file[..file.len() / 2]),
        Answer::Slow(file) => {
            for byte in file {
                if stream.write_all(&[*byte]).is_err() {
                    return;
                }
                std::thread::sleep(Duration::from_secs(1));
            }
        }
        _ => _ = stream.write_all(body),
    }
    let _ = stream.flush();
}
