//! Collects the WAMLs for a comparison of templates: from a folder, or from the deployed apps.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::app::{self, Deployed};
use crate::cli::diagnostics::SourceTexts;
use crate::cli::error::{CliError, CommandOutcome};
use crate::cli::extra_files;
use crate::cli::local;
use crate::cli::working_folder::WAML_FILE;
use crate::config::settings::Settings;
use crate::model::id::TargetName;
use crate::pipeline::impact::Case;
use crate::support::clock::Clock;
use crate::waml::Waml;
use crate::waml::app_files::{folder_of, path_of};
use crate::waml::extra_files::beside;

/// The WAMLs to compare.
#[derive(Debug, Default)]
pub(super) struct WamlsToCompare {
    pub(super) cases: Vec<Case>,
    /// The WAMLs that could not be read, with the reasons.
    pub(super) unreadable: Vec<(String, String)>,
}

/// The largest number of files: more than a company has.
const MAX_FILES: usize = 20_000;
/// The largest size of a WAML, in bytes.
const LARGEST: u64 = 262_144;
/// The deepest level of folders that is read.
const DEEPEST: usize = 16;

/// Reads all YAML files below a folder, each for all its targets. Does not follow links, and skips folders that begin
/// with a dot, other than that of the WAMLs of several apps.
pub(super) fn in_folder(
    folder: &Path,
    sources: &mut SourceTexts,
) -> Result<WamlsToCompare, CliError> {
    let mut files = Vec::new();
    walk(folder, DEEPEST, &mut files)?;
    files.sort();
    let mut wamls = WamlsToCompare::default();
    let mut extra_paths = BTreeSet::new();
    for path in files {
        let name = path.display().to_string();
        let text = std::fs::read(&path).map_err(unreadable(&path))?;
        sources.add(&name, String::from_utf8_lossy(&text));
        match Waml::parse(&name, &text) {
            Ok(waml) => {
                let beside_it = path.parent().unwrap_or(Path::new(""));
                let waml = extra_files::from_folder(waml, beside_it, sources);
                extra_paths.extend(waml.extra_paths().iter().map(|path| beside(&name, path)));
                wamls.cases.extend(of_all_targets(&name, &Arc::new(waml)));
            }
            Err(rejection) => wamls.unreadable.push((name, rejection.to_string())),
        }
    }
    // A file that a WAML names is none itself.
    wamls.unreadable.retain(|(name, _)| !extra_paths.contains(name));
    if wamls.cases.is_empty() && wamls.unreadable.is_empty() {
        let message = format!("there is no WAML in {}", folder.display());
        return Err(CliError::io(message).hint("name a folder with files that end in .yaml"));
    }
    Ok(wamls)
}

fn of_all_targets(source: &str, waml: &Arc<Waml>) -> Vec<Case> {
    let case = |target: &TargetName| Case {
        source: source.to_owned(),
        release: local::release(waml, None, None),
        waml: Arc::clone(waml),
        target: target.clone(),
    };
    waml.targets().into_iter().map(case).collect()
}

fn walk(folder: &Path, depth: usize, files: &mut Vec<PathBuf>) -> CommandOutcome {
    let failed = unreadable(folder);
    for entry in std::fs::read_dir(folder).map_err(&failed)? {
        let entry = entry.map_err(&failed)?;
        let (path, name) = (entry.path(), entry.file_name());
        let kind = entry.metadata().map_err(&failed)?;
        let is_hidden = name.to_string_lossy().starts_with('.')
            && folder_of(WAML_FILE).is_none_or(|folder| name != folder);
        let is_yaml = path.extension().is_some_and(|end| end == "yaml" || end == "yml");
        if kind.is_dir() && !is_hidden && depth > 1 {
            walk(&path, depth - 1, files)?;
        } else if kind.is_file() && is_yaml && kind.len() <= LARGEST {
            files.push(path);
        }
        if files.len() > MAX_FILES {
            let message = format!("{} has more than {MAX_FILES} files", folder.display());
            return Err(CliError::io(message).hint("name a folder that has the WAMLs only"));
        }
    }
    Ok(())
}

fn unreadable(path: &Path) -> impl Fn(std::io::Error) -> CliError {
    let failed = CliError::file("read", path);
    move |error| failed(error).hint("name a folder with WAMLs in it under --wamls")
}

/// Returns the deployed WAMLs: each app for the targets where it is live, in that version.
pub(super) async fn fetch_deployed(
    settings: &Settings,
    sources: &mut SourceTexts,
) -> Result<WamlsToCompare, CliError> {
    let deployments = app::list_deployed(settings, &Clock::system()).await;
    let deployments = deployments.map_err(|error| {
        CliError::failed(error)
            .hint("name the service's configuration with --config, or a folder with --wamls")
    })?;
    let mut wamls = WamlsToCompare::default();
    for Deployed { app, target, release, waml, extra_files } in deployments {
        let commit = release.commit.short();
        let path = path_of(&settings.waml.path, release.app.as_ref());
        let name = format!("{} at {commit}: {path}", release.repository);
        let parsed = waml.and_then(|bytes| {
            sources.add(&name, String::from_utf8_lossy(&bytes));
            Waml::parse(&name, &bytes).map_err(|rejection| rejection.to_string())
        });
        match parsed {
            Ok(waml) => {
                let waml = extra_files::put_in(waml, extra_files, sources);
                wamls.cases.push(Case { source: name, waml: Arc::new(waml), target, release });
            }
            Err(why) => wamls.unreadable.push((format!("{app} on {target}"), why)),
        }
    }
    Ok(wamls)
}
