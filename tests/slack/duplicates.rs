//! No message is sent twice: the service looks for one that may have arrived.

use the_deployer::model::notice::Sink;

use crate::harness::slack::Fault;
use crate::slack::{Office, TARGET};

const POST: &str = "chat.postMessage";

#[tokio::test]
async fn one_that_was_taken_and_not_answered_for_is_found() {
    for fault in [Fault::CutAfter, Fault::BadGatewayAfter, Fault::SaysAfter("fatal_error")] {
        let office = Office::open().await;
        let shop = office.app("shop");
        office.slack.fails(1, POST, fault.clone());
        let failed = shop.fails("v1").await;
        assert_eq!(office.squad().len(), 1, "{fault:?}");
        let [told] = office.told(failed, &Sink::Channel).await.try_into().unwrap();
        assert!(told.sent_at.is_some() && told.reference.unwrap().starts_with("C00000001 "));
        shop.deploys("v2").await;
        let [told, well] = office.squad().try_into().unwrap();
        assert_eq!(well.thread, Some(told.ts), "its thread is known nevertheless");
        office.closes().await;
    }
}

#[tokio::test]
async fn one_that_was_not_taken_is_sent_after_a_look() {
    for fault in [Fault::CutBefore, Fault::BadGateway, Fault::Says("internal_error")] {
        let office = Office::open().await;
        for channel in ["#a", "#b", "#c", "#d"] {
            office.slack.channel(channel);
        }
        office.slack.fails(1, POST, fault.clone());
        office.app("shop").fails("v1").await;
        assert_eq!(office.squad().len(), 1, "{fault:?}");
        let called = office.slack.called();
        assert!(called.contains(&"conversations.history".to_owned()), "{called:?}");
        office.closes().await;
    }
}

#[tokio::test]
async fn one_that_surely_was_not_taken_is_sent_without_a_look() {
    let office = Office::open().await;
    office.slack.fails(2, POST, Fault::Unavailable);
    office.slack.fails(1, POST, Fault::Says("service_unavailable"));
    office.app("shop").fails("v1").await;
    assert_eq!(office.squad().len(), 1);
    assert!(
        office.slack.called().iter().all(|method| method == POST),
        "{:?}",
        office.slack.called()
    );
    office.closes().await;
}

#[tokio::test]
async fn a_reply_is_looked_for_in_its_thread() {
    let office = Office::open().await;
    let shop = office.app("shop");
    shop.fails("v1").await;
    office.slack.fails(1, POST, Fault::CutAfter);
    shop.deploys("v2").await;
    office.slack.fails(1, POST, Fault::CutAfter);
    shop.fails("v3").await;
    let titles: Vec<_> = office.squad().into_iter().map(|told| told.title).collect();
    assert_eq!(
        titles,
        [
            format!("❌ shop v1 was not deployed to {TARGET}"),
            format!("✅ shop v2 is deployed to {TARGET}"),
            format!("❌ shop v3 was not deployed to {TARGET}"),
        ]
    );
    office.closes().await;
}

#[tokio::test]
async fn a_persons_message_is_looked_for_in_their_conversation() {
    for fault in [Fault::CutAfter, Fault::CutBefore] {
        let office = Office::with("people: {octocat: U00000001}").await;
        let octocat = office.slack.person("octocat@example.com");
        let shop = office.app("shop").says("\"#squad-devx\"", "\"#deploys\"");
        office.slack.fails(2, POST, fault.clone());
        shop.fails("v1").await;
        assert_eq!(office.slack.read(&octocat).len(), 1, "{fault:?}");
        assert_eq!(office.deploys().len(), 1, "{fault:?}");
        office.closes().await;
    }
}

#[tokio::test]
async fn one_that_strayed_is_found_where_it_went() {
    let office = Office::open().await;
    let shop = office.app("shop").says("\"#squad-devx\"", "\"#gone\"");
    office.slack.fails(1, POST, Fault::Says("channel_not_found"));
    office.slack.fails(1, POST, Fault::CutAfter);
    shop.fails("v1").await;
    assert_eq!(office.deploys().len(), 1);
    office.closes().await;
}

#[tokio::test]
async fn a_process_that_dies_while_it_sends_leaves_it_to_the_next() {
    for fault in [Fault::SilentAfter, Fault::SilentBefore] {
        let mut office = Office::open().await;
        office.slack.fails(1, POST, fault.clone());
        office.app("shop").fails_untold("v1").await;
        let met = office.slack.met(POST);
        office.deployer.dies_when(met).await;
        office.deployer.starts().await;
        office.settle().await;
        assert_eq!(office.squad().len(), 1, "{fault:?}");
        office.closes().await;
    }
}

#[tokio::test]
async fn where_nobody_can_look_it_is_not_sent_again() {
    for scope in ["channels:history", "channels:read"] {
        let office = Office::open().await;
        office.slack.takes_scope(scope);
        office.slack.fails(1, POST, Fault::CutBefore);
        let failed = office.app("shop").fails("v1").await;
        assert_eq!(office.squad().len(), 0);
        let [told] = office.told(failed, &Sink::Channel).await.try_into().unwrap();
        let why = told.parked.unwrap();
        assert!(why.contains("it may have arrived on Slack, and is not sent again"), "{why}");
        assert!(why.contains(&format!("needs the scope {scope}")), "{why}");
        office.closes_with_parked(1).await;
    }
}

#[tokio::test]
async fn a_method_that_a_proxy_does_not_know_is_no_look() {
    let office = Office::open().await;
    office.slack.fails(1, POST, Fault::CutBefore);
    office.slack.fails(1, "conversations.list", Fault::Says("unknown_method"));
    let failed = office.app("shop").fails("v1").await;
    let [told] = office.told(failed, &Sink::Channel).await.try_into().unwrap();
    let why = told.parked.unwrap();
    assert!(why.contains("is not sent again") && why.contains("unknown_method"), "{why}");
    office.closes_with_parked(1).await;
}

#[tokio::test]
async fn through_a_webhook_nobody_can_look() {
    let office = Office::with_a_webhook().await;
    office.slack.fails(1, "hook", Fault::CutAfter);
    let failed = office.app("shop").fails("v1").await;
    assert_eq!(office.deploys().len(), 1);
    let [told] = office.told(failed, &Sink::Channel).await.try_into().unwrap();
    let why = told.parked.unwrap();
    assert!(why.contains("an incoming webhook cannot look"), "{why}");
    office.closes_with_parked(1).await;
}
