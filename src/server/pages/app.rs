//! The page of an app on a target: what is live, what stands in the way of a deployment, its pods and revisions. Pure.

use askama::Template;
use jiff::Timestamp;

use crate::deployments::app_state::{AppNow, SyncNotice};
use crate::deployments::checks::Notice;
use crate::deployments::history::{History, HistoryEntry, RevisionComparison};
use crate::deployments::live_state::{ClusterAppState, LiveStateError};
use crate::model::app_instance::AppInstance;
use crate::model::canary::CanarySample;
use crate::model::deployment::{ContactLink, Deployment, State};
use crate::model::id::{DeployId, TargetName};
use crate::model::window::Opening;
use crate::server::pages::acts::links::{ActLinks, app_path};
use crate::server::pages::canary::CanaryRunsView;
use crate::server::pages::changes::ChangesView;
use crate::server::pages::document::{CodeHostLinks, Frame, LivePage, PageError, PageSection};
use crate::server::pages::list::{DeploymentLine, row};
use crate::server::pages::pods::PodsView;
use crate::server::pages::words::{self, PageLink, RelativeTime, link_to};
use crate::support::percent::encode_query_value;

/// The data of the page.
pub(crate) struct AppStory {
    /// The app and its target.
    pub(crate) instance: AppInstance,
    /// The clusters of the target, if it is a fleet.
    pub(crate) clusters: Vec<TargetName>,
    /// Its state.
    pub(crate) now: AppNow,
    /// Its revisions.
    pub(crate) history: History,
    /// The app in its cluster; `None` where nothing watches that.
    pub(crate) pods: Option<Result<ClusterAppState, LiveStateError>>,
    /// How far the canaries of its newest deployment were, the oldest first.
    pub(crate) canary: Vec<CanarySample>,
    /// Its newest deployments.
    pub(crate) recent: Vec<Deployment>,
    /// The comparison of two revisions.
    pub(crate) comparison: Option<RevisionComparison>,
    /// The window of the target; that of a fleet is open while those of all its clusters are.
    pub(crate) opening: Opening,
    /// The clusters of a fleet whose windows are closed.
    pub(crate) closed_clusters: Vec<TargetName>,
    /// The destinations of links.
    pub(crate) places: CodeHostLinks,
    /// The stream of changes.
    pub(crate) live: Option<LivePage>,
    /// Notices for the reader, such as an outage.
    pub(crate) notices: Vec<Notice>,
    /// What the reader may do to it.
    pub(crate) acts: ActLinks,
    /// A deployment that the reader has created at GitHub.
    pub(crate) created: Option<CreatedAtGitHub>,
}

/// A deployment that was created at GitHub from the page.
pub(crate) struct CreatedAtGitHub {
    /// GitHub's number of it.
    pub(crate) number: i64,
    /// Its id here; `None` before GitHub's event has arrived.
    pub(crate) id: Option<DeployId>,
}

/// The most clusters that a sentence names.
const MAX_NAMES: usize = 5;

#[derive(Template)]
#[template(path = "app.html")]
struct AppPage {
    frame: Frame,
    acts: ActLinks,
    created: Option<CreatedView>,
    namespace: String,
    slug: String,
    target: String,
    state: &'static str,
    look: &'static str,
    summary: String,
    obstacles: Vec<Obstacle>,
    live_tag: Option<String>,
    live_id: Option<String>,
    live_at: Option<RelativeTime>,
    repository: Option<PageLink>,
    commit: Option<PageLink>,
    owner: Option<String>,
    /// The query of the team's apps.
    owner_query: String,
    hosts: Vec<String>,
    links: Vec<ContactLink>,
    sync: String,
    pods: Option<PodsView>,
    canary: Option<CanaryRunsView>,
    revisions: Vec<RevisionRow>,
    /// The app on each cluster of a fleet. Revisions have files and differences there; that of the fleet is a deployment.
    clusters: Vec<ClusterLink>,
    from: String,
    to: String,
    comparison: Option<ComparisonView>,
    recent: Vec<DeploymentLine>,
}

/// The page of the app on a cluster of its fleet.
struct ClusterLink {
    name: String,
    path: String,
}

/// The notice of a deployment that was created at GitHub.
struct CreatedView {
    number: i64,
    id: Option<DeployId>,
    /// The deployments of the repository at GitHub.
    list: Option<PageLink>,
}

/// Something in the way of a deployment.
#[derive(Debug, Default, PartialEq, Eq)]
struct Obstacle {
    title: &'static str,
    text: String,
    /// The page that has more of it, and the words for the way there.
    path: String,
    link: &'static str,
}

struct RevisionRow {
    id: String,
    tag: String,
    actor: String,
    reason: String,
    at: Option<RelativeTime>,
    is_live: bool,
    notes: Vec<String>,
    /// The revision before it.
    before: Option<String>,
}

struct ComparisonView {
    from: String,
    to: String,
    changes: Option<ChangesView>,
}

/// Renders the page.
///
/// # Errors
/// [`PageError`]
pub(crate) fn page(story: AppStory) -> Result<String, PageError> {
    let AppStory {
        instance,
        clusters,
        now,
        history,
        pods,
        canary,
        mut recent,
        comparison,
        opening,
        closed_clusters,
        places,
        live,
        notices,
        acts,
        created,
    } = story;
    let (look, state, summary) = headline(&now);
    let AppInstance { target, app } = &instance;
    let obstacles = obstacles(&now, target, (&opening, &closed_clusters));
    let cluster_link = |cluster: TargetName| ClusterLink {
        name: cluster.to_string(),
        path: app_path(&AppInstance { target: cluster, app: app.clone() }),
    };
    let repository = now.state.as_ref().and_then(|state| state.repository.clone());
    let repository = repository
        .or_else(|| now.last.as_ref().map(|last| last.request.release.repository.clone()));
    let forge = places.forge.as_deref();
    let commit = now.live.as_ref().and_then(|live| live.commit.clone()).zip(repository.as_ref());
    let commit = commit.map(|(commit, repository)| {
        link_to(commit.short().to_owned(), forge, repository, &format!("/commit/{commit}"))
    });
    let created = created.map(|CreatedAtGitHub { number, id }| CreatedView {
        number,
        id,
        list: repository.as_ref().map(|repository| {
            link_to("Its deployments at GitHub".to_owned(), forge, repository, "/deployments")
        }),
    });
    let contact = now.last.as_ref().and_then(|last| last.contact.as_ref());
    let owner = now.state.as_ref().and_then(|state| state.owner.clone());
    let owner = owner.or_else(|| contact.map(|contact| contact.owner.clone()));
    let (from, to) = chosen(comparison.as_ref(), &history);
    let links = contact.map(|contact| contact.links.clone()).unwrap_or_default();
    let canary = recent.first().and_then(|newest| CanaryRunsView::new(newest, canary));
    recent.splice(0..0, now.unread.clone());
    let page = AppPage {
        frame: Frame {
            title: format!("{app} on {target}"),
            section: PageSection::Apps,
            look,
            refresh: live.is_some().then_some(30),
            live,
            notices,
            is_wide: false,
        },
        acts,
        created,
        namespace: app.namespace.to_string(),
        slug: app.slug.to_string(),
        target: target.to_string(),
        state,
        look,
        summary,
        obstacles,
        live_tag: now.live.as_ref().and_then(|live| live.tag.as_ref()).map(ToString::to_string),
        live_id: now.live.as_ref().map(|live| live.id.to_string()),
        live_at: now.live.as_ref().and_then(|live| live.at).map(words::moment),
        repository: repository.map(|name| link_to(name.to_string(), forge, &name, "")),
        commit,
        owner_query: format!("team={}", encode_query_value(owner.as_deref().unwrap_or_default())),
        owner,
        hosts: hosts(&now),
        links: links.into_iter().filter(|link| is_web_address(&link.url)).collect(),
        sync: sync(&now.sync),
        pods: pods.map(PodsView::new),
        canary,
        revisions: revisions(history),
        clusters: clusters.into_iter().map(cluster_link).collect(),
        from,
        to,
        comparison: comparison.map(|RevisionComparison { from, to, changes }| ComparisonView {
            from: from.to_string(),
            to: to.to_string(),
            changes: changes.map(ChangesView::new),
        }),
        recent: recent.into_iter().map(row).collect(),
    };
    Ok(page.render()?)
}

/// Returns the CSS class, the word and the sentence of the app's state.
fn headline(now: &AppNow) -> (&'static str, &'static str, String) {
    if let Some(deployment) = now.under_way.first() {
        let waiting =
            deployment.waiting.as_ref().map(|waiting| format!("waiting for {}", waiting.what));
        let sentence = waiting.unwrap_or_else(|| deployment.summary.clone());
        return ("going", deployment.state.as_str(), sentence);
    }
    if let Some(unread) = &now.unread {
        let sentence = "The newest deployment of its repository failed before its app was known";
        return ("bad", "failed", format!("{sentence}: {}", unread.summary));
    }
    match &now.last {
        Some(last) if last.state == State::Failed => {
            let summary = format!("The newest deployment failed: {}", last.summary);
            ("bad", "failed", summary)
        }
        _ if now.hand_edited => ("warn", "edited", "Its files were edited by hand.".to_owned()),
        _ if now.live.is_some() => ("good", "live", String::new()),
        Some(last) => (words::pick_css_class(last.state), "not live", last.summary.clone()),
        None => ("gone", "not live", String::new()),
    }
}

/// Lists what stands in the way of a deployment.
fn obstacles(
    now: &AppNow,
    target: &TargetName,
    (opening, closed_clusters): (&Opening, &[TargetName]),
) -> Vec<Obstacle> {
    let mut obstacles = Vec::new();
    for (_, lock) in &now.locks {
        let until = lock.until.map_or_else(
            || "until a person removes it".to_owned(),
            |until| format!("until {}", utc(until)),
        );
        obstacles.push(Obstacle {
            title: "Locked",
            text: format!("{} locked {} {until}: {}", lock.by, lock.scope, lock.reason),
            path: "/locks".to_owned(),
            link: "All locks",
        });
    }
    if let Some(hold) = &now.hold {
        // It may be of a fleet that has the cluster, or of a cluster of the fleet.
        let place =
            if hold.target == *target { String::new() } else { format!(" {}", hold.target) };
        obstacles.push(Obstacle {
            title: "Held",
            text: format!(
                "{} holds automation off{place} since {}: {}",
                hold.by,
                utc(hold.since),
                hold.reason
            ),
            path: hold.rollback.as_ref().map(|id| format!("/deployments/{id}")).unwrap_or_default(),
            link: "The rollback",
        });
    }
    if let Opening::Closed { reason, next } = opening {
        let reason = reason.as_ref().map(|reason| format!(" ({reason})")).unwrap_or_default();
        let next = next.as_ref().map_or_else(
            || "it never opens".to_owned(),
            |next| format!("it opens {}", next.strftime("%A %H:%M %Z")),
        );
        obstacles.push(Obstacle {
            title: "Outside the window",
            text: match closed_clusters {
                [] => format!("The target takes no deployments now{reason}; {next}."),
                closed => format!(
                    "{} no deployments now{reason}, so the fleet takes none; {next}.",
                    takers(closed)
                ),
            },
            path: "/locks".to_owned(),
            link: "The calendar",
        });
    }
    if now.hand_edited {
        obstacles.push(Obstacle {
            title: "Edited by hand",
            text: "The files of the live revision were changed in the manifest repository; the next deployment \
                   replaces or refuses that, as the target's policy says. bart import-edit makes the change of the \
                   WAML that keeps it."
                .to_owned(),
            ..Obstacle::default()
        });
    }
    for deployment in &now.under_way {
        obstacles.push(Obstacle {
            title: "Under way",
            text: format!(
                "{} is {}: {}",
                deployment.request.release.tag,
                deployment.state.as_str(),
                deployment.summary
            ),
            path: format!("/deployments/{}", deployment.id),
            link: "Follow it",
        });
    }
    obstacles
}

/// Begins a sentence about clusters that take something: `eu-1 takes`, `eu-1, eu-2 take`.
fn takers(clusters: &[TargetName]) -> String {
    let named: Vec<&str> = clusters.iter().take(MAX_NAMES).map(TargetName::as_str).collect();
    let more = clusters.len() - named.len();
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    let verb = if clusters.len() == 1 { "takes" } else { "take" };
    format!("{}{more} {verb}", named.join(", "))
}

fn utc(at: Timestamp) -> String {
    words::moment(at).people
}

fn sync(sync: &SyncNotice) -> String {
    match sync {
        SyncNotice::Delivered(at) => format!("was told of the newest push at {}", utc(*at)),
        SyncNotice::Waiting => "will be told of the newest push".to_owned(),
        SyncNotice::GivenUp(why) => {
            format!("was not told of the newest push, and polls by itself: {why}")
        }
        SyncNotice::ByItself => "polls by itself".to_owned(),
    }
}

/// Returns the hosts that lead somewhere; one with a wildcard does not.
fn hosts(now: &AppNow) -> Vec<String> {
    let hosts = now.state.iter().flat_map(|state| &state.hosts);
    hosts.filter(|host| !host.contains('*')).cloned().collect()
}

/// Returns whether an address may stand in a link: no other scheme does anything that its reader would expect.
fn is_web_address(url: &str) -> bool {
    url.starts_with("https://") || url.starts_with("http://")
}

/// Returns the revisions that the form has chosen: those that are compared, else the live one and the one before.
fn chosen(comparison: Option<&RevisionComparison>, history: &History) -> (String, String) {
    if let Some(RevisionComparison { from, to, .. }) = comparison {
        return (from.to_string(), to.to_string());
    }
    let id = |n: usize| history.revisions.get(n).map(|entry| entry.id.to_string());
    (id(1).unwrap_or_default(), id(0).unwrap_or_default())
}

fn revisions(history: History) -> Vec<RevisionRow> {
    let ids: Vec<DeployId> = history.revisions.iter().map(|entry| entry.id.clone()).collect();
    let entries = history.revisions.into_iter().enumerate();
    entries.map(|(n, entry)| revision(entry, ids.get(n + 1))).collect()
}

fn revision(entry: HistoryEntry, before: Option<&DeployId>) -> RevisionRow {
    let HistoryEntry { id, live, tag, actor, reason, at, rolled_back, failure, .. } = entry;
    let mut notes = Vec::new();
    notes.extend(failure.map(|failure| format!("failed in the cluster: {}", failure.summary)));
    notes.extend(rolled_back.map(|mark| format!("rolled back by {}: {}", mark.by, mark.reason)));
    RevisionRow {
        id: id.to_string(),
        tag: tag.map(String::from).unwrap_or_default(),
        actor: actor.unwrap_or_default(),
        reason: reason.unwrap_or_default(),
        at: at.map(words::moment),
        is_live: live,
        notes,
        before: before.map(ToString::to_string),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_closed_clusters_of_a_fleet_are_named_and_of_many_the_number() {
        let names = |count: usize| -> Vec<TargetName> {
            (1..=count).map(|n| format!("eu-{n}").parse().unwrap()).collect()
        };
        assert_eq!(takers(&names(1)), "eu-1 takes");
        assert_eq!(takers(&names(2)), "eu-1, eu-2 take");
        assert_eq!(takers(&names(7)), "eu-1, eu-2, eu-3, eu-4, eu-5 and 2 more take");
    }

    #[test]
    fn only_web_addresses_become_links() {
        assert!(is_web_address("https://example.com/runbook"));
        assert!(!is_web_address("javascript:alert(1)") && !is_web_address("data:text/html,x"));
    }
}
