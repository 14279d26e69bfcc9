//! Slack is down, full, or refuses: messages come late, and nothing else happens.

use std::time::Duration;

use jiff::SignedDuration;

use crate::harness::slack::Fault;
use crate::slack::{Office, TARGET};

const POST: &str = "chat.postMessage";

#[tokio::test]
async fn an_outage_of_hours_delays_messages_and_nothing_else() {
    let office = Office::open().await;
    let shop = office.app("shop");
    office.slack.down_for(Duration::from_hours(5));
    let failed = shop.fails_untold("v1").await;
    office.deployer.works().await;
    let well = shop.asks("v2", &shop.waml()).await;
    office.deployer.works().await;
    for (id, told) in [(failed, "failure"), (well, "success")] {
        assert!(office.deployer.deployment(id).await.state.is_final());
        assert_eq!(office.deployer.github.told(id).last().unwrap(), told, "while Slack is down");
    }
    let time = office.settle().await;
    assert!(
        time > SignedDuration::from_mins(299) && time < SignedDuration::from_mins(310),
        "{time:#}"
    );
    eprintln!("Slack down for five hours: settled after {time:#} by the moved clock");
    let [failed, well] = office.squad().try_into().unwrap();
    assert_eq!(failed.title, format!("❌ shop v1 was not deployed to {TARGET}"));
    assert_eq!(well.thread, Some(failed.ts), "in order");
    office.closes().await;
}

#[tokio::test]
async fn asked_to_wait_a_channel_or_everybody_waits() {
    let office = Office::open().await;
    office.slack.channel("#other");
    office.slack.fails(1, POST, Fault::Wait(2));
    office.app("shop").fails_untold("v1").await;
    office.deployer.works().await;
    office.app("blog").says("\"#squad-devx\"", "\"#other\"").fails_untold("v1").await;
    office.deployer.works().await;
    assert_eq!((office.squad().len(), office.slack.read("#other").len()), (0, 1), "its channel's");
    office.settle().await;
    assert_eq!(office.squad().len(), 1);
    office.slack.fails(1, POST, Fault::Wait(600));
    office.app("shop").fails_untold("v2").await;
    office.deployer.works().await;
    office.app("blog").says("\"#squad-devx\"", "\"#other\"").fails_untold("v2").await;
    office.deployer.works().await;
    assert_eq!((office.squad().len(), office.slack.read("#other").len()), (1, 1), "everybody's");
    let time = office.settle().await;
    assert!(
        time > SignedDuration::from_secs(597) && time < SignedDuration::from_mins(11),
        "{time:#}"
    );
    assert_eq!((office.squad().len(), office.slack.read("#other").len()), (2, 2));
    office.closes().await;
}

#[tokio::test]
async fn a_crowd_in_one_channel_goes_at_slacks_pace() {
    let office = Office::open().await;
    for n in 0..12 {
        office.app(&format!("app{n}")).fails_untold("v1").await;
    }
    let time = office.settle().await;
    assert_eq!(office.squad().len(), 12, "each once");
    assert!(time >= SignedDuration::from_secs(9), "{time:#}");
    office.closes().await;
}

#[tokio::test]
async fn without_a_token_that_is_taken_messages_wait_for_a_person() {
    let office = Office::open().await;
    office.slack.revokes(true);
    office.app("shop").fails_untold("v1").await;
    office.deployer.works().await;
    let waiting = office.deployer.stepped().store().waiting().await.unwrap();
    assert_eq!((waiting[0].waiting, waiting[0].parked), (1, 0));
    office.deployer.clock.advance(Duration::from_hours(10));
    office.deployer.works().await;
    office.slack.revokes(false);
    office.settle().await;
    assert_eq!(office.squad().len(), 1);
    office.closes().await;
}

#[tokio::test]
async fn blocks_that_slack_does_not_take_are_told_as_text() {
    for (error, form) in
        [("invalid_blocks", "bot"), ("msg_blocks_too_long", "bot"), ("invalid_blocks", "hook")]
    {
        let office =
            if form == "hook" { Office::with_a_webhook().await } else { Office::open().await };
        let method = if form == "hook" { "hook" } else { POST };
        office.slack.fails(1, method, Fault::Says(error));
        office.app("shop").fails("v1").await;
        let [told] =
            if form == "hook" { office.deploys() } else { office.squad() }.try_into().unwrap();
        assert!(
            told.text.starts_with(&format!("❌ shop v1 was not deployed to {TARGET}\n")),
            "{told:?}"
        );
        assert!(told.text.contains(".weave.yaml:12:77") && told.text.contains("Log: https://"));
        office.closes().await;
    }
}

#[tokio::test]
async fn a_thread_that_was_deleted_does_not_lose_its_end() {
    let office = Office::open().await;
    let shop = office.app("shop");
    shop.fails("v1").await;
    let [failed] = office.squad().try_into().unwrap();
    office.slack.deletes("#squad-devx", &failed.ts);
    shop.deploys("v2").await;
    let [well] = office.squad().try_into().unwrap();
    assert_eq!((well.title, well.thread), (format!("✅ shop v2 is deployed to {TARGET}"), None));
    office.closes().await;
}

#[tokio::test]
async fn what_slack_refuses_for_a_reason_nobody_knows_is_recorded() {
    let office = Office::open().await;
    office.slack.fails(1, POST, Fault::Says("something_new"));
    office.app("shop").fails("v1").await;
    office.closes_with_parked(1).await;
}
