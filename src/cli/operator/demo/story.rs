//! The three deployments of the demo, and their expected results.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use git2::{Repository, Signature, Time};
use secrecy::SecretString;
use serde_json::{Value as Json, json};
use tokio::sync::mpsc;

use super::watch::EndedStage;
use crate::api::deployments::DeploymentDetail;
use crate::cli::client::{self, ServiceEndpoint};
use crate::cli::deployment;
use crate::cli::diagnostics::{self, SourceTexts};
use crate::cli::error::{CliError, CommandOutcome};
use crate::cli::output::{self, BOLD, DIM, GOOD, NOTE};
use crate::config::forge::ForgeSettings;
use crate::config::secret;
use crate::config::settings::Settings;
use crate::config::webhook::WebhookSecret;
use crate::forge::github::webhook::signature;
use crate::git::history::live::{PathChange, PathTouch};
use crate::git::writer::ManifestRepository;
use crate::model::deployment::State;
use crate::model::id::CommitSha;

/// The state of the demo while it runs.
pub(super) struct Story {
    pub(super) dir: PathBuf,
    pub(super) address: SocketAddr,
    pub(super) settings: Settings,
    pub(super) manifests: Option<ManifestRepository>,
    pub(super) stages: mpsc::Receiver<EndedStage>,
}

const REPOSITORY: &str = "example/my-app";
const TARGET: &str = "prod-cluster-1";

/// One deployment of the demo.
struct Chapter {
    number: i64,
    title: &'static str,
    waml: String,
    tag: &'static str,
    reason: &'static str,
    /// The state that it must end in; any other fails the demo.
    ends: State,
}

/// The time of the example's commits: fixed, so that the repository is the same each time.
const WRITTEN_AT: i64 = 1_655_331_742;

/// The longest time to wait for a deployment, which takes milliseconds: for a very busy machine.
const LONGEST: Duration = Duration::from_mins(1);

/// The example of the documentation, from the tests.
const FIRST_WAML: &str = include_str!("../../../../tests/pipeline/example/waml.yaml");

/// Returns the first WAML with one more variable, and more replicas.
fn second_waml() -> String {
    FIRST_WAML
        .replace("value: some-value}]", "value: some-value}, {name: LOG_LEVEL, value: debug}]")
        .replace("minReplicas: 3", "minReplicas: 5")
}

/// Returns the first WAML with five mistakes.
fn broken_waml() -> String {
    FIRST_WAML
        .replace("servicePort: 8000", "servicePort: 8080")
        .replace("MY_ENV_NAME", "1ST_ENV_NAME")
        .replace("slo:", "resources: {requests: {memory: 1GB}}\n    slos:")
        .replace("minReplicas: 3", "minReplicas: 30")
}

fn chapters() -> [Chapter; 3] {
    [
        Chapter {
            number: 1,
            title: "A deployment",
            waml: FIRST_WAML.to_owned(),
            tag: "1.0.202206151506-sha.649008fb",
            reason: "first release",
            ends: State::Succeeded,
        },
        Chapter {
            number: 2,
            title: "The same app, with a changed WAML",
            waml: second_waml(),
            tag: "1.1.202206161102-sha.0c1d2e3f",
            reason: "log more, and scale wider",
            ends: State::Succeeded,
        },
        Chapter {
            number: 3,
            title: "A WAML with mistakes",
            waml: broken_waml(),
            tag: "1.2.202206170900-sha.deadbeef",
            reason: "five mistakes",
            ends: State::Failed,
        },
    ]
}

impl Story {
    /// Runs all deployments.
    pub(super) async fn run_chapters(mut self) -> CommandOutcome {
        let secret = read_secret(&self.settings)?;
        output::print(&format!(
            "{BOLD}the-deployer{BOLD:#} on the embedded default: SQLite, local git, http://{}\n",
            self.address
        ))?;
        for chapter in chapters() {
            self.chapter(&chapter, &secret).await?;
        }
        self.where_to_look()
    }

    async fn chapter(&mut self, chapter: &Chapter, secret: &SecretString) -> CommandOutcome {
        output::print(&format!("\n{BOLD}{}. {}{BOLD:#}\n\n", chapter.number, chapter.title))?;
        let commit = self.commit(chapter)?;
        output::print(&format!(
            "  {DIM}commit{DIM:#}  {REPOSITORY}@{}  .weave.yaml\n  {DIM}event{DIM:#}   POST /webhooks/github, signed\n          {} to {TARGET}\n",
            commit.short(),
            chapter.tag
        ))?;
        let event = EventToSend::from(chapter);
        let id = send_event(self.address, secret, &event, &commit).await?;
        output::print(&format!(
            "  {DIM}answer{DIM:#}  202, deployment {NOTE}{id}{NOTE:#}\n  {DIM}page{DIM:#}    http://{}/deployments/{id}\n\n",
            self.address
        ))?;
        let detail = self.watch(&id).await?;
        self.end(chapter, &detail).await
    }

    /// Prints each stage as it ends, until the deployment has ended.
    async fn watch(&mut self, id: &str) -> Result<DeploymentDetail, CliError> {
        let server = ServiceEndpoint::at(format!("http://{}", self.address), None);
        let path = format!("/api/v1/deployments/{id}");
        let until = tokio::time::sleep(LONGEST);
        tokio::pin!(until);
        let mut poll = tokio::time::interval(Duration::from_millis(5));
        loop {
            tokio::select! {
                biased;
                Some(stage) = self.stages.recv() => show(&stage, id)?,
                _ = poll.tick() => {
                    let detail: DeploymentDetail = server.get(&path, &[]).await?;
                    if detail.summary.state.is_final() {
                        while let Ok(stage) = self.stages.try_recv() {
                            show(&stage, id)?;
                        }
                        return Ok(detail);
                    }
                }
                () = &mut until => {
                    return Err(CliError::io(format!("deployment {id} did not end within {} s", LONGEST.as_secs())));
                }
            }
        }
    }

    async fn end(&self, chapter: &Chapter, detail: &DeploymentDetail) -> CommandOutcome {
        let state = detail.summary.state;
        let total: u64 = detail.stages.iter().map(|time| time.micros).sum();
        output::print(&format!(
            "\n  {} in {}.{} ms\n  {}\n\n",
            deployment::state(state),
            total / 1000,
            total % 1000 / 100,
            detail.summary.summary
        ))?;
        if state == State::Succeeded {
            self.show_commit().await?;
        }
        if !detail.violations.is_empty() {
            let mut sources = SourceTexts::default();
            sources.add(".weave.yaml", chapter.waml.as_str());
            output::print(&format!("\n{}", diagnostics::render(&detail.violations, &sources)))?;
        }
        if state == chapter.ends {
            return Ok(());
        }
        let Chapter { number, ends, .. } = chapter;
        Err(CliError::io(format!("deployment {number} had to be {}", ends.as_str())))
    }

    async fn show_commit(&self) -> CommandOutcome {
        let Some(manifests) = &self.manifests else { return Ok(()) };
        let folder = self.dir.join("manifests.git");
        let changes = manifests.last_change().await.map_err(CliError::failed)?;
        let text = format!("  {DIM}the commit in {}{DIM:#}\n{}", folder.display(), tree(&changes));
        output::print(&text)
    }

    fn commit(&self, chapter: &Chapter) -> Result<CommitSha, CliError> {
        let ForgeSettings::Local { root } = &self.settings.forge else {
            return Err(CliError::io("the demo needs the local forge"));
        };
        let path = root.join(format!("{REPOSITORY}.git"));
        let at = WRITTEN_AT + chapter.number * 3600;
        commit_waml(&path, &chapter.waml, chapter.reason, at)
            .map_err(|error| CliError::io(format!("cannot make {}: {error}", path.display())))
    }

    fn where_to_look(&self) -> CommandOutcome {
        let dir = self.dir.display();
        output::print(&format!(
            "\n{BOLD}Look around{BOLD:#}\n\n  git -C {dir}/manifests.git log --stat\n  git -C {dir}/manifests.git show main:manifests/{TARGET}/devx/my-app/latest/deployment.yaml\n  git -C {dir}/repos/{REPOSITORY}.git log -p\n"
        ))
    }
}

/// Reads the secret that the service shares with the code host.
pub(super) fn read_secret(settings: &Settings) -> Result<SecretString, CliError> {
    match &settings.webhook.secret {
        WebhookSecret::Given(secret) => Ok(secret.clone()),
        WebhookSecret::Kept(path) => {
            secret::load_or_create(path).map(|content| content.secret).map_err(CliError::failed)
        }
    }
}

/// A deployment event that is to be sent.
pub(super) struct EventToSend {
    pub(super) number: i64,
    pub(super) repository: String,
    pub(super) repository_number: i64,
    pub(super) target: String,
    pub(super) tag: String,
    pub(super) description: String,
    pub(super) login: String,
}

impl From<&Chapter> for EventToSend {
    fn from(chapter: &Chapter) -> Self {
        Self {
            number: chapter.number,
            repository: REPOSITORY.to_owned(),
            repository_number: 1,
            target: TARGET.to_owned(),
            tag: chapter.tag.to_owned(),
            description: chapter.reason.to_owned(),
            login: "ada".to_owned(),
        }
    }
}

/// Makes the client that plays the code host.
pub(super) fn http_client() -> Result<reqwest::Client, CliError> {
    let client = reqwest::Client::builder().timeout(Duration::from_secs(10)).build();
    client.map_err(CliError::failed)
}

/// Sends a signed deployment event as GitHub does; returns the id of the deployment.
pub(super) async fn send_event(
    address: SocketAddr,
    secret: &SecretString,
    event: &EventToSend,
    commit: &CommitSha,
) -> Result<String, CliError> {
    let body = event_body(event, commit).to_string();
    let answer = http_client()?
        .post(format!("http://{address}/webhooks/github"))
        .header("content-type", "application/json")
        .header("x-github-event", "deployment")
        .header("x-github-delivery", format!("demo-{}", event.number))
        .header(signature::HEADER, signature::sign(secret, body.as_bytes()))
        .body(body)
        .send()
        .await
        .map_err(|error| CliError::io(format!("the event could not be sent: {error}")))?;
    let status = answer.status();
    let answer: Option<Json> = client::read_json(&address.to_string(), answer).await?;
    let answer = answer.unwrap_or_default();
    match answer.get("id").and_then(Json::as_str) {
        Some(id) if status == 202 => Ok(id.to_owned()),
        _ => Err(CliError::io(format!("the event was answered with {status}: {answer}"))),
    }
}

fn event_body(event: &EventToSend, commit: &CommitSha) -> Json {
    let (owner, name) = event.repository.split_once('/').unwrap_or_default();
    json!({
        "action": "created",
        "deployment": {
            "id": event.number,
            "sha": commit,
            "ref": "main",
            "task": "deploy",
            "environment": event.target,
            "description": event.description,
            "payload": {"tag": event.tag},
            "creator": {"login": event.login},
        },
        "repository": {
            "id": event.repository_number,
            "full_name": event.repository,
            "name": name,
            "owner": {"login": owner},
        },
        "sender": {"login": event.login},
        "workflow": null,
        "workflow_run": null,
    })
}

/// Commits the file on `main`; makes the repository if it is missing.
pub(super) fn commit_waml(
    path: &Path,
    waml: &str,
    message: &str,
    seconds: i64,
) -> Result<CommitSha, git2::Error> {
    let created = ManifestRepository::create_local(path, "main");
    created.map_err(|error| git2::Error::from_str(&error.to_string()))?;
    let repository = Repository::open_bare(path)?;
    let blob = repository.blob(waml.as_bytes())?;
    let mut tree = repository.treebuilder(None)?;
    tree.insert(".weave.yaml", blob, 0o100_644)?;
    let tree = repository.find_tree(tree.write()?)?;
    let author = Signature::new("Ada", "ada@example.com", &Time::new(seconds, 0))?;
    let parent =
        repository.find_reference("refs/heads/main").and_then(|main| main.peel_to_commit()).ok();
    let parents: Vec<&git2::Commit<'_>> = parent.iter().collect();
    let id =
        repository.commit(Some("refs/heads/main"), &author, &author, message, &tree, &parents)?;
    CommitSha::parse(id.to_string()).map_err(|error| git2::Error::from_str(&error.to_string()))
}

fn show(stage: &EndedStage, id: &str) -> CommandOutcome {
    let Some(micros) = stage.micros.filter(|_| stage.deployment == id) else { return Ok(()) };
    let millis = deployment::milliseconds(micros);
    output::print(&format!("  {GOOD}✓{GOOD:#} {:<9} {millis:>11}\n", stage.stage))
}

/// Formats the files of a commit, folder by folder; no line is longer than a terminal is wide.
fn tree(changes: &[PathChange]) -> String {
    let mut text = String::new();
    let mut before = None;
    let mut column = 0;
    for PathChange { path, what: touch } in changes {
        let (folder, file) = path.rsplit_once('/').unwrap_or(("", path));
        if before != Some((folder, *touch)) {
            let end = if text.is_empty() { "" } else { "\n" };
            text += &format!("{end}  {} {folder}/\n      {file}", mark(*touch));
            column = 6 + file.len();
        } else if column + 2 + file.len() > 78 {
            text += &format!("\n      {file}");
            column = 6 + file.len();
        } else {
            text += &format!("  {file}");
            column += 2 + file.len();
        }
        before = Some((folder, *touch));
    }
    text + "\n"
}

fn mark(touch: PathTouch) -> String {
    match touch {
        PathTouch::Added => format!("{GOOD}A{GOOD:#}"),
        PathTouch::Changed => format!("{NOTE}M{NOTE:#}"),
        PathTouch::Removed => "D".to_owned(),
    }
}
