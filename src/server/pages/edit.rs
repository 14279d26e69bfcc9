//! What somebody had edited by hand, for the log of a deployment.

use crate::model::hand_edit::{EditCommit, HandEdit};
use crate::server::pages::words;
use crate::server::pages::words::Moment;

/// A hand edit as the page shows it.
pub(super) struct Edit {
    pub(super) sentence: &'static str,
    pub(super) base: Option<String>,
    pub(super) commit: Option<By>,
    pub(super) files: Vec<String>,
    pub(super) lines: Vec<DiffLine>,
}

/// Whose commit it came with.
pub(super) struct By {
    pub(super) id: String,
    pub(super) author: String,
    pub(super) at: Moment,
}

/// A line of a diff, and the class it is shown by.
pub(super) struct DiffLine {
    pub(super) text: String,
    pub(super) look: &'static str,
}

pub(super) fn edit(edit: HandEdit) -> Edit {
    let HandEdit { replaced, push_failed, base, files, diff, commit } = edit;
    let by =
        |EditCommit { id, author, at }| By { id: id.to_string(), author, at: words::moment(at) };
    Edit {
        sentence: sentence(replaced, push_failed),
        base: base.map(String::from),
        commit: commit.map(by),
        files: files.iter().map(|file| format!("{} ({})", file.name, file.how.as_str())).collect(),
        lines: diff.lines().map(line).collect(),
    }
}

fn sentence(replaced: bool, push_failed: bool) -> &'static str {
    if replaced {
        "Somebody had changed these files beside the-deployer. This deployment replaced them; \
         what is worth keeping belongs into the service's repository."
    } else if push_failed {
        "Somebody has changed these files beside the-deployer. Nothing was replaced, because the \
         push failed. What is worth keeping belongs into the service's repository, before the next \
         deployment."
    } else {
        "Somebody has changed these files beside the-deployer, and nothing was replaced. \
         Take the change over into the service's repository, or revert it; then deploy again."
    }
}

fn line(text: &str) -> DiffLine {
    let look = match text.as_bytes() {
        [b'+', b'+', b'+', ..] | [b'-', b'-', b'-', ..] => "name",
        [b'+', ..] => "new",
        [b'-', ..] => "old",
        _ => "quiet",
    };
    DiffLine { text: text.to_owned(), look }
}
