//! People press buttons: the service acts for the GitHub account that is theirs, and for nobody else.

use serde_json::{Value as Json, json};
use the_deployer::model::audit::{AuditRecord, Search};
use the_deployer::model::deployment::State;

use crate::harness::slack::press::{SIGNING_SECRET, send_as, sign};
use crate::slack::{Office, TARGET};

const REASON: &str = "from Slack, by U00000001 in C00000001";

/// octocat is U00000001, and mona U00000002.
async fn office() -> Office {
    let mut office = Office::built().await;
    office.deployer.variable("SLACK_SIGNING", SIGNING_SECRET);
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

/// The status for a body with that signature.
async fn send(office: &Office, time: i64, signature: &str, body: String) -> u16 {
    send_as(office.deployer.stepped().address(), (time, signature), body).await
}

async fn send_signed(office: &Office, body: String) -> u16 {
    office.slack.send(office.deployer.stepped().address(), body).await
}

/// Somebody presses; the newest of so many answers.
async fn press(office: &Office, user: &str, name: &str, button: &Json, answers: usize) -> String {
    let address = office.deployer.stepped().address();
    office.slack.press(address, (user, name), button, answers).await
}

/// Entries of the audit log, newest first: the act, the name, the method, and the reason.
async fn audit(office: &Office) -> Vec<(String, String, String, String)> {
    let search = Search { limit: 10, ..Search::default() };
    let records = office.deployer.stepped().store().audit_records(&search).await.unwrap();
    let row = |entry: AuditRecord| {
        let AuditRecord { act, by, reason, .. } = entry;
        (act.into_owned(), by.name, by.via.as_str().to_owned(), reason)
    };
    records.entries.into_iter().map(row).collect()
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
    let newest = office.deployer.deployments().await.into_iter().max_by_key(|one| one.id.clone());
    assert!(newest.unwrap().rollback.is_some(), "it is on record when Slack has its answer");
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
    let entry = ["rollback", "octocat", "slack", REASON].map(str::to_owned).into();
    assert_eq!(audit(&office).await, [entry]);
    let [_, second, third] = office.squad().try_into().unwrap();
    assert!(third.title.contains("was rolled back"), "the team is told as of any rollback");
    // The release that the button was for is not live any more.
    let second = office.slack.changed("#squad-devx", &second.ts, 1).await;
    assert_eq!(second.acts, Vec::<Json>::new());
    assert!(second.text.contains("is live on prod-cluster-1 already"), "{}", second.text);
    assert!(second.links.iter().any(|link| link.starts_with("Log https://")), "{second:?}");
    office.closes().await;
}

#[tokio::test]
async fn a_deployment_that_changed_nothing_is_neither_left_nor_gone_back_to() {
    let office = office().await;
    office.deployer.github.repository("example/shop");
    office.deployer.github.lets("octocat", "example/shop", "push");
    two_releases(&office).await;
    let shop =
        office.app("shop").says("namespace: devx", "namespace: devx\nnotify: {success: true}");
    shop.deploys("v2").await;
    shop.deploys("v3").await;
    let [_, second, again, third] = office.squad().try_into().unwrap();
    assert_eq!(again.acts, Vec::<Json>::new(), "v1 and v2 are as they were");
    let [button] = third.acts.try_into().unwrap();
    let live =
        |button: &Json| button["value"].as_str().unwrap().split(' ').nth(3).unwrap().to_owned();
    assert!(button["value"].as_str().unwrap().ends_with(&live(&second.acts[0])), "{button}");
    let answer = press(&office, "U00000001", "1.1", &button, 1).await;
    assert!(answer.contains("has begun: "), "{answer}");
    office.settle().await;
    assert!(office.squad().pop().unwrap().title.contains("was rolled back"));
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
    let second = office.squad().remove(1);
    assert_eq!((second.acts.len(), second.updates), (1, 0), "what is refused leaves the button");
    let stale = press(&office, "U00000001", "4", &button, 7).await;
    assert!(stale.contains("is not live on prod-cluster-1 any more"), "{stale}");
    let second = office.slack.changed("#squad-devx", &second.ts, 1).await;
    assert_eq!(second.acts, Vec::<Json>::new());
    assert!(second.text.contains("is not live on prod-cluster-1 any more"), "{}", second.text);
    assert!(office.deployer.deployments().await.iter().all(|one| one.rollback.is_none()));
    // A button that leads somewhere is reported by Slack, too, and needs no answer.
    let link = json!({"action_id": "log"});
    assert_eq!(send_signed(&office, office.slack.payload("U00000001", "5", &link)).await, 200);
    assert_eq!(office.slack.answers(7).await.len(), 7);
    let _read = office.squad();
    office.closes().await;
}

#[tokio::test]
async fn what_becomes_live_between_the_press_and_the_push_stays() {
    let office = office().await;
    office.deployer.github.repository("example/shop");
    office.deployer.github.lets("octocat", "example/shop", "push");
    let button = two_releases(&office).await;
    let begun = press(&office, "U00000001", "1", &button, 1).await;
    assert!(begun.contains("has begun"), "{begun}");
    let bare = office.deployer.manifests();
    let files = bare.files();
    let is_live = |file: &&String| file.contains("/latest/") && file.ends_with("deployment.yaml");
    let file = files.keys().find(is_live).unwrap();
    bare.somebody_writes(file, &files[file].replace("apiVersion:", "# a fix\napiVersion:"));
    office.settle().await;
    assert!(bare.files()[file].contains("# a fix"), "the rollback was for what it replaced");
    let deployments = office.deployer.deployments().await;
    let rollback = deployments.iter().find(|one| one.rollback.is_some()).unwrap();
    assert_eq!(rollback.state, State::Failed, "{}", rollback.summary);
    assert!(rollback.summary.contains("is not live any more"), "{}", rollback.summary);
    assert!(office.squad().last().unwrap().title.contains("was not made live again"));
    office.closes().await;
}

#[tokio::test]
async fn a_press_ends_the_hold_of_that_rollback_and_no_other() {
    let office = office().await;
    office.deployer.github.repository("example/shop");
    office.deployer.github.lets("octocat", "example/shop", "push");
    let button = two_releases(&office).await;
    press(&office, "U00000001", "1", &button, 1).await;
    office.settle().await;
    let message = office.squad().remove(2);
    let [end] = <[Json; 1]>::try_from(message.acts).unwrap();
    assert_eq!(
        (end["text"]["text"].as_str().unwrap(), end["confirm"]["text"]["text"].as_str().unwrap()),
        (
            "End the hold",
            "On prod-cluster-1, programs can deploy devx/shop from now on. That can be v2 again, which was rolled back."
        )
    );
    let mona = press(&office, "U00000002", "2", &end, 2).await;
    assert!(mona.contains("mona may not deploy devx/shop on prod-cluster-1"), "{mona}");
    assert_eq!(office.squad().remove(2).updates, 0);
    let ended = press(&office, "U00000001", "3", &end, 3).await;
    assert_eq!(ended, "The hold on devx/shop on prod-cluster-1 has ended.");
    let store = office.deployer.stepped().store();
    assert_eq!(store.holds(None).await.unwrap(), []);
    let entry = ["release", "octocat", "slack", REASON].map(str::to_owned).into();
    assert_eq!(audit(&office).await[0], entry);
    let changed = office.slack.changed("#squad-devx", &message.ts, 1).await;
    assert_eq!((changed.acts, changed.title), (Vec::new(), message.title));
    assert!(changed.text.contains("@U00000001 ended the hold."), "{}", changed.text);
    // Slack sends the press again, and somebody else has the old message open.
    assert_eq!(press(&office, "U00000001", "3", &end, 4).await, ended);
    let late = press(&office, "U00000001", "4", &end, 5).await;
    assert!(late.contains("has ended already: it is not held now"), "{late}");
    // A person holds the app: that is not what the button is for.
    let address = office.deployer.stepped().address();
    let token = office.deployer.github.token_of("octocat");
    let url = format!("http://{address}/api/v1/apps/{TARGET}/devx/shop/hold");
    let request = crate::harness::process::client().post(url).bearer_auth(token);
    let answer = request.json(&json!({"reason": "<!here> freeze"})).send().await.unwrap();
    assert_eq!(answer.status(), 200);
    let held = press(&office, "U00000001", "5", &end, 6).await;
    assert!(held.contains("it is held by octocat now: &lt;!here&gt; freeze"), "{held}");
    assert_eq!(store.holds(None).await.unwrap().len(), 1);
    assert_eq!(audit(&office).await.len(), 3, "what was not done is no act");
    let _read = office.squad();
    office.closes().await;
}

#[tokio::test]
async fn a_request_that_is_not_slacks_or_not_a_press_is_refused() {
    let office = office().await;
    let button = json!({"action_id": "roll-back", "value": "x"});
    let body = office.slack.payload("U00000001", "1", &button);
    let now = office.deployer.clock.now().as_second();
    assert_eq!(send(&office, now, &sign("another", now, &body), body.clone()).await, 401);
    assert_eq!(send(&office, now, "v0=", body.clone()).await, 401);
    let old = now - 301;
    assert_eq!(send(&office, old, &sign(SIGNING_SECRET, old, &body), body.clone()).await, 401);
    assert_eq!(send(&office, now, &sign(SIGNING_SECRET, old, &body), body).await, 401);
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
    let body = office.slack.payload("U09999999", "1", &button);
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
    let body = office.slack.payload("U00000001", "1", &button);
    assert_eq!(send_signed(&office, body).await, 404);
    office.closes().await;
}
