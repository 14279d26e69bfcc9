//! Credentials, certificates and proxies.

use std::path::Path;

use the_deployer::cluster::connection::settings::ClusterAccess;
use the_deployer::cluster::object::WatchedKind;
use the_deployer::cluster::watch::health::KindSight;
use the_deployer::support::credential::Credential;
use the_deployer::support::http::{OutboundHttp, Proxy as ProxySettings};

use crate::harness::api_server::{ApiServer, Fault, FaultRule, TOKEN, deployment, kubeconfig, pod};
use crate::harness::folder;
use crate::harness::proxy::Proxy;
use crate::harness::tls;
use crate::watch::watcher::Watcher;

fn tokens(server: &ApiServer, tokens: &[&str]) {
    server.edit(|world| world.tokens = tokens.iter().map(|token| (*token).to_owned()).collect());
}

#[tokio::test]
async fn a_token_in_a_file_is_read_again_when_it_changes() {
    let server = ApiServer::start().await;
    server.install_custom_resources();
    let folder = folder::temporary();
    let file = folder.path().join("token");
    std::fs::write(&file, format!("{TOKEN}\n")).unwrap();
    let token = Credential { secret: "none".into(), file: Some(file.clone()) };
    let access = ClusterAccess::Server { server: server.url(), token, ca: None };
    let mut watcher = Watcher::by(access).start();
    watcher.settles().await;
    tokens(&server, &["second"]);
    server.cut_watches();
    watcher.is_blind("Pod", "does not know our credentials (401)").await;
    std::fs::write(&file, "second\n").unwrap();
    server.apply(pod("devx", "a"));
    watcher.knows("Pod", &["devx/a"]).await;
    watcher.sees("Pod").await;
    std::fs::remove_file(&file).unwrap();
    server.cut_watches();
    watcher.is_blind("Pod", "token: No such file").await;
}

#[tokio::test]
async fn a_kubeconfig_is_read_again_when_its_token_is_refused() {
    let server = ApiServer::start().await;
    server.install_custom_resources();
    let folder = folder::temporary();
    let file = kubeconfig(folder.path(), &server.url(), &format!("{{token: {TOKEN}}}"));
    let mut watcher = Watcher::by_kubeconfig(file).start();
    watcher.settles().await;
    tokens(&server, &["second"]);
    server.cut_watches();
    watcher.is_blind("Pod", "401").await;
    kubeconfig(folder.path(), &server.url(), "{token: second}");
    watcher.sees("Pod").await;
    server.apply(pod("devx", "a"));
    watcher.knows("Pod", &["devx/a"]).await;
}

/// A program that prints the token of a file, and counts how often it was run.
fn plugin(folder: &Path) -> String {
    let script = folder.join("plugin");
    let text = format!(
        "#!/bin/sh\necho run >> {0}/runs\nprintf '{{\"status\": {{\"token\": \"%s\"}}}}' \"$(cat {0}/token)\"\n",
        folder.display()
    );
    std::fs::write(&script, text).unwrap();
    format!(
        "{{exec: {{apiVersion: client.authentication.k8s.io/v1, command: sh, args: ['{}']}}}}",
        script.display()
    )
}

#[tokio::test]
async fn a_credential_plugin_is_run_once_and_again_when_its_token_is_refused() {
    let server = ApiServer::start().await;
    server.install_custom_resources();
    let folder = folder::temporary();
    std::fs::write(folder.path().join("token"), TOKEN).unwrap();
    let user = plugin(folder.path());
    let file = kubeconfig(folder.path(), &server.url(), &user);
    let mut watcher = Watcher::by_kubeconfig(file).start();
    watcher.settles().await;
    let runs = || std::fs::read_to_string(folder.path().join("runs")).unwrap().lines().count();
    assert_eq!(runs(), 1, "one for all watches");
    tokens(&server, &["second"]);
    std::fs::write(folder.path().join("token"), "second").unwrap();
    server.cut_watches();
    server.apply(pod("devx", "a"));
    watcher.knows("Pod", &["devx/a"]).await;
    watcher.sees("Deployment").await;
    assert!((2..=4).contains(&runs()), "{}", runs());
}

#[tokio::test]
async fn a_credential_plugin_that_fails_is_told_without_what_it_prints() {
    let server = ApiServer::start().await;
    let folder = folder::temporary();
    let user = "{exec: {apiVersion: client.authentication.k8s.io/v1, command: sh, args: ['-c', 'echo s3cret; exit 7']}}";
    let file = kubeconfig(folder.path(), &server.url(), user);
    let mut watcher = Watcher::by_kubeconfig(file).start();
    watcher.is_blind("Pod", "the credential plugin `sh` fails with exit status: 7").await;
    let reason = watcher.health.unseen().unwrap().reason;
    assert!(!reason.contains("s3cret"), "{reason}");
    assert_eq!(server.requests().len(), 0);
}

/// A token in the form of a service account's.
const ACCOUNT_TOKEN: &str = "eyJhbGciOiJSUzI1NiIsImtpZCI6IjEifQ.eyJzdWIiOiJzeXN0ZW06c2VydmljZWFjY291bnQifQ.c2lnbmF0dXJlLW9mLXRoZS10b2tlbg";

#[tokio::test]
async fn no_reason_has_the_token() {
    let echo = |text: &str| -> &'static str { text.replace("TOKEN", ACCOUNT_TOKEN).leak() };
    let status = r#"{"kind": "Status", "code": 400, "message": "cannot read the token TOKEN"}"#;
    let cases = [
        (Fault::Status(401), "does not know our credentials (401)"),
        (Fault::Status(500), "the server answers 500"),
        (Fault::Text(400, echo("Authorization: Bearer TOKEN")), "the server answers 400"),
        (Fault::Text(400, echo(status)), "the server answers 400: cannot read the token"),
        (Fault::Body(echo("Bearer TOKEN").to_owned()), "something that is no list"),
    ];
    for (fault, reason) in cases {
        let server = ApiServer::start().await;
        tokens(&server, &[ACCOUNT_TOKEN]);
        server.fail(FaultRule::always(fault));
        let token = Credential { secret: ACCOUNT_TOKEN.into(), file: None };
        let access = ClusterAccess::Server { server: server.url(), token, ca: None };
        let mut watcher = Watcher::by(access).start();
        watcher.is_blind("Pod", reason).await;
        let told = format!("{:?} {:?}", watcher.health.kinds(), watcher.health.unseen());
        for part in ACCOUNT_TOKEN.split('.') {
            assert!(!told.contains(part), "{told}");
        }
    }
}

#[tokio::test]
async fn a_servers_certificate_must_be_of_the_authority_that_is_named() {
    let server = ApiServer::start().await;
    server.install_custom_resources();
    server.apply(deployment("devx", "a"));
    let address = tls::over_tls(&server.url()).await;
    let ca = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/facts/tls/ca.pem");
    let other = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/facts/tls/self.pem");
    let access = |ca: Option<&str>| ClusterAccess::Server {
        server: address.clone(),
        token: Credential { secret: TOKEN.into(), file: None },
        ca: ca.map(Into::into),
    };
    let mut watcher = Watcher::by(access(Some(ca))).start();
    watcher.settles().await;
    watcher.knows("Deployment", &["devx/a"]).await;
    for wrong in [None, Some(other)] {
        let mut watcher = Watcher::by(access(wrong)).start();
        watcher.is_blind("Pod", "").await;
        let KindSight::Unseen { reason, .. } = watcher.sight(WatchedKind::Pod) else { panic!() };
        assert!(reason.contains("ertificate"), "{reason}");
    }
    // The company's own authority, for all that is outside.
    let outbound = OutboundHttp { authorities: vec![der()], ..OutboundHttp::default() };
    let mut watcher = Watcher::by(access(None)).outbound(outbound).start();
    watcher.settles().await;
    watcher.knows("Deployment", &["devx/a"]).await;
}

fn der() -> Vec<u8> {
    use rustls::pki_types::CertificateDer;
    use rustls::pki_types::pem::PemObject as _;
    CertificateDer::from_pem_slice(tls::CA.as_bytes()).unwrap().to_vec()
}

#[tokio::test]
async fn a_cluster_is_reached_through_the_proxy_unless_it_is_excepted() {
    let server = ApiServer::start().await;
    server.install_custom_resources();
    let address = tls::over_tls(&server.url()).await;
    let proxy = Proxy::for_login("me", "p@ss:word").await;
    let outbound = |except: &str| OutboundHttp {
        authorities: vec![der()],
        proxy: Some(ProxySettings {
            url: proxy.url.clone(),
            login: Some(("me".to_owned(), "p@ss:word".into())),
            except: Some(except.to_owned()),
        }),
        ..OutboundHttp::default()
    };
    let mut watcher = Watcher::at(&address).outbound(outbound("127.0.0.0/8")).start();
    watcher.settles().await;
    assert!(proxy.seen().is_empty(), "{:?}", proxy.seen());
    let mut watcher = Watcher::at(&address).outbound(outbound("10.0.0.0/8")).start();
    watcher.settles().await;
    let host = address.strip_prefix("https://").unwrap();
    assert!(
        proxy.seen().iter().all(|line| *line == format!("CONNECT {host}")),
        "{:?}",
        proxy.seen()
    );
    assert!(!proxy.seen().is_empty());
}
