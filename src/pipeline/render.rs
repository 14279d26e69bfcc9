//! The render stage: valid settings and a template become manifests.
//!
//! A template's text only describes the objects. It is parsed, checked, given the labels that every object carries, and
//! written by [`emit`]: the same settings, template and version of the-deployer give the same bytes on any machine.

use std::collections::BTreeMap;

use serde_json::{Map, Value as Json};

use crate::manifests::files::{digest, drop_empty_annotations, name_files, write_file};
use crate::manifests::handover::{FlaggerShare, TrafficObjects, flagger_share};
use crate::manifests::object::{BUDGET, Object, map_or_insert, read_object};
use crate::manifests::pods::rename_images;
use crate::manifests::replicas;
use crate::manifests::replicas::Workload;
use crate::model::canary::CanaryForecast;
use crate::model::facts::{Fact, LiveApp};
use crate::model::id::{AppKey, CommitSha, ImageTag};
use crate::model::revision::{Digest, ManifestFile};
use crate::model::target::Target;
use crate::model::violation::{Rejection, Violation};
use crate::pipeline::extra_objects::{ExtraObjects, check_sizes, read_extra_objects};
use crate::pipeline::patches::apply_patches;
use crate::pipeline::validate;
use crate::pipeline::validate::{RenderedPlan, Valid};
use crate::templates::set::Template;
use crate::templates::view::versions::VERSION_LABEL;
use crate::templates::{engine, view};
use crate::traffic::plan::VersionSpec;
use crate::waml::canary_plan::forecast;
use crate::waml::confidential::hide_secrets;
use crate::waml::section::Section;
use crate::waml::{emit, yaml};

/// The manifests of a deployment.
#[derive(Debug, Clone)]
#[must_use = "rendered manifests are for pushing or showing"]
pub struct RenderedManifests {
    /// The app.
    pub app: AppKey,
    /// The target.
    pub target: Target,
    /// The template and version that made them.
    pub template: String,
    /// The commit of the templates, where they come from a repository.
    pub templates_commit: Option<CommitSha>,
    /// The manifests, one object each, sorted by name.
    pub files: Vec<ManifestFile>,
    /// The digest over all files, without the annotation that carries it.
    pub digest: Digest,
    /// The workloads whose number of pods is an autoscaler's.
    pub autoscaled: Vec<Workload>,
    /// What Argo CD leaves to Flagger.
    pub flagger: FlaggerShare,
    /// The steps and times of a new release, where it is a canary.
    pub canary: Option<CanaryForecast>,
    /// The live versions on the target, older ones first; empty for an app without versions.
    pub versions: Vec<VersionSpec>,
    /// The warnings.
    pub warnings: Vec<Violation>,
}

/// Renders all files of the template.
///
/// # Errors
/// Faults of the template, at their place in it, and everything that is wrong with the objects.
pub fn manifests(valid: &Valid<'_>, template: &Template) -> Result<RenderedManifests, Rejection> {
    let app = &valid.waml().app;
    let mut objects = objects(valid, template).map_err(|mut rejection| {
        // The engine and the parser may quote a value.
        hide_secrets(&mut rejection.violations, valid.tree());
        rejection
    })?;
    for object in &mut objects {
        complete(object, app, &valid.release().tag, valid.section());
    }
    let refused_patches = apply_patches(&mut objects, valid.section(), template);
    let ExtraObjects { objects: mut extra_objects, violations: mut refused_files } =
        read_extra_objects(valid, template, &objects);
    for object in &mut extra_objects {
        complete(object, app, &valid.release().tag, valid.section());
    }
    refused_files.extend(check_sizes(&extra_objects));
    objects.append(&mut extra_objects);
    let pinned_images = validate::pinned_images(valid.facts(), valid.target());
    rename_images(&mut objects, &pinned_images);
    let no_live_app = LiveApp::default();
    let live = match &valid.facts().live {
        Fact::Known { value, .. } => value,
        // Where it is missing, the rule `replicas` says so.
        Fact::NotAsked | Fact::Missing { .. } => &no_live_app,
    };
    let kept_replicas = replicas::keep_live_replicas(&mut objects, live);
    let rendered_plan = RenderedPlan {
        objects: &objects,
        valid,
        template,
        kept_replicas: &kept_replicas,
        refused_patches: &refused_patches,
        refused_files: &refused_files,
    };
    let warnings = validate::objects(&rendered_plan)?;
    let scaled = objects.iter().filter_map(|object| replicas::scaled_by(&object.json));
    let autoscaled = replicas::beside_live(scaled, live);
    let traffic = TrafficObjects::of_objects(objects.iter().map(|object| &object.json));
    let flagger = flagger_share(&TrafficObjects::of_live(live), &traffic);
    let canary = valid.section().canary.as_ref().filter(|_| traffic.has_canary());
    let named_objects = name_files(objects, app);
    let texts: Vec<String> =
        named_objects.iter().map(|(_, object)| emit::map(&object.json)).collect();
    let digest = digest(named_objects.iter().map(|(name, _)| name.as_str()).zip(&texts));
    let files = named_objects.into_iter().zip(texts);
    Ok(RenderedManifests {
        app: app.clone(),
        target: valid.target().clone(),
        template: template.id(),
        templates_commit: template.commit.clone(),
        files: files
            .map(|((name, object), text)| write_file(name, object, text, &digest))
            .collect(),
        digest,
        autoscaled,
        flagger,
        canary: canary.and_then(forecast),
        versions: pinned_versions(valid, &pinned_images),
        warnings,
    })
}

/// Lists the live versions with the images as the manifests name them.
fn pinned_versions(valid: &Valid<'_>, names: &BTreeMap<String, String>) -> Vec<VersionSpec> {
    let mut versions = valid.versions();
    for version in &mut versions {
        if let Some(name) = names.get(&version.image) {
            version.image.clone_from(name);
        }
    }
    versions
}

fn objects(valid: &Valid<'_>, template: &Template) -> Result<Vec<Object>, Rejection> {
    let context = tera::Context::from_serialize(&view::build_context(valid.view_input()))
        .map_err(|error| Rejection::from(Violation::error("rendered", error.to_string())))?;
    let mut objects = Vec::new();
    let mut violations = Vec::new();
    for source in &template.files {
        match read(source, template, &context) {
            Ok(objects_of_file) => objects.extend(objects_of_file),
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
    let display_name = format!("{source} (rendered)");
    let documents = yaml::parse_stream(&display_name, &text, &BUDGET)
        .map_err(|violation| with_way_out(*violation, &text))?;
    documents.iter().filter(|node| !node.is_null()).map(|node| read_object(source, node)).collect()
}

/// Adds the way out to a rendering that is no YAML: mostly a template puts quotes around a text that is quoted already,
/// or a text beside it.
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

/// Finds the key of a line with quotes around quotes, or a text beside them; and whether it is the
/// latter.
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

/// Adds what every object carries and a template need not say.
///
/// Where the app has jobs before a release (`templates/components/jobs.yaml.tmpl`, wave -1), what they need comes first.
fn complete(object: &mut Object, app: &AppKey, tag: &ImageTag, section: &Section) {
    let kind = object.json.get("kind").and_then(Json::as_str).map(str::to_owned);
    let metadata = map_or_insert(&mut object.json, "metadata");
    metadata.entry("namespace").or_insert_with(|| app.namespace.as_str().into());
    let labels = map_or_insert(metadata, "labels");
    // Only the service's own templates set it: the rule `labels` keeps it from a WAML.
    let version = labels.get(VERSION_LABEL).and_then(Json::as_str);
    let version = section.versions.iter().flatten().find(|one| Some(one.name.as_str()) == version);
    let own_tag = version.and_then(|version| ImageTag::parse(version.tag.as_deref()?).ok());
    let tag = own_tag.as_ref().unwrap_or(tag);
    for (key, value) in [
        ("app.kubernetes.io/name", app.slug.to_string()),
        ("app.kubernetes.io/part-of", app.namespace.to_string()),
        ("app.kubernetes.io/version", label_value(tag)),
        ("app.kubernetes.io/managed-by", "the-deployer".to_owned()),
    ] {
        labels.insert(key.to_owned(), value.into());
    }
    let comes_before_jobs = section.jobs.as_ref().is_some_and(|jobs| !jobs.is_empty())
        && kind.is_some_and(|kind| is_needed_by_jobs(&kind));
    if comes_before_jobs {
        let annotations = map_or_insert(metadata, "annotations");
        annotations.entry(SYNC_WAVE).or_insert_with(|| "-2".into());
    }
    drop_empty_annotations(metadata);
    order_metadata(metadata);
}

/// The annotation by which Argo CD orders the objects of a sync.
const SYNC_WAVE: &str = "argocd.argoproj.io/sync-wave";

/// Checks that a job before a release may need an object of that kind: what gives it rights, settings, secrets, a store.
fn is_needed_by_jobs(kind: &str) -> bool {
    const OTHERS: [&str; 17] = [
        "Canary",
        "Certificate",
        "CronJob",
        "Deployment",
        "Gateway",
        "HTTPRoute",
        "HorizontalPodAutoscaler",
        "Ingress",
        "IngressRoute",
        "Job",
        "MetricTemplate",
        "Middleware",
        "PodDisruptionBudget",
        "PodMonitor",
        "ScaledObject",
        "ServiceMonitor",
        "VirtualService",
    ];
    !OTHERS.contains(&kind)
}

/// Puts the keys of `metadata` into the order in which a reader looks for them; the rest as the
/// template has it.
fn order_metadata(metadata: &mut Map<String, Json>) {
    let first = ["name", "namespace", "labels", "annotations"];
    let mut ordered_metadata = Map::new();
    for key in first {
        if let Some(value) = metadata.shift_remove(key) {
            ordered_metadata.insert(key.to_owned(), value);
        }
    }
    ordered_metadata.append(metadata);
    *metadata = ordered_metadata;
}

/// Writes a tag as a label's value: at most 63 characters, ending with a letter or digit.
fn label_value(tag: &ImageTag) -> String {
    let label_text: String = tag.as_str().chars().take(63).collect();
    label_text.trim_matches(|c: char| !c.is_ascii_alphanumeric()).to_owned()
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
