//! Deployments are followed until their ends: by the service's events where it has them, else by asking again
//! and again.

use std::time::Duration;

use serde::Deserialize;
use tokio::sync::mpsc;

use super::super::client::{List, Overview, Server};
use super::super::error::CliError;
use super::events;
use super::progress::Phase;
use crate::model::deployment::StageTime;
use crate::model::id::RepoName;

/// How long between two questions; the first come sooner, because most deployments take some seconds.
const PAUSES: [Duration; 4] = [
    Duration::from_millis(300),
    Duration::from_millis(500),
    Duration::from_millis(1000),
    Duration::from_millis(2000),
];
/// Questions without an answer, one after the other, until it is given up: about half a minute.
const PATIENCE: usize = 16;
/// A list has ours among its newest.
const LISTED: u32 = 100;

/// A deployment that was created.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Made {
    pub(super) target: String,
    /// The forge's number.
    pub(super) forge_id: i64,
    /// The service's id, where it is known already.
    pub(super) id: Option<String>,
}

/// How one of them is now, by its place in the list.
pub(super) type News = (usize, Phase);

/// A deployment as its events have it.
#[derive(Deserialize)]
struct Seen {
    #[serde(flatten)]
    overview: Overview,
    #[serde(default)]
    stages: Vec<StageTime>,
}

/// Begins to follow them all; what comes of it is heard until all have ended.
pub(super) fn all(server: &Server, repository: &RepoName, made: &[Made]) -> mpsc::Receiver<News> {
    let (send, news) = mpsc::channel(64);
    let mut unknown = Vec::new();
    for (place, one) in made.iter().enumerate() {
        match &one.id {
            Some(id) => drop(tokio::spawn(watch(server.clone(), id.clone(), place, send.clone()))),
            None => unknown.push((place, one.forge_id)),
        }
    }
    if !unknown.is_empty() {
        tokio::spawn(find(server.clone(), repository.clone(), unknown, send));
    }
    news
}

/// Looks for deployments that the service has not told of yet; each that is found is watched.
async fn find(
    server: Server,
    repository: RepoName,
    mut unknown: Vec<(usize, i64)>,
    send: mpsc::Sender<News>,
) {
    let mut tries = Tries::default();
    while !unknown.is_empty() && !send.is_closed() {
        let query = [("repository", repository.to_string()), ("limit", LISTED.to_string())];
        let found: Result<List, CliError> = server.get("/api/v1/deployments", &query).await;
        match found {
            Ok(list) => {
                tries.succeeded();
                for one in list.deployments {
                    let Some(at) = unknown.iter().position(|(_, id)| Some(*id) == one.forge_id)
                    else {
                        continue;
                    };
                    let (place, _) = unknown.swap_remove(at);
                    let id = one.id.clone();
                    let _gone = send.send((place, phase(one, &[]))).await;
                    tokio::spawn(watch(server.clone(), id, place, send.clone()));
                }
            }
            Err(error) => {
                if tries.failed() {
                    for (place, _) in unknown {
                        let _gone = send.send((place, Phase::Lost(error.to_string()))).await;
                    }
                    return;
                }
            }
        }
        tokio::time::sleep(tries.pause()).await;
    }
}

/// Follows one to its end.
async fn watch(server: Server, id: String, place: usize, send: mpsc::Sender<News>) {
    let (mut tries, mut by_events, mut after) = (Tries::default(), true, None);
    while !send.is_closed() {
        let heard = if by_events {
            listen(&server, &id, place, &send, &mut after).await
        } else {
            look(&server, &id, place, &send).await.map(Heard::told)
        };
        match heard {
            Ok(Heard::End) => return,
            Ok(Heard::More) => tries.succeeded(),
            Ok(Heard::NoEvents) => by_events = false,
            Err(error) => {
                if tries.failed() {
                    let _gone = send.send((place, Phase::Lost(error.to_string()))).await;
                    return;
                }
            }
        }
        tokio::time::sleep(tries.pause()).await;
    }
}

/// What was heard.
enum Heard {
    /// It has ended.
    End,
    /// It goes on.
    More,
    /// The service has no events.
    NoEvents,
}

impl Heard {
    fn told(has_ended: bool) -> Self {
        if has_ended { Self::End } else { Self::More }
    }
}

/// Listens until the stream ends; one that ends before the deployment is opened anew.
async fn listen(
    server: &Server,
    id: &str,
    place: usize,
    send: &mpsc::Sender<News>,
    after: &mut Option<String>,
) -> Result<Heard, CliError> {
    let path = format!("/api/v1/deployments/{id}/events");
    let Some(mut events) = events::open(server, &path, after.as_deref()).await? else {
        return Ok(Heard::NoEvents);
    };
    while let Some(event) = events.next().await {
        *after = event.id.or(after.take());
        if !matches!(event.kind.as_str(), "deployment" | "") {
            continue;
        }
        let seen: Result<Seen, _> = serde_json::from_str(&event.data);
        // Of a newer service, which says it otherwise: then it is asked.
        let Ok(Seen { overview, stages }) = seen else { return Ok(Heard::NoEvents) };
        let phase = phase(overview, &stages);
        let over = phase.is_over();
        let _gone = send.send((place, phase)).await;
        if over {
            return Ok(Heard::End);
        }
    }
    // What was missed in between is asked for: a stream may also end because all has been told.
    look(server, id, place, send).await.map(Heard::told)
}

/// Asks how it is; whether it has ended.
async fn look(
    server: &Server,
    id: &str,
    place: usize,
    send: &mpsc::Sender<News>,
) -> Result<bool, CliError> {
    let Seen { overview, stages } = server.get(&format!("/api/v1/deployments/{id}"), &[]).await?;
    let phase = phase(overview, &stages);
    let over = phase.is_over();
    let _gone = send.send((place, phase)).await;
    Ok(over)
}

/// How far it is, for who waits. Pure.
fn phase(overview: Overview, stages: &[StageTime]) -> Phase {
    let Overview { id, state, finished_at, summary, .. } = overview;
    if finished_at.is_some() {
        return Phase::Ended { id, state, summary };
    }
    let done = stages.last().map(|time| format!("{} done", time.stage.as_str()));
    Phase::Going { id, state, doing: done.unwrap_or(summary) }
}

/// How often it was asked, and how often in vain.
#[derive(Debug, Default)]
struct Tries {
    asked: usize,
    in_vain: usize,
}

impl Tries {
    fn succeeded(&mut self) {
        self.in_vain = 0;
    }

    /// Whether it is enough.
    fn failed(&mut self) -> bool {
        self.in_vain += 1;
        self.in_vain >= PATIENCE
    }

    fn pause(&mut self) -> Duration {
        let place = self.asked.div_euclid(3).min(PAUSES.len() - 1);
        self.asked += 1;
        PAUSES.get(place).copied().unwrap_or(Duration::from_secs(2))
    }
}
