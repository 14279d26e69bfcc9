//! An API server over TLS, with an authority of its own as clusters have them.

use std::collections::BTreeSet;

use the_deployer::lookups::kubernetes::Kubernetes;
use the_deployer::lookups::kubernetes::KubernetesSettings;
use the_deployer::support::credential::Credential;
use the_deployer::support::http::OutboundHttp;

use super::{PATIENCE, provider};
use crate::harness::secrets::Keeper;
use crate::harness::tls::{CA, SERVER, over_tls};

#[tokio::test]
async fn a_cluster_is_trusted_by_its_own_authority_and_by_no_other() {
    let keeper = Keeper::start().await;
    keeper.put("api/v1/namespaces/devx/secrets/db", &[]);
    provider();
    let server = over_tls(&keeper.address()).await;
    let ask = async |ca: Option<&str>| {
        let token = Credential { secret: "good-token".into(), file: None };
        let settings = KubernetesSettings {
            server: server.clone(),
            token,
            ca: ca.map(|ca| ca.as_bytes().to_vec()),
        };
        let cluster = Kubernetes::new(settings, PATIENCE, &OutboundHttp::default()).unwrap();
        cluster.keys(&"devx".parse().unwrap(), "db", &BTreeSet::new()).await
    };
    assert_eq!(ask(Some(CA)).await, Ok(Some(BTreeSet::new())));
    let asked = keeper.lock().asked.len();
    let said = ask(None).await.unwrap_err().to_string();
    assert!(said.contains("cannot be reached: invalid peer certificate"), "{said}");
    assert!(ask(Some(SERVER)).await.is_err(), "the server's own certificate is no authority");
    assert_eq!(keeper.lock().asked.len(), asked, "our token went nowhere");
}
