//! What a deployment replaced, found out from its commit: for one whose process died before it
//! could be recorded.

use crate::git::error::WriteError;
use crate::git::handedit::look;
use crate::git::writer::ManifestRepository;
use crate::git::{layout, message, round, tree};
use crate::model::hand_edit::HandEdit;
use crate::model::id::{AppKey, DeployId, TargetName};

impl ManifestRepository {
    /// What a deployment has replaced of somebody's hand, as its commit and the one before say;
    /// `None` where it replaced nothing, or where our clone does not go back so far.
    pub async fn replaced_edit(
        &self,
        target: &TargetName,
        app: &AppKey,
        id: &DeployId,
    ) -> Result<Option<HandEdit>, WriteError> {
        let (folder, latest) =
            (layout::app_folder(target, app), layout::latest_folder(target, app));
        let id = id.clone();
        self.at_tip(move |repo, tip| {
            let Some(commit) = tip.and_then(|tip| round::find(repo, tip, &id)) else {
                return Ok(None);
            };
            let commit = repo.find_commit(commit)?;
            if !message::says_replaced(&String::from_utf8_lossy(commit.message_bytes())) {
                return Ok(None);
            }
            let Ok(before) = commit.parent(0) else { return Ok(None) };
            let root = before.tree()?;
            let revisions = tree::revision_folders(repo, Some(&root), &folder)?;
            let now = tree::find(Some(&root), &latest)?.map(|(id, _)| id);
            let found = look(repo, Some(before.id()), &latest.to_string(), now, &revisions)?;
            Ok(found.map(|found| HandEdit { replaced: true, ..found }))
        })
        .await
    }
}
