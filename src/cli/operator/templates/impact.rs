//! `the-deployer templates impact` shows what other templates would change.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;
use serde_json::json;

use super::wamls::{self, WamlsToCompare};
use crate::app;
use crate::cli::diagnostics::{self, SourceTexts};
use crate::cli::error::{CliError, CommandOutcome};
use crate::cli::local;
use crate::cli::operator::config;
use crate::cli::output::{self, BAD, BOLD, Format, GOOD};
use crate::cli::table::{Column, table};
use crate::model::facts::Facts;
use crate::model::violation::Violation;
use crate::pipeline::impact;
use crate::pipeline::impact::ImpactVerdict;
use crate::templates::set::TemplateSet;
use crate::templates::sources;

/// Compares two sets of templates by the manifests of apps.
///
/// Plans every WAML for every target with both, and shows which apps and objects would change, which pods would
/// restart, and which apps would be refused. The WAMLs are those of a folder, or those of the newest successful
/// deployment of each app to each target.
///
/// Exit code 0 when the comparison was made, whatever it shows; 1 when one of the two sets is broken; 2 when something
/// cannot be read or reached.
#[derive(Debug, Args)]
pub(crate) struct ImpactArgs {
    /// The current templates: a revision of the repository, or a folder that has `apps/`
    #[arg(long, value_name = "REV")]
    from: String,
    /// The new templates: a revision of the repository, or a folder that has `apps/`
    #[arg(long, value_name = "REV")]
    to: String,
    /// The templates' repository: a clone on this machine
    #[arg(long, value_name = "PATH", default_value = ".")]
    repository: PathBuf,
    /// The folder in the repository that has `apps/`; without it, its root
    #[arg(long, value_name = "DIR", default_value = "")]
    path: String,
    /// A folder with WAMLs in it, at any depth; without it, the deployed ones
    #[arg(long, value_name = "DIR")]
    wamls: Option<PathBuf>,
    #[command(flatten)]
    source: config::ConfigSource,
    /// Show the lines that change
    #[arg(long)]
    diff: bool,
    /// The format of the result
    #[arg(long, short, value_enum, default_value_t)]
    output: Format,
}

/// One of the two sets.
struct Side {
    templates: Arc<TemplateSet>,
    title: String,
}

impl ImpactArgs {
    pub(crate) async fn run(self) -> CommandOutcome {
        let settings = self.source.load(self.output)?.settings;
        let mut sources = SourceTexts::default();
        let from = self.side(&self.from, &mut sources)?;
        let to = self.side(&self.to, &mut sources)?;
        let WamlsToCompare { cases, unreadable } = match &self.wamls {
            Some(folder) => wamls::in_folder(folder, &mut sources)?,
            None => wamls::fetch_deployed(&settings, &mut sources).await?,
        };
        let facts = Facts::without_lookups(jiff::Timestamp::UNIX_EPOCH, settings.clusters);
        let impacts = impact::compare(&cases, &from.templates, &to.templates, &facts);
        let comparison = Comparison { impacts, unreadable };
        let json = comparison.json(&from, &to, self.diff);
        self.output.print(&json, || comparison.text(&from, &to, self.diff))?;
        if !self.output.is_data() {
            output::note(&comparison.violations(&sources));
        }
        Ok(())
    }

    fn side(&self, revision: &str, sources: &mut SourceTexts) -> Result<Side, CliError> {
        let texts = if Path::new(revision).join(sources::APPS).is_dir() {
            sources::folder(Path::new(revision)).map_err(|error| error.to_string())
        } else {
            app::templates_at_revision(&self.repository, revision, self.path.trim_matches('/'))
        };
        let help =
            "name a commit, branch or tag of the repository that --repository names, or a folder";
        let texts = texts.map_err(|error| CliError::io(error).hint(help))?;
        local::add_templates(sources, &texts);
        let title = texts.commit.as_ref().map_or_else(
            || revision.to_owned(),
            |commit| format!("{revision} ({})", commit.short()),
        );
        match TemplateSet::compile(&texts) {
            Ok(templates) => Ok(Side { templates: Arc::new(templates), title }),
            Err(rejection) => {
                output::note(&format!("{BAD}the templates of {title} are broken{BAD:#}\n"));
                Err(local::refuse(&rejection.violations, sources, self.output)?)
            }
        }
    }
}

/// The result of the comparison.
struct Comparison {
    impacts: Vec<impact::Impact>,
    /// The WAMLs that could not be read, with the reasons.
    unreadable: Vec<(String, String)>,
}

impl Comparison {
    fn count(&self, verdict: ImpactVerdict) -> usize {
        self.impacts.iter().filter(|impact| impact.verdict == verdict).count()
    }

    fn json(&self, from: &Side, to: &Side, diff: bool) -> serde_json::Value {
        let mut apps = json!(self.impacts);
        let apps_json = apps.as_array_mut().into_iter().flatten();
        let objects = apps_json.filter_map(|app| app["objects"].as_array_mut());
        for object in objects.flatten().filter(|_| !diff) {
            object.as_object_mut().and_then(|object| object.remove("diff"));
        }
        let commit = |side: &Side| side.templates.commit.clone();
        let unreadable =
            self.unreadable.iter().map(|(source, why)| json!({"source": source, "why": why}));
        json!({
            "from": {"origin": from.templates.origin, "commit": commit(from)},
            "to": {"origin": to.templates.origin, "commit": commit(to)},
            "apps": apps,
            "unreadable": unreadable.collect::<Vec<_>>(),
        })
    }

    fn text(&self, from: &Side, to: &Side, diff: bool) -> String {
        let mut text = format!("{BOLD}{} → {}{BOLD:#}\n", from.title, to.title);
        let impacts =
            self.impacts.iter().filter(|impact| impact.verdict != ImpactVerdict::Unchanged);
        let impacts: Vec<&impact::Impact> = impacts.collect();
        if !impacts.is_empty() {
            text += &list(&impacts);
        }
        for impact in impacts.iter().filter(|impact| diff && !impact.objects.is_empty()) {
            text += &format!("\n{BOLD}{} on {}{BOLD:#}\n", impact.app, impact.target);
            for change in &impact.objects {
                text += &format!("{} {} {}\n", change.kind, change.name, change.how.as_str());
                text += &change.diff.lines().map(colour_line).collect::<String>();
            }
        }
        for (source, why) in &self.unreadable {
            text += &format!("{BAD}cannot be read{BAD:#} {source}: {why}\n");
        }
        text + &self.summary()
    }

    fn summary(&self) -> String {
        let restarts = self.impacts.iter().filter(|impact| !impact.restarts.is_empty()).count();
        format!(
            "{} compared: {} changed (pods restart in {restarts}), {} refused, {} repaired, {} still \
             refused, {} unchanged\n",
            self.impacts.len(),
            self.count(ImpactVerdict::Changed),
            self.count(ImpactVerdict::Refused),
            self.count(ImpactVerdict::Repaired),
            self.count(ImpactVerdict::StillRefused),
            self.count(ImpactVerdict::Unchanged),
        )
    }

    /// Formats why the new templates refuse an app; what both refuse is not their fault.
    fn violations(&self, sources: &SourceTexts) -> String {
        let rejected =
            self.impacts.iter().filter(|impact| impact.verdict == ImpactVerdict::Refused);
        let mut violations: Vec<Violation> = Vec::new();
        for violation in rejected.flat_map(|impact| &impact.violations) {
            if !violations.contains(violation) {
                violations.push(violation.clone());
            }
        }
        if violations.is_empty() {
            String::new()
        } else {
            diagnostics::render(&violations, sources)
        }
    }
}

fn list(impacts: &[&impact::Impact]) -> String {
    let row = |impact: &&impact::Impact| {
        let pods = if impact.restarts.is_empty() { "" } else { "restart" };
        let (verdict, about) = (impact.verdict.as_str(), about(impact));
        [&impact.app, &impact.target, verdict, pods, &about].map(str::to_owned)
    };
    let columns = [
        Column::middle("APP", 12),
        Column::middle("TARGET", 8),
        Column::whole("RESULT"),
        Column::whole("PODS"),
        Column::fold("ABOUT", 20),
    ];
    table(columns, impacts.iter().map(row).collect())
}

/// Describes the objects that change, or why there are none.
fn about(impact: &impact::Impact) -> String {
    let objects = impact.objects.iter();
    let objects = objects.map(|c| format!("{} {} {}", c.kind, c.name, c.how.as_str()));
    match (impact.verdict, impact.violations.first()) {
        (ImpactVerdict::Refused | ImpactVerdict::StillRefused, Some(first)) => first.to_string(),
        _ => objects.collect::<Vec<_>>().join(", "),
    }
}

fn colour_line(line: &str) -> String {
    match line.chars().next() {
        Some('+') => format!("{GOOD}{line}{GOOD:#}\n"),
        Some('-') => format!("{BAD}{line}{BAD:#}\n"),
        _ => format!("{line}\n"),
    }
}
