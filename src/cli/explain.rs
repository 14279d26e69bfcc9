//! `bart explain`: where every value comes from.

use clap::Args;
use serde::Serialize;

use super::error::{CliError, Outcome};
use super::offline::{self, Source, World};
use super::output::{self, Format};
use super::table::{Column, table};
use crate::model::id::TargetName;
use crate::model::violation::Rejection;
use crate::pipeline::{default, merge};
use crate::waml::Waml;
use crate::waml::node::{Node, Path, Value};

/// Shows every value that a target ends up with: where it is written, and in which layer.
///
/// The layers are the header, each matching `defaults[n]`, `deploy.<target>`, and the template's
/// defaults.yaml. PATH narrows it down: `env`, `resources.limits`, `ingress[0].paths[0]`.
#[derive(Debug, Args)]
#[command(override_usage = "bart explain [FILE] --target <TARGET> [PATH]")]
pub(super) struct Explain {
    /// The WAML (`.weave.yaml` if absent), and the part to explain (everything if absent).
    /// A single word is a file if there is one of that name, else a part
    #[arg(value_name = "FILE|PATH", num_args = 0..=2)]
    words: Vec<String>,
    /// A folder of templates with `apps/` in it, instead of the built-in ones
    #[arg(long, value_name = "DIR")]
    templates: Option<std::path::PathBuf>,
    /// The target under `deploy`
    #[arg(long, short, value_parser = offline::target)]
    target: TargetName,
    /// How to print the result
    #[arg(long, short, value_enum, default_value_t)]
    output: Format,
}

/// One value and its origin; stable for programs.
#[derive(Debug, Serialize)]
struct Explained {
    path: String,
    value: serde_json::Value,
    layer: String,
    file: String,
    line: u32,
    column: u32,
}

impl Explain {
    /// Runs the command.
    ///
    /// # Errors
    /// Violations, an unknown part, or a file that cannot be read.
    pub(super) fn run(&self) -> Outcome {
        let (file, part) = self.file_and_part();
        let source = Source { file: file.into(), templates: self.templates.clone() };
        let world = source.open(self.output)?;
        let explained = world.waml.as_ref().map_err(Clone::clone);
        let explained = explained.and_then(|waml| values(waml, &self.target, &world, &part));
        match explained {
            Ok(values) if values.is_empty() => Err(CliError::usage(format!(
                "nothing is set at `{part}` for `{}`",
                self.target
            ))
            .hint("write it as in violations, `env[0].value`; leave it away to see everything")),
            Ok(values) if self.output.is_data() => output::data(self.output, &values),
            Ok(values) => output::print(&list(&values)),
            Err(rejection) => {
                Err(offline::refuse(&rejection.violations, &world.sources, self.output)?)
            }
        }
    }

    fn file_and_part(&self) -> (String, String) {
        let is_file = |word: &String| word == "-" || std::path::Path::new(word).is_file();
        match self.words.as_slice() {
            [file, part, ..] => (file.clone(), part.clone()),
            [file] if is_file(file) => (file.clone(), String::new()),
            [part] => (offline::WAML_FILE.to_owned(), part.clone()),
            [] => (offline::WAML_FILE.to_owned(), String::new()),
        }
    }
}

/// The values at and below the path, in the order of the merged settings; the header's first.
fn values(
    waml: &Waml,
    target: &TargetName,
    world: &World,
    part: &str,
) -> Result<Vec<Explained>, Rejection> {
    if waml.is_broken() {
        return Err(Rejection { violations: waml.violations.clone() });
    }
    let merged = merge::layers(waml, target)?;
    let template = world.templates.choose(&merged)?;
    let complete = default::fill(merged, &template.defaults);
    let mut found = Vec::new();
    let mut visit = |at: &Path, node: &Node| {
        if is_within(&at.to_string(), part) {
            found.push(explained(at, node));
        }
    };
    for (key, entry) in waml.root.as_map().into_iter().flatten() {
        if !matches!(key.as_str(), "defaults" | "deploy" | "template") {
            entry.node.leaves(&mut Path::root().key(key), &mut visit);
        }
    }
    complete.tree.leaves(&mut Path::root(), &mut visit);
    Ok(found)
}

/// Compared as written, because a key may hold dots: `annotations.prometheus.io/scrape`.
fn is_within(path: &str, part: &str) -> bool {
    let rest = path.strip_prefix(part);
    part.is_empty() || rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
}

fn explained(path: &Path, node: &Node) -> Explained {
    let origin = &node.origin;
    Explained {
        path: path.to_string(),
        value: match &node.value {
            Value::Scalar(scalar) => scalar.text.clone().into(),
            Value::Null => serde_json::Value::Null,
            Value::List(_) => serde_json::json!([]),
            Value::Map(_) => serde_json::json!({}),
        },
        layer: origin.layer.to_string(),
        file: origin.position.file.to_string(),
        line: origin.position.line,
        column: origin.position.column,
    }
}

fn list(values: &[Explained]) -> String {
    let row = |Explained { path, value, layer, file, line, column }: &Explained| {
        let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        // The file says which template it is.
        let layer = if layer == file { "template" } else { layer.as_str() };
        [path.clone(), value, format!("{file}:{line}:{column}"), layer.to_owned()]
    };
    let columns = [
        Column::middle("PATH", 24),
        Column::cut("VALUE", 12),
        Column::middle("WRITTEN AT", 16),
        Column::cut("LAYER", 8).drop(1),
    ];
    table(columns, values.iter().map(row).collect())
}
