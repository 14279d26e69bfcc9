//! A commit's text: who asked for it, who committed it, and over what. Pure but for its signature.

use std::sync::Arc;

use git2::Oid;
use jiff::Timestamp;

use crate::git::author::{CommitIdentity, author};
use crate::git::change::Change;
use crate::git::error::{SigningError, WriteError};
use crate::git::signing::Signing;

/// Who makes commits.
#[derive(Debug, Clone)]
pub(super) struct Committer {
    pub(super) identity: CommitIdentity,
    /// The domain of the addresses that people have whom the code host names.
    pub(super) people: String,
    /// What proves that a commit is ours.
    pub(super) signing: Option<Arc<Signing>>,
}

impl Committer {
    /// The text of a change's commit. Its author is the person who asked; ourselves, where none did.
    pub(super) fn commit(
        &self,
        tree: Oid,
        parent: Option<Oid>,
        change: &Change,
        at: Timestamp,
    ) -> Result<Vec<u8>, SigningError> {
        let asked = change.asker().and_then(|asker| author(asker, &self.people));
        let author = stamp(asked.as_ref().unwrap_or(&self.identity), at);
        let committer = stamp(&self.identity, at);
        let mut head = format!("tree {tree}\n");
        if let Some(parent) = parent {
            head += &format!("parent {parent}\n");
        }
        head += &format!("author {author}\ncommitter {committer}\n");
        let message = change.message();
        if let Some(signing) = &self.signing {
            let signature = signing.sign(format!("{head}\n{message}").as_bytes())?;
            // The last header, each of its lines but the first behind a space, as git writes it.
            head += &format!("gpgsig {}\n", signature.replace('\n', "\n "));
        }
        Ok(format!("{head}\n{message}").into_bytes())
    }
}

/// Whether somebody of that name can make commits.
pub(super) fn check(CommitIdentity { name, email }: &CommitIdentity) -> Result<(), WriteError> {
    if plain(name).is_empty() || plain(email).is_empty() {
        let message = format!("{name:?} <{email:?}> cannot be the author of a commit");
        return Err(WriteError::Invalid(message));
    }
    Ok(())
}

/// `Name <e-mail> seconds +0000`
fn stamp(CommitIdentity { name, email }: &CommitIdentity, at: Timestamp) -> String {
    format!("{} <{}> {} +0000", plain(name), plain(email), at.as_second())
}

/// Without what ends a name or a line in a commit.
fn plain(text: &str) -> String {
    let text: String =
        text.chars().filter(|c| !c.is_control() && !matches!(c, '<' | '>')).collect();
    text.trim().to_owned()
}
