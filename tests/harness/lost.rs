//! A forge in memory as sweeps see it: what it could not deliver, and what was asked of it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Value, json};
use the_deployer::controller::outside::{Problem, Remedy};
use the_deployer::controller::sweep::host::Host;
use the_deployer::controller::sweep::metrics::Metrics;
use the_deployer::controller::sweep::{Hints, Kind, Settings, Sweeps};
use the_deployer::forge::ListedStatus;
use the_deployer::forge::delivery::{Budget, DeliveryContent, HookDelivery};
use the_deployer::forge::github::webhook::rules::Rules;
use the_deployer::model::event::{NamedRepository, Push, Refusal};
use the_deployer::model::id::RepoName;

use crate::harness::requests::at;
use crate::harness::service::Service;

/// Our pages' address.
pub(crate) const US: &str = "https://deployer.example.com";

/// The forge. Clones share it.
#[derive(Clone, Default)]
pub(crate) struct Lost(Arc<Mutex<Forge>>);

#[derive(Default)]
pub(crate) struct Forge {
    pub(crate) failed: Vec<(HookDelivery, Vec<u8>)>,
    pub(crate) deployments: BTreeMap<String, Vec<Value>>,
    pub(crate) statuses: BTreeMap<i64, Vec<ListedStatus>>,
    pub(crate) refused: Vec<Refusal>,
    pub(crate) pushed: Vec<Push>,
    pub(crate) installed: Vec<RepoName>,
    pub(crate) budget: Option<Budget>,
    /// Every request, in order.
    pub(crate) asked: Vec<String>,
    /// So many requests are answered before the limit is reached.
    pub(crate) until_limit: Option<usize>,
    pub(crate) down: bool,
}

impl Lost {
    pub(crate) fn lock(&self) -> MutexGuard<'_, Forge> {
        self.0.lock().unwrap()
    }

    /// How often something of that kind was asked since the last time.
    pub(crate) fn asked(&self, what: &str) -> usize {
        let mut forge = self.lock();
        let count = forge.asked.iter().filter(|asked| asked.starts_with(what)).count();
        forge.asked.clear();
        count
    }

    /// Somebody asks for deployment `n` of `acme/<app>` to a target; nobody hears of it.
    pub(crate) fn deployment(&self, app: &str, target: &str, n: i64, second: i64) {
        let deployment = deployment(target, n, second);
        let repository = format!("acme/{app}");
        self.lock().deployments.entry(repository).or_default().insert(0, deployment);
    }

    /// The same, and the delivery of its event fails.
    pub(crate) fn lost(&self, app: &str, target: &str, n: i64, second: i64) {
        self.deployment(app, target, n, second);
        let payload = json!({
            "action": "created", "deployment": deployment(target, n, second),
            "repository": {"full_name": format!("acme/{app}")}, "sender": {"login": "jo"},
        });
        self.undelivered("deployment", n, second, payload.to_string().as_bytes());
    }

    /// A delivery failed.
    pub(crate) fn undelivered(&self, event: &str, n: i64, second: i64, payload: &[u8]) {
        let delivery = HookDelivery {
            id: n,
            guid: format!("guid-{n}"),
            event: event.to_owned(),
            delivered_at: at(second),
            status_code: 0,
        };
        self.lock().failed.insert(0, (delivery, payload.to_vec()));
    }

    pub(crate) fn status(&self, n: i64, state: &str, log_url: Option<&str>) {
        let log_url = log_url.map(str::to_owned);
        let status = ListedStatus {
            state: state.to_owned(),
            description: String::new(),
            log_url,
            creator: None,
        };
        self.lock().statuses.entry(n).or_default().insert(0, status);
    }

    /// Sweeps over this forge into the service.
    pub(crate) fn sweeps(&self, service: &Service) -> Sweeps<Self> {
        self.sweeps_with(service, Metrics::default(), Hints::default())
    }

    pub(crate) fn sweeps_with(
        &self,
        service: &Service,
        metrics: Metrics,
        hints: Hints,
    ) -> Sweeps<Self> {
        let settings = Settings {
            name: "a-process".to_owned(),
            kinds: vec![Kind::Deliveries, Kind::Deployments],
            every: Duration::from_mins(5),
            rules: Rules::default(),
            our_address: US.to_owned(),
            hint_delay: Duration::ZERO,
        };
        let (store, inbox) = (service.db.store.clone(), service.controller.inbox());
        Sweeps::new(store, service.clock.clone(), inbox, self.clone(), settings, metrics, hints)
    }

    fn ask(&self, what: String) -> Result<MutexGuard<'_, Forge>, Problem> {
        let mut forge = self.lock();
        let problem = |remedy, message: &str| Problem { remedy, message: message.to_owned() };
        if forge.down {
            return Err(problem(Remedy::Retry { after: None }, "the forge does not answer"));
        }
        if forge.until_limit == Some(0) {
            let after = Some(Duration::from_mins(20));
            return Err(problem(Remedy::Retry { after }, "the forge asks us to wait"));
        }
        forge.until_limit = forge.until_limit.map(|left| left - 1);
        forge.asked.push(what);
        Ok(forge)
    }
}

/// As the API lists it.
fn deployment(target: &str, n: i64, second: i64) -> Value {
    json!({
        "id": n, "sha": format!("{n:040x}"), "ref": "main", "task": "deploy",
        "payload": {"tag": format!("v{n}")}, "environment": target, "description": null,
        "creator": {"login": "jo"}, "created_at": at(second).to_string(),
    })
}

impl Host for Lost {
    async fn failed_deliveries(
        &self,
        since: Timestamp,
        most: u32,
    ) -> Result<Vec<HookDelivery>, Problem> {
        let forge = self.ask("failed".to_owned())?;
        let failed = forge.failed.iter().map(|(delivery, _)| delivery.clone());
        Ok(failed.filter(|one| one.delivered_at >= since).take(most as usize).collect())
    }

    async fn delivery(&self, id: i64) -> Result<DeliveryContent, Problem> {
        let forge = self.ask(format!("delivery {id}"))?;
        let (delivery, payload) = forge.failed.iter().find(|(one, _)| one.id == id).unwrap();
        let HookDelivery { event, guid, .. } = delivery.clone();
        Ok(DeliveryContent { event, guid, payload: payload.clone() })
    }

    async fn repositories(&self, _most: u32) -> Result<Vec<RepoName>, Problem> {
        Ok(self.ask("repositories".to_owned())?.installed.clone())
    }

    async fn deployments(&self, repository: &RepoName, most: u32) -> Result<Vec<Value>, Problem> {
        let forge = self.ask(format!("deployments {repository}"))?;
        let Some(all) = forge.deployments.get(repository.as_str()) else {
            let message = format!("repository {repository} is not there");
            return Err(Problem { remedy: Remedy::Reject, message });
        };
        Ok(all.iter().take(most as usize).cloned().collect())
    }

    async fn repository(&self, repository: &RepoName) -> Result<Option<NamedRepository>, Problem> {
        self.ask(format!("repository {repository}")).map(|_| None)
    }

    async fn statuses(
        &self,
        _repository: &RepoName,
        forge_id: i64,
    ) -> Result<Vec<ListedStatus>, Problem> {
        let forge = self.ask(format!("statuses {forge_id}"))?;
        Ok(forge.statuses.get(&forge_id).cloned().unwrap_or_default())
    }

    async fn refuse(&self, refusal: &Refusal) -> Result<(), Problem> {
        self.ask(format!("refuse {}", refusal.forge_id))?.refused.push(refusal.clone());
        self.status(refusal.forge_id, "error", Some(US));
        Ok(())
    }

    fn pushed(&self, push: &Push) {
        self.lock().pushed.push(push.clone());
    }

    fn budget(&self) -> Option<Budget> {
        self.lock().budget
    }
}
