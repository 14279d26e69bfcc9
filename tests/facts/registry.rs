//! Tests the lookup of images against a registry that is real but for its images.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use the_deployer::lookups::LookupLimits;
use the_deployer::lookups::image::ImageReference;
use the_deployer::lookups::registry::ANY_OTHER;
use the_deployer::lookups::registry::BasicLogin;
use the_deployer::lookups::registry::Registries;
use the_deployer::lookups::registry::RegistryAccess as Known;
use the_deployer::model::facts::RegistryImage;
use the_deployer::support::credential::Credential;
use the_deployer::support::http::OutboundHttp;

use super::{PATIENCE, provider};
use crate::harness::registry::{Entry, PASSWORD, Registry, Trouble};
use crate::harness::requests::at;

pub(super) fn login(password: &str) -> BasicLogin {
    let password = Credential { secret: password.into(), file: None };
    BasicLogin { username: "deployer".to_owned(), password }
}

pub(super) fn client(registry: &Registry, login: Option<BasicLogin>) -> Registries {
    client_of(registry, login, &[])
}

/// The same where the configuration names these hosts, too.
pub(super) fn client_of(
    registry: &Registry,
    login: Option<BasicLogin>,
    others: &[&str],
) -> Registries {
    let other = |host: &&str| ((*host).to_owned(), Known { login: None, insecure: true });
    let mut known: BTreeMap<_, _> = others.iter().map(other).collect();
    known.insert(registry.host(), Known { login, insecure: true });
    provider();
    Registries::new(known, PATIENCE, &OutboundHttp::default()).unwrap()
}

/// One that waits for as long as is said.
pub(super) fn patient_client(registry: &Registry, patience: LookupLimits) -> Registries {
    let known = BTreeMap::from([(registry.host(), Known { login: None, insecure: true })]);
    provider();
    Registries::new(known, patience, &OutboundHttp::default()).unwrap()
}

pub(super) fn image(registry: &Registry, rest: &str) -> ImageReference {
    ImageReference::parse(&format!("{}/{rest}", registry.host())).unwrap()
}

async fn has(client: &Registries, registry: &Registry, rest: &str, now: Timestamp) -> bool {
    let lookup = client.find_tag(&image(registry, rest), None, now).await.unwrap();
    matches!(lookup.image, RegistryImage::Present { .. })
}

async fn refused(client: &Registries, registry: &Registry, rest: &str) -> String {
    let error = client.find_tag(&image(registry, rest), None, at(0)).await.unwrap_err();
    let said = error.to_string();
    assert!(!format!("{said}{client:?}").contains(PASSWORD), "{said}");
    said
}

#[tokio::test]
async fn a_tag_is_there_or_not_however_one_comes_in() {
    for (entry, login) in [
        (Entry::Open, None),
        (Entry::TokenForAll, None),
        (Entry::Token, Some(login(PASSWORD))),
        (Entry::Basic, Some(login(PASSWORD))),
    ] {
        let registry = Registry::start(entry, &["acme/shop:1.0"]).await;
        let client = client(&registry, login);
        assert!(has(&client, &registry, "acme/shop:1.0", at(0)).await, "{entry:?}");
        assert!(!has(&client, &registry, "acme/shop:2.0", at(0)).await, "{entry:?}");
        assert!(!has(&client, &registry, "acme/other:1.0", at(0)).await, "{entry:?}");
    }
}

#[tokio::test]
async fn a_token_is_asked_for_once_and_again_when_it_has_ended() {
    let registry = Registry::start(Entry::TokenForAll, &["a/b:1", "a/b:2", "a/b:3"]).await;
    let client = client(&registry, None);
    let tokens = || registry.asked().iter().filter(|asked| asked.starts_with("GET /token")).count();
    assert!(has(&client, &registry, "a/b:1", at(0)).await);
    assert!(has(&client, &registry, "a/b:2", at(1)).await);
    assert_eq!(tokens(), 1, "the second tag is of the same repository");
    registry.lock().revoke_tokens();
    assert!(has(&client, &registry, "a/b:3", at(2)).await);
    assert_eq!(tokens(), 2, "one that is refused is not used again");
    assert!(!has(&client, &registry, "a/b:4", at(295)).await);
    assert_eq!(tokens(), 3, "nor one in its last moments");
}

#[tokio::test]
async fn that_a_tag_is_there_is_remembered_for_minutes_and_that_it_is_not_for_seconds() {
    let registry = Registry::start(Entry::Open, &["a/b:1"]).await;
    let client = client(&registry, None);
    for (second, tag, asked) in
        [(0, "1", 1), (599, "1", 1), (600, "1", 2), (0, "2", 3), (4, "2", 3), (5, "2", 4)]
    {
        has(&client, &registry, &format!("a/b:{tag}"), at(second)).await;
        assert_eq!(registry.asked().len(), asked, "{tag} at {second}");
    }
    let name = image(&registry, "a/b:1");
    let known = client.find_tag(&name, None, at(601)).await.unwrap();
    assert_eq!(known.at, at(600), "it is as old as the answer");
    let asked = registry.asked().len();
    assert_eq!(client.find_tag(&name, Some(at(600)), at(602)).await.unwrap(), known);
    assert_eq!(registry.asked().len(), asked, "not older than is wanted");
    assert_eq!(client.find_tag(&name, Some(at(601)), at(603)).await.unwrap().at, at(603));
    assert_eq!(registry.asked().len(), asked + 1);
}

#[tokio::test]
async fn who_does_not_know_head_is_asked_by_get() {
    let registry = Registry::start(Entry::Open, &["a/b:1"]).await;
    registry.lock().only_get = true;
    let client = client(&registry, None);
    assert!(has(&client, &registry, "a/b:1", at(0)).await);
    assert!(!has(&client, &registry, "a/b:2", at(0)).await);
    assert_eq!(registry.asked().last().unwrap(), "GET /v2/a/b/manifests/2");
}

#[tokio::test]
async fn a_registry_that_refuses_us_says_nothing_of_the_tag() {
    for (entry, with, words) in [
        (Entry::Token, None, "gives no token (it answers 401); add a login under `registries`"),
        (Entry::Token, Some(login("wrong")), "the login under `registries` is wrong"),
        (Entry::Basic, None, "requires a login: add one under `registries`"),
        (Entry::Basic, Some(login("wrong")), "answers 401 for a/b; the login"),
    ] {
        let registry = Registry::start(entry, &["a/b:1"]).await;
        let said = refused(&client(&registry, with), &registry, "a/b:1").await;
        assert!(said.contains(words), "{said}");
    }
}

#[tokio::test]
async fn a_password_never_goes_to_another_host_in_the_clear() {
    let registry = Registry::start(Entry::Token, &["a/b:1"]).await;
    let thief = Registry::start(Entry::Open, &[]).await;
    let elsewhere = thief.host().replace("127.0.0.1", "localhost");
    for realm in [
        format!("http://{elsewhere}/token"),
        format!("http://user@{}/token", thief.host()),
        "ftp://x/token".to_owned(),
        "nonsense".to_owned(),
    ] {
        registry.lock().realm = Some(realm.clone());
        let said = refused(&client(&registry, Some(login(PASSWORD))), &registry, "a/b:1").await;
        assert!(
            said.contains("names a token server that the service does not use"),
            "{realm}: {said}"
        );
    }
    assert_eq!(thief.asked(), Vec::<String>::new());
    assert!(registry.proofs().iter().all(Option::is_none), "{:?}", registry.proofs());
}

#[tokio::test]
async fn one_fault_is_forgiven_and_two_are_not() {
    let registry = Registry::start(Entry::Open, &["a/b:1"]).await;
    let client = client(&registry, None);
    registry.lock().trouble = Some(Trouble::Failing(1));
    assert!(has(&client, &registry, "a/b:1", at(0)).await);
    registry.lock().trouble = Some(Trouble::Failing(2));
    let said = refused(&client, &registry, "a/b:2").await;
    assert!(said.contains("answers 502"), "{said}");
    assert_eq!(registry.asked().len(), 4);
    registry.lock().trouble = Some(Trouble::Busy);
    let said = refused(&client, &registry, "a/b:3").await;
    assert!(said.contains("limits the rate of requests now"), "{said}");
    assert_eq!(registry.asked().len(), 5, "who wants to be left alone is");
}

#[tokio::test]
async fn silence_ends_in_time() {
    let registry = Registry::start(Entry::Open, &[]).await;
    registry.lock().trouble = Some(Trouble::Silent);
    let client = client(&registry, None);
    let said = refused(&client, &registry, "a/b:1");
    let said = tokio::time::timeout(Duration::from_secs(30), said).await.unwrap();
    assert!(said.contains("did not answer within 500ms"), "{said}");
    assert_eq!(registry.asked().len(), 2);
}

#[tokio::test]
async fn only_what_is_configured_is_asked() {
    let registry = Registry::start(Entry::Open, &["a/b:1"]).await;
    let any = BTreeMap::from([(ANY_OTHER.to_owned(), Known::default())]);
    provider();
    let any = Registries::new(any, PATIENCE, &OutboundHttp::default()).unwrap();
    let none = Registries::new(BTreeMap::new(), PATIENCE, &OutboundHttp::default()).unwrap();
    let image = image(&registry, "a/b:1");
    for client in [&any, &none] {
        assert!(!client.may_ask(&image), "an address of this machine must be named");
        let said = client.find_tag(&image, None, at(0)).await.unwrap_err().to_string();
        assert!(said.contains("is not under `registries`"), "{said}");
    }
    assert!(any.may_ask(&ImageReference::parse("ghcr.io/a/b:1").unwrap()));
    assert_eq!(registry.asked(), Vec::<String>::new());
}
