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
    let mut opened = Vec::new();
    let people = people(&settings.forge);
    for one in &settings.manifests {
        if one.embedded {
            let path = Path::new(&one.url);
            ManifestRepository::create_local(path, &one.branch)
                .map_err(cannot_use("the manifest repository"))?;
        }
        let repository =
            ManifestRepository::open(repository_settings(one, client, forge, clock, &people));
        opened.push(ServedRepository {
            name: one.name.clone(),
            repository: repository.await.map_err(cannot_use("the manifest repository"))?,
            readiness: CachedCheck::default(),
            targets: one.targets.clone(),
            source: Source { url: argocd_address(one), branch: one.branch.clone() },
        });
    }
    Ok(opened)
}

/// Returns the place of the templates.
pub(super) fn templates(
    settings: &TemplatesSettings,
    client: &reqwest::Client,
    forge: &Forge,
) -> templates::TemplatesSource {
    let one = match settings {
        TemplatesSettings::BuiltIn => return templates::TemplatesSource::BuiltIn,
        TemplatesSettings::Folder(folder) => {
            return templates::TemplatesSource::Folder(folder.clone());
        }
        TemplatesSettings::Repository(one) => one,
    };
    let place = (one.url.as_str(), one.branch.as_str(), one.clone_dir.as_path());
    let git = Box::new(remote_settings(place, &one.access, AccessLevel::Read, client, forge));
    templates::TemplatesSource::Repository { git, path: one.path.clone(), refresh: one.refresh }
}

/// Returns the settings of a remote branch: its address, its name and the folder of its clone.
fn remote_settings(
    (url, branch, clone_dir): (&str, &str, &Path),
    access: &GitAccess,
    right: AccessLevel,
    client: &reqwest::Client,
    forge: &Forge,
) -> RemoteSettings {
    RemoteSettings {
        url: url.to_owned(),
        branch: branch.to_owned(),
        clone_dir: clone_dir.to_owned(),
        tokens: access::tokens(access, right, forge),
        ssh: access::ssh(access),
        client: client.clone(),
        silence: GIT_SILENCE,
        total: GIT_TOTAL,
    }
}

/// Returns the address for Argo CD's Applications; a path is made absolute, because it is read from
/// another place.
pub(super) fn argocd_address(one: &ManifestRepositorySettings) -> String {
    if one.url.contains("://") || SshAddress::is_meant(&one.url) {
        return one.url.clone();
    }
    let whole = std::path::absolute(&one.url);
    whole.map_or_else(|_| one.url.clone(), |path| path.display().to_string())
}

/// Returns the settings of the writer of a repository.
pub(super) fn repository_settings(
    one: &ManifestRepositorySettings,
    client: &reqwest::Client,
    forge: &Forge,
    clock: &Clock,
    people: &str,
) -> writer::WriterSettings {
    let place = (one.url.as_str(), one.branch.as_str(), one.clone_dir.as_path());
    writer::WriterSettings {
        remote: remote_settings(place, &one.access, AccessLevel::Write, client, forge),
        // It is in the storage folder, which this process has locked.
        alone: one.embedded,
        identity: one.identity.clone(),
        people: people.to_owned(),
        signing: one.signing.clone(),
        budget: one.budget,
        push: one.push,
        now: time_of(clock),
    }
}

fn time_of(clock: &Clock) -> writer::Now {
    let clock = clock.clone();
    writer::Now::by(move || clock.moment())
}
