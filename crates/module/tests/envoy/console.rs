//! The console of the library.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Instant;

use testbed::client::Version;
use testbed::policies::Example;
use testbed::{Options, Stack};
use tokio::runtime::Handle;

use super::admin_pages::page;
use super::{ALICE, PATIENT, authorization, each_form, start};

/// These options with a console, and where it is.
fn with_console(mut options: Options, folder: &Path) -> (Options, PathBuf) {
    let admin = folder.join("admin");
    options
        .arguments
        .extend(["console: true", &*format!("admin: unix:{}", admin.display()).leak()]);
    (options, admin)
}

async fn status(stack: &Stack, method: &str, path: &str) -> u16 {
    let mut connection = stack.connect(Version::Http1).await.unwrap();
    connection.send(method, path, "localhost", &authorization(ALICE), b"").await.unwrap().status
}

/// A part of the page, by the id of its section.
fn part<'p>(page: &'p str, id: &str) -> &'p str {
    let (_, from) = page.split_once(&format!("<section id=\"{id}\"")).unwrap();
    from.split("</section>").next().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_console_shows_what_was_denied_inside_envoy_and_why() {
    let people = Example::named("people").unwrap();
    for options in each_form() {
        let folder = tempfile::tempdir().unwrap();
        let (options, admin) = with_console(options, folder.path());
        let stack = start(&people.file, &options).await;
        assert_eq!(status(&stack, "GET", "/people").await, 200);
        assert_eq!(status(&stack, "POST", "/people?token=t0ken").await, 403);
        let shown = page(&admin, "/console").unwrap();
        assert!(shown.starts_with("HTTP/1.1 200 "), "{shown}");
        assert!(part(&shown, "wrong").contains("Nothing is wrong"), "{shown}");
        let denials = part(&shown, "denials");
        for wanted in ["not_allowed", "alice", "POST", "/people", "127.0.0.1"] {
            assert!(denials.contains(wanted), "no {wanted} in {denials}");
        }
        assert!(part(&shown, "traffic").contains("50.0 %"), "{shown}");
        assert!(!shown.contains("t0ken") && !shown.contains("wonderland"), "{shown}");
        let link = denials.split("href=\"").nth(1).unwrap().split('#').next().unwrap();
        let explained = page(&admin, &link.replace("&amp;", "&")).unwrap();
        assert!(part(&explained, "explain").contains("✗ 403 denied"), "{explained}");
    }
}

/// Many that ask for pages, and some that do not read them.
#[tokio::test(flavor = "multi_thread")]
async fn readers_of_the_console_block_no_request() {
    let people = Example::named("people").unwrap();
    let folder = tempfile::tempdir().unwrap();
    let (options, admin) = with_console(each_form().swap_remove(0), folder.path());
    let stack = start(&people.file, &options).await;
    assert_eq!(status(&stack, "GET", "/people").await, 200);
    let ask = || {
        let mut stream = UnixStream::connect(&admin).unwrap();
        write!(stream, "GET /console?path=/people&user=bob HTTP/1.1\r\nhost: localhost\r\n\r\n")
            .unwrap();
        stream
    };
    let _do_not_read: Vec<UnixStream> = (0..10).map(|_| ask()).collect();
    let (ended, shown) = (AtomicBool::new(false), AtomicUsize::new(0));
    let until = Instant::now() + PATIENT;
    let read = || {
        while !ended.load(Ordering::Relaxed) && Instant::now() < until {
            let mut answer = String::new();
            // The listener closes connections that are too many.
            let _ = ask().read_to_string(&mut answer);
            shown.fetch_add(usize::from(answer.starts_with("HTTP/1.1 200 ")), Ordering::Relaxed);
        }
    };
    let send = async {
        let mut connection = stack.connect(Version::Http1).await.unwrap();
        let mut sent = 0;
        while sent < 300 || shown.load(Ordering::Relaxed) < 3 {
            assert!(Instant::now() < until, "{sent} requests, {shown:?} pages");
            for (method, status) in [("GET", 200), ("POST", 403)] {
                let answer = connection
                    .send(method, "/people", "localhost", &authorization(ALICE), b"")
                    .await;
                assert_eq!(answer.unwrap().status, status);
            }
            sent += 1;
        }
        ended.store(true, Ordering::Relaxed);
    };
    tokio::task::block_in_place(|| {
        std::thread::scope(|scope| {
            (0..8).for_each(|_| drop(scope.spawn(read)));
            Handle::current().block_on(send);
        });
    });
}
