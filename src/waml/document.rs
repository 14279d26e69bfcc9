//! The WAML as a whole: a header about the app, and layers of settings.

use std::borrow::Cow;
use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, LazyLock, OnceLock};

use indexmap::IndexMap;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Serialize};

use crate::model::id::{AppKey, Namespace, RolloutName, Slug, TargetName};
use crate::model::violation::{Position, Rejection, Violation, sort};
use crate::support::globs::{GlobErrorKind, Globs};
use crate::waml::checked_reader::Reader;
use crate::waml::extra_files::{ExtraFiles, distinct_paths};
use crate::waml::node::{Node, Path, Value};
use crate::waml::rollouts::{RolloutDefinition, WrittenRollout};
use crate::waml::section::{Defaults, Section};
use crate::waml::suggest;
use crate::waml::yaml::{self, Budget};
use crate::waml::{collect, duplicates, extra_files, ignored, rollouts};

/// A WAML, `.weave.yaml` at the root of a service's repository.
///
/// Says who owns an app and how it is deployed: settings shared by targets under `defaults`,
/// settings of one target under `deploy`.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(title = "WAML")]
pub struct Document {
    /// The version of this format; always "2".
    pub schema: SchemaVersion,
    /// The app's name, for people.
    #[schemars(extend("format" = "line"))]
    pub name: String,
    /// An RFC 1123 label that names every resource.
    #[schemars(extend("format" = "slug", "pattern" = "^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$"))]
    pub slug: String,
    /// The owning team's e-mail address.
    #[schemars(extend("format" = "email"))]
    pub owner: String,
    /// The team's Slack channel: "#squad-devx".
    #[serde(default)]
    #[schemars(extend("format" = "line"))]
    pub slack: Option<String>,
    /// The messages that the channel gets beside failures.
    #[serde(default)]
    pub notify: Option<Notify>,
    /// The Kubernetes namespace.
    #[schemars(extend("format" = "namespace", "pattern" = "^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$"))]
    pub namespace: String,
    /// The template, NAME or NAME@VERSION; a section may name another.
    #[serde(default)]
    #[schemars(extend("format" = "template"))]
    pub template: Option<String>,
    /// Links for the app's pages, merged by `name`.
    #[serde(default)]
    pub links: Option<Vec<Link>>,
    /// Settings for every target that matches, in order.
    #[serde(default)]
    pub defaults: Option<Vec<DefaultsEntry>>,
    /// Settings by target; an app is deployed only to targets that are named here.
    #[schemars(extend("propertyNames" = {"format": "target"}))]
    pub deploy: IndexMap<String, Option<Section>>,
    /// Rollouts by name: one release over several targets, step by step, with gates and undo.
    #[serde(default)]
    #[schemars(extend("propertyNames" = {"format": "rollout"}))]
    pub rollouts: Option<IndexMap<String, RolloutDefinition>>,
}

/// The version of the format.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
pub enum SchemaVersion {
    /// The one that is described here.
    #[serde(rename = "2")]
    Two,
}

/// The messages that the team's channel gets beside failures and the first success after one.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Notify {
    /// True for a message about every success. Default: no.
    pub success: Option<bool>,
}

/// A link for people.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Link {
    /// The label of the link: `Runbook`.
    #[schemars(extend("format" = "line"))]
    pub name: String,
    /// The address of the link.
    #[schemars(extend("format" = "url"))]
    pub url: String,
}

/// A section with the targets that it is for.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct DefaultsEntry {
    /// A glob over target names, in globset's syntax.
    #[serde(rename = "match")]
    pub matcher: String,
    /// The settings.
    #[serde(flatten)]
    pub section: Section,
}

/// Written by hand, because a flattened schema no longer refuses unknown keys.
impl JsonSchema for DefaultsEntry {
    fn schema_name() -> Cow<'static, str> {
        "DefaultsEntry".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let mut schema = Section::json_schema(generator);
        let glob = schemars::json_schema!({
            "type": "string",
            "description": "A glob over target names, in globset's syntax: `*`, `prod-*`, `{a,b}`.",
        });
        let object = schema.ensure_object();
        if let Some(properties) = object.get_mut("properties").and_then(|p| p.as_object_mut()) {
            properties.insert("match".to_owned(), glob.to_value());
        }
        object.insert("required".to_owned(), serde_json::json!(["match"]));
        object.insert("description".to_owned(), "Settings for the targets that match.".into());
        schema
    }
}

/// A parsed WAML: the app, and its layers with every value's place.
#[derive(Debug, Clone)]
pub struct Waml {
    /// Namespace and slug.
    pub app: AppKey,
    /// The app's name, for people.
    pub name: String,
    /// The owning team's e-mail address.
    pub owner: String,
    /// The team's Slack channel.
    pub slack: Option<String>,
    /// True if the channel gets a message about every success.
    pub successes: bool,
    /// The template of the header, if it names one.
    pub template: Option<String>,
    /// Links for people.
    pub links: Vec<Link>,
    /// The whole file, for places.
    pub root: Node,
    /// `defaults` in file order.
    pub defaults: Vec<Defaults>,
    /// `deploy`, by target.
    pub deploy: IndexMap<TargetName, Node>,
    /// `rollouts`, by name.
    pub rollouts: IndexMap<RolloutName, WrittenRollout>,
    /// The files that `manifests` names, once they were read.
    pub extra_files: ExtraFiles,
    /// The violations so far that do not prevent reading the file.
    pub violations: Vec<Violation>,
    /// True if `app` is a placeholder for a name that cannot be read.
    pub stands_in: bool,
    /// The targets under `deploy` that are placeholders for names that are not legal.
    misnamed: BTreeSet<TargetName>,
    /// The settings that every target overrides; found once, because each target's layers are merged for it.
    overridden: OnceLock<Vec<(Path, Position)>>,
    /// The violations of the rollouts; found once, because they are the same for each target.
    rollout_violations: OnceLock<Vec<Violation>>,
}

static READER: LazyLock<Reader<Document>> = LazyLock::new(Reader::new);

/// Makes what reading a WAML needs, so that the first one is read as fast as the others.
pub fn prepare() {
    LazyLock::force(&READER);
}

/// Makes the JSON Schema that editors complete with.
pub fn json_schema() -> Schema {
    written_schema(|_| {})
}

/// Makes the JSON Schema of WAMLs that use one template, from the schema of its parameters by name.
pub fn json_schema_with_parameters(
    parameters: &serde_json::Map<String, serde_json::Value>,
) -> Schema {
    // A `null` removes what an earlier layer set.
    let nullable = |(name, schema): (&String, &serde_json::Value)| {
        (name.clone(), serde_json::json!({"anyOf": [schema, {"type": "null"}]}))
    };
    let properties: serde_json::Value = parameters.iter().map(nullable).collect();
    written_schema(|json| {
        for section in ["Section", "DefaultsEntry"] {
            let pointer = format!("/$defs/{section}/properties/parameters");
            let Some(part) = json.pointer_mut(&pointer).and_then(|part| part.as_object_mut())
            else {
                continue;
            };
            part.insert("properties".to_owned(), properties.clone());
            part.insert("additionalProperties".to_owned(), false.into());
        }
    })
}

fn written_schema(edit: impl FnOnce(&mut serde_json::Value)) -> Schema {
    let mut schema = schemars::schema_for!(Document);
    schema.insert("$id".to_owned(), "https://the-deployer.invalid/schemas/waml-2.json".into());
    let mut json = schema.as_value().clone();
    edit(&mut json);
    widen(&mut json);
    Schema::try_from(json).unwrap_or(schema)
}

/// Widens the types of text values, because the reader takes every scalar there as it is spelled (`maxSurge: 0`,
/// `value: true`); an editor that goes by JSON's types needs that in the schema.
fn widen(json: &mut serde_json::Value) {
    match json {
        serde_json::Value::Array(list) => list.iter_mut().for_each(widen),
        serde_json::Value::Object(map) => {
            map.values_mut().for_each(widen);
            let free = !map.contains_key("format")
                && !map.contains_key("enum")
                && !map.contains_key("const");
            let (text, nullable) = match map.get("type") {
                Some(serde_json::Value::String(name)) => (name == "string", false),
                Some(serde_json::Value::Array(many)) => (many.iter().any(|t| t == "string"), true),
                _ => (false, false),
            };
            if text && free {
                let mut types = vec!["string", "number", "boolean"];
                types.extend(nullable.then_some("null"));
                map.insert("type".to_owned(), types.into());
            }
        }
        _ => {}
    }
}

impl Waml {
    /// Reads a WAML.
    ///
    /// # Errors
    /// All violations, when the file cannot be read or does not say which app it describes.
    /// Otherwise they are kept in the value, and the rules add theirs.
    pub fn parse(file_name: &str, bytes: &[u8]) -> Result<Self, Rejection> {
        Self::parse_within(file_name, bytes, &Budget::default())
    }

    /// Parses a file with other limits than the usual ones.
    ///
    /// # Errors
    /// As [`Waml::parse`].
    pub fn parse_within(file_name: &str, bytes: &[u8], budget: &Budget) -> Result<Self, Rejection> {
        let mut violations = Vec::new();
        let waml = Self::read(file_name, bytes, budget, &mut violations);
        sort(&mut violations);
        match waml.filter(|waml| !waml.stands_in) {
            Some(waml) => Ok(Self { violations, ..waml }),
            None => Err(Rejection { violations }),
        }
    }

    /// Parses a file with another name in the place of a namespace and slug that cannot be read:
    /// for finding out what else is wrong with the file, never for anything that is done to an app.
    /// `None` when it is not a map of YAML.
    pub fn parse_draft(file_name: &str, bytes: &[u8], budget: &Budget) -> Option<Self> {
        let mut violations = Vec::new();
        let waml = Self::read(file_name, bytes, budget, &mut violations)?;
        sort(&mut violations);
        let draft = Self { violations, ..waml };
        Some(draft.with_misnamed_targets())
    }

    fn read(
        file_name: &str,
        bytes: &[u8],
        budget: &Budget,
        violations: &mut Vec<Violation>,
    ) -> Option<Self> {
        let root = yaml::parse(file_name, bytes, budget, violations)?;
        ignored::comments(&root, READER.place(), &String::from_utf8_lossy(bytes), violations);
        Self::of(root, violations)
    }

    fn of(mut root: Node, violations: &mut Vec<Violation>) -> Option<Self> {
        READER.check(&mut root, &Path::root(), violations)?;
        duplicates::check(&mut root, READER.place(), violations);
        label_layers(&mut root);
        let text = |key: &str| {
            root.get(key).filter(|n| !n.broken).and_then(Node::as_text).map(str::to_owned)
        };
        let namespace = text("namespace").and_then(|text| Namespace::parse(text).ok());
        let slug = text("slug").and_then(|text| Slug::parse(text).ok());
        let stands_in = namespace.is_none() || slug.is_none();
        let like = |key: &str| label_like(root.get(key).and_then(Node::as_text));
        let app = AppKey {
            namespace: namespace.or_else(|| Namespace::parse(like("namespace")).ok())?,
            slug: slug.or_else(|| Slug::parse(like("slug")).ok())?,
        };
        let (defaults, deploy) = (defaults(&root, violations), deploy(&root));
        alike_targets(&deploy, &root, violations);
        let is_whole = root.get("deploy").is_some_and(|node| !node.has_broken());
        if is_whole && !deploy.is_empty() {
            ignored::check_unmatched(
                &defaults,
                &deploy.keys().collect::<Vec<_>>(),
                &root,
                violations,
            );
        }
        Some(Self {
            app,
            name: text("name").unwrap_or_default(),
            owner: text("owner").unwrap_or_default(),
            slack: text("slack"),
            successes: successes(&root),
            template: text("template"),
            links: links(&root),
            defaults,
            deploy,
            rollouts: rollouts::read(&root),
            root,
            extra_files: ExtraFiles::default(),
            violations: Vec::new(),
            stands_in,
            misnamed: BTreeSet::new(),
            overridden: OnceLock::new(),
            rollout_violations: OnceLock::new(),
        })
    }

    /// Adds the sections of targets whose names are not legal, under legal ones.
    #[must_use]
    pub fn with_misnamed_targets(mut self) -> Self {
        let targets = self.root.get("deploy").and_then(Node::as_map).into_iter().flatten();
        for (name, entry) in targets.filter(|(name, _)| TargetName::parse(*name).is_err()) {
            let Ok(stand_in) = TargetName::parse(label_like(Some(name))) else { continue };
            let section = Node { broken: false, ..entry.node.clone() };
            if !self.deploy.contains_key(&stand_in) {
                self.misnamed.insert(stand_in.clone());
                self.deploy.insert(stand_in, section);
            }
        }
        self.overridden = OnceLock::new();
        self
    }

    /// Checks that the target's name is a placeholder for one that is not legal: rules that go by the name do not check
    /// it.
    pub fn is_misnamed(&self, target: &TargetName) -> bool {
        self.misnamed.contains(target)
    }

    /// Checks that the app's namespace is the one that the file says.
    pub fn has_own_namespace(&self) -> bool {
        self.has_root_value("namespace", self.app.namespace.as_str())
    }

    /// Checks that the app's slug is the one that the file says.
    pub fn has_own_slug(&self) -> bool {
        self.has_root_value("slug", self.app.slug.as_str())
    }

    fn has_root_value(&self, key: &str, value: &str) -> bool {
        self.root.get(key).and_then(Node::as_text) == Some(value)
    }

    /// Returns the settings that every target overrides, by `find`, which is asked once for each
    /// file that was read.
    pub fn overridden(
        &self,
        find: impl FnOnce(&Self) -> Vec<(Path, Position)>,
    ) -> &[(Path, Position)] {
        self.overridden.get_or_init(|| find(self))
    }

    /// Returns the violations of the rollouts, by `find`, which is asked once for each file that was read.
    pub fn rollout_violations(&self, find: impl FnOnce(&Self) -> Vec<Violation>) -> &[Violation] {
        self.rollout_violations.get_or_init(|| find(self))
    }

    /// Returns the path of the file, as its reader named it.
    pub fn file(&self) -> &str {
        &self.root.origin.position.file
    }

    /// Lists the targets that the app may be deployed to, in file order.
    pub fn targets(&self) -> Vec<&TargetName> {
        self.deploy.keys().collect()
    }

    /// Returns the WAML with the files that it names.
    #[must_use]
    pub fn with_extra_files(self, extra_files: ExtraFiles) -> Self {
        Self { extra_files, ..self }
    }

    /// Lists the legal paths under `manifests` for one target, each once: those of the last layer that has the key, and not
    /// more than a target may have.
    pub fn extra_paths_of(&self, target: &TargetName) -> Vec<String> {
        let matching = self.defaults.iter().filter(|entry| entry.matcher.is_match(target.as_str()));
        let layers = matching.map(|entry| &entry.section).chain(self.deploy.get(target));
        let last = layers.filter_map(|section| section.get("manifests")).next_back();
        let mut paths = distinct_paths(last.into_iter());
        paths.truncate(extra_files::MAX_FILES);
        paths
    }

    /// Lists the legal paths under `manifests` of all layers, each once.
    pub fn extra_paths(&self) -> Vec<String> {
        let defaults = self.root.get("defaults").and_then(Node::as_list).into_iter().flatten();
        let deploy = self.root.get("deploy").and_then(Node::as_map).into_iter().flatten();
        let sections = defaults.chain(deploy.map(|(_, entry)| &entry.node));
        let lists = sections.filter_map(|section| section.get("manifests"));
        distinct_paths(lists)
    }

    /// Checks that the file alone is enough to refuse it.
    pub fn is_broken(&self) -> bool {
        self.violations.iter().any(Violation::is_error)
    }

    /// Checks that every target under `deploy` can be read.
    pub fn has_readable_targets(&self) -> bool {
        let deploy = self.root.get("deploy").filter(|node| !node.broken).and_then(Node::as_map);
        deploy.is_some_and(|targets| targets.len() == self.deploy.len())
    }

    /// Checks that `deploy` can be read, and does not have the target.
    pub fn lacks(&self, target: &TargetName) -> bool {
        let deploy = self.root.get("deploy").filter(|node| !node.broken).and_then(Node::as_map);
        deploy.is_some_and(|targets| !targets.contains_key(target.as_str()))
    }

    /// Makes the violation for a target that is not under `deploy`.
    pub fn unknown_target(&self, target: &TargetName) -> Violation {
        let names: Vec<&str> = self.deploy.keys().map(TargetName::as_str).collect();
        let (_, place) = self.root.nearest(&Path::root().key("deploy"));
        Violation::error("target", format!("`{target}` is not a target of this app"))
            .expected(format!("has no `{target}`"))
            .help(format!(
                "deploy to one of {}, or add `{target}:` under `deploy`{}",
                suggest::list(names.iter().copied()),
                suggest::nearest(target.as_str(), names)
                    .map_or_else(String::new, |best| format!("; did you mean `{best}`?"))
            ))
            .at("deploy", Some(place))
    }
}

/// Derives the name of a Kubernetes object from a text.
fn label_like(text: Option<&str>) -> String {
    let legal = |c: char| {
        let c = c.to_ascii_lowercase();
        if c.is_ascii_lowercase() || c.is_ascii_digit() { c } else { '-' }
    };
    let like: String = text.unwrap_or_default().chars().take(63).map(legal).collect();
    let like = like.trim_matches('-');
    if like.is_empty() { "unnamed".to_owned() } else { like.to_owned() }
}

/// Says of every value which layer it belongs to.
fn label_layers(root: &mut Node) {
    let Value::Map(map) = &mut root.value else { return };
    for (key, entry) in map.iter_mut() {
        match (key.as_str(), &mut entry.node.value) {
            ("defaults", Value::List(list)) => {
                for (index, node) in list.iter_mut().enumerate() {
                    node.set_layer(&Arc::from(format!("defaults[{index}]")));
                }
            }
            ("deploy", Value::Map(targets)) => {
                for (target, entry) in targets {
                    entry.node.set_layer(&Arc::from(format!("deploy.{target}")));
                }
            }
            _ => entry.node.set_layer(&Arc::from("header")),
        }
    }
}

fn successes(root: &Node) -> bool {
    let setting = root.get("notify").and_then(|notify| notify.get("success"));
    setting.filter(|node| !node.broken).and_then(Node::as_text) == Some("true")
}

fn links(root: &Node) -> Vec<Link> {
    let link = |node: &Node| {
        let text =
            |key| node.get(key).filter(|n| !n.broken).and_then(Node::as_text).map(str::to_owned);
        Some(Link { name: text("name")?, url: text("url")? })
    };
    root.get("links").and_then(Node::as_list).into_iter().flatten().filter_map(link).collect()
}

fn defaults(root: &Node, violations: &mut Vec<Violation>) -> Vec<Defaults> {
    let entries = root.get("defaults").and_then(Node::as_list).unwrap_or_default();
    entries.iter().enumerate().filter_map(|(index, node)| entry(index, node, violations)).collect()
}

fn entry(index: usize, node: &Node, violations: &mut Vec<Violation>) -> Option<Defaults> {
    let glob = node.get("match").filter(|node| !node.broken)?;
    let mut section = node.clone();
    if let Value::Map(map) = &mut section.value {
        map.shift_remove("match");
    }
    match compile_glob(glob.as_text()?) {
        Ok(matcher) => Some(Defaults { index, matcher, section }),
        Err(error) => {
            let violation = Violation::error("schema", format!("`match` is not a glob: {error}"))
                .expected("not a glob")
                .help("use `*`, `?`, `[ab]`, `{a,b}` over target names; quote the text");
            let place = Some(glob.origin.position.clone());
            collect::add(violations, violation.at(format!("defaults[{index}].match"), place));
            None
        }
    }
}

/// The longest glob: target names have 63 characters, and a longer glob only costs time.
const LONGEST_GLOB: usize = 256;

/// Compiles a glob over target names.
///
/// # Errors
/// The problem of the glob, as a sentence without its subject's name.
pub fn compile_glob(text: &str) -> Result<Globs, String> {
    if text.len() > LONGEST_GLOB {
        return Err(format!("it has more than {LONGEST_GLOB} characters"));
    }
    Globs::parse([text]).map_err(|error| match error.kind() {
        GlobErrorKind::Regex(_) => "it stands for too many patterns".to_owned(),
        kind => kind.to_string(),
    })
}

fn deploy(root: &Node) -> IndexMap<TargetName, Node> {
    let targets = root.get("deploy").and_then(Node::as_map).into_iter().flatten();
    targets
        .filter_map(|(name, entry)| Some((TargetName::parse(name).ok()?, entry.node.clone())))
        .collect()
}

/// Refuses targets whose names are one in Kubernetes, where Argo CD's objects are called by them. A configuration has no
/// two such clusters, and a service without one takes any name.
fn alike_targets(
    deploy: &IndexMap<TargetName, Node>,
    root: &Node,
    violations: &mut Vec<Violation>,
) {
    let mut first: HashMap<String, &TargetName> = HashMap::new();
    for target in deploy.keys() {
        let Some(other) = first.insert(target.object_name(), target) else { continue };
        let message = format!("`{other}` and `{target}` are one name in Kubernetes");
        let violation = Violation::error("unique", message)
            .expected("differs only in case, or in `_` and `-`")
            .help("give one of them another name");
        let path = Path::root().key("deploy").key(target.as_str());
        let place = root.nearest(&path).1;
        collect::add(violations, violation.at(path.to_string(), Some(place)));
    }
}

#[cfg(test)]
#[path = "document_tests.rs"]
mod tests;
