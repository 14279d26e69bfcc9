//! Tests that bart creates GitHub Deployments with the developer's own token, where repositories are at GitHub.

use serde_json::json;
use the_deployer::support::clock::Clock;

use crate::harness::developer::{Developer, Said};
use crate::harness::events::waml;
use crate::harness::github::{Fault, Webhooks, World};
use crate::harness::process::{Home, Process};

const HOOK: &str = "h00k-of-the-test";

/// A GitHub with `acme/shop`, a service that hears of it, and a developer.
struct Place {
    github: World,
    process: Process,
    developer: Developer,
    home: Home,
}

impl Place {
    async fn new() -> Self {
        Self::with("").await
    }

    async fn with(more: &str) -> Self {
        let github = World::start(&Clock::system()).await;
        let waml = waml("shop").replace("deploy:\n", "deploy:\n  dev: {}\n");
        github.repository("acme/shop").commit(&waml);
        let home = Home::configured(&format!(
            "forge:\n  github:\n    api_url: {}\n    token: {{file: token}}\n    webhook_secret: {{file: hook}}\n    \
             login: {{client_id: Iv23liOfTheTest}}\n    repositories: [\"acme/*\"]\n{more}",
            github.api_url()
        ));
        std::fs::write(home.path("token"), github.token()).unwrap();
        std::fs::write(home.path("hook"), HOOK).unwrap();
        std::fs::create_dir_all(home.state("")).unwrap();
        std::fs::write(home.state("webhook-secret"), HOOK).unwrap();
        let process = home.start().await;
        github.hooks_to(&format!("{}/webhooks/github", process.address()), HOOK);
        let developer = Developer::of("git@github.example.com:acme/shop.git", &waml);
        Self { github, process, developer, home }
    }

    fn variables(&self) -> [(&str, &str); 2] {
        [("BART_SERVER", self.process.address()), ("BART_GITHUB_TOKEN", self.github.token())]
    }

    async fn deploys(&self, arguments: &[&str]) -> Said {
        let all = [&["deploy", "1.0"], arguments, &["--ref", "main"]].concat();
        self.developer.runs(&self.variables(), &all).await
    }

    /// All has been told, and nothing that GitHub would punish was done.
    async fn settled(&self) {
        for one in self.process.deployments().await {
            self.process.ended(one["id"].as_str().unwrap()).await;
        }
        self.github.settled();
    }
}

#[tokio::test]
async fn deployments_are_created_at_github_and_followed_at_the_service() {
    let place = Place::new().await;
    let said = place.deploys(&["dev", "prod-cluster-1", "-d", "fixes the checkout"]).await;
    said.ended(0, &["dev: created", "dev: succeeded in ", "prod-cluster-1: succeeded in "]);
    let all = place.process.deployments().await;
    let seen: Vec<_> = all.iter().map(|one| (&one["target"], &one["production"])).collect();
    let wanted = [(&json!("dev"), &json!(false)), (&json!("prod-cluster-1"), &json!(true))];
    assert_eq!(seen, wanted);
    assert_eq!(
        (&all[0]["description"], &all[0]["ref"]),
        (&json!("fixes the checkout"), &json!("main"))
    );
    place.settled().await;
}

#[tokio::test]
async fn our_own_status_of_an_earlier_failure_does_not_stand_in_the_way() {
    let place = Place::new().await;
    place.deploys(&["dev"]).await.ended(0, &[]);
    place.settled().await;
    let said = place.deploys(&["dev", "--require-context", "build"]).await;
    said.ended(1, &["GitHub refuses (409", "build is pending"]);
    place.deploys(&["dev"]).await.ended(0, &["succeeded"]);
    place.settled().await;
}

#[tokio::test]
async fn a_half_created_set_is_told_with_the_way_on() {
    let place = Place::new().await;
    // Its events are late, so that nothing but bart asks GitHub for anything.
    place.github.webhooks(Webhooks::Held);
    // Of the first the answer is lost, the second is refused.
    place.github.fails(1, "POST acme/shop/deployments", Fault::CutAfter);
    place.github.fails(1, "POST acme/shop/deployments", Fault::Status(403));
    let said = place.deploys(&["dev", "prod-cluster-1", "--no-wait"]).await;
    said.ended(
        1,
        &[
            "created for dev, and none for prod-cluster-1",
            "`bart deploy 1.0 prod-cluster-1 --ref main`",
            "GitHub refuses (403",
        ],
    );
    place.github.webhooks(Webhooks::Delivered);
    place.github.release(&[0]).await;
    assert_eq!(
        place.process.deployments().await.len(),
        1,
        "whose answer was lost is not made twice"
    );
    let said = place.deploys(&["dev", "--production", "["]).await;
    said.ended(2, &["--production"]);
    place.settled().await;
}

#[tokio::test]
async fn what_was_created_is_followed_after_the_refusal_of_the_rest_was_told() {
    let place = Place::new().await;
    place.github.webhooks(Webhooks::Held);
    // The first comes to be, and nobody hears of it; the second is refused.
    place.github.fails(1, "POST acme/shop/deployments", Fault::CutAfter);
    place.github.fails(1, "POST acme/shop/deployments", Fault::Status(403));
    let arguments = ["dev", "prod-cluster-1", "--timeout", "1s", "-o", "json"];
    let said = place.deploys(&arguments).await;
    let told = |part: &str| said.err.find(part).unwrap_or_else(|| panic!("{part}: {said:?}"));
    said.ended(2, &["they continue"]);
    assert!(told("GitHub refuses (403") < told("dev: created"), "{}", said.err);
    assert!(told("dev: created") < told("not all deployments ended within 1s"), "{}", said.err);
    let one = said.json()["deployments"][0].clone();
    assert_eq!((&one["target"], &one["state"]), (&json!("dev"), &json!(null)), "{one}");
    place.github.webhooks(Webhooks::Delivered);
    place.github.release(&[0]).await;
    place.settled().await;
}

#[tokio::test]
async fn a_github_that_only_the_service_names_gets_no_other_tools_token() {
    let place = Place::new().await;
    let [server, _] = place.variables();
    for name in ["GH_TOKEN", "GITHUB_TOKEN"] {
        let variables = [server, (name, place.github.token())];
        let deploy = ["deploy", "1.0", "dev", "--ref", "main"];
        let said = place.developer.runs(&variables, &deploy).await;
        said.ended(2, &["there is no GitHub token for", "bart login", "BART_GITHUB_TOKEN"]);
    }
    assert_eq!(place.process.deployments().await.len(), 0);
    place.github.settled();
}

#[tokio::test]
async fn github_that_refuses_the_token_says_what_to_do() {
    let place = Place::new().await;
    let [server, _] = place.variables();
    let said = place.developer.runs(&[server], &["deploy", "1.0", "dev", "--ref", "main"]).await;
    said.ended(2, &["there is no GitHub token", "bart login"]);
    let wrong = [server, ("BART_GITHUB_TOKEN", "ghp_wrong")];
    let said = place.developer.runs(&wrong, &["deploy", "1.0", "dev", "--ref", "main"]).await;
    said.ended(1, &["GitHub refuses (401", "BART_GITHUB_TOKEN"]);
    assert!(!said.err.contains("ghp_wrong"), "{}", said.err);
    let said =
        place.developer.runs(&place.variables(), &["deploy", "1.0", "dev", "--ref", "v9"]).await;
    said.ended(1, &["v9 is not on this machine", "No ref found", "push it"]);
    place.github.settled();
}

#[tokio::test]
async fn who_is_logged_in_needs_no_other_token() {
    let place = Place::with("auth: {github: {}}\n").await;
    let ada = place.github.token_of("ada");
    place.github.lets("ada", "acme/shop", "push");
    let server = [("BART_SERVER", place.process.address())];
    let deploy = ["deploy", "1.0", "dev", "--ref", "main"];
    place.developer.runs(&server, &deploy).await.ended(1, &["bart login"]);
    std::fs::write(place.developer.work().join("token"), &ada).unwrap();
    let mut login = place.developer.bart(&server, &["login", "--with-token"]);
    login.stdin(std::fs::File::open(place.developer.work().join("token")).unwrap());
    Said::until_the_end_of(login.spawn().unwrap()).await.ended(0, &["as ada"]);
    let data = ["deploy", "1.0", "dev", "--ref", "main", "-o", "json"];
    let said = place.developer.runs(&server, &data).await;
    assert!(!format!("{said:?}").contains(&ada), "{said:?}");
    let one = said.ended(0, &[]).json()["deployments"][0].clone();
    assert_eq!(one["deployment"]["actor"], "ada", "{one}");
    assert_eq!(one["state"], "succeeded");
    let number = one["forge_id"].as_i64().unwrap();
    let told =
        async || place.github.told(number).iter().any(|told| told == "success").then_some(());
    place.process.until("what GitHub is told", told).await;
    place.github.settled();
}

/// Two versions with weights on `dev`.
const WEIGHTED: &str = "    ingress: [{hostPrefix: shop}]\n    versions:\n    - {name: v1, tag: \"1\", weight: 90}\n    - {name: v2, tag: \"2\", weight: 10}\n";

#[tokio::test]
async fn weights_are_proposed_as_a_pull_request_from_the_default_branch() {
    let place = Place::new().await;
    let weighted = waml("shop").replace("deploy:\n", &format!("deploy:\n  dev:\n{WEIGHTED}"));
    let shop = place.github.repository("acme/shop");
    shop.commit(&weighted);
    let before = place.developer.work().join(".weave.yaml");
    let here = std::fs::read_to_string(&before).unwrap();
    let set = ["traffic", "set", "v1=50", "v2=50", "--target", "dev", "--pull-request"];
    let propose = async |more: &[&str]| {
        place.developer.runs(&place.variables(), &[&set[..], more].concat()).await
    };
    propose(&["--dry-run"]).await.ended(0, &["weight: 90", "weight: 50"]);
    assert_eq!(shop.pull_requests(".weave.yaml"), []);
    let said = propose(&["--reason", "v2 is as fast"]).await;
    said.ended(0, &["weight: 50", "opened https://github.com/acme/shop/pull/1"]);
    let pulls = shop.pull_requests(".weave.yaml");
    let [(branch, text)] = &pulls[..] else { panic!("{pulls:?}") };
    assert!(branch.starts_with("traffic-dev-"), "{branch}");
    assert_eq!(
        *text,
        weighted.replace("weight: 90", "weight: 50").replace("weight: 10", "weight: 50")
    );
    assert_eq!(std::fs::read_to_string(&before).unwrap(), here, "nothing changes here");
    let same = ["traffic", "set", "v1=90", "v2=10", "--target", "dev", "--pull-request"];
    let said = place.developer.runs(&place.variables(), &same).await;
    said.ended(0, &["nothing to change"]);
    let wrong = ["traffic", "set", "v1=50", "v9=50", "--target", "dev", "--pull-request"];
    place.developer.runs(&place.variables(), &wrong).await.ended(1, &["v9"]);
    // What GitHub refuses in the middle leaves no branch.
    place.github.fails(1, "POST acme/shop/pulls", Fault::Status(403));
    propose(&[]).await.ended(1, &["GitHub refuses"]);
    let branches = shop.branches();
    assert_eq!(
        branches.iter().filter(|name| name.starts_with("traffic-")).count(),
        1,
        "{branches:?}"
    );
    place.settled().await;
}

#[tokio::test]
async fn an_edit_by_hand_is_proposed_as_a_pull_request_from_the_default_branch() {
    let place = Place::new().await;
    place.deploys(&["prod-cluster-1"]).await.ended(0, &["succeeded"]);
    let bare = place.home.manifests();
    let file = "manifests/prod-cluster-1/devx/shop/latest/horizontalpodautoscaler.yaml";
    bare.somebody_writes(file, &bare.files()[file].replace("maxReplicas: 10", "maxReplicas: 14"));
    let shop = place.github.repository("acme/shop");
    let here = std::fs::read_to_string(place.developer.work().join(".weave.yaml")).unwrap();
    let import = ["import-edit", "prod-cluster-1", "--pull-request", "--reason", "the fair"];
    let said = place.developer.runs(&place.variables(), &import).await;
    said.ended(0, &["opened https://github.com/acme/shop/pull/1", "maxReplicas: 10 → 14"]);
    let pulls = shop.pull_requests(".weave.yaml");
    let [(branch, text)] = &pulls[..] else { panic!("{pulls:?}") };
    assert!(branch.starts_with("import-edit-prod-cluster-1-"), "{branch}");
    assert_eq!(*text, here.replace("maxReplicas: 10", "maxReplicas: 14"));
    // What GitHub refuses in the middle leaves no branch.
    place.github.fails(1, "POST acme/shop/pulls", Fault::Status(403));
    place.developer.runs(&place.variables(), &import).await.ended(1, &["GitHub refuses"]);
    let branches = shop.branches();
    assert_eq!(branches.iter().filter(|name| name.starts_with("import-edit-")).count(), 1);
    place.settled().await;
}
