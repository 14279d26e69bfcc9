//! Rebuilds the record: commits of the manifest repositories have what was deployed, by whom and why; their files
//! have what is live; the code host has its numbers.
//!
//! A rebuild reads everything first, writes once, and sends no messages.

mod fleets; // deployments to fleets, by their parts
mod numbers; // matches the code host's deployments with the record's
mod renames; // follows renames of repositories

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;

use crate::app::backup::refuse_elsewhere;
use crate::app::code_host::{self, CONNECT, people};
use crate::app::repositories::repository_settings;
use crate::app::start_error::{StartError, cannot_use};
use crate::config::manifests::ManifestRepositorySettings;
use crate::config::settings::Settings;
use crate::forge::Forge;
use crate::forge::error::ForgeError;
use crate::forge::github::webhook::listed_deployment;
use crate::git::history::{BranchHistory, PresentApp};
use crate::git::writer::{self, ManifestRepository, RemoteSettings, WriteError};
use crate::manifests::parse::application::AppOwner;
use crate::model::audit::{AuditRecord, AuthMethod, Principal};
use crate::model::commit_record::{CommitRecord, ForgeNumber, PastDeployment};
use crate::model::event::{DeploymentRequest, WebhookEvent};
use crate::model::id::{DeployId, RepoName, TargetName};
use crate::model::revision::Digest;
use crate::model::rollback::Holds;
use crate::store::embedded::EmbeddedError;
use crate::store::{OwnerRecord, RememberedDeployment, RestorableRecords, Store};
use crate::support::clock::Clock;
use crate::support::ownership;

pub use crate::store::Rebuilt;

/// The options of a rebuild.
#[derive(Debug, Clone, Default)]
pub struct RebuildOptions {
    /// Only report what would be written.
    pub dry_run: bool,
    /// Rebuild into a record that has deployments, beside those.
    pub merge: bool,
    /// Do not ask the code host for its numbers.
    pub offline: bool,
    /// The principal, for the audit log.
    pub by: String,
}

/// The result of a rebuild.
#[derive(Debug, Clone, Default)]
pub struct RebuildReport {
    /// The number of deployments in commits.
    pub deployments: usize,
    /// The number of those that have a number at the code host.
    pub numbered: usize,
    /// The number of removals in commits.
    pub removals: usize,
    /// The number of present apps.
    pub apps: usize,
    /// The rows that were added to the record.
    pub added: Rebuilt,
    /// Remarks for people, one sentence each.
    pub notes: Vec<String>,
}

/// The reason why nothing was written.
#[derive(Debug, thiserror::Error)]
pub enum RebuildError {
    /// A part cannot be used.
    #[error(transparent)]
    Start(#[from] StartError),
    /// The record belongs to a service with another working folder.
    #[error(transparent)]
    Elsewhere(#[from] EmbeddedError),
    /// The record is not empty.
    #[error("the record has {0} deployments already: --merge adds those that it does not have")]
    NotEmpty(u64),
    /// The code host did not return its numbers.
    #[error("the code host does not return its numbers: {0}; --offline rebuilds without them")]
    Forge(ForgeError),
}

/// The newest deployments of a repository that are read from the code host: ten requests of
/// GitHub's.
const NUMBERS: u32 = 1_000;

/// Rebuilds the record of the settings.
///
/// # Errors
/// [`RebuildError`]; then nothing was written.
pub async fn rebuild(
    settings: &Settings,
    options: &RebuildOptions,
    clock: &Clock,
) -> Result<RebuildReport, RebuildError> {
    crate::support::http::install_tls_provider();
    refuse_elsewhere(&settings.storage)?;
    let store = Store::open(&settings.storage.url).await.map_err(cannot_use("the database"))?;
    let rebuilt = rebuild_into(&store, settings, options, clock).await;
    store.close().await;
    rebuilt
}

async fn rebuild_into(
    store: &Store,
    settings: &Settings,
    options: &RebuildOptions,
    clock: &Clock,
) -> Result<RebuildReport, RebuildError> {
    let count: u64 = store.counts().await.map_err(cannot_use("the database"))?.values().sum();
    if count > 0 && !options.merge {
        return Err(RebuildError::NotEmpty(count));
    }
    let forge = code_host::offline_forge(settings, clock)?;
    let mut report = RebuildReport::default();
    let mut remembered = RestorableRecords::default();
    for manifests in &settings.manifests {
        let past = read_repository_history(settings, manifests, &forge, clock).await?;
        add_repository(settings, manifests, past, clock.now(), (&mut remembered, &mut report));
    }
    report.notes.extend(renames::follow(&mut remembered, clock.now()));
    if !options.offline {
        ask_numbers(&forge, settings, &mut remembered, &mut report).await?;
    }
    report.numbered =
        remembered.deployments.iter().filter(|deployment| deployment.number.is_some()).count();
    let entry = entry(&report, &options.by, clock);
    let added = store.rebuild(&remembered, &entry, !options.dry_run).await;
    report.added = added.map_err(cannot_use("the database"))?;
    Ok(report)
}

/// Reads the history of a repository beside a service that may be running.
async fn read_repository_history(
    settings: &Settings,
    manifests: &ManifestRepositorySettings,
    forge: &Forge,
    clock: &Clock,
) -> Result<BranchHistory, StartError> {
    let repository_error = cannot_use::<WriteError>("the manifest repository");
    if manifests.embedded && !std::path::Path::new(&manifests.url).exists() {
        return Ok(BranchHistory::default());
    }
    let client = settings.outbound.client(CONNECT).map_err(cannot_use("the HTTP client"))?;
    let writer = repository_settings(manifests, &client, forge, clock, &people(&settings.forge));
    let clone = manifests.clone_dir.with_extension(format!("rebuild-{}", std::process::id()));
    // Nothing is committed, so nothing is signed.
    let remote = RemoteSettings { clone_dir: clone.clone(), ..writer.remote };
    let writer = writer::WriterSettings { remote, alone: false, signing: None, ..writer };
    // The service owns the files that are created here, and goes on with them.
    if let Some(folder) = clone.parent() {
        ownership::create_folders(folder).map_err(cannot_use("the folder of clones"))?;
    }
    let repository = ManifestRepository::open(writer).await.map_err(&repository_error)?;
    let past = repository.read_history(&manifests.branch).await;
    repository.close().await;
    drop(repository);
    writer::remove_clone(&clone);
    past.map_err(repository_error)
}

/// Adds the records of a repository, as far as they are of the targets that are configured for it
/// now.
fn add_repository(
    settings: &Settings,
    manifests: &ManifestRepositorySettings,
    past: BranchHistory,
    now: Timestamp,
    (remembered, report): (&mut RestorableRecords, &mut RebuildReport),
) {
    let BranchHistory { records, standing, unread, cut } = past;
    let is_here = |target: &TargetName| {
        settings.manifests_of(target).is_some_and(|repository| repository.name == manifests.name)
    };
    for deed in records {
        match deed {
            CommitRecord::Deployment(past) if is_here(&past.target) => {
                remembered.deployments.push(RememberedDeployment {
                    past: *past,
                    number: None,
                    newest: false,
                    hold: None,
                });
                report.deployments += 1;
            }
            CommitRecord::Removal(removal) if is_here(&removal.target) => {
                remembered.removals.push(*removal);
                report.removals += 1;
            }
            CommitRecord::Deployment(_) | CommitRecord::Removal(_) => {}
        }
    }
    complete_rollbacks(&mut remembered.deployments);
    fleets::add_fleets(&mut remembered.deployments);
    for present_app in standing.iter().filter(|present_app| is_here(&present_app.target)) {
        report.apps += 1;
        mark_newest(settings, present_app, &mut remembered.deployments);
        match owner(present_app, &remembered.deployments, now) {
            Some(owner) => remembered.owners.push(owner),
            None => report.notes.push(format!(
                "the owner of {} on {} is unknown: set it with `the-deployer owners move`",
                present_app.app, present_app.target
            )),
        }
    }
    // An app that is gone keeps its owner, who also owns what is under its name in Vault and in the cloud.
    for removed in removed_apps(&standing, &remembered.deployments)
        .iter()
        .filter(|removed| is_here(&removed.target))
    {
        remembered.owners.extend(owner(removed, &remembered.deployments, now));
    }
    let takes_holds = |fleet: &TargetName| {
        let clusters = settings.fleets.clusters_of(fleet)?;
        Some(clusters.iter().any(|cluster| takes_holds(settings, cluster)))
    };
    let owners = fleets::mark_newest_fleets(&mut remembered.deployments, takes_holds);
    remembered.owners.extend(owners);
    let unread = unread.iter().map(|(commit, reason)| {
        format!("commit {} of {} is left out: {reason}", commit.short(), manifests.name)
    });
    report.notes.extend(unread);
    if cut {
        report.notes.push(format!(
            "{} has more commits than a rebuild reads: only the newest were read",
            manifests.name
        ));
    }
}

/// Returns the apps that were deployed and are gone, each once.
fn removed_apps(standing: &[PresentApp], deployments: &[RememberedDeployment]) -> Vec<PresentApp> {
    let present: BTreeSet<_> = standing.iter().map(|app| (&app.target, &app.app)).collect();
    let deployed: BTreeSet<_> = deployments
        .iter()
        .map(|deployment| (&deployment.past.target, &deployment.past.app))
        .collect();
    let removed = deployed.difference(&present).map(|(target, app)| PresentApp {
        target: (*target).clone(),
        app: (*app).clone(),
        live: None,
        application: None,
    });
    removed.collect()
}

/// Adds the data of revisions to the rollbacks to them and from them.
fn complete_rollbacks(deployments: &mut [RememberedDeployment]) {
    let revisions: BTreeMap<DeployId, PastDeployment> = deployments
        .iter()
        .map(|deployment| (deployment.past.id.clone(), deployment.past.clone()))
        .collect();
    for deployment in deployments {
        let Some(rollback) = &mut deployment.past.rollback else { continue };
        let from = rollback.from.as_ref().and_then(|from| revisions.get(from));
        rollback.away = from.map(|from| from.release.clone());
        match revisions.get(&rollback.to) {
            Some(to) => {
                // The app may have belonged to another repository by then, which rolled it back.
                if to.release.repository.is_same(&deployment.past.release.repository) {
                    let number = &mut deployment.past.repository_number;
                    *number = number.or(to.repository_number);
                }
                deployment.past.pushed.digest = to.pushed.digest.clone();
                deployment.past.template.clone_from(&to.template);
            }
            None => deployment.past.pushed.digest = Digest(format!("git-tree:{}", rollback.tree)),
        }
    }
}

/// Marks the newest deployment of a present app, which the code host shows. If it is a rollback, no
/// deployment has ended its hold; no commit has the release of a hold by a person.
fn mark_newest(
    settings: &Settings,
    present_app: &PresentApp,
    deployments: &mut [RememberedDeployment],
) {
    let is_of_it = |deployment: &&mut RememberedDeployment| {
        deployment.past.target == present_app.target && deployment.past.app == present_app.app
    };
    let Some(deployment) = deployments.iter_mut().rev().find(is_of_it) else { return };
    deployment.newest = true;
    // The hold of a fleet's rollback is the fleet's.
    let holds = deployment.past.fleet.is_none() && takes_holds(settings, &present_app.target);
    if holds {
        deployment.take_hold();
    }
}

fn takes_holds(settings: &Settings, cluster: &TargetName) -> bool {
    let policies = settings.clusters.find(cluster).map(|target| target.policies);
    policies.unwrap_or_default().holds != Holds::Off
}

/// Returns the owner of an app: by its Application, otherwise the repository that deployed what is
/// live.
fn owner(
    present_app: &PresentApp,
    deployments: &[RememberedDeployment],
    now: Timestamp,
) -> Option<OwnerRecord> {
    let is_of_app = |deployment: &&RememberedDeployment| {
        deployment.past.target == present_app.target && deployment.past.app == present_app.app
    };
    let mut history = deployments.iter().filter(is_of_app).map(|deployment| &deployment.past);
    let named_owner =
        present_app.application.as_deref().and_then(|bytes| AppOwner::parse(bytes).repository);
    let newest = || history.clone().next_back().map(|past| past.release.repository.clone());
    let repository = named_owner.or_else(newest)?;
    let first = history.find(|past| past.release.repository == repository);
    let since = first.map_or(now, |past| past.finished_at);
    let (target, app) = (present_app.target.clone(), present_app.app.clone());
    Some(OwnerRecord { target, app, repository, since, moved: None })
}

/// Reads the code host's numbers, repository by repository.
async fn ask_numbers(
    forge: &Forge,
    settings: &Settings,
    remembered: &mut RestorableRecords,
    report: &mut RebuildReport,
) -> Result<(), RebuildError> {
    let mut numbers_by_id: BTreeMap<DeployId, ForgeNumber> = BTreeMap::new();
    let mut by_repository: BTreeMap<&RepoName, Vec<&PastDeployment>> = BTreeMap::new();
    for deployment in &remembered.deployments {
        by_repository
            .entry(&deployment.past.release.repository)
            .or_default()
            .push(&deployment.past);
    }
    for (repository, past) in by_repository {
        match numbers_of(forge, settings, repository, &past).await {
            Ok(numbers) => numbers_by_id.extend(numbers),
            // The last kind has a retired name: the present one is not known.
            Err(
                error @ (ForgeError::NoRepository { .. }
                | ForgeError::NotInstalled { .. }
                | ForgeError::Renamed { .. }),
            ) => {
                report.notes.push(format!("rebuilt without the code host's numbers: {error}"));
            }
            Err(error) => return Err(RebuildError::Forge(error)),
        }
    }
    for deployment in &mut remembered.deployments {
        deployment.number = numbers_by_id.remove(&deployment.past.id);
    }
    Ok(())
}

async fn numbers_of(
    forge: &Forge,
    settings: &Settings,
    repository: &RepoName,
    past: &[&PastDeployment],
) -> Result<BTreeMap<DeployId, ForgeNumber>, ForgeError> {
    let listed = forge.recent_deployments(repository, NUMBERS).await?;
    let rules = &settings.webhook.rules;
    let requests = listed.iter().filter_map(|item| {
        match listed_deployment::read(repository, item, rules).ok()?.event {
            WebhookEvent::Deployment(request) => Some(request),
            _ => None,
        }
    });
    let deployed: Vec<&PastDeployment> =
        past.iter().copied().filter(|deployment| deployment.rollback.is_none()).collect();
    let mut matches =
        numbers::match_numbers(&deployed, requests.collect::<Vec<DeploymentRequest>>());
    matches.numbers.extend(listed.iter().filter_map(numbers::of_rollback));
    for request in std::mem::take(&mut matches.unclear) {
        let statuses = forge.statuses(repository, request.forge_id).await?;
        if let Some(id) = numbers::own_deployment(&statuses, past) {
            matches.numbers.insert(id, numbers::number(&request));
        }
    }
    Ok(matches.numbers)
}

fn entry(report: &RebuildReport, by: &str, clock: &Clock) -> AuditRecord {
    let RebuildReport { deployments, removals, apps, .. } = report;
    AuditRecord {
        id: DeployId::of(clock.draw()),
        at: clock.now(),
        by: Principal { name: by.to_owned(), via: AuthMethod::Operator, from: None, request: None },
        act: "rebuild".into(),
        target: None,
        app: None,
        subject: "the record".to_owned(),
        reason: "rebuilt from the manifest repositories".to_owned(),
        outcome: format!(
            "{deployments} deployments, {removals} removals and {apps} apps were found"
        ),
    }
}
