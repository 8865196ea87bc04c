//! Floods of TLS handshakes: real ones, which cost the server a signature each, and garbage.

use std::io::{self, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rcgen::{CertificateParams, KeyPair};
use rustls::client::Resumption;
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore};
use testbed::Failed;

use super::Scene;

const NAME: &str = "localhost";
/// The certificate of the server that was started last: attacks run one after the other.
static CERTIFICATE: Mutex<Option<CertificateDer<'static>>> = Mutex::new(None);
/// Threads of the attacker.
const CLIENTS: usize = 4;
const TIMEOUT: Duration = Duration::from_secs(2);
/// Half handshakes that are held at once.
const HALVES: usize = 500;

/// Makes a certificate with an ECDSA key, and writes both to the folder. Returns their files.
pub(crate) fn write(folder: &Path) -> Result<[String; 2], Failed> {
    let failed = |error: rcgen::Error| Failed::new("certificate", error.to_string());
    let key = KeyPair::generate().map_err(failed)?;
    let parameters = CertificateParams::new([NAME.to_owned()]).map_err(failed)?;
    let certificate = parameters.self_signed(&key).map_err(failed)?;
    *CERTIFICATE.lock().unwrap_or_else(PoisonError::into_inner) = Some(certificate.der().clone());
    let files = [("tls.pem", certificate.pem()), ("tls.key", key.serialize_pem())];
    for (name, text) in &files {
        crate::write(&folder.join(name), text)?;
    }
    Ok(files.map(|(name, _)| folder.join(name).display().to_string()))
}

/// Complete handshakes, each on a new connection that is then closed, as many as the attacker can
/// make.
pub(crate) fn handshakes(scene: &Scene) -> String {
    let mut roots = RootCertStore::empty();
    let certificate = CERTIFICATE.lock().unwrap_or_else(PoisonError::into_inner).clone();
    roots.add_parsable_certificates(certificate);
    let mut config = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    // Each is a new one: no session is resumed, which would spare the server its signature.
    config.resumption = Resumption::disabled();
    let config = Arc::new(config);
    let done = by_all(scene, |scene| {
        let mut done = 0;
        loop {
            done += u64::from(handshake(&config, scene.address).is_ok());
            if scene.is_over() {
                return done;
            }
        }
    });
    format!("{done} handshakes")
}

fn handshake(config: &Arc<ClientConfig>, address: SocketAddr) -> io::Result<()> {
    let mut stream = connect(address)?;
    let name = ServerName::try_from(NAME).map_err(io::Error::other)?;
    let mut client = ClientConnection::new(Arc::clone(config), name).map_err(io::Error::other)?;
    while client.is_handshaking() {
        client.complete_io(&mut stream)?;
    }
    Ok(())
}

/// Connections that send no TLS, a record of garbage, or the beginning of a handshake. The last are
/// held.
pub(crate) fn garbage(scene: &Scene) -> String {
    // A handshake record of 16 KiB (RFC 8446, 5.1) with a ClientHello of that length (4): nothing,
    // or all, of it is there.
    let record = [&[22, 3, 1, 0x40, 0][..], &[1, 0, 0x3F, 0xFC], &vec![0xA5; 0x3FFC]].concat();
    let halves = AtomicU64::new(0);
    let sent = by_all(scene, |scene| {
        let (mut sent, mut held) = (0, Vec::new());
        while !scene.is_over() {
            for bytes in [&b"GET / HTTP/1.1\r\n\r\n"[..], &record, &[22, 3, 1]] {
                let Ok(mut stream) = connect(scene.address) else { continue };
                sent += u64::from(stream.write_all(bytes).is_ok());
                if bytes.len() > 3 {
                    // Until the server has closed it, or sent its alert.
                    let _ = stream.read(&mut [0; 64]);
                } else if held.len() < HALVES / CLIENTS {
                    held.push(stream);
                }
            }
        }
        halves.fetch_add(held.len() as u64, Relaxed);
        sent
    });
    format!("{sent} connections with garbage; {} half handshakes held", halves.load(Relaxed))
}

fn connect(address: SocketAddr) -> io::Result<TcpStream> {
    let stream = TcpStream::connect_timeout(&address, TIMEOUT)?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    stream.set_write_timeout(Some(TIMEOUT))?;
    Ok(stream)
}

/// Runs several attackers until the time is over, and returns the sum of what they did.
fn by_all(scene: &Scene, attack: impl Fn(&Scene) -> u64 + Sync) -> u64 {
    std::thread::scope(|scope| {
        let all: Vec<_> = (0..CLIENTS).map(|_| scope.spawn(|| attack(scene))).collect();
        all.into_iter().map(|thread| thread.join().unwrap_or_default()).sum()
    })
}
