//! An API server over TLS, with an authority of its own as clusters have them.

use std::collections::BTreeSet;
use std::sync::Arc;

use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use the_deployer::facts::credential::Credential;
use the_deployer::facts::kubernetes::{Kubernetes, Settings};
use the_deployer::outbound::Outbound;
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;

use super::{PATIENCE, provider};
use crate::harness::secrets::Keeper;

const CA: &[u8] = include_bytes!("tls/ca.pem");
/// Issued by that authority for 127.0.0.1, until 2126.
const SERVER: &[u8] = include_bytes!("tls/server.pem");
const KEY: &[u8] = include_bytes!("tls/server.key");

/// Passes on what comes over TLS; its address.
async fn over_tls(keeper: &Keeper) -> String {
    provider();
    let chain = vec![CertificateDer::from_pem_slice(SERVER).unwrap()];
    let key = PrivateKeyDer::from_pem_slice(KEY).unwrap();
    let config = ServerConfig::builder().with_no_client_auth().with_single_cert(chain, key);
    let acceptor = TlsAcceptor::from(Arc::new(config.unwrap()));
    let inner = keeper.address().replace("http://", "");
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("https://{}", listener.local_addr().unwrap());
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let Ok(mut outside) = acceptor.accept(stream).await else { continue };
            let mut inside = TcpStream::connect(&inner).await.unwrap();
            tokio::spawn(async move {
                let _ends = tokio::io::copy_bidirectional(&mut outside, &mut inside).await;
            });
        }
    });
    address
}

#[tokio::test]
async fn a_cluster_is_trusted_by_its_own_authority_and_by_no_other() {
    let keeper = Keeper::start().await;
    keeper.put("api/v1/namespaces/devx/secrets/db", &[]);
    let server = over_tls(&keeper).await;
    let ask = async |ca: Option<&[u8]>| {
        let token = Credential::Fixed("good-token".into());
        let settings = Settings { server: server.clone(), token, ca: ca.map(<[u8]>::to_vec) };
        let cluster = Kubernetes::new(settings, PATIENCE, &Outbound::default()).unwrap();
        cluster.keys(&"devx".parse().unwrap(), "db", &BTreeSet::new()).await
    };
    assert_eq!(ask(Some(CA)).await, Ok(Some(BTreeSet::new())));
    let asked = keeper.lock().asked.len();
    let said = ask(None).await.unwrap_err().to_string();
    assert!(said.contains("cannot be reached: invalid peer certificate"), "{said}");
    assert!(ask(Some(SERVER)).await.is_err(), "the server's own certificate is no authority");
    assert_eq!(keeper.lock().asked.len(), asked, "our token went nowhere");
}
