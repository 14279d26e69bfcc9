//! Branches by globs: some with whole names, some that must be searched for. Pure.

use crate::support::globs::Globs;

/// The branches of a query.
#[derive(Debug, Clone)]
pub(super) struct BranchQuery {
    /// Named whole; these need no list.
    pub(super) exact: Vec<String>,
    globs: Globs,
}

impl BranchQuery {
    /// Builds the query. A glob that cannot be read matches nothing: the configuration has refused it.
    pub(super) fn of(texts: &[String]) -> Self {
        let is_glob = |text: &&String| text.contains(['*', '?', '[', '{', '\\']);
        let (globs, exact): (Vec<&String>, Vec<&String>) = texts.iter().partition(is_glob);
        Self { exact: exact.into_iter().cloned().collect(), globs: Globs::parse_readable(globs) }
    }

    /// Returns whether branches must be listed.
    pub(super) fn has_globs(&self) -> bool {
        !self.globs.is_empty()
    }

    /// Returns whether a glob means that branch, and no whole name does already.
    pub(super) fn is_by_glob(&self, branch: &str) -> bool {
        self.globs.is_match(branch) && !self.exact.iter().any(|exact| exact == branch)
    }

    /// Returns whether that branch is meant.
    pub(super) fn contains_branch(&self, branch: &str) -> bool {
        self.globs.is_match(branch) || self.exact.iter().any(|exact| exact == branch)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_globs_are_told_apart() {
        let query = BranchQuery::of(&["main", "release/*", "v[0-9]", "{"].map(str::to_owned));
        assert_eq!(query.exact, ["main"]);
        assert!(query.has_globs() && !BranchQuery::of(&["main".to_owned()]).has_globs());
        for branch in ["main", "release/1", "release/1/2", "v7"] {
            assert!(query.contains_branch(branch), "{branch}");
        }
        for branch in ["maintenance", "release", "v77", "{", ""] {
            assert!(!query.contains_branch(branch), "{branch}");
        }
        assert!(query.is_by_glob("v7") && !query.is_by_glob("main"));
    }
}
