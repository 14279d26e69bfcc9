//! Programs are told: the whole service, a real receiver, and the clock moved by hand.

use jiff::SignedDuration;
use serde_json::json;

use super::schema::assert_conforms;
use crate::harness::deployer::Deployer;
use crate::harness::events::waml;
use crate::harness::receiver::{Came, Does, Receiver, SECRET};

const TARGET: &str = "prod-cluster-1";

/// What is told of a first deployment that goes well.
const WELL: [&str; 4] = [
    "pipelinerun.queued",
    "pipelinerun.started",
    "pipelinerun.finished success",
    "service.deployed",
];

/// The service with a receiver that wants these events.
async fn told(wants: &str) -> (Deployer, Receiver) {
    let mut deployer = Deployer::prepared().await;
    let receiver = Receiver::start(&deployer.clock).await;
    let webhooks = format!(
        "notify:\n  webhooks:\n  - {{name: warehouse, url: \"{}\", secret: {{env: SIGNING}}{wants}}}\n",
        receiver.url()
    );
    deployer.configure(|config| format!("{config}{webhooks}"));
    deployer.variable("SIGNING", SECRET);
    deployer.starts().await;
    (deployer, receiver)
}

/// Somebody deploys an app; everything is worked off, as long as that takes.
async fn deploys(deployer: &Deployer, tag: &str) -> SignedDuration {
    let shop = deployer.github.repository("example/shop");
    shop.commit(&waml("shop"));
    // Ids of one moment are in no order.
    deployer.clock.advance(std::time::Duration::from_secs(1));
    shop.deploys(TARGET, tag).await;
    deployer.settle().await
}

async fn settled(deployer: &Deployer, receiver: &Receiver) {
    deployer.settled().await;
    receiver.settled();
    for came in receiver.came() {
        assert_conforms(&came.json());
        assert_eq!(came.path, "/in");
    }
}

/// The messages of the newest deployment: the sequence number, and what became of each.
async fn messages(deployer: &Deployer) -> Vec<(i64, String)> {
    let newest = deployer.deployments().await.pop().unwrap();
    let all = deployer.stepped().store().messages(&newest.id).await.unwrap();
    let events = all.into_iter().filter(|told| told.sink.to_string() == "events/warehouse");
    let outcome =
        |told: the_deployer::store::Notification| match (told.sent_at, told.parked, told.skipped) {
            (Some(_), ..) => "sent".to_owned(),
            (_, Some(reason), _) => format!("parked: {reason}"),
            (.., Some(reason)) => format!("skipped: {reason}"),
            (None, None, None) => "waits".to_owned(),
        };
    events.map(|told| (told.seq, outcome(told))).collect()
}

#[tokio::test]
async fn a_deployment_leaves_a_record_of_its_whole_life() {
    let (deployer, receiver) = told("").await;
    deploys(&deployer, "v1").await;
    assert_eq!(receiver.kinds(), WELL);
    let finished = receiver.knows()[2].json();
    let record = &finished["data"]["customData"];
    let deployment = deployer.deployments().await.pop().unwrap();
    assert_eq!(finished["source"], "https://deploy.example.com");
    assert_eq!(finished["subject"], deployment.id.as_str());
    let page = format!("https://deploy.example.com/deployments/{}", deployment.id);
    assert_eq!(finished["data"]["subject"]["content"]["uri"], page.as_str());
    for (key, value) in [
        ("version", json!(1)),
        ("deployment", json!(deployment.id)),
        ("state", json!("success")),
        ("target", json!(TARGET)),
        ("repository", json!("example/shop")),
        ("commit", json!(deployment.request.release.commit)),
        ("tag", json!("v1")),
        ("actor", json!("octocat")),
        ("attempts", json!(1)),
        ("receivedAt", json!(deployment.received_at)),
        ("finishedAt", json!(deployment.finished_at)),
        ("errors", json!(0)),
        ("violationsLeftOut", json!(0)),
    ] {
        assert_eq!(record[key], value, "{key}");
    }
    assert_eq!(record["stages"].as_array().unwrap().len(), deployment.stages.len());
    assert_eq!(record["manifests"]["commit"], deployer.manifests().tip());
    assert_eq!(record["app"]["slug"], "shop");
    let service = receiver.knows()[3].json();
    let content = &service["data"]["subject"]["content"];
    assert_eq!(content["environment"]["id"], TARGET);
    let commit = &deployment.request.release.commit;
    let package = content["artifactId"].as_str().unwrap();
    assert!(package.contains(&format!("example/shop@{commit}")), "{package}");
    settled(&deployer, &receiver).await;
}

#[tokio::test]
async fn a_rollback_is_told_as_one() {
    let (deployer, receiver) = told(", events: [service.upgraded, service.rolledback]").await;
    for tag in ["v1", "v2"] {
        deploys(&deployer, tag).await;
    }
    let address = deployer.stepped().address();
    let url = format!("http://{address}/api/v1/apps/{TARGET}/devx/shop/rollback");
    let client = crate::harness::process::client();
    let answer = client.post(url).json(&json!({"reason": "checkout fails"})).send().await.unwrap();
    assert_eq!(answer.status(), 202);
    deployer.settle().await;
    assert_eq!(receiver.kinds(), ["service.upgraded", "service.rolledback"]);
    let record = receiver.knows()[1].json();
    assert_eq!(record["data"]["customData"]["rollback"]["reason"], "checkout fails");
    settled(&deployer, &receiver).await;
}

#[tokio::test]
async fn the_second_deployment_of_an_app_is_an_upgrade_and_the_same_again_changes_no_service() {
    let (deployer, receiver) = told(", events: [service.deployed, service.upgraded]").await;
    for tag in ["v1", "v2", "v2"] {
        deploys(&deployer, tag).await;
    }
    assert_eq!(receiver.kinds(), ["service.deployed", "service.upgraded"]);
    let nothing = "skipped: warehouse does not subscribe to this event".to_owned();
    assert_eq!(messages(&deployer).await, [1, 2, 3].map(|seq| (seq, nothing.clone())));
    settled(&deployer, &receiver).await;
}

#[tokio::test]
async fn a_removal_is_told_and_what_comes_after_it_is_a_first_deployment_again() {
    let (deployer, receiver) =
        told(", events: [service.deployed, service.upgraded, service.removed]").await;
    deploys(&deployer, "v1").await;
    deployer.clock.advance(std::time::Duration::from_secs(1));
    let app = deployer.deployments().await.pop().unwrap().app.unwrap();
    let url = format!(
        "http://{}/api/v1/apps/{TARGET}/{}/{}/remove",
        deployer.stepped().address(),
        app.namespace,
        app.slug
    );
    let ask = json!({"reason": "moved away", "with_data": true});
    let answer = reqwest::Client::new().post(url).json(&ask).send().await.unwrap();
    assert_eq!(answer.status(), 200, "{}", answer.text().await.unwrap());
    deployer.settle().await;
    deploys(&deployer, "v2").await;
    assert_eq!(receiver.kinds(), ["service.deployed", "service.removed", "service.deployed"]);
    let [first, gone, _] = &receiver.knows()[..] else { panic!("three") };
    assert_eq!(first.json()["subject"], gone.json()["subject"]);
    let record = &gone.json()["data"]["customData"];
    assert!(record["sentence"].as_str().unwrap().ends_with("moved away"), "{record}");
    settled(&deployer, &receiver).await;
}

#[tokio::test]
async fn a_rejection_is_told_with_every_violation_and_its_place() {
    let (deployer, receiver) = told("").await;
    let shop = deployer.github.repository("example/shop");
    shop.commit(&waml("shop").replace("schema:", "schmea:"));
    shop.deploys(TARGET, "v1").await;
    deployer.settle().await;
    let kinds = ["pipelinerun.queued", "pipelinerun.started", "pipelinerun.finished failure"];
    assert_eq!(receiver.kinds(), kinds);
    let event = receiver.knows()[2].json();
    let violations = event["data"]["customData"]["violations"].as_array().unwrap();
    let unknown = violations.iter().find(|one| one["rule"] == "unknown-key").unwrap();
    assert_eq!((&unknown["file"], unknown["line"].is_u64()), (&json!(".weave.yaml"), true));
    let errors = event["data"]["subject"]["content"]["errors"].as_str().unwrap();
    assert!(!errors.is_empty());
    settled(&deployer, &receiver).await;
}

#[tokio::test]
async fn one_that_is_overtaken_is_cancelled() {
    let (deployer, receiver) = told(", events: [pipelinerun.finished]").await;
    let shop = deployer.github.repository("example/shop");
    shop.commit(&waml("shop"));
    shop.deploys(TARGET, "v1").await;
    shop.deploys(TARGET, "v2").await;
    deployer.settle().await;
    let mut kinds = receiver.kinds();
    kinds.sort();
    assert_eq!(kinds, ["pipelinerun.finished cancel", "pipelinerun.finished success"]);
    settled(&deployer, &receiver).await;
}

#[tokio::test]
async fn a_receiver_that_is_down_for_an_hour_gets_everything_in_order_and_nothing_waits_for_it() {
    let (deployer, receiver) = told("").await;
    receiver.down(true);
    let shop = deployer.github.repository("example/shop");
    shop.commit(&waml("shop"));
    let id = shop.deploys(TARGET, "v1").await;
    deployer.works().await;
    assert_eq!(deployer.github.told(id), ["queued", "in_progress", "success"], "GitHub knows");
    assert_eq!(receiver.came().len(), 0);
    for _ in 0..60 {
        deployer.clock.advance(std::time::Duration::from_mins(1));
        deployer.works().await;
    }
    receiver.down(false);
    let took = deployer.settle().await;
    eprintln!("an hour without a receiver: settled {took:#} after it was up again");
    assert!(took <= SignedDuration::from_mins(6), "{took:#}");
    assert_eq!(receiver.kinds(), WELL);
    settled(&deployer, &receiver).await;
}

#[tokio::test]
async fn what_was_taken_without_an_answer_comes_again_under_the_same_id() {
    let (deployer, receiver) = told("").await;
    receiver.will([Does::TakesAndDies]);
    deploys(&deployer, "v1").await;
    let came = receiver.came();
    assert_eq!(came.len(), 5);
    assert_eq!((came[0].id(), &came[0].body), (came[1].id(), &came[1].body));
    assert_ne!(came[0].headers["webhook-timestamp"], came[1].headers["webhook-timestamp"]);
    assert_eq!(receiver.kinds(), WELL, "who knows ids has each once");
    settled(&deployer, &receiver).await;
}

#[tokio::test]
async fn of_two_events_of_one_change_the_first_comes_again_with_the_second() {
    let (deployer, receiver) = told("").await;
    receiver.will([Does::Takes, Does::Takes, Does::Takes, Does::Answers(503, "")]);
    deploys(&deployer, "v1").await;
    let kinds: Vec<_> = receiver.came().iter().map(Came::kind).collect();
    assert_eq!(kinds, [&WELL[..], &WELL[2..]].concat());
    assert_eq!(receiver.kinds(), WELL);
    settled(&deployer, &receiver).await;
}

#[tokio::test]
async fn a_wish_to_wait_is_kept() {
    for (status, wish, seconds) in [
        (503, "retry-after: 300\r\n", 300),
        (429, "retry-after: 17\r\n", 17),
        (503, "", 1),
        (408, "", 1),
    ] {
        let (deployer, receiver) = told("").await;
        receiver.will([Does::Answers(status, wish)]);
        deploys(&deployer, "v1").await;
        let times: Vec<_> = receiver.came().iter().map(|came| came.at).collect();
        assert_eq!(times[1] - times[0], seconds, "{status} {wish}: {times:?}");
        assert_eq!(receiver.kinds(), WELL);
        settled(&deployer, &receiver).await;
    }
}

#[tokio::test]
async fn while_nobody_lets_us_in_messages_wait_for_who_mends_it() {
    for status in [401, 404, 410] {
        let (deployer, receiver) = told("").await;
        receiver.will((0..8).map(|_| Does::Answers(status, "")));
        let took = deploys(&deployer, "v1").await;
        assert!(took >= SignedDuration::from_mins(1), "{took:#}");
        assert_eq!(receiver.kinds(), WELL);
        settled(&deployer, &receiver).await;
    }
}

#[tokio::test]
async fn nobody_is_followed_elsewhere() {
    let (deployer, receiver) = told("").await;
    let stranger = Receiver::start(&deployer.clock).await;
    let there: &'static str = format!("location: {}\r\n", stranger.url()).leak();
    receiver.will([301, 302, 307, 308].map(|status| Does::Answers(status, there)));
    deploys(&deployer, "v1").await;
    assert_eq!(stranger.came().len(), 0, "a signed event is for nobody else");
    assert_eq!(receiver.kinds(), WELL);
    settled(&deployer, &receiver).await;
}

#[tokio::test]
async fn an_event_that_is_not_wanted_is_put_aside_with_its_reason_and_the_next_has_its_turn() {
    let (deployer, receiver) = told("").await;
    receiver.will([Does::Answers(422, "")]);
    deploys(&deployer, "v1").await;
    assert_eq!(receiver.kinds(), WELL[1..]);
    let told = messages(&deployer).await;
    let reason = "parked: the webhook warehouse does not take this event: it answered 422";
    assert_eq!(told[0], (1, reason.to_owned()));
    assert_eq!(told[2], (3, "sent".to_owned()));
    assert_eq!(deployer.stepped().store().depth().await.unwrap().parked, 1, "and people see it");
    receiver.settled();
    deployer.github.settled();
}

#[tokio::test]
async fn each_receiver_has_its_own_queue() {
    let mut deployer = Deployer::prepared().await;
    let slow = Receiver::start(&deployer.clock).await;
    let quick = Receiver::start(&deployer.clock).await;
    let one = |name: &str, receiver: &Receiver| {
        format!("  - {{name: {name}, url: \"{}\", secret: {{env: SIGNING}}}}\n", receiver.url())
    };
    let both = format!("notify:\n  webhooks:\n{}{}", one("slow", &slow), one("quick", &quick));
    deployer.configure(|config| format!("{config}{both}"));
    deployer.variable("SIGNING", SECRET);
    deployer.starts().await;
    slow.will([Does::Answers(503, "retry-after: 600\r\n")]);
    deploys(&deployer, "v1").await;
    let last = |receiver: &Receiver| receiver.came().last().map(|came: &Came| came.at).unwrap();
    assert!(last(&quick) < 10 && last(&slow) >= 600, "{} {}", last(&quick), last(&slow));
    assert_eq!(
        (quick.kinds(), slow.kinds()),
        (WELL.map(str::to_owned).to_vec(), WELL.map(str::to_owned).to_vec())
    );
    settled(&deployer, &slow).await;
    quick.settled();
}
