//! Tests how the service finds a person on Slack.

use the_deployer::model::notice::Sink;

use crate::harness::github::Ask;
use crate::slack::{Office, TARGET, broken};

/// Somebody else deploys what breaks rules.
async fn fails_for(office: &Office, app: &str, actor: &str) -> i64 {
    let app = office.app(app);
    app.repository.commit(&broken(&app.waml()));
    let ask = Ask { actor: actor.to_owned(), ..Ask::new(TARGET, "v1") };
    let id = app.repository.asks(ask).await;
    office.settle().await;
    id
}

#[tokio::test]
async fn the_configuration_comes_before_everything() {
    let office =
        Office::with("email: \"{login}@example.com\"\npeople: {OctoCat: jane@example.com}").await;
    office.slack.person("octocat@example.com");
    let jane = office.slack.person("jane@example.com");
    fails_for(&office, "shop", "octocat").await;
    assert_eq!(office.squad()[0].called, [jane.as_str()]);
    assert_eq!(office.slack.read(&jane).len(), 1);
    office.closes().await;
}

#[tokio::test]
async fn a_profiles_address_is_asked_for_where_no_other_helps() {
    let office = Office::with("email: \"{login}@example.com\"").await;
    office.deployer.github.person("jo", Some("jo@home.example.org"));
    let jo = office.slack.person("jo@home.example.org");
    fails_for(&office, "shop", "jo").await;
    assert_eq!(office.squad()[0].called, [jo.as_str()]);
    assert_eq!(office.slack.read(&jo).len(), 1);
    let lookups = |office: &Office| {
        office.slack.called().iter().filter(|method| *method == "users.lookupByEmail").count()
    };
    assert_eq!(lookups(&office), 2, "one for each address");
    fails_for(&office, "blog", "JO").await;
    assert_eq!(lookups(&office), 2, "they are remembered");
    assert_eq!((office.squad().len(), office.slack.read(&jo).len()), (2, 2));
    office.closes().await;
}

#[tokio::test]
async fn who_is_unknown_is_named() {
    let office = Office::with("email: \"{login}@example.com\"").await;
    let failed = fails_for(&office, "shop", "stranger").await;
    let [told] = office.squad().try_into().unwrap();
    assert!(told.text.contains("Started by*\nstranger") && told.called.is_empty(), "{}", told.text);
    let [own] = office.told(failed, &Sink::Person).await.try_into().unwrap();
    assert_eq!(own.skipped.unwrap(), "stranger was not found on Slack");
    office.closes().await;
}

#[tokio::test]
async fn programs_are_not_looked_up() {
    let office = Office::with("email: \"{login}@example.com\"").await;
    fails_for(&office, "shop", "github-actions[bot]").await;
    assert!(office.squad()[0].text.contains("github-actions[bot]"));
    assert!(office.slack.called().iter().all(|method| method == "chat.postMessage"));
    office.closes().await;
}

#[tokio::test]
async fn without_the_right_to_look_up_everybody_is_named() {
    let office = Office::with("email: \"{login}@example.com\"").await;
    office.slack.person("octocat@example.com");
    office.slack.takes_scope("users:read.email");
    fails_for(&office, "shop", "octocat").await;
    assert!(office.squad()[0].called.is_empty());
    office.closes().await;
}

#[tokio::test]
async fn who_does_not_want_messages_or_has_left_is_only_mentioned() {
    let office = Office::with("people: {octocat: U00000001}\ndirect_messages: false").await;
    let octocat = office.slack.person("octocat@example.com");
    fails_for(&office, "shop", "octocat").await;
    assert_eq!(office.squad()[0].called, [octocat.as_str()]);
    assert_eq!(office.slack.read(&octocat).len(), 0);
    office.closes().await;

    let office = Office::with("people: {octocat: U00000001}").await;
    let octocat = office.slack.person("octocat@example.com");
    office.slack.leaves(&octocat);
    let failed = fails_for(&office, "shop", "octocat").await;
    assert_eq!(office.squad().len(), 1);
    let [own] = office.told(failed, &Sink::Person).await.try_into().unwrap();
    assert!(own.skipped.unwrap().contains("that person cannot be written to"));
    office.closes().await;
}

/// The token of a workflow is GitHub's own; the action says who started it.
#[tokio::test]
async fn a_workflow_names_the_person_who_started_it() {
    let office = Office::with("email: \"{login}@example.com\"").await;
    let octocat = office.slack.person("octocat@example.com");
    let shop = office.app("shop");
    shop.repository.commit(&broken(&shop.waml()));
    let payload = serde_json::json!({"tag": "v1", "request": "ab12", "actor": "octocat"});
    let actor = "github-actions[bot]".to_owned();
    shop.repository.asks(Ask { payload, actor, ..Ask::new(TARGET, "v1") }).await;
    office.settle().await;
    let [told] = office.squad().try_into().unwrap();
    assert_eq!(told.called, [octocat.as_str()]);
    assert!(told.text.contains(" by github-actions[bot]"), "{}", told.text);
    assert_eq!(office.slack.read(&octocat).len(), 1);
    office.closes().await;
}

/// A person cannot put another one in their place.
#[tokio::test]
async fn a_person_who_names_somebody_else_is_mentioned_all_the_same() {
    let office = Office::with("email: \"{login}@example.com\"").await;
    let mallory = office.slack.person("mallory@example.com");
    office.slack.person("octocat@example.com");
    let shop = office.app("shop");
    shop.repository.commit(&broken(&shop.waml()));
    let payload = serde_json::json!({"tag": "v1", "actor": "octocat"});
    shop.repository
        .asks(Ask { actor: "mallory".to_owned(), payload, ..Ask::new(TARGET, "v1") })
        .await;
    office.settle().await;
    assert_eq!(office.squad()[0].called, [mallory.as_str()]);
    assert_eq!(office.slack.read(&mallory).len(), 1);
    office.closes().await;
}

/// Tokens have names of their own, which may be logins of people who have nothing to do with it.
#[tokio::test]
async fn the_name_of_a_token_is_nobodys_login() {
    let mut office = Office::with("email: \"{login}@example.com\"\npeople: {jo: U00000099}").await;
    let stranger = office.slack.person("ci@example.com");
    office.deployer.github.person("ci", Some("ci@example.com"));
    let shop = office.app("shop");
    shop.deploys("v1").await;
    shop.deploys("v2").await;
    office.deployer.dies();
    office.deployer.variable("API_TOKEN", "of-a-program-0123456789abcdef");
    office
        .deployer
        .configure(|text| format!("{text}auth:\n  tokens:\n  - {{name: ci, env: API_TOKEN}}\n"));
    office.deployer.starts().await;
    let address = office.deployer.stepped().address();
    let url = format!("http://{address}/api/v1/apps/{TARGET}/devx/shop/rollback");
    let ask = serde_json::json!({"reason": "checkout fails"});
    let answer = crate::harness::process::client()
        .post(url)
        .bearer_auth("of-a-program-0123456789abcdef")
        .json(&ask)
        .send()
        .await
        .unwrap();
    assert_eq!(answer.status(), 202);
    office.settle().await;
    let [told] = office.squad().try_into().unwrap();
    assert!(told.called.is_empty() && told.text.contains("Started by*\nci"), "{}", told.text);
    assert!(!office.slack.called().iter().any(|method| method == "users.lookupByEmail"));
    assert_eq!(office.slack.read(&stranger).len(), 0);
    office.closes().await;
}
