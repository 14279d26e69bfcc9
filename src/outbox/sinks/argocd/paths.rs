//! The paths that a push event names: those of its commit, or those of the record. Pure.

use crate::git::history::live::{CommitChange, PathTouch};
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
    let is_of_app = |path: &str| path.starts_with(&folder) || path == application;
    if !change.paths.iter().any(|touch| is_of_app(&touch.path)) {
        return None;
    }
    let CommitChange { before, paths } = change;
    let mut touched = no_paths(before.map_or(PreviousCommit::Nothing, PreviousCommit::Commit));
    for touch in paths {
        match touch.what {
            PathTouch::Added => touched.added.push(touch.path),
            PathTouch::Changed => touched.modified.push(touch.path),
            PathTouch::Removed => touched.removed.push(touch.path),
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
    is_removed: bool,
) -> TouchedPaths {
    let latest = layout::latest_folder(target, app);
    let paths = files.iter().map(|name| latest.join(name.as_str()).to_string());
    let paths = paths.chain([layout::application_file(target, app).to_string()]).collect();
    let touched = no_paths(PreviousCommit::Unknown);
    if is_removed {
        TouchedPaths { removed: paths, ..touched }
    } else {
        TouchedPaths { modified: paths, ..touched }
    }
}

/// Returns no paths: Argo CD then checks every Application of the repository.
pub(super) fn unknown_paths() -> TouchedPaths {
    no_paths(PreviousCommit::Unknown)
}

fn no_paths(before: PreviousCommit) -> TouchedPaths {
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

    fn change(paths: &[(&str, PathTouch)]) -> CommitChange {
        let to_path_change =
            |(path, what): &(&str, PathTouch)| PathChange { path: (*path).into(), what: *what };
        let before = Some(CommitSha::parse("a".repeat(40)).unwrap());
        CommitChange { before, paths: paths.iter().map(to_path_change).collect() }
    }

    #[test]
    fn a_commit_says_exactly_what_it_changed() {
        let touched = of_commit(
            change(&[
                ("apps/prod-1/devx.web.yaml", PathTouch::Added),
                ("manifests/prod-1/devx/web/latest/a.yaml", PathTouch::Changed),
                ("manifests/prod-1/devx/web/latest/b.yaml", PathTouch::Removed),
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
            let commit_change = change(&[(path, PathTouch::Changed)]);
            assert_eq!(of_commit(commit_change, &target(), &app()), None, "{path}");
        }
    }

    #[test]
    fn a_record_says_the_files_and_promises_nothing() {
        let files = ["a.yaml".to_owned()];
        let pushed_paths = of_record(&files, &target(), &app(), false);
        let paths = ["manifests/prod-1/devx/web/latest/a.yaml", "apps/prod-1/devx.web.yaml"];
        assert_eq!(
            (pushed_paths.before, pushed_paths.modified),
            (PreviousCommit::Unknown, paths.map(str::to_owned).into())
        );
        let removed_paths = of_record(&files, &target(), &app(), true);
        assert_eq!(
            (removed_paths.removed, removed_paths.modified),
            (paths.map(str::to_owned).into(), vec![])
        );
    }
}
