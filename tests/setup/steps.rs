//! The steps after the App: the manifest repository, clusters, configuration, Argo CD, and the whole way.
//!
//! `tests/setup/expected/` holds what a dry run prints. With `UPDATE_EXPECTED=1` it is written anew; read the diff
//! before keeping it.

use std::fs;
use std::path::Path;

use serde_json::Value as Json;

use super::{Browser, Outcome, Place, SERVICE, fits, unwrapped};
use crate::harness::api_server::{ApiServer, TOKEN, kubeconfig};
use crate::harness::git::Bare;
use crate::harness::git_host::GitHost;

const CLUSTER: &str =
    "context=test,name=prod-cluster-1,environment=production,domain=prod.example.com";

/// Compares a text with the file of that name.
fn expect(name: &str, text: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/setup/expected").join(name);
    if std::env::var_os("UPDATE_EXPECTED").is_some() {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
    }
    let expected = fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(text, expected, "{}", path.display());
}

/// A place with everything that the setup meets: GitHub, its git, a cluster.
struct Company {
    place: Place,
    host: GitHost,
    manifests: Bare,
    cluster: ApiServer,
    kubeconfig: String,
}

impl Company {
    async fn new() -> Self {
        let place = Place::new().await;
        let host = GitHost::start().await;
        place.github.guards(&host);
        let manifests = host.create("acme/manifests.git");
        let cluster = ApiServer::start().await;
        let file = kubeconfig(place.folder.path(), &cluster.url(), &format!("{{token: {TOKEN}}}"));
        let kubeconfig = file.display().to_string();
        Self { place, host, manifests, cluster, kubeconfig }
    }

    fn arguments(&self) -> Vec<String> {
        let url = self.host.url("acme/manifests.git");
        let words =
            ["--service-url", SERVICE, "--organization", "acme", "--app-name", "the-deployer"];
        let more =
            ["--manifests-url", &url, "--kubeconfig", &self.kubeconfig, "--cluster", CLUSTER];
        words.into_iter().chain(more).map(str::to_owned).collect()
    }

    /// Runs the steps with all answers.
    async fn runs(&self, steps: &[&str]) -> Outcome {
        let arguments = self.arguments();
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        self.place.runs(&[steps, &arguments[..]].concat()).await
    }

    /// Registers the App and installs it at `acme`.
    async fn has_an_app(&self) {
        let (run, url) = self.place.registers(&[]).await;
        let back = Browser::new().confirms(&url, &self.place.github.url()).await;
        assert_eq!(Browser::new().opens(&back).await.0, 200);
        assert_eq!(run.ends().await.code, 0);
        self.place.github.repository("acme/manifests");
    }

    /// What is printed, with names in place of what differs from run to run.
    fn stable(&self, text: &str) -> String {
        let folder = self.place.folder.path().to_str().unwrap();
        let text = unwrapped(text).replace(
            &self.host.url("acme/manifests.git"),
            "https://git.example.com/acme/manifests.git",
        );
        let text = text.replace(&self.place.github.url(), "https://github.example.com");
        text.replace(&self.cluster.url(), "https://cluster.example.com")
            .replace(folder, "/home/operator")
    }
}

#[tokio::test]
async fn a_dry_run_of_nothing_says_what_it_would_ask_and_do_and_changes_nothing() {
    let place = Place::new().await;
    let kubeconfig = kubeconfig(place.folder.path(), "https://10.0.0.1:6443", "{token: x}");
    let output = place.runs(&["--dry-run", "--kubeconfig", kubeconfig.to_str().unwrap()]).await;
    assert_eq!(output.code, 0, "{}", output.text);
    fits(&output.text);
    let folder = place.folder.path().to_str().unwrap();
    expect("nothing.txt", &unwrapped(&output.text).replace(folder, "/home/operator"));
    assert!(!place.path("deployer").exists());
    assert_eq!(place.github.seen().len(), 0);
    place.github.settled();
}

#[tokio::test]
async fn from_nothing_to_what_argo_cd_applies_and_again_without_a_change() {
    let company = Company::new().await;
    company.has_an_app().await;
    let dry = company.runs(&["--dry-run"]).await;
    assert_eq!(dry.code, 0, "{}", dry.text);
    assert_eq!(company.manifests.commits(), 0);
    assert!(!company.place.file("data").exists(), "a dry run leaves no folder");
    expect("registered.txt", &company.stable(&dry.text));
    let first = company.runs(&[]).await;
    assert_eq!(first.code, 0, "{}", first.text);
    fits(&first.text);
    let files = company.manifests.files();
    for path in ["README.md", "apps/prod-cluster-1.yaml", "apps/prod-cluster-1/project.yaml"] {
        assert!(files.contains_key(path), "{path} of {:?}", files.keys());
    }
    let applied = company.place.read("argocd/prod-cluster-1.yaml");
    assert_eq!(applied, files["apps/prod-cluster-1.yaml"]);
    let config: Json = serde_yaml::from_str(&company.place.read("config.yaml")).unwrap();
    assert_eq!(config["clusters"][0]["version"], "1.33");
    assert_eq!(config["clusters"][0]["kubernetes"]["context"], "test");
    let (state, commits) = (company.place.files(), company.manifests.commits());
    let second = company.runs(&[]).await;
    assert_eq!(second.code, 0, "{}", second.text);
    assert!(!second.text.contains("written") && !second.text.contains("commit"), "{}", second.text);
    assert_eq!(company.place.files(), state);
    assert_eq!(company.manifests.commits(), commits);
    let dry = company.runs(&["--dry-run"]).await;
    expect("done.txt", &company.stable(&dry.text));
    // The answers are in the file: no flag is needed any more.
    let third = company.place.runs(&["check"]).await;
    assert_eq!(third.code, 0, "{}", third.text);
    company.place.github.settled();
}

#[tokio::test]
async fn the_configuration_is_one_that_the_service_starts_with() {
    let company = Company::new().await;
    company.has_an_app().await;
    assert_eq!(company.runs(&[]).await.code, 0);
    let check = crate::cli::program("the-deployer", company.place.folder.path());
    let mut check = tokio::process::Command::from(check);
    let config = company.place.file("config.yaml");
    let check = check.args(["config", "check", "--config", config.to_str().unwrap()]).output();
    let check = check.await.unwrap();
    assert!(check.status.success(), "{}", crate::cli::said(&check));
    company.place.github.settled();
}

#[tokio::test]
async fn a_configuration_that_people_changed_stays_and_the_difference_is_shown() {
    let company = Company::new().await;
    company.has_an_app().await;
    assert_eq!(company.runs(&[]).await.code, 0);
    let own = company.place.read("config.yaml") + "limits: {requests_per_minute: 7}\n";
    fs::write(company.place.file("config.yaml"), &own).unwrap();
    let again = company.runs(&["configuration"]).await;
    assert_eq!(again.code, 0, "{}", again.text);
    for part in ["-limits: {requests_per_minute: 7}", "kept", "--force replaces it", "can be used"]
    {
        assert!(unwrapped(&again.text).contains(part), "{part}: {}", again.text);
    }
    assert_eq!(company.place.read("config.yaml"), own);
    let forced = company.runs(&["configuration", "--force"]).await;
    assert_eq!(forced.code, 0, "{}", forced.text);
    assert!(!company.place.read("config.yaml").contains("limits"));
    // What is there and cannot be used is found.
    fs::write(company.place.file("config.yaml"), "server: {lisen: x}\n").unwrap();
    let broken = company.runs(&["configuration"]).await;
    assert_eq!(broken.code, 1, "{}", broken.text);
    assert!(broken.text.contains("lisen"), "{}", broken.text);
    company.place.github.settled();
}

#[tokio::test]
async fn force_replaces_in_the_manifest_repository_what_its_plan_says() {
    let company = Company::new().await;
    company.has_an_app().await;
    assert_eq!(company.runs(&[]).await.code, 0);
    company.manifests.somebody_writes("README.md", "theirs\n");
    let commits = company.manifests.commits();
    let plain = company.runs(&["repository"]).await;
    assert_eq!(plain.code, 0, "{}", plain.text);
    assert!(unwrapped(&plain.text).contains("README.md differ"), "{}", plain.text);
    let dry = company.runs(&["repository", "--force", "--dry-run"]).await;
    for part in ["what people changed in README.md", "-theirs"] {
        assert!(unwrapped(&dry.text).contains(part), "{part}: {}", dry.text);
    }
    assert_eq!(company.manifests.commits(), commits);
    let forced = company.runs(&["repository", "--force"]).await;
    assert_eq!(forced.code, 0, "{}", forced.text);
    assert!(forced.text.contains("-theirs"), "{}", forced.text);
    assert_eq!(company.manifests.commits(), commits + 1);
    assert_ne!(company.manifests.files()["README.md"], "theirs\n");
    company.manifests.somebody_writes("apps/prod-cluster-1.yaml", "kind: Theirs\n");
    let forced = company.runs(&["argocd", "--force"]).await;
    assert_eq!(forced.code, 0, "{}", forced.text);
    let text = &company.manifests.files()["apps/prod-cluster-1.yaml"];
    assert_eq!(company.place.read("argocd/prod-cluster-1.yaml"), *text);
    assert!(!text.contains("Theirs"), "{text}");
    company.place.github.settled();
}

#[tokio::test]
async fn a_repository_that_cannot_be_pushed_to_stops_with_a_way_out() {
    let company = Company::new().await;
    company.has_an_app().await;
    let lost = company.host.url("acme/lost.git");
    let arguments = ["repository", "--manifests-url", &lost];
    let dry = company.place.runs(&[&arguments[..], &["--dry-run"]].concat()).await;
    assert_eq!(dry.code, 1, "{}", dry.text);
    assert!(!company.place.file("data").exists(), "a dry run leaves no folder");
    let pod = ["repository", "--runs-on", "kubernetes", "--manifests-url", "/srv/m.git"];
    let pod = company.place.runs(&pod).await;
    assert_eq!(pod.code, 1, "{}", pod.text);
    assert!(unwrapped(&pod.text).contains("a path of this machine"), "{}", pod.text);
    let output = company.place.runs(&arguments).await;
    assert_eq!(output.code, 1, "{}", output.text);
    assert!(output.text.contains("gh repo create"), "{}", output.text);
    company.place.github.forbids("acme", "contents");
    company.place.github.allows("acme", "contents", "read");
    let output = company.runs(&["repository"]).await;
    assert_eq!(output.code, 1, "{}", output.text);
    assert!(output.text.contains("contents: write"), "{}", output.text);
    let with_secret = "https://me:hunter2@git.example.com/m.git";
    let output = company.place.runs(&["repository", "--manifests-url", with_secret]).await;
    assert_eq!(output.code, 2, "{}", output.text);
    assert!(!output.text.contains("hunter2"), "{}", output.text);
    company.place.github.settled();
}

#[tokio::test]
async fn a_cluster_that_does_not_answer_stops_and_says_how_to_go_on() {
    let company = Company::new().await;
    let silent = "context=lost,name=x,environment=production,domain=x.example.com";
    let output = company
        .place
        .runs(&["clusters", "--kubeconfig", &company.kubeconfig, "--cluster", silent])
        .await;
    assert_eq!(output.code, 1, "{}", output.text);
    assert!(output.text.contains("has no context \"lost\"; it has test"), "{}", output.text);
    kubeconfig(company.place.folder.path(), "http://127.0.0.1:1", "{token: s3cret-of-the-cluster}");
    let output = company.runs(&["clusters"]).await;
    assert_eq!(output.code, 1, "{}", output.text);
    assert!(output.text.contains("watch=no") && !output.text.contains("s3cret"), "{}", output.text);
    let unwatched = format!("{CLUSTER},watch=no");
    let output = company
        .place
        .runs(&["clusters", "--kubeconfig", &company.kubeconfig, "--cluster", &unwatched])
        .await;
    assert_eq!(output.code, 0, "{}", output.text);
    let output = company.place.runs(&["clusters", "--kubeconfig", "/none"]).await;
    assert_eq!(output.code, 1, "{}", output.text);
    assert!(output.text.contains("/none cannot be read"), "{}", output.text);
    company.place.github.settled();
}

#[tokio::test]
async fn for_a_pod_the_configuration_names_its_own_paths() {
    let company = Company::new().await;
    company.has_an_app().await;
    let output = company.runs(&["--runs-on", "kubernetes"]).await;
    assert_eq!(output.code, 0, "{}", output.text);
    let config = company.place.read("config.yaml");
    assert!(config.contains("/run/secrets/the-deployer/github-app.pem"), "{config}");
    assert!(!config.contains(company.place.folder.path().to_str().unwrap()), "{config}");
    assert!(output.text.contains("create secret generic the-deployer"), "{}", output.text);
    assert_eq!(company.manifests.commits(), 2, "the layout, then the cluster");
    company.place.github.settled();
}
