//! `bart import-edit` turns a manual edit of the manifest repository into the change of the WAML that gives the same.

use std::fs;
use std::path::Path;

use clap::Args;
use serde_json::{Value as Json, json};
use similar::TextDiff;

use super::deploy;
use crate::api::hand_edits::{
    EditImportAnswer, EditImportRequest, ImportedFieldSummary, LeftFieldSummary,
};
use crate::cli::bart::pull_request::{DefaultBranchWaml, ProposedWaml};
use crate::cli::context::{self, RepositorySelector, ServiceArgs};
use crate::cli::diagnostics::SourceTexts;
use crate::cli::error::{CliError, CommandOutcome};
use crate::cli::extra_files;
use crate::cli::local;
use crate::cli::output::{self, BOLD, GOOD, note_line};
use crate::cli::repository_apps::{AppChoiceArg, AppFile};
use crate::cli::verbatim::Verbatim;
use crate::model::id::{AppName, DeployId, TargetName};
use crate::model::removal;
use crate::support::clock;
use crate::support::text::truncate_chars;
use crate::waml::Waml;
use crate::waml::extra_files::ExtraFiles;

/// Turns a manual edit of an app's manifests into the change of the WAML that gives the same.
///
/// The edit is that of `latest` in the manifest repository now, or else the newest one that a deployment has replaced. Each
/// edited field becomes a key of the WAML under `deploy`, where one gives exactly it, and else a patch; comments and
/// everything else in the file stay. The service renders each change before it counts. What no change gives is listed with
/// the reason. Without --write the difference is printed, for `git apply` or `patch -p1`.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  bart import-edit prod-cluster-1
  bart import-edit prod-cluster-1 | git apply
  bart import-edit prod-cluster-1 --write
  bart import-edit prod-cluster-1 --pull-request --reason 'memory, as on Sunday night'

Exit codes: 0 the change gives the whole edit; 1 it gives a part of it or nothing, there is no edit, or the WAML would be
refused; 2 wrong usage or no answer.")]
pub(super) struct ImportEditArgs {
    /// The target: a cluster
    target: TargetName,
    /// The deployment that replaced the edit
    #[arg(long, value_name = "ID")]
    deployment: Option<DeployId>,
    /// Change the WAML of the working folder
    #[arg(long)]
    write: bool,
    /// Open a pull request with the change, from the WAML of the default branch and with your own GitHub token
    #[arg(long, conflicts_with = "write")]
    pull_request: bool,
    /// The reason, for who reviews the pull request
    #[arg(long, value_name = "TEXT", requires = "pull_request", value_parser = removal::reason)]
    reason: Option<String>,
    #[command(flatten)]
    app: AppChoiceArg,
    #[command(flatten)]
    selector: RepositorySelector,
    #[command(flatten)]
    service: ServiceArgs,
}

/// The longest value that is shown, in characters.
const LONGEST_VALUE: usize = 200;

impl ImportEditArgs {
    pub(super) async fn run(self) -> CommandOutcome {
        if self.pull_request { self.propose().await } else { self.import().await }
    }

    /// Prints the difference, or writes the file.
    async fn import(&self) -> CommandOutcome {
        let (AppFile { app, name: path, path: file }, bytes) = context::waml_text(&self.app)?;
        let name = file.display().to_string();
        let text = String::from_utf8(bytes)
            .map_err(|_| CliError::usage(format!("{name} is not UTF-8 text")))?;
        let waml = parse(&name, &text)?;
        let folder = file.parent().unwrap_or(Path::new(""));
        let waml = extra_files::from_folder(waml, folder, &mut SourceTexts::default());
        let answer = self.ask(&waml, &text, (app, &path)).await?;
        if self.write && answer.waml != text {
            replace_text(&file, &text, &answer.waml)?;
        }
        self.print(&answer, &text, (&path, None))
    }

    /// Opens a pull request.
    async fn propose(&self) -> CommandOutcome {
        let repository = self.selector.repository()?;
        let github = deploy::github_session(&self.service.server).await?;
        let app = context::request_app(&self.app, &repository)?;
        let base = DefaultBranchWaml::fetch(&github, &repository, app.as_ref()).await?;
        let path = base.path.clone();
        let waml = parse(&path, &base.text)?;
        let mut files = Vec::new();
        for path in waml.extra_paths_of(&self.target) {
            let text = base.fetch_beside(&github, &path).await?;
            files.push((path, Ok(text.into_bytes())));
        }
        let waml = waml.with_extra_files(ExtraFiles::of_bytes(files));
        let answer = self.ask(&waml, &base.text, (app, &path)).await?;
        if answer.waml == base.text {
            return self.print(&answer, &base.text, (&path, None));
        }
        let line = |field: &ImportedFieldSummary| {
            format!("- {}, `{}`\n", field.object, change(field).replace('`', "'"))
        };
        let lines = answer.imported.iter().map(line);
        let reason = self.reason.as_ref().map(|reason| format!("{reason}\n\n")).unwrap_or_default();
        let proposed = ProposedWaml {
            text: &answer.waml,
            branch: format!("import-edit-{}", self.target),
            title: format!("{} on {}: what was edited by hand", waml.app, self.target),
            body: format!("{reason}{}", lines.collect::<String>()),
        };
        let url = base.propose(&github, proposed).await?;
        self.print(&answer, &base.text, (&path, Some(&url)))
    }

    async fn ask(
        &self,
        waml: &Waml,
        text: &str,
        (app, path): (Option<AppName>, &str),
    ) -> Result<Verbatim<EditImportAnswer>, CliError> {
        let file = path;
        let server = &self.service.server;
        let request = EditImportRequest {
            waml: text.to_owned(),
            app_name: app.map(String::from),
            manifests: extra_files::texts_of(waml, &self.target),
            deployment: self.deployment.clone().map(String::from),
        };
        let (target, app) = (&self.target, &waml.app);
        let path = format!("/api/v1/apps/{target}/{}/{}/import-edit", app.namespace, app.slug);
        let answer = server.consult(&path, &request).await;
        let answer: Verbatim<EditImportAnswer> =
            server.suggest(answer, &self.selector.names(target)).await?;
        if answer.violations.is_empty() {
            return Ok(answer);
        }
        let mut sources = SourceTexts::default();
        sources.add(file, text);
        Err(local::refuse(&answer.violations, &sources, self.service.output)?)
    }

    fn print(
        &self,
        answer: &EditImportAnswer,
        text: &str,
        (path, url): (&str, Option<&str>),
    ) -> CommandOutcome {
        let output = self.service.output;
        let difference = unified_diff(path, text, &answer.waml);
        let is_changed = answer.waml != text;
        let data = json!({
            "file": path, "diff": difference, "written": self.write && is_changed,
            "pull_request": url, "revision": answer.revision, "replaced_by": answer.replaced_by,
            "commit": answer.commit, "imported": answer.imported, "left": answer.left,
            "notes": answer.notes,
        });
        if !output.is_data() {
            output::note(&page(answer));
        }
        output.print(&data, || match url {
            Some(url) => format!("{GOOD}opened{GOOD:#} {url}\n"),
            None if self.write && is_changed => format!("{GOOD}written{GOOD:#} {path}\n"),
            None => difference.clone(),
        })?;
        match (answer.left.len(), answer.imported.len()) {
            (0, _) => Ok(()),
            (_, 0) => Err(CliError::refused("no change of the WAML gives any of the edit")),
            (left, _) => {
                let message =
                    format!("the change gives a part of the edit: {left} more would be lost");
                Err(CliError::refused(message))
            }
        }
    }
}

fn parse(name: &str, text: &str) -> Result<Waml, CliError> {
    Waml::parse(name, text.as_bytes()).map_err(|rejection| {
        CliError::refused(format!("{name} cannot be read: {rejection}"))
            .hint("`bart validate` shows what is wrong where")
    })
}

/// Replaces the text of a file, unless it has another text by now. The new one is written beside it and renamed, so that no
/// reader sees half of it; of a link, the file that it leads to is replaced.
fn replace_text(file: &Path, before: &str, after: &str) -> Result<(), CliError> {
    let place = fs::canonicalize(file).map_err(CliError::file("read", file))?;
    let draft = place.with_file_name(format!(".bart-{}", clock::random_digits()));
    let write_draft = || {
        fs::write(&draft, after)?;
        fs::set_permissions(&draft, fs::metadata(&place)?.permissions())
    };
    let replace = || {
        write_draft().map_err(CliError::file("write", file))?;
        let now = fs::read(&place).map_err(CliError::file("read", file))?;
        if now != before.as_bytes() {
            let message = format!("{} was saved meanwhile, and is not written", file.display());
            return Err(CliError::refused(message).hint("run the command again"));
        }
        fs::rename(&draft, &place).map_err(CliError::file("write", file))
    };
    let result = replace();
    if result.is_err() {
        let _nothing_to_keep = fs::remove_file(&draft);
    }
    result
}

/// Formats what was imported, what is left, and the notes; the difference goes to standard output alone.
fn page(answer: &EditImportAnswer) -> String {
    let mut text = String::new();
    if let Some(commit) = &answer.commit {
        let short: String = commit.id.as_str().chars().take(12).collect();
        text +=
            &format!("the edit of revision {} is {short} by {}\n", answer.revision, commit.author);
    }
    for field in &answer.imported {
        let ImportedFieldSummary { object, setting, .. } = field;
        text +=
            &format!("{GOOD}imported{GOOD:#} {object}, by `{setting}`\n    {}\n", change(field));
    }
    for left in &answer.left {
        let LeftFieldSummary { object, field, why } = left;
        let field = field.as_ref().map_or_else(String::new, |field| format!("    {field}\n"));
        text += &format!("{BOLD}left{BOLD:#} {object}: {why}\n{field}");
    }
    if answer.imported.is_empty() && answer.left.is_empty() {
        text += &note_line(
            "the edit changes no field of an object: comments and form are not imported",
        );
    }
    text + &answer.notes.iter().map(note_line).collect::<String>()
}

/// Writes the change of a field: `spec.replicas: 2 → 5`.
fn change(field: &ImportedFieldSummary) -> String {
    let ImportedFieldSummary { field, before, after, .. } = field;
    let value = |value: &Json| truncate_chars(&value.to_string(), LONGEST_VALUE).into_owned();
    format!("{field}: {} → {}", value(before), value(after))
}

fn unified_diff(path: &str, before: &str, after: &str) -> String {
    let (old, new) = (format!("a/{path}"), format!("b/{path}"));
    if before == after {
        return String::new();
    }
    TextDiff::from_lines(before, after).unified_diff().header(&old, &new).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_saved_meanwhile_is_not_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join(".weave.yaml");
        fs::write(&file, "a: 2\n").unwrap();
        let error = replace_text(&file, "a: 1\n", "a: 3\n").unwrap_err();
        assert!(error.to_string().contains("was saved meanwhile"), "{error}");
        assert_eq!(fs::read_to_string(&file).unwrap(), "a: 2\n");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "no draft is left");
    }

    #[cfg(unix)]
    #[test]
    fn a_file_keeps_its_mode_and_a_link_its_end() {
        use std::os::unix::fs::{PermissionsExt as _, symlink};
        let folder = tempfile::tempdir().unwrap();
        let (file, link) = (folder.path().join("real.yaml"), folder.path().join(".weave.yaml"));
        fs::write(&file, "a: 1\n").unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o640)).unwrap();
        symlink("real.yaml", &link).unwrap();
        replace_text(&link, "a: 1\n", "a: 2\n").unwrap();
        assert_eq!(fs::read_to_string(&file).unwrap(), "a: 2\n");
        assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o640);
        assert!(link.is_symlink());
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2, "no draft is left");
    }
}
