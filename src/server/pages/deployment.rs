//! The log of one deployment: what it is, how it goes, what is wrong, and who was told.

use askama::Template;

use crate::deployments::Deployments;
use crate::model::deployment::{Contact, Deployment, Pushed};
use crate::model::event::{DeploymentRequest, Recipient};
use crate::model::id::{CommitSha, RepoName};
use crate::model::release::Release;
use crate::model::violation::{Severity, Violation, Violations};
use crate::server::pages::document::{NoPage, Places, STYLE};
use crate::server::pages::edit::Edit;
use crate::server::pages::messages::Line;
use crate::server::pages::stages::Bar;
use crate::server::pages::words::{Moment, Part};
use crate::server::pages::{edit, messages, stages, words};
use crate::store::Told;

/// Everything that the page tells of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Log {
    /// The deployment.
    pub(crate) deployment: Deployment,
    /// Everything that anybody was or will be told of it.
    pub(crate) told: Vec<Told>,
    /// Where links lead.
    pub(crate) places: Places,
}

impl Log {
    /// Of that record and what was told of it.
    pub(crate) fn new(
        (deployment, told): (Deployment, Vec<Told>),
        Deployments { forge_url, waml, .. }: &Deployments,
    ) -> Self {
        let places = Places { forge: forge_url.clone(), waml: waml.path.clone() };
        Self { deployment, told, places }
    }
}

/// While a deployment goes on, people watch; in seconds.
const SOON: u32 = 3;
/// A message that waits may wait for hours; in seconds.
const LATER: u32 = 15;

#[derive(Template)]
#[template(path = "deployment.html")]
struct Page {
    style: &'static str,
    title: String,
    /// Seconds until it is looked at again.
    refresh: Option<u32>,
    /// Whether a reader has stopped that.
    still: bool,
    /// What whoever looks should know.
    remark: Option<String>,
    id: String,
    what: String,
    target: String,
    production: bool,
    state: &'static str,
    look: &'static str,
    summary: String,
    tag: String,
    repository: Link,
    commit: Link,
    git_ref: String,
    actor: String,
    /// To which revision it goes back, if it is a rollback.
    back_to: Option<String>,
    description: String,
    received: Moment,
    finished: Option<Moment>,
    attempts: u32,
    address: Option<String>,
    template: Option<String>,
    templates_commit: Option<String>,
    owner: Option<String>,
    channel: Option<String>,
    errors: Vec<Complaint>,
    errors_left_out: usize,
    warnings_left_out: usize,
    warnings: Vec<Complaint>,
    errors_title: String,
    warnings_title: String,
    bars: Vec<Bar>,
    total: String,
    pushed: Option<Push>,
    edit: Option<Edit>,
    lines: Vec<Line>,
}

/// A text that may lead somewhere.
#[derive(Debug, PartialEq, Eq)]
struct Link {
    text: String,
    url: Option<String>,
}

/// A violation.
struct Complaint {
    rule: String,
    message: Vec<Part>,
    place: Option<Link>,
    path: String,
    expected: Vec<Part>,
    help: Vec<Part>,
}

/// What was pushed.
struct Push {
    commit: String,
    changed: bool,
    digest: String,
    files: Vec<String>,
    count: String,
}

/// The page. `still`: its reader does not want it to refresh itself.
///
/// # Errors
/// [`NoPage`]
pub(crate) fn page(log: Log, still: bool, remark: Option<String>) -> Result<String, NoPage> {
    Ok(Page { remark, ..view(log, still) }.render()?)
}

/// Who asked, and for whom a program did.
fn who(actor: String, recipient: Recipient) -> String {
    match recipient {
        Recipient::Login(login) => format!("{login}, by {actor}"),
        Recipient::Actor | Recipient::Nobody => actor,
    }
}

/// Takes the record apart; a new field asks here whether it is to be seen.
fn view(log: Log, still: bool) -> Page {
    let Log { deployment, told, places } = log;
    let refresh = refresh(&deployment, &told);
    let Deployment {
        id,
        request,
        app,
        state,
        received_at,
        finished_at,
        stages,
        summary,
        violations,
        pushed,
        rollback,
        hand_edit,
        template,
        templates_commit,
        contact,
        address,
        attempts,
    } = deployment;
    let DeploymentRequest {
        forge_id: _,
        release,
        target,
        git_ref,
        actor,
        description,
        production,
        automatic: _,
        recipient,
        identity: _,
    } = request;
    let Release { repository, commit, tag } = release;
    let left_out = [Severity::Error, Severity::Warning].map(|one| violations.left_out_of(one));
    let titles = (violations.errors(), violations.warnings());
    let (errors, warnings) = complaints(violations, &repository, &commit, &places);
    let what = app.map_or_else(|| repository.to_string(), |app| app.to_string());
    let (owner, channel) = match contact {
        Some(Contact { name: _, owner, slack, successes: _ }) => (Some(owner), slack),
        None => (None, None),
    };
    Page {
        style: STYLE,
        title: format!("{what} to {target}: {}", state.as_str()),
        refresh: refresh.filter(|_| !still),
        still: still && refresh.is_some(),
        remark: None,
        id: id.to_string(),
        what,
        target: target.to_string(),
        production,
        state: state.as_str(),
        look: words::look(state),
        summary,
        tag: tag.to_string(),
        repository: linked(repository.to_string(), places.forge.as_deref(), &repository, ""),
        commit: linked(
            commit.short().to_owned(),
            places.forge.as_deref(),
            &repository,
            &format!("/commit/{commit}"),
        ),
        // A commit that was asked for by itself is of no branch.
        git_ref: Some(git_ref).filter(|name| name != commit.as_str()).unwrap_or_default(),
        actor: who(actor, recipient),
        back_to: rollback.map(|rollback| rollback.to.to_string()),
        description,
        received: words::moment(received_at),
        finished: finished_at.map(words::moment),
        attempts,
        address,
        template,
        templates_commit: templates_commit.map(|commit| commit.short().to_owned()),
        owner,
        channel,
        errors_title: words::count(titles.0, "violation"),
        warnings_title: words::count(titles.1, "warning"),
        errors,
        warnings,
        errors_left_out: left_out[0],
        warnings_left_out: left_out[1],
        total: words::duration(stages::total(&stages)),
        bars: stages::bars(&stages),
        pushed: pushed.map(push),
        edit: hand_edit.map(edit::edit),
        lines: messages::lines(&told),
    }
}

/// In how many seconds there may be something new; none where nothing more will happen.
fn refresh(deployment: &Deployment, told: &[Told]) -> Option<u32> {
    if !deployment.state.is_final() {
        return Some(SOON);
    }
    messages::waiting(told).then_some(LATER)
}

fn linked(text: String, forge: Option<&str>, repository: &RepoName, rest: &str) -> Link {
    Link { text, url: forge.map(|forge| format!("{forge}/{repository}{rest}")) }
}

/// What stops the deployment, and what does not.
fn complaints(
    violations: Violations,
    repository: &RepoName,
    commit: &CommitSha,
    places: &Places,
) -> (Vec<Complaint>, Vec<Complaint>) {
    let (errors, warnings): (Vec<_>, Vec<_>) =
        violations.into_iter().partition(|one| one.severity == Severity::Error);
    let all = |list: Vec<Violation>| {
        list.into_iter().map(|one| complaint(one, repository, commit, places)).collect()
    };
    (all(errors), all(warnings))
}

fn complaint(
    violation: Violation,
    repository: &RepoName,
    commit: &CommitSha,
    places: &Places,
) -> Complaint {
    let Violation { rule, severity: _, message, path, position, expected, help } = violation;
    let place = position.map(|position| {
        // Only the WAML is in the service's repository; defaults are in the template.
        let forge = places.forge.as_deref().filter(|_| *position.file == *places.waml);
        let rest = format!("/blob/{commit}/{}#L{}", position.file, position.line);
        linked(position.to_string(), forge, repository, &rest)
    });
    let parts = |text: Option<String>| words::parts(text.as_deref().unwrap_or_default());
    Complaint {
        rule: rule.into_owned(),
        message: words::parts(&message),
        place,
        path,
        expected: parts(expected),
        help: parts(help),
    }
}

fn push(pushed: Pushed) -> Push {
    let Pushed { commit, changed, digest, files } = pushed;
    let count = words::count(files.len(), "file");
    Push { commit: commit.to_string(), changed, digest: digest.0, files, count }
}
