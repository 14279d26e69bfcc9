//! `bart rollback`: a former revision is made live again.

use std::time::Duration;

use clap::Args;
use serde::{Deserialize, Serialize};

use super::client::{Detail, Overview, Server};
use super::error::{CliError, Outcome};
use super::here::About;
use super::offline;
use super::output::{self, BAD, BOLD, DIM, Format, GOOD, NOTE};
use crate::model::deployment::State;
use crate::model::id::{AppKey, DeployId, TargetName};
use crate::model::removal;

/// Makes a former revision of the app live again, its manifests byte for byte.
///
/// Nothing is rendered and nothing is built anew: the revision is one of the five that the manifest
/// repository keeps (`bart history`), and the app's `latest` becomes exactly its files. It works while
/// GitHub and the templates cannot be reached. Without --to it is the revision before the live one;
/// again, the one before that.
///
/// A rollback takes a hold: workflows and rollouts cannot deploy over it. A person's deployment of
/// another release ends the hold, and so does `bart unhold`.
///
/// Exit codes: 0 the revision is live, 1 the service refuses or the rollback failed, 2 wrong usage or
/// something that could not be reached.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  bart rollback prod-cluster-1 --reason 'checkout fails since 1.10'
  bart rollback prod-cluster-1 --to 20261121-054812123-3f9a2c --reason 'before the migration'
  bart rollback prod-cluster-1 --reason test --dry-run      what would change")]
pub(super) struct Rollback {
    /// The target
    #[arg(value_parser = offline::target)]
    target: TargetName,
    /// The revision, by its deploy id; without it, the one before the live one
    #[arg(long, value_name = "ID", value_parser = |text: &str| DeployId::parse(text).map_err(|e| e.to_string()))]
    to: Option<DeployId>,
    /// Why; it is shown to whoever is held, and kept with the commit and in the audit log
    #[arg(long, value_name = "TEXT", value_parser = removal::reason)]
    reason: String,
    /// Only say what would change
    #[arg(long)]
    dry_run: bool,
    /// Do not wait until it is done
    #[arg(long)]
    no_wait: bool,
    #[command(flatten)]
    about: About,
    #[command(flatten)]
    server: Server,
    /// How to print the result
    #[arg(long, short, value_enum, default_value_t)]
    output: Format,
}

/// What the service is asked.
#[derive(Debug, Serialize)]
struct Ask<'a> {
    to: Option<&'a DeployId>,
    reason: &'a str,
    dry_run: bool,
}

/// What it answers. Unknown fields are from a newer service, and left out.
#[derive(Debug, Serialize, Deserialize)]
struct Answer {
    deployment: Option<Overview>,
    from: Option<Version>,
    to: Version,
    hold: bool,
    changes: Option<Vec<Change>>,
}

/// A revision.
#[derive(Debug, Serialize, Deserialize)]
struct Version {
    id: String,
    tag: Option<String>,
    actor: Option<String>,
    at: Option<jiff::Timestamp>,
}

/// An object that becomes another.
#[derive(Debug, Serialize, Deserialize)]
struct Change {
    kind: String,
    name: String,
    how: String,
    diff: String,
}

/// Between two looks at a rollback that is under way. It is over in a second as a rule.
const LOOK: Duration = Duration::from_millis(250);

impl Rollback {
    pub(super) async fn run(self) -> Outcome {
        let app = self.about.app()?;
        let mut answer = self.ask(&app).await?;
        let Some(begun) = &answer.deployment else { return self.print(&app, &answer) };
        let id = begun.id.clone();
        if self.no_wait {
            return self.print(&app, &answer);
        }
        if self.output == Format::Text {
            output::note(&format!("{DIM}rollback {id} is under way{DIM:#}\n"));
        }
        answer.deployment = Some(self.ended(&id).await?);
        self.print(&app, &answer)?;
        match answer.deployment.map(|one| one.state) {
            Some(State::Succeeded) => Ok(()),
            _ => Err(CliError::rejected()),
        }
    }

    async fn ask(&self, app: &AppKey) -> Result<Answer, CliError> {
        let AppKey { namespace, slug } = app;
        let path = format!("/api/v1/apps/{}/{namespace}/{slug}/rollback", self.target);
        let ask = Ask { to: self.to.as_ref(), reason: &self.reason, dry_run: self.dry_run };
        self.server.post(&path, &ask).await
    }

    /// The record once it is at its end. Who stops waiting stops nothing else.
    async fn ended(&self, id: &str) -> Result<Overview, CliError> {
        let watch = async {
            loop {
                let detail: Detail =
                    self.server.get(&format!("/api/v1/deployments/{id}"), &[]).await?;
                if detail.overview.state.is_final() {
                    return Ok(detail.overview);
                }
                tokio::time::sleep(LOOK).await;
            }
        };
        tokio::select! {
            ended = watch => ended,
            _ = tokio::signal::ctrl_c() => Err(CliError::io(format!("not waited for; rollback {id} goes on"))
                .hint(format!("`bart status {id}` shows how it ends"))),
        }
    }

    fn print(&self, app: &AppKey, answer: &Answer) -> Outcome {
        match self.output {
            Format::Text => output::print(&page(app, &self.target, answer)),
            data @ (Format::Json | Format::Yaml) => output::data(data, answer),
        }
    }
}

fn page(app: &AppKey, target: &TargetName, answer: &Answer) -> String {
    let Answer { deployment, from, to, hold, changes } = answer;
    let (from, back) =
        (from.as_ref().map_or("files that were edited by hand".to_owned(), named), named(to));
    let mut text = match deployment {
        None => format!("{NOTE}would roll back{NOTE:#} {BOLD}{app}{BOLD:#} on {target}\n"),
        Some(one) => match one.state {
            State::Succeeded => {
                format!(
                    "{GOOD}rolled back{GOOD:#} {BOLD}{app}{BOLD:#} on {target}: {}\n",
                    one.summary
                )
            }
            State::Failed | State::Cancelled | State::Superseded => {
                format!(
                    "{BAD}not rolled back{BAD:#} {BOLD}{app}{BOLD:#} on {target}: {}\n",
                    one.summary
                )
            }
            State::Queued | State::Running | State::Pushing => {
                format!(
                    "{NOTE}asked for{NOTE:#} rollback {} of {BOLD}{app}{BOLD:#} on {target}\n",
                    one.id
                )
            }
        },
    };
    text += &format!("  from {from}\n  to   {back}\n");
    text += &changed(changes.as_deref());
    if *hold {
        text += &format!(
            "{NOTE}hold{NOTE:#}: automation does not deploy over it; `bart unhold {target} --reason TEXT` ends that\n"
        );
    }
    text
}

fn named(version: &Version) -> String {
    let Version { id, tag, actor, at } = version;
    let tag = tag.as_ref().map_or(String::new(), |tag| format!("{BOLD}{tag}{BOLD:#}, "));
    let when = at.map_or(String::new(), |at| format!(" of {}", at.strftime("%F %H:%M UTC")));
    let who = actor.as_ref().map_or(String::new(), |actor| format!(" by {actor}"));
    format!("{tag}revision {id}{who}{when}")
}

fn changed(changes: Option<&[Change]>) -> String {
    let Some(changes) = changes else { return String::new() };
    let line = |one: &Change| format!("  {} {}/{}\n", one.how, one.kind, one.name);
    changes.iter().map(line).collect()
}
