//! A rollback: `latest` becomes a former revision again, its bytes unchanged. Which revision that is,
//! and why there may be none, is decided here; and what keeps automation from undoing it.

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::model::id::{AppKey, DeployId, ImageTag, TargetName};
use crate::model::release::Release;

/// What makes a deployment a rollback.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rollback {
    /// The revision that becomes live again.
    pub to: DeployId,
    /// The revision that was live when it was asked for; `None` if somebody had edited `latest` by hand.
    pub from: Option<DeployId>,
    /// The release of that, where it is known.
    pub away: Option<Release>,
    /// The git tree of the revision; `latest` becomes exactly this.
    pub tree: TreeId,
    /// Why.
    pub reason: String,
    /// Whether automation is kept from deploying over it.
    pub hold: bool,
    /// Whether objects that keep data may go.
    #[serde(default)]
    pub with_data: bool,
}

/// What somebody asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RollbackRequest {
    /// Where.
    pub target: TargetName,
    /// Which app.
    pub app: AppKey,
    /// To which revision; without one, to the one before the live one.
    pub to: Option<DeployId>,
    /// Why; not empty.
    pub reason: String,
    /// Whether objects that keep data may go.
    pub with_data: bool,
    /// Only say what would be done.
    pub dry_run: bool,
}

/// The name of a git tree: what a folder holds, byte for byte. Hexadecimal.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct TreeId(pub String);

impl std::fmt::Display for TreeId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

/// An app's folders on a target.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Kept {
    /// The revisions that are kept, newest first, each with its tree.
    pub revisions: Vec<(DeployId, TreeId)>,
    /// The tree of `latest`; `None` where there is none.
    pub latest: Option<TreeId>,
}

/// Which revision becomes live again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Choice {
    /// The revision.
    pub to: DeployId,
    /// Its tree.
    pub tree: TreeId,
    /// The one that is live now; `None` where `latest` was edited by hand.
    pub from: Option<DeployId>,
}

/// Why there is none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NoChoice {
    /// There is no such app on the target.
    NoApp,
    /// The named revision is the live one.
    Live(DeployId),
    /// The named revision is not among those that are kept.
    NotKept(DeployId),
    /// None was named, and there is none before the live one.
    NoneBefore(DeployId),
}

impl Kept {
    /// The newest revision whose files `latest` has.
    pub fn live(&self) -> Option<&DeployId> {
        let latest = self.latest.as_ref()?;
        self.revisions.iter().find(|(_, tree)| tree == latest).map(|(id, _)| id)
    }

    /// The named revision; without a name the newest one before the live one that has other files.
    /// Where `latest` was edited by hand, that is the newest of all: what was deployed last.
    ///
    /// # Errors
    /// [`NoChoice`]
    pub fn choose(&self, to: Option<&DeployId>) -> Result<Choice, NoChoice> {
        if self.revisions.is_empty() && self.latest.is_none() {
            return Err(NoChoice::NoApp);
        }
        let live = self.live().cloned();
        let found = match to {
            Some(to) => self.named(to)?,
            None => self.previous(live.as_ref())?,
        };
        let (to, tree) = found.clone();
        Ok(Choice { to, tree, from: live })
    }

    fn named(&self, to: &DeployId) -> Result<&(DeployId, TreeId), NoChoice> {
        match self.revisions.iter().find(|(id, _)| id == to) {
            None => Err(NoChoice::NotKept(to.clone())),
            Some((id, tree)) if Some(tree) == self.latest.as_ref() => {
                Err(NoChoice::Live(id.clone()))
            }
            Some(found) => Ok(found),
        }
    }

    fn previous(&self, live: Option<&DeployId>) -> Result<&(DeployId, TreeId), NoChoice> {
        let mut older = self.revisions.iter().filter(|(id, _)| live.is_none_or(|live| id < live));
        let other = older.find(|(_, tree)| Some(tree) != self.latest.as_ref());
        other.ok_or_else(|| live.map_or(NoChoice::NoApp, |live| NoChoice::NoneBefore(live.clone())))
    }
}

/// A no to automation, on one app and target: by a rollback, or by a person.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hold {
    /// Where.
    pub target: TargetName,
    /// Which app.
    pub app: AppKey,
    /// Who.
    pub by: String,
    /// Why.
    pub reason: String,
    /// Since when.
    pub since: Timestamp,
    /// The rollback that took it; `None` where a person did.
    pub rollback: Option<DeployId>,
    /// What was rolled back from, where that is known.
    pub away: Option<Release>,
    /// The tag that was rolled back to.
    pub to: Option<ImageTag>,
}

impl Hold {
    /// The same in the place of another: it keeps what that one knows of a rollback.
    #[must_use]
    pub fn over(self, before: Option<Self>) -> Self {
        match before.filter(|_| self.rollback.is_none()) {
            Some(Self { rollback, away, to, .. }) => Self { rollback, away, to, ..self },
            None => self,
        }
    }
}

/// Whom a hold keeps from deploying to a target.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Holds {
    /// Automation; a person's deployment of another release ends it.
    #[default]
    Automation,
    /// Everybody, until it is released.
    Everybody,
    /// Nobody: a rollback takes none.
    Off,
}

/// The forge's number of a deployment that it does not have yet: below zero, where the forge's own
/// never are, and another for each id.
pub fn provisional_number(id: &DeployId) -> i64 {
    let digits = |text: &str, radix| i64::from_str_radix(text, radix).unwrap_or(0);
    let mut parts = id.as_str().split('-');
    let (day, time) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
    let random = digits(parts.next().unwrap_or_default(), 16) & 0xf_ffff;
    // Days since the year 2000 at most fit in 24 bits, milliseconds of a day in 27.
    let day = digits(day, 10) % 1_000_000;
    let time = digits(time, 10) % 240_000_000;
    -((day * 240_000_000 + time) * 0x2000 + (random & 0x1fff) + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(n: u32) -> DeployId {
        DeployId::parse(format!("20261121-054812123-{n:06x}")).unwrap()
    }

    fn kept(trees: &[&str], latest: Option<&str>) -> Kept {
        let newest = u32::try_from(trees.len()).unwrap();
        let numbered = (1..=newest).rev().zip(trees);
        Kept {
            revisions: numbered.map(|(n, tree)| (id(n), TreeId((*tree).to_owned()))).collect(),
            latest: latest.map(|tree| TreeId(tree.to_owned())),
        }
    }

    fn to(kept: &Kept, named: Option<u32>) -> Result<u32, NoChoice> {
        let choice = kept.choose(named.map(id).as_ref())?;
        Ok((1..=9).find(|n| id(*n) == choice.to).unwrap())
    }

    #[test]
    fn without_a_name_it_is_the_one_before_the_live_one() {
        assert_eq!(to(&kept(&["c", "b", "a"], Some("c")), None), Ok(2));
        assert_eq!(to(&kept(&["c", "b", "a"], Some("b")), None), Ok(1), "after a rollback");
        assert_eq!(to(&kept(&["c", "b", "a"], Some("a")), None), Err(NoChoice::NoneBefore(id(1))));
    }

    #[test]
    fn one_with_the_same_files_is_passed_over() {
        assert_eq!(to(&kept(&["b", "b", "a"], Some("b")), None), Ok(1));
    }

    #[test]
    fn where_latest_was_edited_by_hand_it_is_what_was_deployed_last() {
        let edited = kept(&["b", "a"], Some("x"));
        assert_eq!(to(&edited, None), Ok(2));
        assert_eq!(edited.choose(None).unwrap().from, None);
        assert_eq!(to(&kept(&["b", "a"], None), None), Ok(2), "somebody deleted it");
    }

    #[test]
    fn a_named_one_must_be_kept_and_not_be_live() {
        let some = kept(&["c", "b", "a"], Some("b"));
        assert_eq!(to(&some, Some(3)), Ok(3), "forward again");
        assert_eq!(to(&some, Some(2)), Err(NoChoice::Live(id(2))));
        assert_eq!(to(&some, Some(7)), Err(NoChoice::NotKept(id(7))));
        assert_eq!(to(&Kept::default(), Some(1)), Err(NoChoice::NoApp));
    }

    #[test]
    fn a_provisional_number_is_below_zero_and_its_own() {
        let ids =
            ["20261121-054812123-3f9a2c", "20261121-054812124-3f9a2c", "20991231-235959999-ffffff"];
        let numbers: std::collections::BTreeSet<_> =
            ids.map(|id| provisional_number(&DeployId::parse(id).unwrap())).into();
        assert_eq!(numbers.len(), 3);
        assert!(numbers.iter().all(|n| *n < 0), "{numbers:?}");
    }
}
