//! Webhooks: signed events over real HTTP, what may happen to them, and the list of deliveries.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value as Json, json};
use tokio::sync::watch;

use crate::harness::events::sign;
use crate::harness::github::answer::{Answer, Answered, ok};
use crate::harness::github::call::Call;
use crate::harness::github::state::State;

/// For so long a delivery can be looked at and repeated.
const KEPT: SignedDuration = SignedDuration::from_hours(3 * 24);
/// Who has not answered by then has not got it.
const PATIENCE: Duration = Duration::from_secs(10);

/// What becomes of an event that comes to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Webhooks {
    /// It is delivered at once.
    #[default]
    Delivered,
    /// It is delivered twice, at once.
    Doubled,
    /// GitHub finds nobody there; it stands among the failed deliveries.
    Lost,
    /// GitHub itself loses it: no delivery tells of it.
    Unheard,
    /// It is kept until it is released.
    Held,
    /// It is delivered, and the answer does not come in time: it stands among the failed deliveries.
    Unanswered,
}

/// Where events go.
pub(super) struct Hook {
    pub(super) url: String,
    pub(super) secret: String,
    pub(super) mode: Webhooks,
    pub(super) held: Vec<Event>,
    /// What is to be sent when the state is let go.
    outgoing: Vec<Event>,
}

impl Hook {
    pub(super) fn new(url: String, secret: String) -> Self {
        let mode = Webhooks::Delivered;
        Self { url, secret, mode, held: Vec::new(), outgoing: Vec::new() }
    }
}

/// An event that goes out; the guid is the event's, not the delivery's.
#[derive(Debug, Clone)]
pub(super) struct Event {
    guid: String,
    name: String,
    payload: String,
    redelivery: bool,
    /// Its answer comes too late.
    unanswered: bool,
}

/// One delivery, and how it went.
#[derive(Debug, Clone)]
pub(super) struct Delivery {
    pub(super) id: i64,
    pub(super) guid: String,
    pub(super) event: String,
    pub(super) delivered_at: Timestamp,
    pub(super) status: String,
    pub(super) status_code: u16,
    pub(super) redelivery: bool,
    pub(super) payload: String,
    pub(super) answer: String,
}

impl Delivery {
    fn json(&self) -> Json {
        let payload: Json = serde_json::from_str(&self.payload).unwrap();
        json!({
            "id": self.id, "guid": self.guid, "delivered_at": self.delivered_at.to_string(),
            "redelivery": self.redelivery, "duration": 0.27, "status": self.status,
            "status_code": self.status_code, "event": self.event, "action": payload["action"],
            "installation_id": payload["installation"]["id"],
            "repository_id": payload["repository"]["id"], "throttled_at": null,
        })
    }
}

/// An event comes to be in a repository, and meets what the test has in mind for it.
pub(super) fn tell(state: &mut State, repo: i64, name: &str, mut body: Json) {
    if state.hook.is_none() {
        return;
    }
    let repository = state.repo(repo);
    body["repository"] = repository.json("https://api.github.com");
    body["organization"] = json!({"login": repository.owner(), "id": 21_031_067});
    if let Some(installation) = state.app.at(repository.owner()) {
        body["installation"] = json!({"id": installation.id, "node_id": "MDIz"});
    }
    let number = state.next_id();
    let guid = format!("72d3162e-cc78-11e3-81ab-{number:012}");
    let hook = state.hook.as_mut().unwrap();
    let event = Event {
        guid,
        name: name.to_owned(),
        payload: body.to_string(),
        redelivery: false,
        unanswered: hook.mode == Webhooks::Unanswered,
    };
    match hook.mode {
        Webhooks::Delivered | Webhooks::Unanswered => hook.outgoing.push(event),
        Webhooks::Doubled => hook.outgoing.extend([event.clone(), event]),
        Webhooks::Held => hook.held.push(event),
        Webhooks::Unheard => {}
        Webhooks::Lost => {
            let nobody = (502, "failed to connect to host".to_owned(), String::new());
            record(state, event, nobody);
        }
    }
}

fn record(state: &mut State, event: Event, (status_code, status, answer): Outcome) {
    let Event { guid, name, payload, redelivery, unanswered: _ } = event;
    let id = state.next_id();
    let delivered_at = state.now();
    let event = name;
    let delivery = Delivery {
        id,
        guid,
        event,
        delivered_at,
        status,
        status_code,
        redelivery,
        payload,
        answer,
    };
    state.deliveries.push(delivery);
}

/// Code, words, body.
type Outcome = (u16, String, String);

/// Who carries events to the service.
#[derive(Clone)]
pub(super) struct Post {
    state: Arc<Mutex<State>>,
    client: reqwest::Client,
    on_the_way: watch::Sender<usize>,
}

impl Post {
    pub(super) fn new(state: Arc<Mutex<State>>) -> Self {
        Self { state, client: client_without_memory(), on_the_way: watch::Sender::new(0) }
    }

    /// Sends, in the background, what has come to be; whoever holds the state calls this.
    pub(super) fn send_what_came_of_it(&self, state: &mut State) {
        let Some(hook) = &mut state.hook else { return };
        for event in std::mem::take(&mut hook.outgoing) {
            let (this, url, secret) = (self.clone(), hook.url.clone(), hook.secret.clone());
            self.on_the_way.send_modify(|count| *count += 1);
            tokio::spawn(async move {
                this.deliver(&url, &secret, event).await;
                this.on_the_way.send_modify(|count| *count -= 1);
            });
        }
    }

    /// Until nothing is on its way.
    pub(super) async fn arrived(&self) {
        let mut count = self.on_the_way.subscribe();
        count.wait_for(|count| *count == 0).await.unwrap();
    }

    /// Sends what was kept, one after the other, in that order of theirs.
    pub(super) async fn release(&self, order: &[usize]) {
        let (url, secret, held) = {
            let mut state = self.state.lock().unwrap();
            let hook = state.hook.as_mut().unwrap();
            (hook.url.clone(), hook.secret.clone(), std::mem::take(&mut hook.held))
        };
        assert_eq!(held.len(), order.len(), "say of each that is held when it comes");
        for index in order {
            self.deliver(&url, &secret, held[*index].clone()).await;
        }
    }

    async fn deliver(&self, url: &str, secret: &str, event: Event) {
        let outcome = self.attempt(url, secret, &event).await;
        record(&mut self.state.lock().unwrap(), event, outcome);
    }

    async fn attempt(&self, url: &str, secret: &str, event: &Event) -> Outcome {
        let request = self
            .client
            .post(url)
            .timeout(PATIENCE)
            .header("User-Agent", "GitHub-Hookshot/044aadd")
            .header("Content-Type", "application/json")
            .header("X-GitHub-Event", &event.name)
            .header("X-GitHub-Delivery", &event.guid)
            .header("X-GitHub-Hook-ID", "42")
            .header("X-GitHub-Hook-Installation-Target-Type", "integration")
            .header("X-Hub-Signature-256", sign(secret, &event.payload))
            .body(event.payload.clone());
        match request.send().await {
            Ok(_) if event.unanswered => (504, "timed out".to_owned(), String::new()),
            Ok(answer) => {
                let status = answer.status();
                let words = if status.is_success() {
                    "OK"
                } else {
                    status.canonical_reason().unwrap_or("")
                };
                let words = words.to_owned();
                (status.as_u16(), words, answer.text().await.unwrap_or_default())
            }
            Err(error) if error.is_timeout() => (504, "timed out".to_owned(), String::new()),
            Err(_) => (502, "failed to connect to host".to_owned(), String::new()),
        }
    }
}

/// `GET /app/hook/deliveries`: newest first, page by page with a cursor.
pub(super) fn list(state: &State, call: &Call) -> Answered {
    let before: Option<i64> = call.query.get("cursor").and_then(|cursor| cursor[3..].parse().ok());
    let wanted = call.query.get("status").map(String::as_str);
    let fits = |one: &&Delivery| {
        let kept = one.delivered_at > state.now() - KEPT;
        let failed = one.status != "OK";
        let asked = wanted.is_none_or(|wanted| failed == (wanted == "failure"));
        kept && asked && before.is_none_or(|before| one.id < before)
    };
    let left: Vec<&Delivery> = state.deliveries.iter().rev().filter(fits).collect();
    let page: Vec<Json> = left.iter().take(call.per_page()).map(|one| one.json()).collect();
    let last = page.last().map(|last| last["id"].clone());
    let answer = ok(&Json::from(page))?;
    match last.filter(|_| left.len() > call.per_page()) {
        Some(last) => {
            let (base, per_page) = (&call.base, call.per_page());
            let next = format!("{base}/app/hook/deliveries?per_page={per_page}&cursor=v1_{last}");
            Ok(answer.with("link", format!("<{next}>; rel=\"next\"")))
        }
        None => Ok(answer),
    }
}

/// `GET /app/hook/deliveries/ID`
pub(super) fn one(state: &State, id: &str) -> Answered {
    let found = find(state, id)?;
    let mut json = found.json();
    let payload: Json = serde_json::from_str(&found.payload).unwrap();
    json["request"] = json!({"headers": {"X-GitHub-Delivery": found.guid}, "payload": payload});
    json["response"] = json!({"headers": {}, "payload": found.answer});
    ok(&json)
}

/// `POST /app/hook/deliveries/ID/attempts`: the event goes out again, with the same guid.
pub(super) fn again(state: &mut State, id: &str) -> Answered {
    let Delivery { guid, event: name, payload, .. } = find(state, id)?.clone();
    let event = Event { guid, name, payload, redelivery: true, unanswered: false };
    let hook = state.hook.as_mut().ok_or_else(Answer::not_found)?;
    hook.outgoing.push(event);
    Ok(Answer::json(202, &json!({})))
}

fn find<'s>(state: &'s State, id: &str) -> Result<&'s Delivery, Answer> {
    let found = state.deliveries.iter().find(|one| one.id.to_string() == id);
    let kept = found.filter(|one| one.delivered_at > state.now() - KEPT);
    kept.ok_or_else(Answer::not_found)
}

/// Each delivery connects anew: a process that has ended cannot be reached over an old connection.
fn client_without_memory() -> reqwest::Client {
    the_deployer::support::http::install_tls_provider();
    reqwest::Client::builder()
        .no_proxy()
        .tls_certs_only([])
        .pool_max_idle_per_host(0)
        .build()
        .unwrap()
}
