//! Many rolegates that fetch their policy as a bundle from one plain file server: how long until all of them have a new one, and
//! what that costs the server.

use std::error::Error;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use clap::Args;
use load::Exit;
use testbed::client::get;
use testbed::envoy::Target;
use testbed::policies::Example;
use testbed::{Failed, Rolegate};

/// The arguments of `bundle`.
#[derive(Args)]
pub(crate) struct BundleArgs {
    /// The program `rolegate`; by default the one in the folder of this program.
    #[arg(long, value_name = "FILE")]
    rolegate: Option<PathBuf>,
    /// How many rolegates fetch from the server.
    #[arg(long, default_value_t = 200)]
    rolegates: usize,
    /// Their polling interval, in seconds.
    #[arg(long, default_value_t = 30)]
    interval: u32,
    /// How many intervals the server is watched for before a new bundle is published.
    #[arg(long, default_value_t = 3)]
    watched: u32,
}

/// What an interval is shortened by at most.
const JITTER: f64 = 0.1;
/// Beyond its interval, a rolegate needs this long to fetch, compile and activate a bundle, on a busy machine.
const ACTIVATION: Duration = Duration::from_secs(5);

/// A plain file server with one file.
#[derive(Default)]
struct FileServer {
    file: Mutex<(Vec<u8>, u64)>,
    /// When each request was answered, and whether with the file (200) or without (304).
    answers: Mutex<Vec<(Instant, bool)>>,
}

/// Runs it.
///
/// # Errors
/// If something cannot be started.
pub(crate) fn run(args: &BundleArgs) -> Result<Exit, Box<dyn Error>> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let folder = tempfile::tempdir()?;
    let good = runtime.block_on(measure(args, folder.path()))?;
    Ok(if good { Exit::Success } else { Exit::Failed })
}

async fn measure(args: &BundleArgs, folder: &Path) -> Result<bool, Failed> {
    let own = std::env::current_exe().map_err(|error| Failed::io("measure", &error))?;
    let program = args.rolegate.clone().unwrap_or_else(|| own.with_file_name("rolegate"));
    let key = folder.join("key");
    command(&program, &["bundle", "new-key", &key.display().to_string()])?;
    let server = Arc::new(FileServer::default());
    server.publish(bundle(&program, folder, &key, 1)?);
    let at = server.clone().start().map_err(|error| Failed::io("file server", &error))?;

    let url = PathBuf::from(format!("http://{at}/bundle.tar.gz"));
    let (interval, key) = (format!("{}s", args.interval), format!("{}.pub", key.display()));
    let more = ["--bundle-interval", &interval, "--bundle-public-key", &key, "--threads", "1"];
    let mut rolegates = Vec::new();
    for _ in 0..args.rolegates {
        let started =
            Rolegate::start(&program, &url, Target::Tcp(testbed::rolegate::ANY_PORT), folder, &more);
        rolegates.push(started.await?);
    }
    let number = rolegates.len() as f64;
    println!("{number} rolegates are ready; each asks every {interval}, up to a tenth earlier");

    let interval = Duration::from_secs(args.interval.into());
    server.forget();
    tokio::time::sleep(interval * args.watched).await;
    let (whole, unchanged) = server.answered();
    let rate = (whole + unchanged) as f64 / (interval.as_secs_f64() * f64::from(args.watched));
    let promised = number / interval.as_secs_f64();
    println!(
        "unchanged: {unchanged} answers 304, {whole} answers 200; {rate:.2} requests/s, promised {promised:.2} to {:.2}",
        promised / (1.0 - JITTER)
    );
    // At either end of the time, a request of each may or may not fall into it.
    let slack = 1.0 + 1.0 / f64::from(args.watched);
    let is_rate_kept = whole == 0 && rate <= promised / (1.0 - JITTER) * slack;

    let next = bundle(&program, folder, Path::new(key.trim_end_matches(".pub")), 2)?;
    let size = next.len();
    server.forget();
    server.publish(next);
    let published = Instant::now();
    let limit = interval + ACTIVATION;
    let followed = follow(&rolegates, published + limit).await;
    let last_sent = server.last_sent().map_or(f64::NAN, |at| (at - published).as_secs_f64());
    let (whole, unchanged) = server.answered();
    println!(
        "new bundle of {size} bytes: sent to the last after {last_sent:.1} s; {whole} answers 200, {unchanged} answers 304"
    );
    match followed {
        Some(at) => println!("all follow it after {:.1} s", (at - published).as_secs_f64()),
        None => println!("not all follow it after {limit:?}"),
    }
    Ok(is_rate_kept && followed.is_some() && whole == rolegates.len())
}

/// When the last one has the new bundle; `None` if that is not before `end`.
async fn follow(rolegates: &[Rolegate], end: Instant) -> Option<Instant> {
    let mut waiting: Vec<&Rolegate> = rolegates.iter().collect();
    while Instant::now() < end {
        let mut still = Vec::new();
        for rolegate in waiting {
            let page = get(rolegate.admin, "/metrics", &[]).await.ok();
            let has = page.is_some_and(|page| {
                String::from_utf8_lossy(&page.body).contains("\nrolegate_bundle_revision 2")
            });
            if !has {
                still.push(rolegate);
            }
        }
        if still.is_empty() {
            return Some(Instant::now());
        }
        waiting = still;
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    None
}

/// A signed bundle of the example `people`.
fn bundle(program: &Path, folder: &Path, key: &Path, revision: u32) -> Result<Vec<u8>, Failed> {
    let policy = Example::named("people")?.file.display().to_string();
    let (file, key) = (folder.join("bundle.tar.gz"), key.display().to_string());
    let path = file.display().to_string();
    command(program, &["bundle", "build", &policy, "-o", &path, "--revision", &revision.to_string()])?;
    command(program, &["bundle", "sign", "--key", &key, &path])?;
    std::fs::read(&file).map_err(|error| Failed::io("bundle", &error))
}

fn command(program: &Path, arguments: &[&str]) -> Result<(), Failed> {
    let output = Command::new(program).args(arguments).output();
    let output = output.map_err(|error| Failed::io(program.display().to_string(), &error))?;
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    if output.status.success() { Ok(()) } else { Err(Failed::new("rolegate bundle", errors)) }
}

impl FileServer {
    fn start(self: Arc<Self>) -> io::Result<SocketAddr> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let at = listener.local_addr()?;
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                // One that hangs up early is none of the server's business.
                let _ = self.answer(stream);
            }
        });
        Ok(at)
    }

    fn publish(&self, file: Vec<u8>) {
        let mut published = lock(&self.file);
        *published = (file, published.1 + 1);
    }

    fn answer(&self, mut stream: TcpStream) -> io::Result<()> {
        stream.set_read_timeout(Some(Duration::from_secs(5)))?;
        let mut head = Vec::new();
        let mut part = [0; 2048];
        while !head.ends_with(b"\r\n\r\n") {
            let read = stream.read(&mut part)?;
            if read == 0 {
                return Ok(());
            }
            head.extend(part.iter().take(read));
        }
        let (file, version) = lock(&self.file).clone();
        let is_known = String::from_utf8_lossy(&head).contains(&format!("if-none-match: \"{version}\""));
        lock(&self.answers).push((Instant::now(), !is_known));
        let (status, file) =
            if is_known { ("304 Not Modified", &[][..]) } else { ("200 OK", file.as_slice()) };
        let length = if is_known { String::new() } else { format!("content-length: {}\r\n", file.len()) };
        write!(stream, "HTTP/1.1 {status}\r\netag: \"{version}\"\r\n{length}connection: close\r\n\r\n")?;
        stream.write_all(file)
    }

    fn forget(&self) {
        lock(&self.answers).clear();
    }

    /// The numbers of answers with and without the file.
    fn answered(&self) -> (usize, usize) {
        let answers = lock(&self.answers);
        let whole = answers.iter().filter(|(_, whole)| *whole).count();
        (whole, answers.len() - whole)
    }

    /// When the file was last sent.
    fn last_sent(&self) -> Option<Instant> {
        lock(&self.answers).iter().filter(|(_, whole)| *whole).map(|(at, _)| *at).next_back()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
