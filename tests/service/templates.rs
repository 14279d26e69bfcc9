//! Templates from a repository: kept current, and never broken by what somebody pushes.

use serde_json::{Value as Json, json};

use crate::harness::events::{Answer, Delivery, Event};
use crate::harness::folder;
use crate::harness::git::Bare;
use crate::harness::git_host::{Behaviour, GitHost, TOKEN};
use crate::harness::process::{Home, Process};

/// What the app's autoscaler needs.
const DEFAULTS: &str = "resources: {requests: {cpu: 100m}}";
/// The file of the template that the tests change.
const FILE: &str = "apps/backend-default/latest/configmap.yaml.tmpl";

fn template(word: &str) -> String {
    format!(
        "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {{{{ app.slug }}}}\ndata: {{word: {word}}}\n"
    )
}

/// A host with a repository of templates, and a service that follows it.
async fn followed(refresh: &str) -> (GitHost, Bare, Home) {
    let host = GitHost::start().await;
    let bare = host.create("example/templates.git");
    bare.somebody_writes("README.md", "ours");
    bare.somebody_writes("apps/backend-default/defaults.yaml", DEFAULTS);
    bare.somebody_writes(FILE, &template("one"));
    let home = following(&host.url("example/templates.git"), refresh);
    (host, bare, home)
}

fn following(url: &str, refresh: &str) -> Home {
    let home = Home::configured(&format!(
        "templates:\n  repository: {{url: \"{url}\", refresh: {refresh}, token: {{file: token}}}}\n"
    ));
    std::fs::write(home.path("token"), TOKEN).unwrap();
    home
}

/// The service is told that somebody pushed to `main` of `example/<name>`.
async fn push_event(process: &Process, name: &str, after: &str) -> Answer {
    let body = json!({
        "ref": "refs/heads/main", "before": "0".repeat(40), "after": after, "deleted": false,
        "repository": {"full_name": format!("example/{name}")}, "pusher": {"name": "octocat"},
    });
    let mut delivery = Delivery::of_body("push", body.to_string(), &process.secret);
    "push".clone_into(&mut delivery.event);
    delivery.send(process).await
}

/// What a new deployment renders, and its record.
async fn deployed(home: &Home, process: &Process, number: i64) -> (String, Json) {
    let event = Event::of_app(home, number, "shop");
    let id = event.accepted(process).await;
    let record = process.ended(&id).await;
    let folder = "manifests/prod-cluster-1/devx/shop/latest/configmap.yaml";
    let files = home.manifests().files();
    (files.get(folder).cloned().unwrap_or_default(), record)
}

/// What `/readyz` says of the templates.
async fn note(process: &Process) -> String {
    let ready = process.json("/readyz").await;
    let checks = ready["checks"].as_array().unwrap().clone();
    let one = checks.into_iter().find(|check| check["name"] == "templates").unwrap();
    assert_eq!(one["ready"], true, "an older set is a set: {one}");
    one["note"].as_str().unwrap().to_owned()
}

async fn until_note(process: &Process, words: &str) {
    process.until(words, async || note(process).await.contains(words).then_some(())).await;
}

#[tokio::test]
async fn a_push_event_brings_new_templates_and_deployments_record_their_commit() {
    let (host, bare, home) = followed("1h").await;
    let process = home.start().await;
    let (file, record) = deployed(&home, &process, 1).await;
    assert!(file.contains("word: one"), "{file}\n{record}");
    assert_eq!(record["template"], "backend-default@latest");
    assert_eq!(record["templates_commit"], bare.tip());
    assert_eq!(home.manifests().trailer("Template-Commit"), [bare.tip()]);
    assert!(note(&process).await.contains(&bare.tip()[..8]));

    bare.somebody_writes(FILE, &template("two"));
    host.requests();
    let ignored = push_event(&process, "shop", &bare.tip()).await;
    assert_eq!(ignored.status, 200, "{}", ignored.text);
    assert_eq!(host.requests(), [""; 0], "another repository's push is not ours");
    assert_eq!(push_event(&process, "templates", &bare.tip()).await.status, 202);
    until_note(&process, &bare.tip()[..8]).await;
    let (file, record) = deployed(&home, &process, 2).await;
    assert!(file.contains("word: two"), "{file}");
    assert_eq!(record["templates_commit"], bare.tip());
    let metrics = process.get("/metrics").await.1;
    let commit = format!("commit=\"{}\"}} 1", bare.tip());
    let info = metrics.lines().filter(|line| line.starts_with("the_deployer_templates_info{"));
    assert_eq!(info.map(|line| line.ends_with(&commit)).collect::<Vec<_>>(), [true], "{metrics}");
    assert!(!process.log().contains(TOKEN));
}

#[tokio::test]
async fn the_timer_refreshes_and_a_broken_set_is_refused_with_its_place() {
    let (_host, bare, home) = followed("1s").await;
    let process = home.start().await;
    let good = bare.tip();
    bare.somebody_writes(FILE, "metadata: {{ app.slug }\n");
    let broken = bare.tip();
    until_note(&process, &format!("{} is refused", &broken[..8])).await;
    let told = note(&process).await;
    assert!(told.contains(&good[..8]) && told.contains("configmap.yaml.tmpl:1:"), "{told}");
    assert_eq!(process.get("/readyz").await.0, 200);
    let place = "backend-default/latest/configmap.yaml.tmpl:1:";
    process
        .line("the violation", |line| {
            line["message"].as_str().unwrap_or_default().starts_with(place)
        })
        .await;
    let (file, record) = deployed(&home, &process, 1).await;
    assert!(file.contains("word: one"), "{file}");
    assert_eq!(record["templates_commit"], good);
    let metrics = process.get("/metrics").await.1;
    assert!(metrics.contains("the_deployer_templates_refused_total 1"), "{metrics}");
    assert!(metrics.contains("the_deployer_templates_age_seconds"), "{metrics}");

    bare.somebody_writes(FILE, &template("three"));
    until_note(&process, &bare.tip()[..8]).await;
    assert!(!note(&process).await.contains("refused"));
    assert!(deployed(&home, &process, 2).await.0.contains("word: three"));
}

#[tokio::test]
async fn a_start_without_the_host_uses_the_last_good_set_even_if_a_broken_one_came_after_it() {
    let (host, bare, home) = followed("1s").await;
    let good = bare.tip();
    let process = home.start().await;
    bare.somebody_writes("apps/backend-default/defaults.yaml", "nonsense: [");
    until_note(&process, "is refused").await;
    process.kill();
    host.behave(Behaviour::Status(503, None));
    let process = home.start().await;
    let told = note(&process).await;
    assert!(told.contains(&good[..8]) && told.contains("503"), "{told}");
    let (file, record) = deployed(&home, &process, 1).await;
    assert!(file.contains("word: one"), "{file}");
    assert_eq!(record["templates_commit"], good);

    bare.somebody_writes("apps/backend-default/defaults.yaml", DEFAULTS);
    host.behave(Behaviour::Good);
    until_note(&process, &bare.tip()[..8]).await;
}

#[tokio::test]
async fn without_any_good_set_it_does_not_start_and_says_why() {
    let host = GitHost::start().await;
    let bare = host.create("example/templates.git");
    let url = host.url("example/templates.git");
    let said = async |home: &Home| {
        let output = home.start_in_vain(&[]).await;
        assert_eq!(output.status.code(), Some(2));
        String::from_utf8(output.stderr).unwrap()
    };
    let home = following(&url, "1s");
    let text = said(&home).await;
    assert!(text.contains("has no branch main: push it"), "{text}");
    bare.somebody_writes("README.md", "nothing yet");
    assert!(said(&home).await.contains("no folder `apps` in it"));
    bare.somebody_writes(FILE, "{% if %}");
    let text = said(&home).await;
    assert!(text.contains("latest/configmap.yaml.tmpl:1:"), "{text}");
    assert!(text.contains("backend-default/defaults.yaml is missing"), "{text}");
    let nowhere = following(&host.url("example/nowhere.git"), "1s");
    assert!(said(&nowhere).await.contains("there is no repository at"));
}

#[tokio::test]
async fn a_path_is_followed_like_an_address_and_a_version_is_pinned() {
    let folder = folder::temporary();
    let bare = Bare::create(&folder.path().join("templates.git"));
    bare.somebody_writes("deploy/apps/backend-default/defaults.yaml", DEFAULTS);
    let file = |version: &str| format!("deploy/apps/backend-default/{version}/configmap.yaml.tmpl");
    bare.somebody_writes(&file("latest"), &template("newest"));
    bare.somebody_writes(&file("v1"), &template("first"));
    let url = bare.0.display();
    let home = Home::configured(&format!(
        "templates: {{repository: {{url: \"{url}\", path: deploy, refresh: 1s}}}}\n"
    ));
    let process = home.start().await;
    assert!(deployed(&home, &process, 1).await.0.contains("word: newest"));
    let waml = crate::harness::events::waml("shop")
        .replace("template: backend-default ", "template: backend-default@v1 ");
    let pinned = home.commit("example/shop", &waml);
    let id = Event::new(2, "shop", &pinned).accepted(&process).await;
    let record = process.ended(&id).await;
    assert_eq!(record["template"], "backend-default@v1", "{record}");
    let latest = "manifests/prod-cluster-1/devx/shop/latest/configmap.yaml";
    assert!(home.manifests().files()[latest].contains("word: first"));

    bare.somebody_puts("120000", &file("v2"), "../latest");
    until_note(&process, "v2/configmap.yaml.tmpl is a symbolic link").await;
}
