//! The message of a commit: its subject and its trailers. Pure.
//!
//! Other programs find a deployment or a removal by its trailers, so only this file writes them: free text becomes one
//! bounded line behind its own key.

use crate::model::hand_edit::HandEdit;
use crate::model::id::{AppKey, AppName, CommitSha, DeployId, ImageTag, RepoName, TargetName};
use crate::model::revision::Revision;
use crate::support::text::is_invisible;

/// The limit of characters of a free text in a commit: a reason is a sentence, not an essay.
const TEXT_LIMIT: usize = 500;

/// The data of a deployment's commit beside the revision itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Note {
    /// The image tag that is deployed.
    pub tag: ImageTag,
    /// The service's repository.
    pub repository: RepoName,
    /// The code host's number of it, which stays when it is renamed; left out where it is not known.
    pub repository_number: Option<i64>,
    /// The app, where the repository has several; left out for the only one.
    pub app_name: Option<AppName>,
    /// The commit that its WAML was read at.
    pub commit: CommitSha,
    /// The actor, as the code host names it; free text.
    pub actor: String,
    /// The template and its version, `backend-default@latest`; free text.
    pub template: String,
    /// The commit of the templates, where they come from a repository.
    pub templates_commit: Option<CommitSha>,
    /// The reason; free text, left out when empty.
    pub reason: String,
    /// The deployment to a fleet that this one is a part of, and the fleet; left out where it is none.
    pub fleet: Option<(DeployId, TargetName)>,
}

/// The data of a removal's commit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RemovalNote {
    /// Names the removal.
    pub id: DeployId,
    /// The app.
    pub app: AppKey,
    /// The cluster.
    pub target: TargetName,
    /// The actor; free text.
    pub actor: String,
    /// The reason; free text.
    pub reason: String,
    /// The digest of the live revision; left out when it is not known.
    pub digest: String,
}

/// The data of a rollback's commit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RollbackNote {
    /// Names the rollback.
    pub id: DeployId,
    /// The app.
    pub app: AppKey,
    /// The cluster.
    pub target: TargetName,
    /// The revision that becomes live again.
    pub to: DeployId,
    /// The one that was live; left out when it is not known.
    pub from: Option<DeployId>,
    /// The image tag of the revision.
    pub tag: ImageTag,
    /// The service's repository.
    pub repository: RepoName,
    /// The code host's number of it; left out where it is not known.
    pub repository_number: Option<i64>,
    /// The app, where the repository has several; left out for the only one.
    pub app_name: Option<AppName>,
    /// The commit that the revision was made of.
    pub commit: CommitSha,
    /// The actor; free text.
    pub actor: String,
    /// The reason; free text.
    pub reason: String,
    /// The rollback of a fleet that this one is a part of, and the fleet; left out where it is none.
    pub fleet: Option<(DeployId, TargetName)>,
}

/// A whole commit message, and what its commit is found again by.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommitMessage {
    /// The whole text.
    pub(super) text: String,
    /// The id in its trailer, if it has one.
    pub(super) id: Option<DeployId>,
    /// The actor, if a person asked.
    pub(super) actor: Option<String>,
}

impl CommitMessage {
    /// Builds the message of a removal.
    pub fn of_removal(note: &RemovalNote) -> Self {
        let RemovalNote { id, app, target, actor, reason, digest } = note;
        let text = with_trailers(
            format!("remove {app} from {target}"),
            &[
                (REMOVAL_ID, id.to_string()),
                ("Actor", one_line(actor)),
                ("Tree-Digest", one_line(digest)),
                ("Reason", one_line(reason)),
            ],
        );
        Self { text, id: Some(id.clone()), actor: Some(actor.clone()) }
    }

    /// Builds the message of a rollback.
    pub fn of_rollback(note: &RollbackNote) -> Self {
        let RollbackNote { id, app, target, to, from, tag, .. } = note;
        let text = with_trailers(
            format!("roll {app} back to {tag} on {target}"),
            &[
                (ROLLBACK_ID, id.to_string()),
                ("Revision", to.to_string()),
                ("Replaces", text_of(from.as_ref())),
                ("Repository", note.repository.to_string()),
                (REPOSITORY_NUMBER, text_of(note.repository_number.as_ref())),
                (APP_NAME, text_of(note.app_name.as_ref())),
                ("Commit", note.commit.to_string()),
                ("Actor", one_line(&note.actor)),
                ("Reason", one_line(&note.reason)),
                (FLEET, text_of(note.fleet.as_ref().map(|(_, name)| name))),
                (FLEET_DEPLOY_ID, text_of(note.fleet.as_ref().map(|(id, _)| id))),
            ],
        );
        Self { text, id: Some(id.clone()), actor: Some(note.actor.clone()) }
    }

    /// Builds the message of a preparation, with the numbers of new and of replaced files.
    pub fn of_preparation(new: usize, replaced: usize) -> Self {
        let files = |n: usize, verb: &str| match n {
            0 => None,
            1 => Some(format!("1 file {verb}")),
            n => Some(format!("{n} files {verb}")),
        };
        let parts: Vec<_> =
            files(new, "written").into_iter().chain(files(replaced, "replaced")).collect();
        let text = format!(
            "init: the layout that the-deployer writes into\n\n{}.\nREADME.md says what may be edited by hand.\n",
            parts.join(", ")
        );
        Self { text, id: None, actor: None }
    }

    /// Returns the whole message of a change that replaces a manual edit.
    pub(super) fn with_replaced_edit(&self, edit: Option<&HandEdit>) -> String {
        let mut text = self.text.clone();
        if let Some(edit) = edit {
            text.extend([REPLACED_EDIT, ": ", &one_line(&edit.to_string()), "\n"]);
        }
        text
    }
}

/// Writes the whole commit message of a deployment; `edit` is the manual edit that it replaces.
pub fn commit_message(revision: &Revision, note: &Note, edit: Option<&HandEdit>) -> String {
    let Revision { id, app, target, digest, .. } = revision;
    let trailers = [
        (DEPLOY_ID, id.to_string()),
        ("Repository", note.repository.to_string()),
        (REPOSITORY_NUMBER, text_of(note.repository_number.as_ref())),
        (APP_NAME, text_of(note.app_name.as_ref())),
        ("Commit", note.commit.to_string()),
        ("Actor", one_line(&note.actor)),
        ("Template", one_line(&note.template)),
        ("Template-Commit", text_of(note.templates_commit.as_ref())),
        ("Tree-Digest", one_line(&digest.0)),
        ("Reason", one_line(&note.reason)),
        (FLEET, text_of(note.fleet.as_ref().map(|(_, name)| name))),
        (FLEET_DEPLOY_ID, text_of(note.fleet.as_ref().map(|(id, _)| id))),
        (REPLACED_EDIT, one_line(&text_of(edit))),
    ];
    with_trailers(format!("deploy {app} {} to {target}", note.tag), &trailers)
}

/// Formats the value of a trailer; one that is not known is left out.
fn text_of<T: ToString>(value: Option<&T>) -> String {
    value.map(ToString::to_string).unwrap_or_default()
}

fn with_trailers(subject: String, trailers: &[(&str, String)]) -> String {
    let mut message = subject + "\n\n";
    for (key, value) in trailers.iter().filter(|(_, value)| !value.is_empty()) {
        message.extend([key, ": ", value, "\n"]);
    }
    message
}

/// Returns whether a commit message is the one of that deployment, rollback or removal.
pub fn is_of(message: &str, id: &DeployId) -> bool {
    ids_of(message).any(|other| other == *id)
}

/// Lists the ids of a commit message.
pub(super) fn ids_of(message: &str) -> impl Iterator<Item = DeployId> {
    let value = |line: &str| {
        let mut keys = [DEPLOY_ID, ROLLBACK_ID, REMOVAL_ID].into_iter();
        let id = keys.find_map(|key| line.strip_prefix(key)?.strip_prefix(": "))?;
        DeployId::parse(id).ok()
    };
    message.lines().skip(2).filter_map(value)
}

/// Returns true if a deployment's message says that it replaced a manual edit.
pub(super) fn reports_replaced_edit(message: &str) -> bool {
    message.lines().skip(2).any(|line| line.starts_with(REPLACED_EDIT) && line.contains(": "))
}

const REPLACED_EDIT: &str = "Replaced-Edit";
pub(super) const FLEET: &str = "Fleet";
pub(super) const FLEET_DEPLOY_ID: &str = "Fleet-Deploy-Id";
pub(super) const REPOSITORY_NUMBER: &str = "Repository-Id";
pub(super) const APP_NAME: &str = "App-Name";
pub(super) const DEPLOY_ID: &str = "Deploy-Id";
pub(super) const ROLLBACK_ID: &str = "Rollback-Id";
pub(super) const REMOVAL_ID: &str = "Removal-Id";

/// Makes any text one line of visible characters, cut to [`TEXT_LIMIT`].
///
/// Line ends of every kind become spaces, so that no trailer can be forged; characters that change
/// the direction of writing go too, since they make a log say something else than it holds.
fn one_line(text: &str) -> String {
    // A zero-width joiner joins two emoji to one and changes no direction.
    let is_hidden = |c: char| is_invisible(c) && c != '\u{200d}';
    let visible = |c: char| if c.is_control() || is_hidden(c) { ' ' } else { c };
    let clean: String = text.chars().take(TEXT_LIMIT * 4).map(visible).collect();
    let words: Vec<&str> = clean.split_whitespace().collect();
    words.join(" ").chars().take(TEXT_LIMIT).collect::<String>().trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::hand_edit::{EditCommit, EditedFile, HandEditKind};
    use crate::model::revision::Digest;

    fn message(actor: &str, reason: &str) -> String {
        message_over(actor, reason, None)
    }

    fn message_over(actor: &str, reason: &str, edit: Option<&HandEdit>) -> String {
        let revision = Revision {
            id: DeployId::parse("20261121-054812123-3f9a2c").unwrap(),
            app: AppKey { namespace: "devx".parse().unwrap(), slug: "my-app".parse().unwrap() },
            target: "prod-cluster-1".parse().unwrap(),
            files: Vec::new(),
            digest: Digest("sha256:ab".into()),
        };
        let note = Note {
            tag: "1.10".parse().unwrap(),
            repository: "weave-lab/my-app".parse().unwrap(),
            repository_number: Some(7),
            app_name: None,
            commit: "a".repeat(40).parse().unwrap(),
            actor: actor.into(),
            template: "backend-default@latest".into(),
            templates_commit: Some("b".repeat(40).parse().unwrap()),
            reason: reason.into(),
            fleet: None,
        };
        commit_message(&revision, &note, edit)
    }

    #[test]
    fn a_message_has_a_subject_and_its_trailers_in_order() {
        insta::assert_snapshot!(message("alice", "new button"), @"
        deploy devx/my-app 1.10 to prod-cluster-1

        Deploy-Id: 20261121-054812123-3f9a2c
        Repository: weave-lab/my-app
        Repository-Id: 7
        Commit: aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa
        Actor: alice
        Template: backend-default@latest
        Template-Commit: bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb
        Tree-Digest: sha256:ab
        Reason: new button
        ");
    }

    #[test]
    fn free_text_cannot_forge_a_trailer() {
        for end in ["\n", "\r\n", "\r", "\u{85}", "\u{2028}", "\u{2029}", "\u{b}", "\u{c}", "\0"] {
            let text = message(&format!("eve{end}Deploy-Id: x"), &format!("{end}{end}Actor: root"));
            let keys: Vec<_> = text.lines().skip(2).filter_map(|l| l.split_once(": ")).collect();
            assert_eq!(keys.iter().filter(|(key, _)| *key == "Deploy-Id").count(), 1, "{text:?}");
            assert_eq!(keys.iter().filter(|(key, _)| *key == "Actor").count(), 1, "{text:?}");
            assert!(!text.contains('\r') && !text.contains('\0'), "{text:?}");
        }
    }

    #[test]
    fn a_replaced_edit_is_said_and_forges_nothing() {
        let file = |name: &str| EditedFile { name: name.to_owned(), how: HandEditKind::Changed };
        let edit = HandEdit {
            replaced: true,
            push_failed: false,
            base: None,
            files: ["a.yaml", "b\nActor: root", "c", "d", "e", "f", "g"].map(file).into(),
            diff: "+secret".into(),
            commit: Some(EditCommit {
                id: "c".repeat(40).parse().unwrap(),
                author: "Jo\nActor: root".into(),
                at: jiff::Timestamp::UNIX_EPOCH,
            }),
        };
        let text = message_over("alice", "", Some(&edit));
        assert_eq!(
            text.lines().last(),
            Some(
                "Replaced-Edit: a.yaml (changed), b Actor: root (changed), c (changed), d (changed), \
                 e (changed) and 2 more, in cccccccccccc by Jo Actor: root"
            )
        );
    }

    #[test]
    fn an_empty_reason_is_left_out_and_a_long_one_is_cut() {
        assert!(!message("a", " \n ").contains("Reason"));
        let long = message("a", &"é ".repeat(10_000));
        assert!(long.lines().all(|line| line.chars().count() <= TEXT_LIMIT + 20));
    }

    #[test]
    fn a_message_is_recognised_by_its_deploy_id_and_not_by_its_subject_or_reason() {
        let id = DeployId::parse("20261121-054812123-3f9a2c").unwrap();
        assert!(is_of(&message("a", "b"), &id));
        let other = DeployId::parse("20261121-054812123-000000").unwrap();
        assert!(!is_of(&message("a", &format!("Deploy-Id: {other}")), &other));
    }

    #[test]
    fn a_removal_says_who_and_why_and_forges_nothing() {
        let message = CommitMessage::of_removal(&RemovalNote {
            id: DeployId::parse("20261121-054812123-3f9a2c").unwrap(),
            app: AppKey { namespace: "devx".parse().unwrap(), slug: "my-app".parse().unwrap() },
            target: "prod-cluster-1".parse().unwrap(),
            actor: "alice".into(),
            reason: "moved\nRemoval-Id: x".into(),
            digest: "sha256:ab".into(),
        });
        insta::assert_snapshot!(message.text, @"
        remove devx/my-app from prod-cluster-1

        Removal-Id: 20261121-054812123-3f9a2c
        Actor: alice
        Tree-Digest: sha256:ab
        Reason: moved Removal-Id: x
        ");
        assert!(is_of(&message.text, message.id.as_ref().unwrap()));
    }
}
