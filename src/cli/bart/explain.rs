//! `bart explain` shows the origin of every value.

use std::collections::HashMap;
use std::sync::Arc;

use clap::Args;
use serde::Serialize;
use serde_json::Value as Json;

use crate::cli::error::{CliError, CommandOutcome};
use crate::cli::local::{self, LocalInput, WamlSource};
use crate::cli::output::Format;
use crate::cli::platform::KnownTargets;
use crate::cli::repository_apps::AppChoiceArg;
use crate::cli::table::{Column, table};
use crate::model::id::TargetName;
use crate::model::violation::{Position, Rejection};
use crate::pipeline::effect::without_effect;
use crate::pipeline::merge::Merged;
use crate::pipeline::{default, merge};
use crate::support::secret_tree::{MASK, mask_tree};
use crate::templates::set::Template;
use crate::waml::Waml;
use crate::waml::node::{Node, Path, Step, Value};
use crate::waml::scalar::read_untyped;
use crate::waml::section::{Section, always_exists};

/// Shows every value that a target gets, with its file, line and layer.
///
/// Values that a `null` removed follow, and a value without effect has the reason.
///
/// The layers are the header, each matching `defaults[n]`, `deploy.<target>`, and the template's defaults.yaml. Secrets
/// are shown as `••••`. PATH limits the output: `env`, `resources.limits`, `ingress[0].paths[0]`.
#[derive(Debug, Args)]
#[command(override_usage = "bart explain [FILE] --target <TARGET> [PATH]")]
pub(super) struct Explain {
    /// The WAML (`.weave.yaml` if absent), and the part to explain (everything if absent).
    /// A single word is a file if there is one of that name, else a part
    #[arg(value_name = "FILE|PATH", num_args = 0..=2)]
    words: Vec<String>,
    #[command(flatten)]
    app: AppChoiceArg,
    /// A folder of templates with `apps/` in it, instead of the built-in ones
    #[arg(long, value_name = "DIR")]
    templates: Option<std::path::PathBuf>,
    /// The target under `deploy`
    #[arg(long, short)]
    target: TargetName,
    /// The format of the result
    #[arg(long, short, value_enum, default_value_t)]
    output: Format,
}

/// One value and its origin; stable for programs.
#[derive(Debug, Serialize)]
struct Explained {
    path: String,
    #[serde(flatten)]
    written: Written,
    /// The reason why the value has no effect, if it has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    without_effect: Option<String>,
    /// The value that the `null` at this place removes.
    #[serde(skip_serializing_if = "Option::is_none")]
    removes: Option<Written>,
}

/// A value with its place.
#[derive(Debug, Serialize)]
struct Written {
    value: Json,
    layer: String,
    file: String,
    line: u32,
    column: u32,
}

impl Explain {
    pub(super) fn run(&self) -> CommandOutcome {
        let (file, part) = self.file_and_part();
        let (app, templates) = (self.app.clone(), self.templates.clone());
        let source = WamlSource { file: file.map(Into::into), app, templates };
        let known_targets = KnownTargets::unknown("none is asked");
        let world = source.open(self.output, &known_targets)?;
        let explanations = world.waml.as_ref().map_err(Clone::clone);
        let explanations = explanations.and_then(|waml| values(waml, &self.target, &world, &part));
        match explanations {
            Ok(values) if values.is_empty() => {
                Err(CliError::usage(format!("nothing is set at `{part}` for `{}`", self.target))
                    .hint("write it as in violations, `env[0].value`; omit it to see everything"))
            }
            Ok(values) => self.output.print(&values, || list(&values)),
            Err(rejection) => {
                Err(local::refuse(&rejection.violations, &world.sources, self.output)?)
            }
        }
    }

    fn file_and_part(&self) -> (Option<String>, String) {
        let is_file = |word: &String| word == "-" || std::path::Path::new(word).is_file();
        match self.words.as_slice() {
            [file, part, ..] => (Some(file.clone()), part.clone()),
            [file] if is_file(file) => (Some(file.clone()), String::new()),
            [part] => (None, part.clone()),
            [] => (None, String::new()),
        }
    }
}

/// Returns the values at and below the path, in the order of the merged settings; the header's first.
fn values(
    waml: &Waml,
    target: &TargetName,
    world: &LocalInput,
    part: &str,
) -> Result<Vec<Explained>, Rejection> {
    if waml.is_broken() {
        return Err(Rejection { violations: waml.violations.clone() });
    }
    let merged = merge::layers(waml, target)?;
    let template = merged.choose_template(&world.templates)?;
    let removals = removals(&merged, &template.defaults);
    let complete = default::fill(merged, &template.defaults);
    let mut values = Vec::new();
    let header = mask_values(&waml.root);
    let mut visit = |at: &Path, node: &Node| values.push(explain(at, node, &header));
    for (key, entry) in waml.root.as_map().into_iter().flatten() {
        if !matches!(key.as_str(), "defaults" | "deploy" | "template") {
            entry.node.leaves(&mut Path::root().key(key), &mut visit);
        }
    }
    let settings = mask_values(&complete.tree);
    let mut visit = |at: &Path, node: &Node| values.push(explain(at, node, &settings));
    complete.tree.leaves(&mut Path::root(), &mut visit);
    mark(&mut values, &complete.tree, &template);
    values.extend(removals);
    values.retain(|value| is_within(&value.path, part));
    Ok(values)
}

/// Marks values without effect with the reason.
fn mark(values: &mut [Explained], tree: &Node, template: &Template) {
    let section = Section::reader().read(&mut tree.clone(), &Path::root(), &mut Vec::new());
    for setting in section.iter().flat_map(|section| without_effect(section, tree)) {
        let path = setting.path.to_string();
        for value in values.iter_mut().filter(|value| value.path == path) {
            value.without_effect = Some(setting.why.clone());
        }
    }
    for (part, _) in tree.as_map().into_iter().flatten() {
        if template.uses(part)
            || matches!(
                part.as_str(),
                "template" | "removes" | "parameters" | "patches" | "manifests"
            )
        {
            continue;
        }
        for value in values.iter_mut().filter(|value| is_within(&value.path, part)) {
            let reason = format!("the template `{}` does not use it", template.id());
            value.without_effect.get_or_insert(reason);
        }
    }
}

/// Returns each `null` of the layers with the value it removes: of an earlier layer, else of the template.
fn removals(merged: &Merged<'_>, defaults: &Node) -> Vec<Explained> {
    let mut before: HashMap<Arc<str>, Option<Node>> = HashMap::new();
    let mut removals = Vec::new();
    merged.tree.leaves(&mut Path::root(), &mut |path, node| {
        if !node.is_null() {
            return;
        }
        let layer = &node.origin.layer;
        let earlier = before
            .entry(layer.clone())
            .or_insert_with(|| merge::layers_before(merged.waml, &merged.target, layer));
        let earlier =
            earlier.as_ref().and_then(|tree| tree.at(path)).filter(|value| !value.is_null());
        let Some(removed) = earlier.or_else(|| default_at(defaults, path)) else { return };
        let context = json_context(&merged.tree, path, removed);
        removals.push(Explained {
            removes: Some(explain(path, removed, &context).written),
            ..explain(path, node, &context)
        });
    });
    removals
}

/// Returns the template's default for a place: a map over a list is for each of its elements.
fn default_at<'d>(defaults: &'d Node, path: &Path) -> Option<&'d Node> {
    let is_part = matches!(path.0.as_slice(), [Step::Key(part)] if !always_exists(part));
    let default = path.0.iter().try_fold(defaults, |node, step| match step {
        Step::Key(key) => node.get(key),
        Step::Index(_) => node.as_map().map(|_| node),
    });
    default.filter(|_| !is_part)
}

/// Compares paths as written, because a key may have dots: `annotations.prometheus.io/scrape`.
fn is_within(path: &str, part: &str) -> bool {
    let rest = path.strip_prefix(part);
    part.is_empty() || rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
}

/// Returns the values of a tree with a mask for each secret.
fn mask_values(tree: &Node) -> Json {
    let mut json = read_untyped(tree);
    mask_tree(&mut json, &mut |_| MASK.to_owned());
    json
}

/// Returns the map that a value was removed from, as far as it decides whether the value is a secret.
fn json_context(tree: &Node, path: &Path, removed: &Node) -> Json {
    let mut steps = path.clone();
    let Some(Step::Key(key)) = steps.0.pop() else { return Json::Null };
    let name = tree.at(&steps).and_then(|map| map.get("name")).and_then(Node::as_text);
    let mut map = serde_json::json!({ "name": name, &*key: read_untyped(removed) });
    mask_tree(&mut map, &mut |_| MASK.to_owned());
    // At its place in the whole tree.
    steps.0.iter().rev().fold(map, |inner, step| match step {
        Step::Key(key) => serde_json::json!({ &**key: inner }),
        Step::Index(index) => {
            let before = std::iter::repeat_n(Json::Null, *index);
            Json::Array(before.chain([inner]).collect())
        }
    })
}

/// Returns the text of a scalar, or the mask that the tree of masked values has in its place.
fn mask_scalar(text: &str, path: &Path, masked: &Json) -> Json {
    let at = path.0.iter().try_fold(masked, |value, step| match step {
        Step::Key(key) => value.get(&**key),
        Step::Index(index) => value.get(index),
    });
    match at.and_then(Json::as_str) {
        Some(masked) if masked.contains(MASK) => masked.into(),
        Some(_) | None => text.into(),
    }
}

fn explain(path: &Path, node: &Node, masked: &Json) -> Explained {
    let Position { file, line, column, .. } = &node.origin.position;
    let written = Written {
        value: match &node.value {
            Value::Scalar(scalar) => mask_scalar(&scalar.text, path, masked),
            Value::Null => Json::Null,
            Value::List(_) => serde_json::json!([]),
            Value::Map(_) => serde_json::json!({}),
        },
        layer: node.origin.layer.to_string(),
        file: file.to_string(),
        line: *line,
        column: *column,
    };
    Explained { path: path.to_string(), written, without_effect: None, removes: None }
}

fn list(values: &[Explained]) -> String {
    let row = |entry: &Explained| {
        let Explained { path, written: Written { value, layer, file, line, column }, .. } = entry;
        let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        // The file column has the template's name already.
        let layer = if layer == file { "template" } else { layer.as_str() };
        [path.clone(), value, format!("{file}:{line}:{column}"), layer.to_owned()]
    };
    let columns = [
        Column::middle("PATH", 24),
        Column::cut("VALUE", 12),
        Column::middle("WRITTEN AT", 16),
        Column::cut("LAYER", 8).drop(1),
    ];
    if values.iter().all(|entry| note(entry).is_empty()) {
        return table(columns, values.iter().map(row).collect());
    }
    let [path, value, place, layer] = columns;
    let columns = [path, value, place, layer, Column::fold("NOTE", 20)];
    let with_notes = values.iter().map(|entry| {
        let [path, value, place, layer] = row(entry);
        [path, value, place, layer, note(entry)]
    });
    table(columns, with_notes.collect())
}

/// Formats the reason why a value has no effect, or the effect of a `null`.
fn note(value: &Explained) -> String {
    match (&value.removes, &value.without_effect) {
        (Some(Written { value, file, line, column, .. }), _) => {
            let value = match value {
                Json::String(text) => format!("`{text}`"),
                Json::Array(_) => "a list".to_owned(),
                _ => "a map".to_owned(),
            };
            format!("takes away {value} of {file}:{line}:{column}")
        }
        (None, Some(reason)) => format!("does nothing: {reason}"),
        (None, None) => String::new(),
    }
}
