//! `the-deployer agent` reports what happens in a cluster to a service that cannot reach it.

use std::path::PathBuf;

use clap::Args;
use tokio_util::sync::CancellationToken;

use super::serve::on_signal;
use crate::agent::{AgentTimes, ClusterAgent, ReportClient, ReportTarget};
use crate::cli::error::{CliError, CommandOutcome};
use crate::cluster::connection::client::ClusterConnection;
use crate::cluster::connection::settings::ClusterAccess;
use crate::cluster::relay::sender::ReportLimits;
use crate::cluster::watch::schedule::WatchLimits;
use crate::config;
use crate::config::cluster_agent::in_cluster_access;
use crate::config::secret::{self, SecretSource};
use crate::model::id::TargetName;
use crate::support::clock::Clock;
use crate::support::credential::Credential;
use crate::support::http::{OutboundHttp, read_authorities};
use crate::support::telemetry::{self, LogFormat};

/// Reports what happens in a cluster to a service that cannot reach its API server, until SIGTERM or SIGINT.
///
/// Run it as a pod of the cluster, with the permissions of deploy/kubernetes/agent: it lists and watches workloads and
/// pods, and changes nothing. It stores nothing either: while the service does not answer it remembers the present
/// objects, and reports them when the service is back. Pod templates and variables do not leave the cluster; logs do as far
/// as --failure-logs and --pod-logs say.
///
/// The service takes its reports if `clusters[].agent.token` of its configuration has the same token. `HTTPS_PROXY` and
/// `NO_PROXY` count for both ways, to the service and to the API server.
#[derive(Debug, Args)]
pub(super) struct AgentArgs {
    /// The name of the cluster, as the configuration of the service has it
    #[arg(long, value_name = "NAME", env = "THE_DEPLOYER_AGENT_CLUSTER")]
    cluster: String,
    /// The address of the service, `https://…`
    #[arg(long, value_name = "URL", env = "THE_DEPLOYER_AGENT_SERVER")]
    server: String,
    /// The file with the agent's token; it is read again for each report
    #[arg(long, value_name = "FILE", env = "THE_DEPLOYER_AGENT_TOKEN_FILE")]
    token_file: PathBuf,
    /// A file with authorities that sign the service's certificate, as PEM, beside those that the machine trusts
    #[arg(long, value_name = "FILE", env = "THE_DEPLOYER_AGENT_CA")]
    ca: Option<PathBuf>,
    /// The kubeconfig of the cluster; without it, the service account of the pod
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// The context of the kubeconfig; without it, its current one
    #[arg(long, value_name = "NAME", requires = "kubeconfig")]
    context: Option<String>,
    /// Watch workloads of others with the annotations of preview environments, too: every workload and pod is read
    #[arg(long)]
    previews: bool,
    /// Report the last 20 lines of the log of a container that fails, too, without secrets; only of apps that the service
    /// deployed. Needs the permission to get pods/log
    #[arg(long)]
    failure_logs: bool,
    /// Let callers of the service read logs of their apps' containers, as `bart logs --pods` does; only of apps that the
    /// service deployed, and without secrets. Needs the permission to get pods/log
    #[arg(long)]
    pod_logs: bool,
    /// The log filter: `info`, `debug`
    #[arg(long, value_name = "FILTER", env = "THE_DEPLOYER_LOG", default_value = telemetry::DEFAULT_FILTER)]
    log: String,
    /// The format of log lines
    #[arg(long, value_enum, env = "THE_DEPLOYER_LOG_FORMAT", default_value_t)]
    log_format: LogFormat,
}

impl AgentArgs {
    pub(super) async fn run(self) -> CommandOutcome {
        let cluster = TargetName::parse(self.cluster.as_str())
            .map_err(|error| CliError::usage(format!("--cluster: {error}")))?;
        let variables = config::environment();
        let access = match &self.kubeconfig {
            Some(file) => {
                std::fs::metadata(file).map_err(CliError::file("read", file))?;
                ClusterAccess::Kubeconfig { file: file.clone(), context: self.context.clone() }
            }
            None => in_cluster_access(&variables).map_err(CliError::usage)?,
        };
        let source = SecretSource::File(self.token_file.clone());
        let token = secret::read(&source, &variables).map_err(CliError::failed)?.secret;
        let token = Credential { secret: token, file: Some(self.token_file.clone()) };
        let outbound = self.outbound()?;
        let target =
            ReportTarget { server: self.server.clone(), cluster: cluster.clone(), token, outbound };
        let client =
            ReportClient::new(target).map_err(|error| CliError::usage(error.to_string()))?;
        telemetry::init(self.log_format, &self.log)
            .map_err(|error| CliError::usage(error.to_string()))?;
        let stop = CancellationToken::new();
        on_signal(stop.clone(), "stopping: the service is told")?;
        let clock = Clock::system();
        tracing::info!(%cluster, server = self.server, "agent started");
        let agent = ClusterAgent {
            cluster,
            connection: ClusterConnection::new(access, OutboundHttp::default(), clock.clone()),
            previews: self.previews,
            failure_logs: self.failure_logs,
            pod_logs: self.pod_logs,
            limits: WatchLimits::default(),
            report_limits: ReportLimits::default(),
            times: AgentTimes::default(),
            client,
            clock,
        };
        agent.run(stop).await;
        tracing::info!("stopped");
        Ok(())
    }

    fn outbound(&self) -> Result<OutboundHttp, CliError> {
        let Some(file) = &self.ca else { return Ok(OutboundHttp::default()) };
        let pem = std::fs::read(file).map_err(CliError::file("read", file))?;
        let authorities = read_authorities(&pem).filter(|authorities| !authorities.is_empty());
        let authorities = authorities.ok_or_else(|| {
            let message = format!("{} has no whole certificate of an authority", file.display());
            CliError::usage(message).hint("name a file with certificates as PEM")
        })?;
        Ok(OutboundHttp { authorities, ..OutboundHttp::default() })
    }
}
