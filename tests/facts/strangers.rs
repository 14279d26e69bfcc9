//! Tests that developers, by an image's name, and registries, by redirects and the addresses of tokens, send the
//! service to the Internet, and nowhere else.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use the_deployer::lookups::image::ImageReference;
use the_deployer::lookups::registry::ANY_OTHER;
use the_deployer::lookups::registry::Registries;
use the_deployer::lookups::registry::RegistryAccess as Known;
use the_deployer::model::facts::RegistryImage;
use the_deployer::support::http::{OutboundHttp, Proxy as Through};

use super::registry::{client, client_of, image, login};
use super::{PATIENCE, provider};
use crate::harness::proxy::Proxy;
use crate::harness::registry::{Entry, PASSWORD, Registry};
use crate::harness::requests::at;

/// Something in our own network that nobody outside may reach; it counts its visitors, whatever they speak.
struct Inner {
    port: u16,
    visits: Arc<AtomicUsize>,
}

impl Inner {
    async fn start() -> Self {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let visits = Arc::new(AtomicUsize::new(0));
        let count = visits.clone();
        tokio::spawn(async move {
            while listener.accept().await.is_ok() {
                count.fetch_add(1, Ordering::SeqCst);
            }
        });
        Self { port, visits }
    }

    fn was_left_alone(&self) {
        assert_eq!(self.visits.load(Ordering::SeqCst), 0);
    }
}

fn any(outbound: &OutboundHttp) -> Registries {
    provider();
    let known = BTreeMap::from([(ANY_OTHER.to_owned(), Known::default())]);
    Registries::new(known, PATIENCE, outbound).unwrap()
}

/// As images can name a host; what cannot be one is no image at all.
fn hosts(port: u16) -> Vec<String> {
    let of_this_machine =
        ["127.0.0.1", "127.0.0.0x1", "0x7f.1", "127.1", "0177.0.0.1", "127.0.0.1."];
    let port = |host: &&str| format!("{host}:{port}");
    let mut all: Vec<String> = of_this_machine.iter().map(port).collect();
    all.extend(
        [
            "localhost.:1",
            "a.localhost",
            "kubernetes.default.svc",
            "169.254.169.254",
            "0xa9fea9fe:80",
        ]
        .map(str::to_owned),
    );
    all.extend(
        [
            "metadata.google.internal",
            "metadata.google.internal.",
            "kubernetes.default.svc.cluster.local",
        ]
        .map(str::to_owned),
    );
    all.extend(
        ["10.0.0.1:5000", "0.0.0.0:80", "100.64.1.1", "192.0.2.1", "224.0.0.1"].map(str::to_owned),
    );
    all
}

#[tokio::test]
async fn a_wildcard_stands_for_no_address_or_name_of_our_own_network() {
    let inner = Inner::start().await;
    let client = any(&OutboundHttp::default());
    for host in hosts(inner.port) {
        let image =
            ImageReference::parse(&format!("{host}/a/b:1")).unwrap_or_else(|| panic!("{host}"));
        assert!(!client.may_ask(&image), "{host}");
        let said = client.find_tag(&image, None, at(0)).await.unwrap_err().to_string();
        assert!(said.contains("is not under `registries`"), "{host}: {said}");
    }
    inner.was_left_alone();
    for host in ["ghcr.io", "registry.example.com:5000", "8.8.8.8", "docker.io"] {
        assert!(
            client.may_ask(&ImageReference::parse(&format!("{host}/a/b:1")).unwrap()),
            "{host}"
        );
    }
}

#[tokio::test]
async fn a_network_that_is_allowed_is_gone_to() {
    let inner = Inner::start().await;
    let private_networks = vec![("127.0.0.0".parse().unwrap(), 8)];
    let client = any(&OutboundHttp { private_networks, ..OutboundHttp::default() });
    let image = ImageReference::parse(&format!("127.0.0.0x1:{}/a/b:1", inner.port)).unwrap();
    // It speaks no TLS.
    assert!(client.may_ask(&image) && client.find_tag(&image, None, at(0)).await.is_err());
    assert!(inner.visits.load(Ordering::SeqCst) > 0);
}

#[tokio::test]
async fn a_name_that_leads_to_our_own_network_is_not_connected_to() {
    let inner = Inner::start().await;
    provider();
    let client = OutboundHttp::default().public_builder().unwrap().no_proxy().build().unwrap();
    let error = client.get(format!("http://localhost:{}/", inner.port)).send().await.unwrap_err();
    let said = format!("{error:?}");
    assert!(said.contains("LeadsTo(\"localhost\""), "{said}");
    inner.was_left_alone();
}

#[tokio::test]
async fn a_registry_leads_to_no_redirect_within_our_own_network() {
    let other = Registry::start(Entry::Open, &["a/b:1"]).await;
    let port = other.host().split_once(':').unwrap().1.to_owned();
    for place in
        ["127.0.0.1", "0x7f.1", "localhost", "[::ffff:127.0.0.1]", "2130706433", "127。0。0。1"]
    {
        let registry = Registry::start(Entry::Open, &[]).await;
        let to = format!("http://{place}:{port}/v2/a/b/manifests/1");
        // A header has no other letters; they are written as bytes there.
        let to = to.replace('。', "%E3%80%82");
        registry.lock().elsewhere = Some(to);
        let client = client(&registry, None);
        let said =
            client.find_tag(&image(&registry, "a/b:1"), None, at(0)).await.unwrap_err().to_string();
        assert!(
            said.contains("name the host under `registries`, or its network"),
            "{place}: {said}"
        );
    }
    assert_eq!(other.asked(), [""; 0]);
    let registry = Registry::start(Entry::Open, &[]).await;
    registry.lock().elsewhere = Some(format!("http://{}/v2/a/b/manifests/1", other.host()));
    let client = client_of(&registry, None, &[&other.host()]);
    let found = client.find_tag(&image(&registry, "a/b:1"), None, at(0)).await.unwrap();
    assert!(
        matches!(found.image, RegistryImage::Present { .. }),
        "where the operator has named it"
    );
}

#[tokio::test]
async fn a_registry_that_sends_us_on_and_on_is_left() {
    let registry = Registry::start(Entry::Open, &[]).await;
    registry.lock().elsewhere = Some(format!("http://{}/v2/a/b/manifests/1", registry.host()));
    let asked = client(&registry, None);
    let said =
        asked.find_tag(&image(&registry, "a/b:1"), None, at(0)).await.unwrap_err().to_string();
    assert!(said.contains("redirects again and again"), "{said}");
    assert_eq!(registry.asked().len(), 4);
}

#[tokio::test]
async fn no_password_is_taken_to_a_token_service_within_our_own_network() {
    let inner = Inner::start().await;
    let registry = Registry::start(Entry::Token, &["a/b:1"]).await;
    for place in ["127.0.0.1", "127.0.0.0x1", "localhost", "[::1]", "kubernetes.default.svc"] {
        registry.lock().realm = Some(format!("https://{place}:{}/token", inner.port));
        let client = client(&registry, Some(login(PASSWORD)));
        let said =
            client.find_tag(&image(&registry, "a/b:1"), None, at(0)).await.unwrap_err().to_string();
        assert!(
            said.contains("name the host under `registries`, or its network"),
            "{place}: {said}"
        );
        assert!(!said.contains(PASSWORD));
    }
    inner.was_left_alone();
}

/// The proxy resolves names: it may be in our own network itself, and is told no name of one.
#[tokio::test]
async fn through_a_proxy_names_of_our_own_network_are_not_asked_for() {
    let proxy = Proxy::start().await;
    let url = proxy.url.replace("127.0.0.1", "localhost");
    let through = Through { url, login: None, except: Some(String::new()) };
    let client = any(&OutboundHttp { proxy: Some(through), ..OutboundHttp::default() });
    for host in
        ["kubernetes.default.svc", "metadata.google.internal", "127.0.0.0x1", "localhost.:80"]
    {
        let image = ImageReference::parse(&format!("{host}/a/b:1")).unwrap();
        assert!(client.find_tag(&image, None, at(0)).await.is_err());
    }
    assert_eq!(proxy.seen(), [""; 0]);
    let image = ImageReference::parse("registry.invalid/a/b:1").unwrap();
    assert!(client.find_tag(&image, None, at(0)).await.is_err());
    assert_eq!(proxy.seen()[0], "CONNECT registry.invalid:443");
}
