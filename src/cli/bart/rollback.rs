//! `bart rollback`: a former revision is made live again.

use std::time::Duration;

use clap::Args;
use serde_json::json;

use crate::api::deployments::DeploymentSummary;
use crate::api::revisions::RevisionRollback;
use crate::api::rollbacks::{
    HoldList, HoldSummary, RollbackAnswer, RollbackRequest, RollbackVersion,
};
use crate::cli::changes::{self, ShownChange};
use crate::cli::context::Context;
use crate::cli::error::{CliError, CommandOutcome};
use crate::cli::event_stream::Picture;
use crate::cli::names::act_path;
use crate::cli::output::{self, BAD, BOLD, DIM, GOOD, NOTE, note_line};
use crate::cli::times;
use crate::cli::verbatim::Verbatim;
use crate::model::deployment::State;
use crate::model::id::{AppKey, DeployId, TargetName};
use crate::model::removal;

/// Makes an earlier revision of the app live again, byte for byte.
///
/// Nothing is rendered and nothing is built: the revision is one of the five that the manifest repository keeps (`bart
/// history`), and the app's `latest` becomes exactly its files. A rollback works while GitHub and the templates cannot
/// be reached. Without --to it restores the revision that was live before, but never one that was itself rolled back;
/// another rollback goes one further back.
///
/// A rollback that removes objects with data (a volume claim, a database) is refused without --with-data. One whose
/// disk is smaller than the live one, or of another class, is refused: Kubernetes would not accept it. One that hands a
/// live number of pods over to an autoscaler is refused without --with-fewer-pods: Kubernetes may go down to one pod
/// until the autoscaler works.
///
/// A rollback takes a hold: workflows and rollouts cannot deploy over it. A person's deployment of
/// another release ends the hold, and so does `bart unhold`.
///
/// Ctrl-C ends the waiting and not the rollback: bart then prints how to follow it.
///
/// Exit codes: 0 the revision is live, 1 the service refuses or the rollback failed, 2 wrong usage or
/// something that could not be reached or did not end in time, 130 after Ctrl-C.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  bart rollback prod-cluster-1 --reason 'checkout fails since 1.10'
  bart rollback prod-cluster-1 --to 20261121-054812123-3f9a2c --reason 'before the migration'
  bart rollback prod-cluster-1 --reason test --dry-run      what would change")]
pub(super) struct RollbackArgs {
    /// The target
    target: TargetName,
    /// The revision, by its deploy id; without it, the one that was live before and was not rolled back
    #[arg(long, value_name = "ID")]
    to: Option<DeployId>,
    /// The reason; refused deployments show it, and the commit and the audit log store it
    #[arg(long, value_name = "TEXT", value_parser = removal::reason)]
    reason: String,
    #[command(flatten)]
    accepted: Accepted,
    /// Only print what would change
    #[arg(long)]
    dry_run: bool,
    /// Do not wait until the rollback is done
    #[arg(long)]
    no_wait: bool,
    /// The longest wait for the end of the rollback: `90s`, `15m`, `1h`
    #[arg(long, value_name = "TIME", default_value = "30m", value_parser = times::patience)]
    timeout: Duration,
    #[command(flatten)]
    context: Context,
}

/// The losses that the caller accepts.
#[derive(Debug, Clone, Copy, Args)]
struct Accepted {
    /// Roll back even if it removes objects that keep data
    #[arg(long)]
    with_data: bool,
    /// Roll back even if Kubernetes may go down to one pod until the revision's autoscaler works
    #[arg(long)]
    with_fewer_pods: bool,
}

/// The app's hold after a rollback that failed and took none; `Err` if the service did not answer.
type HoldAfter = Result<Option<HoldSummary>, CliError>;

impl RollbackArgs {
    pub(super) async fn run(self) -> CommandOutcome {
        let app = self.context.server.find_app(&self.context.about).await?;
        // From here on Ctrl-C prints how to continue.
        let stop = tokio::signal::ctrl_c();
        tokio::pin!(stop);
        let mut answer = tokio::select! {
            answer = self.ask(&app) => answer?,
            _ = &mut stop => return Err(self.interrupted_error()),
        };
        let mut after = Ok(None);
        let mut newest = None;
        let result = match &answer.deployment {
            Some(deployment) if !self.no_wait => {
                self.watch(&deployment.id, &mut newest, stop).await
            }
            _ => return self.print(&app, &answer, &after),
        };
        if let Some(deployment) = newest {
            answer.set("deployment", json!(deployment));
            answer.value.deployment = Some(deployment.value);
        }
        // A push takes the hold, whatever becomes of the pods.
        let deployment = answer.deployment.as_ref();
        let unpushed = deployment.filter(|deployment| deployment.pushed.is_none());
        let state = unpushed.map(|deployment| deployment.state);
        if matches!(state, Some(State::Failed | State::Cancelled | State::Superseded)) {
            // The rollback took none. The service knows whether there is another.
            after = self.hold_after(&app).await;
            answer.value.hold = matches!(after, Ok(Some(_)));
            answer.set("hold", json!(answer.hold));
        }
        self.print(&app, &answer, &after)?;
        result?;
        match answer.deployment.as_ref().map(|deployment| deployment.state) {
            Some(State::Succeeded) => Ok(()),
            _ => Err(CliError::rejected()),
        }
    }

    async fn hold_after(&self, app: &AppKey) -> HoldAfter {
        let query = [("target", self.target.to_string())];
        let HoldList { holds } = self.context.server.get("/api/v1/holds", &query).await?;
        Ok(holds.into_iter().find(|hold| hold.app == app.to_string()))
    }

    async fn ask(&self, app: &AppKey) -> Result<Verbatim<RollbackAnswer>, CliError> {
        let Self { dry_run, accepted: Accepted { with_data, with_fewer_pods }, .. } = *self;
        let (to, reason) = (self.to.clone().map(String::from), self.reason.clone());
        let request =
            RollbackRequest { to, live: None, reason, with_data, with_fewer_pods, dry_run };
        let Context { about, server, .. } = &self.context;
        let answer = server.post(&act_path(&self.target, app, "rollback"), &request).await;
        server.suggest(answer, &about.names(Some(&self.target))).await
    }

    /// Makes the error for Ctrl-C before the service has answered.
    fn interrupted_error(&self) -> CliError {
        if self.dry_run {
            return CliError::interrupted("nothing was changed");
        }
        CliError::interrupted("the service has not answered yet; it may have begun the rollback")
            .hint(format!("`bart status --target {}` shows whether it has", self.target))
    }

    /// Updates the record until the rollback's end. Ctrl-C stops only the waiting.
    async fn watch(
        &self,
        id: &str,
        newest: &mut Option<Verbatim<DeploymentSummary>>,
        stop: impl Future<Output = std::io::Result<()>>,
    ) -> CommandOutcome {
        if !self.context.output.is_data() {
            output::note(&format!("{DIM}rollback {id} is under way{DIM:#}\n"));
        }
        let watched = tokio::select! {
            followed = self.follow(id, newest) => followed.map_err(|error| {
                CliError::io(format!("rollback {id} continues, and cannot be followed: {error}"))
            }),
            () = tokio::time::sleep(self.timeout) => Err(CliError::io(format!(
                "rollback {id} has not ended within {:?}; it continues", self.timeout
            ))),
            _ = stop => Err(CliError::interrupted(format!("rollback {id} continues"))),
        };
        watched.map_err(|error| error.hint(format!("`bart logs {id} --follow` follows it")))
    }

    async fn follow(
        &self,
        id: &str,
        newest: &mut Option<Verbatim<DeploymentSummary>>,
    ) -> CommandOutcome {
        let id = DeployId::parse(id).map_err(|error| {
            CliError::io(format!("the service sent an invalid deploy id: {error}"))
        })?;
        let mut events = self.context.server.follow(&id);
        while let Some(Picture { summary: deployment, .. }) = events.next().await? {
            let is_over = deployment.state.is_final();
            *newest = Some(deployment);
            if is_over {
                return Ok(());
            }
        }
        // The stream has ended: the deployment has ended meanwhile.
        let path = format!("/api/v1/deployments/{id}");
        let picture: Picture = self.context.server.get(&path, &[]).await?;
        *newest = Some(picture.summary);
        Ok(())
    }

    fn print(
        &self,
        app: &AppKey,
        answer: &Verbatim<RollbackAnswer>,
        after: &HoldAfter,
    ) -> CommandOutcome {
        self.context.output.print(answer, || page(app, &self.target, answer, after))
    }
}

fn page(app: &AppKey, target: &TargetName, answer: &RollbackAnswer, after: &HoldAfter) -> String {
    let RollbackAnswer { deployment, from, to, warning, notes, hold, changes } = answer;
    let (from, back) = (
        from.as_ref().map_or("files that were edited by hand".to_owned(), format_version),
        format_version(to),
    );
    let place = format!("{BOLD}{app}{BOLD:#} on {target}");
    let mut text = match deployment {
        None => format!("{NOTE}would roll back{NOTE:#} {place}\n"),
        Some(DeploymentSummary { id, state, summary, pushed, .. }) => match state {
            // The lines below have all details of a plain success.
            State::Succeeded if summary.starts_with("rolled back") => {
                format!("{GOOD}rolled back{GOOD:#} {place}\n")
            }
            State::Succeeded => format!("{GOOD}done{GOOD:#} {place}: {summary}\n"),
            State::Failed if pushed.is_some() => {
                format!("{BAD}rolled back, and its pods do not run{BAD:#} {place}: {summary}\n")
            }
            State::Failed | State::Cancelled | State::Superseded => {
                format!("{BAD}not rolled back{BAD:#} {place}: {summary}\n")
            }
            State::Syncing | State::Progressing => {
                format!("{NOTE}pushed{NOTE:#} rollback {id} of {place}: {summary}\n")
            }
            State::Queued | State::Running | State::Pushing => {
                format!("{NOTE}requested{NOTE:#} rollback {id} of {place}\n")
            }
        },
    };
    text += &format!("  from {from}\n  to   {back}\n");
    if let Some(RevisionRollback { by, reason, .. }) = warning {
        text += &format!(
            "{NOTE}warning{NOTE:#}: {by} rolled back from this revision before: {reason}\n"
        );
    }
    text += &notes.iter().map(note_line).collect::<String>();
    // A dry run shows the fields.
    let detail = if deployment.is_none() { ShownChange::Fields } else { ShownChange::Names };
    text += &changes::page(changes.as_deref().unwrap_or_default(), detail);
    // A push takes the hold, whatever becomes of the pods.
    let state = deployment.as_ref().map(|deployment| match deployment.pushed {
        Some(_) => State::Succeeded,
        None => deployment.state,
    });
    text + &hold_line(target, state, *hold, after)
}

/// Describes the hold that the app has now.
fn hold_line(target: &TargetName, state: Option<State>, hold: bool, after: &HoldAfter) -> String {
    let unhold = format!("`bart unhold {target} --reason TEXT` ends that");
    let text = match state {
        Some(State::Failed | State::Cancelled | State::Superseded) => match after {
            Ok(None) => "none was taken: automation may deploy".to_owned(),
            Ok(Some(HoldSummary { by, reason, .. })) => {
                format!(
                    "none was taken by this rollback; {by} holds the app since before: {reason}; \
                     {unhold}"
                )
            }
            Err(_) => {
                "none was taken by this rollback; `bart status` shows whether there is another"
                    .to_owned()
            }
        },
        _ if !hold => return String::new(),
        Some(State::Succeeded | State::Syncing | State::Progressing) => {
            format!("automation does not deploy over it; {unhold}")
        }
        None | Some(State::Queued | State::Running | State::Pushing) => {
            format!("when the rollback is done, automation will not deploy over it; {unhold}")
        }
    };
    format!("{NOTE}hold{NOTE:#}: {text}\n")
}

fn format_version(version: &RollbackVersion) -> String {
    // The id begins with its time.
    let RollbackVersion { id, tag, actor, .. } = version;
    let tag = tag.as_ref().map_or(String::new(), |tag| format!("{BOLD}{tag}{BOLD:#}  "));
    let actor_text =
        actor.as_ref().map_or(String::new(), |actor| format!("  {DIM}by {actor}{DIM:#}"));
    format!("{tag}{id}{actor_text}")
}
