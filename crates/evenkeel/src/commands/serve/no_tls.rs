//! Replaces `tls` in a program that was built without TLS. Its types have no values.

use std::path::Path;

use tokio::net::TcpStream;

use crate::exit;
use crate::failure::Failure;

#[derive(Debug)]
pub(super) enum Tls {}

#[derive(Debug)]
pub(super) enum Acceptor {}

impl Tls {
    /// # Errors
    /// Always: the program can't encrypt.
    pub(super) fn open(_certificate: &Path, _key: &Path) -> Result<Tls, Failure> {
        Err(Failure::text(exit::NOT_POSSIBLE, "encrypt", "this program was built without TLS").hint(
            "the program of the container image has it, and `cargo build --release -p evenkeel --features tls`; or put a proxy with TLS before it",
        ))
    }

    pub(super) fn acceptor(&self) -> Acceptor {
        match *self {}
    }
}

impl Acceptor {
    pub(super) async fn accept(&self, _stream: TcpStream) -> std::io::Result<TcpStream> {
        match *self {}
    }
}
