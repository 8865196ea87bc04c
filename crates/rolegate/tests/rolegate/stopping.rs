//! The end of a server whose output nobody reads: it comes all the same, and says what is lost.

use std::io::{PipeReader, PipeWriter, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::client::Envoy;
use crate::process::{LONG, PolicyFolder, Server, open_to_all, rolegate, wait_until};

/// A pipe that has no room, as that of a container whose output nobody reads.
fn full_pipe() -> (PipeReader, PipeWriter) {
    let (reader, mut writer) = std::io::pipe().unwrap();
    writer.write_all(&[b'x'; 64 << 10]).unwrap();
    (reader, writer)
}

/// A server whose decision log nobody reads, after three decisions.
async fn with_unread_decisions(more: &[&str]) -> (Server, Envoy, PipeReader) {
    let (unread, stdout) = full_pipe();
    let folder = PolicyFolder::new(&open_to_all("/a"));
    let policy = folder.arg();
    let serve = ["serve", "--policy", &policy, "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"];
    let command = rolegate(&[&serve[..], &["--decision-log", "all"], more].concat());
    let server = Server::spawn_with_output(command, stdout);
    server.wait_for_log("\"listening\"");
    let mut envoy = Envoy::connect(server.address()).await;
    for path in ["/a", "/a", "/b"] {
        envoy.check("GET", path, &[]).await;
    }
    (server, envoy, unread)
}

#[tokio::test(flavor = "multi_thread")]
async fn lines_that_nobody_has_read_at_the_end_are_counted() {
    let (mut server, envoy, _unread) = with_unread_decisions(&["--drain-delay", "0s"]).await;
    drop(envoy);
    server.signal(Signal::TERM);
    assert_eq!(server.ended(), 0);
    server.wait_for_log_line(&["last lines of the decision log are lost", "\"lines\":3"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_signal_counts_them_too() {
    let (mut server, mut envoy, _unread) = with_unread_decisions(&["--drain-timeout", "1h"]).await;
    let _in_flight = envoy.begin().await;
    server.wait_for_metric("rolegate_checks_waiting", 1.0);
    server.signal(Signal::TERM);
    server.wait_for_log("stopping");
    tokio::time::sleep(Duration::from_millis(150)).await;
    server.signal(Signal::TERM);
    assert_eq!(server.ended(), 5);
    server.wait_for_log_line(&["last lines of the decision log are lost", "\"lines\":3"]);
    server.wait_for_log("stopped at once by a second signal");
}

/// Whether the server has greeted a client. It accepts connections before it handles signals.
fn is_served(socket: &Path) -> bool {
    let Ok(mut stream) = UnixStream::connect(socket) else { return false };
    stream.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    let preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";
    stream.write_all(preface).is_ok() && stream.read_exact(&mut [0; 9]).is_ok()
}

/// In either format of the log, and also where the start fails.
#[test]
fn the_end_does_not_wait_for_a_reader_of_standard_error() {
    for format in ["text", "json"] {
        let policy = PolicyFolder::new(&open_to_all("/a"));
        let socket = policy.path().join("socket");
        let listen = format!("unix:{}", socket.display());
        for listens in [true, false] {
            let listen = if listens { &listen } else { "unix:/nowhere/socket" };
            let (_unread, stderr) = full_pipe();
            let policy = policy.arg();
            let serve = ["serve", "--policy", &policy, "--admin", "off", "--log-format", format];
            let mut command =
                rolegate(&[&serve[..], &["--listen", listen, "--drain-delay", "1h"]].concat());
            let mut child = command.stderr(stderr).spawn().unwrap();
            drop(command);
            if listens {
                wait_until(|| is_served(&socket), || "the socket".to_owned());
            }
            let end = Instant::now() + LONG;
            let mut ended = None;
            while ended.is_none() && Instant::now() < end {
                if listens {
                    // The first begins the drain. One that comes soon after it counts as the same.
                    kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
                }
                std::thread::sleep(Duration::from_millis(500));
                ended = child.try_wait().unwrap();
            }
            let _ = child.kill();
            let _ = child.wait();
            let code = ended.and_then(|status| status.code());
            assert_eq!(code, Some(5), "{format}, {listens}");
        }
    }
}
