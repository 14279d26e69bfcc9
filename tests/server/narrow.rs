//! A token that is for some apps or targets is told nothing of the others.

use serde_json::{Value, json};

use super::admission::{TARGET, configure_people, configure_tokens, get_as, post_as, with_tokens};
use super::world::Answer;
use crate::harness::deployer::Deployer;
use crate::harness::events::waml;
use crate::harness::registry::{Entry, Registry};

/// A program and the registry that it looks into.
struct Place {
    deployer: Deployer,
    registry: Registry,
}

impl Place {
    /// With two builds of `acme/shop`; not started yet.
    async fn prepared() -> Self {
        let registry = Registry::start(Entry::TokenForAll, &[]).await;
        registry.lock().build("acme/shop:1.9", "2026-11-20T10:00:00Z", "649008fb649008fb");
        registry.lock().build("acme/shop:1.10", "2026-11-21T10:00:00Z", "00ff00ff00ff00ff");
        let mut deployer = Deployer::prepared().await;
        let host = registry.host();
        deployer.configure(|config| {
            format!("{config}registries: [{{host: '{host}', insecure: true}}]\n")
        });
        Self { deployer, registry }
    }

    async fn with_tokens(tokens: &[&str]) -> Self {
        let mut place = Self::prepared().await;
        configure_tokens(&mut place.deployer, tokens);
        place.deployer.starts().await;
        place
    }

    /// The WAML of an app whose image is `acme/shop` of the registry, for `dev` and `prod-cluster-1`.
    fn waml(&self, namespace: &str, slug: &str) -> String {
        let image =
            format!("image: {{registry: '{}', repository: acme/shop}}", self.registry.host());
        let text = waml(slug).replace("namespace: devx", &format!("namespace: {namespace}"));
        let text = text.replace("deploy:\n", &format!("deploy:\n  dev: {{{image}}}\n"));
        text.replace("  prod-cluster-1:\n", &format!("  prod-cluster-1:\n    {image}\n"))
    }

    async fn deploys(&self, repository: &str, waml: &str, target: &str, tag: &str) {
        let repository = self.deployer.github.repository(repository);
        repository.commit(waml);
        let id = repository.deploys(target, tag).await;
        self.deployer.settle().await;
        assert_eq!(self.deployer.github.told(id).last().unwrap(), "success");
    }

    /// The builds that can be deployed of the app of a WAML.
    async fn builds(&self, token: &str, repository: &str, waml: &str) -> Answer {
        let body = json!({"repository": repository, "target": TARGET, "waml": waml});
        post_as(&self.deployer, token, "/api/v1/builds", &body).await
    }
}

/// Where the build of that tag is live.
fn live<'a>(answer: &'a Value, tag: &str) -> &'a Value {
    let builds = answer["builds"].as_array().unwrap_or_else(|| panic!("{answer}"));
    &builds.iter().find(|one| one["tag"] == tag).unwrap_or_else(|| panic!("{answer}"))["live"]
}

#[tokio::test]
async fn a_plan_shows_no_app_that_the_token_is_not_for() {
    let deployer = with_tokens(&[
        "{name: devx, scope: read, apps: ['devx/*']}",
        "{name: pay, scope: read, apps: ['pay/*']}",
        "{name: all}",
    ])
    .await;
    let shop = deployer.github.repository("acme/shop");
    let web = waml("web").replace("namespace: devx", "namespace: pay");
    for text in [&waml("shop"), &web] {
        shop.commit(text);
        let id = shop.deploys(TARGET, "v1").await;
        deployer.settle().await;
        assert_eq!(deployer.github.told(id).last().unwrap(), "success");
    }
    let plan = async |token: &str| {
        let body = json!({"repository": "acme/shop", "target": TARGET, "waml": web});
        post_as(&deployer, token, "/api/v1/plan", &body).await
    };
    let said = plan("devx").await.problem(403, "forbidden");
    assert!(said.contains(&format!("pay/web on {TARGET}")), "{said}");
    for token in ["pay", "all"] {
        let answer = plan(token).await;
        assert_eq!((answer.status.as_u16(), &answer.json()["app"]), (200, &json!("pay/web")));
    }
    deployer.settled().await;
}

#[tokio::test]
async fn builds_tell_who_may_not_see_an_app_neither_that_it_is_nor_where() {
    let place = Place::with_tokens(&[
        "{name: prod, scope: read, targets: [prod-cluster-1], apps: ['devx/*']}",
        "{name: dev, scope: read, targets: [dev], apps: ['devx/*']}",
        "{name: all}",
    ])
    .await;
    let text = place.waml("devx", "shop");
    place.deploys("acme/shop", &text, "dev", "1.9").await;
    place.deploys("acme/shop", &text, TARGET, "1.10").await;
    // A tag that is live and gone from the registry is told in a note.
    place.registry.lock().built.remove("acme/shop:1.10");
    let builds = async |token: &str, slug: &str, rest: &str| {
        let path = format!("/api/v1/builds?app=devx/{slug}{rest}");
        get_as(&place.deployer, token, &path).await
    };
    let there = builds("dev", "shop", "").await.problem(403, "forbidden");
    let nowhere = builds("dev", "new", "").await.problem(403, "forbidden");
    assert_eq!(there.replace("devx/shop", "devx/new"), nowhere);
    builds("all", "new", "").await.problem(404, "not-found");
    for (token, rest, on_dev, told) in [
        ("prod", "", json!([]), true),
        ("dev", "&target=dev", json!(["dev"]), false),
        ("all", "", json!(["dev"]), true),
    ] {
        let answer = builds(token, "shop", rest).await.json();
        assert_eq!(*live(&answer, "1.9"), on_dev, "{token}");
        assert_eq!(answer["notes"].to_string().contains("1.10 is live"), told, "{token}");
        assert_eq!(answer.to_string().contains("1.10"), told, "{token}: {answer}");
    }
    place.deployer.settled().await;
}

#[tokio::test]
async fn targets_are_listed_as_far_as_a_token_is_for_them() {
    let mut deployer = Deployer::prepared().await;
    configure_tokens(
        &mut deployer,
        &["{name: dev, scope: read, targets: ['dev*']}", "{name: all}"],
    );
    deployer.configure(|config| {
        let cluster = |name: &str| {
            format!("- {{name: {name}, environment: development, domain: {name}.example.com, server: 'https://{name}:6443'}}\n")
        };
        format!("{config}clusters:\n{}{}", cluster("dev"), cluster("prod"))
    });
    deployer.starts().await;
    let target = |name: &str| json!({"name": name, "environment": "development", "clusters": []});
    let both = json!([target("dev"), target("prod")]);
    for (token, wanted) in [
        ("dev", json!({"targets": [target("dev")], "any": false, "complete": false})),
        ("all", json!({"targets": both, "any": false, "complete": true})),
    ] {
        assert_eq!(get_as(&deployer, token, "/api/v1/targets").await.json(), wanted, "{token}");
    }
    deployer.settled().await;
}

#[tokio::test]
async fn builds_of_a_waml_are_for_who_may_see_its_repository_and_its_app() {
    let place = Place::with_tokens(&[
        "{name: devx, scope: read, apps: ['devx/*']}",
        "{name: dev, scope: read, targets: [dev]}",
        "{name: reader, scope: read}",
        "{name: deployer, scope: deploy}",
        "{name: all}",
    ])
    .await;
    let text = place.waml("devx", "shop");
    place.deploys("acme/shop", &text, TARGET, "1.9").await;
    assert_eq!(place.builds("devx", "acme/shop", &text).await.status, 200);
    let web = place.waml("pay", "web");
    let said = place.builds("devx", "acme/shop", &web).await.problem(403, "forbidden");
    assert!(said.contains("pay/web"), "{said}");
    place.builds("dev", "acme/shop", &text).await.problem(403, "forbidden");
    let all = place.builds("all", "acme/shop", &text).await.json();
    assert_eq!(*live(&all, "1.9"), json!([TARGET]));
    let wrong = json!({"repository": "acme/shop", "waml": text, "cursor": "x"});
    let wrong = post_as(&place.deployer, "all", "/api/v1/builds", &wrong).await;
    wrong.problem(422, "unprocessable");
    // Another image than the repository's is listed only for callers who may deploy it.
    assert_eq!(place.builds("reader", "acme/shop", &text).await.status, 200);
    assert_eq!(place.builds("deployer", "acme/mine", &text).await.status, 200);
    let said = place.builds("reader", "acme/mine", &text).await.problem(403, "forbidden");
    let image = format!("{}/acme/shop", place.registry.host());
    assert_eq!(
        said,
        format!(
            "{image} has another name than acme/mine: its builds are listed only for callers who \
             may deploy that repository"
        )
    );
    place.deployer.settled().await;
}

#[tokio::test]
async fn a_person_is_told_nothing_of_an_app_that_a_posted_waml_merely_names() {
    let mut place = Place::prepared().await;
    configure_people(&mut place.deployer);
    place.deployer.starts().await;
    let [shop, till] = [place.waml("devx", "shop"), place.waml("pay", "till")];
    place.deploys("acme/shop", &shop, TARGET, "1.9").await;
    place.deploys("acme/till", &till, TARGET, "1.10").await;
    // A tag that is live and gone from the registry is told in a note.
    place.registry.lock().built.clear();
    let alice = place.deployer.github.token_of("alice");
    place.deployer.github.lets("alice", "acme/shop", "pull");
    let own = place.builds(&alice, "acme/shop", &shop).await.json();
    assert_eq!(*live(&own, "1.9"), json!([TARGET]));
    assert!(own["notes"].to_string().contains("1.9 is live"), "{own}");
    let other = place.builds(&alice, "acme/shop", &till).await.json();
    assert_eq!((&other["builds"], &other["notes"]), (&json!([]), &json!([])));
    place.deployer.settled().await;
}
