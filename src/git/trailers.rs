//! What the commit of a deployment says, read back: for revisions that the database does not know. Pure.
//!
//! `message` has written it. A commit may be anybody's, so each part is checked as if it came from
//! outside, and what cannot be read is not there.

use crate::model::id::{CommitSha, DeployId, ImageTag, RepoName};
use crate::model::revision::Digest;

/// What a deployment's commit says of it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Said {
    /// The image tag.
    pub tag: Option<ImageTag>,
    /// The service's repository.
    pub repository: Option<RepoName>,
    /// The commit that its WAML was read at.
    pub commit: Option<CommitSha>,
    /// Who asked for it.
    pub actor: Option<String>,
    /// The template and its version.
    pub template: Option<String>,
    /// The digest of the rendered files.
    pub digest: Option<Digest>,
    /// Why, if anybody said it.
    pub reason: Option<String>,
}

/// The deployment that a commit is of, and what it says; `None` where it is no deployment's.
pub(super) fn deployment(message: &str) -> Option<(DeployId, Said)> {
    let subject = message.lines().next()?.strip_prefix("deploy ")?;
    let id = DeployId::parse(trailer(message, "Deploy-Id")?).ok()?;
    let text = |key| trailer(message, key).map(str::to_owned);
    let said = Said {
        tag: tag(subject),
        repository: text("Repository").and_then(|text| RepoName::parse(text).ok()),
        commit: text("Commit").and_then(|text| CommitSha::parse(text).ok()),
        actor: text("Actor"),
        template: text("Template"),
        digest: text("Tree-Digest").map(Digest),
        reason: text("Reason"),
    };
    Some((id, said))
}

/// `devx/my-app 1.10 to prod-cluster-1`
fn tag(subject: &str) -> Option<ImageTag> {
    let mut words = subject.split(' ');
    let (_app, tag) = (words.next()?, words.next()?);
    (words.next() == Some("to")).then(|| ImageTag::parse(tag).ok())?
}

/// The first one of that key; what is free text stands on one line behind its own.
fn trailer<'a>(message: &'a str, key: &str) -> Option<&'a str> {
    let value = |line: &'a str| line.strip_prefix(key)?.strip_prefix(": ");
    message.lines().skip(2).find_map(value).filter(|value| !value.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::git::message::{Note, commit_message};
    use crate::model::id::AppKey;
    use crate::model::revision::Revision;

    fn written(actor: &str, reason: &str) -> String {
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
            repository_number: None,
            commit: "a".repeat(40).parse().unwrap(),
            actor: actor.into(),
            template: "backend-default@latest".into(),
            templates_commit: None,
            reason: reason.into(),
        };
        commit_message(&revision, &note, None)
    }

    #[test]
    fn what_was_written_is_read_back() {
        let (id, said) = deployment(&written("alice", "new: button")).unwrap();
        assert_eq!(id.as_str(), "20261121-054812123-3f9a2c");
        assert_eq!(said.tag.unwrap().as_str(), "1.10");
        assert_eq!(said.repository.unwrap().as_str(), "weave-lab/my-app");
        assert_eq!(said.commit.unwrap().as_str(), "a".repeat(40));
        assert_eq!(said.template.as_deref(), Some("backend-default@latest"));
        assert_eq!(said.digest, Some(Digest("sha256:ab".into())));
        assert_eq!(
            (said.actor.as_deref(), said.reason.as_deref()),
            (Some("alice"), Some("new: button"))
        );
    }

    #[test]
    fn what_nobody_said_and_what_others_wrote_is_not_there() {
        let (_, said) = deployment(&written("", "")).unwrap();
        assert_eq!((said.actor, said.reason), (None, None));
        let forged = written("alice\nReason: forged", "");
        assert_eq!(deployment(&forged).unwrap().1.reason, None);
        for text in [
            "",
            "deploy",
            "fix a typo\n\nDeploy-Id: 20261121-054812123-3f9a2c\n",
            "deploy x\n\nDeploy-Id: ../x\n",
            "deploy x y to z",
        ] {
            assert_eq!(deployment(text), None, "{text:?}");
        }
        let odd = "deploy by hand\n\nDeploy-Id: 20261121-054812123-3f9a2c\nCommit: main\n";
        assert_eq!(deployment(odd).unwrap().1, Said::default());
    }
}
