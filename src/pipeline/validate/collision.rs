//! No object of an app takes the place of another app's: in a namespace, two of one kind and name are one object.
//!
//! Argo CD would hand such an object back and forth between two apps, and a removal of one app would take it from the
//! other. A Secret that a controller creates from an object counts as one. An object that the app has had before gives
//! a warning: the other app came later. Another app's file that cannot be read may have any name, so that is a warning,
//! too. Where the lookup failed, the rule `stateful` says so, which reads the same repository.

use std::collections::HashMap;

use super::{RenderedPlan, RuleReport};
use crate::manifests::object::Object;
use crate::manifests::parse::secrets;
use crate::model::facts::{Fact, LiveObject};
use crate::model::id::Slug;
use crate::model::violation::Violation;
use crate::templates::view::{ingress, naming};
use crate::waml::node::Path;
use crate::waml::section_network::Ingress;
use crate::waml::section_workload::EnvVar;

const RULE: &str = "collision";

pub(super) fn check(plan: &RenderedPlan<'_>, report: &mut RuleReport<'_>) {
    report_shared_secrets(plan, report);
    let facts = plan.valid.facts();
    let Fact::Known { value: namespace, .. } = &facts.namespace else { return };
    let app = &plan.valid.waml().app;
    let unread = namespace.unread.iter().filter(|(slug, _)| **slug != app.slug);
    let unread: Vec<String> =
        unread.map(|(slug, file)| format!("`{}/{slug}` has: {file}", app.namespace)).collect();
    if let Some(first) = unread.first() {
        let others_text = match unread.len() - 1 {
            0 => String::new(),
            count => format!(" cannot be read, and files of {count} more apps"),
        };
        let message = format!("it is not known which objects {first}{others_text} cannot be read");
        report.say(Violation::warning(RULE, message).help(
            "check whether one of them has the name of an object of this app, and correct the file",
        ));
    }
    for object in plan.objects {
        let object_names = names(object);
        // Where the object itself is another's, so is what is made of it.
        let conflict =
            object_names.iter().find_map(|name| Some((name, namespace.owner_of(&app.slug, name)?)));
        if let Some((name, other)) = conflict {
            let violation = describe(plan, object, name, other);
            if object.written.is_some() {
                report.say_of(object, "metadata.name", violation);
            } else {
                place(plan, name, violation, report);
            }
        }
    }
}

/// Describes an object, or a Secret that is made of it, that another app has, too.
fn describe(
    plan: &RenderedPlan<'_>,
    object: &Object,
    name: &LiveObject,
    other: &Slug,
) -> Violation {
    let LiveObject { kind, name: shown_name, .. } = name;
    let other = format!("{}/{other}", plan.valid.waml().app.namespace);
    let message = format!(
        "{kind} `{shown_name}`{} already belongs to the app `{other}`",
        maker(object, name)
    );
    let is_live = matches!(&plan.valid.facts().live, Fact::Known { value, .. }
        if value.names().any(|live| live.is_same(name)));
    if is_live {
        Violation::warning(RULE, message)
            .help(format!("give it another name here, or in the WAML of `{other}`: both have it"))
    } else {
        Violation::error(RULE, message).expected("is taken").help(format!(
            "choose another name; if that app no longer exists, `bart remove {} {other} --reason TEXT`",
            plan.valid.target().name
        ))
    }
}

/// Refuses two objects of the app itself of which one Secret would be made: each would undo the other's.
fn report_shared_secrets(plan: &RenderedPlan<'_>, report: &mut RuleReport<'_>) {
    let mut writers: HashMap<String, LiveObject> = HashMap::new();
    for object in plan.objects {
        for name in names(object).into_iter().filter(is_secret) {
            let writer = object.identity();
            match writers.get(&name.name) {
                None => drop(writers.insert(name.name, writer)),
                // An object that is there twice is told by the rule `rendered`, and Ingresses may share a Secret.
                Some(first)
                    if *first == writer
                        || [first, &writer]
                            .iter()
                            .all(|writer_object| writer_object.kind == "Ingress") => {}
                Some(first) => {
                    let message =
                        format!("{first} and {writer} would both write the Secret `{}`", name.name);
                    let violation = Violation::error(RULE, message).expected("is taken");
                    let help = "give one of them another name";
                    place(plan, &name, violation.help(help), report);
                }
            }
        }
    }
}

fn is_secret(object: &LiveObject) -> bool {
    object.kind == "Secret" && object.api_version == "v1"
}

/// Lists the names of an object in a cluster: itself, and the Secrets that are created from it.
fn names(object: &Object) -> Vec<LiveObject> {
    let mut names = vec![object.identity()];
    if secrets::may_be_creator(object.kind()) {
        names.extend(secrets::created_secrets(&object.json.clone().into()));
    }
    names
}

/// Writes `, which Certificate a creates,` for an object that is not in the manifests itself.
fn maker(object: &Object, name: &LiveObject) -> String {
    let identity = object.identity();
    if identity == *name { String::new() } else { format!(", which {identity} creates,") }
}

/// Reports the violation at what makes the name: a service, a secret or a host of its own, else the
/// slug.
fn place(
    plan: &RenderedPlan<'_>,
    object: &LiveObject,
    violation: Violation,
    report: &mut RuleReport<'_>,
) {
    let section = plan.valid.section();
    let name = object.name.as_str();
    let path = match object.kind.as_str() {
        "Service" => {
            let index =
                section.services().iter().position(|service| service.name.as_deref() == Some(name));
            index.map(|index| Path::root().key("service").index(index).key("name"))
        }
        "Secret" | "ExternalSecret" | "VaultStaticSecret" => {
            let secrets = section.secrets.as_deref().unwrap_or_default();
            let index = secrets.iter().position(|secret| secret.name == name);
            index
                .map(|index| Path::root().key("secrets").index(index).key("name"))
                .or_else(|| variable(plan, name))
                .or_else(|| certificate(plan, name))
        }
        "Certificate" | "CachedCertificate" => certificate(plan, name),
        _ => None,
    };
    match path {
        Some(path) => report.add(&path, violation),
        None => report.add_to_file(plan.valid.waml(), &Path::root().key("slug"), violation),
    }
}

/// Finds the variable that refers to a Secret of that name.
fn variable(plan: &RenderedPlan<'_>, name: &str) -> Option<Path> {
    let uses_secret =
        |variable: &EnvVar| variable.secret.as_ref().is_some_and(|secret| secret.name == name);
    let mut variables = plan.valid.section().variables();
    let (path, _) = variables.find(|(_, variable)| uses_secret(variable))?;
    Some(path.key("secret").key("name"))
}

/// Finds the host that has a certificate of that name.
fn certificate(plan: &RenderedPlan<'_>, name: &str) -> Option<Path> {
    let (slug, target) = (plan.valid.waml().app.slug.as_str(), plan.valid.target());
    let ingresses = plan.valid.section().ingresses();
    let has_name = |ingress_entry: &Ingress| {
        naming::join_name(slug, &naming::host_part(&ingress::host(ingress_entry, target))) == name
    };
    let index = ingresses.iter().position(has_name)?;
    let key = if ingresses.get(index)?.host.is_some() { "host" } else { "hostPrefix" };
    Some(Path::root().key("ingress").index(index).key(key))
}
