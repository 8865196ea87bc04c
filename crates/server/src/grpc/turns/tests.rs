//! Whose turn it is, how much is read, and how answers are written.

use std::cell::RefCell;
use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use tokio::io::DuplexStream;

use super::super::respond;
use super::*;

/// A socket that always has data: so many bytes for each read.
struct Endless(usize);

impl AsyncRead for Endless {
    fn poll_read(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        to: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let bytes = self.0.min(to.remaining());
        to.initialize_unfilled_to(bytes);
        to.advance(bytes);
        Poll::Ready(Ok(()))
    }
}

/// Connections that always have data are served in turns of bounded length, in alternation.
#[tokio::test(flavor = "local")]
async fn two_busy_connections_alternate() {
    let (queue, turn_giver) = TurnQueue::new();
    let (queue, order) = (Rc::new(queue), Rc::new(RefCell::new(Vec::new())));
    let endless = |name: char| {
        let (queue, order) = (Rc::clone(&queue), Rc::clone(&order));
        async move {
            let meter = Rc::<Meter>::default();
            let mut socket = MeteredSocket::new(Endless(64), Rc::clone(&meter));
            for _ in 0..20 {
                queue.wait().await;
                meter.begin_turn();
                order.borrow_mut().push(name);
                assert_eq!(read_turn(&mut socket).await, MIN_TURN);
            }
        }
    };
    let turn_giver = tokio::task::spawn_local(turn_giver);
    let (a, b) = (tokio::task::spawn_local(endless('a')), tokio::task::spawn_local(endless('b')));
    a.await.unwrap();
    b.await.unwrap();
    turn_giver.abort();
    assert_eq!(order.borrow().iter().collect::<String>(), "ab".repeat(20));
}

/// Reads until the turn is used up. Returns the number of bytes.
async fn read_turn(socket: &mut MeteredSocket<Endless>) -> usize {
    let mut read = 0;
    poll_fn(|cx| {
        let mut buffer = [0; 1024];
        while Pin::new(&mut *socket).poll_read(cx, &mut ReadBuf::new(&mut buffer)).is_ready() {
            read += 64;
        }
        Poll::Ready(())
    })
    .await;
    read
}

/// The number of streams that are read but not answered yet is bounded.
#[tokio::test]
async fn the_bytes_of_a_turn_are_bounded() {
    let meter = Rc::<Meter>::default();
    let mut socket = MeteredSocket::new(Endless(64), Rc::clone(&meter));
    for bound in [1, 2, 4, 8, 16, 32, 32].map(|times| times * MIN_TURN) {
        meter.begin_turn();
        assert!(!meter.is_used_up());
        assert_eq!((read_turn(&mut socket).await, meter.is_used_up()), (bound, true));
        meter.lengthen_turns();
    }
    meter.shorten_turns();
    meter.begin_turn();
    assert_eq!(read_turn(&mut socket).await, MIN_TURN);
}

/// A socket that counts its writes, and could write from several buffers at once.
struct Counting(DuplexStream, Arc<AtomicUsize>);

impl AsyncRead for Counting {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        to: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(cx, to)
    }
}

impl AsyncWrite for Counting {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        from: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.1.fetch_add(1, Ordering::Relaxed);
        Pin::new(&mut self.0).poll_write(cx, from)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }
}

/// Also those of some hundred bytes, which `h2` would send in a write each if it could write from
/// several buffers at once, and those of more than 1,023, which it would in any case if they were
/// one frame.
#[tokio::test(flavor = "local")]
async fn ten_answers_leave_in_one_write() {
    for length in [10, 900, 1023, 1024, 1300] {
        assert_eq!(writes_of_ten_answers(length).await, 1, "of {length} bytes");
    }
}

/// Also an answer that is longer than all frames and buffers.
#[tokio::test(flavor = "local")]
async fn long_answers_arrive_whole() {
    assert!(writes_of_ten_answers(5000).await <= 4);
}

async fn writes_of_ten_answers(length: usize) -> usize {
    let (client, server) = tokio::io::duplex(1 << 20);
    let writes = Arc::new(AtomicUsize::new(0));
    let io = MeteredSocket::new(Counting(server, Arc::clone(&writes)), Rc::default());
    let connect = h2::client::handshake(client);
    let (connected, server) = tokio::join!(connect, h2::server::handshake(io));
    let ((mut client, connection), mut server) = (connected.unwrap(), server.unwrap());
    tokio::task::spawn_local(connection);
    let mut answers = Vec::new();
    let mut streams = Vec::new();
    for _ in 0..10 {
        answers.push(client.send_request(http::Request::new(()), true).unwrap().0);
    }
    for _ in 0..10 {
        streams.push(server.accept().await.unwrap().unwrap().1);
    }
    let answer: Vec<u8> = (0..=u8::MAX).cycle().take(length).collect();
    let before = writes.load(Ordering::Relaxed);
    for mut stream in streams {
        respond::message(&mut stream, Bytes::from(answer.clone())).unwrap();
    }
    poll_fn(|cx| Poll::Ready(server.poll_closed(cx).is_ready())).await;
    let writes = writes.load(Ordering::Relaxed) - before;
    tokio::task::spawn_local(async move { poll_fn(|cx| server.poll_closed(cx)).await });
    for response in answers {
        let mut body = response.await.unwrap().into_body();
        let mut read = Vec::new();
        while let Some(part) = body.data().await {
            read.extend_from_slice(&part.unwrap());
        }
        assert_eq!(read, answer);
    }
    writes
}
