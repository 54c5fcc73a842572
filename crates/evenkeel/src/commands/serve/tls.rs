//! The certificate and its key.
//! The server reads them again when their files change, because certificates are renewed every few weeks.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

use evenkeel_hostfs::user_file;
pub(super) use tokio_rustls::TlsAcceptor as Acceptor;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::{self, ServerConfig};

use super::access::read_private;
use crate::exit;
use crate::failure::Failure;

/// The maximum size of a key file, and of a file with a certificate and its chain.
const FILE_BYTES_MAX: u64 = 256 << 10;
/// The maximum number of certificates in a chain.
const CHAIN_MAX: usize = 16;

/// The files, and their content at the last read.
pub(super) struct Tls {
    certificate: PathBuf,
    key: PathBuf,
    current: Mutex<Current>,
}

struct Current {
    /// The times of the files' last changes.
    changed: [Option<SystemTime>; 2],
    config: Arc<ServerConfig>,
}

impl Tls {
    /// Reads both files.
    ///
    /// # Errors
    /// If one of the files can't be read, if others may read the key, or if the key does not belong to the certificate.
    pub(super) fn open(certificate: &Path, key: &Path) -> Result<Tls, Failure> {
        let changed = changed(certificate, key);
        let config = load(certificate, key)?;
        let current = Mutex::new(Current { changed, config });
        Ok(Tls { certificate: certificate.to_owned(), key: key.to_owned(), current })
    }

    /// The configuration of the next connection.
    /// If the two files do not match, the previous ones stay in use, because a renewal writes one file after the other.
    pub(super) fn acceptor(&self) -> Acceptor {
        let changed = changed(&self.certificate, &self.key);
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        if changed != current.changed
            && let Ok(config) = load(&self.certificate, &self.key)
        {
            *current = Current { changed, config };
        }
        Acceptor::from(Arc::clone(&current.config))
    }
}

fn changed(certificate: &Path, key: &Path) -> [Option<SystemTime>; 2] {
    [certificate, key].map(|path| std::fs::metadata(path).and_then(|there| there.modified()).ok())
}

fn load(certificate: &Path, key: &Path) -> Result<Arc<ServerConfig>, Failure> {
    let of_certificate = || format!("read the certificate in {}", certificate.display());
    let of_key = || format!("read the key in {}", key.display());
    let of_both = || format!("use the certificate in {} with the key in {}", certificate.display(), key.display());
    let wrong = |tried: String, why: &dyn std::fmt::Display| {
        let hint = "--tls-cert takes the certificate and its chain, --tls-key its private key, both in PEM";
        Failure::text(exit::WRONG_USE, tried, why).hint(hint)
    };
    let text = user_file::read_text(certificate, FILE_BYTES_MAX)
        .map_err(|error| Failure::user_file(of_certificate(), &error))?;
    let chain = CertificateDer::pem_slice_iter(text.as_bytes()).take(CHAIN_MAX + 1).collect::<Result<Vec<_>, _>>();
    let chain = chain.map_err(|error| wrong(of_certificate(), &error))?;
    match chain.len() {
        0 => return Err(wrong(of_certificate(), &"it has no certificate in PEM")),
        1..=CHAIN_MAX => {}
        _ => return Err(wrong(of_certificate(), &format!("it has more than {CHAIN_MAX} certificates"))),
    }
    let private = read_private(key, FILE_BYTES_MAX, of_key())?;
    let private = PrivateKeyDer::from_pem_slice(private.as_bytes()).map_err(|error| wrong(of_key(), &error))?;
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .and_then(|builder| builder.with_no_client_auth().with_single_cert(chain, private));
    let mut config = config.map_err(|error: rustls::Error| wrong(of_both(), &error))?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}
