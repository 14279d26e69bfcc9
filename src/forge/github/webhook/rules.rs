//! The rules for incoming events: repositories, environments, tasks, previews, and the image tag where the payload has
//! none. Pure.

use std::fmt;

use crate::forge::github::webhook::environments::Environments;
use crate::forge::github::webhook::field::ignore;
use crate::model::event::{UnusedPart, WebhookEvent};
use crate::model::id::{CommitSha, RepoName};
use crate::support::globs::{GlobError, GlobOptions, Globs};

/// The configured rules for incoming deployments.
#[derive(Debug, Clone)]
pub struct Rules {
    /// Repositories that may deploy.
    pub repositories: Repositories,
    /// Environments that may be deployed to.
    pub environments: Environments,
    /// The `task`s of deployments for the service; GitHub's default is `deploy`.
    pub tasks: Vec<String>,
    /// The image tag of a deployment whose payload names none.
    pub tag: TagRule,
    /// The pull requests that get a preview; `None` for none of them.
    pub previews: Option<PreviewRules>,
}

/// The pull requests that get a preview.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PreviewRules {
    /// True for pull requests from forks too: whoever opened one may read the manifests in its preview.
    pub forks: bool,
    /// Every pull request gets a check run, if only to say that there is nothing to preview; so
    /// that the check can be a required one.
    pub always: bool,
}

impl Rules {
    /// Returns the ignored event of a repository that may not deploy; `None` if it may.
    pub(super) fn not_allowed(&self, repository: &RepoName) -> Option<WebhookEvent> {
        let reason = || format!("repository {repository} is not among the allowed ones");
        (!self.repositories.allow(repository)).then(|| ignore(UnusedPart::Repository, reason()))
    }
}

impl Default for Rules {
    fn default() -> Self {
        Self {
            repositories: Repositories::any(),
            environments: Environments::any(),
            tasks: vec!["deploy".to_owned()],
            tag: TagRule::default(),
            previews: None,
        }
    }
}

/// The repositories that may deploy, as globs over `owner/name`.
#[derive(Debug, Clone, Default)]
pub struct Repositories(Globs);

impl Repositories {
    /// Allows every repository.
    pub fn any() -> Self {
        Self::default()
    }

    /// Returns the repositories that match one of the globs; `*` stops at the slash and letter case does not count, as
    /// in GitHub's own names.
    ///
    /// # Errors
    /// The first glob that cannot be read.
    pub fn matching<'a>(globs: impl IntoIterator<Item = &'a str>) -> Result<Self, GlobError> {
        Globs::parse_with(GlobOptions { ignore_case: true, literal_separator: true }, globs)
            .map(Self)
    }

    /// Returns the globs.
    pub fn globs(&self) -> &Globs {
        &self.0
    }

    /// Returns whether that repository may deploy.
    pub fn allow(&self, repository: &RepoName) -> bool {
        self.0.is_match(repository.as_str())
    }
}

/// The rule that derives an image tag from a deployment: a text with `{ref}`, `{sha}` or `{short_sha}` in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TagRule(Vec<Part>);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Part {
    Text(String),
    Ref,
    Sha,
    ShortSha,
}

/// The reason why a text is no tag rule.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TagRuleError {
    /// The name in braces is not a known one.
    #[error("`{{{name}}}` is not known: use {{ref}}, {{sha}} or {{short_sha}}")]
    Unknown {
        /// The name between the braces.
        name: String,
    },
    /// An opening brace without its closing one.
    #[error("a `{{` is not closed")]
    Unclosed,
    /// The text never changes from build to build.
    #[error("every deployment would get the same tag: use {{ref}}, {{sha}} or {{short_sha}}")]
    Constant,
}

impl Default for TagRule {
    fn default() -> Self {
        Self(vec![Part::Sha])
    }
}

impl TagRule {
    /// Reads a rule: `{sha}`, `v-{short_sha}`.
    ///
    /// # Errors
    /// [`TagRuleError`] with what to use instead.
    pub fn parse(text: &str) -> Result<Self, TagRuleError> {
        let mut parts = Vec::new();
        let mut rest = text;
        while let Some((before, after)) = rest.split_once('{') {
            let (name, after) = after.split_once('}').ok_or(TagRuleError::Unclosed)?;
            parts.extend([Part::Text(before.to_owned()), Part::parse_placeholder(name)?]);
            rest = after;
        }
        if parts.is_empty() {
            return Err(TagRuleError::Constant);
        }
        parts.push(Part::Text(rest.to_owned()));
        parts.retain(|part| *part != Part::Text(String::new()));
        Ok(Self(parts))
    }

    /// Returns the tag of a deployment of that commit; it may not be a legal one, with a `/` from a branch.
    pub fn apply(&self, git_ref: &str, commit: &CommitSha) -> String {
        self.fill(git_ref, commit.as_str(), commit.short())
    }

    fn fill(&self, git_ref: &str, sha: &str, short_sha: &str) -> String {
        let mut tag = String::new();
        for part in &self.0 {
            tag.push_str(match part {
                Part::Text(text) => text,
                Part::Ref => git_ref,
                Part::Sha => sha,
                Part::ShortSha => short_sha,
            });
        }
        tag
    }
}

impl fmt::Display for TagRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.fill("{ref}", "{sha}", "{short_sha}"))
    }
}

impl Part {
    fn parse_placeholder(name: &str) -> Result<Self, TagRuleError> {
        match name {
            "ref" => Ok(Self::Ref),
            "sha" => Ok(Self::Sha),
            "short_sha" => Ok(Self::ShortSha),
            _ => Err(TagRuleError::Unknown { name: name.to_owned() }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn globs_stop_at_the_slash_and_do_not_mind_letter_case() {
        let repositories = Repositories::matching(["weave-lab/*", "acme/shop-*"]).unwrap();
        let allow = |name: &str| repositories.allow(&RepoName::parse(name).unwrap());
        assert!(allow("weave-lab/my-app") && allow("Weave-Lab/My-App") && allow("acme/shop-web"));
        assert!(!allow("acme/other") && !allow("evil/weave-lab"));
        assert!(Repositories::any().allow(&RepoName::parse("a/b").unwrap()));
        let empty = Repositories::matching([]).unwrap();
        assert!(!empty.allow(&RepoName::parse("a/b").unwrap()), "an empty list allows nobody");
    }

    #[test]
    fn a_tag_rule_fills_in_the_ref_and_the_commit() {
        let commit = CommitSha::parse("0123456789abcdef0123456789abcdef01234567").unwrap();
        let tag = |rule: &str| TagRule::parse(rule).unwrap().apply("v1.10", &commit);
        assert_eq!(tag("{ref}"), "v1.10");
        assert_eq!(tag("{sha}"), commit.as_str());
        assert_eq!(tag("x-{ref}-sha.{short_sha}.y"), "x-v1.10-sha.01234567.y");
        assert_eq!(TagRule::parse("a{sha}b").unwrap().to_string(), "a{sha}b");
    }

    #[test]
    fn a_rule_that_cannot_work_is_refused_with_what_to_use() {
        let error_of = |rule: &str| TagRule::parse(rule).unwrap_err();
        assert_eq!(error_of("latest"), TagRuleError::Constant);
        assert_eq!(error_of(""), TagRuleError::Constant);
        assert_eq!(error_of("{sha"), TagRuleError::Unclosed);
        let unknown = error_of("{commit}").to_string();
        assert_eq!(unknown, "`{commit}` is not known: use {ref}, {sha} or {short_sha}");
    }
}
