//! Slack has one message about a canary, and its last word is not a halt that is over.

use the_deployer::model::deployment::State;

use crate::harness::deployer::Deployer;
use crate::harness::slack::Read;
use crate::progress::experiments::{BAD, Experiment, WAML, WEBHOOK};

/// On each database. The story returns the deployment whose canary then comes to a good end.
async fn on_both(waml: &str, keys: &str, story: impl AsyncFn(&mut Experiment) -> i64) {
    for deployer in Deployer::prepared_on_both().await {
        Box::pin(async {
            let start = Experiment::start_with(deployer, waml, keys);
            let mut experiment = Box::pin(start).await;
            let id = story(&mut experiment).await;
            Box::pin(experiment.finishes(id)).await;
            let _deploys = experiment.slack.read("#deploys");
            Box::pin(experiment.ends()).await;
        })
        .await;
    }
}

fn only(messages: Vec<Read>) -> Read {
    let [one] = <[Read; 1]>::try_from(messages).unwrap_or_else(|all| panic!("{all:#?}"));
    one
}

#[tokio::test]
async fn a_canary_that_a_newer_release_replaces_does_not_stay_halted() {
    on_both(WAML, "", async |experiment| {
        let id = experiment.halts().await;
        experiment.world.deployer.settle().await;
        let halted = only(experiment.slack.read("#squad-devx"));
        assert_eq!(halted.title, "✋ shop v2 is halted on prod-cluster-1");
        let app = experiment.world.deployer.github.repository("example/shop");
        let newer = experiment.world.deploys(&app, "v3").await;
        let deployment = experiment.world.deployer.deployment(newer).await;
        experiment.sync(deployment, 3);
        experiment.world.reaches(id, State::Superseded).await;
        experiment.world.deployer.settle().await;
        let ended = experiment.slack.read("#squad-devx").remove(0);
        assert_eq!(ended.title, "⏹ shop v2 was superseded on prod-cluster-1");
        assert!(!ended.text.contains("halted"), "{ended:#?}");
        assert_eq!(ended.ts, halted.ts);
        experiment.world.reaches(newer, State::Progressing).await;
        newer
    })
    .await;
}

#[tokio::test]
async fn a_repeated_event_and_a_restart_change_nothing() {
    on_both(WAML, "", async |experiment| {
        let id = experiment.halts().await;
        experiment.world.deployer.settle().await;
        let before = only(experiment.slack.read("#squad-devx"));
        experiment.repeat();
        experiment.is_seen(id).await;
        experiment.world.deployer.settle().await;
        assert_eq!(only(experiment.slack.read("#squad-devx")), before);
        experiment.restarts().await;
        experiment.is_seen(id).await;
        experiment.world.deployer.settle().await;
        assert_eq!(only(experiment.slack.read("#squad-devx")), before);
        // The next check is told by the new process, in the same message.
        experiment.checks(id, BAD).await;
        experiment.world.deployer.settle().await;
        let after = only(experiment.slack.read("#squad-devx"));
        assert_eq!((&after.ts, after.updates), (&before.ts, before.updates + 1));
        assert!(after.text.contains("2 of 3 checks failed"), "{after:#?}");
        id
    })
    .await;
}

#[tokio::test]
async fn a_changed_message_says_again_for_whom_it_was_meant() {
    on_both(WAML, ", default_channel: '#deploys'", async |experiment| {
        experiment.slack.change("#squad-devx", |channel| channel.archived = true);
        let id = experiment.halts().await;
        experiment.world.deployer.settle().await;
        let first = only(experiment.slack.read("#deploys"));
        let note = first.text.lines().find(|line| line.contains("This was meant for")).unwrap();
        assert!(note.contains("squad-devx"), "{note}");
        experiment.checks(id, BAD).await;
        experiment.world.deployer.settle().await;
        let second = only(experiment.slack.read("#deploys"));
        assert!(second.updates > first.updates, "{second:#?}");
        assert!(second.text.contains(note), "{second:#?}");
        id
    })
    .await;
}

#[tokio::test]
async fn an_app_without_a_channel_is_told_nothing_and_nothing_waits() {
    let waml = WAML.replace("slack: \"#squad-devx\"\n", "");
    on_both(&waml, "", async |experiment| {
        let id = experiment.halts().await;
        experiment.checks(id, BAD).await;
        experiment.world.deployer.settle().await;
        assert_eq!(experiment.slack.read("#squad-devx"), []);
        let depth = experiment.world.deployer.stepped().store().depth().await.unwrap();
        assert_eq!((depth.unsent, depth.parked), (0, 0));
        id
    })
    .await;
}

#[tokio::test]
async fn an_incoming_webhook_gets_each_failed_check_and_the_end() {
    for deployer in Deployer::prepared_on_both().await {
        Box::pin(async {
            let mut experiment = Box::pin(Experiment::start_with_webhook(deployer, WAML)).await;
            experiment.release(BAD, State::Failed).await;
            experiment.goes_back().await;
            let messages = experiment.slack.read("#deploys");
            let titles: Vec<&str> = messages.iter().map(|one| one.title.as_str()).collect();
            let halted = titles.iter().filter(|title| title.contains("is halted on")).count();
            assert!((2..=3).contains(&halted), "{titles:?}");
            assert!(titles[halted].starts_with("❌ shop v2"), "{titles:?}");
            assert!(messages.iter().all(|one| one.updates == 0 && one.thread.is_none()));
            Box::pin(experiment.ends_without_channel()).await;
        })
        .await;
    }
}

#[tokio::test]
async fn a_webhook_in_the_place_of_a_bot_posts_what_it_cannot_change() {
    on_both(WAML, "", async |experiment| {
        let id = experiment.halts().await;
        experiment.world.deployer.settle().await;
        let before = only(experiment.slack.read("#squad-devx"));
        let url = experiment.slack.api_url();
        let bot = format!("{{token: {{env: SLACK_TOKEN}}, api_url: '{url}'}}");
        experiment.world.deployer.configure(|text| {
            assert!(text.contains(&bot), "{text}");
            text.replace(&bot, WEBHOOK)
        });
        experiment.restarts().await;
        experiment.is_seen(id).await;
        experiment.checks(id, BAD).await;
        experiment.world.deployer.settle().await;
        assert_eq!(only(experiment.slack.read("#squad-devx")), before);
        let posted = only(experiment.slack.read("#deploys"));
        assert!(posted.text.contains("2 of 3 checks failed"), "{posted:#?}");
        let depth = experiment.world.deployer.stepped().store().depth().await.unwrap();
        assert_eq!(depth.parked, 0);
        id
    })
    .await;
}
