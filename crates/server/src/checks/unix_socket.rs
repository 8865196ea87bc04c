//! A Unix socket that does not wake its thread without need.
//!
//! On Linux a Unix socket becomes writable again each time the other end has read from it. epoll
//! reports this if the socket is registered for writing, and tokio's `UnixStream` always is. So
//! each answer that Envoy read woke this thread once more (seen with strace: two `epoll_wait` per
//! check, the second for nothing) and took the processor from Envoy, which often shares it.
//!
//! Here a socket is always registered for reading. It is registered for writing as well only while
//! its send buffer is full. This second registration takes a file descriptor. If there is none
//! left, the socket is tried again after a pause: the connection carries checks of many clients,
//! and must not end because others have taken all descriptors.

use std::io::{self, ErrorKind, Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::unix::AsyncFd;
use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf};
use tokio::time::{Sleep, sleep};

/// Maximum bytes per read: as much as `h2` asks for.
const CHUNK: usize = 8 << 10;
/// Pause of a full socket that cannot be registered for writing, for lack of a file descriptor or
/// of memory.
const WRITE_BACKOFF: Duration = Duration::from_millis(20);

/// A Unix socket.
#[derive(Debug)]
pub(crate) struct UnixSocket {
    /// Registered for reading.
    socket: AsyncFd<UnixStream>,
    /// What the next write waits for; `None` unless the send buffer is full.
    full: Option<Room>,
}

/// The event after which a full send buffer may have room.
#[derive(Debug)]
enum Room {
    /// epoll reports room: this is the same socket, registered for writing.
    Reported(AsyncFd<UnixStream>),
    /// The socket could not be registered for writing. The write is tried again after this pause.
    Later(Pin<Box<Sleep>>),
}

impl UnixSocket {
    /// From a non-blocking socket. Must be called in a runtime.
    pub(crate) fn new(socket: UnixStream) -> io::Result<Self> {
        Ok(Self { socket: register(socket, Interest::READABLE)?, full: None })
    }

    fn poll_write_with(
        &mut self,
        cx: &mut Context<'_>,
        mut write: impl FnMut(&UnixStream) -> io::Result<usize>,
    ) -> Poll<io::Result<usize>> {
        loop {
            let written = match &mut self.full {
                None => write(self.socket.get_ref()),
                Some(Room::Later(pause)) => {
                    ready!(pause.as_mut().poll(cx));
                    self.full = None;
                    continue;
                }
                Some(Room::Reported(full)) => {
                    let mut ready = ready!(full.poll_write_ready(cx))?;
                    let Ok(written) = ready.try_io(|socket| write(socket.get_ref())) else {
                        continue;
                    };
                    drop(ready);
                    self.full = None;
                    written
                }
            };
            match written {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    self.full = Some(Room::watch(self.socket.get_ref()));
                }
                written => return Poll::Ready(written),
            }
        }
    }
}

impl Room {
    /// The event to wait for after a write found the send buffer full. If the socket has become
    /// writable in the meantime, the registration reports it at once.
    fn watch(socket: &UnixStream) -> Self {
        let registered = socket.try_clone().and_then(|same| register(same, Interest::WRITABLE));
        registered.map_or_else(|_| Self::Later(Box::pin(sleep(WRITE_BACKOFF))), Self::Reported)
    }
}

#[expect(
    deprecated,
    reason = "the replacement is unsafe, because a descriptor may change or be closed; a socket of \
              the standard library keeps its descriptor until it is dropped"
)]
fn register(socket: UnixStream, interest: Interest) -> io::Result<AsyncFd<UnixStream>> {
    AsyncFd::with_interest(socket, interest)
}

impl AsyncRead for UnixSocket {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        to: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        loop {
            let mut ready = ready!(self.socket.poll_read_ready(cx))?;
            // Zeroing the buffer comes after the line above, because every second call ends there
            // without data.
            let mut bytes = [0; CHUNK];
            let room = to.remaining().min(CHUNK);
            let bytes = bytes.get_mut(..room).unwrap_or_default();
            match ready.try_io(|socket| socket.get_ref().read(bytes)) {
                Ok(Ok(read)) => {
                    if 0 < read && read < room {
                        // The socket is empty now. New data makes it readable again, so no further
                        // read is needed to find that out.
                        ready.clear_ready();
                    }
                    to.put_slice(bytes.get(..read).unwrap_or_default());
                    return Poll::Ready(Ok(()));
                }
                Ok(Err(error)) if error.kind() == ErrorKind::Interrupted => {}
                Ok(Err(error)) => return Poll::Ready(Err(error)),
                Err(_would_block) => {}
            }
        }
    }
}

impl AsyncWrite for UnixSocket {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        from: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.get_mut().poll_write_with(cx, |mut socket| socket.write(from))
    }

    fn poll_flush(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(match self.socket.get_ref().shutdown(Shutdown::Write) {
            // The other end has already closed the connection.
            Err(error) if error.kind() == ErrorKind::NotConnected => Ok(()),
            ended => ended,
        })
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    fn pair() -> (UnixSocket, UnixSocket) {
        let (one, other) = UnixStream::pair().unwrap();
        let register = |socket: UnixStream| {
            socket.set_nonblocking(true).unwrap();
            UnixSocket::new(socket).unwrap()
        };
        (register(one), register(other))
    }

    /// Sends far more than the socket buffers hold, so that the writer has to wait again and again.
    #[tokio::test]
    async fn written_data_arrives_even_if_the_socket_is_full() {
        let (mut writer, mut reader) = pair();
        let sent: Vec<u8> =
            (0..5_000_000_u32).map(|number| number.to_le_bytes()[number as usize % 4]).collect();
        let wanted = sent.clone();
        let write = tokio::spawn(async move {
            writer.write_all(&sent).await.unwrap();
            writer.shutdown().await.unwrap();
            assert!(writer.full.is_none());
            let mut answer = Vec::new();
            writer.read_to_end(&mut answer).await.unwrap();
            assert_eq!(answer, b"all there", "the other way is still open");
        });
        let mut received = Vec::new();
        reader.read_to_end(&mut received).await.unwrap();
        assert!(received == wanted);
        reader.write_all(b"all there").await.unwrap();
        drop(reader);
        write.await.unwrap();
    }

    /// In a process of its own: file descriptors are those of the whole process.
    #[tokio::test]
    async fn a_full_socket_without_a_file_descriptor_is_written_to_later() {
        const ALONE: &str = "TEST_ALONE";
        if std::env::var_os(ALONE).is_none() {
            let test = "checks::unix_socket::tests::a_full_socket_without_a_file_descriptor_is_written_to_later";
            let mut limited = std::process::Command::new("/bin/sh");
            limited
                .args(["-c", "ulimit -n 64; exec \"$0\" \"$@\""])
                .arg(std::env::current_exe().unwrap());
            let output = limited.args([test, "--exact"]).env(ALONE, "1").output().unwrap();
            let printed = String::from_utf8_lossy(&output.stdout);
            assert!(output.status.success() && printed.contains("1 passed"), "{printed}");
            return;
        }
        let (mut writer, mut reader) = pair();
        let taken: Vec<_> = std::iter::from_fn(|| std::fs::File::open("/dev/null").ok()).collect();
        let write = tokio::spawn(async move {
            let written = writer.write_all(&[b'x'; 5_000_000]).await;
            written.map(|()| writer.full.is_none())
        });
        let mut received = vec![0; 1_000_000];
        reader.read_exact(&mut received).await.unwrap();
        // The rest is written as usual.
        drop(taken);
        reader.read_to_end(&mut received).await.unwrap();
        assert!(received == [b'x'; 5_000_000]);
        assert!(write.await.unwrap().unwrap());
    }

    #[tokio::test]
    async fn a_closed_peer_is_an_end_of_file_or_an_error() {
        let (mut one, other) = pair();
        drop(other);
        assert_eq!(one.read(&mut [0; 8]).await.unwrap(), 0);
        assert!(one.write_all(b"x").await.is_err());
        one.shutdown().await.unwrap();
    }

    #[tokio::test]
    async fn data_read_byte_by_byte_is_complete() {
        let (mut one, mut other) = pair();
        let read = tokio::spawn(async move {
            let mut all = [0; 6];
            for place in &mut all {
                *place = other.read_u8().await.unwrap();
            }
            all
        });
        for part in [b"ab".as_slice(), b"c", b"def"] {
            one.write_all(part).await.unwrap();
            tokio::task::yield_now().await;
        }
        assert_eq!(read.await.unwrap(), *b"abcdef");
    }
}
