//! Preview environments: workloads of others whose annotations name a commit, and what the code host is told of them.
//!
//! Annotations are text that anyone with rights in a cluster writes. [`EnvironmentRules::read`] is the one place where
//! they become values: the form is strict, and the configuration says which repositories they may name.

use std::fmt;

use sha2::{Digest as _, Sha256};

use crate::model::id::{CommitSha, RepoName, TargetName};
use crate::model::words::words;
use crate::support::globs::Globs;
use crate::support::percent::encode_segment;
use crate::support::text::{reveal_invisible, truncate_chars};

/// The length of a commit id on GitHub.
const SHA_DIGITS: usize = 40;
/// The largest number of a pull request: GitHub's are 32 bits long.
const MAX_NUMBER: i64 = i32::MAX as i64;
/// The longest link, in bytes.
pub const LINK_BYTES: usize = 1000;
/// The longest context of a commit status, in bytes: GitHub stores no longer one.
const CONTEXT_BYTES: usize = 255;
/// The characters of a foreign text in an error.
const EXCERPT_CHARS: usize = 60;

/// The rules for workloads of others in one cluster.
#[derive(Debug, Clone, Default)]
pub struct EnvironmentRules {
    /// A repository must match each of these.
    repositories: Vec<Globs>,
    link: Option<LinkTemplate>,
}

/// The address of a preview environment, with names in braces: `https://{namespace}.preview.example.com`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LinkTemplate(String);

/// The reason why a text is no template of a link.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LinkTemplateError {
    /// The name in braces is not a known one.
    #[error(
        "`{{{0}}}` is not known: use {{cluster}}, {{namespace}}, {{name}}, {{pull_request}} or {{commit}}"
    )]
    Unknown(String),
    /// An opening brace without its closing one.
    #[error("a `{{` is not closed")]
    Unclosed,
    /// It is no address of the web.
    #[error("this is not an address that begins with https:// or http://")]
    Address,
}

/// A workload of somebody, as the cluster names it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct WorkloadName {
    /// `Deployment`.
    pub kind: String,
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

/// The annotations of a workload, as the cluster has them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EnvironmentAnnotations<'a> {
    /// `the-deployer.dev/repository`
    pub repository: &'a str,
    /// `the-deployer.dev/commit`
    pub commit: &'a str,
    /// `the-deployer.dev/pull-request`
    pub pull_request: Option<&'a str>,
    /// `the-deployer.dev/link`
    pub link: Option<&'a str>,
}

/// A commit that a workload names, in a repository that it may name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EnvironmentCommit {
    /// The repository, in lower case: letter case does not count in GitHub's names.
    pub repository: RepoName,
    /// The commit.
    pub commit: CommitSha,
    /// The pull request that gets a comment.
    pub pull_request: Option<i64>,
    /// The address of the environment, for people.
    pub link: Option<String>,
}

/// The reason why the service says nothing about a workload of others.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EnvironmentError {
    /// It names no repository.
    #[error("the annotation `the-deployer.dev/repository` is {0:?}: write it as OWNER/NAME")]
    Repository(String),
    /// It names no commit.
    #[error(
        "the annotation `the-deployer.dev/commit` is {0:?}: write the full 40 lower-case hexadecimal digits"
    )]
    Commit(String),
    /// It names no pull request.
    #[error("the annotation `the-deployer.dev/pull-request` is {0:?}: write its number, as in 12")]
    PullRequest(String),
    /// Its repository is not among the allowed ones.
    #[error(
        "{0} is not allowed: add it to `progress.previews.repositories` of the cluster and to \
         `forge.github.repositories`"
    )]
    NotAllowed(RepoName),
}

words! {
    /// The state of a commit on a workload of others.
    pub enum EnvironmentState {
        /// Its pods are not all there yet.
        Waiting = "waiting",
        /// All its pods are there and serve.
        Ready = "ready",
        /// It was given up.
        Failed = "failed",
        /// Another commit came before it was ready.
        Superseded = "superseded",
        /// The workload was deleted before it was ready.
        Removed = "removed",
    }
}

/// A report about a commit on a workload of others.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EnvironmentReport {
    /// The workload.
    pub workload: WorkloadName,
    /// The commit that it carries.
    pub commit: EnvironmentCommit,
    /// `Waiting`, `Ready` or `Failed`.
    pub state: EnvironmentState,
    /// One sentence for people.
    pub sentence: String,
    /// The number of causes against it so far: each is told.
    pub causes: usize,
    /// People hear of it. What was ready before the service first saw it is counted, and not told.
    pub announced: bool,
}

/// A change of a workload of others.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EnvironmentChange {
    /// It carries a commit, and stands so.
    Report(Box<EnvironmentReport>),
    /// It names no commit any more that the service speaks of.
    Withdrawn(WorkloadName),
    /// It is gone, and its records with it.
    Deleted(WorkloadName),
}

/// A commit on a workload of others, as it is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EnvironmentWorkload {
    /// The cluster.
    pub cluster: TargetName,
    /// The workload.
    pub workload: WorkloadName,
    /// The commit.
    pub commit: EnvironmentCommit,
    /// The context of its commit status.
    pub context: String,
    /// Its state.
    pub state: EnvironmentState,
    /// One sentence for people.
    pub sentence: String,
    /// People hear of it.
    pub announced: bool,
    /// The time at which the service first saw the commit on the workload, in milliseconds since the epoch.
    pub first_at: i64,
    /// The time at which its last rollout was first seen.
    pub began_at: i64,
    /// The time at which that rollout ended.
    pub ended_at: Option<i64>,
}

impl EnvironmentRules {
    /// Adds globs that a repository must match as well.
    #[must_use]
    pub fn also(mut self, repositories: Globs) -> Self {
        self.repositories.push(repositories);
        self
    }

    /// Returns the rules with a template of links for workloads that carry none.
    #[must_use]
    pub fn with_link(self, link: Option<LinkTemplate>) -> Self {
        Self { link, ..self }
    }

    /// Reads the annotations of a workload. A link that is no address of the web is left out.
    ///
    /// # Errors
    /// [`EnvironmentError`]: what is wrong, and what to write.
    pub fn read(
        &self,
        cluster: &TargetName,
        workload: &WorkloadName,
        annotations: EnvironmentAnnotations<'_>,
    ) -> Result<EnvironmentCommit, EnvironmentError> {
        let EnvironmentAnnotations { repository, commit, pull_request, link } = annotations;
        let repository = RepoName::parse(repository.to_ascii_lowercase())
            .ok()
            .filter(|name| !name.is_retired())
            .ok_or_else(|| EnvironmentError::Repository(excerpt(repository)))?;
        let commit = CommitSha::parse(commit)
            .ok()
            .filter(|commit| commit.as_str().len() == SHA_DIGITS)
            .ok_or_else(|| EnvironmentError::Commit(excerpt(commit)))?;
        let pull_request = pull_request
            .map(|text| {
                parse_number(text).ok_or_else(|| EnvironmentError::PullRequest(excerpt(text)))
            })
            .transpose()?;
        if !self.repositories.iter().all(|globs| globs.is_match(repository.as_str())) {
            return Err(EnvironmentError::NotAllowed(repository));
        }
        let link = link.filter(|link| is_web_address(link)).map(str::to_owned);
        let link = link.or_else(|| {
            let template = self.link.as_ref()?;
            template.fill(cluster, workload, &commit, pull_request)
        });
        Ok(EnvironmentCommit { repository, commit, pull_request, link })
    }
}

impl LinkTemplate {
    /// Reads a template.
    ///
    /// # Errors
    /// [`LinkTemplateError`]
    pub fn parse(text: &str) -> Result<Self, LinkTemplateError> {
        let template = Self(text.to_owned());
        let sample = template.replace(|name| match name {
            "cluster" | "namespace" | "name" | "pull_request" | "commit" => Some("x".to_owned()),
            _ => None,
        })?;
        if is_web_address(&sample) { Ok(template) } else { Err(LinkTemplateError::Address) }
    }

    /// Fills in the names of a workload; `None` where the template wants a pull request and there is none, or the
    /// address would be too long.
    fn fill(
        &self,
        cluster: &TargetName,
        workload: &WorkloadName,
        commit: &CommitSha,
        pull_request: Option<i64>,
    ) -> Option<String> {
        let value = |name: &str| match name {
            "cluster" => Some(encode_segment(cluster.as_str())),
            "namespace" => Some(encode_segment(&workload.namespace)),
            "name" => Some(encode_segment(&workload.name)),
            "commit" => Some(commit.as_str().to_owned()),
            "pull_request" => pull_request.map(|number| number.to_string()),
            _ => None,
        };
        self.replace(value).ok().filter(|link| is_web_address(link))
    }

    fn replace(&self, value: impl Fn(&str) -> Option<String>) -> Result<String, LinkTemplateError> {
        let (mut out, mut rest) = (String::new(), self.0.as_str());
        while let Some((before, after)) = rest.split_once('{') {
            let (name, after) = after.split_once('}').ok_or(LinkTemplateError::Unclosed)?;
            out.push_str(before);
            out.push_str(&value(name).ok_or_else(|| LinkTemplateError::Unknown(excerpt(name)))?);
            rest = after;
        }
        out.push_str(rest);
        Ok(out)
    }
}

impl WorkloadName {
    /// Reads `Deployment/devx/my-app`, as it is stored.
    pub fn parse(text: &str) -> Option<Self> {
        let mut parts = text.splitn(3, '/').map(str::to_owned);
        Some(Self { kind: parts.next()?, namespace: parts.next()?, name: parts.next()? })
    }

    /// Returns the context of its commit status: one for each workload of each cluster. One that would be too long
    /// ends with a digest of the whole.
    pub fn context(&self, cluster: &TargetName) -> String {
        let Self { kind, namespace, name } = self;
        let kind = kind.to_ascii_lowercase();
        let context = format!("the-deployer/preview/{cluster}/{namespace}/{kind}/{name}");
        if context.len() <= CONTEXT_BYTES {
            return context;
        }
        let digest = hex::encode(Sha256::digest(&context).get(..8).unwrap_or_default());
        let end = context.floor_char_boundary(CONTEXT_BYTES.saturating_sub(digest.len() + 1));
        format!("{}-{digest}", context.get(..end).unwrap_or_default())
    }
}

/// Writes `Deployment/devx/my-app`.
impl fmt::Display for WorkloadName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}/{}", self.kind, self.namespace, self.name)
    }
}

impl EnvironmentReport {
    /// Returns the word of what people are to be told; `None` for nothing. The same word is told once.
    pub fn news(&self) -> Option<String> {
        let word = self.state.as_str();
        let news = match (self.state, self.causes) {
            (EnvironmentState::Waiting, 1..) => format!("{word}:{}", self.causes),
            _ => word.to_owned(),
        };
        self.announced.then_some(news)
    }
}

/// Reads a decimal number without signs and leading zeros.
fn parse_number(text: &str) -> Option<i64> {
    let is_plain = text.bytes().all(|b| b.is_ascii_digit()) && !text.starts_with('0');
    text.parse().ok().filter(|number| is_plain && (1..=MAX_NUMBER).contains(number))
}

/// Checks that a text is an address of the web that cannot be anything else in Markdown or HTML: of visible ASCII
/// characters, with a host, without credentials.
fn is_web_address(text: &str) -> bool {
    let rest = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://"));
    let Some(rest) = rest.filter(|_| text.len() <= LINK_BYTES) else { return false };
    let host = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let is_of_host = |b: u8| b.is_ascii_alphanumeric() || b"-.:[]".contains(&b);
    let is_safe = |b: u8| b.is_ascii_graphic() && !b"<>\"'`\\|^{}".contains(&b);
    host.bytes().any(|b| b.is_ascii_alphanumeric())
        && host.bytes().all(is_of_host)
        && rest.bytes().all(is_safe)
}

/// Returns the beginning of a foreign text, for an error.
fn excerpt(text: &str) -> String {
    reveal_invisible(&truncate_chars(text, EXCERPT_CHARS)).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHA: &str = "0123456789abcdef0123456789abcdef01234567";

    fn workload(name: &str) -> WorkloadName {
        WorkloadName {
            kind: "Deployment".to_owned(),
            namespace: "pr-12".to_owned(),
            name: name.to_owned(),
        }
    }

    fn annotations<'a>() -> EnvironmentAnnotations<'a> {
        EnvironmentAnnotations {
            repository: "Acme/Web",
            commit: SHA,
            pull_request: Some("12"),
            link: None,
        }
    }

    fn read_with(
        rules: &EnvironmentRules,
        annotations: EnvironmentAnnotations<'_>,
    ) -> Result<EnvironmentCommit, EnvironmentError> {
        rules.read(&TargetName::parse("dev").unwrap(), &workload("web"), annotations)
    }

    fn read(
        annotations: EnvironmentAnnotations<'_>,
    ) -> Result<EnvironmentCommit, EnvironmentError> {
        read_with(&EnvironmentRules::default(), annotations)
    }

    #[test]
    fn letter_case_of_a_repository_does_not_count() {
        let commit = read(annotations()).unwrap();
        assert_eq!(commit.repository.as_str(), "acme/web");
        assert_eq!((commit.pull_request, commit.link), (Some(12), None));
    }

    #[test]
    fn only_the_exact_form_of_an_annotation_is_read() {
        let long = "a".repeat(100_000);
        for repository in ["", "web", "acme/web/x", "acme/../x", "-acme/former-1", "a b/c", &long] {
            let refused = read(EnvironmentAnnotations { repository, ..annotations() });
            let error = refused.unwrap_err();
            assert!(matches!(error, EnvironmentError::Repository(_)), "{repository:.20}");
            assert!(error.to_string().len() < 300, "{error}");
        }
        let upper = SHA.to_uppercase();
        let sha256 = format!("{SHA}{}", "0".repeat(24));
        for commit in ["", "main", "0123456", &upper, &sha256, &long] {
            let refused = read(EnvironmentAnnotations { commit, ..annotations() });
            assert!(matches!(refused, Err(EnvironmentError::Commit(_))), "{commit:.20}");
        }
        for number in ["", "0", "-1", "+1", "012", "1.5", "12a", "99999999999", "１２", &long] {
            let pull_request = Some(number);
            let refused = read(EnvironmentAnnotations { pull_request, ..annotations() });
            assert!(matches!(refused, Err(EnvironmentError::PullRequest(_))), "{number:.20}");
        }
    }

    #[test]
    fn a_repository_must_be_allowed_by_the_service_and_by_the_cluster() {
        let globs = |text: &str| Globs::parse([text]).unwrap();
        let rules = EnvironmentRules::default().also(globs("acme/*")).also(globs("*/web"));
        assert!(read_with(&rules, annotations()).is_ok());
        for repository in ["acme/shop", "evil/web"] {
            let refused = read_with(&rules, EnvironmentAnnotations { repository, ..annotations() });
            assert!(matches!(refused, Err(EnvironmentError::NotAllowed(_))), "{repository}");
        }
    }

    #[test]
    fn a_link_is_an_address_of_the_web_or_left_out() {
        let link_of = |link: &str| {
            read(EnvironmentAnnotations { link: Some(link), ..annotations() }).unwrap().link
        };
        for link in ["https://pr-12.example.com", "http://[::1]:8080/a?b=c#d"] {
            assert_eq!(link_of(link).as_deref(), Some(link));
        }
        let long = format!("https://a.io/{}", "x".repeat(1000));
        for link in [
            "",
            "javascript:alert(1)",
            "https://",
            "https:///x",
            "https://user:pass@a.io",
            "HTTPS://a.io",
            "https://a.io/ x",
            "https://a.io/>x",
            "https://a.io/`x",
            "https://a.io/\u{202e}",
            "ftp://a.io",
            "https://a.io\n@x",
            &long,
        ] {
            assert_eq!(link_of(link), None, "{link:.60}");
        }
    }

    #[test]
    fn the_template_gives_a_link_where_there_is_none() {
        let template =
            LinkTemplate::parse("https://{namespace}.example.com/{pull_request}").unwrap();
        let rules = EnvironmentRules::default().with_link(Some(template));
        let link = read_with(&rules, annotations()).unwrap().link;
        assert_eq!(link.as_deref(), Some("https://pr-12.example.com/12"));
        let own = Some("https://own.example.com");
        let link = read_with(&rules, EnvironmentAnnotations { link: own, ..annotations() });
        assert_eq!(link.unwrap().link.as_deref(), own);
        let without = EnvironmentAnnotations { pull_request: None, ..annotations() };
        assert_eq!(read_with(&rules, without).unwrap().link, None);
        for (text, error) in [
            ("https://{nmespace}.io", LinkTemplateError::Unknown("nmespace".to_owned())),
            ("https://{namespace", LinkTemplateError::Unclosed),
            ("{namespace}.io", LinkTemplateError::Address),
        ] {
            assert_eq!(LinkTemplate::parse(text), Err(error));
        }
    }

    #[test]
    fn a_context_is_bounded_and_differs_from_each_other() {
        let cluster = TargetName::parse("dev").unwrap();
        let short = workload("web").context(&cluster);
        assert_eq!(short, "the-deployer/preview/dev/pr-12/deployment/web");
        let long = |end: &str| workload(&format!("{}{end}", "a".repeat(252))).context(&cluster);
        assert_eq!(long("b").len(), 255);
        assert_ne!(long("b"), long("c"));
    }
}
