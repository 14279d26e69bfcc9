//! The state of a rollout as a commit and a channel are told of it: what of a record people look at, without its plan.

use jiff::Timestamp;

use crate::model::id::{
    AppKey, CommitSha, ImageTag, RepoName, RolloutId, RolloutName, TargetName, TeamName,
};

/// The state of one rollout, for people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RolloutNews {
    /// Its id.
    pub id: RolloutId,
    /// The rollout of the WAML by which it was started; `None` where its targets were named.
    pub name: Option<RolloutName>,
    /// The app.
    pub app: AppKey,
    /// The service repository, by its present name.
    pub repository: RepoName,
    /// The commit of the release.
    pub commit: CommitSha,
    /// The image tag of the release.
    pub tag: ImageTag,
    /// The person or token that started it.
    pub starter: String,
    /// Its phase.
    pub phase: RolloutPhase,
    /// The time at which it came into that phase.
    pub since: Timestamp,
    /// The number of complete steps.
    pub index: usize,
    /// The number of steps.
    pub steps: usize,
    /// The targets of the next step that deploys, after the current one; empty where none follows.
    pub next_targets: Vec<TargetName>,
    /// The condition that it waits for, without "waits for"; `None` while targets are under way.
    pub wait: Option<String>,
    /// The targets, in the order of the rollout.
    pub targets: Vec<RolloutTargetNews>,
}

/// The phase of a rollout: its state, and who has to act.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RolloutPhase {
    /// It goes on by itself.
    UnderWay,
    /// A gate waits for the approval of a person, of this team where one is named.
    Approval(Option<TeamName>),
    /// A lock or a window stops it, for this reason; it goes on by itself when that is over.
    Blocked(String),
    /// A person has paused it, for this reason.
    Paused(String),
    /// A failure has paused it, for this reason: a person decides.
    Stopped(String),
    /// Changed targets get their former revision back, for this reason.
    Undoing(String),
    /// All steps are complete.
    Done,
    /// Each changed target has its former revision, or belongs to another release by now.
    Undone,
    /// A target has not got its former revision back: a person must act.
    UndoFailed,
    /// A person has ended it where it was, for this reason.
    Cancelled(String),
}

/// One target of a rollout, for people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RolloutTargetNews {
    /// The target.
    pub target: TargetName,
    /// How it stands.
    pub progress: TargetProgress,
    /// The reason of a failure, also of one that is undone by now, or what to do where an undo failed.
    pub reason: Option<String>,
}

/// How a target of a rollout stands, as far as people tell it apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum TargetProgress {
    /// It has the release.
    Complete,
    /// Its deployment or its undo is under way.
    UnderWay,
    /// It waits for its turn.
    Pending,
    /// Its deployment failed.
    Failed,
    /// It has its former revision again, or never lost it.
    Undone,
    /// Its undo failed.
    UndoFailed,
    /// It is none of the rollout's any more: another release is there, or it has left the configuration.
    Dropped,
}

impl RolloutNews {
    /// Counts the targets that stand so.
    pub fn count(&self, progress: TargetProgress) -> usize {
        self.targets.iter().filter(|one| one.progress == progress).count()
    }

    /// Lists the targets that stand so.
    pub fn targets_at(&self, progress: TargetProgress) -> impl Iterator<Item = &RolloutTargetNews> {
        self.targets.iter().filter(move |one| one.progress == progress)
    }

    /// Returns the first target with a reason, for news that have none of their own.
    pub fn first_reason(&self) -> Option<(&TargetName, &str)> {
        self.targets.iter().find_map(|one| Some((&one.target, one.reason.as_deref()?)))
    }

    /// Returns its name in commit statuses: that of the WAML, or the short form of its id.
    pub fn short_name(&self) -> &str {
        let id = self.id.as_str();
        let short = id.rsplit_once('-').map_or(id, |(_, random)| random);
        self.name.as_ref().map_or(short, RolloutName::as_str)
    }
}

impl RolloutPhase {
    /// Checks that nothing happens any more unless a person begins something new.
    pub fn is_end(&self) -> bool {
        match self {
            Self::Done | Self::Undone | Self::UndoFailed | Self::Cancelled(_) => true,
            Self::UnderWay
            | Self::Approval(_)
            | Self::Blocked(_)
            | Self::Paused(_)
            | Self::Stopped(_)
            | Self::Undoing(_) => false,
        }
    }

    /// Checks that it goes on only if a person acts who may not know of it yet.
    pub fn needs_person(&self) -> bool {
        match self {
            Self::Approval(_) | Self::Stopped(_) | Self::UndoFailed => true,
            Self::UnderWay
            | Self::Blocked(_)
            | Self::Paused(_)
            | Self::Undoing(_)
            | Self::Done
            | Self::Undone
            | Self::Cancelled(_) => false,
        }
    }

    /// Returns the word that stands for the phase where one is stored or counted.
    pub fn word(&self) -> &'static str {
        match self {
            Self::UnderWay => "under_way",
            Self::Approval(_) => "approval",
            Self::Blocked(_) => "blocked",
            Self::Paused(_) => "paused",
            Self::Stopped(_) => "stopped",
            Self::Undoing(_) => "undoing",
            Self::Done => "done",
            Self::Undone => "undone",
            Self::UndoFailed => "undo_failed",
            Self::Cancelled(_) => "cancelled",
        }
    }
}
