//! The page of the service itself: its health, its queue and outbox, its replicas, and the templates in use. Pure.

use std::collections::BTreeMap;

use askama::Template;
use jiff::Timestamp;

use crate::deployments::health::HealthCheck;
use crate::server::pages::deployment::name_receiver;
use crate::server::pages::document::{Frame, PageError, PageSection};
use crate::server::pages::words::{self, RelativeTime};
use crate::store::{DeadLetter, OutboxBacklog, QueueDepth};

/// The data of the page.
pub(crate) struct SystemStory {
    /// All checks.
    pub(crate) checks: Vec<HealthCheck>,
    /// The depth of the queues.
    pub(crate) depth: QueueDepth,
    /// The waiting messages of each family of receivers.
    pub(crate) backlog: Vec<OutboxBacklog>,
    /// The newest messages that were given up.
    pub(crate) letters: Vec<DeadLetter>,
    /// The replicas with their last checks of the database.
    pub(crate) replicas: Vec<(String, Timestamp)>,
    /// The clusters with the replicas that follow them.
    pub(crate) holders: Vec<(String, String)>,
    /// The templates in use.
    pub(crate) templates: Vec<String>,
}

#[derive(Template)]
#[template(path = "system.html")]
struct SystemPage {
    frame: Frame,
    checks: Vec<CheckRow>,
    depth: QueueDepth,
    oldest: Option<RelativeTime>,
    backlog: Vec<BacklogRow>,
    letters: Vec<LetterRow>,
    replicas: Vec<ReplicaRow>,
    templates: Vec<String>,
}

struct CheckRow {
    name: String,
    state: &'static str,
    look: &'static str,
    note: String,
}

struct BacklogRow {
    family: String,
    waiting: u64,
    parked: u64,
    oldest: Option<RelativeTime>,
}

struct LetterRow {
    at: RelativeTime,
    receiver: String,
    deployment: String,
    state: &'static str,
    reason: String,
}

/// A replica with what it does.
#[derive(Debug, Default)]
struct ReplicaRow {
    name: String,
    seen: Option<RelativeTime>,
    clusters: String,
}

/// Renders the page.
///
/// # Errors
/// [`PageError`]
pub(crate) fn page(story: SystemStory) -> Result<String, PageError> {
    let SystemStory { checks, depth, backlog, letters, replicas, holders, templates } = story;
    let checks: Vec<CheckRow> = checks.into_iter().map(check).collect();
    let looks = ["bad", "going"];
    let look = looks.into_iter().find(|look| checks.iter().any(|check| check.look == *look));
    let page = SystemPage {
        frame: Frame {
            title: "system".to_owned(),
            section: PageSection::System,
            look: look.unwrap_or("good"),
            ..Frame::default()
        },
        checks,
        oldest: depth.oldest.map(words::moment),
        depth,
        backlog: backlog.into_iter().map(backlog_row).collect(),
        letters: letters.into_iter().map(letter).collect(),
        replicas: replica_rows(replicas, holders),
        templates,
    };
    Ok(page.render()?)
}

fn check(check: HealthCheck) -> CheckRow {
    let HealthCheck { name, waiting_for, note } = check;
    let is_noted = note.is_some() && name != "templates";
    let (state, look) = match &waiting_for {
        Some(_) => ("not ready", "bad"),
        None if is_noted => ("limited", "going"),
        None => ("ready", "good"),
    };
    let texts: Vec<String> = waiting_for.into_iter().chain(note).collect();
    CheckRow { name, state, look, note: texts.join("; ") }
}

fn backlog_row(backlog: OutboxBacklog) -> BacklogRow {
    let OutboxBacklog { family, waiting, oldest, parked } = backlog;
    BacklogRow { family: family.to_string(), waiting, parked, oldest: oldest.map(words::moment) }
}

fn letter(letter: DeadLetter) -> LetterRow {
    let DeadLetter { deployment, sink, state, at, reason } = letter;
    LetterRow {
        at: words::moment(at),
        receiver: name_receiver(&sink),
        deployment: deployment.to_string(),
        state: state.as_str(),
        reason,
    }
}

/// Joins the replicas that have checked the database, and those that follow a cluster.
fn replica_rows(
    replicas: Vec<(String, Timestamp)>,
    holders: Vec<(String, String)>,
) -> Vec<ReplicaRow> {
    let mut rows: BTreeMap<String, (Option<Timestamp>, Vec<String>)> = BTreeMap::new();
    for (name, at) in replicas {
        rows.entry(name).or_default().0 = Some(at);
    }
    for (cluster, holder) in holders {
        rows.entry(holder).or_default().1.push(cluster);
    }
    let row = |(name, (seen, clusters)): (String, (Option<Timestamp>, Vec<String>))| ReplicaRow {
        // With SQLite there is one, and its row is that of the file.
        name: if name == "file" { "this one".to_owned() } else { name },
        seen: seen.map(words::moment),
        clusters: clusters.join(", "),
    };
    rows.into_iter().map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_replica_is_one_row_with_all_that_it_does() {
        let at = "2026-11-21T05:48:12Z".parse().unwrap();
        let text = |text: &str| text.to_owned();
        let holders = vec![(text("prod"), text("b")), (text("dev"), text("b"))];
        let rows = replica_rows(vec![(text("a"), at), (text("file"), at)], holders);
        let rows: Vec<_> = rows
            .iter()
            .map(|row| (row.name.as_str(), row.seen.is_some(), row.clusters.as_str()))
            .collect();
        assert_eq!(rows, [("a", true, ""), ("b", false, "prod, dev"), ("this one", true, "")]);
    }
}
