//! `bart login`, `logout`, `config`, `completion`.

use std::os::unix::fs::PermissionsExt as _;

use serde_json::json;

use crate::harness::developer::Developer;
use crate::harness::device::{CLIENT, Device, GIVEN};
use crate::harness::events::waml;
use crate::harness::process::{Home, Process};

/// A service whose GitHub can do nothing but log people in.
async fn service(device: &Device, client: &str) -> (Home, Process) {
    let home = Home::configured(&format!(
        "forge:\n  github:\n    api_url: {}/api/v3\n    token: {{file: token}}\n    webhook_secret: {{file: token}}\n{client}",
        device.url()
    ));
    std::fs::write(home.path("token"), "t0ken-of-the-service").unwrap();
    std::fs::create_dir_all(home.state("")).unwrap();
    std::fs::write(home.state("webhook-secret"), "t0ken-of-the-service").unwrap();
    let process = home.start().await;
    (home, process)
}

fn developer() -> Developer {
    Developer::of("https://github.example.com/acme/shop", &waml("shop"))
}

#[tokio::test]
async fn who_types_the_code_is_logged_in_at_this_service_alone() {
    let device = Device::start().await;
    let (_home, process) = service(&device, &format!("    login: {{client_id: {CLIENT}}}\n")).await;
    device.lock().answers = vec![
        json!({"error": "authorization_pending"}),
        json!({"error": "slow_down", "interval": 0}),
    ];
    let developer = developer();
    let said = developer.runs(&[], &["login", "--server", process.address()]).await;
    said.ended(0, &["WDJB-MJHT", "/login/device", "as ada"]);
    assert_eq!(device.lock().asked, 3);
    let kept = developer.home(".config/bart/logins.json");
    let mode =
        |path: &std::path::Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(&kept), mode(kept.parent().unwrap())), (0o600, 0o700));
    let text = std::fs::read_to_string(&kept).unwrap();
    assert!(text.contains(GIVEN) && text.contains(process.address()), "{text}");
    assert!(!format!("{said:?}").contains(GIVEN) && !format!("{said:?}").contains("secret-of"));
    std::fs::set_permissions(&kept, std::fs::Permissions::from_mode(0o644)).unwrap();
    let said = developer.runs(&[], &["status", "--server", process.address()]).await;
    said.ended(0, &["others can read", "chmod 600"]);
    assert_eq!(said.err.matches("others can read").count(), 1, "{}", said.err);
    let said = developer.runs(&[], &["logout", "--server", process.address()]).await;
    said.ended(0, &["logged out"]);
    assert!(!std::fs::read_to_string(&kept).unwrap().contains(GIVEN));
}

#[tokio::test]
async fn who_says_no_or_is_sent_elsewhere_is_not_logged_in() {
    let device = Device::start().await;
    let (_home, process) = service(&device, &format!("    login: {{client_id: {CLIENT}}}\n")).await;
    let developer = developer();
    let login = ["login", "--server", process.address()];
    device.lock().answers = vec![json!({"error": "access_denied"})];
    developer.runs(&[], &login).await.ended(1, &["the login was denied at GitHub"]);
    device.lock().page = Some("https://evil.example/login/device".to_owned());
    let said = developer.runs(&[], &login).await;
    said.ended(2, &["does not answer like GitHub"]);
    assert!(!said.err.contains("evil.example"), "{}", said.err);
    assert!(!developer.home(".config/bart/logins.json").exists());
}

#[tokio::test]
async fn without_a_client_id_a_token_can_be_given() {
    let device = Device::start().await;
    let (_home, process) = service(&device, "").await;
    let developer = developer();
    let said = developer.runs(&[], &["login", "--server", process.address()]).await;
    said.ended(1, &["does not offer logins", "--with-token"]);
    let with = async |token: &str| {
        let path = developer.work().join("token");
        std::fs::write(&path, format!("{token}\n")).unwrap();
        let mut command =
            developer.bart(&[], &["login", "--with-token", "--server", process.address()]);
        command.stdin(std::fs::File::open(path).unwrap());
        crate::harness::developer::Said::until_the_end_of(command.spawn().unwrap()).await
    };
    with("ghp_wrong").await.ended(1, &["does not take the token"]);
    with("").await.ended(2, &["standard input has no token"]);
    with(GIVEN).await.ended(0, &["as ada"]);
}

#[tokio::test]
async fn a_service_with_its_own_repositories_needs_no_login() {
    let process = Home::embedded().start().await;
    let said = developer().runs(&[], &["login", "--server", process.address()]).await;
    said.ended(1, &["needs no login"]);
}

#[tokio::test]
async fn settings_are_defaults_and_arguments_and_variables_go_before_them() {
    let home = Home::embedded();
    let process = home.start().await;
    let developer = developer();
    let set =
        async |key: &str, value: &str| developer.runs(&[], &["config", "set", key, value]).await;
    set("server", process.address()).await.ended(0, &[]);
    set("output", "json").await.ended(0, &[]);
    let said = developer.runs(&[], &["history", "--all"]).await;
    assert_eq!(said.ended(0, &[]).json()["deployments"], json!([]));
    let nowhere = [("BART_SERVER", "http://127.0.0.1:1")];
    developer
        .runs(&nowhere, &["history", "--all"])
        .await
        .ended(2, &["cannot reach http://127.0.0.1:1"]);
    let said = developer
        .runs(&nowhere, &["history", "--all", "--server", process.address(), "-o", "text"]);
    said.await.ended(0, &["no such deployments"]);
    let path = developer.runs(&[], &["config", "path"]).await.out;
    assert_eq!(path.trim_end(), developer.home(".config/bart/config.yaml").to_str().unwrap());
    developer
        .runs(&[], &["config", "list", "-o", "text"])
        .await
        .ended(0, &["output", "json", "(not set)"]);
    developer.runs(&[], &["config", "unset", "output"]).await.ended(0, &[]);
    developer.runs(&[], &["config", "get", "output"]).await.ended(1, &[]);
    set("server", "nowhere").await.ended(2, &["is not an address"]);
    set("server", "https://a:b@x").await.ended(2, &["which messages would show"]);
    let said = developer.runs(&[], &["config", "get", "server"]).await;
    assert_eq!(said.out.trim_end(), process.address());
}

#[tokio::test]
async fn a_broken_file_of_settings_is_named_and_can_be_mended() {
    let developer = developer();
    let file = developer.work().join("mine.yaml");
    std::fs::write(&file, "outpt: json\n").unwrap();
    let with = [("BART_CONFIG", file.to_str().unwrap())];
    developer.runs(&with, &["status"]).await.ended(2, &["outpt", "mine.yaml"]);
    developer
        .runs(&with, &["config", "set", "output", "json"])
        .await
        .ended(2, &["was not changed"]);
    std::fs::write(&file, "# mine\n").unwrap();
    developer.runs(&with, &["config", "set", "output", "yaml"]).await.ended(0, &[]);
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "# mine\noutput: yaml\n");
}

#[tokio::test]
async fn shells_complete_commands_and_the_targets_of_the_waml() {
    let developer = developer();
    for shell in ["bash", "zsh", "fish", "powershell", "elvish"] {
        let said = developer.runs(&[], &["completion", shell]).await;
        said.ended(0, &["BART_COMPLETE", "bart"]);
    }
    let complete = async |words: &[&str]| {
        let all = [&["--"], words].concat();
        developer.runs(&[("BART_COMPLETE", "fish")], &all).await.ended(0, &[]).out.clone()
    };
    let commands = complete(&["bart", "de"]).await;
    assert!(commands.contains("deploy"), "{commands}");
    let targets = complete(&["bart", "deploy", "1.0", "pr"]).await;
    assert!(targets.contains("prod-cluster-1"), "{targets}");
    let targets = complete(&["bart", "render", "--target", ""]).await;
    assert!(targets.contains("prod-cluster-1"), "{targets}");
}
