//! A rollout has one thread in the team's channel: its first message shows how it stands, and the channel hears of the end
//! and of what needs a person.

use std::time::Duration;

use jiff::SignedDuration;
use the_deployer::rollout::acts::RolloutAct;
use the_deployer::rollout::plan::RolloutFailurePolicy;
use the_deployer::rollout::record::RolloutState;

use super::world::{Fleet, STRICT, approval, deploy, plan, waml};
use crate::harness::deployer::Deployer;
use crate::harness::slack::{Fault, Read, Slack, TOKEN};

const POST: &str = "chat.postMessage";
const UPDATE: &str = "chat.update";

/// A service that tells #deploys, and a team that wants to hear of every success.
struct Office {
    fleet: Fleet,
    slack: Slack,
}

impl Office {
    async fn open(mut deployer: Deployer) -> Self {
        let slack = Slack::start(&deployer.clock).await;
        slack.channel("#deploys");
        deployer.variable("SLACK_TOKEN", TOKEN);
        let url = slack.api_url();
        let settings = format!(
            "token: {{env: SLACK_TOKEN}}\n    api_url: {url}\n    default_channel: \"#deploys\"\n"
        );
        Box::pin(Self::with(deployer, slack, &settings)).await
    }

    async fn with(mut deployer: Deployer, slack: Slack, settings: &str) -> Self {
        deployer.configure(|config| format!("{config}notify:\n  slack:\n    {settings}"));
        let fleet = Fleet::start(deployer).await;
        fleet.shop().commit(&waml("notify: {success: true}\n"));
        Self { fleet, slack }
    }

    fn read(&self) -> Vec<Read> {
        self.slack.read("#deploys")
    }

    /// What the channel shows beside the first message of the thread.
    fn aloud(&self) -> Vec<String> {
        let messages = self.read().into_iter().skip(1).filter(|one| one.aloud);
        messages.map(|one| one.title).collect()
    }

    async fn dies_when_it_meets(&mut self, method: &str) {
        let met = self.slack.met(method);
        self.fleet.deployer.dies_when(met).await;
        self.fleet.deployer.clock.advance(Duration::from_mins(3));
        self.fleet.deployer.starts().await;
    }

    async fn closes(self) {
        self.fleet.deployer.settled().await;
        self.slack.all_read();
    }
}

/// On each database.
async fn on_both(story: impl AsyncFn(&mut Office)) {
    for deployer in Deployer::prepared_on_both().await {
        Box::pin(async {
            let mut office = Office::open(deployer).await;
            story(&mut office).await;
            office.closes().await;
        })
        .await;
    }
}

#[tokio::test]
async fn one_thread_tells_of_a_rollout_and_its_first_message_shows_how_it_stands() {
    on_both(async |office| {
        let steps = vec![deploy(&["a"], 1), approval(), deploy(&["b"], 1)];
        let id = office.fleet.begins("v2", plan(steps, RolloutFailurePolicy::Undo)).await;
        office.fleet.goes_on().await;
        let [first, gate] = office.read().try_into().unwrap();
        assert_eq!(first.title, "✋ The rollout of shop v2 waits for an approval");
        assert!(first.text.contains("Complete: a") || first.text.contains("*Complete:* a"));
        assert!(first.text.contains(id.as_str()), "{}", first.text);
        assert!(gate.aloud && gate.thread.as_ref() == Some(&first.ts), "{gate:?}");
        assert!(gate.text.contains(&format!("bart rollout approve {id} --reason TEXT")));
        office.fleet.approves(&id).await.unwrap();
        office.fleet.goes_on().await;
        assert_eq!(office.fleet.state(&id).await, RolloutState::Done);
        let [first, _gate, end] = office.read().try_into().unwrap();
        assert_eq!(first.title, "✅ shop v2 is rolled out: 2 of 2 targets");
        assert_eq!(end.title, first.title);
        assert!(end.aloud && end.thread.as_ref() == Some(&first.ts), "{end:?}");
        assert!((2..=6).contains(&first.updates), "{first:?}");
    })
    .await;
}

#[tokio::test]
async fn a_failure_is_told_in_the_thread_and_its_end_in_the_channel() {
    on_both(async |office| {
        office.fleet.runs("v1", &["a"]).await;
        let before = office.read().len();
        assert_eq!(before, 1, "a success outside a rollout has its own message");
        let id = office.fleet.rolls_out("v2", &["a", STRICT]).await;
        office.fleet.deployer.works_for(SignedDuration::from_mins(5)).await;
        assert_eq!(office.fleet.state(&id).await, RolloutState::Undone);
        let messages: Vec<Read> = office.read().split_off(before);
        let (first, replies) = messages.split_first().unwrap();
        assert_eq!(first.title, "⏪ The rollout of shop v2 was undone");
        assert!(first.text.contains("strict"), "{}", first.text);
        assert!(replies.iter().all(|one| one.thread.as_ref() == Some(&first.ts)), "{replies:#?}");
        let quiet: Vec<&str> =
            replies.iter().filter(|one| !one.aloud).map(|one| one.title.as_str()).collect();
        assert!(quiet.contains(&"❌ shop v2 was not deployed to strict"), "{quiet:?}");
        let aloud: Vec<&str> =
            replies.iter().filter(|one| one.aloud).map(|one| one.title.as_str()).collect();
        assert_eq!(aloud, ["⏪ The rollout of shop v2 was undone"]);
        let single =
            |one: &&Read| one.title.contains("deployed to a") || one.title.contains("rolled back");
        assert_eq!(messages.iter().filter(single).count(), 0, "{messages:#?}");
    })
    .await;
}

#[tokio::test]
async fn a_pause_by_a_failure_asks_a_person_for_a_decision() {
    on_both(async |office| {
        let steps = vec![deploy(&["a", STRICT], 1)];
        let id = office.fleet.begins("v2", plan(steps, RolloutFailurePolicy::Pause)).await;
        office.fleet.deployer.works_for(SignedDuration::from_mins(2)).await;
        assert_eq!(office.aloud(), ["❌ The rollout of shop v2 has stopped"]);
        let stopped = office.read().into_iter().rfind(|one| one.aloud).unwrap();
        for verb in ["retry", "resume", "undo"] {
            let command = format!("bart rollout {verb} {id} --reason TEXT");
            assert!(stopped.text.contains(&command), "{}", stopped.text);
        }
        let reason = "not worth it".to_owned();
        office.fleet.acts(&id, RolloutAct::Cancel { reason }).await.unwrap();
        office.fleet.deployer.works_for(SignedDuration::from_mins(2)).await;
        assert_eq!(
            office.aloud(),
            ["❌ The rollout of shop v2 has stopped", "⏹ The rollout of shop v2 was cancelled"]
        );
    })
    .await;
}

#[tokio::test]
async fn a_process_that_dies_while_it_writes_leaves_each_message_to_the_next() {
    for fault in [Fault::SilentAfter, Fault::SilentBefore] {
        for deployer in Deployer::prepared_on_both().await {
            let mut office = Box::pin(Office::open(deployer)).await;
            let steps = vec![approval(), deploy(&["a"], 1)];
            let id = office.fleet.begins("v2", plan(steps, RolloutFailurePolicy::Undo)).await;
            // The first message, then the one about the approval.
            for count in 1..=2 {
                office.slack.fails(1, POST, fault.clone());
                office.dies_when_it_meets(POST).await;
                assert!(office.read().len() <= count, "{fault:?}: {:#?}", office.read());
            }
            office.fleet.goes_on().await;
            assert_eq!(office.read().len(), 2, "{fault:?}: {:#?}", office.read());
            office.slack.fails(1, UPDATE, fault.clone());
            office.fleet.approves(&id).await.unwrap();
            office.dies_when_it_meets(UPDATE).await;
            office.fleet.deployer.works_for(SignedDuration::from_mins(5)).await;
            let [first, _gate, end] = office.read().try_into().unwrap();
            assert_eq!(first.title, "✅ shop v2 is rolled out: 1 of 1 target", "{fault:?}");
            assert_eq!(end.title, first.title, "{fault:?}");
            office.closes().await;
        }
    }
}

#[tokio::test]
async fn an_outage_of_slack_holds_nothing_up_and_is_made_good() {
    on_both(async |office| {
        office.slack.down_for(Duration::from_mins(30));
        let id = office.fleet.rolls_out("v2", &["a", "b"]).await;
        office.fleet.goes_on().await;
        assert_eq!(office.fleet.state(&id).await, RolloutState::Done);
        assert!(office.read().is_empty());
        office.fleet.deployer.works_for(SignedDuration::from_hours(1)).await;
        let [only] = office.read().try_into().unwrap();
        assert_eq!(
            only.title, "✅ shop v2 is rolled out: 2 of 2 targets",
            "what is over is told once"
        );
    })
    .await;
}

#[tokio::test]
async fn a_first_message_that_a_person_deletes_stays_deleted() {
    on_both(async |office| {
        let steps = vec![deploy(&["a"], 1), approval(), deploy(&["b"], 1)];
        let id = office.fleet.begins("v2", plan(steps, RolloutFailurePolicy::Undo)).await;
        office.fleet.goes_on().await;
        let first = office.read().remove(0);
        office.slack.deletes("#deploys", &first.ts);
        office.fleet.approves(&id).await.unwrap();
        office.fleet.goes_on().await;
        let titles: Vec<String> = office.read().into_iter().map(|one| one.title).collect();
        assert_eq!(
            titles,
            [
                "✋ The rollout of shop v2 waits for an approval",
                "✅ shop v2 is rolled out: 2 of 2 targets"
            ]
        );
    })
    .await;
}

#[tokio::test]
async fn an_incoming_webhook_gets_what_the_channel_hears() {
    let mut deployer = Deployer::prepared().await;
    let slack = Slack::start(&deployer.clock).await;
    slack.channel("#deploys");
    deployer.variable("SLACK_WEBHOOK", &slack.hook_into("#deploys"));
    let with = Office::with(deployer, slack, "webhook: {env: SLACK_WEBHOOK}\n");
    let office = Box::pin(with).await;
    let id = office.fleet.rolls_out("v2", &["a", "b"]).await;
    office.fleet.goes_on().await;
    assert_eq!(office.fleet.state(&id).await, RolloutState::Done);
    let titles: Vec<String> = office.read().into_iter().map(|one| one.title).collect();
    assert_eq!(titles.len(), 2, "{titles:?}");
    assert!(titles[0].starts_with("🚀 shop v2 rolls out: "), "{titles:?}");
    assert_eq!(titles[1], "✅ shop v2 is rolled out: 2 of 2 targets");
    office.closes().await;
}
