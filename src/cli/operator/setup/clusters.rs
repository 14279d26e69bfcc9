//! The step `clusters`: chooses contexts of the kubeconfig, and asks each cluster for its version and the permission to
//! watch it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::action::{SetupAction, StepPlan};
use super::answers::{RunsOn, SetupAnswers};
use super::cluster_answer::{
    ClusterAnswer, check_domain, check_environment, check_name, to_target_name,
};
use super::configuration_text::is_own_cluster;
use super::file_change::FileChange;
use super::prompt::Prompter;
use super::session::SetupSession;
use crate::cli::error::CliError;
use crate::cli::output;
use crate::cluster::connection::access::{AccessProblem, check_access, fetch_version};
use crate::cluster::connection::client::ClusterConnection;
use crate::cluster::connection::kubeconfig::{ContextSummary, UserCredential, list_contexts};
use crate::cluster::connection::settings::ClusterAccess;
use crate::model::id::TargetName;
use crate::model::kubernetes::KubernetesVersion;
use crate::support::clock::Clock;

/// The permissions of the service in a cluster that it watches, after the namespace of its account.
const WATCH_RBAC: &str = concat!(
    include_str!("../../../../deploy/kubernetes/base/namespace.yaml"),
    "---\n",
    include_str!("../../../../deploy/kubernetes/watch/rbac.yaml"),
);
/// The file with them.
pub(super) const RBAC_FILE: &str = "watch-rbac.yaml";
/// The time for all questions to one cluster.
const PATIENCE: Duration = Duration::from_secs(30);

/// What the kubeconfig and its clusters say.
#[derive(Debug)]
pub(super) struct ClusterFacts {
    pub(super) kubeconfig: PathBuf,
    /// The kubeconfig, where `kubectl` reads another one by itself.
    pub(super) named_kubeconfig: Option<PathBuf>,
    /// The contexts, or why there are none.
    pub(super) contexts: Result<Vec<ContextSummary>, String>,
    /// The answers of the clusters that are watched, by the target's name.
    pub(super) probes: BTreeMap<String, ClusterProbe>,
    /// The file with the permissions, where it is to be written.
    pub(super) rbac: Option<FileChange>,
}

/// The answers of a cluster.
#[derive(Debug, Clone)]
pub(super) struct ClusterProbe {
    /// Its version of Kubernetes, or why it cannot be asked.
    pub(super) version: Result<String, String>,
    /// The permissions that a watch lacks: `list pods`.
    pub(super) denied: Vec<String>,
}

/// Reads the kubeconfig, and asks the clusters of the answers.
pub(super) async fn gather(session: &SetupSession) -> Result<ClusterFacts, CliError> {
    let kubeconfig = session.kubeconfig();
    let contexts = list_contexts(&kubeconfig).map_err(|error| error.to_string());
    let mut probes = BTreeMap::new();
    if let Ok(contexts) = &contexts {
        let is_there = |cluster: &&ClusterAnswer| {
            cluster.watch && contexts.iter().any(|context| context.name == cluster.context)
        };
        let clusters = session.answers.clusters.iter().filter(is_there);
        let asks = clusters.map(async |cluster| {
            (cluster.name.clone(), probe(session, &kubeconfig, &cluster.context).await)
        });
        probes = futures::future::join_all(asks).await.into_iter().collect();
    }
    let is_watched = session.answers.clusters.iter().any(|cluster| cluster.watch);
    let about = "a ServiceAccount that may watch and change nothing";
    let rbac = if is_watched {
        FileChange::compare(&session.folder, RBAC_FILE, about, WATCH_RBAC.to_owned())?
    } else {
        None
    };
    let named_kubeconfig = session.named_kubeconfig();
    Ok(ClusterFacts { kubeconfig, named_kubeconfig, contexts, probes, rbac })
}

async fn probe(session: &SetupSession, file: &Path, context: &str) -> ClusterProbe {
    let access = ClusterAccess::Kubeconfig { file: file.into(), context: Some(context.to_owned()) };
    let connection = ClusterConnection::new(access, session.outbound.clone(), Clock::system());
    let ask = async {
        let version = fetch_version(&connection).await;
        let problems = if version.is_ok() { check_access(&connection).await } else { Vec::new() };
        (version, problems)
    };
    let Ok((version, problems)) = tokio::time::timeout(PATIENCE, ask).await else {
        let version = Err(format!("no answer within {} s", PATIENCE.as_secs()));
        return ClusterProbe { version, denied: Vec::new() };
    };
    let mut probe = ClusterProbe { version, denied: Vec::new() };
    for problem in problems {
        match problem {
            AccessProblem::Unreachable(reason) => probe.version = Err(reason),
            AccessProblem::Denied { kind, verbs } => {
                probe.denied.push(format!("{} {}", verbs.join("/"), kind.resource()));
            }
        }
    }
    probe
}

/// Decides what is left to do. Pure.
pub(super) fn plan(answers: &SetupAnswers, facts: &ClusterFacts, directory: &str) -> StepPlan {
    let contexts = match &facts.contexts {
        Ok(contexts) => contexts,
        Err(problem) => {
            return StepPlan::blocked(format!("{problem}; name another with --kubeconfig"));
        }
    };
    let mut plan = StepPlan::default();
    if answers.clusters.is_empty() {
        let names: Vec<&str> = contexts.iter().map(|context| context.name.as_str()).collect();
        let text = format!(
            "which contexts of {} are clusters to deploy to (--cluster): {}",
            facts.kubeconfig.display(),
            names.join(", ")
        );
        plan.add(SetupAction::ChooseClusters(text));
        return plan;
    }
    if let Some(problem) = answers.pod_cluster_problem() {
        plan.add(SetupAction::Blocked(problem));
    }
    for cluster in &answers.clusters {
        plan_cluster(&mut plan, (answers, directory), cluster, contexts, facts);
    }
    if let Some(change) = &facts.rbac {
        plan.add(SetupAction::Write(change.clone()));
    }
    plan
}

fn plan_cluster(
    plan: &mut StepPlan,
    (answers, directory): (&SetupAnswers, &str),
    cluster: &ClusterAnswer,
    contexts: &[ContextSummary],
    facts: &ClusterFacts,
) {
    let ClusterAnswer { name, context, .. } = cluster;
    let Some(summary) = contexts.iter().find(|summary| summary.name == *context) else {
        let names: Vec<&str> = contexts.iter().map(|one| one.name.as_str()).collect();
        let file = facts.kubeconfig.display();
        return plan.add(SetupAction::Blocked(format!(
            "{name}: {file} has no context {context:?}; it has {}",
            names.join(", ")
        )));
    };
    if !cluster.watch {
        let text =
            format!("{name}: context {context}, not watched: a deployment ends when it is pushed");
        return plan.add(SetupAction::Done(text));
    }
    let Some(probe) = facts.probes.get(name) else { return };
    match &probe.version {
        Err(problem) => plan.add(SetupAction::Blocked(format!(
            "{name} (context {context}, {}) cannot be asked: {problem}; correct it, or do not watch the cluster (`watch=no`)",
            summary.server
        ))),
        Ok(version) => {
            let text = format!("{name}: context {context}, {}, Kubernetes {version}", summary.server);
            plan.add(SetupAction::Done(text));
            if cluster.version.is_none()
                && let Some(version) = KubernetesVersion::parse(version).filter(|version| version.is_known())
                && let Ok(name) = TargetName::parse(name.as_str())
            {
                plan.add(SetupAction::RecordVersion(name, version.to_string()));
            }
        }
    }
    if !probe.denied.is_empty() {
        plan.add(SetupAction::Person(format!(
            "{name}: the context's user may not {}; {RBAC_FILE} has an account that may",
            probe.denied.join(", ")
        )));
    }
    let kubectl = kubectl(facts.named_kubeconfig.as_deref(), Some(context));
    let file = shell_word(&format!("{directory}/{RBAC_FILE}"));
    let apply = format!("  {kubectl} apply -f {file}");
    plan.add(SetupAction::Person(explain_credential(answers, cluster, summary, &apply)));
}

/// Says what the service uses of a context, and what is better.
fn explain_credential(
    answers: &SetupAnswers,
    cluster: &ClusterAnswer,
    summary: &ContextSummary,
    apply: &str,
) -> String {
    let name = &cluster.name;
    if answers.runs_on() == RunsOn::Kubernetes {
        return if is_own_cluster(cluster) {
            format!(
                "{name}: the pod of the service gets the account of {RBAC_FILE}, as the last step says:\n{apply}"
            )
        } else {
            format!(
                "{name}: a pod has no kubeconfig; let an agent report the cluster (docs/clusters.md, Agent)"
            )
        };
    }
    let credential = match &summary.credential {
        UserCredential::Token => "a token".to_owned(),
        UserCredential::Certificate => "a client certificate, which ends some day".to_owned(),
        UserCredential::Plugin(command) => {
            format!("the program `{command}`, which must be where the service runs")
        }
        UserCredential::Password => "a password".to_owned(),
        UserCredential::None => "no credential".to_owned(),
    };
    format!(
        "{name}: the service reads the context itself: {credential}, with the rights of its user. An account that may only watch \
         is better (docs/clusters.md, Permissions):\n{apply}"
    )
}

/// Returns the start of a `kubectl` command of a kubeconfig and a context.
pub(super) fn kubectl(kubeconfig: Option<&Path>, context: Option<&str>) -> String {
    let file = kubeconfig.map(|file| file.display().to_string());
    let options = [("kubeconfig", file.as_deref()), ("context", context)];
    let mut command = "kubectl".to_owned();
    for (name, value) in options {
        if let Some(value) = value {
            command += &format!(" --{name} {}", shell_word(value));
        }
    }
    command
}

/// Writes a word for a shell.
pub(super) fn shell_word(text: &str) -> String {
    let is_plain = |b: u8| b.is_ascii_alphanumeric() || b"-_./:@%+=,".contains(&b);
    if !text.is_empty() && text.bytes().all(is_plain) {
        return text.to_owned();
    }
    format!("'{}'", text.replace('\'', r"'\''"))
}

/// Asks for clusters: contexts, and for each its name, kind and domain.
pub(super) async fn choose(
    session: &mut SetupSession,
    prompter: &mut Prompter,
) -> Result<(), CliError> {
    let contexts = list_contexts(&session.kubeconfig()).map_err(CliError::failed)?;
    output::note("\n");
    for (n, context) in contexts.iter().enumerate() {
        output::note(&format!("    {:>2}  {}  {}\n", n + 1, context.name, context.server));
    }
    let indices = loop {
        let question = "the clusters to deploy to: numbers, with commas between them";
        let answer = prompter.ask(question, (contexts.len() == 1).then_some("1")).await?;
        match read_numbers(&answer, contexts.len()) {
            Some(indices) => break indices,
            None => output::note(&format!("    write numbers from 1 to {}\n", contexts.len())),
        }
    };
    for context in indices.into_iter().filter_map(|index| contexts.get(index)) {
        let cluster = ask_cluster(prompter, context, &session.answers.clusters).await?;
        session.answers.clusters.push(cluster);
    }
    Ok(())
}

async fn ask_cluster(
    prompter: &mut Prompter,
    context: &ContextSummary,
    others: &[ClusterAnswer],
) -> Result<ClusterAnswer, CliError> {
    let default = to_target_name(&context.name);
    let question = format!("the name of {} in WAMLs and on GitHub", context.name);
    let check = |name: &str| {
        if others.iter().any(|other| other.name == name) {
            return Err(format!("another cluster has the name {name:?}"));
        }
        check_name(name)
    };
    let name = prompter.ask_valid(&question, default.as_deref(), check).await?;
    let question = "its kind: production or development";
    let environment = prompter.ask_valid(question, Some("production"), check_environment).await?;
    let question = "the domain of its apps, such as prod.example.com";
    let domain = prompter.ask_valid(question, None, check_domain).await?;
    let (context, watch) = (context.name.clone(), true);
    Ok(ClusterAnswer { context, name, environment, domain, watch, ..ClusterAnswer::default() })
}

/// Reads numbers of a list, each once; `None` where one is of nothing.
fn read_numbers(text: &str, count: usize) -> Option<Vec<usize>> {
    let mut indices = Vec::new();
    for word in text.split([',', ' ']).filter(|word| !word.is_empty()) {
        let number: usize = word.parse().ok().filter(|number| (1..=count).contains(number))?;
        if !indices.contains(&(number - 1)) {
            indices.push(number - 1);
        }
    }
    (!indices.is_empty()).then_some(indices)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts(version: Result<String, String>, credential: UserCredential) -> ClusterFacts {
        let (name, server) = ("kind-prod".to_owned(), "https://10.0.0.1:6443".to_owned());
        let probe = ClusterProbe { version, denied: Vec::new() };
        ClusterFacts {
            kubeconfig: "/home/me/.kube/config".into(),
            named_kubeconfig: None,
            contexts: Ok(vec![ContextSummary { name, server, credential }]),
            probes: [("prod-1".to_owned(), probe)].into(),
            rbac: None,
        }
    }

    fn answers(cluster: &str) -> SetupAnswers {
        SetupAnswers { clusters: vec![cluster.parse().unwrap()], ..SetupAnswers::default() }
    }

    const CLUSTER: &str =
        "context=kind-prod,name=prod-1,environment=production,domain=p.example.com";

    #[test]
    fn a_cluster_that_answers_is_recorded_with_a_version_that_is_known() {
        let facts = |version: &str| facts(Ok(version.to_owned()), UserCredential::Certificate);
        let plan = |version| plan(&answers(CLUSTER), &facts(version), "deployer");
        let name = TargetName::parse("prod-1").unwrap();
        let record = SetupAction::RecordVersion(name, "1.33".to_owned());
        assert!(plan("1.33").actions.contains(&record), "{:?}", plan("1.33"));
        assert!(!plan("1.99").render().contains("note that"));
        assert!(plan("1.33").render().contains("client certificate"), "{}", plan("1.33").render());
    }

    #[test]
    fn a_command_names_the_kubeconfig_that_was_read() {
        let mut facts = facts(Ok("1.33".to_owned()), UserCredential::Token);
        let text = |facts: &ClusterFacts| plan(&answers(CLUSTER), facts, "d").render();
        assert!(text(&facts).contains("kubectl --context kind-prod apply"), "{}", text(&facts));
        facts.named_kubeconfig = Some("/home/me/my clusters".into());
        let command = "kubectl --kubeconfig '/home/me/my clusters' --context kind-prod apply";
        assert!(text(&facts).contains(command), "{}", text(&facts));
    }

    #[test]
    fn a_cluster_that_does_not_answer_stops_unless_it_is_not_watched() {
        let silent = facts(Err("no answer within 30 s".to_owned()), UserCredential::Token);
        let blocked = plan(&answers(CLUSTER), &silent, "deployer");
        assert!(blocked.obstacle().unwrap().contains("watch=no"), "{blocked:?}");
        assert_eq!(
            plan(&answers(&format!("{CLUSTER},watch=no")), &silent, "deployer").obstacle(),
            None
        );
        let other = CLUSTER.replace("kind-prod", "lost");
        let missing = plan(&answers(&other), &silent, "deployer");
        assert!(missing.obstacle().unwrap().contains("it has kind-prod"), "{missing:?}");
    }

    #[test]
    fn the_permissions_come_after_the_namespace_of_their_account() {
        let kinds: Vec<&str> =
            WATCH_RBAC.lines().filter_map(|line| line.strip_prefix("kind: ")).collect();
        assert_eq!(kinds.first(), Some(&"Namespace"));
        assert!(kinds.contains(&"ServiceAccount"), "{kinds:?}");
    }

    #[test]
    fn numbers_of_a_list_are_read_and_a_context_is_one_word_of_a_shell() {
        assert_eq!(read_numbers("2, 1,2", 2), Some(vec![1, 0]));
        for text in ["", "0", "3", "a", "1;2"] {
            assert_eq!(read_numbers(text, 2), None, "{text}");
        }
        assert_eq!(shell_word("arn:aws:eks:eu/prod"), "arn:aws:eks:eu/prod");
        assert_eq!(shell_word("a; rm -rf '~'"), r"'a; rm -rf '\''~'\'''");
    }
}
