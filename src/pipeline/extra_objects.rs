//! The objects of the files that `manifests` of a section names, beside those of the template.
//!
//! The files are data: nothing in them is templated. Their objects join the rendered ones after the patches and before
//! the rules of objects, so that every rule and every policy judges them. What would pass those rules by another way is
//! refused here: a kind that is not allowed, labels by which Argo CD and the-deployer know an object, and what Flagger
//! makes.

use serde_json::{Map, Value as Json};

use crate::manifests::RESERVED_KEYS;
use crate::manifests::canary::{created_objects, read_canary};
use crate::manifests::object::Object;
use crate::model::facts::LiveObject;
use crate::model::platform::extra_manifests::ExtraManifests;
use crate::model::stateful::group;
use crate::model::violation::Violation;
use crate::pipeline::validate::Valid;
use crate::templates::set::Template;
use crate::waml::emit;
use crate::waml::extra_files::{MAX_FILES, MAX_SUM_BYTES, beside, check_path};
use crate::waml::node::{Node, Path};
use crate::waml::quote::quote;
use crate::waml::scalar::read_untyped;
use crate::waml::suggest;
use crate::waml::yaml::{self, Budget};

const RULE: &str = "manifests";

/// The most objects of a target.
const MAX_OBJECTS: usize = 50;
/// The limits for one file.
const BUDGET: Budget = Budget { bytes: 256 * 1024, nodes: 20_000, text: 1 << 20, depth: 64 };
/// The largest object in bytes, as it is pushed: larger files of `latest` are not read back. What is 40 KiB with aliases and
/// braces may be megabytes without.
const MAX_OBJECT_BYTES: usize = 1024 * 1024;
/// The largest sum of the objects in bytes, as they are pushed.
const MAX_OBJECTS_BYTES: usize = 2 * 1024 * 1024;
/// Parts of `metadata` that an extra object cannot have: names and ends that others decide, and what the cluster writes.
const REFUSED_METADATA: [&str; 6] =
    ["generateName", "finalizers", "ownerReferences", "resourceVersion", "uid", "managedFields"];
/// The beginnings of keys by which Argo CD takes an object for a hook of Helm's, and Helm for one of a release.
const HELM_PREFIXES: [&str; 2] = ["helm.sh/", "meta.helm.sh/"];

/// What the files give.
#[derive(Debug, Default)]
pub(crate) struct ExtraObjects {
    pub(crate) objects: Vec<Object>,
    /// What is wrong: at a path of the settings, or at a place of its own in a file.
    pub(crate) violations: Vec<(Option<Path>, Violation)>,
}

/// Reads the files of a section; `rendered` are the objects that they stand beside.
pub(crate) fn read_extra_objects(
    valid: &Valid<'_>,
    template: &Template,
    rendered: &[Object],
) -> ExtraObjects {
    let paths = valid.section().manifests.as_deref().unwrap_or_default();
    let mut extra = ExtraObjects::default();
    if paths.is_empty() {
        return extra;
    }
    let place = Path::root().key("manifests");
    let kinds = template.parameters.extra_kinds();
    if kinds.is_some_and(<[String]>::is_empty) {
        let message = format!("the template `{}` takes no extra manifests", template.id());
        let help = "remove `manifests`, or ask the template's owners";
        extra.refuse(&place, error(message).expected("switched off").help(help));
        return extra;
    }
    if paths.len() > MAX_FILES {
        let message = format!("there are {} files", paths.len());
        let help = format!("name at most {MAX_FILES}; a file can have several objects");
        extra.refuse(&place, error(message).expected("too many").help(help));
        return extra;
    }
    let flagger: Vec<LiveObject> = rendered
        .iter()
        .filter_map(|object| read_canary(&object.json))
        .flat_map(created_objects)
        .collect();
    let allowed = AllowedObjects {
        platform: &valid.target().platform.manifests,
        template: kinds,
        template_id: template.id(),
        namespace: valid.waml().app.namespace.as_str(),
        has_canary: valid.section().canary.is_some(),
        flagger: &flagger,
    };
    let mut sum = 0;
    for (index, path) in paths.iter().enumerate() {
        let place = place.index(index);
        if paths.iter().take(index).any(|other| other == path) {
            let message = format!("the file {} is named twice", quote(path));
            extra.refuse(&place, error(message).expected("is there already").help("remove it"));
            continue;
        }
        extra.read_file(valid, path, &place, &allowed);
        sum += valid.waml().extra_files.text(path).map_or(0, str::len);
    }
    if sum > MAX_SUM_BYTES {
        let message = format!("the files have {sum} bytes together");
        let help = format!("keep them under {MAX_SUM_BYTES} bytes");
        extra.refuse(&place, error(message).expected("too large").help(help));
    }
    if extra.objects.len() > MAX_OBJECTS {
        let message = format!("the files have {} objects", extra.objects.len());
        let help = format!("keep it to {MAX_OBJECTS}");
        extra.refuse(&place, error(message).expected("too many").help(help));
        extra.objects.clear();
    }
    extra
}

/// Finds objects that are too large as they are pushed, each at its place, and a sum that is.
pub(crate) fn check_sizes(objects: &[Object]) -> Vec<(Option<Path>, Violation)> {
    let (mut violations, mut sum) = (Vec::new(), 0);
    for object in objects {
        let bytes = emit::map(&object.json).len();
        if bytes > MAX_OBJECT_BYTES {
            let message = format!(
                "{} {} has {bytes} bytes once it is written out",
                object.kind(),
                quote(object.name())
            );
            let violation = error(message).expected("too large").help(format!(
                "keep it under {MAX_OBJECT_BYTES} bytes: aliases and nested lists are written out"
            ));
            violations.push((None, in_file(violation.at("", object.position("")))));
        }
        sum += bytes;
        // No more than that is written out.
        if sum > MAX_OBJECTS_BYTES {
            let message = format!(
                "the objects of the files have more than {MAX_OBJECTS_BYTES} bytes together once they are written out"
            );
            let help =
                "name fewer files, or make them smaller: aliases and nested lists are written out";
            let violation = error(message).expected("too large").help(help);
            violations.push((Some(Path::root().key("manifests")), violation));
            break;
        }
    }
    violations
}

impl ExtraObjects {
    fn refuse(&mut self, path: &Path, violation: Violation) {
        self.violations.push((Some(path.clone()), violation));
    }

    fn read_file(
        &mut self,
        valid: &Valid<'_>,
        path: &str,
        place: &Path,
        allowed: &AllowedObjects<'_>,
    ) {
        if let Err(why) = check_path(path) {
            let message = format!("{} is no path of a file beside the WAML: {why}", quote(path));
            let violation = error(message).expected("not a path");
            return self.refuse(place, violation.help("write it as `k8s/dashboard.yaml`"));
        }
        let waml = valid.waml();
        let text = match waml.extra_files.text(path) {
            Ok(text) => text,
            Err(why) => {
                let message = format!("the file {} cannot be used: {why}", quote(path));
                let help = "correct the path, which is from the folder of the WAML, or commit the file with the WAML";
                return self.refuse(place, error(message).expected("cannot be used").help(help));
            }
        };
        let name = beside(&waml.root.origin.position.file, path);
        let documents = match yaml::parse_stream(&name, text, &BUDGET) {
            Ok(documents) => documents,
            Err(violation) => return self.violations.push((None, in_file(*violation))),
        };
        let before = self.violations.len();
        let mut is_empty = true;
        for node in documents.into_iter().filter(|node| !node.is_null()) {
            is_empty = false;
            match allowed.read(&name, node) {
                Ok(object) => self.objects.push(object),
                Err(violation) => self.violations.push((None, in_file(*violation))),
            }
        }
        if is_empty && self.violations.len() == before {
            let message = format!("the file {} has no object in it", quote(path));
            let help =
                "remove it from `manifests`, or write an object with `apiVersion` and `kind`";
            self.refuse(place, error(message).expected("has nothing in it").help(help));
        }
    }
}

/// Checks that a text is `[group/]version`: the rules of Kubernetes' schema and the list of kinds then mean the same group.
fn is_api_version(text: &str) -> bool {
    let is_part = |part: &str| {
        !part.is_empty() && part.bytes().all(|b| b.is_ascii_alphanumeric() || b"-.".contains(&b))
    };
    text.split('/').count() <= 2 && text.split('/').all(is_part)
}

fn error(message: String) -> Violation {
    Violation::error(RULE, message)
}

/// Gives a violation in a file the path of the setting that names files.
fn in_file(violation: Violation) -> Violation {
    let position = violation.position.clone();
    violation.in_extra_file(position)
}

/// The conditions on an object.
struct AllowedObjects<'a> {
    platform: &'a ExtraManifests,
    /// The kinds that the template's owner allows; `None` where they leave it to the platform.
    template: Option<&'a [String]>,
    template_id: String,
    namespace: &'a str,
    has_canary: bool,
    /// What Flagger makes of the app.
    flagger: &'a [LiveObject],
}

impl AllowedObjects<'_> {
    fn read(&self, file: &str, node: Node) -> Result<Object, Box<Violation>> {
        let Json::Object(json) = read_untyped(&node) else {
            let violation = error(format!("{} stands where an object should", node.kind()));
            let help = "write objects with `apiVersion` and `kind`, with `---` between them";
            let place = node.origin.position;
            return Err(Box::new(violation.expected("no object").help(help).at("", Some(place))));
        };
        let object = Object { source: format!("file {file}"), json, written: Some(node) };
        match self.find_fault(&object) {
            None => Ok(object),
            Some((field, violation)) => {
                let place = object.position(&field);
                Err(Box::new(violation.at("", place)))
            }
        }
    }

    /// Finds what is wrong with an object, and at which of its fields.
    fn find_fault(&self, object: &Object) -> Option<(String, Violation)> {
        self.kind_fault(object)
            .map(|violation| ("kind".to_owned(), violation))
            .or_else(|| self.metadata_fault(object))
            .or_else(|| self.flagger_fault(object))
    }

    fn kind_fault(&self, object: &Object) -> Option<Violation> {
        let (api_version, kind) = (object.text(["apiVersion", ""]), object.kind());
        if api_version.is_empty() || kind.is_empty() {
            let violation = error("an object has no `apiVersion` or no `kind`".to_owned());
            return Some(violation.expected("no object").help("add both"));
        }
        if !is_api_version(api_version) {
            let message = format!("{} is no `apiVersion`", quote(api_version));
            let violation = error(message).expected("no API version");
            return Some(violation.help("write it as `v1` or `monitoring.coreos.com/v1`"));
        }
        let group = group(api_version);
        if let Some(instead) = ExtraManifests::refusal(group, kind) {
            let message = format!("{} cannot be an extra object", quote(kind));
            return Some(error(message).expected("is not taken from files").help(instead));
        }
        if !self.platform.allows(group, kind) {
            let full_kind =
                if group.is_empty() { kind.to_owned() } else { format!("{kind}.{group}") };
            let message =
                format!("the target takes no extra object of the kind {}", quote(&full_kind));
            let kinds = self.platform.kinds.iter().map(String::as_str);
            let help = if self.platform.kinds.is_empty() {
                "remove it: the target takes no extra objects; its operators decide by `platform.manifests.kinds`".to_owned()
            } else {
                format!(
                    "the kinds are {}; the target's operators allow others by `platform.manifests.kinds`",
                    suggest::list(kinds)
                )
            };
            return Some(error(message).expected("not an allowed kind").help(help));
        }
        let kinds = self.template.filter(|kinds| kinds.iter().all(|name| name != kind))?;
        let id = &self.template_id;
        let message =
            format!("the template `{id}` takes no extra object of the kind {}", quote(kind));
        let help = format!("its kinds are {}", suggest::list(kinds.iter().map(String::as_str)));
        Some(error(message).expected("not an allowed kind").help(help))
    }

    fn metadata_fault(&self, object: &Object) -> Option<(String, Violation)> {
        let display_name = format!("{} {}", object.kind(), quote(object.name()));
        let empty = Map::new();
        let metadata = object.json.get("metadata").and_then(Json::as_object).unwrap_or(&empty);
        if object.name().is_empty() {
            let violation = error(format!("an object of the kind {} has no name", object.kind()));
            let violation = violation.expected("needs a name").help("add `metadata.name`, as text");
            return Some(("metadata".to_owned(), violation));
        }
        let namespace = metadata.get("namespace");
        if namespace.is_some_and(|namespace| namespace.as_str() != Some(self.namespace)) {
            let message =
                format!("{display_name} is not in the app's namespace, `{}`", self.namespace);
            let help = "leave `metadata.namespace` out: it is set";
            let violation = error(message).expected("another namespace").help(help);
            return Some(("metadata.namespace".to_owned(), violation));
        }
        if let Some(key) = REFUSED_METADATA.iter().find(|key| metadata.contains_key(**key)) {
            let message = format!("{display_name} sets `metadata.{key}`");
            let violation = error(message).expected("cannot be set here").help("leave it out");
            return Some((format!("metadata.{key}"), violation));
        }
        if object.json.contains_key("status") {
            let message = format!("{display_name} has a `status`");
            let help = "leave it out: the cluster writes it";
            return Some((
                "status".to_owned(),
                error(message).expected("cannot be set here").help(help),
            ));
        }
        ["labels", "annotations"].iter().find_map(|part| {
            let field = format!("metadata.{part}");
            let entries = match metadata.get(*part)? {
                Json::Object(entries) => entries,
                Json::Null => return None,
                _ => {
                    let violation = error(format!("`{field}` of {display_name} is no map"));
                    return Some((
                        field,
                        violation.expected("not a map").help("write `key: value`"),
                    ));
                }
            };
            let prefixes = || RESERVED_KEYS.iter().chain(&HELM_PREFIXES);
            let is_reserved = |key: &str| prefixes().any(|prefix| key.starts_with(prefix));
            let key = entries.keys().find(|key| is_reserved(key))?;
            let message = format!("{display_name} sets {} under `{field}`", quote(key));
            let help = "leave it out: the-deployer and Argo CD know objects by such keys";
            Some((field, error(message).expected("has a reserved key").help(help)))
        })
    }

    fn flagger_fault(&self, object: &Object) -> Option<(String, Violation)> {
        let identity = object.identity();
        let is_copy =
            self.has_canary && object.kind() == "ConfigMap" && object.name().ends_with("-primary");
        let is_made = is_copy || self.flagger.iter().any(|made| made.is_same(&identity));
        is_made.then(|| {
            let message =
                format!("{identity} has the name of an object that Flagger makes for the canary");
            let violation = error(message).expected("is taken").help("choose another name");
            ("metadata.name".to_owned(), violation)
        })
    }
}
