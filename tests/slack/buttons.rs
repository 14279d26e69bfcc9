//! People press buttons: the service acts for the GitHub account that is theirs, and for nobody else.

use hmac::{Hmac, KeyInit as _, Mac as _};
use serde_json::{Value as Json, json};
use sha2::Sha256;
use the_deployer::model::audit::Search;

use crate::slack::{Office, TARGET};

const SECRET: &str = "8f742231b10e8888abcd99yyyzzz85a5";

/// octocat is U00000001, and mona U00000002.
async fn office() -> Office {
    let mut office = Office::built().await;
    office.deployer.variable("SLACK_SIGNING", SECRET);
    let url = office.slack.api_url();
    office.configured(&format!(
        "token: {{env: SLACK_TOKEN}}\n    api_url: {url}\n    default_channel: \"#deploys\"\n    \
         direct_messages: false\n    signing_secret: {{env: SLACK_SIGNING}}\n    \
         people: {{octocat: U00000001, mona: U00000002}}\n"
    ));
    office.deployer.configure(|config| {
        let secret = "webhook_secret: {env: WEBHOOK_SECRET}\n";
        let config = config.replace(secret, &format!("{secret}    organizations: [example]\n"));
        format!("{config}auth:\n  github: {{admins: [example/platform]}}\n")
    });
    office.deployer.starts().await;
    office
}

/// Two releases; the button of the second one's message.
async fn two_releases(office: &Office) -> Json {
    let shop =
        office.app("shop").says("namespace: devx", "namespace: devx\nnotify: {success: true}");
    shop.deploys("v1").await;
    shop.deploys("v2").await;
    let [first, second] = office.squad().try_into().unwrap();
    assert_eq!(first.acts, Vec::<Json>::new(), "there is nothing to go back to");
    let [button] = second.acts.try_into().unwrap();
    button
}

/// What Slack sends when somebody presses a button; `press` names the press.
fn payload(office: &Office, user: &str, press: &str, button: &Json) -> String {
    let payload = json!({
        "type": "block_actions", "user": {"id": user, "username": "<!channel>"},
        "channel": {"id": "C00000001", "name": "squad-devx"}, "trigger_id": press,
        "response_url": office.slack.answer_url(),
        "actions": [{"type": "button", "action_id": button["action_id"], "value": button["value"]}],
    });
    let url = reqwest::Url::parse_with_params("http://x", [("payload", payload.to_string())]);
    url.unwrap().query().unwrap().to_owned()
}

fn sign(secret: &str, time: i64, body: &str) -> String {
    let mut mac = Hmac::<Sha256>::new_from_slice(secret.as_bytes()).unwrap();
    mac.update(format!("v0:{time}:{body}").as_bytes());
    format!("v0={}", hex::encode(mac.finalize().into_bytes()))
}

/// The status for a body with that signature.
async fn send(office: &Office, time: i64, signature: &str, body: String) -> u16 {
    let address = office.deployer.stepped().address();
    let request = crate::harness::process::client()
        .post(format!("http://{address}/webhooks/slack"))
        .header("content-type", "application/x-www-form-urlencoded")
        .header("x-slack-request-timestamp", time.to_string())
        .header("x-slack-signature", signature)
        .body(body);
    request.send().await.unwrap().status().as_u16()
}

async fn send_signed(office: &Office, body: String) -> u16 {
    let now = office.deployer.clock.now().as_second();
    send(office, now, &sign(SECRET, now, &body), body).await
}

/// Somebody presses; the newest of so many answers.
async fn press(office: &Office, user: &str, name: &str, button: &Json, answers: usize) -> String {
    assert_eq!(send_signed(office, payload(office, user, name, button)).await, 200);
    office.slack.answers(answers).await.pop().unwrap()
}

#[tokio::test]
async fn a_press_rolls_back_once_with_the_rights_of_the_persons_account() {
    let office = office().await;
    office.deployer.github.repository("example/shop");
    office.deployer.github.lets("octocat", "example/shop", "push");
    let button = two_releases(&office).await;
    let effect = button["confirm"]["text"]["text"].as_str().unwrap();
    assert_eq!(
        effect,
        "On prod-cluster-1, v1 of devx/shop replaces v2. Then programs cannot deploy it until a person releases the \
         hold."
    );
    let first = press(&office, "U00000001", "1.1", &button, 1).await;
    assert!(first.contains("has begun: https://deploy.example.com/deployments/"), "{first}");
    // Slack sends the press a second time; another press follows while it is at work.
    assert_eq!(press(&office, "U00000001", "1.1", &button, 2).await, first);
    let busy = press(&office, "U00000001", "1.2", &button, 3).await;
    assert!(busy.starts_with("Nothing was done: ") && busy.contains("is under way"), "{busy}");
    office.settle().await;
    let late = press(&office, "U00000001", "1.3", &button, 4).await;
    assert!(late.contains("is live on prod-cluster-1 already"), "{late}");
    let deployments = office.deployer.deployments().await;
    let rollbacks: Vec<_> = deployments.iter().filter(|one| one.rollback.is_some()).collect();
    assert_eq!((deployments.len(), rollbacks.len()), (3, 1));
    assert_eq!(rollbacks[0].request.actor, "octocat");
    let search = Search { limit: 10, ..Search::default() };
    let records = office.deployer.stepped().store().audit_records(&search).await.unwrap();
    let [entry] = records.entries.try_into().unwrap();
    assert_eq!((entry.by.name.as_str(), entry.by.via.as_str()), ("octocat", "slack"));
    assert_eq!(entry.reason, "from Slack, by U00000001 in C00000001");
    assert_eq!(office.squad().len(), 3, "and the team is told as of any rollback");
    office.closes().await;
}

#[tokio::test]
async fn who_may_not_and_what_is_not_offered_changes_nothing() {
    let office = office().await;
    office.deployer.github.repository("example/shop");
    let button = two_releases(&office).await;
    let stranger = press(&office, "U09999999", "1", &button, 1).await;
    assert!(stranger.contains("add `LOGIN: U09999999` to `notify.slack.people`"), "{stranger}");
    let mona = press(&office, "U00000002", "2", &button, 2).await;
    assert!(mona.contains("mona may not deploy devx/shop on prod-cluster-1"), "{mona}");
    office.deployer.github.lets("octocat", "example/shop", "push");
    let value = button["value"].as_str().unwrap();
    for (count, (action, value)) in [
        ("remove", value.to_owned()),
        ("roll-back", "<!channel> rm -rf / now".to_owned()),
        ("roll-back", "x".repeat(50_000)),
        ("roll-back", value.replace(TARGET, "../../locks")),
    ]
    .into_iter()
    .enumerate()
    {
        let button = json!({"action_id": action, "value": value});
        let answer = press(&office, "U00000001", &format!("3.{count}"), &button, count + 3).await;
        assert!(answer.contains("does not know the button"), "{answer}");
    }
    // A newer release is live than the one that the person saw.
    office.app("shop").deploys("v3").await;
    let stale = press(&office, "U00000001", "4", &button, 7).await;
    assert!(stale.contains("is not live on prod-cluster-1 any more"), "{stale}");
    assert!(office.deployer.deployments().await.iter().all(|one| one.rollback.is_none()));
    // A button that leads somewhere is reported by Slack, too, and needs no answer.
    let link = json!({"action_id": "log"});
    assert_eq!(send_signed(&office, payload(&office, "U00000001", "5", &link)).await, 200);
    assert_eq!(office.slack.answers(7).await.len(), 7);
    let _read = office.squad();
    office.closes().await;
}

#[tokio::test]
async fn a_request_that_is_not_slacks_or_not_a_press_is_refused() {
    let office = office().await;
    let button = json!({"action_id": "roll-back", "value": "x"});
    let body = payload(&office, "U00000001", "1", &button);
    let now = office.deployer.clock.now().as_second();
    assert_eq!(send(&office, now, &sign("another", now, &body), body.clone()).await, 401);
    assert_eq!(send(&office, now, "v0=", body.clone()).await, 401);
    let old = now - 301;
    assert_eq!(send(&office, old, &sign(SECRET, old, &body), body.clone()).await, 401);
    assert_eq!(send(&office, now, &sign(SECRET, old, &body), body).await, 401);
    assert_eq!(send_signed(&office, "x".repeat(2 * 1024 * 1024)).await, 413);
    for body in ["", "payload", "payload=%7B%22type", "payload={\"type\":\"view_submission\"}"] {
        assert_eq!(send_signed(&office, body.to_owned()).await, 400, "{body}");
    }
    assert_eq!(office.slack.answers(0).await, Vec::<String>::new());
    office.closes().await;
}

#[tokio::test]
async fn an_answer_goes_to_slack_alone() {
    let office = office().await;
    let other = crate::harness::slack::Slack::start(&office.deployer.clock).await;
    let button = json!({"action_id": "roll-back", "value": "x"});
    let body = payload(&office, "U09999999", "1", &button);
    let port = |url: String| url.split(['/', ':']).nth(4).unwrap().to_owned();
    let (own, others) = (port(office.slack.api_url()), port(other.api_url()));
    assert_eq!(send_signed(&office, body.replace(&own, &others)).await, 200);
    assert_eq!(send_signed(&office, body).await, 200);
    assert_eq!(office.slack.answers(1).await.len(), 1);
    assert_eq!(other.called(), Vec::<String>::new());
    other.all_read();
    office.closes().await;
}

#[tokio::test]
async fn without_a_signing_secret_no_button_acts() {
    let office = Office::open().await;
    let shop =
        office.app("shop").says("namespace: devx", "namespace: devx\nnotify: {success: true}");
    shop.deploys("v1").await;
    shop.deploys("v2").await;
    assert!(office.squad().iter().all(|message| message.acts.is_empty()));
    let button = json!({"action_id": "roll-back", "value": "x"});
    let body = payload(&office, "U00000001", "1", &button);
    assert_eq!(send_signed(&office, body).await, 404);
    office.closes().await;
}
