//! Rendered objects of Kubernetes' own kinds are accepted by the cluster's API server: they have no unknown field, no
//! field is missing, and each has its type.
//!
//! The check uses the schema of Kubernetes' own `OpenAPI` in the cluster's version (the newest where the configuration
//! names none), prepared by `ci/kubernetes-schema`. Kinds that others define are not checked here.

mod schema;

use self::schema::{ObjectType, SCHEMA, Span, Type};
use serde_json::{Map, Value as Json};

use super::{RenderedPlan, RuleReport};
use crate::manifests::object::Object;
use crate::manifests::parse;
use crate::manifests::quantity::Quantity;
use crate::model::facts::LiveObject;
use crate::model::kubernetes::KubernetesVersion;
use crate::model::revision::ManifestFile;
use crate::model::target::Target;
use crate::model::violation::Violation;
use crate::waml::quote::quote;
use crate::waml::suggest;

const RULE: &str = "kubernetes";

/// The limit of reported faults of one object: with more, the template needs a look anyway.
const MAX: usize = 10;

pub(super) fn check(plan: &RenderedPlan<'_>, report: &mut RuleReport<'_>) {
    let cluster = Cluster::of(plan.valid.target());
    for object in plan.objects {
        violations(object, cluster, report);
    }
}

/// Lists the kinds of existing files that a cluster's Kubernetes does not have, one sentence each: a rollback makes
/// them live again and checks nothing else of them. Nothing where the version is not configured.
pub fn unavailable_kinds(files: &[ManifestFile], target: &Target) -> Vec<String> {
    let cluster = Cluster::of(target);
    let (app, _unreadable) = parse::live_app(files);
    let objects = app.objects.iter().filter(|_| cluster.is_configured);
    let sentence = |object: &LiveObject| {
        let LiveObject { api_version, kind, .. } = object;
        let span = SCHEMA.kind(api_version, kind)?.span;
        (!span.contains(cluster.version)).then(|| {
            let kubernetes = cluster.kubernetes();
            format!(
                "{object} is of {}, which {kubernetes}, does not have: {span}; Argo CD cannot apply the revision there",
                quote(api_version)
            )
        })
    };
    objects.filter_map(sentence).collect()
}

/// The cluster that objects are judged for.
#[derive(Debug, Clone, Copy)]
struct Cluster<'a> {
    /// The version, or the nearest known one.
    version: KubernetesVersion,
    is_configured: bool,
    name: &'a str,
}

impl<'a> Cluster<'a> {
    fn of(target: &'a Target) -> Self {
        let version = target.kubernetes();
        Self { version, is_configured: target.version.is_some(), name: target.name.as_str() }
    }

    /// Says which Kubernetes it has, for a sentence.
    fn kubernetes(self) -> String {
        let Self { version, is_configured, name } = self;
        if is_configured {
            format!("Kubernetes {version}, the version of `{name}`")
        } else {
            format!(
                "Kubernetes {version}, against which `{name}` is checked because it has no `version`"
            )
        }
    }

    /// Says what to do about something that the cluster does not have, and other versions do.
    fn help(self, span: Span) -> String {
        let leave_out = "leave it out for this cluster: templates see `target.kubernetes.minor`";
        if span.begins_after(self.version) {
            return format!(
                "{leave_out}; once the cluster is upgraded, change its `version` in the configuration"
            );
        }
        if self.is_configured {
            return leave_out.to_owned();
        }
        format!(
            "{leave_out}; if the cluster is older, say so by `clusters[].version` in the configuration"
        )
    }
}

fn violations(object: &Object, cluster: Cluster<'_>, report: &mut RuleReport<'_>) {
    let api_version = object.text(["apiVersion", ""]);
    let Some(kind) = SCHEMA.kind(api_version, object.kind()) else {
        if SCHEMA.has_in_group(api_version, object.kind()) {
            report.say_of(object, "apiVersion", unavailable(object, api_version, cluster, None));
        }
        return;
    };
    if !kind.span.contains(cluster.version) {
        let violation = unavailable(object, api_version, cluster, Some(kind.span));
        return report.say_of(object, "apiVersion", violation);
    }
    let Some(object_type) = SCHEMA.of_kind(kind) else { return };
    let mut walk = Walk { cluster, faults: Vec::new() };
    walk.object(&object.json, object_type, &mut String::new());
    for (path, fault) in walk.faults {
        let message = format!(
            "{} {}: {} {} ({})",
            object.kind(),
            quote(object.name()),
            format_path(&path),
            fault.what,
            object.source
        );
        let help = fault.help.unwrap_or_else(|| match object.written {
            Some(_) => "correct the file".to_owned(),
            None => "correct the template, or the value of the WAML that it puts there".to_owned(),
        });
        let place = match fault.key {
            Some(key) if path.is_empty() => key,
            Some(key) => format!("{path}.{key}"),
            None => path,
        };
        report.say_of(object, &place, Violation::error(RULE, message).help(help));
    }
}

/// Describes a kind of Kubernetes' own in an API version that no version of Kubernetes has, or only
/// others than the cluster's.
fn unavailable(
    object: &Object,
    api_version: &str,
    cluster: Cluster<'_>,
    span: Option<Span>,
) -> Violation {
    let clause = match span {
        Some(span) => format!("{}, does not have: {span}", cluster.kubernetes()),
        None => format!("no version of Kubernetes up to {} has", KubernetesVersion::NEWEST),
    };
    let message = format!(
        "{} {} is of {}, which {clause} ({})",
        object.kind(),
        quote(object.name()),
        quote(api_version),
        object.source
    );
    let file = if object.written.is_some() { "file" } else { "template" };
    let other_versions = SCHEMA.api_versions(api_version, object.kind(), cluster.version);
    let help = match (other_versions.as_slice(), span) {
        ([], Some(span)) => cluster.help(span),
        ([], None) => format!("leave it out of the {file}"),
        (versions, _) => format!("use {} in the {file}", suggest::list(versions.iter().copied())),
    };
    Violation::error(RULE, message).help(help)
}

fn format_path(path: &str) -> String {
    if path.is_empty() { "the object".to_owned() } else { format!("`{path}`") }
}

/// A fault at a path.
struct Fault {
    what: String,
    help: Option<String>,
    /// The key that should not be there.
    key: Option<String>,
}

struct Walk<'a> {
    cluster: Cluster<'a>,
    faults: Vec<(String, Fault)>,
}

impl Walk<'_> {
    fn object(&mut self, json: &Map<String, Json>, object_type: &ObjectType, path: &mut String) {
        let version = self.cluster.version;
        for (key, value) in json {
            let Some(field) = object_type.fields.get(key) else {
                let known_fields =
                    object_type.fields.iter().filter(|(_, field)| field.span.contains(version));
                let near = suggest::nearest(key, known_fields.map(|(name, _)| name.as_str()));
                let help = near.map(|near| format!("did you mean `{near}`?"));
                self.fault_of(path, Some(key), format!("has no field {}", quote(key)), help);
                continue;
            };
            if !field.span.contains(version) {
                self.unavailable(path, &format!("has no field {}", quote(key)), field.span);
            } else if !value.is_null() {
                self.within(path, key, |walk, path| walk.value(value, &field.of, path));
            }
        }
        for (key, span) in object_type.required.iter().filter(|(_, span)| span.contains(version)) {
            if json.get(key).is_none_or(Json::is_null) {
                self.fault(path, self.needs(key, *span), None);
            }
        }
    }

    fn needs(&self, key: &str, span: Span) -> String {
        let since = span.end().map(|end| {
            let kubernetes = self.cluster.kubernetes();
            format!(" in {kubernetes}: it may be left out since 1.{end}")
        });
        format!("needs the field `{key}`{}", since.unwrap_or_default())
    }

    /// Reports something that the cluster's version does not have, and others do.
    fn unavailable(&mut self, path: &str, message: &str, span: Span) {
        let message = format!("{message} in {}: {span}", self.cluster.kubernetes());
        self.fault(path, message, Some(self.cluster.help(span)));
    }

    fn value(&mut self, json: &Json, value_type: &Type, path: &mut String) {
        match (value_type, json) {
            (_, Json::Null) | (Type::Any, _) => {}
            (Type::Object(index), Json::Object(map)) => {
                if let Some(object) = SCHEMA.object(*index) {
                    self.object(map, object, path);
                }
            }
            (Type::List(items), Json::Array(list)) => {
                for (index, item) in list.iter().enumerate() {
                    let before = path.len();
                    path.push_str(&format!("[{index}]"));
                    self.value(item, items, path);
                    path.truncate(before);
                }
            }
            (Type::Map(values), Json::Object(map)) => {
                for (key, value) in map {
                    self.within(path, key, |walk, path| walk.value(value, values, path));
                }
            }
            (Type::OneOf(texts), Json::String(text)) => self.one_of(text, texts, path),
            (value_type, json) if is_scalar(value_type, json) => {}
            (value_type, json) => {
                let message = format!("must be {}, but is {}", value_type.name(), kind(json));
                self.fault(path, message, None);
            }
        }
    }

    fn one_of(&mut self, text: &str, texts: &[(String, Span)], path: &str) {
        let version = self.cluster.version;
        let message = || format!("cannot be {}", quote(text));
        match texts.iter().find(|(allowed_text, _)| allowed_text == text) {
            Some((_, span)) if span.contains(version) => {}
            Some((_, span)) => self.unavailable(path, &message(), *span),
            None => {
                let known_texts = texts.iter().filter(|(_, span)| span.contains(version));
                let list = suggest::list(known_texts.map(|(known_text, _)| known_text.as_str()));
                self.fault(path, message(), Some(format!("use one of {list}")));
            }
        }
    }

    fn within(&mut self, path: &mut String, key: &str, then: impl FnOnce(&mut Self, &mut String)) {
        let before = path.len();
        if !path.is_empty() {
            path.push('.');
        }
        path.push_str(key);
        then(self, path);
        path.truncate(before);
    }

    fn fault(&mut self, path: &str, what: String, help: Option<String>) {
        self.fault_of(path, None, what, help);
    }

    fn fault_of(&mut self, path: &str, key: Option<&str>, what: String, help: Option<String>) {
        if self.faults.len() < MAX {
            let key = key.map(str::to_owned);
            self.faults.push((path.to_owned(), Fault { what, help, key }));
        }
    }
}

fn is_scalar(value_type: &Type, json: &Json) -> bool {
    let is_integer = |json: &Json| json.is_i64() || json.is_u64();
    let is_short = |json: &Json| json.as_i64().is_some_and(|n| i32::try_from(n).is_ok());
    match value_type {
        Type::Text | Type::Time => json.is_string(),
        Type::Boolean => json.is_boolean(),
        Type::Short => is_short(json),
        Type::Long => is_integer(json),
        Type::Number => json.is_number(),
        Type::ShortOrText => is_short(json) || json.is_string(),
        Type::Quantity => json.is_number() || json.as_str().is_some_and(is_quantity),
        Type::Any => true,
        Type::OneOf(_) | Type::List(_) | Type::Map(_) | Type::Object(_) => false,
    }
}

/// Checks for a quantity. The-deployer's quantities have no sign; Kubernetes' may have one.
fn is_quantity(text: &str) -> bool {
    Quantity::parse(text.strip_prefix(['+', '-']).unwrap_or(text)).is_some()
}

fn kind(json: &Json) -> String {
    match json {
        Json::Null => "nothing".to_owned(),
        Json::Bool(_) => "true or false".to_owned(),
        Json::Number(number) => format!("the number {number}"),
        // It may be a secret.
        Json::String(_) => "another text".to_owned(),
        Json::Array(_) => "a list".to_owned(),
        Json::Object(_) => "a map".to_owned(),
    }
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
