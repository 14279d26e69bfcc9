//! RENDER: valid settings and a template become manifests.
//!
//! A template's text is only a way to say what the objects are. It is read back, checked, given
//! the labels that every object carries, and written by [`emit`]: the same settings, template
//! and version of the-deployer give the same bytes on any machine.

use serde_json::{Map, Value as Json};
use sha2::{Digest as _, Sha256};

use crate::model::facts::{Fact, LiveApp};
use crate::model::id::{AppKey, CommitSha, ImageTag};
use crate::model::revision::{Digest, ManifestFile};
use crate::model::target::Target;
use crate::model::violation::{Rejection, Violation};
use crate::pipeline::replicas::{self, Workload};
use crate::pipeline::templates::Template;
use crate::pipeline::validate::{self, Made, Valid};
use crate::pipeline::{OUR_PREFIX, engine, view};
use crate::waml::confidential::hide_secrets;
use crate::waml::typed::untyped;
use crate::waml::yaml::{self, Budget};
use crate::waml::{emit, node::Node};

/// What would be deployed.
#[derive(Debug, Clone)]
#[must_use = "rendered manifests are for pushing or showing"]
pub struct Rendered {
    /// Whose they are.
    pub app: AppKey,
    /// Where to.
    pub target: Target,
    /// The template and version that made them.
    pub template: String,
    /// The commit of the templates, where they come from a repository.
    pub templates_commit: Option<CommitSha>,
    /// The manifests, one object each, sorted by name.
    pub files: Vec<ManifestFile>,
    /// Over all files, without the annotation that carries it.
    pub digest: Digest,
    /// The workloads whose number of pods is an autoscaler's.
    pub autoscaled: Vec<Workload>,
    /// What a reader should know.
    pub warnings: Vec<Violation>,
}

/// One rendered object, and the template file that made it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Object {
    pub(crate) source: String,
    pub(crate) json: Map<String, Json>,
}

impl Object {
    pub(crate) fn text(&self, pointer: [&str; 2]) -> &str {
        let [first, second] = pointer;
        let value = self.json.get(first);
        let value = if second.is_empty() { value } else { value.and_then(|v| v.get(second)) };
        value.and_then(Json::as_str).unwrap_or_default()
    }

    pub(crate) fn kind(&self) -> &str {
        self.text(["kind", ""])
    }

    pub(crate) fn name(&self) -> &str {
        self.text(["metadata", "name"])
    }
}

/// Kinds that run pods: they carry the digest.
const WORKLOADS: [&str; 6] =
    ["Deployment", "StatefulSet", "DaemonSet", "CronJob", "Job", "Rollout"];

/// Limits for what one template file renders to.
pub(crate) const BUDGET: Budget =
    Budget { bytes: 1 << 20, nodes: 100_000, text: 1 << 20, depth: 64 };

/// Renders all files of the template.
///
/// # Errors
/// Faults of the template, at their place in it, and everything that is wrong with the objects.
pub fn manifests(valid: &Valid<'_>, template: &Template) -> Result<Rendered, Rejection> {
    let app = &valid.waml().app;
    let mut objects = objects(valid, template).map_err(|mut rejection| {
        // The engine and the parser may quote a value.
        hide_secrets(&mut rejection.violations, valid.tree());
        rejection
    })?;
    for object in &mut objects {
        complete(object, app, &valid.release().tag);
    }
    let nothing = LiveApp::default();
    let live = match &valid.facts().live {
        Fact::Known { value, .. } => value,
        // Where it is missing, the rule `replicas` says so.
        Fact::NotAsked | Fact::Missing { .. } => &nothing,
    };
    let kept = replicas::keep(&mut objects, live);
    let made = Made { objects: &objects, valid, template, kept_replicas: &kept };
    let warnings = validate::objects(&made)?;
    let scaled = objects.iter().filter_map(|object| replicas::scaled_by(&object.json));
    let autoscaled = replicas::beside_live(scaled, live);
    let named = name_files(objects, app);
    let texts: Vec<String> = named.iter().map(|(_, object)| emit::map(&object.json)).collect();
    let digest = digest(named.iter().map(|(name, _)| name.as_str()).zip(&texts));
    let files = named.into_iter().zip(texts);
    Ok(Rendered {
        app: app.clone(),
        target: valid.target().clone(),
        template: template.id(),
        templates_commit: template.commit.clone(),
        files: files.map(|((name, object), text)| file(name, object, text, &digest)).collect(),
        digest,
        autoscaled,
        warnings,
    })
}

fn objects(valid: &Valid<'_>, template: &Template) -> Result<Vec<Object>, Rejection> {
    let context = tera::Context::from_serialize(&view::of(valid))
        .map_err(|error| Rejection::from(Violation::error("rendered", error.to_string())))?;
    let mut objects = Vec::new();
    let mut violations = Vec::new();
    for source in &template.files {
        match read(source, template, &context) {
            Ok(found) => objects.extend(found),
            Err(violation) => violations.push(violation),
        }
    }
    match Rejection::of(violations) {
        Some(rejection) => Err(rejection),
        None => Ok(objects),
    }
}

/// Renders one file and reads it back.
fn read(
    source: &str,
    template: &Template,
    context: &tera::Context,
) -> Result<Vec<Object>, Violation> {
    let text = engine::render(&template.engine, source, context)?;
    let shown = format!("{source} (rendered)");
    let documents = yaml::parse_stream(&shown, &text, &BUDGET)
        .map_err(|violation| with_way_out(*violation, &text))?;
    documents.iter().filter(|node| !node.is_null()).map(|node| object(source, node)).collect()
}

/// Most templates that are no YAML when they are rendered put quotes around what is in quotes already, or
/// a text beside it.
fn with_way_out(violation: Violation, text: &str) -> Violation {
    let index = violation.position.as_ref().map_or(0, |place| place.line as usize);
    // The parser stumbles in the line itself, or in the one behind it.
    let lines = [index, index.saturating_sub(1)]
        .map(|n| n.checked_sub(1).and_then(|n| text.lines().nth(n)));
    let Some((key, glued)) = lines.into_iter().flatten().find_map(misquoted) else {
        return violation;
    };
    let right = if glued { "{{ value ~ \"-text\" }}" } else { "{{ value }}" };
    violation.help(format!(
        "a template inserts every text in quotes: write `{key}: {right}`, without quotes of its own and \
         with nothing beside it"
    ))
}

/// The key of a line with quotes around quotes, or a text beside them; and whether it is the latter.
fn misquoted(line: &str) -> Option<(&str, bool)> {
    let (key, value) = line.split_once(':')?;
    let key = key.trim().trim_start_matches("- ");
    let value = value.trim();
    let doubled = value.starts_with("\"\"") && value.len() > 2;
    let inner = value.strip_prefix('"')?;
    let behind = inner.split_once('"').map_or("", |(_, behind)| behind);
    let glued = !doubled && !behind.is_empty() && !behind.trim_start().starts_with('#');
    (doubled || glued).then_some((key, glued))
}

fn object(source: &str, node: &Node) -> Result<Object, Violation> {
    match untyped(node) {
        Json::Object(json) => Ok(Object { source: source.to_owned(), json }),
        _ => Err(Violation::error(
            "rendered",
            format!("{source} renders {}, not an object", node.kind()),
        )
        .at("", Some(node.origin.position.clone()))
        .help("a template renders objects with `apiVersion` and `kind`, or nothing")),
    }
}

/// Adds what every object carries and a template need not say.
fn complete(object: &mut Object, app: &AppKey, tag: &ImageTag) {
    let metadata = map_in(&mut object.json, "metadata");
    metadata.entry("namespace").or_insert_with(|| app.namespace.as_str().into());
    let labels = map_in(metadata, "labels");
    for (key, value) in [
        ("app.kubernetes.io/name", app.slug.to_string()),
        ("app.kubernetes.io/part-of", app.namespace.to_string()),
        ("app.kubernetes.io/version", label_value(tag)),
        ("app.kubernetes.io/managed-by", "the-deployer".to_owned()),
    ] {
        labels.insert(key.to_owned(), value.into());
    }
    drop_empty_annotations(metadata);
    in_order(metadata);
}

/// The order in which a reader looks for them; the rest as the template has it.
fn in_order(metadata: &mut Map<String, Json>) {
    let first = ["name", "namespace", "labels", "annotations"];
    let mut ordered = Map::new();
    for key in first {
        if let Some(value) = metadata.shift_remove(key) {
            ordered.insert(key.to_owned(), value);
        }
    }
    ordered.append(metadata);
    *metadata = ordered;
}

/// A tag as a label's value: at most 63 characters, ending with a letter or digit.
fn label_value(tag: &ImageTag) -> String {
    let cut: String = tag.as_str().chars().take(63).collect();
    cut.trim_matches(|c: char| !c.is_ascii_alphanumeric()).to_owned()
}

fn map_in<'a>(map: &'a mut Map<String, Json>, key: &str) -> &'a mut Map<String, Json> {
    let entry = map.entry(key).or_insert_with(|| Json::Object(Map::new()));
    if !entry.is_object() {
        *entry = Json::Object(Map::new());
    }
    entry.as_object_mut().expect("it was made an object the line before")
}

/// One file an object, named by kind; where a kind is there more than once, the one that has the
/// app's name keeps the short name.
fn name_files(objects: Vec<Object>, app: &AppKey) -> Vec<(String, Object)> {
    let kinds: Vec<String> =
        objects.iter().map(|object| object.kind().to_ascii_lowercase()).collect();
    let alone = |kind: &str| kinds.iter().filter(|other| *other == kind).count() == 1;
    let mut named: Vec<(String, Object)> = objects
        .into_iter()
        .zip(&kinds)
        .map(|(object, kind)| {
            let short = alone(kind) || object.name() == app.slug.as_str();
            let name = if short {
                format!("{kind}.yaml")
            } else {
                format!("{kind}-{}.yaml", object.name())
            };
            (name, object)
        })
        .collect();
    named.sort_by(|(a, _), (b, _)| a.cmp(b));
    tell_apart(&mut named);
    named
}

/// Objects of the same kind and name in two API groups keep their files apart by the group.
fn tell_apart(named: &mut [(String, Object)]) {
    let files: Vec<String> = named.iter().map(|(name, _)| name.clone()).collect();
    for (name, object) in named {
        let group = object.text(["apiVersion", ""]).split('/').next().unwrap_or_default();
        if files.iter().filter(|other| *other == name).count() > 1 {
            *name = format!("{}.{group}.yaml", name.trim_end_matches(".yaml"));
        }
    }
}

/// Over names, lengths and bytes, so that no two sets of files look alike.
fn digest<'a>(files: impl Iterator<Item = (&'a str, &'a String)>) -> Digest {
    let mut hash = Sha256::new();
    for (name, text) in files {
        hash.update(name.as_bytes());
        hash.update([0]);
        hash.update((text.len() as u64).to_be_bytes());
        hash.update(text.as_bytes());
    }
    Digest(format!("sha256:{}", hex::encode(hash.finalize())))
}

/// The digest of files that were read back from a manifest repository: what [`manifests`] gave
/// when it made them. `None` when there are none, or they are not ours.
pub fn digest_of(files: &[ManifestFile]) -> Option<Digest> {
    let named = read_back(files)?;
    let texts: Vec<String> = named.iter().map(|(_, object)| emit::map(&object.json)).collect();
    let files = named.iter().map(|(name, _)| name.as_str()).zip(&texts);
    (!named.is_empty()).then(|| digest(files))
}

/// The objects of files that [`manifests`] made, without the digest; `None` when they are not ours.
pub(crate) fn read_back(files: &[ManifestFile]) -> Option<Vec<(String, Object)>> {
    let mut named = Vec::new();
    for file in files {
        let text = std::str::from_utf8(&file.bytes).ok()?;
        let documents = yaml::parse_stream(&file.name, text, &BUDGET).ok()?;
        let mut object = object(&file.name, documents.first()?).ok()?;
        forget_digest(&mut object);
        named.push((file.name.clone(), object));
    }
    Some(named)
}

fn forget_digest(object: &mut Object) {
    let Some(metadata) = object.json.get_mut("metadata").and_then(Json::as_object_mut) else {
        return;
    };
    if let Some(annotations) = metadata.get_mut("annotations").and_then(Json::as_object_mut) {
        annotations.shift_remove(&format!("{OUR_PREFIX}digest"));
    }
    drop_empty_annotations(metadata);
}

fn drop_empty_annotations(metadata: &mut Map<String, Json>) {
    let empty = |annotations: &Json| annotations.as_object().is_some_and(Map::is_empty);
    if metadata.get("annotations").is_some_and(empty) {
        metadata.shift_remove("annotations");
    }
}

/// A file of an object that was written as `text`. A workload gets the digest, on its own metadata:
/// on the pod template it would restart pods.
fn file(name: String, mut object: Object, text: String, digest: &Digest) -> ManifestFile {
    if !WORKLOADS.contains(&object.kind()) {
        return ManifestFile { name, bytes: text.into_bytes() };
    }
    let annotations = map_in(map_in(&mut object.json, "metadata"), "annotations");
    annotations.insert(format!("{OUR_PREFIX}digest"), digest.to_string().into());
    ManifestFile { name, bytes: emit::map(&object.json).into_bytes() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotes_around_quotes_are_told_with_the_line_to_write() {
        for (text, right) in [
            ("name: \"\"a\\x2Db\"\"\nb: 1\n", "`name: {{ value }}`"),
            ("x: 1\nname: \"a\\x2Db\"-db\n", "`name: {{ value ~ \"-text\" }}`"),
        ] {
            let error = yaml::parse_stream("f", text, &BUDGET).unwrap_err();
            let help = with_way_out(*error, text).help.unwrap();
            assert!(help.contains(right), "{text}: {help}");
        }
        let other = yaml::parse_stream("f", "a: [1\nb: \"x\"\n", &BUDGET).unwrap_err();
        assert_eq!(with_way_out((*other).clone(), "a: [1\nb: \"x\"\n"), *other);
    }
}
