//! A commit's text: who wrote it, who committed it, and over what. Pure but for its signature.

use git2::Oid;
use jiff::Timestamp;

use crate::git::error::WriteError;
use crate::git::writer::Identity;

/// Who makes commits.
#[derive(Debug, Clone)]
pub(super) struct Committer {
    pub(super) identity: Identity,
}

impl Committer {
    /// The text of a commit.
    pub(super) fn commit(
        &self,
        tree: Oid,
        parent: Option<Oid>,
        message: &str,
        at: Timestamp,
    ) -> Vec<u8> {
        let who = stamp(&self.identity, at);
        let mut text = format!("tree {tree}\n");
        if let Some(parent) = parent {
            text += &format!("parent {parent}\n");
        }
        text += &format!("author {who}\ncommitter {who}\n\n{message}");
        text.into_bytes()
    }
}

/// Whether somebody of that name can make commits.
pub(super) fn check(Identity { name, email }: &Identity) -> Result<(), WriteError> {
    if plain(name).is_empty() || plain(email).is_empty() {
        let message = format!("{name:?} <{email:?}> cannot be the author of a commit");
        return Err(WriteError::Invalid(message));
    }
    Ok(())
}

/// `Name <e-mail> seconds +0000`
fn stamp(Identity { name, email }: &Identity, at: Timestamp) -> String {
    format!("{} <{}> {} +0000", plain(name), plain(email), at.as_second())
}

/// Without what ends a name or a line in a commit.
fn plain(text: &str) -> String {
    let text: String =
        text.chars().filter(|c| !c.is_control() && !matches!(c, '<' | '>')).collect();
    text.trim().to_owned()
}
