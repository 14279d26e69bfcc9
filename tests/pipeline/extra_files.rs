//! The limits of the objects that files beside a WAML bring, as they are pushed.

use std::fs;

use the_deployer::model::target::Clusters;
use the_deployer::model::violation::Rejection;
use the_deployer::pipeline::render::RenderedManifests;

use super::{planned_beside, templates};

/// Plans an app with these files beside its WAML.
fn planned_with(files: &[(&str, String)]) -> Result<RenderedManifests, Rejection> {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in files {
        fs::write(folder.path().join(name), text).unwrap();
    }
    let names: Vec<&str> = files.iter().map(|(name, _)| *name).collect();
    let names = names.join(", ");
    let text = format!(
        "schema: \"2\"\nname: Shop\nslug: shop\nowner: squad@example.com\nnamespace: devx\ndeploy:\n  \
         prod: {{service: [{{ports: [{{name: http, number: 8000}}]}}], manifests: [{names}]}}\n"
    );
    let clusters = Clusters::Any(Box::default());
    planned_beside(folder.path(), text.as_bytes(), Some("prod"), clusters, templates())
}

/// Lists the violations of a rule, each with its place.
fn refusals(files: &[(&str, String)], rule: &str) -> Vec<String> {
    let violations = match planned_with(files) {
        Ok(_) => Vec::new(),
        Err(rejection) => rejection.violations,
    };
    violations.iter().filter(|one| one.rule == rule).map(ToString::to_string).collect()
}

/// An object with a list in lists, so deep: each of the items is as far to the right once it is written out.
fn nested(name: &str, depth: usize, items: usize) -> String {
    let (open, close) = ("[".repeat(depth), "]".repeat(depth));
    let head = "apiVersion: monitoring.coreos.com/v1\nkind: PrometheusRule\n";
    format!(
        "{head}metadata: {{name: {name}}}\nspec: {{groups: {open}{}{close}}}\n",
        "a,".repeat(items)
    )
}

#[test]
fn a_small_file_cannot_become_a_large_object() {
    let file = nested("shop-a", 55, 19_000);
    assert!(file.len() < 40_000, "{}", file.len());
    let refused = refusals(&[("a.yaml", file)], "manifests");
    assert_eq!(refused.len(), 2, "{refused:?}");
    assert!(refused[0].contains("the objects of the files have more than 2097152 bytes"));
    assert!(refused[1].starts_with("a.yaml:1:1: PrometheusRule `shop-a` has "), "{refused:?}");
}

#[test]
fn small_files_cannot_become_large_objects_together() {
    let file = |name: &str| (format!("{name}.yaml"), nested(&format!("shop-{name}"), 20, 18_000));
    let files = ["a", "b", "c"].map(file);
    let files: Vec<(&str, String)> =
        files.iter().map(|(name, text)| (name.as_str(), text.clone())).collect();
    assert_eq!(refusals(&files[..2], "manifests"), [""; 0]);
    let refused = refusals(&files, "manifests");
    assert_eq!(refused.len(), 1, "{refused:?}");
    assert!(refused[0].contains("2097152 bytes together"), "{refused:?}");
}

#[test]
fn a_name_is_not_longer_than_its_file_may_be() {
    let parts = ["a".repeat(63), "b".repeat(63), "c".repeat(63)];
    let file = |name: &str| {
        format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}}}\ndata: {{a: b}}\n")
    };
    let other = ("b.yaml", file("shop-b"));
    let long = parts.join(".");
    // The only one of its kind has a file of that name alone.
    assert!(planned_with(&[("a.yaml", file(&long))]).is_ok());
    let refused = refusals(&[("a.yaml", file(&long)), other.clone()], "rendered");
    assert_eq!(refused.len(), 1, "{refused:?}");
    assert!(refused[0].starts_with("a.yaml:3:18: ConfigMap"), "{refused:?}");
    assert!(refused[0].contains("too long for its file: 206 bytes of 200"), "{refused:?}");
    let rendered = planned_with(&[("a.yaml", file(&long[..185])), other]).unwrap();
    assert_eq!(rendered.files.iter().map(|file| file.name.len()).max(), Some(200));
}
