//! Whose turn it is, how much is read, and how answers are written.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use tokio::io::{AsyncReadExt as _, DuplexStream};

use super::super::respond;
use super::*;

/// A socket that always has data: so many bytes for each read.
struct Endless(usize);

impl AsyncRead for Endless {
    fn poll_read(self: Pin<&mut Self>, _: &mut Context<'_>, to: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let bytes = self.0.min(to.remaining());
        to.initialize_unfilled_to(bytes);
        to.advance(bytes);
        Poll::Ready(Ok(()))
    }
}

/// Two sockets that always have data are read in slices, in alternation.
#[tokio::test(flavor = "local")]
async fn two_busy_connections_alternate() {
    let queue = Rc::new(SliceQueue::default());
    let order = Rc::new(RefCell::new(Vec::new()));
    let endless = |name: char| {
        let (queue, order) = (Rc::clone(&queue), Rc::clone(&order));
        async move {
            let slice = Rc::new(Slice::default());
            let mut socket = Sliced::new(Endless(64), Rc::clone(&slice));
            for _ in 0..20 {
                slice.begin();
                order.borrow_mut().push(name);
                poll_fn(|cx| {
                    let mut buffer = [0; 1024];
                    while !slice.is_used_up() {
                        slice.begin_round();
                        let _ = Pin::new(&mut socket).poll_read(cx, &mut ReadBuf::new(&mut buffer));
                    }
                    Poll::Ready(())
                })
                .await;
                queue.wait_for_turn(&slice).await;
            }
        }
    };
    let run = tokio::task::spawn_local(Rc::clone(&queue).run());
    let (one, other) = (tokio::task::spawn_local(endless('a')), tokio::task::spawn_local(endless('b')));
    one.await.unwrap();
    other.await.unwrap();
    run.abort();
    assert_eq!(order.borrow().iter().collect::<String>(), "ab".repeat(20));
}

/// What a connection does when data has arrived: it begins a slice, reads `bytes` and works for `time`. It reads in few
/// calls, so that the slice does not end before all is read, however slow the machine and the program are.
async fn slice_of(slice: &Rc<Slice>, bytes: usize, time: Duration) -> bool {
    const CALL: usize = 32 << 10;
    let mut socket = Sliced::new(Endless(bytes.min(CALL)), Rc::clone(slice));
    let begins = slice.begin();
    while slice.round() < MAX_ROUND {
        slice.lengthen_rounds();
    }
    let mut read = 0;
    poll_fn(|cx| {
        let mut buffer = vec![0; CALL];
        let mut buffer = ReadBuf::new(&mut buffer);
        while read < bytes && Pin::new(&mut socket).poll_read(cx, &mut buffer).is_ready() {
            read += buffer.filled().len();
            buffer.clear();
            slice.begin_round();
        }
        Poll::Ready(())
    })
    .await;
    slice.has_worked(time);
    begins && read > 0
}

#[tokio::test(flavor = "local")]
async fn after_a_long_slice_a_connection_waits_for_its_turn_and_after_a_short_one_it_does_not() {
    let queue = Rc::new(SliceQueue::default());
    let run = tokio::task::spawn_local(Rc::clone(&queue).run());
    let (bytes, time) = (64, Duration::from_micros(1));
    for (long_bytes, long_time) in [(LONG_READ, time), (bytes, LONG_WORK)] {
        let slice = Rc::new(Slice::default());
        for _ in 0..3 {
            assert!(slice_of(&slice, bytes, time).await);
        }
        assert!(slice_of(&slice, long_bytes, long_time).await);
        for _ in 0..3 {
            assert!(!slice_of(&slice, bytes, time).await, "nothing is read before its turn");
        }
        queue.wait_for_turn(&slice).await;
        assert!(slice.begin(), "a turn with nothing to read");
        assert!(!slice_of(&slice, bytes, time).await, "the last slice with something to read was long");
        queue.wait_for_turn(&slice).await;
        for _ in 0..3 {
            assert!(slice_of(&slice, bytes, time).await);
        }
    }
    run.abort();
}

/// The number of streams that are read but not answered yet is bounded.
#[tokio::test]
async fn the_bytes_of_a_round_are_bounded() {
    let slice = Rc::new(Slice::default());
    let mut socket = Sliced::new(Endless(64), Rc::clone(&slice));
    slice.begin();
    for bound in [1, 2, 4, 8, 16, 32, 32].map(|times| times * MIN_ROUND) {
        slice.begin_round();
        assert!(!slice.is_round_full());
        let mut read = 0;
        poll_fn(|cx| {
            let mut buffer = [0; 1024];
            while Pin::new(&mut socket).poll_read(cx, &mut ReadBuf::new(&mut buffer)).is_ready() {
                read += 64;
                // The clock is not read: only the bytes are to end this.
                slice.reads.set(Some(0));
            }
            Poll::Ready(())
        })
        .await;
        assert_eq!((read, slice.is_round_full()), (bound, true));
        slice.lengthen_rounds();
    }
    slice.shorten_rounds();
    assert_eq!(slice.round(), MIN_ROUND);
}

#[tokio::test]
async fn reads_before_the_first_slice_are_not_limited() {
    let mut socket = Sliced::new(Endless(64), Rc::default());
    for _ in 0..10_000 {
        assert_eq!(socket.read(&mut [0; 64]).await.unwrap(), 64);
    }
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
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, from: &[u8]) -> Poll<io::Result<usize>> {
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

/// Also those of some hundred bytes, which `h2` would send in a write each if it could write from several buffers at once,
/// and those of more than 1,023, which it would in any case if they were one frame.
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
    let io = Sliced::new(Counting(server, Arc::clone(&writes)), Rc::default());
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
