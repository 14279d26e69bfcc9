//! People are told on Slack: the real program by hand, with a GitHub and a Slack that have state.

mod news; // what people are told, and where
mod duplicates; // no message is sent twice
mod people; // who somebody is
mod buttons; // buttons that act
mod trouble; // Slack is down, full, or refuses

use std::time::Duration;

use jiff::SignedDuration;
use the_deployer::model::notice::Sink;
use the_deployer::store::Notification;

use crate::harness::deployer::Deployer;
use crate::harness::events::waml;
use crate::harness::github::Repository;
use crate::harness::slack::{Read, Slack, TOKEN};

const TARGET: &str = "prod-cluster-1";

/// The program with a GitHub and a Slack.
struct Office {
    deployer: Deployer,
    slack: Slack,
}

impl Office {
    /// With a bot, and the channels #squad-devx, which WAMLs name, and #deploys, the default one.
    async fn open() -> Self {
        Self::with("").await
    }

    /// The same, with more under `notify.slack`.
    async fn with(more: &str) -> Self {
        let mut office = Self::built().await;
        let (url, more) = (office.slack.api_url(), more.replace('\n', "\n    "));
        office.configured(&format!(
            "token: {{env: SLACK_TOKEN}}\n    api_url: {url}\n    default_channel: \"#deploys\"\n    {more}\n"
        ));
        office.deployer.starts().await;
        office
    }

    /// With an incoming webhook into #deploys.
    async fn with_a_webhook() -> Self {
        let mut office = Self::built().await;
        let url = office.slack.hook_into("#deploys");
        office.deployer.variable("SLACK_WEBHOOK", &url);
        office.configured("webhook: {env: SLACK_WEBHOOK}\n");
        office.deployer.starts().await;
        office
    }

    async fn built() -> Self {
        let mut deployer = Deployer::prepared().await;
        let slack = Slack::start(&deployer.clock).await;
        slack.channel("#squad-devx");
        slack.channel("#deploys");
        deployer.variable("SLACK_TOKEN", TOKEN);
        Self { deployer, slack }
    }

    fn configured(&mut self, slack: &str) {
        self.deployer.configure(|text| format!("{text}notify:\n  slack:\n    {slack}"));
    }

    fn app(&self, name: &str) -> App<'_> {
        let repository = self.deployer.github.repository(&format!("example/{name}"));
        App { office: self, name: name.to_owned(), repository, change: String::new() }
    }

    /// Somebody rolls an app back, and it is done.
    async fn rolls_back(&self, app: &str, reason: &str) {
        let address = self.deployer.stepped().address();
        let url = format!("http://{address}/api/v1/apps/{TARGET}/devx/{app}/rollback");
        let ask = serde_json::json!({"reason": reason});
        let answer = crate::harness::process::client().post(url).json(&ask).send().await.unwrap();
        assert_eq!(answer.status(), 202);
        self.settle().await;
    }

    async fn settle(&self) -> SignedDuration {
        self.deployer.settle().await
    }

    fn squad(&self) -> Vec<Read> {
        self.slack.read("#squad-devx")
    }

    fn deploys(&self) -> Vec<Read> {
        self.slack.read("#deploys")
    }

    /// What became of a deployment's messages to a sink.
    async fn told(&self, forge_id: i64, sink: &Sink) -> Vec<Notification> {
        let id = self.deployer.deployment(forge_id).await.id;
        let mut all = self.deployer.stepped().store().messages(&id).await.unwrap();
        all.retain(|told| told.sink == *sink);
        all
    }

    /// Every test ends with this.
    async fn closes(self) {
        self.deployer.settled().await;
        self.slack.all_read();
    }

    /// The same, where so many messages were given up.
    async fn closes_with_parked(self, parked: u64) {
        let depth = self.deployer.stepped().store().depth().await.unwrap();
        assert_eq!((depth.unsent, depth.parked), (0, parked));
        self.deployer.github.settled();
        self.slack.all_read();
    }
}

/// A service's repository.
struct App<'o> {
    office: &'o Office,
    name: String,
    repository: Repository<'o>,
    /// `from => to` in its WAML.
    change: String,
}

impl App<'_> {
    /// Its WAML has another text from now on.
    fn says(mut self, from: &str, to: &str) -> Self {
        self.change = format!("{from} => {to}");
        self
    }

    fn waml(&self) -> String {
        let text = waml(&self.name);
        let Some((from, to)) = self.change.split_once(" => ") else { return text };
        assert!(text.contains(from), "{from}");
        text.replace(from, to)
    }

    /// Somebody deploys it as it is; the deployment's number, once all is done and told.
    async fn deploys(&self, tag: &str) -> i64 {
        let id = self.asks(tag, &self.waml()).await;
        self.office.settle().await;
        id
    }

    /// Somebody deploys what breaks rules.
    async fn fails(&self, tag: &str) -> i64 {
        let id = self.fails_untold(tag).await;
        self.office.settle().await;
        id
    }

    /// The same, and nothing is done yet.
    async fn fails_untold(&self, tag: &str) -> i64 {
        self.asks(tag, &broken(&self.waml())).await
    }

    async fn asks(&self, tag: &str, waml: &str) -> i64 {
        self.repository.commit(waml);
        // Nobody asks twice in one millisecond, by which deployments are listed.
        self.office.deployer.clock.advance(Duration::from_millis(1));
        self.repository.deploys(TARGET, tag).await
    }
}

/// Three rules are broken by it.
fn broken(waml: &str) -> String {
    waml.replace("servicePort: 8000", "servicePort: 81") + "    colour: red\n"
}
