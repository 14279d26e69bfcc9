//! `the-deployer init` prepares manifest repositories for their first deployment.

use clap::Args;
use serde_json::{Value as Json, json};

use super::config::ConfigSource;
use crate::app::prepare::{self, PrepareOptions, Prepared, PreparedFile};
use crate::cli::error::{CliError, CommandOutcome};
use crate::cli::output::{BOLD, DIM, Format, GOOD, NOTE};
use crate::manifests::bootstrap::FileVerdict;
use crate::model::target::Clusters;
use crate::support::clock::Clock;

/// Prepares each configured manifest repository: READMEs that keep the folders, and for every configured cluster its
/// parent Application and its AppProject, in one commit for each repository.
///
/// Running it again changes nothing. A file that differs (people edited it, or the settings changed) stays as it is,
/// and the difference is shown; --force replaces it. In an existing AppProject only the destinations follow the
/// configuration. At the end it prints what an operator applies once.
#[derive(Debug, Args)]
pub(super) struct Init {
    #[command(flatten)]
    source: ConfigSource,
    /// Only print what would be written
    #[arg(long)]
    dry_run: bool,
    /// Replace files that people have edited
    #[arg(long)]
    force: bool,
    /// The format of the result
    #[arg(long, short, value_enum, default_value_t)]
    output: Format,
}

impl Init {
    pub(super) async fn run(self) -> CommandOutcome {
        let settings = self.source.load(self.output)?.settings;
        let options = PrepareOptions { dry_run: self.dry_run, force: self.force, probe: false };
        let prepared = prepare::prepare_all(&settings, options, &Clock::system()).await;
        let prepared = prepared.map_err(CliError::failed)?;
        let repositories: Vec<Json> = prepared.iter().map(as_json).collect();
        let data = json!({"dry_run": self.dry_run, "repositories": repositories});
        self.output.print(&data, || {
            let text: String =
                prepared.iter().map(|repository| page(repository, self.dry_run)).collect();
            text + &next(&settings.clusters)
        })
    }
}

fn as_json(repository: &Prepared) -> Json {
    let file = |file: &PreparedFile| json!({"path": file.expected.path, "state": state(file.verdict), "diff": diff(file)});
    let files: Vec<Json> = repository.files.iter().map(file).collect();
    json!({"name": repository.name, "url": repository.url, "commit": repository.commit, "files": files})
}

/// Returns the stable word of a verdict for programs.
fn state(verdict: FileVerdict) -> &'static str {
    match verdict {
        FileVerdict::Write => "written",
        FileVerdict::Same => "unchanged",
        FileVerdict::Keep => "kept",
        FileVerdict::Replace => "replaced",
        FileVerdict::Update => "updated",
    }
}

fn page(repository: &Prepared, dry_run: bool) -> String {
    let mut text = format!("{BOLD}{}{BOLD:#}  {DIM}{}{DIM:#}\n", repository.name, repository.url);
    for file in &repository.files {
        text += &line(file, dry_run);
    }
    text += &match (&repository.commit, dry_run) {
        (Some(commit), _) => format!("  {GOOD}commit{GOOD:#} {}\n", commit.short()),
        (None, true) => "  nothing is written: this is a dry run\n".to_owned(),
        (None, false) => "  nothing to do\n".to_owned(),
    };
    text
}

fn line(file: &PreparedFile, dry_run: bool) -> String {
    let path = &file.expected.path;
    let would = if dry_run { "would be " } else { "" };
    match file.verdict {
        FileVerdict::Write => format!("  {GOOD}{would}written{GOOD:#}    {path}\n"),
        FileVerdict::Replace => format!("  {NOTE}{would}replaced{NOTE:#}   {path}\n"),
        FileVerdict::Update => {
            let diff = shown_diff(file);
            format!(
                "  {NOTE}{would}updated{NOTE:#}    {path}: its destinations follow the configuration\n{diff}"
            )
        }
        FileVerdict::Same => format!("  {DIM}nothing to do{DIM:#}  {path}\n"),
        FileVerdict::Keep => {
            let diff = shown_diff(file);
            format!(
                "  {NOTE}kept{NOTE:#}       {path}: it is different from what would be written; --force replaces it\n{diff}"
            )
        }
    }
}

fn shown_diff(file: &PreparedFile) -> String {
    let differs = diff(file).unwrap_or_default();
    differs.lines().map(|line| format!("      {line}\n")).collect()
}

/// Returns the difference from the existing file to the new one.
fn diff(file: &PreparedFile) -> Option<String> {
    if !matches!(file.verdict, FileVerdict::Keep | FileVerdict::Replace | FileVerdict::Update) {
        return None;
    }
    let current = String::from_utf8_lossy(file.current.as_deref().unwrap_or_default()).into_owned();
    let expected = String::from_utf8_lossy(&file.expected.bytes).into_owned();
    let diff = similar::TextDiff::from_lines(&current, &expected);
    Some(diff.unified_diff().context_radius(1).header("there", "wanted").to_string())
}

fn next(clusters: &Clusters) -> String {
    match clusters {
        Clusters::Any(_) => "\nno cluster is configured: the parent of a target is written with the first deployment to it\n".to_owned(),
        Clusters::Known(targets) => {
            let apply = |name| format!("  kubectl apply -f apps/{name}.yaml\n");
            let lines: String = targets.keys().map(apply).collect();
            format!("\nonce for each cluster, where its Argo CD runs:\n{lines}")
        }
    }
}
