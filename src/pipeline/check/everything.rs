//! What templates can see at all: an app with everything, on clusters that offer one thing or the
//! other. A name that is in none of these is one that nothing gives.

use serde_json::{Value as Json, json};

use crate::model::facts::Facts;
use crate::model::platform::Platform;
use crate::model::target::Clusters;
use crate::model::template::{TemplateFile, TemplateSources};
use crate::pipeline::check::shape::Shape;
use crate::pipeline::check::{sample, view_on};
use crate::pipeline::templates::Templates;
use crate::waml::section::Section;

const EVERYTHING: &str = include_str!("everything.yaml");
const NOTHING: &str =
    "schema: \"2\"\nname: x\nslug: x\nowner: x@example.com\nnamespace: x\ndeploy: {x: {}}\n";

/// The names at the top, what a section can say, and what is made of it.
pub(super) fn shape() -> Shape {
    let mut shape = Shape::default();
    shape.add_schema(&[], &schemars::schema_for!(Section).to_value());
    shape.add_schema(&["target", "platform"], &schemars::schema_for!(Platform).to_value());
    for view in views() {
        shape.add(&view);
    }
    shape
}

/// What a template sees of each app on each platform.
fn views() -> Vec<Json> {
    let blank = Templates::compile(&blank()).ok();
    let template = blank.as_ref().and_then(|templates| templates.iter().next());
    let apps = [(NOTHING, Platform::default())].into_iter().chain(everything());
    let view = |(text, platform): (&str, Platform)| {
        let file = TemplateFile { path: "everything.yaml".to_owned(), text: text.to_owned() };
        let sample = sample("backend-default", &file, &mut Vec::new())?;
        let (template, target) = template.zip(sample.targets.first())?;
        view_on(&sample, target, template, &template.defaults, &facts(platform))
    };
    apps.filter_map(view).collect()
}

fn facts(platform: Platform) -> Facts {
    Facts::unasked(jiff::Timestamp::UNIX_EPOCH, Clusters::Any(Box::new(platform)))
}

fn everything() -> impl Iterator<Item = (&'static str, Platform)> {
    offers().into_iter().filter_map(|offer| Some((EVERYTHING, serde_json::from_value(offer).ok()?)))
}

/// Clusters that between them offer everything that there is a choice of.
fn offers() -> [Json; 2] {
    let gcp = json!({
        "project": "acme-prod", "region": "europe-west3",
        "network": "projects/acme-prod/global/networks/main",
    });
    let vault = json!({"namespace": "acme", "connection": "vault/default", "refresh": "5m"});
    [
        json!({
            "cloud": {
                "provider": "gcp", "gcp": gcp, "database": "cloudsql", "redis": "memorystore",
            },
            "secrets": {"delivery": "external-secrets"},
        }),
        json!({
            "cloud": {
                "provider": "gcp", "gcp": gcp, "database": "cloudsql", "redis": "in-cluster",
            },
            "secrets": {"delivery": "vault-secrets-operator", "vault": vault},
        }),
    ]
}

/// A template that reads nothing.
fn blank() -> TemplateSources {
    let file = |path: &str| TemplateFile { path: path.to_owned(), text: String::new() };
    TemplateSources {
        files: vec![
            file("backend-default/defaults.yaml"),
            file("backend-default/latest/x.yaml.tmpl"),
        ],
        ..TemplateSources::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_app_with_everything_is_accepted_wherever_everything_is_offered() {
        assert_eq!(everything().count(), offers().len());
        assert_eq!(views().len(), 1 + offers().len());
    }
}
