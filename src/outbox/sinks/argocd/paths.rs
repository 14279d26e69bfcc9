//! The paths that a push event names: those of its commit, or those of the record. Pure.

use crate::git::history::live::{CommitChange, PathTouch as What};
use crate::git::layout;
use crate::model::id::{AppKey, TargetName};
use crate::notify::argocd::event::{PreviousCommit, TouchedPaths};

/// Returns the paths that the commit changed, if it changed a file of the app: a commit that did
/// not is another one.
pub(super) fn of_commit(
    change: CommitChange,
    target: &TargetName,
    app: &AppKey,
) -> Option<TouchedPaths> {
    let folder = format!("{}/", layout::app_folder(target, app));
    let application = layout::application_file(target, app).to_string();
    let is_its = |path: &str| path.starts_with(&folder) || path == application;
    if !change.paths.iter().any(|one| is_its(&one.path)) {
        return None;
    }
    let CommitChange { before, paths } = change;
    let mut touched = none(before.map_or(PreviousCommit::Nothing, PreviousCommit::Commit));
    for one in paths {
        match one.what {
            What::Added => touched.added.push(one.path),
            What::Changed => touched.modified.push(one.path),
            What::Removed => touched.removed.push(one.path),
        }
    }
    Some(touched)
}

/// Returns the files that the deployment has under `latest`, and its Application. Used where the
/// commit cannot be read; the list may be incomplete, so the event claims nothing about the state
/// before.
pub(super) fn of_record(
    files: &[String],
    target: &TargetName,
    app: &AppKey,
    gone: bool,
) -> TouchedPaths {
    let latest = layout::latest_folder(target, app);
    let paths = files.iter().map(|name| latest.join(name.as_str()).to_string());
    let paths = paths.chain([layout::application_file(target, app).to_string()]).collect();
    let touched = none(PreviousCommit::Unknown);
    if gone {
        TouchedPaths { removed: paths, ..touched }
    } else {
        TouchedPaths { modified: paths, ..touched }
    }
}

/// Returns no paths: Argo CD then checks every Application of the repository.
pub(super) fn nothing() -> TouchedPaths {
    none(PreviousCommit::Unknown)
}

fn none(before: PreviousCommit) -> TouchedPaths {
    TouchedPaths { before, added: Vec::new(), modified: Vec::new(), removed: Vec::new() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::git::history::live::PathChange;
    use crate::model::id::{CommitSha, Namespace, Slug};

    fn target() -> TargetName {
        TargetName::parse("prod-1").unwrap()
    }

    fn app() -> AppKey {
        AppKey { namespace: Namespace::parse("devx").unwrap(), slug: Slug::parse("web").unwrap() }
    }

    fn change(paths: &[(&str, What)]) -> CommitChange {
        let one = |(path, what): &(&str, What)| PathChange { path: (*path).into(), what: *what };
        let before = Some(CommitSha::parse("a".repeat(40)).unwrap());
        CommitChange { before, paths: paths.iter().map(one).collect() }
    }

    #[test]
    fn a_commit_says_exactly_what_it_changed() {
        let touched = of_commit(
            change(&[
                ("apps/prod-1/devx.web.yaml", What::Added),
                ("manifests/prod-1/devx/web/latest/a.yaml", What::Changed),
                ("manifests/prod-1/devx/web/latest/b.yaml", What::Removed),
            ]),
            &target(),
            &app(),
        );
        let touched = touched.unwrap();
        assert_eq!(touched.added, ["apps/prod-1/devx.web.yaml"]);
        assert_eq!(touched.modified, ["manifests/prod-1/devx/web/latest/a.yaml"]);
        assert_eq!(touched.removed, ["manifests/prod-1/devx/web/latest/b.yaml"]);
        assert!(matches!(touched.before, PreviousCommit::Commit(_)));
    }

    #[test]
    fn a_commit_of_something_else_is_not_the_one() {
        for path in ["README.md", "manifests/prod-1/devx/web-2/latest/a.yaml", "apps/prod-1.yaml"] {
            let one = change(&[(path, What::Changed)]);
            assert_eq!(of_commit(one, &target(), &app()), None, "{path}");
        }
    }

    #[test]
    fn a_record_says_the_files_and_promises_nothing() {
        let files = ["a.yaml".to_owned()];
        let there = of_record(&files, &target(), &app(), false);
        let paths = ["manifests/prod-1/devx/web/latest/a.yaml", "apps/prod-1/devx.web.yaml"];
        assert_eq!(
            (there.before, there.modified),
            (PreviousCommit::Unknown, paths.map(str::to_owned).into())
        );
        let gone = of_record(&files, &target(), &app(), true);
        assert_eq!((gone.removed, gone.modified), (paths.map(str::to_owned).into(), vec![]));
    }
}
