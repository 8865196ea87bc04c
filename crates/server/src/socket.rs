//! Sockets: bound before anything starts, and removed when the server stops.

use std::fs;
use std::io::{self, ErrorKind};
use std::net::{SocketAddr, TcpListener};
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use crate::address::Address;
use crate::listener::Listener;

/// A listening socket and, for a Unix socket, its file.
#[derive(Debug)]
pub struct BoundSocket {
    /// The address that it is bound to, with the actual port if the system has chosen it.
    pub address: Address,
    /// The socket.
    pub listener: Listener,
    /// The file of a Unix socket.
    pub file: Option<SocketFile>,
}

/// The file of a Unix socket. Dropping this removes the file, unless another file has replaced it.
#[derive(Debug)]
pub struct SocketFile {
    path: PathBuf,
    /// Device and inode of the created file.
    identity: (u64, u64),
}

/// Why an address cannot be bound.
#[derive(Debug, thiserror::Error)]
#[error("cannot listen on `{address}`: {reason}; {advice}")]
pub struct BindError {
    address: Address,
    reason: String,
    advice: &'static str,
}

impl BoundSocket {
    /// Binds an address. `mode` sets the permissions of a Unix socket's file.
    ///
    /// # Errors
    /// When the address is in use, does not belong to this machine or is not permitted.
    pub fn new(address: &Address, mode: u32) -> Result<Self, BindError> {
        let bound = match address {
            Address::Tcp(at) => tcp(*at),
            Address::Unix(path) => unix(path, mode),
        };
        let address = address.clone();
        bound.map_err(|(reason, advice)| BindError { address, reason, advice })
    }
}

/// The reason and the advice of a [`BindError`].
type Failure = (String, &'static str);

#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "`ErrorKind` is not exhaustive, and this is only a text"
)]
fn tcp(at: SocketAddr) -> Result<BoundSocket, Failure> {
    let listener = TcpListener::bind(at).map_err(|error| {
        let advice = match error.kind() {
            ErrorKind::AddrInUse => {
                "stop the process that listens there, or choose another address"
            }
            ErrorKind::AddrNotAvailable => "it is not an address of this machine",
            ErrorKind::PermissionDenied => "ports below 1024 need a privilege; choose a higher one",
            _ => "choose another address",
        };
        (plain(&error), advice)
    })?;
    let real = listener.local_addr().unwrap_or(at);
    Ok(BoundSocket { address: Address::Tcp(real), listener: Listener::Tcp(listener), file: None })
}

/// Binds a Unix socket. It is created under another name and gets its mode before it is renamed, so
/// that the mode applies from the first connection on, and a stale file is replaced atomically.
fn unix(path: &Path, mode: u32) -> Result<BoundSocket, Failure> {
    check_free(path)?;
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}", std::process::id()));
    let fresh = path.with_file_name(name);
    let (listener, file) = create_socket(&fresh, path, mode).map_err(|error| {
        let _ = fs::remove_file(&fresh);
        (plain(&error), "its folder must exist, be writable and have a short name")
    })?;
    Ok(BoundSocket {
        address: Address::Unix(path.to_owned()),
        listener: Listener::Unix(listener),
        file: Some(file),
    })
}

fn create_socket(fresh: &Path, path: &Path, mode: u32) -> io::Result<(UnixListener, SocketFile)> {
    let listener = UnixListener::bind(fresh)?;
    fs::set_permissions(fresh, fs::Permissions::from_mode(mode))?;
    let metadata = fs::symlink_metadata(fresh)?;
    fs::rename(fresh, path)?;
    let identity = (metadata.dev(), metadata.ino());
    Ok((listener, SocketFile { path: path.to_owned(), identity }))
}

/// Fails if the path has a file that is no socket, or a socket with a listener. Both are left as
/// they are.
fn check_free(path: &Path) -> Result<(), Failure> {
    let metadata = match fs::symlink_metadata(path) {
        Ok(metadata) => metadata,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err((plain(&error), "its folder must exist and be readable")),
    };
    if !metadata.file_type().is_socket() {
        return Err((
            "a file that is not a socket is there".to_owned(),
            "remove it, or choose another path",
        ));
    }
    match UnixStream::connect(path) {
        Err(error)
            if matches!(error.kind(), ErrorKind::ConnectionRefused | ErrorKind::NotFound) =>
        {
            Ok(())
        }
        Err(error) if error.kind() == ErrorKind::PermissionDenied => {
            Err((plain(&error), "another user's socket is there; choose another path"))
        }
        // Any other result, such as a full backlog, means that a process listens.
        Ok(_) | Err(_) => Err((
            "the address is in use".to_owned(),
            "stop the process that listens there, or choose another path",
        )),
    }
}

#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "`ErrorKind` is not exhaustive, and this is only a text"
)]
fn plain(error: &io::Error) -> String {
    match error.kind() {
        ErrorKind::AddrInUse => "the address is in use".to_owned(),
        ErrorKind::AddrNotAvailable => "no such address".to_owned(),
        ErrorKind::PermissionDenied => "permission denied".to_owned(),
        ErrorKind::NotFound => "no such folder".to_owned(),
        _ => error.to_string(),
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        let ours = fs::symlink_metadata(&self.path)
            .is_ok_and(|file| (file.dev(), file.ino()) == self.identity);
        if ours {
            let _ = fs::remove_file(&self.path);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;
    use std::os::unix::net::{UnixListener, UnixStream};

    use super::BoundSocket;
    use crate::address::Address;

    #[test]
    fn a_socket_has_its_mode_and_goes_with_its_owner() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.sock");
        let bound = BoundSocket::new(&Address::Unix(path.clone()), 0o600).unwrap();
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
        UnixStream::connect(&path).unwrap();
        drop(bound);
        assert_eq!(folder.path().read_dir().unwrap().count(), 0);
    }

    #[test]
    fn a_stale_socket_is_replaced_and_a_live_one_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.sock");
        let address = Address::Unix(path.clone());
        drop(UnixListener::bind(&path).unwrap());
        let first = BoundSocket::new(&address, 0o660).unwrap();
        let error = BoundSocket::new(&address, 0o660).unwrap_err().to_string();
        assert!(error.contains("in use"), "{error}");
        drop(first);
        assert!(!path.exists());
    }

    #[test]
    fn another_file_is_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("precious");
        std::fs::write(&path, "1").unwrap();
        assert!(BoundSocket::new(&Address::Unix(path.clone()), 0o660).is_err());
        assert_eq!(runtime::files::text(&path).unwrap(), "1");
    }

    #[test]
    fn a_successor_keeps_its_socket() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.sock");
        let bound = BoundSocket::new(&Address::Unix(path.clone()), 0o660).unwrap();
        std::fs::remove_file(&path).unwrap();
        let _successor = UnixListener::bind(&path).unwrap();
        drop(bound);
        assert!(path.exists());
    }

    #[test]
    fn a_port_in_use_is_named() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let at = listener.local_addr().unwrap();
        let error = BoundSocket::new(&Address::Tcp(at), 0o660).unwrap_err().to_string();
        assert!(error.contains(&at.to_string()) && error.contains("in use"), "{error}");
    }
}
