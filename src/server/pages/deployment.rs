//! The page of one deployment: its request, progress and violations, manual edits, and messages.

use askama::Template;
use jiff::Timestamp;

use crate::deployments::Deployments;
use crate::deployments::checks::Notice;
use crate::deployments::live_state::{ClusterAppState, LiveStateError};
use crate::deployments::violation_sources::SourceLine;
use crate::model::canary::CanarySample;
use crate::model::change::Change;
use crate::model::deploy_clock::IntervalTime;
use crate::model::deployment::Deployment;
use crate::model::event::Recipient;
use crate::model::hand_edit::{EditCommit, HandEdit};
use crate::model::id::{CommitSha, RepoName};
use crate::model::notice::Sink;
use crate::model::violation::{Severity, Violation, Violations};
use crate::model::waiting::WaitingOn;
use crate::server::pages::acts::links::ActLinks;
use crate::server::pages::canary::CanaryRunsView;
use crate::server::pages::changes::{ChangesView, DiffLine, diff_line};
use crate::server::pages::document::{CodeHostLinks, Frame, LivePage, PageError, PageSection};
use crate::server::pages::insights::explain as explain_interval;
use crate::server::pages::pods::PodsView;
use crate::server::pages::steps::{StepTable, step_table};
use crate::server::pages::words::{self, PageLink, Part, RelativeTime, link_to};
use crate::store::Notification;

/// The data of the page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct DeploymentStory {
    /// The deployment.
    pub(crate) deployment: Deployment,
    /// All messages about it, sent or not.
    pub(crate) notifications: Vec<Notification>,
    /// Its parts: on the clusters of a fleet, or one for each of several apps.
    pub(crate) parts: Vec<Deployment>,
    /// The destinations of links.
    pub(crate) places: CodeHostLinks,
}

/// What the page has beside the record: read from git, and from the cluster.
pub(crate) struct DeploymentSurroundings {
    /// The changes that it made to the manifests; `None` where they are not known.
    pub(crate) changes: Option<Vec<Change>>,
    /// The app in its cluster, while the deployment goes on there.
    pub(crate) pods: Option<Result<ClusterAppState, LiveStateError>>,
    /// How far its canaries were, the oldest first.
    pub(crate) canary: Vec<CanarySample>,
    /// Its log: sentences with their times.
    pub(crate) entries: Vec<(Timestamp, String)>,
    /// True if the reader has stopped the refresh.
    pub(crate) is_paused: bool,
    /// Notices for the reader, such as an outage.
    pub(crate) notices: Vec<Notice>,
    /// What the reader may do to it and to its app.
    pub(crate) acts: ActLinks,
    /// Of each violation the line of the WAML, as far as there are any to show.
    pub(crate) sources: Vec<Option<SourceLine>>,
}

impl DeploymentStory {
    /// Makes the data from the record and its messages.
    pub(crate) fn new(
        (deployment, notifications, parts): (Deployment, Vec<Notification>, Vec<Deployment>),
        deployments: &Deployments,
    ) -> Self {
        Self { deployment, notifications, parts, places: CodeHostLinks::from(deployments) }
    }
}

/// The refresh time while a deployment is in progress, in seconds.
const SOON: u32 = 3;
/// The refresh time while a message waits, which may take hours; in seconds.
const LATER: u32 = 15;

#[derive(Template)]
#[template(path = "deployment.html")]
struct Page {
    frame: Frame,
    /// True if the reader has stopped the refresh.
    is_paused: bool,
    acts: ActLinks,
    deployment: Deployment,
    subject: String,
    state: &'static str,
    look: &'static str,
    repository: PageLink,
    commit: PageLink,
    git_ref: String,
    actor: String,
    received: RelativeTime,
    finished: Option<RelativeTime>,
    waiting: Option<Waiting>,
    parts: Vec<PartRow>,
    parts_title: &'static str,
    errors: Vec<Complaint>,
    errors_left_out: usize,
    warnings_left_out: usize,
    warnings: Vec<Complaint>,
    errors_title: String,
    warnings_title: String,
    steps: StepTable,
    intervals: Vec<IntervalRow>,
    /// The number of pushed files, in words.
    files: String,
    edit: Option<Edit>,
    lines: Vec<Line>,
    changes: Option<ChangesView>,
    pods: Option<PodsView>,
    canary: Option<CanaryRunsView>,
    log_lines: Vec<LogLine>,
    /// The path of the app's page, once the app is known.
    app_path: Option<String>,
}

/// An entry of the log.
struct LogLine {
    at: RelativeTime,
    text: Vec<Part>,
}

/// A cluster of a fleet, or one of several apps, and how the deployment stands there.
struct PartRow {
    name: String,
    id: String,
    state: &'static str,
    look: &'static str,
    summary: String,
}

/// The thing that the deployment waits for.
struct Waiting {
    subject: String,
    since: RelativeTime,
    last_event: Option<(RelativeTime, String)>,
    gives_up: Option<RelativeTime>,
}

impl Waiting {
    /// Finds it; `None` once the deployment has ended.
    fn find(deployment: &Deployment) -> Option<Self> {
        if let Some(WaitingOn { what, since, last_event, gives_up_at }) = deployment.waiting.clone()
        {
            return Some(Self {
                subject: format!("waits for {what}"),
                since: words::moment(since),
                last_event: last_event.map(|event| (words::moment(event.at), event.text)),
                gives_up: gives_up_at.map(words::moment),
            });
        }
        // Before the push the summary says it.
        (!deployment.state.is_final()).then(|| Self {
            subject: match deployment.summary.trim() {
                "" => deployment.state.as_str().to_owned(),
                summary => format!("{}: {summary}", deployment.state.as_str()),
            },
            since: words::moment(deployment.received_at),
            last_event: None,
            gives_up: None,
        })
    }
}

/// A violation.
struct Complaint {
    rule: String,
    message: Vec<Part>,
    place: Option<PageLink>,
    source: Option<SourceLine>,
    path: String,
    expected: Vec<Part>,
    help: Vec<Part>,
}

/// A manual edit as the page shows it.
struct Edit {
    sentence: &'static str,
    base: Option<String>,
    commit: Option<By>,
    files: Vec<String>,
    lines: Vec<DiffLine>,
}

/// The commit that made the edit, with its author.
struct By {
    id: String,
    author: String,
    at: RelativeTime,
}

/// The row of one interval of the deploy clock.
#[derive(Debug, PartialEq, Eq)]
struct IntervalRow {
    title: &'static str,
    explanation: &'static str,
    length: String,
}

/// The row of one message.
#[derive(Debug)]
struct Line {
    at: RelativeTime,
    receiver: String,
    description: String,
    state: &'static str,
    /// The outcome, in words.
    outcome: String,
    /// The CSS class of the outcome.
    look: &'static str,
}

/// Renders the page.
///
/// # Errors
/// [`PageError`]
pub(crate) fn page(
    log: DeploymentStory,
    surroundings: DeploymentSurroundings,
) -> Result<String, PageError> {
    let DeploymentSurroundings {
        changes,
        pods,
        canary,
        entries,
        is_paused,
        notices,
        acts,
        sources,
    } = surroundings;
    let DeploymentStory { deployment, notifications, parts, places } = log;
    let refresh = refresh(&deployment, &notifications);
    let request = &deployment.request;
    let (repository, commit) = (&request.release.repository, &request.release.commit);
    let violations = deployment.violations.clone();
    let left_out =
        [Severity::Error, Severity::Warning].map(|severity| violations.left_out_of(severity));
    let titles = (violations.errors(), violations.warnings());
    let (errors, warnings) = complaints((violations, sources), (repository, commit), &places);
    let subject =
        deployment.app.as_ref().map_or_else(|| repository.to_string(), ToString::to_string);
    let forge = places.forge.as_deref();
    let page = Page {
        frame: Frame {
            title: format!("{subject} to {}: {}", request.target, deployment.state.as_str()),
            section: PageSection::Deployments,
            look: words::pick_css_class(deployment.state),
            refresh: refresh.filter(|_| !is_paused),
            live: refresh.filter(|_| !is_paused).map(|_| LivePage {
                stream: format!("/live/deployments/{}", deployment.id),
                version: String::new(),
            }),
            notices,
            ..Frame::default()
        },
        is_paused: is_paused && refresh.is_some(),
        acts,
        subject,
        state: deployment.state.as_str(),
        look: words::pick_css_class(deployment.state),
        repository: link_to(repository.to_string(), forge, repository, ""),
        commit: link_to(commit.short().to_owned(), forge, repository, &format!("/commit/{commit}")),
        // A deployment of a commit id names no branch.
        git_ref: Some(request.git_ref.clone())
            .filter(|name| name != commit.as_str())
            .unwrap_or_default(),
        // The actor, and the person a program deployed for.
        actor: match &request.recipient {
            Recipient::Login(login) => format!("{login}, by {}", request.actor),
            Recipient::Actor | Recipient::Nobody => request.actor.clone(),
        },
        received: words::moment(deployment.received_at),
        finished: deployment.finished_at.map(words::moment),
        waiting: Waiting::find(&deployment),
        parts: parts.into_iter().map(part_row).collect(),
        parts_title: if deployment.all_apps { "Apps" } else { "Clusters" },
        errors_title: words::count(titles.0, "violation"),
        warnings_title: words::count(titles.1, "warning"),
        errors,
        warnings,
        errors_left_out: left_out[0],
        warnings_left_out: left_out[1],
        steps: step_table(&deployment),
        intervals: deployment.marks.intervals().iter().map(interval_row).collect(),
        files: words::count(deployment.pushed.iter().flat_map(|push| &push.files).count(), "file"),
        edit: deployment.hand_edit.clone().map(edit),
        lines: lines(&notifications),
        changes: changes.filter(|changes| !changes.is_empty()).map(ChangesView::new),
        pods: pods.map(PodsView::new),
        canary: CanaryRunsView::new(&deployment, canary),
        log_lines: entries.into_iter().map(log_line).collect(),
        app_path: app_path(&deployment),
        deployment,
    };
    Ok(page.render()?)
}

fn log_line((at, text): (Timestamp, String)) -> LogLine {
    LogLine { at: words::moment(at), text: words::parts(&text) }
}

fn app_path(deployment: &Deployment) -> Option<String> {
    let app = deployment.app.as_ref()?;
    Some(format!("/apps/{}/{app}", deployment.request.target))
}

fn part_row(part: Deployment) -> PartRow {
    PartRow {
        name: match part.request.release.app.filter(|_| part.parent.is_some()) {
            Some(app) => app.into(),
            None => part.request.target.into(),
        },
        id: part.id.into(),
        state: part.state.as_str(),
        look: words::pick_css_class(part.state),
        summary: part.summary,
    }
}

/// Returns the seconds until something may change; `None` if nothing will.
fn refresh(deployment: &Deployment, notifications: &[Notification]) -> Option<u32> {
    if !deployment.state.is_final() {
        return Some(SOON);
    }
    waiting(notifications).then_some(LATER)
}

/// Returns the errors, and the warnings.
fn complaints(
    (violations, sources): (Violations, Vec<Option<SourceLine>>),
    release: (&RepoName, &CommitSha),
    places: &CodeHostLinks,
) -> (Vec<Complaint>, Vec<Complaint>) {
    let sources = sources.into_iter().chain(std::iter::repeat(None));
    let (errors, warnings): (Vec<_>, Vec<_>) = violations
        .into_iter()
        .zip(sources)
        .partition(|(violation, _)| violation.severity == Severity::Error);
    let list_complaints = |list: Vec<(Violation, Option<SourceLine>)>| {
        let complaints = list.into_iter().map(|(violation, source)| Complaint {
            source,
            ..complaint(violation, release, places)
        });
        complaints.collect()
    };
    (list_complaints(errors), list_complaints(warnings))
}

fn complaint(
    violation: Violation,
    (repository, commit): (&RepoName, &CommitSha),
    places: &CodeHostLinks,
) -> Complaint {
    let Violation { rule, severity: _, message, path, position, expected, help } = violation;
    let place = position.map(|position| {
        // Only the WAML is in the service repository; defaults are in the template.
        let forge = places.forge.as_deref().filter(|_| *position.file == *places.waml);
        let rest = format!("/blob/{commit}/{}#L{}", position.file, position.line);
        link_to(position.to_string(), forge, repository, &rest)
    });
    let parts = |text: Option<String>| words::parts(text.as_deref().unwrap_or_default());
    Complaint {
        rule: rule.into_owned(),
        message: words::parts(&message),
        place,
        source: None,
        path,
        expected: parts(expected),
        help: parts(help),
    }
}

fn edit(edit: HandEdit) -> Edit {
    let HandEdit { replaced, push_failed, base, files, diff, commit } = edit;
    let by =
        |EditCommit { id, author, at }| By { id: id.to_string(), author, at: words::moment(at) };
    Edit {
        sentence: sentence(replaced, push_failed),
        base: base.map(String::from),
        commit: commit.map(by),
        files: files.iter().map(|file| format!("{} ({})", file.name, file.how.as_str())).collect(),
        lines: diff.lines().map(diff_line).collect(),
    }
}

fn sentence(replaced: bool, push_failed: bool) -> &'static str {
    if replaced {
        "These files had been changed by hand. This deployment replaced them; move changes that \
         you want to keep into the service repository, as bart import-edit does."
    } else if push_failed {
        "These files have been changed by hand. Nothing was replaced, because the push failed. \
         Move changes that you want to keep into the service repository, as bart import-edit does, \
         before the next deployment."
    } else {
        "These files have been changed by hand, and nothing was replaced. Move the change into the \
         service repository, as bart import-edit does, or revert it; then deploy again."
    }
}

fn interval_row(time: &IntervalTime) -> IntervalRow {
    let explanation = explain_interval(time.interval);
    let (title, length) = (time.interval.title(), words::lapse(time.lapse()));
    IntervalRow { title, explanation, length }
}

/// Makes a row for each message.
fn lines(notifications: &[Notification]) -> Vec<Line> {
    let mut rows: Vec<_> = notifications.iter().collect();
    rows.sort_by_key(|notification| (notification.at, order(&notification.sink), notification.seq));
    rows.into_iter().map(line).collect()
}

/// Returns whether a message still waits to be sent.
fn waiting(notifications: &[Notification]) -> bool {
    notifications.iter().any(|notification| {
        notification.sent_at.is_none()
            && notification.parked.is_none()
            && notification.skipped.is_none()
    })
}

fn line(notification: &Notification) -> Line {
    let (look, outcome) = match (&notification.sent_at, &notification.parked, &notification.skipped)
    {
        (Some(at), _, _) => ("good", format!("sent at {}", at.strftime("%H:%M:%S"))),
        (_, Some(reason), _) => ("bad", format!("not delivered: {reason}")),
        (_, _, Some(reason)) => ("gone", format!("skipped: {reason}")),
        (None, None, None) => ("going", "waits to be sent".to_owned()),
    };
    Line {
        at: words::moment(notification.at),
        receiver: name_receiver(&notification.sink),
        description: notification.status.description().to_owned(),
        state: notification.status.state.as_str(),
        outcome,
        look,
    }
}

pub(super) fn name_receiver(sink: &Sink) -> String {
    match sink {
        Sink::Forge => "deployment status".to_owned(),
        Sink::Commit => "commit status".to_owned(),
        Sink::Check => "check run".to_owned(),
        Sink::Channel => "Slack: the channel".to_owned(),
        Sink::Person => "Slack: the person".to_owned(),
        Sink::Events(name) => format!("webhook {name}"),
        Sink::ArgoCd(cluster) => format!("Argo CD of {cluster}"),
        Sink::BigQuery => "BigQuery".to_owned(),
    }
}

/// Returns the place of a receiver's rows: the code host first, as it is notified first.
fn order(sink: &Sink) -> u8 {
    match sink {
        Sink::Forge => 0,
        Sink::Commit => 1,
        Sink::Check => 2,
        Sink::Channel => 3,
        Sink::Person => 4,
        Sink::Events(_) => 5,
        Sink::ArgoCd(_) => 6,
        Sink::BigQuery => 7,
    }
}
