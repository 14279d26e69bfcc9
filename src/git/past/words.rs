//! What the words of a commit say was done. Pure.
//!
//! Anybody who may push can write such words: what is taken for ours names a folder that the commit
//! has (`super`), and is formed as [`message`](crate::git::message) forms it.

use jiff::Timestamp;

use crate::git::message::{DEPLOY_ID, REMOVAL_ID, REPOSITORY_NUMBER, ROLLBACK_ID};
use crate::model::deployment::Pushed;
use crate::model::event::NOBODY;
use crate::model::id::{
    AppKey, CommitSha, DeployId, ImageTag, Namespace, RepoName, Slug, TargetName,
};
use crate::model::past::{Deed, PastDeployment, time_of};
use crate::model::release::Release;
use crate::model::removal::{Ended, Removal, Taken};
use crate::model::revision::Digest;
use crate::model::rollback::{Rollback, TreeId};

/// A commit, as it is read.
pub(super) struct Words<'c> {
    pub(super) message: &'c str,
    pub(super) commit: CommitSha,
    pub(super) at: Timestamp,
}

/// What a commit says was done; `None` where it says nothing of that kind, and what is wrong with it
/// where it says it in words that are not ours.
pub(super) fn deed(words: &Words<'_>) -> Option<Result<Deed, String>> {
    if let Some(id) = trailer(words.message, DEPLOY_ID) {
        return Some(deployment(words, id).map(|it| Deed::Deployment(Box::new(it))));
    }
    if let Some(id) = trailer(words.message, ROLLBACK_ID) {
        return Some(rollback(words, id).map(|it| Deed::Deployment(Box::new(it))));
    }
    let id = trailer(words.message, REMOVAL_ID)?;
    Some(removal(words, id).map(|it| Deed::Removal(Box::new(it))))
}

fn deployment(words: &Words<'_>, id: &str) -> Result<PastDeployment, String> {
    let (what, target) = subject(words.message, "deploy ", " to ")?;
    let (app, tag) = what.rsplit_once(' ').ok_or("the subject names no tag")?;
    pushed(words, id, (app, target, tag))
}

/// `Revision` and `Replaces` are ids; what they were, their own commits say.
fn rollback(words: &Words<'_>, id: &str) -> Result<PastDeployment, String> {
    let (what, target) = subject(words.message, "roll ", " on ")?;
    let (app, tag) = what.rsplit_once(" back to ").ok_or("the subject names no tag")?;
    let to = trailer(words.message, "Revision").ok_or("it names no revision")?;
    let from = trailer(words.message, "Replaces").map(DeployId::parse).transpose();
    let one = pushed(words, id, (app, target, tag))?;
    let rollback = Rollback {
        with_data: false,
        with_fewer_pods: false,
        to: DeployId::parse(to).map_err(said)?,
        from: from.map_err(said)?,
        away: None,
        tree: TreeId(String::new()),
        reason: one.reason.clone(),
        hold: false,
    };
    Ok(PastDeployment { rollback: Some(rollback), ..one })
}

/// What deployments and rollbacks say alike.
fn pushed(
    words: &Words<'_>,
    id: &str,
    (app, target, tag): (&str, &str, &str),
) -> Result<PastDeployment, String> {
    let Words { message, commit, at } = words;
    let text = |key| trailer(message, key).unwrap_or_default().to_owned();
    let id = DeployId::parse(id).map_err(said)?;
    let received_at = asked_at(&id, *at);
    let templates_commit = trailer(message, "Template-Commit").map(CommitSha::parse);
    Ok(PastDeployment {
        id,
        app: app_key(app)?,
        target: TargetName::parse(target).map_err(said)?,
        release: Release {
            repository: RepoName::parse(text("Repository")).map_err(said)?,
            commit: CommitSha::parse(text("Commit")).map_err(said)?,
            tag: ImageTag::parse(tag).map_err(said)?,
        },
        repository_number: trailer(message, REPOSITORY_NUMBER).and_then(|text| text.parse().ok()),
        actor: somebody(text("Actor")),
        reason: text("Reason"),
        template: trailer(message, "Template").map(str::to_owned),
        templates_commit: templates_commit.transpose().map_err(said)?,
        pushed: Pushed {
            commit: commit.clone(),
            changed: true,
            digest: Digest(text("Tree-Digest")),
            files: Vec::new(),
        },
        rollback: None,
        received_at,
        // Commits know seconds only.
        finished_at: received_at.max(*at),
    })
}

fn removal(words: &Words<'_>, id: &str) -> Result<Removal, String> {
    let Words { message, commit, at } = words;
    let (app, target) = subject(message, "remove ", " from ")?;
    let id = DeployId::parse(id).map_err(said)?;
    let (app, target) = (app_key(app)?, TargetName::parse(target).map_err(said)?);
    let summary = format!("{app} is removed from {target}, commit {}", commit.short());
    Ok(Removal {
        asked_at: asked_at(&id, *at),
        id,
        target,
        app,
        actor: somebody(trailer(message, "Actor").unwrap_or_default().to_owned()),
        reason: trailer(message, "Reason").unwrap_or_default().to_owned(),
        taken: Taken {
            digest: trailer(message, "Tree-Digest").map(|digest| Digest(digest.to_owned())),
            ..Taken::default()
        },
        ended: Some(Ended { at: *at, commit: Some(commit.clone()), summary }),
    })
}

/// When it was asked for, as its id says: never after its commit, which knows seconds only. Whoever forges an
/// id would be the newest for ever.
fn asked_at(id: &DeployId, at: Timestamp) -> Timestamp {
    time_of(id).filter(|time| time.as_second() <= at.as_second()).unwrap_or(at)
}

/// The two ends of the first line.
fn subject<'m>(message: &'m str, begin: &str, between: &str) -> Result<(&'m str, &'m str), String> {
    let line = message.lines().next().unwrap_or_default();
    let rest = line.strip_prefix(begin).and_then(|rest| rest.rsplit_once(between));
    rest.ok_or_else(|| format!("its subject is not `{begin}…{between}…`"))
}

/// The value of a trailer; they begin behind the subject and an empty line.
fn trailer<'m>(message: &'m str, key: &str) -> Option<&'m str> {
    let of_it = |line: &'m str| line.strip_prefix(key)?.strip_prefix(": ");
    message.lines().skip(2).find_map(of_it).map(str::trim).filter(|value| !value.is_empty())
}

fn app_key(text: &str) -> Result<AppKey, String> {
    let (namespace, slug) = text.split_once('/').ok_or("the subject names no app")?;
    Ok(AppKey {
        namespace: Namespace::parse(namespace).map_err(said)?,
        slug: Slug::parse(slug).map_err(said)?,
    })
}

/// A commit without an actor is of nobody whom the forge knew.
fn somebody(actor: String) -> String {
    if actor.is_empty() { NOBODY.to_owned() } else { actor }
}

fn said(error: impl std::fmt::Display) -> String {
    error.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::git::message::{Message, Note, RemovalNote, RollbackNote, commit_message};
    use crate::model::revision::Revision;

    fn words(message: &str) -> Words<'_> {
        let at = "2026-11-21T05:48:15Z".parse().unwrap();
        Words { message, commit: CommitSha::parse("c".repeat(40)).unwrap(), at }
    }

    fn note() -> Note {
        Note {
            tag: "1.10".parse().unwrap(),
            repository: "weave-lab/my-app".parse().unwrap(),
            repository_number: Some(7),
            commit: "a".repeat(40).parse().unwrap(),
            actor: "alice".into(),
            template: "backend-default@latest".into(),
            templates_commit: Some("b".repeat(40).parse().unwrap()),
            reason: "new button".into(),
        }
    }

    fn deployed(note: &Note) -> String {
        let revision = Revision {
            id: DeployId::parse("20261121-054812123-3f9a2c").unwrap(),
            app: AppKey { namespace: "devx".parse().unwrap(), slug: "my-app".parse().unwrap() },
            target: "prod-cluster-1".parse().unwrap(),
            files: Vec::new(),
            digest: Digest("sha256:ab".into()),
        };
        commit_message(&revision, note, None)
    }

    #[test]
    fn a_deployments_words_are_read_as_they_were_written() {
        let note = note();
        let text = deployed(&note);
        let Some(Ok(Deed::Deployment(read))) = deed(&words(&text)) else { panic!("{text}") };
        assert_eq!(
            (read.app.to_string().as_str(), read.target.as_str()),
            ("devx/my-app", "prod-cluster-1")
        );
        assert_eq!(read.release.tag, note.tag);
        assert_eq!(
            (&read.release.repository, &read.release.commit),
            (&note.repository, &note.commit)
        );
        assert_eq!(read.repository_number, note.repository_number);
        assert_eq!((&read.actor, &read.reason), (&note.actor, &note.reason));
        assert_eq!(read.template.as_deref(), Some("backend-default@latest"));
        assert_eq!(read.templates_commit, note.templates_commit);
        assert_eq!(read.pushed.digest.0, "sha256:ab");
        assert_eq!(read.received_at.to_string(), "2026-11-21T05:48:12.123Z");
        assert_eq!(read.finished_at.to_string(), "2026-11-21T05:48:15Z");
        let silent = Note { actor: String::new(), reason: String::new(), ..note };
        let Some(Ok(Deed::Deployment(read))) = deed(&words(&deployed(&silent))) else { panic!() };
        assert_eq!((read.actor.as_str(), read.reason.as_str()), ("ghost", ""));
    }

    #[test]
    fn a_rollbacks_words_name_both_revisions() {
        let note = RollbackNote {
            id: DeployId::parse("20261121-060000000-3f9a2c").unwrap(),
            app: AppKey { namespace: "devx".parse().unwrap(), slug: "my-app".parse().unwrap() },
            target: "prod-cluster-1".parse().unwrap(),
            to: DeployId::parse("20261121-054812123-3f9a2c").unwrap(),
            from: Some(DeployId::parse("20261121-055812123-3f9a2c").unwrap()),
            tag: "1.10".parse().unwrap(),
            repository: "weave-lab/my-app".parse().unwrap(),
            repository_number: Some(7),
            commit: "a".repeat(40).parse().unwrap(),
            actor: "alice".into(),
            reason: "it was slow on Mondays".into(),
        };
        let message = Message::of_rollback(&note);
        let Some(Ok(Deed::Deployment(read))) = deed(&words(message.text())) else { panic!() };
        let rollback = read.rollback.unwrap();
        assert_eq!((rollback.to, rollback.from), (note.to, note.from));
        assert_eq!((read.release.tag, read.target, read.app), (note.tag, note.target, note.app));
        assert_eq!(rollback.reason, "it was slow on Mondays");
        assert_eq!(read.repository_number, Some(7));
    }

    #[test]
    fn an_id_from_after_its_commit_says_no_time() {
        let late = deployed(&note()).replace("20261121-054812123", "20991121-054812123");
        let Some(Ok(Deed::Deployment(read))) = deed(&words(&late)) else { panic!("{late}") };
        assert_eq!(read.received_at.to_string(), "2026-11-21T05:48:15Z");
        assert_eq!(read.finished_at, read.received_at);
    }

    #[test]
    fn a_removals_words_too() {
        let message = Message::of_removal(&RemovalNote {
            id: DeployId::parse("20261121-054812123-3f9a2c").unwrap(),
            app: AppKey { namespace: "devx".parse().unwrap(), slug: "my-app".parse().unwrap() },
            target: "prod-cluster-1".parse().unwrap(),
            actor: "alice".into(),
            reason: "moved".into(),
            digest: "sha256:ab".into(),
        });
        let Some(Ok(Deed::Removal(read))) = deed(&words(message.text())) else { panic!() };
        assert_eq!((read.actor.as_str(), read.reason.as_str()), ("alice", "moved"));
        assert_eq!(read.ended.unwrap().commit.unwrap().as_str(), "c".repeat(40));
    }

    #[test]
    fn other_peoples_commits_say_nothing_and_forged_ones_are_told() {
        assert!(deed(&words("fix the readme\n\nDeploy it soon\n")).is_none());
        assert!(deed(&words("Deploy-Id: 20261121-054812123-3f9a2c\n")).is_none(), "a subject");
        for (from, to) in [
            ("deploy devx/my-app 1.10 to", "bump devx/my-app 1.10 to"),
            ("devx/my-app", "devx/../my-app"),
            ("20261121-054812123-3f9a2c", "../../etc"),
            (" to prod-cluster-1", " to ../x"),
            ("weave-lab/my-app\n", "weave-lab\n"),
        ] {
            let forged = deployed(&note()).replace(from, to);
            assert!(matches!(deed(&words(&forged)), Some(Err(_))), "{forged}");
        }
    }
}
