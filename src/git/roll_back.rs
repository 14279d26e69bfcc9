//! Looks at what an app has on a target, and rolls it back, through the writer.

use git2::Oid;
use jiff::Timestamp;

use crate::git::error::WriteError;
use crate::git::outcome::Written;
use crate::git::rollback::Restore;
use crate::git::writer::ManifestRepository;
use crate::git::{layout, tree};
use crate::model::id::{AppKey, DeployId, TargetName};
use crate::model::rollback::{Kept, TreeId};
use crate::support::lease::Lease;

impl ManifestRepository {
    /// What an app has on a target, each folder by its tree. Nobody waits for a push that is under
    /// way, or for a server that does not answer: then it is as it was before that, and what is decided by it is looked at once more when it
    /// is done.
    ///
    /// # Errors
    /// When the repository cannot be read.
    pub async fn kept(&self, target: &TargetName, app: &AppKey) -> Result<Kept, WriteError> {
        let folder = layout::app_folder(target, app);
        let latest = layout::latest_folder(target, app);
        self.beside(move |repo, tip| {
            let root = tip
                .map(|tip| repo.find_commit(tip).and_then(|commit| commit.tree()))
                .transpose()?;
            let mut found = tree::revision_folders(repo, root.as_ref(), &folder)?;
            found.sort_unstable_by(|(a, _), (b, _)| b.cmp(a));
            let latest = tree::find(root.as_ref(), &latest)?;
            let named = |(id, tree): (DeployId, Oid)| (id, TreeId(tree.to_string()));
            Ok(Kept {
                revisions: found.into_iter().map(named).collect(),
                latest: latest.map(|(tree, _)| TreeId(tree.to_string())),
            })
        })
        .await
    }

    /// Makes a former revision live again, if it is still what was seen ([`WriteError::Moved`] if not);
    /// `at` and `lease` are as for [`ManifestRepository::write`].
    ///
    /// # Errors
    /// When it is not in the repository, and why.
    pub async fn roll_back(
        &self,
        restore: Restore,
        at: Timestamp,
        lease: &Lease,
    ) -> Result<Written, WriteError> {
        let hand_edits = restore.hand_edits.clone();
        let ended = self.restore(restore, (at, lease)).await;
        hand_edits.ended(&ended);
        ended
    }
}
