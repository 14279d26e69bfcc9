//! A rollback takes nothing away that keeps data unless somebody says so, as a deployment and a removal
//! do not; and it asks for nothing that Kubernetes refuses.

use crate::app::problem;
use crate::controller::outside::{Problem, Remedy};
use crate::git::layout;
use crate::git::writer::ManifestRepository;
use crate::model::deployment::Deployment;
use crate::model::facts::LiveObject;
use crate::model::id::AppKey;
use crate::model::revision::ManifestFile;
use crate::model::rollback::{Rollback, TreeId};
use crate::pipeline::removal::{self, Replacement};
use crate::server::ports::NotRolledBack;

/// Whether `then` may take the place of `now`; what a person should know of it.
pub(super) fn judge(
    now: &[ManifestFile],
    then: &[ManifestFile],
    with_data: bool,
) -> Result<Vec<String>, NotRolledBack> {
    let Replacement { loses, refused, notes } = removal::replacement(now, then);
    if let Some(first) = refused.into_iter().next() {
        return Err(NotRolledBack::Against(format!(
            "{first}; deploy the former tag instead, with the disk as it is"
        )));
    }
    if !loses.is_empty() && !with_data {
        return Err(NotRolledBack::KeepsData(loses));
    }
    Ok(notes)
}

/// Judges it once more before it is pushed: what was deployed or edited while it waited counts. The tree of
/// `latest` that was judged; `None` where data may go, whatever `latest` is.
pub(super) async fn judge_again(
    repository: &ManifestRepository,
    (deployment, app): (&Deployment, &AppKey),
    rollback: &Rollback,
) -> Result<Option<TreeId>, Problem> {
    let failed = |error| problem::of_write(&error);
    let target = &deployment.request.target;
    // The tree first: if the files are another's by then, the push finds that out.
    let latest = repository.kept(target, app).await.map_err(failed)?.latest;
    let now = repository.files(&layout::latest_folder(target, app).to_string()).await;
    let then = layout::revision_folder(target, app, &rollback.to).to_string();
    let then = repository.files(&then).await.map_err(failed)?;
    match judge(&now.map_err(failed)?, &then, rollback.with_data) {
        Ok(_notes) => Ok(latest.filter(|_| !rollback.with_data)),
        Err(NotRolledBack::KeepsData(objects)) => Err(refused(&named(&objects))),
        Err(other) => Err(refused(&other.to_string())),
    }
}

fn named(objects: &[LiveObject]) -> String {
    let objects: Vec<String> = objects.iter().map(ToString::to_string).collect();
    format!(
        "it would remove what keeps data: {}; `--with-data` says that it may go",
        objects.join(", ")
    )
}

fn refused(why: &str) -> Problem {
    Problem { remedy: Remedy::Reject, message: format!("not rolled back: {why}") }
}
