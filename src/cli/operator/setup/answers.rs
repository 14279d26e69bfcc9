//! The answers of the setup: what flags, the file of answers and a person say. They hold no secret.

use std::fs;
use std::io::{ErrorKind, Read as _};
use std::path::{Path, PathBuf};

use clap::Args;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::cluster_answer::ClusterAnswer;
use crate::cli::error::CliError;
use crate::forge::github::app_manifest::MAX_APP_NAME;
use crate::forge::github::client::GITHUB_API;
use crate::support::host::is_encrypted_or_local;
use crate::support::secret_text::has_credentials;
use crate::support::text::refuse_invisible;
use crate::waml::{checked_reader, emit};

/// The file of answers in the setup's folder.
pub(super) const ANSWERS_FILE: &str = "answers.yaml";
/// The largest file that is read, in bytes.
const MAX_BYTES: u64 = 256 * 1024;
/// The longest answer, in bytes.
pub(super) const MAX_ANSWER: usize = 2048;

/// The answers; each has a flag of the same name.
#[derive(Debug, Clone, Default, PartialEq, Eq, Args, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(super) struct SetupAnswers {
    /// The address at which GitHub and people reach the service: `https://deployer.example.com`
    #[arg(long, value_name = "URL", help_heading = "Answers")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) service_url: Option<String>,
    /// The machine of the service: `machine` (this one), or `kubernetes` (the paths of deploy/kubernetes)
    #[arg(long, value_enum, help_heading = "Answers")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) runs_on: Option<RunsOn>,
    /// The API of GitHub. Default: `https://api.github.com`; an Enterprise Server's is `https://HOST/api/v3`
    #[arg(long, value_name = "URL", help_heading = "Answers")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) github_api: Option<String>,
    /// A file with the authorities that sign the certificates of that GitHub, as PEM
    #[arg(long, value_name = "FILE", help_heading = "Answers")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) ca: Option<PathBuf>,
    /// The organization that owns the App; empty for your own account
    #[arg(long, value_name = "NAME", help_heading = "Answers")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) organization: Option<String>,
    /// The name of the App, unique on its GitHub. Default: the-deployer
    #[arg(long, value_name = "NAME", help_heading = "Answers")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) app_name: Option<String>,
    /// A repository that may deploy, as a glob over OWNER/NAME; may be given several times. Default: the organization's
    #[arg(long = "repository", value_name = "GLOB", help_heading = "Answers")]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) repositories: Vec<String>,
    /// The manifest repository: an https address, or a path
    #[arg(long, value_name = "URL", help_heading = "Answers")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) manifests_url: Option<String>,
    /// Its branch that Argo CD follows. Default: main
    #[arg(long, value_name = "BRANCH", help_heading = "Answers")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) manifests_branch: Option<String>,
    /// A file with a token that may push there. Default: the App pushes
    #[arg(long, value_name = "FILE", help_heading = "Answers")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) manifests_token_file: Option<PathBuf>,
    /// The kubeconfig with the clusters. Default: the first file of `KUBECONFIG`, else ~/.kube/config
    #[arg(long, value_name = "FILE", help_heading = "Answers")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) kubeconfig: Option<PathBuf>,
    /// A cluster, of a context of the kubeconfig; may be given several times:
    /// context=prod,name=prod-cluster-1,environment=production,domain=prod.example.com. `server` is its address in an
    /// Argo CD that runs elsewhere; `watch=no` lets a deployment end when it is pushed. These clusters replace those of
    /// earlier runs: name all of them
    #[arg(long = "cluster", value_name = "KEY=VALUE,…", help_heading = "Answers")]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) clusters: Vec<ClusterAnswer>,
}

/// The machine of the service.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub(super) enum RunsOn {
    /// This machine, with the files of the setup's folder.
    #[default]
    Machine,
    /// A pod, with the paths of deploy/kubernetes.
    Kubernetes,
}

/// A question that a step may ask.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Question {
    ServiceUrl,
    Organization,
    AppName,
    ManifestsUrl,
}

impl Question {
    /// Returns the question as a person reads it.
    pub(super) fn text(self) -> &'static str {
        match self {
            Self::ServiceUrl => "the address at which GitHub and people will reach the service",
            Self::Organization => "the organization that owns the App (- for your own account)",
            Self::AppName => "the name of the App, unique on its GitHub",
            Self::ManifestsUrl => "the address of the manifest repository",
        }
    }

    /// Returns the flag that answers it.
    pub(super) fn flag(self) -> &'static str {
        match self {
            Self::ServiceUrl => "--service-url",
            Self::Organization => "--organization",
            Self::AppName => "--app-name",
            Self::ManifestsUrl => "--manifests-url",
        }
    }
}

impl SetupAnswers {
    /// Reads a file of answers; `None` if it does not exist.
    pub(super) fn read(path: &Path) -> Result<Option<Self>, CliError> {
        let mut text = String::new();
        let file = match fs::File::open(path) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            file => file.map_err(CliError::file("read", path))?,
        };
        file.take(MAX_BYTES).read_to_string(&mut text).map_err(CliError::file("read", path))?;
        if text.lines().all(|line| line.trim().is_empty() || line.starts_with('#')) {
            return Ok(Some(Self::default()));
        }
        let name = path.display().to_string();
        let answers: Self = checked_reader::read(&name, &text).map_err(|rejection| {
            CliError::usage(format!("the answers cannot be used: {rejection}"))
                .hint(format!("correct {name}, or remove it to be asked again"))
        })?;
        Ok(Some(answers))
    }

    /// Returns the file with these answers.
    pub(super) fn to_text(&self) -> String {
        let answers = serde_json::to_value(self).unwrap_or_default();
        format!(
            "# The answers of `the-deployer setup`, which reads them again. No secret is here.\n{}",
            emit::document(&answers)
        )
    }

    /// Returns these answers over those.
    pub(super) fn over(self, under: Self) -> Self {
        let list = |own: Vec<_>, other| if own.is_empty() { other } else { own };
        Self {
            service_url: self.service_url.or(under.service_url),
            runs_on: self.runs_on.or(under.runs_on),
            github_api: self.github_api.or(under.github_api),
            ca: self.ca.or(under.ca),
            organization: self.organization.or(under.organization),
            app_name: self.app_name.or(under.app_name),
            repositories: list(self.repositories, under.repositories),
            manifests_url: self.manifests_url.or(under.manifests_url),
            manifests_branch: self.manifests_branch.or(under.manifests_branch),
            manifests_token_file: self.manifests_token_file.or(under.manifests_token_file),
            kubeconfig: self.kubeconfig.or(under.kubeconfig),
            clusters: merge_clusters(self.clusters, under.clusters),
        }
    }

    /// Returns the answers in the form that is stored, or the first that cannot be used.
    pub(super) fn check(mut self) -> Result<Self, CliError> {
        if let Some(url) = self.service_url.take() {
            self.service_url = Some(check_answer(Question::ServiceUrl, &url)?);
        }
        if let Some(url) = self.github_api.take() {
            let url = url.trim_end_matches('/').to_owned();
            if has_credentials(&url) {
                // The address itself is not repeated: it has a secret.
                let message = "the address of GitHub's API has a user name or a password in it";
                return Err(CliError::usage(message).hint("--github-api: write it without"));
            }
            if !is_encrypted_or_local(&url) {
                let message = format!("{url:?} is no address of GitHub's API");
                let hint = "--github-api: https://api.github.com, or https://HOST/api/v3";
                return Err(CliError::usage(message).hint(hint));
            }
            self.github_api = Some(url);
        }
        if let Some(name) = self.organization.take() {
            self.organization = Some(check_answer(Question::Organization, &name)?);
        }
        if let Some(name) = self.app_name.take() {
            self.app_name = Some(check_answer(Question::AppName, &name)?);
        }
        if let Some(url) = self.manifests_url.take() {
            self.manifests_url = Some(check_answer(Question::ManifestsUrl, &url)?);
        }
        // A later run may be in another folder.
        let paths = [&mut self.ca, &mut self.kubeconfig, &mut self.manifests_token_file];
        for path in paths.into_iter().flatten() {
            *path = std::path::absolute(&*path).map_err(CliError::file("use", path))?;
        }
        for cluster in &self.clusters {
            cluster.check().map_err(|problem| CliError::usage(format!("--cluster: {problem}")))?;
        }
        for (n, cluster) in self.clusters.iter().enumerate() {
            if self.clusters.iter().take(n).any(|other| other.name == cluster.name) {
                let message = format!("--cluster: two clusters have the name {:?}", cluster.name);
                return Err(CliError::usage(message)
                    .hint(format!("give each its own name, with --cluster or in {ANSWERS_FILE}")));
            }
        }
        Ok(self)
    }

    /// Returns the API of GitHub, without a slash at its end.
    pub(super) fn api_url(&self) -> &str {
        self.github_api.as_deref().unwrap_or(GITHUB_API)
    }

    /// Returns the organization; `None` for the person's own account, or where nobody was asked.
    pub(super) fn organization(&self) -> Option<&str> {
        self.organization.as_deref().filter(|name| !name.is_empty())
    }

    pub(super) fn runs_on(&self) -> RunsOn {
        self.runs_on.unwrap_or_default()
    }

    pub(super) fn branch(&self) -> &str {
        self.manifests_branch.as_deref().unwrap_or("main")
    }

    /// Returns whether the App pushes to the manifest repository: then it needs the permission.
    pub(super) fn app_pushes(&self) -> bool {
        self.manifests_token_file.is_none()
    }

    /// Returns why a pod cannot have the manifest repository.
    pub(super) fn pod_repository_problem(&self) -> Option<String> {
        let url = self.manifests_url.as_deref().filter(|_| self.runs_on() == RunsOn::Kubernetes)?;
        let is_path = url.starts_with('/') || url.starts_with("file:");
        is_path.then(|| {
            format!("{url} is a path of this machine, which a pod does not have: name an https address with --manifests-url")
        })
    }

    /// Returns why a pod cannot watch the clusters: it is in one of them, and would watch that one in place of others.
    pub(super) fn pod_cluster_problem(&self) -> Option<String> {
        let clusters = self.clusters.iter().filter(|_| self.runs_on() == RunsOn::Kubernetes);
        let own: Vec<&ClusterAnswer> =
            clusters.filter(|cluster| cluster.watch && cluster.server.is_none()).collect();
        let (first, rest) = own.split_first()?;
        let is_one = rest.iter().all(|cluster| cluster.context == first.context);
        let names: Vec<&str> = own.iter().map(|cluster| cluster.name.as_str()).collect();
        (!is_one).then(|| {
            format!(
                "{}: the pod of the service is in one of these clusters, and would watch that one in place of the others; give \
                 the others `server=` with their address, or `watch=no`, with --cluster for every cluster or in {ANSWERS_FILE}",
                names.join(", ")
            )
        })
    }

    /// Returns the questions of a list without an answer.
    pub(super) fn open_questions(&self, questions: &[Question]) -> Vec<Question> {
        questions.iter().copied().filter(|question| !self.is_answered(*question)).collect()
    }

    fn is_answered(&self, question: Question) -> bool {
        match question {
            Question::ServiceUrl => self.service_url.is_some(),
            Question::Organization => self.organization.is_some(),
            Question::AppName => self.app_name.is_some(),
            Question::ManifestsUrl => self.manifests_url.is_some(),
        }
    }

    /// Returns the answer that a person only confirms.
    pub(super) fn default_answer(&self, question: Question) -> Option<String> {
        match question {
            Question::ServiceUrl | Question::Organization => None,
            Question::AppName => {
                let name = self.organization().map(|owner| format!("the-deployer-{owner}"));
                name.filter(|name| name.len() <= MAX_APP_NAME).or(Some("the-deployer".to_owned()))
            }
            Question::ManifestsUrl => {
                let web = crate::forge::github::address::web_url(self.api_url());
                self.organization().map(|owner| format!("{web}/{owner}/manifests.git"))
            }
        }
    }

    /// Stores an answer, or says why it cannot be used.
    pub(super) fn answer(&mut self, question: Question, text: &str) -> Result<(), CliError> {
        let answer = check_answer(question, text)?;
        let field = match question {
            Question::ServiceUrl => &mut self.service_url,
            Question::Organization => &mut self.organization,
            Question::AppName => &mut self.app_name,
            Question::ManifestsUrl => &mut self.manifests_url,
        };
        *field = Some(answer);
        Ok(())
    }
}

/// Returns the first list, unless it is empty; a cluster keeps the version that was noted of it.
fn merge_clusters(own: Vec<ClusterAnswer>, under: Vec<ClusterAnswer>) -> Vec<ClusterAnswer> {
    if own.is_empty() {
        return under;
    }
    let with_version = |cluster: ClusterAnswer| {
        let is_same =
            |other: &&ClusterAnswer| other.name == cluster.name && other.context == cluster.context;
        let version = under.iter().find(is_same).and_then(|other| other.version.clone());
        ClusterAnswer { version: cluster.version.clone().or(version), ..cluster }
    };
    own.into_iter().map(with_version).collect()
}

/// Returns the answer in the form that is stored. Pure.
fn check_answer(question: Question, text: &str) -> Result<String, CliError> {
    let text = text.trim();
    let refuse = |problem: String, example: &str| {
        Err(CliError::usage(problem).hint(format!("{}: {example}", question.flag())))
    };
    if text.len() > MAX_ANSWER {
        return refuse("the answer is too long".to_owned(), "shorten it");
    }
    if has_credentials(text) {
        // The answer itself is not repeated: it has a secret.
        let problem = "the answer has a user name or a password in it".to_owned();
        return refuse(problem, "write it without; the App or a token's file authenticates");
    }
    match question {
        Question::ServiceUrl => {
            let url = reqwest::Url::parse(text).ok();
            let is_plain = |url: &reqwest::Url| {
                url.query().is_none() && url.fragment().is_none() && url.path() == "/"
            };
            if !is_encrypted_or_local(text) || !url.as_ref().is_some_and(is_plain) {
                let problem = format!("{text:?} is no https address of a host");
                return refuse(problem, "https://deployer.example.com");
            }
            Ok(text.trim_end_matches('/').to_owned())
        }
        Question::Organization => {
            let name = if text == "-" { "" } else { text };
            let is_legal = |b: u8| b.is_ascii_alphanumeric() || b == b'-' || b == b'_';
            if name.len() > 100 || !name.bytes().all(is_legal) {
                let problem = format!("{name:?} is no name of an organization on GitHub");
                return refuse(problem, "example, as in https://github.com/example");
            }
            Ok(name.to_owned())
        }
        Question::AppName => {
            if text.is_empty() || text.chars().count() > MAX_APP_NAME {
                let problem = format!("the name of an App has 1 to {MAX_APP_NAME} characters");
                return refuse(problem, "the-deployer-example");
            }
            if let Err(problem) = refuse_invisible("the name of the App", text) {
                return refuse(problem, "the-deployer-example");
            }
            Ok(text.to_owned())
        }
        Question::ManifestsUrl => {
            if text.is_empty() || text.chars().any(char::is_control) {
                let problem = "this is no address of a repository".to_owned();
                return refuse(problem, "https://github.com/example/manifests.git");
            }
            let is_address = text.contains("://") || text.contains(':');
            let path = std::path::absolute(text).ok().filter(|_| !is_address);
            Ok(path.map_or_else(|| text.to_owned(), |path| path.display().to_string()))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_that_cannot_be_used_says_so_and_repeats_no_secret() {
        use Question::{AppName, ManifestsUrl, Organization, ServiceUrl};
        for (question, text, expected) in [
            (ServiceUrl, " https://deployer.example.com/ ", Some("https://deployer.example.com")),
            (ServiceUrl, "http://127.0.0.1:8080", Some("http://127.0.0.1:8080")),
            (ServiceUrl, "http://deployer.example.com", None),
            (ServiceUrl, "https://deployer.example.com/path", None),
            (ServiceUrl, "https://me:hunter2@deployer.example.com", None),
            (ServiceUrl, "http://me:hunter2@deployer.example.com/path", None),
            (Organization, "https://me:hunter2@github.com/acme", None),
            (ServiceUrl, "deployer.example.com", None),
            (Organization, "-", Some("")),
            (Organization, "acme", Some("acme")),
            (Organization, "acme/x", None),
            (Organization, "a\u{202e}b", None),
            (AppName, "", None),
            (AppName, &"x".repeat(35), None),
            (AppName, "a\u{202e}b", None),
            (ManifestsUrl, "https://me:hunter2@git.example.com/m.git", None),
            (ManifestsUrl, "/srv/git/m.git", Some("/srv/git/m.git")),
            (ManifestsUrl, "a\nb", None),
        ] {
            match (check_answer(question, text), expected) {
                (Ok(answer), Some(expected)) => assert_eq!(answer, expected),
                (Err(error), None) => {
                    assert!(!error.whole().contains("hunter2"), "{}", error.whole());
                    assert!(error.whole().contains(question.flag()), "{}", error.whole());
                }
                (result, _) => panic!("{question:?} {text:?}: {result:?}"),
            }
        }
    }

    #[test]
    fn two_clusters_have_two_names() {
        let cluster = |context: &str| -> ClusterAnswer {
            let rest = "name=a,environment=production,domain=a.example.com";
            format!("context={context},{rest}").parse().unwrap()
        };
        let clusters = vec![cluster("x"), cluster("y")];
        let answers = SetupAnswers { clusters, ..SetupAnswers::default() };
        assert!(answers.check().unwrap_err().whole().contains("two clusters have the name \"a\""));
    }

    #[test]
    fn an_api_with_a_password_is_refused_without_it() {
        let github_api = Some("https://me:hunter2@github.example.com/api/v3".to_owned());
        let error = SetupAnswers { github_api, ..SetupAnswers::default() }.check().unwrap_err();
        assert!(!error.whole().contains("hunter2"), "{}", error.whole());
        assert!(error.whole().contains("--github-api"), "{}", error.whole());
    }

    #[test]
    fn a_pod_has_no_path_of_this_machine_and_is_in_one_cluster() {
        let cluster = |text: &str| -> ClusterAnswer {
            format!("{text},environment=production,domain=x.example.com").parse().unwrap()
        };
        let mut answers = SetupAnswers {
            runs_on: Some(RunsOn::Kubernetes),
            manifests_url: Some("/srv/m.git".to_owned()),
            clusters: vec![cluster("context=a,name=a-1"), cluster("context=a,name=a-2")],
            ..SetupAnswers::default()
        };
        assert!(answers.pod_repository_problem().unwrap().contains("/srv/m.git"));
        assert_eq!(answers.pod_cluster_problem(), None, "one cluster, two targets");
        answers.clusters.push(cluster("context=b,name=b"));
        let problem = answers.pod_cluster_problem().unwrap();
        assert!(problem.contains("server=") && problem.contains("watch=no"), "{problem}");
        answers.runs_on = None;
        assert_eq!(answers.pod_cluster_problem(), None);
        assert_eq!(answers.pod_repository_problem(), None);
        answers.runs_on = Some(RunsOn::Kubernetes);
        for rest in [",server=https://10.0.0.2", ",watch=no"] {
            answers.clusters[2] = cluster(&format!("context=b,name=b{rest}"));
            assert_eq!(answers.pod_cluster_problem(), None, "{rest}");
        }
    }

    #[test]
    fn flags_go_over_the_file_and_the_file_reads_back() {
        let file = SetupAnswers {
            service_url: Some("https://a.example.com".to_owned()),
            organization: Some(String::new()),
            repositories: vec!["acme/*".to_owned()],
            ..SetupAnswers::default()
        };
        let flags = SetupAnswers {
            service_url: Some("https://b.example.com".to_owned()),
            ..SetupAnswers::default()
        };
        let merged = flags.over(file);
        assert_eq!(merged.service_url.as_deref(), Some("https://b.example.com"));
        assert_eq!(merged.repositories, ["acme/*"]);
        let read: SetupAnswers = checked_reader::read("answers.yaml", &merged.to_text()).unwrap();
        assert_eq!(read, merged);
    }
}
