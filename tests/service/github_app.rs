//! Manifests and templates in repositories of a GitHub, reached as its App.

use the_deployer::support::clock::Clock;

use crate::harness::events::waml;
use crate::harness::git::Bare;
use crate::harness::git_host::GitHost;
use crate::harness::github::World;
use crate::harness::process::{Home, Process};

/// A GitHub with a service repository, and the repositories of manifests and templates.
struct Place {
    github: World,
    host: GitHost,
    manifests: Bare,
    templates: Bare,
    home: Home,
}

impl Place {
    async fn new() -> Self {
        let github = World::start(&Clock::system()).await;
        let host = GitHost::start().await;
        github.guards(&host);
        for name in ["acme/shop", "acme/manifests", "acme/templates"] {
            github.repository(name);
        }
        github.repository("acme/shop").commit(&waml("shop"));
        let manifests = host.create("acme/manifests.git");
        let templates = host.create("acme/templates.git");
        templates.somebody_writes(
            "apps/backend-default/defaults.yaml",
            "resources: {requests: {cpu: 100m}}",
        );
        templates.somebody_writes(
            "apps/backend-default/latest/configmap.yaml.tmpl",
            "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {{ app.slug }}\ndata: {a: b}\n",
        );
        let home = Home::configured(&config(&github, &host));
        std::fs::write(home.path("app.pem"), github.app().key).unwrap();
        std::fs::create_dir_all(home.state("")).unwrap();
        std::fs::write(home.state("webhook-secret"), "h00k-of-the-test").unwrap();
        Self { github, host, manifests, templates, home }
    }

    async fn start(&self) -> Process {
        let process = self.home.start().await;
        let hook = format!("{}/webhooks/github", process.address());
        self.github.hooks_to(&hook, &process.secret);
        process
    }

    /// Somebody deploys `shop`; how it ended.
    async fn deploys(&self, process: &Process, tag: &str) -> serde_json::Value {
        self.github.repository("acme/shop").deploys("prod-cluster-1", tag).await;
        let id = process.deployments().await.pop().unwrap()["id"].as_str().unwrap().to_owned();
        process.ended(&id).await
    }

    fn assert_secret(&self, process: &Process) {
        let log = process.log();
        for word in ["ghs_", "h00k-of-the-test", "PRIVATE KEY"] {
            assert!(!log.contains(word), "{word}: {log}");
        }
        self.github.settled();
    }
}

/// Nothing says of the two repositories as whom to come: the App is there, and they are on its host.
fn config(github: &World, host: &GitHost) -> String {
    format!(
        "forge:\n  github:\n    api_url: {}\n    app: {{id: \"{}\", private_key: {{file: app.pem}}}}\n    \
         webhook_secret: {{file: .the-deployer/webhook-secret}}\n\
         templates: {{repository: {{url: \"{}\", refresh: 1h}}}}\n\
         manifests: {{repositories: [{{name: fleet, url: \"{}\"}}]}}\n",
        github.api_url(),
        github.app().id,
        host.url("acme/templates.git"),
        host.url("acme/manifests.git"),
    )
}

#[tokio::test]
async fn manifests_are_pushed_and_templates_are_read_as_the_app() {
    let place = Place::new().await;
    let process = place.start().await;
    let ready = process.json("/readyz").await;
    assert_eq!(ready["ready"], true, "{ready}");
    let first = place.deploys(&process, "v1").await;
    assert_eq!(first["state"], "succeeded", "{first}");
    assert_eq!(place.manifests.commits(), 1);
    assert_eq!(first["templates_commit"], place.templates.tip().as_str());
    let minted = place.github.count("POST access_tokens");

    // Kept tokens serve again.
    let second = place.deploys(&process, "v2").await;
    assert_eq!(second["state"], "succeeded", "{second}");
    assert_eq!(place.github.count("POST access_tokens"), minted);
    place.assert_secret(&process);
}

#[tokio::test]
async fn tokens_that_end_early_are_minted_anew_and_the_push_lands() {
    let place = Place::new().await;
    let process = place.start().await;
    place.deploys(&process, "v1").await;
    place.host.requests();
    place.github.revokes_tokens();
    let second = place.deploys(&process, "v2").await;
    assert_eq!(second["state"], "succeeded", "{second}");
    assert_eq!(second["summary"].as_str().map(|text| text.contains("401")), Some(false));
    assert_eq!(place.manifests.trailer("Deploy-Id"), [second["id"].as_str().unwrap()]);
    place.assert_secret(&process);
}

#[tokio::test]
async fn an_app_that_may_not_write_says_which_permission_is_missing_and_where() {
    let place = Place::new().await;
    let process = place.start().await;
    place.github.allows("acme", "contents", "read");
    let failed = place.deploys(&process, "v1").await;
    assert_eq!(failed["state"], "failed", "{failed}");
    let summary = failed["summary"].as_str().unwrap();
    let words = format!("there is no token for {}: ", place.host.url("acme/manifests.git"));
    assert!(summary.contains(&words) && summary.contains("contents: write"), "{summary}");
    let (status, ready) = process.get("/readyz").await;
    assert!(status == 503 && ready.contains("contents: write"), "{ready}");

    place.github.allows("acme", "contents", "write");
    let again = place.deploys(&process, "v1").await;
    assert_eq!(again["state"], "succeeded", "{again}");
    place.assert_secret(&process);
}
