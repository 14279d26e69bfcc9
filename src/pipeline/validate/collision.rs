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

pub(super) fn check(made: &RenderedPlan<'_>, report: &mut RuleReport<'_>) {
    report_shared_secrets(made, report);
    let facts = made.valid.facts();
    let Fact::Known { value: namespace, .. } = &facts.namespace else { return };
    let app = &made.valid.waml().app;
    let unread = namespace.unread.iter().filter(|(slug, _)| **slug != app.slug);
    let unread: Vec<String> =
        unread.map(|(slug, file)| format!("`{}/{slug}` has: {file}", app.namespace)).collect();
    if let Some(first) = unread.first() {
        let more = match unread.len() - 1 {
            0 => String::new(),
            more => format!(" cannot be read, and files of {more} more apps"),
        };
        let message = format!("it is not known which objects {first}{more} cannot be read");
        report.say(Violation::warning(RULE, message).help(
            "check whether one of them has the name of an object of this app, and correct the file",
        ));
    }
    for object in made.objects {
        let all = names(object);
        // Where the object itself is another's, so is what is made of it.
        let taken = all.iter().find_map(|name| Some((name, namespace.owner_of(&app.slug, name)?)));
        if let Some((name, other)) = taken {
            place(made, name, describe(made, object, name, other), report);
        }
    }
}

/// Describes an object, or a Secret that is made of it, that another app has, too.
fn describe(
    made: &RenderedPlan<'_>,
    object: &Object,
    name: &LiveObject,
    other: &Slug,
) -> Violation {
    let LiveObject { kind, name: shown, .. } = name;
    let other = format!("{}/{other}", made.valid.waml().app.namespace);
    let message =
        format!("{kind} `{shown}`{} already belongs to the app `{other}`", maker(object, name));
    let is_live = matches!(&made.valid.facts().live, Fact::Known { value, .. }
        if value.names().any(|live| live.is_same(name)));
    if is_live {
        Violation::warning(RULE, message)
            .help(format!("give it another name here, or in the WAML of `{other}`: both have it"))
    } else {
        Violation::error(RULE, message).expected("is taken").help(format!(
            "choose another name; if that app no longer exists, `bart remove {} {other} --reason TEXT`",
            made.valid.target().name
        ))
    }
}

/// Refuses two objects of the app itself of which one Secret would be made: each would undo the other's.
fn report_shared_secrets(made: &RenderedPlan<'_>, report: &mut RuleReport<'_>) {
    let mut seen: HashMap<String, LiveObject> = HashMap::new();
    for object in made.objects {
        for name in names(object).into_iter().filter(is_secret) {
            let by = object.identity();
            match seen.get(&name.name) {
                None => drop(seen.insert(name.name, by)),
                // An object that is there twice is told by the rule `rendered`, and Ingresses may share a Secret.
                Some(first)
                    if *first == by || [first, &by].iter().all(|one| one.kind == "Ingress") => {}
                Some(first) => {
                    let message =
                        format!("{first} and {by} would both write the Secret `{}`", name.name);
                    let violation = Violation::error(RULE, message).expected("is taken");
                    let help = "give one of them another name";
                    place(made, &name, violation.help(help), report);
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
    let made = secrets::made_by(&object.json.clone().into());
    std::iter::once(object.identity()).chain(made).collect()
}

/// Writes `, which Certificate a creates,` for an object that is not in the manifests itself.
fn maker(object: &Object, name: &LiveObject) -> String {
    let by = object.identity();
    if by == *name { String::new() } else { format!(", which {by} creates,") }
}

/// Reports the violation at what makes the name: a service, a secret or a host of its own, else the
/// slug.
fn place(
    made: &RenderedPlan<'_>,
    object: &LiveObject,
    violation: Violation,
    report: &mut RuleReport<'_>,
) {
    let section = made.valid.section();
    let name = object.name.as_str();
    let path = match object.kind.as_str() {
        "Service" => {
            let index = section.services().iter().position(|one| one.name.as_deref() == Some(name));
            index.map(|index| Path::root().key("service").index(index).key("name"))
        }
        "Secret" | "ExternalSecret" | "VaultStaticSecret" => {
            let secrets = section.secrets.as_deref().unwrap_or_default();
            let index = secrets.iter().position(|one| one.name == name);
            index
                .map(|index| Path::root().key("secrets").index(index).key("name"))
                .or_else(|| variable(made, name))
                .or_else(|| certificate(made, name))
        }
        "Certificate" | "CachedCertificate" => certificate(made, name),
        _ => None,
    };
    match path {
        Some(path) => report.add(&path, violation),
        None => report.add_to_file(made.valid.waml(), &Path::root().key("slug"), violation),
    }
}

/// Finds the variable that refers to a Secret of that name.
fn variable(made: &RenderedPlan<'_>, name: &str) -> Option<Path> {
    let variables = made.valid.section().env.as_deref().unwrap_or_default();
    let asks = |one: &EnvVar| one.secret.as_ref().is_some_and(|secret| secret.name == name);
    let index = variables.iter().position(asks)?;
    Some(Path::root().key("env").index(index).key("secret").key("name"))
}

/// Finds the host that has a certificate of that name.
fn certificate(made: &RenderedPlan<'_>, name: &str) -> Option<Path> {
    let (slug, target) = (made.valid.waml().app.slug.as_str(), made.valid.target());
    let ingresses = made.valid.section().ingresses();
    let has = |one: &Ingress| {
        naming::join_name(slug, &naming::host_part(&ingress::host(one, target))) == name
    };
    let index = ingresses.iter().position(has)?;
    let key = if ingresses.get(index)?.host.is_some() { "host" } else { "hostPrefix" };
    Some(Path::root().key("ingress").index(index).key(key))
}
