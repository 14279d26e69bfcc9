use insta::assert_snapshot;

use super::block::{MAX_BLOCKS, MAX_TOGETHER, size};
use super::rollout::{
    NoticeAudience, RolloutMessage, compose_notice, compose_overview, notice_audience,
};
use super::{SlackMessage, Undeliverable};
use crate::model::id::{
    AppKey, CommitSha, ImageTag, RepoName, RolloutId, RolloutName, TargetName, TeamName,
};
use crate::model::rollout_news::{RolloutNews, RolloutPhase, RolloutTargetNews, TargetProgress};

const PAGE: &str = "https://deploy.example.com/rollouts/r-20261121-054812123-0a1b2c";

fn target(name: &str, progress: TargetProgress, reason: Option<&str>) -> RolloutTargetNews {
    let target = TargetName::parse(name).unwrap();
    RolloutTargetNews { target, progress, reason: reason.map(str::to_owned) }
}

fn news(phase: RolloutPhase) -> RolloutNews {
    RolloutNews {
        id: RolloutId::parse("r-20261121-054812123-0a1b2c").unwrap(),
        name: RolloutName::parse("production").ok(),
        app: AppKey { namespace: "devx".parse().unwrap(), slug: "shop".parse().unwrap() },
        repository: RepoName::parse("acme/shop").unwrap(),
        commit: CommitSha::parse("ab".repeat(20)).unwrap(),
        tag: ImageTag::parse("v42").unwrap(),
        starter: "octocat".to_owned(),
        phase,
        since: "2026-11-21T05:50:00Z".parse().unwrap(),
        index: 2,
        steps: 5,
        next_targets: Vec::new(),
        wait: None,
        targets: vec![
            target("canary-1", TargetProgress::Complete, None),
            target("prod-1", TargetProgress::UnderWay, None),
            target("prod-2", TargetProgress::Failed, Some("cannot pull <the> image")),
            target("prod-3", TargetProgress::Pending, None),
        ],
    }
}

fn message(news: &RolloutNews) -> RolloutMessage<'_> {
    RolloutMessage { news, page: PAGE, team: None, acts: false, undeliverable: None }
}

fn notice(phase: RolloutPhase) -> String {
    compose_notice(message(&news(phase))).plain
}

#[test]
fn the_overview_shows_every_target_and_the_reasons_of_failures() {
    let overview = compose_overview(message(&news(RolloutPhase::UnderWay)));
    assert_snapshot!(overview.plain, @r"
    🚀 shop v42 rolls out: 1 of 4 targets
    The release is on 1 of 4 targets.
    *App*
    devx/shop
    *Tag*
    v42
    *Started by*
    octocat
    *Step*
    3 of 5
    *Rollout*
    production
    *Complete:* canary-1
    *Under way:* prod-1
    *Failed:* prod-2
    *To come:* prod-3
    Rollout: https://deploy.example.com/rollouts/r-20261121-054812123-0a1b2c
    rollout r-20261121-054812123-0a1b2c
    *prod-2*: cannot pull &lt;the&gt; image
    ");
    assert_snapshot!(overview.text, @"🚀 shop v42 rolls out: 1 of 4 targets. The release is on 1 of 4 targets.");
    let json = serde_json::to_value(&overview.blocks).unwrap();
    assert_eq!(json[0]["block_id"], "r-20261121-054812123-0a1b2c/overview");
}

#[test]
fn an_overview_says_what_its_gate_waits_for() {
    let wait = Some("the bake time until 10:40 UTC".to_owned());
    let news = RolloutNews { wait, ..news(RolloutPhase::UnderWay) };
    let text = compose_overview(message(&news)).text;
    assert_snapshot!(text, @"🚀 shop v42 rolls out: 1 of 4 targets. It waits for the bake time until 10:40 UTC.");
}

#[test]
fn a_person_who_is_needed_reads_the_cause_and_the_commands() {
    let team = TeamName::parse("acme/oncall").unwrap();
    assert_snapshot!(notice(RolloutPhase::Approval(Some(team))), @r"
    ✋ The rollout of shop v42 waits for an approval
    The release is on 1 of 4 targets. A member of acme/oncall has to approve the next step.
    `bart rollout approve r-20261121-054812123-0a1b2c --reason TEXT` lets it go on
    `bart rollout undo r-20261121-054812123-0a1b2c --reason TEXT` gives changed targets their former revision back
    Rollout: https://deploy.example.com/rollouts/r-20261121-054812123-0a1b2c
    rollout r-20261121-054812123-0a1b2c
    *prod-2*: cannot pull &lt;the&gt; image
    ");
    let reason = "prod-2: cannot pull <the> image".to_owned();
    assert_snapshot!(notice(RolloutPhase::Stopped(reason)), @r"
    ❌ The rollout of shop v42 has stopped
    The release is on 1 of 4 targets. It goes on when a person decides: prod-2: cannot pull &lt;the&gt; image
    `bart rollout retry r-20261121-054812123-0a1b2c --reason TEXT` tries what failed again
    `bart rollout resume r-20261121-054812123-0a1b2c --reason TEXT` accepts the failure, and goes on
    `bart rollout undo r-20261121-054812123-0a1b2c --reason TEXT` gives changed targets their former revision back
    Rollout: https://deploy.example.com/rollouts/r-20261121-054812123-0a1b2c
    rollout r-20261121-054812123-0a1b2c
    *prod-2*: cannot pull &lt;the&gt; image
    ");
    let mut failed = news(RolloutPhase::UndoFailed);
    failed.targets[2].progress = TargetProgress::UndoFailed;
    failed.targets[2].reason =
        Some("the host is down; run `bart rollback prod-2 --app devx/shop --to X`".to_owned());
    assert_snapshot!(compose_notice(message(&failed)).plain, @r"
    ❌ The rollout of shop v42 could not be undone
    The undo failed on 1 of 4 targets: a person must act.
    `bart rollout retry r-20261121-054812123-0a1b2c --reason TEXT` tries the undos that failed again
    Rollout: https://deploy.example.com/rollouts/r-20261121-054812123-0a1b2c
    rollout r-20261121-054812123-0a1b2c
    *prod-2*: the host is down; run `bart rollback prod-2 --app devx/shop --to X`
    ");
}

#[test]
fn an_end_says_what_was_reached() {
    assert_snapshot!(notice(RolloutPhase::Done), @r"
    ✅ shop v42 is rolled out: 1 of 4 targets
    The release is on 1 of 4 targets. 1 failed, as the plan allows.
    Rollout: https://deploy.example.com/rollouts/r-20261121-054812123-0a1b2c
    rollout r-20261121-054812123-0a1b2c
    *prod-2*: cannot pull &lt;the&gt; image
    ");
    assert_snapshot!(notice(RolloutPhase::Undone), @r"
    ⏪ The rollout of shop v42 was undone
    Each target that it changed has its former revision again. prod-2: cannot pull &lt;the&gt; image
    Rollout: https://deploy.example.com/rollouts/r-20261121-054812123-0a1b2c
    rollout r-20261121-054812123-0a1b2c
    *prod-2*: cannot pull &lt;the&gt; image
    ");
    assert_snapshot!(notice(RolloutPhase::Cancelled("wrong tag".to_owned())), @r"
    ⏹ The rollout of shop v42 was cancelled
    The release is on 1 of 4 targets. They keep it. Cancelled: wrong tag
    `bart rollout undo r-20261121-054812123-0a1b2c --reason TEXT` gives changed targets their former revision back
    Rollout: https://deploy.example.com/rollouts/r-20261121-054812123-0a1b2c
    rollout r-20261121-054812123-0a1b2c
    *prod-2*: cannot pull &lt;the&gt; image
    ");
}

#[test]
fn the_channel_hears_of_ends_and_of_what_needs_a_person() {
    let cause = || "a lock".to_owned();
    for (phase, audience) in [
        (RolloutPhase::UnderWay, None),
        (RolloutPhase::Blocked(cause()), Some(NoticeAudience::Thread)),
        (RolloutPhase::Paused(cause()), Some(NoticeAudience::Thread)),
        (RolloutPhase::Undoing(cause()), Some(NoticeAudience::Thread)),
        (RolloutPhase::Approval(None), Some(NoticeAudience::Channel)),
        (RolloutPhase::Stopped(cause()), Some(NoticeAudience::Channel)),
        (RolloutPhase::UndoFailed, Some(NoticeAudience::Channel)),
        (RolloutPhase::Done, Some(NoticeAudience::Channel)),
        (RolloutPhase::Cancelled(cause()), Some(NoticeAudience::Channel)),
    ] {
        assert_eq!(notice_audience(&phase), audience, "{phase:?}");
        let is_loud = audience == Some(NoticeAudience::Channel);
        assert!(is_loud || !(phase.is_end() || phase.needs_person()), "{phase:?}");
    }
}

#[test]
fn a_message_that_strayed_says_where_it_belongs() {
    let problem = "the bot is not in it".to_owned();
    let undeliverable = Undeliverable { channel: "#squad".to_owned(), problem };
    let news = news(RolloutPhase::Done);
    let strayed = RolloutMessage { undeliverable: Some(&undeliverable), ..message(&news) };
    let text = compose_notice(strayed).plain;
    assert!(text.contains("This was meant for #squad: the bot is not in it."), "{text}");
    let hook = RolloutMessage { team: Some("#squad"), ..message(&news) };
    assert!(compose_notice(hook).plain.contains("for #squad"));
}

#[test]
fn the_largest_rollout_fits() {
    let fits = |message: &SlackMessage| {
        let json = serde_json::to_value(&message.blocks).unwrap();
        let texts =
            json.as_array().unwrap().iter().filter_map(|block| block["text"]["text"].as_str());
        let longest = texts.map(|text| text.encode_utf16().count()).max().unwrap();
        message.blocks.len() <= MAX_BLOCKS
            && size(&message.blocks) <= MAX_TOGETHER
            && longest <= 3000
    };
    let progress = [
        TargetProgress::Complete,
        TargetProgress::UnderWay,
        TargetProgress::Pending,
        TargetProgress::Failed,
        TargetProgress::Undone,
        TargetProgress::UndoFailed,
        TargetProgress::Dropped,
    ];
    let mut news = news(RolloutPhase::Stopped("ß<&>".repeat(900)));
    news.starter = "ß".repeat(900);
    news.targets = (0..500)
        .map(|n| {
            target(&format!("{}-{n}", "p".repeat(58)), progress[n % 7], Some(&"ß<".repeat(900)))
        })
        .collect();
    let overview = compose_overview(message(&news));
    assert!(fits(&overview) && fits(&compose_notice(message(&news))));
    assert!(overview.plain.contains(" and "), "{}", overview.plain);
}
