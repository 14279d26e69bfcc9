//! `init`: writes the files that a manifest repository needs before its first deployment.
//!
//! It works in a clone of its own, so that a service may run beside it.

use std::path::Path;

use crate::app::code_host::{self, CONNECT, people};
use crate::app::repositories::{argocd_address, repository_settings};
use crate::app::start_error::{StartError, cannot_use};
use crate::config::manifests::ManifestRepositorySettings;
use crate::config::settings::Settings;
use crate::git::history::app_files::FileState;
use crate::git::layout::RepoPath;
use crate::git::signing::SigningKey;
use crate::git::writer::{
    self, CommitMessage, ConditionalEdit, Edit, ManifestRepository, PushOutcome, RemoteSettings,
    WriteError,
};
use crate::manifests::argocd::application::Source;
use crate::manifests::bootstrap;
use crate::manifests::bootstrap::{ExpectedFile, FileVerdict};
use crate::model::id::CommitSha;
use crate::model::target::{Clusters, Target};
use crate::support::clock::Clock;
use crate::support::lease::Lease;

/// The options of a preparation.
#[derive(Debug, Clone, Copy, Default)]
pub struct PrepareOptions {
    /// Only report the changes.
    pub dry_run: bool,
    /// Replace files that people have edited.
    pub force: bool,
    /// Check first that a push would be accepted, as the service does.
    pub probe: bool,
}

/// One repository, prepared.
#[derive(Debug, Clone)]
pub struct Prepared {
    /// Its name in the configuration.
    pub name: String,
    /// Its address.
    pub url: String,
    /// The commit that was pushed; `None` if there was nothing to do, or in a dry run.
    pub commit: Option<CommitSha>,
    /// Every file, in order.
    pub files: Vec<PreparedFile>,
}

/// One file of a prepared repository.
#[derive(Debug, Clone)]
pub struct PreparedFile {
    /// The expected file.
    pub expected: ExpectedFile,
    /// The content that was there.
    pub current: Option<Vec<u8>>,
    /// The action that was taken.
    pub verdict: FileVerdict,
}

/// The number of tries, where other commits change the same files meanwhile.
const LOOKS: usize = 5;
const PART: &str = "the manifest repository";

/// Prepares every repository of the settings.
///
/// # Errors
/// The first repository that cannot be prepared; those before it are.
pub async fn prepare_all(
    settings: &Settings,
    options: PrepareOptions,
    clock: &Clock,
) -> Result<Vec<Prepared>, StartError> {
    crate::support::http::install_tls_provider();
    let client = settings.outbound.client(CONNECT).map_err(cannot_use("the HTTP client"))?;
    let forge = code_host::offline_forge(settings, clock)?;
    let mut prepared = Vec::new();
    for manifests in &settings.manifests {
        let writer =
            repository_settings(manifests, &client, &forge, clock, &people(&settings.forge));
        prepared.push(repository(settings, manifests, options, clock, writer).await?);
    }
    Ok(prepared)
}

async fn repository(
    settings: &Settings,
    manifests: &ManifestRepositorySettings,
    options: PrepareOptions,
    clock: &Clock,
    writer: writer::WriterSettings,
) -> Result<Prepared, StartError> {
    let source = Source { url: argocd_address(manifests), branch: manifests.branch.clone() };
    let expected = bootstrap::files(&targets(settings, manifests), &source);
    let path = Path::new(&manifests.url);
    if manifests.embedded && options.dry_run && !path.exists() {
        let files = expected.into_iter().map(|expected| judge(expected, None, options)).collect();
        return Ok(Prepared { name: manifests.name.clone(), url: source.url, commit: None, files });
    }
    if manifests.embedded {
        ManifestRepository::create_local(path, &manifests.branch).map_err(cannot_use(PART))?;
    }
    let clone = manifests.clone_dir.with_extension(format!("init-{}", std::process::id()));
    let temporary_key = |key: SigningKey| {
        let home = key.home.with_extension(format!("init-{}", std::process::id()));
        SigningKey { home, ..key }
    };
    let signing = writer.signing.map(temporary_key);
    let remote = RemoteSettings { clone_dir: clone.clone(), ..writer.remote };
    let settings = writer::WriterSettings { remote, alone: false, signing, ..writer };
    let repository = ManifestRepository::open(settings).await.map_err(cannot_use(PART))?;
    let ready = if options.probe { repository.ready().await } else { Ok(()) };
    let result = match ready {
        Ok(()) => write(&repository, expected, options, clock).await,
        Err(error) => Err(error),
    };
    repository.close().await;
    drop(repository);
    // Everything in it is on the server, so a clone that could not be removed does no harm.
    writer::remove_clone(&clone);
    let (files, commit) = result.map_err(cannot_use(PART))?;
    Ok(Prepared { name: manifests.name.clone(), url: source.url, commit, files })
}

/// Returns the clusters whose manifests are in that repository.
fn targets(settings: &Settings, manifests: &ManifestRepositorySettings) -> Vec<Target> {
    let Clusters::Known(targets) = &settings.clusters else { return Vec::new() };
    let is_here = |target: &&Target| {
        settings.manifests_of(&target.name).is_some_and(|m| m.name == manifests.name)
    };
    targets.values().filter(is_here).cloned().collect()
}

fn judge(
    expected: ExpectedFile,
    current: Option<Vec<u8>>,
    options: PrepareOptions,
) -> PreparedFile {
    let updated = current.as_deref().filter(|_| !options.force);
    if let Some(bytes) = updated.and_then(|current| bootstrap::update(&expected, current)) {
        let expected = ExpectedFile { bytes, ..expected };
        return PreparedFile { expected, current, verdict: FileVerdict::Update };
    }
    let verdict = bootstrap::decide(&expected, current.as_deref(), options.force);
    PreparedFile { expected, current, verdict }
}

async fn write(
    repository: &ManifestRepository,
    expected: Vec<ExpectedFile>,
    options: PrepareOptions,
    clock: &Clock,
) -> Result<(Vec<PreparedFile>, Option<CommitSha>), WriteError> {
    let paths = expected.iter().map(|expected| RepoPath::parse(&expected.path));
    let paths: Vec<_> = paths.collect::<Result<_, _>>().map_err(WriteError::Invalid)?;
    for look in 1.. {
        let (_, states) = repository.read_paths(paths.clone()).await?;
        let files = states.iter().zip(&expected).map(|(state, expected)| {
            let folder = state.bytes.is_none() && state.seen.is_something();
            let current = if folder { Some(Vec::new()) } else { state.bytes.clone() };
            let options = PrepareOptions { force: options.force && !folder, ..options };
            judge(expected.clone(), current, options)
        });
        let files: Vec<PreparedFile> = files.collect();
        let conditional_edit = build_edit(&files, states);
        if options.dry_run || conditional_edit.edits.is_empty() {
            return Ok((files, None));
        }
        // No other process repeats it; files that were changed since the check stay as they are.
        match repository.amend(conditional_edit, clock.now(), &Lease::without_end()).await {
            Ok(PushOutcome::Pushed { commit }) => return Ok((files, Some(commit))),
            Ok(PushOutcome::Unchanged { .. } | PushOutcome::AlreadyPushed { .. }) => {
                return Ok((files, None));
            }
            Err(WriteError::Moved { .. }) if look < LOOKS => {}
            Err(error) => return Err(error),
        }
    }
    Err(WriteError::Invalid("the repository changes too fast".to_owned()))
}

fn build_edit(files: &[PreparedFile], states: Vec<FileState>) -> ConditionalEdit {
    let count = |verdict| files.iter().filter(|file| file.verdict == verdict).count();
    let changed = count(FileVerdict::Replace) + count(FileVerdict::Update);
    let message = CommitMessage::of_preparation(count(FileVerdict::Write), changed);
    let written = files.iter().zip(&states).filter(|(file, _)| {
        matches!(file.verdict, FileVerdict::Write | FileVerdict::Replace | FileVerdict::Update)
    });
    let edits =
        written.map(|(file, state)| (state.path.clone(), Edit::File(file.expected.bytes.clone())));
    ConditionalEdit {
        edits: edits.collect(),
        message,
        seen: states.into_iter().map(|state| (state.path, state.seen)).collect(),
    }
}
