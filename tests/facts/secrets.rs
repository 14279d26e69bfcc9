//! Which keys secrets have, asked of a Vault and of an API server.

use std::collections::BTreeSet;

use the_deployer::lookups::kubernetes;
use the_deployer::lookups::kubernetes::Kubernetes;
use the_deployer::lookups::vault;
use the_deployer::lookups::vault::VaultClient;
use the_deployer::model::id::Namespace;
use the_deployer::support::credential::Credential;
use the_deployer::support::http::OutboundHttp;

use super::{PATIENCE, provider};
use crate::harness::requests::at;
use crate::harness::secrets::{Keeper, Trouble};

fn vault(keeper: &Keeper, token: &str) -> VaultClient {
    provider();
    let settings = vault::VaultSettings {
        address: keeper.address(),
        mount: "kv".to_owned(),
        namespace: None,
        token: Credential { secret: token.into(), file: None },
    };
    VaultClient::new(settings, PATIENCE, &OutboundHttp::default()).unwrap()
}

fn cluster(keeper: &Keeper, token: &str) -> Kubernetes {
    provider();
    let token = Credential { secret: token.into(), file: None };
    let settings = kubernetes::KubernetesSettings { server: keeper.address(), token, ca: None };
    Kubernetes::new(settings, PATIENCE, &OutboundHttp::default()).unwrap()
}

fn set(keys: &[&str]) -> BTreeSet<String> {
    keys.iter().map(|key| (*key).to_owned()).collect()
}

fn devx() -> Namespace {
    Namespace::parse("devx").unwrap()
}

#[tokio::test]
async fn vault_says_which_keys_there_are() {
    let keeper = Keeper::start().await;
    keeper.put("devx/shop/db", &["user", "password"]);
    let vault = vault(&keeper, "good-token");
    let found = vault.keys("devx/shop/db", &set(&["user", "other"]), at(0)).await.unwrap();
    assert_eq!(found, Some(set(&["password", "user"])));
    assert_eq!(vault.keys("devx/shop/none", &set(&["user"]), at(0)).await.unwrap(), None);
    assert_eq!(vault.keys("devx/shop/db", &set(&[]), at(0)).await.unwrap(), Some(set(&[])));
    assert_eq!(vault.keys("devx/shop/none", &set(&[]), at(0)).await.unwrap(), None);
    let asked = keeper.lock().asked.clone();
    assert_eq!(asked[0], "v1/kv/subkeys/devx/shop/db");
    assert_eq!(asked[2], "v1/kv/metadata/devx/shop/db", "without keys none are asked for");
}

#[tokio::test]
async fn a_secret_whose_newest_version_is_deleted_is_not_there() {
    let keeper = Keeper::start().await;
    keeper.put("a/b", &["k"]);
    let vault = vault(&keeper, "good-token");
    let there = async |keys: &[&str]| vault.keys("a/b", &set(keys), at(0)).await.unwrap().is_some();
    keeper.lock().deleted.insert("a/b".to_owned(), "2024-01-01T00:00:00.123456789Z".to_owned());
    assert!(!there(&[]).await && !there(&["k"]).await);
    keeper.lock().deleted.insert("a/b".to_owned(), "2099-01-01T00:00:00Z".to_owned());
    assert!(there(&[]).await, "it will be, and is not yet");
}

#[tokio::test]
async fn an_old_vault_cannot_list_keys_and_is_believed_to_have_them() {
    let keeper = Keeper::start().await;
    keeper.put("a/b", &["k"]);
    keeper.lock().old = true;
    let vault = vault(&keeper, "good-token");
    assert_eq!(vault.keys("a/b", &set(&["x"]), at(0)).await.unwrap(), Some(set(&["x"])));
    assert_eq!(vault.keys("a/c", &set(&["x"]), at(0)).await.unwrap(), None);
}

#[tokio::test]
async fn what_vault_does_not_say_is_not_known_and_why() {
    let keeper = Keeper::start().await;
    keeper.put("a/b", &["k"]);
    let good = vault(&keeper, "good-token");
    for (trouble, words) in [
        (Trouble::Forbidden, "does not let the service's token read kv/subkeys/a/b (403)"),
        (Trouble::Sealed, "is sealed or down (503)"),
        (Trouble::Silent, "did not answer within"),
        (Trouble::Elsewhere, "redirects (307), where the service's token does not go"),
        (Trouble::Nonsense, "answers what cannot be read"),
    ] {
        keeper.lock().trouble = Some(trouble);
        let said = good.keys("a/b", &set(&["k"]), at(0)).await.unwrap_err().to_string();
        assert!(said.contains(words), "{trouble:?}: {said}");
    }
    keeper.lock().trouble = None;
    let bad = vault(&keeper, "bad-token");
    let said = bad.keys("a/b", &set(&[]), at(0)).await.unwrap_err().to_string();
    assert!(said.contains("kv/metadata/a/b (403)"), "{said}");
    assert!(!format!("{said}{bad:?}").contains("bad-token"), "{said}");
    let asked = keeper.lock().asked.len();
    let said = good.keys("../sys/raw", &set(&["k"]), at(0)).await.unwrap_err().to_string();
    assert!(said.contains("cannot be a path in Vault"), "{said}");
    assert_eq!(keeper.lock().asked.len(), asked, "nobody was asked");
}

#[tokio::test]
async fn a_wrong_mount_is_no_missing_secret() {
    let keeper = Keeper::start().await;
    provider();
    let settings = vault::VaultSettings {
        address: format!("{}/", keeper.address()),
        mount: "secret".to_owned(),
        namespace: Some("team".to_owned()),
        token: Credential { secret: "good-token".into(), file: None },
    };
    keeper.lock().namespace = Some("team".to_owned());
    let vault = VaultClient::new(settings, PATIENCE, &OutboundHttp::default()).unwrap();
    for keys in [set(&[]), set(&["k"])] {
        let said = vault.keys("a/b", &keys, at(0)).await.unwrap_err().to_string();
        assert!(said.contains("has no engine mounted at secret"), "{said}");
    }
}

#[tokio::test]
async fn a_cluster_has_a_secret_or_what_will_make_one() {
    let keeper = Keeper::start().await;
    for path in [
        "api/v1/namespaces/devx/secrets/plain",
        "apis/external-secrets.io/v1/namespaces/devx/externalsecrets/external",
        "apis/external-secrets.io/v1beta1/namespaces/devx/externalsecrets/older",
        "apis/secrets.hashicorp.com/v1beta1/namespaces/devx/vaultstaticsecrets/static",
    ] {
        keeper.put(path, &[]);
    }
    let cluster = cluster(&keeper, "good-token");
    let keys = set(&["user"]);
    for name in ["plain", "external", "older", "static"] {
        let found = cluster.keys(&devx(), name, &keys).await.unwrap();
        assert_eq!(found.as_ref(), Some(&keys), "{name}: its keys are believed");
    }
    assert_eq!(cluster.keys(&devx(), "none", &keys).await.unwrap(), None);
}

#[tokio::test]
async fn what_a_cluster_does_not_say_is_not_known_and_why() {
    let keeper = Keeper::start().await;
    let good = cluster(&keeper, "good-token");
    keeper.lock().trouble = Some(Trouble::Forbidden);
    let said = good.keys(&devx(), "a", &set(&[])).await.unwrap_err().to_string();
    assert!(said.contains("does not let the service get secrets in devx (403)"), "{said}");
    keeper.lock().trouble = None;
    let bad = cluster(&keeper, "bad-token");
    let said = bad.keys(&devx(), "a", &set(&[])).await.unwrap_err().to_string();
    assert!(said.contains("does not accept the service's token (401)"), "{said}");
    assert!(!format!("{said}{bad:?}").contains("bad-token"), "{said}");
    for name in ["", "..", "."] {
        assert!(good.keys(&devx(), name, &set(&[])).await.is_err(), "{name:?}");
    }
}

#[tokio::test]
async fn settings_that_cannot_work_are_refused() {
    provider();
    let token = Credential { secret: "t".into(), file: None };
    let settings = kubernetes::KubernetesSettings {
        server: "https://localhost".to_owned(),
        token: token.clone(),
        ca: Some(b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n".to_vec()),
    };
    assert!(Kubernetes::new(settings.clone(), PATIENCE, &OutboundHttp::default()).is_err());
    let settings =
        kubernetes::KubernetesSettings { server: "nowhere".to_owned(), ca: None, ..settings };
    assert!(Kubernetes::new(settings, PATIENCE, &OutboundHttp::default()).is_err());
}
