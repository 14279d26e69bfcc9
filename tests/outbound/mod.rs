//! Tests outgoing connections: through a proxy, and with an authority of one's own.

use std::time::Duration;

use the_deployer::forge::Forge;
use the_deployer::forge::error::ForgeError;
use the_deployer::forge::github::auth::key::AppCredentials;
use the_deployer::forge::github::client::{Credentials, GitHubClient, GitHubSettings};
use the_deployer::model::id::{CommitSha, RepoName};
use the_deployer::support::clock::Clock;
use the_deployer::support::http::{OutboundHttp, Proxy as Through};

use crate::harness::deployer::Deployer;
use crate::harness::events::waml;
use crate::harness::github::World;
use crate::harness::process::Home;
use crate::harness::proxy::Proxy;
use crate::harness::requests::at;
use crate::harness::tls::{CA, SELF, over_tls, over_tls_of_its_own};

const PATIENCE: Duration = Duration::from_secs(30);
const TARGET: &str = "prod-cluster-1";

/// A GitHub with a commit, and clients that come to it in several ways.
struct Stage {
    world: World,
    clock: Clock,
    commit: CommitSha,
}

impl Stage {
    async fn new() -> Self {
        let clock = Clock::manual(at(0));
        let world = World::start(&clock).await;
        let commit = world.repository("acme/web").commit("slug: web\n");
        Self { world, clock, commit: CommitSha::parse(commit).unwrap() }
    }

    /// Reads the WAML as the App.
    async fn reads(&self, api_url: &str, outbound: &OutboundHttp) -> Result<Vec<u8>, ForgeError> {
        the_deployer::support::http::install_tls_provider();
        let app = self.world.app();
        let key = AppCredentials::parse(&app.id.to_string(), &app.key.into()).unwrap();
        let credentials = Credentials::App(key, self.clock.clone());
        let settings =
            GitHubSettings { api_url: api_url.to_owned(), credentials, timeout: PATIENCE };
        let http = outbound.client_without_redirects(PATIENCE).unwrap();
        let github = Forge::GitHub(Box::new(GitHubClient::new(settings, http).unwrap()));
        let web = RepoName::parse("acme/web").unwrap();
        github.file(&web, &self.commit, ".weave.yaml", 1000).await
    }
}

fn trusting() -> OutboundHttp {
    trusting_in(CA)
}

fn trusting_in(pem: &str) -> OutboundHttp {
    let der = rustls::pki_types::pem::PemObject::from_pem_slice(pem.as_bytes());
    let der: rustls::pki_types::CertificateDer<'static> = der.unwrap();
    OutboundHttp { authorities: vec![der.to_vec()], ..OutboundHttp::default() }
}

#[expect(clippy::unnecessary_wraps, reason = "as the field is")]
fn through(proxy: &Proxy, except: &str) -> Option<Through> {
    Some(Through { url: proxy.url.clone(), login: None, except: Some(except.to_owned()) })
}

#[tokio::test]
async fn an_enterprise_server_is_trusted_by_the_authority_that_was_given_and_by_no_other() {
    let stage = Stage::new().await;
    let api_url = over_tls(&stage.world.api_url()).await;
    let error = stage.reads(&api_url, &OutboundHttp::default()).await.unwrap_err();
    assert!(matches!(error, ForgeError::NotSent { .. }), "{error}");
    assert!(error.to_string().contains("invalid peer certificate"), "{error}");
    assert_eq!(stage.world.seen().len(), 0, "our signature went nowhere");
    assert_eq!(stage.reads(&api_url, &trusting()).await.unwrap(), b"slug: web\n");
    stage.world.settled();
}

/// As Argo CD has one by default.
#[tokio::test]
async fn a_certificate_that_signed_itself_is_trusted_where_it_is_named() {
    let stage = Stage::new().await;
    let api_url = over_tls_of_its_own(&stage.world.api_url()).await;
    assert!(stage.reads(&api_url, &trusting()).await.is_err());
    assert_eq!(stage.world.seen().len(), 0);
    assert_eq!(stage.reads(&api_url, &trusting_in(SELF)).await.unwrap(), b"slug: web\n");
    stage.world.settled();
}

#[tokio::test]
async fn tls_goes_through_the_proxy_as_a_tunnel_and_the_rest_as_it_is() {
    let stage = Stage::new().await;
    let (plain, proxy) = (stage.world.api_url(), Proxy::start().await);
    let tls = over_tls(&plain).await;
    let outbound = OutboundHttp { proxy: through(&proxy, ""), ..trusting() };
    assert_eq!(stage.reads(&tls, &outbound).await.unwrap(), b"slug: web\n");
    let address = tls.trim_start_matches("https://").trim_end_matches("/api/v3");
    let tunnels = proxy.seen();
    assert!(tunnels.iter().all(|line| *line == format!("CONNECT {address}")), "{tunnels:?}");
    assert_eq!(stage.reads(&plain, &outbound).await.unwrap(), b"slug: web\n");
    let sent = &proxy.seen()[tunnels.len()..];
    let installation = format!("GET {plain}/repos/acme/web/installation");
    assert!(sent.contains(&installation), "{sent:?}");
    stage.world.settled();
}

#[tokio::test]
async fn what_is_excepted_goes_past_the_proxy() {
    let stage = Stage::new().await;
    let proxy = Proxy::start().await;
    for except in ["127.0.0.1", "10.0.0.0/8,127.0.0.0/8"] {
        let outbound = OutboundHttp { proxy: through(&proxy, except), ..OutboundHttp::default() };
        stage.reads(&stage.world.api_url(), &outbound).await.unwrap();
    }
    assert_eq!(proxy.seen(), [""; 0]);
    stage.world.settled();
}

#[tokio::test]
async fn a_proxy_that_refuses_us_kept_the_request_from_being_sent() {
    let stage = Stage::new().await;
    let api_url = over_tls(&stage.world.api_url()).await;
    let proxy = Proxy::for_login("deployer", "right").await;
    for (password, good) in [("wrong", false), ("right", true)] {
        let mut through = through(&proxy, "").unwrap();
        through.login = Some(("deployer".to_owned(), password.into()));
        let outbound = OutboundHttp { proxy: Some(through), ..trusting() };
        match stage.reads(&api_url, &outbound).await {
            Ok(_) => assert!(good),
            Err(error) => {
                assert!(!good && !error.may_have_arrived(), "{error}");
                assert!(!format!("{error} {error:?} {outbound:?}").contains("wrong"));
            }
        }
    }
    stage.world.settled();
}

#[tokio::test]
async fn a_deployment_by_an_app_behind_a_proxy_and_an_authority_of_ones_own() {
    let mut deployer = Deployer::prepared().await;
    let proxy = Proxy::for_login("deployer", "pass").await;
    let plain = format!("api_url: {}\n", deployer.github.url());
    let app = deployer.github.app();
    let key = deployer.file("app.pem", &app.key);
    let ca = deployer.file("ca.pem", CA);
    let tls = format!("api_url: {}\n", over_tls(&deployer.github.api_url()).await);
    let as_app = format!("app: {{id: {}, private_key: {{file: '{key}'}}}}", app.id);
    deployer.variable("PROXY_PASSWORD", "pass");
    deployer.configure(|config| {
        let config = config.replace(&plain, &tls).replace("token: {env: GITHUB_TOKEN}", &as_app);
        let proxy = &proxy.url;
        format!(
            "{config}outbound:\n  ca: '{ca}'\n  proxy: {proxy}\n  proxy_username: deployer\n  \
             proxy_password: {{env: PROXY_PASSWORD}}\n  no_proxy: []\n"
        )
    });
    deployer.starts().await;
    let shop = deployer.github.repository("acme/shop");
    shop.commit(&waml("shop"));
    let id = shop.deploys(TARGET, "v1").await;
    deployer.settle().await;
    assert_eq!(deployer.github.told(id).last().unwrap(), "success");
    assert!(proxy.seen().iter().any(|line| line.starts_with("CONNECT 127.0.0.1:")));
    deployer.settled().await;
}

#[tokio::test]
async fn the_standard_variables_name_the_proxy_where_the_configuration_does_not() {
    let clock = Clock::system();
    let github = World::start(&clock).await;
    let proxy = Proxy::start().await;
    let home = Home::configured(&format!(
        "forge:\n  github:\n    api_url: {}\n    token: {{env: TOKEN}}\n    \
         webhook_secret: {{file: .the-deployer/webhook-secret}}\n",
        github.api_url()
    ));
    let secret = "a-webhook-secret-0123456789";
    std::fs::create_dir(home.path(".the-deployer")).unwrap();
    std::fs::write(home.state("webhook-secret"), secret).unwrap();
    let variables =
        [("TOKEN", github.token()), ("HTTP_PROXY", proxy.url.as_str()), ("NO_PROXY", "")];
    let process = home.start_with(&variables).await;
    let url = format!("{}/webhooks/github", process.address());
    github.hooks_to(&url, secret);
    let shop = github.repository("acme/shop");
    shop.commit(&waml("shop"));
    let id = shop.deploys(TARGET, "v1").await;
    let own = process.deployments().await[0]["id"].as_str().unwrap().to_owned();
    process.ended(&own).await;
    assert_eq!(github.told(id).last().unwrap(), "success");
    let read = format!("GET {}/repos/acme/shop/contents/.weave.yaml", github.api_url());
    assert!(proxy.seen().iter().any(|line| line.starts_with(&read)), "{:?}", proxy.seen());
    github.settled();
}
