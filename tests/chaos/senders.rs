//! Those who use the service during a round: code hosts that deliver events until they are accepted,
//! and others who commit to the same manifest repository.

use std::cell::Cell;
use std::time::{Duration, Instant};

use jiff::Timestamp;

use crate::chaos::fleet::Fleet;
use crate::chaos::ledger::{Accepted, Expectation, Ledger};
use crate::harness::events::Event;
use crate::harness::random::Random;

/// An event is delivered again and again for so long.
const PATIENCE: Duration = Duration::from_mins(1);
const AGAIN: Duration = Duration::from_millis(50);

/// The deployments of one app to one target, one after the other.
#[derive(Debug, Clone)]
pub(crate) struct Lane {
    pub(crate) repository: String,
    pub(crate) app: String,
    pub(crate) target: &'static str,
    /// Events go to that process alone; else to any.
    pub(crate) member: Option<usize>,
}

impl Lane {
    /// Of `example/APP`.
    pub(crate) fn new(app: &str, target: &'static str) -> Self {
        let repository = format!("example/{app}");
        Self { repository, app: app.to_owned(), target, member: None }
    }

    /// The same, with events to that process alone.
    pub(crate) fn by(&self, member: usize) -> Self {
        Self { member: Some(member), ..self.clone() }
    }

    /// `manifests/TARGET/NAMESPACE/APP`
    pub(crate) fn folder(&self) -> String {
        format!("manifests/{}/devx/{}", self.target, self.app)
    }

    /// `TARGET/NAMESPACE/APP`, as the API names it.
    pub(crate) fn spot(&self) -> String {
        format!("{}/devx/{}", self.target, self.app)
    }

    /// Deploys that tag: the event is sent until it is accepted. The deploy id.
    pub(crate) async fn deploy(
        &self,
        (fleet, ledger): (&Fleet, &Ledger),
        random: &mut Random,
        sequence: usize,
        expectation: Expectation,
    ) -> Option<String> {
        let tag = format!("v{sequence}.{}", random.below(1_000_000));
        let event = fleet.deployment(&self.repository, self.target, &tag).await;
        let id = deliver((fleet, ledger), &event, random, self.member).await?;
        if random.percent(15) {
            ledger.count("redeliveries");
            let again = deliver((fleet, ledger), &event, random, self.member).await?;
            ledger.require(id == again, || format!("{tag} became two deployments: {id}, {again}"));
        }
        let (app, answered) = (self.app.clone(), Timestamp::now());
        let one = Accepted { event, app, id: id.clone(), sequence, answered, expectation };
        ledger.entries().accepted.push(one);
        ledger.count("events");
        Some(id)
    }

    /// So many deployments, with pauses.
    pub(crate) async fn deploy_all(
        &self,
        world: (&Fleet, &Ledger),
        mut random: Random,
        deployments: usize,
        pause: usize,
    ) {
        for sequence in 1..=deployments {
            self.deploy(world, &mut random, sequence, Expectation::Deployed).await;
            tokio::time::sleep(random.millis(0, pause)).await;
        }
    }
}

/// Delivers an event until it is accepted; the deploy id.
pub(crate) async fn deliver(
    (fleet, ledger): (&Fleet, &Ledger),
    event: &Event,
    random: &mut Random,
    member: Option<usize>,
) -> Option<String> {
    let deadline = Instant::now() + PATIENCE;
    let mut last = "no answer".to_owned();
    while Instant::now() < deadline {
        match fleet.send(event, random, member).await {
            Some(answer) if answer.status == 202 => {
                return Some(answer.json()["id"].as_str().expect("a deploy id").to_owned());
            }
            // A process that is cut off from its database says so, and GitHub delivers again.
            Some(answer) if answer.status == 503 => ledger.count("503"),
            Some(answer) => last = format!("{}: {}", answer.status, answer.text),
            None => ledger.count("unanswered"),
        }
        tokio::time::sleep(AGAIN).await;
    }
    ledger.violation(format!("{} {} was not accepted: {last}", event.repository, event.tag));
    None
}

/// Somebody commits files of their own, now and then, until the round says that it is over.
pub(crate) async fn commit_beside(
    (fleet, ledger): (&Fleet, &Ledger),
    mut random: Random,
    over: &Cell<bool>,
) {
    let mut number = 0;
    while !over.get() {
        tokio::time::sleep(random.millis(300, 1500)).await;
        // The embedded repository is made by the service, and so is the branch of each.
        if !fleet.bare.0.join("refs").is_dir() || fleet.bare.commits() == 0 {
            continue;
        }
        number += 1;
        let path = format!("teams/{}/notes.md", random.below(5));
        let text = format!("note {number}\n");
        if fleet.bare.somebody_tries_to_put("100644", &path, &text) {
            ledger.entries().foreign.insert(path, text);
            ledger.count("foreign");
        }
    }
}
