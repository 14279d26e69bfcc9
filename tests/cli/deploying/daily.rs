//! The commands of every day around a deployment: init, doctor, promote, holds, and what `--watch` shows.

use std::io::Write as _;
use std::process::Stdio;
use std::time::Duration;

use serde_json::{Value, json};

use super::{place_with, three_targets};
use crate::harness::developer::{Developer, Said};
use crate::harness::events::waml;
use crate::harness::process::{Home, Process};
use crate::harness::registry::{Entry, Registry};
use crate::harness::terminal::on_a_terminal;

async fn place() -> (Home, Process, Developer) {
    place_with(Home::embedded(), &three_targets()).await
}

/// The live release of the app on a target.
async fn live(process: &Process, target: &str) -> (String, String) {
    let app = process.json(&format!("/api/v1/apps/{target}/devx/shop")).await;
    let text = |key: &str| app["live"][key].as_str().unwrap().to_owned();
    (text("tag"), text("commit"))
}

#[tokio::test]
async fn what_is_live_on_a_target_is_promoted_with_its_commit() {
    let (_home, process, developer) = place().await;
    let server = [("BART_SERVER", process.address())];
    let promote = ["promote", "dev", "prod-1"];
    developer
        .runs(&server, &promote)
        .await
        .ended(1, &["devx/shop is not live on dev", "bart status"]);
    developer.runs(&server, &["deploy", "1.0", "dev"]).await.ended(0, &[]);
    let (tag, commit) = live(&process, "dev").await;
    // The WAML of another commit is not what runs on dev.
    developer.commits(&format!("# later\n{}", three_targets()));
    developer.pushes();
    let said = developer.runs(&server, &promote).await;
    said.ended(0, &["devx/shop 1.0, commit ", "live on dev", "prod-1: succeeded in "]);
    assert_eq!(live(&process, "prod-1").await, (tag.clone(), commit.clone()));
    let several = ["promote", "dev", "prod-*", "--reason", "a good day"];
    let plan = developer.runs(&server, &[&several[..], &["--dry-run"]].concat()).await;
    plan.ended(0, &["prod-1", "prod-2", "Nothing was started"]);
    developer.runs(&server, &several).await.ended(0, &["done, 2 of 2"]);
    assert_eq!(live(&process, "prod-2").await, (tag, commit));
    developer
        .runs(&server, &["promote", "dev", "dev"])
        .await
        .ended(2, &["dev has the release already"]);
    developer.runs(&server, &["promote", "dev"]).await.ended(2, &["TARGET"]);
}

#[tokio::test]
async fn a_doctor_says_what_is_in_the_way_and_the_next_step() {
    let (_home, process, developer) = place().await;
    let server = [("BART_SERVER", process.address())];
    let said = developer.runs(&server, &["doctor", "--output", "json"]).await;
    let checks = said.json()["checks"].as_array().unwrap().clone();
    let state = |name: &str| {
        let check = checks.iter().find(|check| check["check"] == name);
        check.unwrap_or_else(|| panic!("{name}: {said:?}"))["state"].as_str().unwrap().to_owned()
    };
    for check in ["service", "login", "repository", "waml", "targets", "deployments"] {
        assert_eq!(state(check), "ok", "{said:?}");
    }
    // No registry is configured.
    assert_eq!((state("image").as_str(), said.code), ("failed", Some(1)));
    let image = checks.iter().find(|check| check["check"] == "image").unwrap();
    assert!(image["detail"].as_str().unwrap().contains("is not under `registries`"), "{image}");
    assert!(image["next"].as_str().unwrap().contains("docs/lookups.md"), "{image}");
    developer.commits(&three_targets().replace("slug: shop", "slug: Shop"));
    let said = developer.runs(&server, &["doctor"]).await;
    said.ended(
        1,
        &["ok       service", "failed   waml", "next: `bart validate` shows", "skipped  targets"],
    );
    let away = [("BART_SERVER", "http://127.0.0.1:1")];
    let said = developer.runs(&away, &["doctor"]).await;
    said.ended(1, &["failed   service", "skipped  login", "needs the service"]);
}

/// A registry with two builds of the shop, a service that may ask it, and a shop whose image is there.
async fn place_with_registry() -> (Registry, Home, Process, Developer) {
    let registry = Registry::start(Entry::TokenForAll, &[]).await;
    registry.lock().build("example/shop:1.0", "2026-11-20T10:00:00Z", "649008fb649008fb");
    registry.lock().build("example/shop:1.1", "2026-11-21T10:00:00Z", "00ff00ff00ff00ff");
    let host = registry.host();
    let home = Home::configured(&format!("registries: [{{host: '{host}', insecure: true}}]\n"));
    let (home, process, developer) = place_with(home, &on_dev(&host, "shop")).await;
    (registry, home, process, developer)
}

/// An app on `dev` whose image is in that registry.
fn on_dev(registry: &str, app: &str) -> String {
    let text = waml(app);
    let (head, _) = text.split_once("deploy:\n").unwrap();
    format!(
        "{head}deploy:\n  dev: {{image: {{registry: '{registry}', repository: example/shop}}}}\n"
    )
}

#[tokio::test]
async fn a_doctor_finds_the_image_before_the_first_deployment_and_after_it() {
    let (registry, _home, process, developer) = place_with_registry().await;
    let server = [("BART_SERVER", process.address())];
    let image = format!("ok       image       {}/example/shop has 2 tags", registry.host());
    let says = [image.as_str(), "Nothing is in the way: `bart builds`"];
    developer.runs(&server, &["doctor"]).await.ended(0, &says);
    developer.runs(&server, &["deploy", "1.0", "dev"]).await.ended(0, &[]);
    developer.runs(&server, &["doctor"]).await.ended(0, &says);
    // Of several apps each has its own first deployment.
    std::fs::create_dir(developer.work().join(".weave")).unwrap();
    let worker = on_dev(&registry.host(), "worker");
    std::fs::write(developer.work().join(".weave/worker.yaml"), worker).unwrap();
    developer.runs(&server, &["doctor", "--app", "worker"]).await.ended(0, &says);
}

#[tokio::test]
async fn a_first_waml_is_written_once_and_can_be_deployed() {
    let (_home, process, developer) = place().await;
    let work = developer.work();
    std::fs::remove_file(work.join(".weave.yaml")).unwrap();
    std::fs::write(work.join("Dockerfile"), "FROM scratch\nEXPOSE 8080\n").unwrap();
    std::fs::write(work.join("Procfile"), "web: ./serve\nworker: ./work --all\n").unwrap();
    let server = [("BART_SERVER", process.address())];
    let init = ["init", "--namespace", "devx", "--owner", "squad@example.com", "--target", "dev"];
    let printed = developer.runs(&server, &[&init[..], &["--print"]].concat()).await;
    assert!(printed.ended(0, &[]).out.contains("number: 8080}]}]   # EXPOSE in Dockerfile"));
    assert!(!work.join(".weave.yaml").exists());
    developer.runs(&server, &init).await.ended(0, &["written .weave.yaml for devx/shop"]);
    let text = std::fs::read_to_string(work.join(".weave.yaml")).unwrap();
    assert_eq!(text, printed.out);
    developer.runs(&server, &["validate"]).await.ended(0, &["is valid for dev"]);
    developer.commits(&text);
    developer.pushes();
    developer.runs(&server, &["deploy", "1.0", "dev"]).await.ended(0, &["dev: succeeded in "]);
    developer.runs(&server, &init).await.ended(1, &["there is a ", ".weave.yaml already"]);
    let elsewhere = Developer::of("https://example.com/", "x");
    std::fs::remove_file(elsewhere.work().join(".weave.yaml")).unwrap();
    let said = elsewhere.runs(&server, &["init", "--yes", "--owner", "a@b.c"]).await;
    said.ended(2, &["the namespace is not known", "say it with --namespace"]);
}

/// A folder of a Go service whose Dockerfile exposes nothing, with that requirement.
fn go_service(requirement: &str) -> Developer {
    let developer = Developer::of("https://github.example.com/acme/api.git", "x");
    std::fs::remove_file(developer.work().join(".weave.yaml")).unwrap();
    let module = format!("module example.com/api\n\nrequire {requirement}\n");
    std::fs::write(developer.work().join("go.mod"), module).unwrap();
    std::fs::write(developer.work().join("Dockerfile"), "FROM scratch\n").unwrap();
    developer
}

const GIN: &str = "github.com/gin-gonic/gin v1.10.0";
const UUID: &str = "github.com/google/uuid v1.6.0";

#[tokio::test]
async fn without_a_terminal_a_first_waml_says_what_it_assumes() {
    let away = [("BART_SERVER", "http://127.0.0.1:1")];
    let init = ["init", "--owner", "a@example.com", "--print"];
    let said = go_service(GIN).runs(&away, &init).await;
    let port = "note: the port that the service listens on is 8080 (the usual port of gin-gonic/gin, which go.mod names); --port says another";
    said.ended(0, &["note: the namespace is acme; --namespace says another", port]);
    assert!(said.out.contains("number: 8080") && !said.out.contains("worker-default"), "{said:?}");
    let library = go_service(UUID);
    let said = library.runs(&away, &init).await;
    said.ended(0, &["listens on is none, so it is a worker without a Service; --port says"]);
    assert!(said.out.contains("template: worker-default"), "{said:?}");
    let said = library.runs(&away, &[&init[..], &["--port", "9000"]].concat()).await;
    assert!(said.ended(0, &[]).out.contains("number: 9000"), "{said:?}");
    assert!(!said.err.contains("--port"), "{said:?}");
    let said = go_service(GIN).runs(&away, &[&init[..], &["--port", "none"]].concat()).await;
    assert!(said.ended(0, &[]).out.contains("template: worker-default"), "{said:?}");
    let said = library.runs(&away, &[&init[..], &["--port", "0"]].concat()).await;
    said.ended(2, &["a port is a number from 1 to 65535, or `none`"]);
}

/// What a person sees of `bart init` who types these answers, and the file.
async fn answers(developer: &Developer, answers: &str) -> (String, Option<String>) {
    let arguments =
        "init --name api --slug api --namespace acme --owner a@example.com --target dev";
    let mut terminal = on_a_terminal(&format!("{} {arguments}", env!("CARGO_BIN_EXE_bart")), 200);
    let plain = developer.bart(&[("BART_SERVER", "http://127.0.0.1:1")], &[]);
    terminal.env_clear().envs(plain.get_envs().filter_map(|(key, value)| Some((key, value?))));
    terminal.current_dir(developer.work()).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = terminal.spawn().unwrap();
    child.stdin.take().unwrap().write_all(answers.as_bytes()).unwrap();
    let said = Said::until_the_end_of(child).await;
    (said.out, std::fs::read_to_string(developer.work().join(".weave.yaml")).ok())
}

#[tokio::test]
async fn a_port_that_no_file_names_is_asked_for() {
    if crate::harness::is_missing("script", "the questions on a terminal") {
        return;
    }
    let question = "the port that the service listens on, or `none`";
    for (requirement, answer, default, has) in [
        (UUID, "\n", "[none]", Some("template: worker-default")),
        (UUID, "9000\n", "[none]", Some("number: 9000}]}]   # the port that the service listens")),
        (GIN, "\n", "[8080]", Some("number: 8080}]}]   # the usual port of gin-gonic/gin")),
        (GIN, "none\n", "[8080]", Some("template: worker-default")),
        (GIN, "web\n", "[8080]", None),
    ] {
        let developer = go_service(requirement);
        let (shown, file) = answers(&developer, answer).await;
        assert!(shown.contains(&format!("{question} {default}: ")), "{shown}");
        match has {
            Some(part) => assert!(file.as_ref().is_some_and(|it| it.contains(part)), "{file:?}"),
            None => {
                assert!(file.is_none() && shown.contains("`web`: a port is a number"), "{shown}");
            }
        }
    }
    let exposed = go_service(GIN);
    std::fs::write(exposed.work().join("Dockerfile"), "FROM scratch\nEXPOSE 8081\n").unwrap();
    let (shown, file) = answers(&exposed, "").await;
    assert!(!shown.contains(question) && file.unwrap().contains("number: 8081"), "{shown}");
}

#[tokio::test]
async fn holds_are_listed_with_their_reasons() {
    let (_home, process, developer) = place().await;
    let server = [("BART_SERVER", process.address())];
    developer.runs(&server, &["deploy", "1.0", "dev"]).await.ended(0, &[]);
    developer.runs(&server, &["holds"]).await.ended(0, &["no holds"]);
    let hold = ["hold", "dev", "--reason", "we watch it"];
    developer.runs(&server, &hold).await.ended(0, &["held"]);
    developer.runs(&server, &["holds"]).await.ended(0, &["APP", "devx/shop", "dev", "we watch it"]);
    developer.runs(&server, &["holds", "prod-1"]).await.ended(0, &["no holds"]);
    let said = developer.runs(&server, &["holds", "-o", "json"]).await;
    assert_eq!(said.json()["holds"][0]["reason"], json!("we watch it"));
}

/// What a watched command shows, look by look, while 1.1 is deployed after 1.0.
async fn looks(command: &str) -> Vec<Value> {
    let (_home, process, developer) = place().await;
    let server = [("BART_SERVER", process.address())];
    developer.runs(&server, &["deploy", "1.0", "dev"]).await.ended(0, &[]);
    let child = developer.bart(&server, &[command, "--watch", "-o", "json"]).spawn().unwrap();
    let id = child.id().to_string();
    // Two looks at the least; the second sees what has come since.
    developer.runs(&server, &["deploy", "1.1", "dev"]).await.ended(0, &[]);
    tokio::time::sleep(Duration::from_secs(5)).await;
    let killed = std::process::Command::new("kill").args(["-INT", &id]).status();
    assert!(killed.unwrap().success());
    let said = Said::until_the_end_of(child).await;
    said.ended(0, &[]);
    let looks = serde_json::Deserializer::from_str(&said.out).into_iter::<Value>();
    let looks: Vec<Value> = looks.map(Result::unwrap).collect();
    assert!(looks.len() >= 2, "{said:?}");
    looks
}

#[tokio::test]
async fn a_watched_history_is_shown_again_and_ctrl_c_ends_it() {
    let looks = looks("history").await;
    assert_eq!(looks.last().unwrap()["deployments"][0]["tag"], "1.1", "{looks:?}");
}

#[tokio::test]
async fn a_watched_status_is_shown_again_and_ctrl_c_ends_it() {
    let looks = looks("status").await;
    let live = |look: &Value| {
        let targets = look["targets"].as_array().unwrap();
        let dev = targets.iter().find(|target| target["target"] == "dev").unwrap();
        dev["state"]["live"]["tag"].clone()
    };
    assert_eq!(live(looks.last().unwrap()), "1.1", "{looks:?}");
}

/// What fish offers for the last of these words after `bart`.
async fn completions(process: &Process, developer: &Developer, words: &[&str]) -> String {
    let variables = [("BART_SERVER", process.address()), ("BART_COMPLETE", "fish")];
    let line = [&["--", "bart"], words].concat();
    developer.runs(&variables, &line).await.ended(0, &[]).out.clone()
}

#[tokio::test]
async fn a_shell_completes_apps_and_revisions() {
    let (_home, process, developer) = place().await;
    let server = [("BART_SERVER", process.address())];
    developer.runs(&server, &["deploy", "1.0", "dev"]).await.ended(0, &[]);
    let former = process.deployments().await[0]["id"].as_str().unwrap().to_owned();
    developer.runs(&server, &["deploy", "1.1", "dev"]).await.ended(0, &[]);
    let completes = async |words: &[&str]| completions(&process, &developer, words).await;
    let revisions = completes(&["rollback", "dev", "--to", ""]).await;
    assert!(revisions.contains(&former) && revisions.contains("1.0 on dev"), "{revisions}");
    let apps = completes(&["status", "--app", ""]).await;
    assert!(apps.contains("devx/shop"), "{apps}");
    let targets = completes(&["promote", ""]).await;
    assert!(targets.contains("prod-2"), "{targets}");
}

#[tokio::test]
async fn a_shell_completes_tags_before_the_first_deployment_and_after_it() {
    let (_registry, _home, process, developer) = place_with_registry().await;
    let server = [("BART_SERVER", process.address())];
    let completes = async |words: &[&str]| completions(&process, &developer, words).await;
    for command in [&["deploy", ""][..], &["plan", ""], &["rollout", "start", "1"]] {
        let tags = completes(command).await;
        assert!(tags.contains("1.0\t") && tags.contains("1.1\t"), "{command:?}: {tags}");
    }
    let names = completes(&["plan", ""]).await;
    assert!(names.contains("dev\n"), "{names}");
    developer.runs(&server, &["deploy", "1.0", "dev"]).await.ended(0, &[]);
    let tags = completes(&["deploy", ""]).await;
    assert!(tags.contains("1.0\tdev\n") && tags.contains("1.1\t\n"), "{tags}");
}

#[tokio::test]
async fn a_shell_completes_tags_and_revisions_of_several_apps() {
    let (registry, _home, process, developer) = place_with_registry().await;
    let server = [("BART_SERVER", process.address())];
    std::fs::create_dir(developer.work().join(".weave")).unwrap();
    let worker = on_dev(&registry.host(), "worker").replace("example/shop", "example/shop/worker");
    std::fs::write(developer.work().join(".weave/worker.yaml"), worker).unwrap();
    registry.lock().build("example/shop/worker:2.0", "2026-11-20T10:00:00Z", "0123456789abcdef");
    registry.lock().build("example/shop/worker:1.1", "2026-11-21T10:00:00Z", "0123456789abcdef");
    developer.commits(&on_dev(&registry.host(), "shop"));
    developer.pushes();
    let mut former = Vec::new();
    for (app, tag, next) in [("shop", "1.0", "1.1"), ("worker", "2.0", "1.1")] {
        developer.runs(&server, &["deploy", tag, "dev", "--app", app]).await.ended(0, &[]);
        let deployments = process.deployments().await;
        former.push(deployments.last().unwrap()["id"].as_str().unwrap().to_owned());
        developer.runs(&server, &["deploy", next, "dev", "--app", app]).await.ended(0, &[]);
    }
    let completes = async |words: &[&str]| completions(&process, &developer, words).await;
    let tags = completes(&["deploy", ""]).await;
    for line in ["1.0\tshop\n", "2.0\tworker\n"] {
        assert!(tags.contains(line), "{line:?}: {tags}");
    }
    assert_eq!(tags.matches("1.1\t").count(), 1, "{tags}");
    assert!(tags.contains("1.1\tshop: dev; worker: dev\n"), "{tags}");
    let tags = completes(&["deploy", "--app", "worker", ""]).await;
    assert!(tags.contains("2.0\t\n") && tags.contains("1.1\tdev\n"), "{tags}");
    assert!(!tags.contains("1.0\t"), "{tags}");
    let revisions = completes(&["rollback", "dev", "--to", ""]).await;
    for (id, help) in [(&former[0], "shop: 1.0 on dev"), (&former[1], "worker: 2.0 on dev")] {
        assert!(revisions.contains(&format!("{id}\t{help}\n")), "{help}: {revisions}");
    }
    let revisions = completes(&["rollback", "dev", "--app=worker", "--to", ""]).await;
    assert!(revisions.contains(&format!("{}\t2.0 on dev\n", former[1])), "{revisions}");
    assert!(!revisions.contains(&former[0]), "{revisions}");
}
