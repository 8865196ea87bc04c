//! A server of HTTP/1.1 that does what it is told to, and writes down how long it really took.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// What to do with one request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Act {
    /// How long to wait before the answer.
    pub(crate) delay: Duration,
    /// The status of the answer; nothing closes the connection instead.
    pub(crate) status: Option<u16>,
}

/// What to do with the request of this number, from 0.
pub(crate) type Program = dyn Fn(u64) -> Act + Send + Sync;

/// A request as it came.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    /// The request line and the header lines.
    pub(crate) head: String,
    /// The body.
    pub(crate) body: Vec<u8>,
}

/// The server; its threads end with their connections.
pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    shared: Arc<Shared>,
}

struct Shared {
    program: Box<Program>,
    requests: AtomicU64,
    /// From the whole request to the written answer.
    took: Mutex<Vec<Duration>>,
    seen: Mutex<Vec<Seen>>,
    /// The request that stalls holds this lock, so all others wait.
    gate: Mutex<()>,
    /// The request at which everything stalls, and for how long.
    stall: Option<(u64, Duration)>,
}

impl Act {
    /// This status, after this time.
    pub(crate) fn answer(status: u16, delay: Duration) -> Self {
        Self { delay, status: Some(status) }
    }
}

impl Server {
    pub(crate) fn start(program: impl Fn(u64) -> Act + Send + Sync + 'static) -> Self {
        Self::stalling(program, None)
    }

    pub(crate) fn stalling(
        program: impl Fn(u64) -> Act + Send + Sync + 'static,
        stall: Option<(u64, Duration)>,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let shared = Arc::new(Shared {
            program: Box::new(program),
            requests: AtomicU64::new(0),
            took: Mutex::new(Vec::new()),
            seen: Mutex::new(Vec::new()),
            gate: Mutex::new(()),
            stall,
        });
        let accepting = Arc::clone(&shared);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let shared = Arc::clone(&accepting);
                std::thread::spawn(move || shared.serve(&stream));
            }
        });
        Self { address, shared }
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    pub(crate) fn requests(&self) -> u64 {
        self.shared.requests.load(Ordering::SeqCst)
    }

    /// How long each request took, in ascending order.
    pub(crate) fn took(&self) -> Vec<Duration> {
        let mut took = self.shared.took.lock().unwrap().clone();
        took.sort();
        took
    }

    pub(crate) fn seen(&self) -> Vec<Seen> {
        self.shared.seen.lock().unwrap().clone()
    }
}

impl Shared {
    fn serve(&self, stream: &TcpStream) {
        stream.set_nodelay(true).unwrap();
        let mut reader = BufReader::new(stream);
        while let Some(seen) = read(&mut reader) {
            let began = Instant::now();
            let number = self.requests.fetch_add(1, Ordering::SeqCst);
            self.seen.lock().unwrap().push(seen);
            self.pass_gate(number);
            let act = (self.program)(number);
            std::thread::sleep(act.delay);
            let Some(status) = act.status else { return };
            let answer = format!("HTTP/1.1 {status} X\r\ncontent-length: 2\r\n\r\nok");
            if (&*stream).write_all(answer.as_bytes()).is_err() {
                return;
            }
            self.took.lock().unwrap().push(began.elapsed());
        }
    }

    fn pass_gate(&self, number: u64) {
        let _gate = self.gate.lock().unwrap();
        if let Some((at, how_long)) = self.stall
            && at == number
        {
            std::thread::sleep(how_long);
        }
    }
}

fn read(reader: &mut BufReader<&TcpStream>) -> Option<Seen> {
    let mut head = String::new();
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).ok()? == 0 {
            return None;
        }
        head.push_str(&line);
        if line.trim().is_empty() {
            break;
        }
    }
    let length = head
        .lines()
        .find_map(|line| line.strip_prefix("content-length: ")?.parse().ok())
        .unwrap_or(0);
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    Some(Seen { head, body })
}
