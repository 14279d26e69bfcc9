//! Pages of apps, rollouts, insights, locks, the audit log and the service: what they show, and to whom.

use std::time::Duration;

use serde_json::{Value, json};

use super::pages::{browse, edited, follow, page, with_receiver};
use super::reading::asking_for;
use super::shop::{
    FOLDER, TARGET, ask_as, asks, asks_with, deploys, deploys_with, recovers, tokens,
};
use super::sign_in::{open, signs_in};
use super::world::{get, post};
use crate::harness::deployer::Deployer;
use crate::harness::events::waml;

const SHOP: &str = "/apps/prod-cluster-1/devx/shop";

#[tokio::test]
async fn an_app_is_shown_with_what_stands_in_its_way_and_what_changed_between_two_revisions() {
    let deployer = Deployer::start().await;
    let links = "{name: \"<b>Runbook\", url: \"https://example.com/runbook?a=1&b=2\"}";
    let linked = waml("shop").replace("{name: Runbook, url: \"https://…\"}", links);
    let first = deploys_with(&deployer, "v1", &linked).await;
    let more = linked.replace("minReplicas: 3", "minReplicas: 5");
    let second = deploys_with(&deployer, "v2", &more).await;
    let shown = browse(&deployer, SHOP, None).await;
    let text = page(&shown, 200);
    follow(
        text,
        &[
            ">live</span>",
            "<h2 id=\"what\">Live</h2>",
            ">v2</dd>",
            &format!("href=\"/deployments/{second}\""),
            "<a href=\"https://example.com/runbook?a=1&#38;b=2\" rel=\"noreferrer\">&#60;b&#62;Runbook</a>",
            ">Revisions</h2>",
            &format!("id=\"r-{second}\""),
            &format!("href=\"?from={first}&amp;to={second}#diff\""),
            &format!("id=\"r-{first}\""),
            ">Deployments</h2>",
        ],
    );
    assert!(!text.contains("In the way of a deployment"), "{text}");
    let shown = browse(&deployer, &format!("{SHOP}?from={first}&to={second}"), None).await;
    follow(
        page(&shown, 200),
        &[
            &format!("From {first} to {second}"),
            "HorizontalPodAutoscaler shop",
            ">spec.minReplicas</th><td class=\"mono old\">3</td><td class=\"mono new\">5</td>",
            "<span class=\"old\">-  minReplicas: 3</span>",
        ],
    );
    let same = browse(&deployer, &format!("{SHOP}?from={first}&to={first}"), None).await;
    assert!(page(&same, 200).contains("They are the same."));
    let unknown = "20200101-000000000-000000";
    let gone = browse(&deployer, &format!("{SHOP}?from={unknown}&to={first}"), None).await;
    assert!(page(&gone, 200).contains("cannot be compared"));
    let wrong = browse(&deployer, &format!("{SHOP}?from=x&to={first}"), None).await;
    assert!(page(&wrong, 400).contains("from: "));
    let nothing = browse(&deployer, "/apps/prod-cluster-1/devx/cart", None).await;
    assert!(page(&nothing, 404).contains("there is no devx/cart on prod-cluster-1"));
    deployer.settled().await;
}

#[tokio::test]
async fn locks_holds_edits_and_what_is_under_way_stand_in_the_way_of_an_app() {
    let deployer = Deployer::start().await;
    edited(&deployer).await;
    let scope = json!({"target": TARGET, "app": "devx/shop"});
    let lock = json!({"scope": scope, "reason": "<i>the sale</i>"});
    assert_eq!(post(&deployer, "/api/v1/locks", &lock).await.status, 201);
    let hold = json!({"reason": "wait for the fix"});
    let answer = post(&deployer, &format!("/api/v1{SHOP}/hold"), &hold).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    let shown = browse(&deployer, SHOP, None).await;
    follow(
        page(&shown, 200),
        &[
            ">edited</span>",
            "In the way of a deployment",
            "<b>Locked</b>",
            "devx/shop on prod-cluster-1 until a person removes it: &#60;i&#62;the sale&#60;/i&#62;",
            "<b>Held</b>",
            "wait for the fix",
            "<b>Edited by hand</b>",
        ],
    );
    let locks = browse(&deployer, "/locks", None).await;
    follow(
        page(&locks, 200),
        &[
            "&#60;i&#62;the sale&#60;/i&#62;",
            "a person removes it",
            &format!("<a href=\"{SHOP}\">devx/shop on prod-cluster-1</a>"),
            "Every target takes deployments at any time.",
        ],
    );
    let audit = browse(&deployer, "/audit?act=lock", None).await;
    follow(page(&audit, 200), &["value=\"lock\"", ">lock<", "&#60;i&#62;the sale&#60;/i&#62;"]);
    let none = browse(&deployer, "/audit?by=nobody&target=", None).await;
    assert!(page(&none, 200).contains("There are no acts that pass the filter."));
    deployer.settled().await;
}

#[tokio::test]
async fn the_week_of_a_target_shows_when_it_is_closed() {
    let mut deployer = Deployer::prepared().await;
    // It is a Saturday.
    let cluster = format!(
        "clusters:\n- {{name: {TARGET}, environment: development, domain: example.com, policies: {{windows: [\
         {{days: mon-fri, from: \"09:00\", to: \"17:00\"}}, \
         {{days: wed, from: \"12:00\", to: \"13:00\", closed: true, reason: \"lunch <b>\"}}]}}}}\n"
    );
    deployer.configure(|config| format!("{config}{cluster}"));
    deployer.starts().await;
    let shown = browse(&deployer, "/locks", None).await;
    follow(
        page(&shown, 200),
        &[
            ">Sat 21 Nov</span>",
            "prod-cluster-1 <span class=\"badge gone\">closed</span>",
            "is closed now, and closed 7 times in these seven days",
            "<rect class=\"gone\" x=\"0\" width=\"342\"",
            "<title>Wed 12:00 to Wed 13:00: lunch &#60;b&#62;</title>",
        ],
    );
    asks(&deployer, "v1").await;
    deployer.settle().await;
    let shown = browse(&deployer, SHOP, None).await;
    follow(
        page(&shown, 200),
        &[">failed</span>", "<b>Outside the window</b>", "it opens Monday 09:00 UTC"],
    );
    deployer.settled().await;
}

#[tokio::test]
async fn a_rollout_is_shown_with_its_sequence_and_its_gates() {
    let deployer = Deployer::start().await;
    let empty = browse(&deployer, "/rollouts", None).await;
    assert!(page(&empty, 200).contains("There are no rollouts yet."));
    let two = waml("shop").replace("deploy:\n", "deploy:\n  dev: {}\n");
    let plan = "rollouts:\n  production:\n    steps:\n    - targets: [dev]\n    - approval: {}\n    - targets: [prod-cluster-1]\n";
    deployer.github.repository("example/shop").commit(&format!("{two}{plan}"));
    let body = json!({"repository": "example/shop", "ref": "main", "tag": "v1", "name": "production", "reason": "<u>the sale"});
    let started = post(&deployer, "/api/v1/rollouts", &body).await;
    assert_eq!(started.status, 202, "{started:?}");
    let id = started.json()["id"].as_str().unwrap().to_owned();
    let path = format!("/rollouts/{id}");
    deployer.works().await;
    let shown = browse(&deployer, &path, None).await;
    follow(
        page(&shown, 200),
        &[
            &format!("data-live=\"/live/rollouts/{id}\""),
            "devx/shop <span class=\"to\">as</span> v1",
            ">rolling out</span>",
            "1 of 2 targets complete",
            "Waiting for</h2>",
            "&#60;u&#62;the sale",
            "Sequence</h2>",
            "<li id=\"s-1\" class=\"good\">",
            "<b>dev</b>",
            "<li id=\"s-2\" class=\"going\" aria-current=\"step\">",
            "Gate: approval",
            "<b>prod-cluster-1</b> pending",
            &format!("bart rollout approve {id}"),
        ],
    );
    let list = browse(&deployer, "/rollouts?state=rolling_out&app=", None).await;
    follow(
        page(&list, 200),
        &["option selected>rolling_out", &format!("href=\"{path}\""), "1 of 2 targets"],
    );
    let approval = json!({"reason": "looks good"});
    assert_eq!(post(&deployer, &format!("/api/v1{path}/approve"), &approval).await.status, 200);
    deployer.settle().await;
    let shown = browse(&deployer, &path, None).await;
    let text = page(&shown, 200);
    follow(
        text,
        &[
            ">done</span>",
            "2 of 2 targets complete",
            "<dt>Approved</dt><dd>by ",
            ": looks good",
            "<dt>Passed</dt>",
        ],
    );
    assert!(!text.contains("data-live"), "nothing changes any more");
    let deployment = deployer.deployments().await.pop().unwrap().id;
    let shown = browse(&deployer, &format!("/deployments/{deployment}"), None).await;
    assert!(page(&shown, 200).contains(&format!("part of <a href=\"{path}\">a rollout</a>")));
    let unknown = browse(&deployer, "/rollouts/r-20200101-000000000-000000", None).await;
    assert!(page(&unknown, 404).contains("there is no rollout"));
    deployer.settled().await;
}

#[tokio::test]
async fn the_gates_of_a_rollout_show_their_answers_and_until_when_they_wait() {
    let deployer = Deployer::start().await;
    let two = waml("shop").replace("deploy:\n", "deploy:\n  dev: {}\n");
    // It is a Saturday, and no host is allowed for the address.
    let plan = "rollouts:\n  production:\n    steps:\n    - targets: [dev]\n    - bake: 10m\n    \
                - {http: {url: \"https://shop.example.com/health?<b>\", timeout: 1h}}\n    \
                - calendar: [{days: mon-fri, from: \"09:00\", to: \"17:00\"}]\n    - targets: [prod-cluster-1]\n    \
                on_failure: pause\n";
    deployer.github.repository("example/shop").commit(&format!("{two}{plan}"));
    let body =
        json!({"repository": "example/shop", "ref": "main", "tag": "v1", "name": "production"});
    let started = post(&deployer, "/api/v1/rollouts", &body).await;
    assert_eq!(started.status, 202, "{started:?}");
    let id = started.json()["id"].as_str().unwrap().to_owned();
    let path = format!("/rollouts/{id}");
    deployer.works().await;
    let shown = browse(&deployer, &path, None).await;
    let text = page(&shown, 200);
    follow(
        text,
        &["<li id=\"s-2\" class=\"going\"", "the bake time of 10m", "<dt>Waits since</dt>"],
    );
    let since = text.split("<dt>Waits since</dt><dd><time datetime=\"").nth(1).unwrap();
    let passes = text.split("<dt>Passes</dt><dd><time datetime=\"").nth(1).unwrap();
    let [since, passes] =
        [since, passes].map(|text| text[..20].parse::<jiff::Timestamp>().unwrap());
    assert_eq!(passes.duration_since(since).as_mins(), 10);
    assert!(text.contains("<dt>Gives up</dt><dd>after 1 h 0 min</dd>"), "{text}");
    for _ in 0..50 {
        deployer.works().await;
        deployer.clock.advance(Duration::from_secs(15));
    }
    let shown = browse(&deployer, &path, None).await;
    let text = page(&shown, 200);
    follow(
        text,
        &[
            "<li id=\"s-2\" class=\"good\"",
            "<dt>Passed</dt>",
            "<li id=\"s-3\" class=\"going\" aria-current=\"step\">",
            "https://shop.example.com/health?&#60;b&#62; to answer well",
            "<dt>Gives up</dt><dd><time",
            "open><summary>1 answer<",
            ">unanswered</span>",
            "<code>gates.http.allowed_hosts</code>",
            "</time> to <time",
        ],
    );
    let detail = get(&deployer, &format!("/api/v1{path}")).await.json();
    let asked = detail["steps"][2]["gate"]["answers"][0]["asked"].as_u64().unwrap();
    assert!(asked > 1, "{detail}");
    assert!(text.contains(&format!("class=\"number\">{asked}</td>")), "{text}");
    let cancel = json!({"reason": "over"});
    assert_eq!(post(&deployer, &format!("/api/v1{path}/cancel"), &cancel).await.status, 200);
    deployer.settle().await;
    deployer.settled().await;
}

#[tokio::test]
async fn insights_are_drawn_with_a_table_beneath() {
    let deployer = Deployer::start().await;
    let empty = browse(&deployer, "/insights?window=30d&target=", None).await;
    let text = page(&empty, 200);
    follow(
        text,
        &["value=\"30d\" selected", "0 deployments from", "There are none in this window."],
    );
    deploys(&deployer, "v1").await;
    let broken = waml("shop").replace("servicePort: 8000", "servicePort: 80");
    asks_with(&deployer, "v2", &broken).await;
    deployer.settle().await;
    let shown = browse(&deployer, "/insights", None).await;
    let text = page(&shown, 200);
    follow(
        text,
        &[
            "value=\"6h\" selected",
            "2 deployments from",
            "Deployment frequency",
            "1 change succeeded",
            "Deployments an hour",
            "<svg class=\"plot\"",
            "<rect class=\"good\"",
            "1 succeeded, 0 failed, 0 superseded or cancelled, 0 under way</title>",
            "0 succeeded, 1 failed, 0 superseded or cancelled, 0 under way</title>",
            "<table>",
            "Intervals over time",
            "Table<span class=\"unseen\"> of ",
            "Time to finish by app",
            "href=\"/insights?window=6h&#38;app=devx/shop\">devx/shop</a>",
            "Failures by rule or cause",
            "a rule</span></th><td class=\"time\">1</td>",
        ],
    );
    assert_eq!(text.matches("<svg class=\"plot\"").count(), 6, "five intervals, and the ends");
    let wrong = browse(&deployer, "/insights?window=91d", None).await;
    assert!(page(&wrong, 400).contains("is longer than 90d"));
    deployer.settled().await;
}

/// What stops an app on a cluster may be of a fleet, and ends there.
#[tokio::test]
async fn whoever_may_not_act_on_the_fleet_is_not_offered_to_end_its_lock_and_its_hold() {
    let mut deployer = Deployer::prepared().await;
    let clusters = format!(
        "clusters:\n- {{name: {TARGET}, environment: development, domain: example.com}}\n\
         fleets:\n- {{name: prod, clusters: {{names: [{TARGET}]}}}}\n"
    );
    deployer.configure(|config| format!("{config}{clusters}"));
    let of_cluster = format!("scope: deploy, targets: [{TARGET}]");
    tokens(&mut deployer, &[("everywhere", "scope: deploy"), ("cluster", &of_cluster)]);
    deployer.starts().await;
    let text = waml("shop").replace("  prod-cluster-1:\n", "  prod:\n  prod-cluster-1:\n");
    deployer.github.repository("example/shop").commit(&text);
    deployer.github.repository("example/shop").deploys("prod", "v1").await;
    deployer.settle().await;
    let why = json!({"reason": "an incident"});
    let held = ask_as(&deployer, "everywhere", "/api/v1/apps/prod/devx/shop/hold", &why).await;
    assert_eq!(held.status, 200, "{held:?}");
    let lock = json!({"scope": {"target": "prod", "app": "devx/shop"}, "reason": "an incident"});
    let lock = ask_as(&deployer, "everywhere", "/api/v1/locks", &lock).await.json();
    let remove = format!("<a href=\"/locks/{}/remove\">Unlock</a>", lock["id"].as_str().unwrap());
    let release = "<a href=\"/apps/prod/devx/shop/release\">Release</a>";
    for (token, is_offered) in [("everywhere", true), ("cluster", false)] {
        let cookie = signs_in(&deployer, token).await;
        let shown = open(&deployer, SHOP, &cookie).await;
        follow(page(&shown, 200), &["Roll back</a>", "<b>Locked</b>", "<b>Held</b>"]);
        for offer in [&*remove, release] {
            assert_eq!(shown.text.contains(offer), is_offered, "{token}, {offer}: {}", shown.text);
        }
    }
    deployer.settle().await;
    deployer.settled().await;
}

#[tokio::test]
async fn the_state_of_the_service_has_its_queue_and_what_was_given_up() {
    let (mut deployer, _receiver) = with_receiver().await;
    deployer.starts().await;
    asks(&deployer, "v1").await;
    let waiting = browse(&deployer, "/system", None).await;
    follow(
        page(&waiting, 200),
        &[
            "database</th>",
            ">ready</span>",
            "<b>1</b> <span class=\"quiet\">deployments without a worker</span>",
            "waits since",
            "Templates in use",
            "backend-default@latest",
        ],
    );
    deployer.settle().await;
    let shown = browse(&deployer, "/system", None).await;
    follow(
        page(&shown, 200),
        &[
            "<b>0</b> <span class=\"quiet\">deployments without a worker</span>",
            "Dead letters</h3>",
            "webhook warehouse",
            "/deployments/2",
            "it answered 400",
        ],
    );
    deployer.github.settled();
}

#[tokio::test]
async fn a_deployment_shows_what_it_changed_and_its_log() {
    let deployer = Deployer::start().await;
    deploys(&deployer, "v1").await;
    let more = waml("shop").replace("minReplicas: 3", "minReplicas: 5");
    let id = deploys_with(&deployer, "v2", &more).await;
    let shown = browse(&deployer, &format!("/deployments/{id}"), None).await;
    follow(
        page(&shown, 200),
        &[
            &format!("of <a href=\"{SHOP}\">devx/shop on prod-cluster-1</a>"),
            "Changes of the manifests</h2>",
            ">spec.minReplicas</th><td class=\"mono old\">3</td><td class=\"mono new\">5</td>",
            "Log</h2>",
            "requested <code>v2</code> of example/shop",
        ],
    );
    assert!(deployer.manifests().files().contains_key(&format!("{FOLDER}/latest/service.yaml")));
    deployer.settled().await;
}

#[tokio::test]
async fn who_did_what_is_for_administrators_also_where_the_pages_are_open() {
    let deployer = asking_for("t0ken", "open").await;
    for path in ["/", "/deployments", "/rollouts", "/locks", "/insights", "/system"] {
        page(&browse(&deployer, path, None).await, 200);
    }
    assert!(page(&browse(&deployer, "/audit", None).await, 401).contains("as the password"));
    let admin = ask_as(&deployer, "t0ken", "/audit", &Value::Null).await;
    assert_eq!(admin.status, 200, "{admin:?}");
    deployer.stepped().store().close().await;
    deployer.clock.advance(Duration::from_mins(1));
    for path in ["/", "/rollouts", "/locks", "/insights", SHOP] {
        assert!(
            page(&browse(&deployer, path, None).await, 503).contains("try again later"),
            "{path}"
        );
    }
    recovers(deployer).await;
}
