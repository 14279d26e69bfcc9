//! The reader of commit messages and their trailers. Pure.
//!
//! `message` has written them. Anybody who may push can write such words too: each part is checked as if it came from
//! outside, and a record counts as the service's only if it names a folder that the commit has (`history`).

use std::str::FromStr;

use jiff::Timestamp;

use crate::git::message::{
    APP_NAME, DEPLOY_ID, FLEET, FLEET_DEPLOY_ID, REMOVAL_ID, REPOSITORY_NUMBER, ROLLBACK_ID,
};
use crate::model::commit_record::{CommitRecord, PastDeployment, time_of};
use crate::model::deployment::Pushed;
use crate::model::event::GHOST;
use crate::model::id::{AppKey, AppName, CommitSha, DeployId, ImageTag, RepoName, TargetName};
use crate::model::release::Release;
use crate::model::removal::{RemovalEnd, RemovalRecord, RemovedObjects};
use crate::model::revision::Digest;
use crate::model::rollback::{Rollback, TreeId};

/// The trailers of a deployment's commit.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RevisionTrailers {
    /// The image tag.
    pub tag: Option<ImageTag>,
    /// The service's repository.
    pub repository: Option<RepoName>,
    /// The app, where the repository has several.
    pub app_name: Option<AppName>,
    /// The commit that its WAML was read at.
    pub commit: Option<CommitSha>,
    /// The actor of the deployment.
    pub actor: Option<String>,
    /// The template and its version.
    pub template: Option<String>,
    /// The digest of the rendered files.
    pub digest: Option<Digest>,
    /// The reason, if one was given.
    pub reason: Option<String>,
}

/// Reads the deployment of a commit, with its trailers; `None` where it is no deployment's.
pub(in crate::git) fn read_deployment(message: &str) -> Option<(DeployId, RevisionTrailers)> {
    let subject = message.lines().next()?.strip_prefix("deploy ")?;
    let id = DeployId::parse(trailer(message, DEPLOY_ID)?).ok()?;
    let text = |key| trailer(message, key).map(str::to_owned);
    let trailers = RevisionTrailers {
        tag: tag(subject),
        repository: trailer(message, "Repository").and_then(|text| text.parse().ok()),
        app_name: trailer(message, APP_NAME).and_then(|text| text.parse().ok()),
        commit: trailer(message, "Commit").and_then(|text| text.parse().ok()),
        actor: text("Actor"),
        template: text("Template"),
        digest: text("Tree-Digest").map(Digest),
        reason: text("Reason"),
    };
    Some((id, trailers))
}

/// Reads the tag of a subject: `devx/my-app 1.10 to prod-cluster-1`.
fn tag(subject: &str) -> Option<ImageTag> {
    let mut words = subject.split(' ');
    let (_app, tag) = (words.next()?, words.next()?);
    (words.next() == Some("to")).then(|| ImageTag::parse(tag).ok())?
}

/// A commit, as it is read.
pub(in crate::git) struct Trailers<'c> {
    pub(in crate::git) message: &'c str,
    pub(in crate::git) commit: CommitSha,
    pub(in crate::git) at: Timestamp,
}

/// Reads the record of a commit; `None` where it has none, and the fault where its words are not the service's.
pub(in crate::git) fn parse_record(words: &Trailers<'_>) -> Option<Result<CommitRecord, String>> {
    if let Some(id) = trailer(words.message, DEPLOY_ID) {
        return Some(
            deployment(words, id).map(|deployment| CommitRecord::Deployment(Box::new(deployment))),
        );
    }
    if let Some(id) = trailer(words.message, ROLLBACK_ID) {
        return Some(
            rollback(words, id).map(|deployment| CommitRecord::Deployment(Box::new(deployment))),
        );
    }
    let id = trailer(words.message, REMOVAL_ID)?;
    Some(removal(words, id).map(|removal| CommitRecord::Removal(Box::new(removal))))
}

fn deployment(words: &Trailers<'_>, id: &str) -> Result<PastDeployment, String> {
    let (app_and_tag, target) = subject(words.message, "deploy ", " to ")?;
    let (app, tag) = app_and_tag.rsplit_once(' ').ok_or("the subject names no tag")?;
    read_pushed(words, id, (app, target, tag))
}

/// Reads a rollback. `Revision` and `Replaces` are ids; the commits of these have the rest.
fn rollback(words: &Trailers<'_>, id: &str) -> Result<PastDeployment, String> {
    let (app_and_tag, target) = subject(words.message, "roll ", " on ")?;
    let (app, tag) = app_and_tag.rsplit_once(" back to ").ok_or("the subject names no tag")?;
    let to = trailer(words.message, "Revision").ok_or("it names no revision")?;
    let from = trailer(words.message, "Replaces").map(parse).transpose()?;
    let deployment = read_pushed(words, id, (app, target, tag))?;
    let rollback = Rollback {
        with_data: false,
        with_fewer_pods: false,
        undoes: None,
        replaces: None,
        only_from: false,
        to: parse(to)?,
        from,
        away: None,
        tree: TreeId(String::new()),
        reason: deployment.reason.clone(),
        hold: false,
    };
    Ok(PastDeployment { rollback: Some(rollback), ..deployment })
}

/// Reads what deployments and rollbacks say alike.
fn read_pushed(
    words: &Trailers<'_>,
    id: &str,
    (app, target, tag): (&str, &str, &str),
) -> Result<PastDeployment, String> {
    let Trailers { message, commit, at } = words;
    let text = |key| trailer(message, key).unwrap_or_default().to_owned();
    let id = parse(id)?;
    let received_at = request_time(&id, *at);
    Ok(PastDeployment {
        id,
        app: app_key(app)?,
        target: parse(target)?,
        release: Release {
            repository: parse(&text("Repository"))?,
            app: trailer(message, APP_NAME).map(parse).transpose()?,
            commit: parse(&text("Commit"))?,
            tag: parse(tag)?,
        },
        repository_number: trailer(message, REPOSITORY_NUMBER).and_then(|text| text.parse().ok()),
        actor: actor_or_ghost(text("Actor")),
        reason: text("Reason"),
        template: trailer(message, "Template").map(str::to_owned),
        templates_commit: trailer(message, "Template-Commit").map(parse).transpose()?,
        pushed: Pushed {
            commit: commit.clone(),
            changed: true,
            digest: Digest(text("Tree-Digest")),
            files: Vec::new(),
        },
        rollback: None,
        fleet: match (trailer(message, FLEET_DEPLOY_ID), trailer(message, FLEET)) {
            (Some(id), Some(name)) => Some((parse(id)?, parse(name)?)),
            _ => None,
        },
        received_at,
        // Commits know seconds only.
        finished_at: received_at.max(*at),
    })
}

fn removal(words: &Trailers<'_>, id: &str) -> Result<RemovalRecord, String> {
    let Trailers { message, commit, at } = words;
    let text = |key| trailer(message, key).unwrap_or_default().to_owned();
    let (app, target) = subject(message, "remove ", " from ")?;
    let id = parse(id)?;
    let (app, target): (_, TargetName) = (app_key(app)?, parse(target)?);
    let summary = format!("{app} is removed from {target}, commit {}", commit.short());
    Ok(RemovalRecord {
        asked_at: request_time(&id, *at),
        id,
        target,
        app,
        actor: actor_or_ghost(text("Actor")),
        reason: text("Reason"),
        taken: RemovedObjects {
            digest: trailer(message, "Tree-Digest").map(|digest| Digest(digest.to_owned())),
            ..RemovedObjects::default()
        },
        ended: Some(RemovalEnd { at: *at, commit: Some(commit.clone()), summary }),
    })
}

/// Reads the time of the request from its id: never after its commit, which has seconds only. A forged id would be the
/// newest for ever.
fn request_time(id: &DeployId, at: Timestamp) -> Timestamp {
    time_of(id).filter(|time| time.as_second() <= at.as_second()).unwrap_or(at)
}

/// Returns the two ends of the first line.
fn subject<'m>(message: &'m str, begin: &str, between: &str) -> Result<(&'m str, &'m str), String> {
    let line = message.lines().next().unwrap_or_default();
    let rest = line.strip_prefix(begin).and_then(|rest| rest.rsplit_once(between));
    rest.ok_or_else(|| format!("its subject is not `{begin}…{between}…`"))
}

/// Returns the value of a trailer; they begin behind the subject and an empty line.
fn trailer<'m>(message: &'m str, key: &str) -> Option<&'m str> {
    let of_it = |line: &'m str| line.strip_prefix(key)?.strip_prefix(": ");
    message.lines().skip(2).find_map(of_it).map(str::trim).filter(|value| !value.is_empty())
}

fn app_key(text: &str) -> Result<AppKey, String> {
    let (namespace, slug) = text.split_once('/').ok_or("the subject names no app")?;
    Ok(AppKey { namespace: parse(namespace)?, slug: parse(slug)? })
}

/// Returns the actor; a commit without one has an actor that the code host did not know.
fn actor_or_ghost(actor: String) -> String {
    if actor.is_empty() { GHOST.to_owned() } else { actor }
}

fn parse<T: FromStr<Err: std::fmt::Display>>(text: &str) -> Result<T, String> {
    text.parse().map_err(|error: T::Err| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::git::message::{CommitMessage, Note, RemovalNote, RollbackNote, commit_message};
    use crate::model::revision::Revision;

    fn words(message: &str) -> Trailers<'_> {
        let at = "2026-11-21T05:48:15Z".parse().unwrap();
        Trailers { message, commit: CommitSha::parse("c".repeat(40)).unwrap(), at }
    }

    fn note() -> Note {
        Note {
            tag: "1.10".parse().unwrap(),
            repository: "weave-lab/my-app".parse().unwrap(),
            repository_number: Some(7),
            app_name: Some("worker".parse().unwrap()),
            commit: "a".repeat(40).parse().unwrap(),
            actor: "alice".into(),
            template: "backend-default@latest".into(),
            templates_commit: Some("b".repeat(40).parse().unwrap()),
            reason: "new button".into(),
            fleet: None,
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
        let Some(Ok(CommitRecord::Deployment(deployment))) = parse_record(&words(&text)) else {
            panic!("{text}")
        };
        assert_eq!(
            (deployment.app.to_string().as_str(), deployment.target.as_str()),
            ("devx/my-app", "prod-cluster-1")
        );
        assert_eq!(deployment.release.tag, note.tag);
        assert_eq!(
            (&deployment.release.repository, &deployment.release.commit),
            (&note.repository, &note.commit)
        );
        assert_eq!(deployment.repository_number, note.repository_number);
        assert_eq!((&deployment.actor, &deployment.reason), (&note.actor, &note.reason));
        assert_eq!(deployment.template.as_deref(), Some("backend-default@latest"));
        assert_eq!(deployment.templates_commit, note.templates_commit);
        assert_eq!(deployment.pushed.digest.0, "sha256:ab");
        assert_eq!(deployment.received_at.to_string(), "2026-11-21T05:48:12.123Z");
        assert_eq!(deployment.finished_at.to_string(), "2026-11-21T05:48:15Z");
        let silent = Note { actor: String::new(), reason: String::new(), ..note };
        let Some(Ok(CommitRecord::Deployment(deployment))) =
            parse_record(&words(&deployed(&silent)))
        else {
            panic!()
        };
        assert_eq!((deployment.actor.as_str(), deployment.reason.as_str()), ("ghost", ""));
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
            app_name: Some("worker".parse().unwrap()),
            commit: "a".repeat(40).parse().unwrap(),
            actor: "alice".into(),
            reason: "it was slow on Mondays".into(),
            fleet: None,
        };
        let message = CommitMessage::of_rollback(&note);
        let Some(Ok(CommitRecord::Deployment(deployment))) = parse_record(&words(&message.text))
        else {
            panic!()
        };
        let rollback = deployment.rollback.unwrap();
        assert_eq!((rollback.to, rollback.from), (note.to, note.from));
        assert_eq!(
            (deployment.release.tag, deployment.target, deployment.app),
            (note.tag, note.target, note.app)
        );
        assert_eq!(rollback.reason, "it was slow on Mondays");
        assert_eq!(deployment.repository_number, Some(7));
        assert_eq!(deployment.release.app, note.app_name);
    }

    #[test]
    fn an_id_from_after_its_commit_says_no_time() {
        let late = deployed(&note()).replace("20261121-054812123", "20991121-054812123");
        let Some(Ok(CommitRecord::Deployment(deployment))) = parse_record(&words(&late)) else {
            panic!("{late}")
        };
        assert_eq!(deployment.received_at.to_string(), "2026-11-21T05:48:15Z");
        assert_eq!(deployment.finished_at, deployment.received_at);
    }

    #[test]
    fn a_removals_words_too() {
        let message = CommitMessage::of_removal(&RemovalNote {
            id: DeployId::parse("20261121-054812123-3f9a2c").unwrap(),
            app: AppKey { namespace: "devx".parse().unwrap(), slug: "my-app".parse().unwrap() },
            target: "prod-cluster-1".parse().unwrap(),
            actor: "alice".into(),
            reason: "moved".into(),
            digest: "sha256:ab".into(),
        });
        let Some(Ok(CommitRecord::Removal(removal))) = parse_record(&words(&message.text)) else {
            panic!()
        };
        assert_eq!((removal.actor.as_str(), removal.reason.as_str()), ("alice", "moved"));
        assert_eq!(removal.ended.unwrap().commit.unwrap().as_str(), "c".repeat(40));
    }

    #[test]
    fn other_peoples_commits_say_nothing_and_forged_ones_are_told() {
        assert!(parse_record(&words("fix the readme\n\nDeploy it soon\n")).is_none());
        assert!(
            parse_record(&words("Deploy-Id: 20261121-054812123-3f9a2c\n")).is_none(),
            "a subject"
        );
        for (from, to) in [
            ("deploy devx/my-app 1.10 to", "bump devx/my-app 1.10 to"),
            ("devx/my-app", "devx/../my-app"),
            ("20261121-054812123-3f9a2c", "../../etc"),
            (" to prod-cluster-1", " to ../x"),
            ("weave-lab/my-app\n", "weave-lab\n"),
        ] {
            let forged = deployed(&note()).replace(from, to);
            assert!(matches!(parse_record(&words(&forged)), Some(Err(_))), "{forged}");
        }
    }

    fn written(actor: &str, reason: &str) -> String {
        deployed(&Note { actor: actor.into(), reason: reason.into(), ..note() })
    }

    #[test]
    fn what_was_written_is_read_back() {
        let (id, trailers) = read_deployment(&written("alice", "new: button")).unwrap();
        assert_eq!(id.as_str(), "20261121-054812123-3f9a2c");
        assert_eq!(trailers.tag.unwrap().as_str(), "1.10");
        assert_eq!(trailers.repository.unwrap().as_str(), "weave-lab/my-app");
        assert_eq!(trailers.commit.unwrap().as_str(), "a".repeat(40));
        assert_eq!(trailers.template.as_deref(), Some("backend-default@latest"));
        assert_eq!(trailers.digest, Some(Digest("sha256:ab".into())));
        assert_eq!(
            (trailers.actor.as_deref(), trailers.reason.as_deref()),
            (Some("alice"), Some("new: button"))
        );
    }

    #[test]
    fn what_nobody_said_and_what_others_wrote_is_not_there() {
        let (_, trailers) = read_deployment(&written("", "")).unwrap();
        assert_eq!((trailers.actor, trailers.reason), (None, None));
        let forged = written("alice\nReason: forged", "");
        assert_eq!(read_deployment(&forged).unwrap().1.reason, None);
        for text in [
            "",
            "deploy",
            "fix a typo\n\nDeploy-Id: 20261121-054812123-3f9a2c\n",
            "deploy x\n\nDeploy-Id: ../x\n",
            "deploy x y to z",
        ] {
            assert_eq!(read_deployment(text), None, "{text:?}");
        }
        let odd = "deploy by hand\n\nDeploy-Id: 20261121-054812123-3f9a2c\nCommit: main\n";
        assert_eq!(read_deployment(odd).unwrap().1, RevisionTrailers::default());
    }
}
