//! The secrets of one app on one target: what its WAML wants, the store that the service names, and the audit log that
//! hears of each act.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;

use super::app_secrets::{AppSecret, app_secrets};
use super::kubernetes::KubernetesSecrets;
use super::location::{StoreLocation, VaultLocation, store_scope, vault_of_store};
use super::store::{ClusterStore, PersonalStore, VaultStore};
use super::vault::PersonalVault;
use super::vault_login;
use crate::api::secrets::{SecretAct, SecretActAnswer, SecretActRequest};
use crate::cli::client::ServiceEndpoint;
use crate::cli::context::{self, RepositorySelector};
use crate::cli::diagnostics::SourceTexts;
use crate::cli::error::{CliError, CommandOutcome};
use crate::cli::kubeconfig;
use crate::cli::local;
use crate::cli::names::act_path;
use crate::cli::output::{self, Format};
use crate::cli::repository_apps::AppChoiceArg;
use crate::cluster::connection::client::ClusterConnection;
use crate::cluster::connection::kubeconfig::list_contexts;
use crate::cluster::connection::settings::ClusterAccess;
use crate::cluster::secret_objects::{SecretObjectKind, get_object};
use crate::config;
use crate::model::id::{Namespace, RepoName, TargetName};
use crate::model::platform::secrets::{ExternalStore, StoreKind};
use crate::model::secret_key::SecretKeyName;
use crate::model::snapshot::ClusterSnapshot;
use crate::pipeline::fact_requests::{read_processes, read_section};
use crate::support::clock::Clock;
use crate::support::http::OutboundHttp;
use crate::waml::Waml;
use crate::waml::section::Section;
use crate::waml::suggest;

/// The options of a command that reads or writes secrets.
#[derive(Debug, Clone, Args)]
pub(in crate::cli) struct StoreArgs {
    /// The cluster, where the target is a fleet: each of its clusters has a store of its own
    #[arg(long, value_name = "NAME")]
    cluster: Option<TargetName>,
    /// The kubeconfig, where secrets are in the cluster. Default: that of KUBECONFIG, else ~/.kube/config
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// The context of the kubeconfig. Default: the one with the target's name
    #[arg(long, value_name = "NAME")]
    context: Option<String>,
    /// A folder of templates with `apps/` in it, instead of the built-in ones
    #[arg(long, value_name = "DIR")]
    pub(in crate::cli) templates: Option<PathBuf>,
    #[command(flatten)]
    pub(in crate::cli) app: AppChoiceArg,
    #[command(flatten)]
    selector: RepositorySelector,
    #[command(flatten)]
    pub(in crate::cli) server: ServiceEndpoint,
}

/// An app on a target as its WAML has it.
pub(in crate::cli) struct TargetSettings {
    pub(in crate::cli) waml: Arc<Waml>,
    pub(in crate::cli) target: TargetName,
    /// The settings of each process, with its name.
    processes: Vec<(String, Section)>,
    pub(in crate::cli) secrets: Vec<AppSecret>,
}

/// The secrets of an app on a target, with their store.
pub(in crate::cli) struct TargetSecrets {
    pub(in crate::cli) settings: TargetSettings,
    /// The target, or the cluster of the fleet.
    pub(in crate::cli) cluster: TargetName,
    pub(in crate::cli) store: PersonalStore,
    server: ServiceEndpoint,
}

impl TargetSettings {
    /// Reads the settings of a target from the WAML of the working folder.
    pub(in crate::cli) fn read(
        target: &TargetName,
        app: &AppChoiceArg,
        templates: Option<&Path>,
    ) -> Result<Self, CliError> {
        let waml = context::waml_of(app)?;
        if !waml.targets().contains(&target) {
            let names: Vec<&str> = waml.targets().into_iter().map(TargetName::as_str).collect();
            let hint = suggest::hint(target.as_str(), names);
            return Err(CliError::usage(format!("the WAML has no target `{target}`")).hint(hint));
        }
        let templates = local::templates(templates, &mut SourceTexts::default(), Format::Text)?;
        let unreadable = || {
            CliError::usage(format!("the settings of {target} cannot be read"))
                .hint("`bart validate` shows what is wrong where")
        };
        let section = read_section(&waml, target, &templates).ok_or_else(unreadable)?;
        let processes = read_processes(&waml, target, &templates).ok_or_else(unreadable)?;
        let secrets = app_secrets(&section, &waml.app);
        Ok(Self { waml, target: target.clone(), processes, secrets })
    }

    /// Finds the settings of a process; `web` is the app itself.
    pub(in crate::cli) fn find_process(&self, name: &str) -> Result<&Section, CliError> {
        let process = self.processes.iter().find(|(process, _)| process == name);
        process.map(|(_, section)| section).ok_or_else(|| {
            let names = suggest::list(self.processes.iter().map(|(process, _)| process.as_str()));
            CliError::usage(format!("the WAML has no process `{name}` on {}", self.target))
                .hint(format!("it has {names}"))
        })
    }

    /// Finds a secret of the WAML.
    pub(in crate::cli) fn find(&self, name: &str) -> Result<&AppSecret, CliError> {
        self.secrets.iter().find(|secret| secret.name == name).ok_or_else(|| {
            let names: Vec<&str> = self.secrets.iter().map(|secret| secret.name.as_str()).collect();
            let hint = if names.is_empty() {
                "add it to the WAML first: `secrets: [{name: NAME}]`".to_owned()
            } else {
                suggest::hint(name, names)
            };
            CliError::usage(format!("the WAML wants no secret `{name}` on {}", self.target))
                .hint(hint)
        })
    }
}

impl StoreArgs {
    /// Returns the same for another target, whose cluster has another context.
    pub(in crate::cli) fn of_other(&self, context: Option<String>) -> Self {
        Self { context, cluster: None, ..self.clone() }
    }

    /// Returns the service repository.
    pub(in crate::cli) fn repository(&self) -> Result<RepoName, CliError> {
        self.selector.repository()
    }

    /// Returns the cluster that was named, where the target is a fleet; else the target.
    pub(in crate::cli) fn cluster_of<'a>(&'a self, target: &'a TargetName) -> &'a TargetName {
        self.cluster.as_ref().unwrap_or(target)
    }

    /// Finds the Vault of a target, for a login.
    pub(in crate::cli) async fn find_vault(
        &self,
        target: &TargetName,
    ) -> Result<VaultLocation, CliError> {
        let (cluster, location) =
            self.locate(target, &context::waml_of(&self.app)?.app.namespace).await?;
        match location {
            StoreLocation::Vault(vault) => Ok(vault),
            StoreLocation::External(store) => {
                let (connection, context) = self.connect(&cluster)?;
                self.external_vault(&connection, &context, &store).await
            }
            StoreLocation::Kubernetes(_) => Err(CliError::refused(format!(
                "the secrets of {cluster} are in the cluster: your kubeconfig has the login"
            ))),
        }
    }

    /// Asks the service where the store is, and opens it with the person's login.
    pub(in crate::cli) async fn open(
        &self,
        target: &TargetName,
    ) -> Result<TargetSecrets, CliError> {
        let settings = TargetSettings::read(target, &self.app, self.templates.as_deref())?;
        self.open_store(settings).await
    }

    /// Opens the store for settings that were read.
    pub(in crate::cli) async fn open_store(
        &self,
        settings: TargetSettings,
    ) -> Result<TargetSecrets, CliError> {
        let namespace = settings.waml.app.namespace.clone();
        let (cluster, location) = self.locate(&settings.target, &namespace).await?;
        let store = match location {
            StoreLocation::Vault(location) => open_vault(location).await?,
            StoreLocation::Kubernetes(namespace) => {
                let (connection, context) = self.connect(&cluster)?;
                let secrets = KubernetesSecrets { connection, context, namespace };
                PersonalStore::Kubernetes(Box::new(ClusterStore(secrets)))
            }
            StoreLocation::External(store) => {
                let (connection, context) = self.connect(&cluster)?;
                open_vault(self.external_vault(&connection, &context, &store).await?).await?
            }
        };
        Ok(TargetSecrets { settings, cluster, store, server: self.server.clone() })
    }

    /// Asks the service; an earlier answer does not count, because the store may be another by now.
    async fn locate(
        &self,
        target: &TargetName,
        namespace: &Namespace,
    ) -> Result<(TargetName, StoreLocation), CliError> {
        let repository = self.selector.repository()?;
        let query = [("repository", repository.to_string())];
        let snapshot: ClusterSnapshot = self.server.get("/api/v1/platform", &query).await?;
        let places = snapshot.fleet_places(target);
        let cluster = match (&self.cluster, places.is_empty()) {
            (None, true) => target.clone(),
            (Some(cluster), _) if cluster == target => cluster.clone(),
            (Some(cluster), _) if places.iter().any(|place| place.cluster == *cluster) => {
                cluster.clone()
            }
            (_, true) => {
                return Err(CliError::usage(format!("{target} is no fleet: leave --cluster out")));
            }
            (_, false) => {
                let names: Vec<_> = places.iter().map(|place| place.cluster.to_string()).collect();
                return Err(CliError::usage(format!(
                    "{target} is a fleet, and each cluster has its store"
                ))
                .hint(format!("name one with --cluster: {}", names.join(", "))));
            }
        };
        let clusters = snapshot.clusters_for(&cluster);
        let known_cluster = clusters.and_then(|clusters| clusters.find(&cluster));
        let target = known_cluster.ok_or_else(|| {
            CliError::refused(format!(
                "the service has no target `{cluster}`, or you may not see it"
            ))
        })?;
        let location = StoreLocation::of_target(&cluster, &target.platform.secrets, namespace);
        let location = location.map_err(|(message, hint)| CliError::refused(message).hint(hint))?;
        Ok((cluster, location))
    }

    /// Connects to the cluster by the kubeconfig; the context is named, or has the target's name.
    fn connect(&self, cluster: &TargetName) -> Result<(ClusterConnection, String), CliError> {
        let environment = config::environment();
        let file = self.kubeconfig.clone().or_else(|| kubeconfig::default_file(&environment));
        let file = file.ok_or_else(|| {
            CliError::usage("there is no kubeconfig").hint("name it with --kubeconfig")
        })?;
        let context = if let Some(context) = &self.context {
            context.clone()
        } else {
            let contexts = list_contexts(&file).map_err(CliError::failed)?;
            let names: Vec<&str> = contexts.iter().map(|context| context.name.as_str()).collect();
            let own = names.iter().find(|name| **name == cluster.as_str());
            own.map(|name| (*name).to_owned()).ok_or_else(|| {
                CliError::usage(format!("which context of {} is {cluster}?", file.display()))
                    .hint(format!("name one with --context: {}", names.join(", ")))
            })?
        };
        crate::support::http::install_tls_provider();
        let access = ClusterAccess::Kubeconfig { file, context: Some(context.clone()) };
        let connection = ClusterConnection::new(access, OutboundHttp::default(), Clock::system());
        Ok((connection, context))
    }

    async fn external_vault(
        &self,
        connection: &ClusterConnection,
        context: &str,
        store: &ExternalStore,
    ) -> Result<VaultLocation, CliError> {
        let kind = match store.kind {
            StoreKind::ClusterSecretStore => SecretObjectKind::ClusterSecretStore,
            StoreKind::SecretStore => SecretObjectKind::SecretStore,
        };
        let namespace = context::waml_of(&self.app)?.app.namespace.clone();
        let object = get_object(connection, kind, namespace.as_str(), &store.name).await;
        let object = object.map_err(|error| {
            CliError::io(format!("the cluster of the context {context}: {error}"))
        })?;
        let (scope, name) = (store_scope(store), &store.name);
        let object = object.ok_or_else(|| {
            CliError::refused(format!("the cluster of the context {context} has no {scope} {name}"))
        })?;
        vault_of_store(name, &object).map_err(|message| {
            CliError::refused(message)
                .hint("use the tool of that store, or ask the service's operator for a Vault")
        })
    }
}

impl TargetSecrets {
    /// Checks that the service will take a record of the act, before it is done.
    pub(in crate::cli) async fn check_act(
        &self,
        act: SecretAct,
        keys: &[SecretKeyName],
    ) -> CommandOutcome {
        let request = act_request(act, keys, None, true);
        let _may: SecretActAnswer = self.server.consult(&self.act_path(), &request).await?;
        Ok(())
    }

    /// Tells the service what was done: names of keys, and no value.
    pub(in crate::cli) async fn tell_act(
        &self,
        act: SecretAct,
        keys: &[SecretKeyName],
        from: Option<&TargetName>,
    ) -> CommandOutcome {
        let request = act_request(act, keys, from, false);
        let answer: Result<SecretActAnswer, _> = self.server.post(&self.act_path(), &request).await;
        let consequence = match act {
            SecretAct::Set | SecretAct::Unset | SecretAct::Copy => {
                "the store has the change, but the audit log does not"
            }
            SecretAct::Reveal | SecretAct::Run => {
                "nothing was shown or started, because the audit log cannot have it"
            }
        };
        answer.map(drop).map_err(|error| {
            CliError::io(format!("{consequence}: {error}")).hint("tell whoever runs the service")
        })
    }

    fn act_path(&self) -> String {
        act_path(&self.cluster, &self.settings.waml.app, "secrets")
    }
}

fn act_request(
    act: SecretAct,
    keys: &[SecretKeyName],
    from: Option<&TargetName>,
    dry_run: bool,
) -> SecretActRequest {
    let keys = keys.iter().map(ToString::to_string).collect();
    SecretActRequest { act, keys, from: from.map(ToString::to_string), dry_run }
}

async fn open_vault(location: VaultLocation) -> Result<PersonalStore, CliError> {
    let token = Some(vault_login::find_token(&location).await?);
    Ok(PersonalStore::Vault(Box::new(VaultStore(PersonalVault { location, token }))))
}

/// Prints a note about the store that is used.
pub(in crate::cli) fn note_place(text: impl std::fmt::Display) {
    output::note(&output::note_line(text));
}
