//! No object of an app takes the place of another app's: in a namespace, two of one kind and name are one.
//!
//! Argo CD would hand such an object back and forth between two apps, and removing one of them would take
//! it from the other. What the app has had before is a warning: it is the other one that came later. Another
//! app's file that cannot be read may have any name: that is a warning, too. Where nothing is known, the rule
//! `stateful` says so, which asks the same repository.

use super::{Made, Report};
use crate::model::facts::{Fact, LiveObject};
use crate::model::violation::Violation;
use crate::pipeline::render::Object;
use crate::waml::node::Path;
use crate::waml::section_workload::SecretKey;

const RULE: &str = "collision";

pub(super) fn check(made: &Made<'_>, report: &mut Report<'_>) {
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
            "look for yourself whether one of them has a name of this app's, and mend the file",
        ));
    }
    for object in made.objects {
        let name = named(object);
        let Some(other) = namespace.owner_of(&app.slug, &name) else { continue };
        let LiveObject { kind, name: shown, .. } = &name;
        let (other, target) = (format!("{}/{other}", app.namespace), made.valid.target());
        let message = format!("{kind} `{shown}` is already the app `{other}`'s");
        let is_live = matches!(&facts.live, Fact::Known { value, .. }
            if value.objects.iter().any(|live| live.is_same(&name)));
        let violation = if is_live {
            Violation::warning(RULE, message).help(format!(
                "give it another name here, or in the WAML of `{other}`: both have it"
            ))
        } else {
            Violation::error(RULE, message).expected("is taken").help(format!(
                "choose another name; if that app is no more, `bart remove {} {other} --reason TEXT`",
                target.name
            ))
        };
        place(made, &name, violation, report);
    }
}

fn named(object: &Object) -> LiveObject {
    LiveObject {
        api_version: object.text(["apiVersion", ""]).to_owned(),
        kind: object.kind().to_owned(),
        name: object.name().to_owned(),
    }
}

/// At what makes the name: a service of its own, a secret or the variable that takes it, else the slug.
fn place(made: &Made<'_>, object: &LiveObject, violation: Violation, report: &mut Report<'_>) {
    let services = made.valid.section().service.as_deref().unwrap_or_default();
    let index = services.iter().position(|one| one.name.as_deref() == Some(object.name.as_str()));
    if let Some(index) = index.filter(|_| object.kind == "Service") {
        let path = Path::root().key("service").index(index).key("name");
        return report.add(&path, violation);
    }
    if let Some(path) = path_of_secret(made, object) {
        return report.add(&path, violation);
    }
    let (_, place) = made.valid.waml().root.nearest(&Path::root().key("slug"));
    report.add_at("slug", place, violation);
}

/// Where the WAML has the name of a secret that an operator makes on the target.
fn path_of_secret(made: &Made<'_>, object: &LiveObject) -> Option<Path> {
    if !matches!(object.kind.as_str(), "ExternalSecret" | "VaultStaticSecret" | "Secret") {
        return None;
    }
    let (section, name) = (made.valid.section(), object.name.as_str());
    let listed = section.secrets.iter().flatten().position(|one| one.name == name);
    let listed = listed.map(|index| Path::root().key("secrets").index(index).key("name"));
    listed.or_else(|| {
        let names_it = |secret: &SecretKey| secret.name == name;
        let mut variables = section.env.iter().flatten();
        let index = variables.position(|one| one.secret.as_ref().is_some_and(names_it))?;
        Some(Path::root().key("env").index(index).key("secret").key("name"))
    })
}
