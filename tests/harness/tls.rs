//! TLS in front of a server of the tests, by an authority that no machine trusts.

use std::sync::Arc;

use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;

/// The authority.
pub(crate) const CA: &str = include_str!("../facts/tls/ca.pem");
/// Issued by that authority for 127.0.0.1, until 2126.
pub(crate) const SERVER: &str = include_str!("../facts/tls/server.pem");
const KEY: &[u8] = include_bytes!("../facts/tls/server.key");
/// As Argo CD makes one for itself, with the same extensions: no authority, and signed by itself.
pub(crate) const SELF: &str = include_str!("../facts/tls/self.pem");
const SELF_KEY: &[u8] = include_bytes!("../facts/tls/self.key");

/// Passes on what comes over TLS to `http://ADDRESS`; where it listens, with the same path.
pub(crate) async fn over_tls(address: &str) -> String {
    over_tls_as(address, SERVER, KEY).await
}

/// The same, with the certificate that nobody else has signed.
pub(crate) async fn over_tls_of_its_own(address: &str) -> String {
    over_tls_as(address, SELF, SELF_KEY).await
}

async fn over_tls_as(address: &str, certificate: &str, key: &[u8]) -> String {
    the_deployer::support::http::install_tls_provider();
    let chain = vec![CertificateDer::from_pem_slice(certificate.as_bytes()).unwrap()];
    let key = PrivateKeyDer::from_pem_slice(key).unwrap();
    let config = ServerConfig::builder().with_no_client_auth().with_single_cert(chain, key);
    let acceptor = TlsAcceptor::from(Arc::new(config.unwrap()));
    let url = reqwest::Url::parse(address).unwrap();
    let inner = (url.host_str().unwrap().to_owned(), url.port().unwrap());
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let outer = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let Ok(mut outside) = acceptor.accept(stream).await else { continue };
            let mut inside = TcpStream::connect(&inner).await.unwrap();
            tokio::spawn(async move {
                let _ends = tokio::io::copy_bidirectional(&mut outside, &mut inside).await;
            });
        }
    });
    format!("https://{outer}{}", url.path().trim_end_matches('/'))
}
