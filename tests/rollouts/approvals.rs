//! People approve the gate of a rollout in Slack, with the rights of their GitHub account.

use std::time::Duration;

use serde_json::Value as Json;
use the_deployer::model::audit::Search;
use the_deployer::model::id::{RolloutId, TeamName};
use the_deployer::rollout::plan::{Gate, RolloutFailurePolicy, RolloutStep};
use the_deployer::rollout::record::RolloutState;

use super::world::{Fleet, approval, deploy, plan};
use crate::harness::deployer::Deployer;
use crate::harness::slack::press::SIGNING_SECRET;
use crate::harness::slack::{Read, Slack, TOKEN};

const OCTOCAT: &str = "U00000001";
const MONA: &str = "U00000002";

/// A service that tells #deploys, where octocat and mona act.
struct Office {
    fleet: Fleet,
    slack: Slack,
}

impl Office {
    async fn open(mut deployer: Deployer) -> Self {
        let slack = Slack::start(&deployer.clock).await;
        slack.channel("#deploys");
        deployer.variable("SLACK_TOKEN", TOKEN);
        deployer.variable("SLACK_SIGNING", SIGNING_SECRET);
        let url = slack.api_url();
        deployer.configure(|config| {
            let secret = "webhook_secret: {env: WEBHOOK_SECRET}\n";
            let config = config.replace(secret, &format!("{secret}    organizations: [example]\n"));
            format!(
                "{config}auth:\n  github: {{admins: [example/platform]}}\nnotify:\n  slack:\n    \
                 token: {{env: SLACK_TOKEN}}\n    api_url: {url}\n    default_channel: \"#deploys\"\n    \
                 signing_secret: {{env: SLACK_SIGNING}}\n    people: {{octocat: {OCTOCAT}, mona: {MONA}}}\n"
            )
        });
        let fleet = Fleet::start(deployer).await;
        Self { fleet, slack }
    }

    /// A rollout to `a`, and after the gate to `b` and `c`, waits; with its message.
    async fn waits_at(&self, gate: RolloutStep) -> (RolloutId, Read) {
        let steps = vec![deploy(&["a"], 1), gate, deploy(&["b", "c"], 2)];
        let id = self.fleet.begins("v2", plan(steps, RolloutFailurePolicy::Undo)).await;
        self.fleet.goes_on().await;
        let message = self.slack.read("#deploys").pop().unwrap();
        (id, message)
    }

    async fn press(&self, user: &str, press: &str, message: &Read, answers: usize) -> String {
        let [button]: &[Json; 1] = message.acts.as_slice().try_into().unwrap();
        let address = self.fleet.app().address();
        self.slack.press(address, (user, press), button, answers).await
    }

    /// The approvals in the audit log: who, and how.
    async fn approvals(&self) -> Vec<(String, &'static str)> {
        let search = Search { limit: 20, ..Search::default() };
        let records = self.fleet.app().store().audit_records(&search).await.unwrap();
        let approvals = records.entries.into_iter().filter(|one| one.act == "rollout-approve");
        approvals.map(|one| (one.by.name, one.by.via.as_str())).collect()
    }

    async fn closes(self) {
        self.fleet.goes_on().await;
        let _read = self.slack.read("#deploys");
        self.fleet.deployer.settled().await;
        self.slack.all_read();
    }
}

/// On each database, with a token and as an App.
async fn on_both(story: impl AsyncFn(&mut Office)) {
    for (number, mut deployer) in Deployer::prepared_on_both().await.into_iter().enumerate() {
        if number == 0 {
            deployer.acts_as_app();
        }
        Box::pin(async {
            let mut office = Box::pin(Office::open(deployer)).await;
            office.fleet.deployer.github.allows("example", "members", "read");
            // What an installation may is remembered for a while.
            office.fleet.deployer.clock.advance(Duration::from_mins(10));
            story(&mut office).await;
            office.closes().await;
        })
        .await;
    }
}

fn for_team(team: &str) -> RolloutStep {
    let team = Some(TeamName::parse(team).unwrap());
    RolloutStep::Gate { gate: Gate::Approval { team }, timeout: None }
}

#[tokio::test]
async fn a_member_of_the_gates_team_approves_and_nobody_else() {
    on_both(async |office| {
        let github = &office.fleet.deployer.github;
        github.lets("octocat", "example/shop", "triage");
        github.lets("mona", "example/shop", "push");
        github.joins("octocat", "example/sre");
        let (id, message) = office.waits_at(for_team("example/sre")).await;
        let effect = message.acts[0]["confirm"]["text"]["text"].as_str().unwrap();
        assert_eq!(effect, "The rollout of v2 of devx/shop goes on. The next targets are b, c.");
        let mona = office.press(MONA, "1", &message, 1).await;
        assert!(mona.contains("this is for members of example/sre"), "{mona}");
        let stranger = office.press("U09999999", "2", &message, 2).await;
        assert!(stranger.contains("nobody has said which GitHub account is yours"), "{stranger}");
        office.fleet.goes_on().await;
        assert_eq!(office.fleet.state(&id).await, RolloutState::RollingOut);
        assert_eq!(office.approvals().await, []);
        let before = github.count("GET collaborators octocat");
        let octocat = office.press(OCTOCAT, "3", &message, 3).await;
        assert!(octocat.starts_with("The gate is approved"), "{octocat}");
        let questions = github.count("GET collaborators octocat") - before;
        assert_eq!(questions, 1, "one for all targets");
        assert_eq!(office.approvals().await, [("octocat".to_owned(), "slack")]);
        let changed = office.slack.changed("#deploys", &message.ts, 1).await;
        assert_eq!(changed.acts, Vec::<Json>::new());
        assert!(changed.text.contains("@U00000001 approved it."), "{}", changed.text);
        office.fleet.goes_on().await;
        assert_eq!(office.fleet.state(&id).await, RolloutState::Done);
        let late = office.press(OCTOCAT, "4", &message, 4).await;
        assert!(late.contains("Nothing was done: it is done: no gate waits"), "{late}");
    })
    .await;
}

#[tokio::test]
async fn a_gate_without_a_team_is_for_those_who_may_deploy_to_every_target() {
    on_both(async |office| {
        let github = &office.fleet.deployer.github;
        let (id, message) = office.waits_at(approval()).await;
        let hidden = office.press(OCTOCAT, "1", &message, 1).await;
        assert!(hidden.contains("octocat may not deploy example/shop on a"), "{hidden}");
        github.lets("mona", "example/shop", "push");
        let mona = office.press(MONA, "2", &message, 2).await;
        assert!(mona.starts_with("The gate is approved"), "{mona}");
        office.fleet.goes_on().await;
        assert_eq!(office.fleet.state(&id).await, RolloutState::Done);
        let _changed = office.slack.changed("#deploys", &message.ts, 1).await;
    })
    .await;
}

#[tokio::test]
async fn a_gate_that_another_has_approved_says_so_and_loses_the_button() {
    on_both(async |office| {
        office.fleet.deployer.github.lets("octocat", "example/shop", "push");
        let (id, message) = office.waits_at(approval()).await;
        office.fleet.approves(&id).await.unwrap();
        let octocat = office.press(OCTOCAT, "1", &message, 1).await;
        assert_eq!(octocat, "Nothing was done: ann has approved it already");
        let changed = office.slack.changed("#deploys", &message.ts, 1).await;
        assert_eq!(changed.acts, Vec::<Json>::new());
        assert!(changed.text.contains("ann has approved it already"), "{}", changed.text);
        assert_eq!(office.approvals().await.len(), 1);
    })
    .await;
}

#[tokio::test]
async fn an_app_that_may_not_read_teams_lets_nobody_approve_for_one() {
    let mut deployer = Deployer::prepared().await;
    deployer.acts_as_app();
    let office = Box::pin(Office::open(deployer)).await;
    let github = &office.fleet.deployer.github;
    github.lets("octocat", "example/shop", "push");
    github.joins("octocat", "example/sre");
    let (id, message) = office.waits_at(for_team("example/sre")).await;
    github.forbids("example", "members");
    let octocat = office.press(OCTOCAT, "1", &message, 1).await;
    assert!(octocat.contains("GitHub cannot be asked for your permissions now"), "{octocat}");
    office.fleet.goes_on().await;
    assert_eq!(office.fleet.state(&id).await, RolloutState::RollingOut);
    let message = office.slack.read("#deploys").into_iter().find(|one| one.ts == message.ts);
    assert_eq!(message.unwrap().acts.len(), 1);
    office.fleet.approves(&id).await.unwrap();
    office.closes().await;
}
