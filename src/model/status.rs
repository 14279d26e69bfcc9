//! A deployment's status on the code host: a state and one short sentence.
//!
//! The sentences of the queue are here; those of an outcome are the controller's.

use serde::{Deserialize, Serialize};

use crate::model::deployment::{ClusterPhase, ForgeState};
use crate::model::id::{CommitSha, DeployId, ImageTag};
use crate::support::text::{remove_invisible, truncate_chars};

/// One status for the code host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ForgeStatus {
    /// GitHub's word.
    pub state: ForgeState,
    /// The description: one line of at most [`ForgeStatus::LONGEST`] characters.
    description: String,
    /// The part that has begun or goes on, after the push to a watched cluster. GitHub has no word for it, programs do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<ClusterPhase>,
}

impl ForgeStatus {
    /// GitHub refuses a status whose description is longer; in characters.
    pub const LONGEST: usize = 140;

    /// Makes a status; the sentence becomes one line and is cut where it is too long.
    pub fn new(state: ForgeState, sentence: &str) -> Self {
        Self { state, description: one_line(sentence, Self::LONGEST), phase: None }
    }

    /// Says how a pushed deployment goes on in its cluster, and what it waits for.
    pub fn in_cluster(phase: ClusterPhase, sentence: &str) -> Self {
        Self { phase: Some(phase), ..Self::new(ForgeState::InProgress, sentence) }
    }

    /// Makes a status of a sentence and a clause after it. Where both are too long, the sentence is cut first.
    pub fn with_note(state: ForgeState, sentence: &str, note: &str) -> Self {
        let note = one_line(note, Self::LONGEST_NOTE);
        let room = Self::LONGEST.saturating_sub(note.chars().count() + "; ".len());
        Self { state, phase: None, description: format!("{}; {note}", one_line(sentence, room)) }
    }

    /// The longest clause of [`ForgeStatus::with_note`], in characters: it leaves a third to the sentence.
    const LONGEST_NOTE: usize = 90;

    /// Says that it is stored and waits.
    pub fn queued() -> Self {
        Self::new(ForgeState::Queued, "waiting for a worker")
    }

    /// Says that a worker has begun.
    pub fn in_progress() -> Self {
        Self::new(ForgeState::InProgress, "reading, planning and pushing")
    }

    /// Says that a worker has begun on a rollback.
    pub fn rolling_back() -> Self {
        Self::new(ForgeState::InProgress, "making the revision live again")
    }

    /// Says that a newer one took its place.
    pub fn superseded(by: &DeployId, by_forge_id: i64) -> Self {
        Self::new(ForgeState::Inactive, &format!("superseded by deployment {by_forge_id} ({by})"))
    }

    /// Says that a person stopped it before it began to push.
    pub fn cancelled(by: &str, reason: &str) -> Self {
        Self::new(ForgeState::Inactive, &format!("cancelled by {by}: {reason}"))
    }

    /// Says that a rollback came while it waited.
    pub fn superseded_by_rollback(by: &DeployId) -> Self {
        Self::new(ForgeState::Inactive, &format!("superseded by rollback {by}"))
    }

    /// Says that a rollback made a former revision live again.
    pub fn rolled_back(by: &str, to: &ImageTag, reason: &str) -> Self {
        let sentence = format!("rolled back to {to} by {by}: {reason}");
        Self::new(ForgeState::Inactive, &sentence)
    }

    /// Says that a newer one of its lane has succeeded.
    pub fn replaced(by_forge_id: i64, by_tag: &ImageTag) -> Self {
        Self::new(ForgeState::Inactive, &format!("replaced by deployment {by_forge_id} ({by_tag})"))
    }

    /// Says that its app was taken off the target.
    pub fn removed(by: &str, reason: &str) -> Self {
        Self::new(ForgeState::Inactive, &format!("the app was removed by {by}: {reason}"))
    }

    /// Builds the status of a commit, for a receiver that needs only the commit.
    pub fn of_commit(state: ForgeState, commit: &CommitSha) -> Self {
        Self::new(state, &format!("{COMMIT}{commit}"))
    }

    /// Returns the commit of a status that [`ForgeStatus::of_commit`] built.
    pub fn commit(&self) -> Option<CommitSha> {
        CommitSha::parse(self.description.strip_prefix(COMMIT)?).ok()
    }

    /// Returns the sentence.
    pub fn description(&self) -> &str {
        &self.description
    }
}

const COMMIT: &str = "commit ";

/// Writes the text on one line without invisible characters, cut after so many characters with a mark.
pub fn one_line(text: &str, longest: usize) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let line: String = line.chars().filter(|c| !c.is_control()).collect();
    let line = remove_invisible(&line).into_owned();
    truncate_chars(&line, longest).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_sentence_is_cut_by_characters() {
        let status = ForgeStatus::new(ForgeState::Failure, &"ä".repeat(500));
        assert_eq!(status.description().chars().count(), 140);
        assert!(status.description().ends_with('…'));
        let fits = ForgeStatus::new(ForgeState::Failure, &"ä".repeat(140));
        assert_eq!(fits.description(), "ä".repeat(140));
    }

    #[test]
    fn a_note_is_there_however_long_the_sentence_is() {
        let status = ForgeStatus::with_note(ForgeState::Failure, &"ä".repeat(500), "rolled back");
        assert_eq!(status.description().chars().count(), 140);
        assert!(status.description().ends_with("ä…; rolled back"), "{}", status.description());
        let long = ForgeStatus::with_note(ForgeState::Failure, &"a".repeat(99), &"b".repeat(500));
        assert_eq!(long.description().chars().count(), 140);
        assert!(long.description().starts_with(&"a".repeat(47)), "{}", long.description());
    }

    #[test]
    fn a_commit_is_read_as_it_was_told() {
        for digits in ["ab".repeat(20), "ab".repeat(32)] {
            let commit = CommitSha::parse(digits).unwrap();
            let status = ForgeStatus::of_commit(ForgeState::Success, &commit);
            assert_eq!(status.commit(), Some(commit));
        }
        assert_eq!(ForgeStatus::queued().commit(), None);
    }

    #[test]
    fn a_sentence_is_one_line() {
        assert_eq!(one_line("a\n  b\tc\u{7}", 10), "a b c");
    }
}
