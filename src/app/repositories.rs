//! Opens the manifest repositories of the configuration.

use std::path::Path;
use std::time::Duration;

use crate::app::access;
use crate::app::code_host::people;
use crate::app::start_error::{StartError, cannot_use};
use crate::config::access::GitAccess;
use crate::config::manifests::ManifestRepositorySettings;
use crate::config::settings::Settings;
use crate::config::templates::TemplatesSettings;
use crate::deployments::health::CachedCheck;
use crate::deployments::{ServedRepository, templates};
use crate::forge::Forge;
use crate::forge::github::permission::AccessLevel;
use crate::git::writer::{self, ManifestRepository, RemoteSettings};
use crate::manifests::argocd::application::Source;
use crate::model::ssh::SshAddress;
use crate::support::clock::Clock;

/// The time without data after which a connection counts as lost.
const GIT_SILENCE: Duration = Duration::from_mins(1);
/// The time for a git command: a first clone of a large repository takes minutes.
const GIT_TOTAL: Duration = Duration::from_mins(10);

/// Opens all manifest repositories; the embedded one is created if it is missing.
pub(super) async fn open(
    settings: &Settings,
    client: &reqwest::Client,
    forge: &Forge,
    clock: &Clock,
) -> Result<Vec<ServedRepository>, StartError> {
    let mut served = Vec::new();
    let people = people(&settings.forge);
    for manifests in &settings.manifests {
        if manifests.embedded {
            let path = Path::new(&manifests.url);
            ManifestRepository::create_local(path, &manifests.branch)
                .map_err(cannot_use("the manifest repository"))?;
        }
        let repository =
            ManifestRepository::open(repository_settings(manifests, client, forge, clock, &people));
        served.push(ServedRepository {
            name: manifests.name.clone(),
            repository: repository.await.map_err(cannot_use("the manifest repository"))?,
            readiness: CachedCheck::default(),
            targets: manifests.targets.clone(),
            source: Source { url: argocd_address(manifests), branch: manifests.branch.clone() },
        });
    }
    Ok(served)
}

/// Returns the place of the templates.
pub(super) fn templates(
    settings: &TemplatesSettings,
    client: &reqwest::Client,
    forge: &Forge,
) -> templates::TemplatesSource {
    let repository = match settings {
        TemplatesSettings::BuiltIn => return templates::TemplatesSource::BuiltIn,
        TemplatesSettings::Folder(folder) => {
            return templates::TemplatesSource::Folder(folder.clone());
        }
        TemplatesSettings::Repository(repository) => repository,
    };
    let place =
        (repository.url.as_str(), repository.branch.as_str(), repository.clone_dir.as_path());
    let git =
        Box::new(remote_settings(place, &repository.access, AccessLevel::Read, client, forge));
    templates::TemplatesSource::Repository {
        git,
        path: repository.path.clone(),
        refresh: repository.refresh,
    }
}

/// Returns the settings of a remote branch: its address, its name and the folder of its clone.
fn remote_settings(
    (url, branch, clone_dir): (&str, &str, &Path),
    access: &GitAccess,
    level: AccessLevel,
    client: &reqwest::Client,
    forge: &Forge,
) -> RemoteSettings {
    RemoteSettings {
        url: url.to_owned(),
        branch: branch.to_owned(),
        clone_dir: clone_dir.to_owned(),
        tokens: access::tokens(access, level, forge),
        ssh: access::ssh(access),
        client: client.clone(),
        silence: GIT_SILENCE,
        total: GIT_TOTAL,
    }
}

/// Returns the address for Argo CD's Applications; a path is made absolute, because it is read from
/// another place.
pub(super) fn argocd_address(manifests: &ManifestRepositorySettings) -> String {
    if manifests.url.contains("://") || SshAddress::is_meant(&manifests.url) {
        return manifests.url.clone();
    }
    let absolute = std::path::absolute(&manifests.url);
    absolute.map_or_else(|_| manifests.url.clone(), |path| path.display().to_string())
}

/// Returns the settings of the writer of a repository.
pub(super) fn repository_settings(
    manifests: &ManifestRepositorySettings,
    client: &reqwest::Client,
    forge: &Forge,
    clock: &Clock,
    people: &str,
) -> writer::WriterSettings {
    let place = (manifests.url.as_str(), manifests.branch.as_str(), manifests.clone_dir.as_path());
    writer::WriterSettings {
        remote: remote_settings(place, &manifests.access, AccessLevel::Write, client, forge),
        // It is in the storage folder, which this process has locked.
        alone: manifests.embedded,
        identity: manifests.identity.clone(),
        people: people.to_owned(),
        signing: manifests.signing.clone(),
        budget: manifests.budget,
        push: manifests.push,
        now: time_of(clock),
    }
}

fn time_of(clock: &Clock) -> writer::Now {
    let clock = clock.clone();
    writer::Now::by(move || clock.moment())
}
