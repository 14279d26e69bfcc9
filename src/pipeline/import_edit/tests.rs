use serde_json::json;

use super::*;
use crate::manifests::fields::list_differences;
use crate::manifests::object::Object;
use crate::model::id::{CommitSha, ImageTag, RepoName};
use crate::model::release::Release;
use crate::model::target::Clusters;
use crate::templates::set::TemplateSet;
use crate::templates::sources;
use crate::waml::emit;
use crate::waml::extra_files::ExtraFiles;

const WAML: &str = r#"schema: "2"
name: Shop
slug: shop
owner: squad@example.com
namespace: devx
defaults:
- match: "*"
  service: [{ports: [{name: http, number: 8000}]}]
  env:
  - {name: MODE, value: slow}
  - {name: LEVEL, value: info} # for all
deploy:
  # The real one.
  prod:
    scaling: {replicas: 2} # enough
  test: {}
"#;

fn input(text: &str) -> Input {
    Input {
        waml: Waml::parse(".weave.yaml", text.as_bytes()).unwrap().into(),
        target: TargetName::parse("prod").unwrap(),
        fleet: None,
        release: Release {
            repository: RepoName::parse("acme/shop").unwrap(),
            app: None,
            commit: CommitSha::parse("a".repeat(40)).unwrap(),
            tag: ImageTag::parse("v1").unwrap(),
        },
        templates: Arc::new(TemplateSet::compile(&sources::built_in()).unwrap()),
    }
}

fn facts() -> Facts {
    Facts::without_lookups(jiff::Timestamp::UNIX_EPOCH, Clusters::any())
}

/// Edits the rendered files by hand, and imports that.
fn imported(text: &str, edit: impl Fn(&str, &mut Json)) -> Result<EditImport, ImportError> {
    let (input, facts) = (input(text), facts());
    let before = plan(&input, &facts).unwrap().files;
    let mut after = before.clone();
    for file in &mut after {
        let mut json: Json = serde_yaml::from_slice(&file.bytes).unwrap();
        edit(&file.name, &mut json);
        file.bytes = emit::document(&json).into_bytes();
    }
    let waml = EditedWaml { text, budget: Budget::default(), input: &input, facts: &facts };
    import_edit(&waml, &before, &after, &|| true)
}

fn set(json: &mut Json, pointer: &str, value: Json) {
    let (parent, key) = pointer.rsplit_once('/').unwrap();
    let holder = json.pointer_mut(parent).unwrap_or_else(|| panic!("{pointer}"));
    holder.as_object_mut().unwrap().insert(key.replace("~1", "/"), value);
}

/// Edits the Deployment alone.
fn of_deployment(edit: impl Fn(&mut Json)) -> EditImport {
    imported(WAML, |name, json| {
        if name == "deployment.yaml" {
            edit(json);
        }
    })
    .unwrap()
}

fn settings(import: &EditImport) -> Vec<&str> {
    import.imported.iter().map(|field| field.setting.as_str()).collect()
}

#[test]
fn a_field_that_a_key_gives_becomes_that_key_where_it_stands() {
    let import = of_deployment(|json| set(json, "/spec/replicas", json!(5)));
    assert_eq!((settings(&import), &*import.left), (vec!["scaling.replicas"], &[][..]));
    assert_eq!(import.text, WAML.replace("replicas: 2", "replicas: 5"));
    assert!(!import.is_other_base);
}

#[test]
fn a_value_that_is_for_other_targets_too_is_set_for_this_one_alone() {
    let import = of_deployment(|json| {
        let env = json.pointer_mut("/spec/template/spec/containers/0/env").unwrap();
        let list = env.as_array_mut().unwrap();
        let mode = list.iter_mut().find(|one| one["name"] == "MODE").unwrap();
        mode["value"] = json!("fast");
        list.push(json!({"name": "EXTRA", "value": "1"}));
    });
    assert_eq!(import.left, []);
    assert_eq!(settings(&import), ["env[MODE].value", "env[EXTRA].value"]);
    let added = "replicas: 2} # enough\n    env:\n    - name: MODE\n      value: fast\n    - name: EXTRA\n      value: \"1\"\n";
    assert_eq!(import.text, WAML.replace("replicas: 2} # enough\n", added));
}

#[test]
fn what_no_key_gives_becomes_a_patch_and_what_no_patch_gives_is_listed() {
    let import = imported(WAML, |name, json| match name {
        "deployment.yaml" => {
            set(json, "/spec/minReadySeconds", json!(7));
            set(json, "/spec/template/spec/containers/0/image", json!("evil:1"));
            set(json, "/spec/template/spec/hostNetwork", json!(true));
            set(json, "/metadata/annotations/example.com~1a", json!("b"));
        }
        "service.yaml" => set(json, "/spec/sessionAffinity", json!("ClientIP")),
        _ => {}
    })
    .unwrap();
    let fields: Vec<&str> = import.imported.iter().map(|field| field.field.as_str()).collect();
    assert!(
        fields.contains(&"spec.minReadySeconds") && fields.contains(&"spec.sessionAffinity"),
        "{import:?}"
    );
    assert!(import.text.contains("  # The real one.\n"), "{}", import.text);
    assert!(import.text.contains("    - kind: Service\n      name: shop\n      merge:\n        spec:\n          sessionAffinity: ClientIP\n"), "{}", import.text);
    let reason = |field: &str| {
        let left = import.left.iter().find(|left| left.field.as_deref() == Some(field));
        left.map(|left| left.why.clone()).unwrap_or_default()
    };
    let image = reason("spec.template.spec.containers[shop].image");
    assert!(image.contains("the release"), "{import:?}");
    assert!(reason("spec.template.spec.hostNetwork").contains("right on their node"), "{import:?}");
    assert_eq!(import.left.len(), 2, "{import:?}");
    // Imported once more, there is nothing left to import.
    let again = imported(&import.text, |_, _| {}).unwrap();
    assert_eq!((again.imported.len(), again.left.len()), (0, 0));
}

#[test]
fn elements_of_lists_are_removed_and_moved_as_they_were() {
    let import = of_deployment(|json| {
        let env = json.pointer_mut("/spec/template/spec/containers/0/env").unwrap();
        let list = env.as_array_mut().unwrap();
        list.retain(|one| one["name"] != "LEVEL");
        list.insert(0, json!({"name": "FIRST", "value": "a"}));
    });
    assert_eq!(import.left, [], "{}", import.text);
    assert_eq!(import.imported.len(), 2);
}

#[test]
fn objects_that_come_and_go_and_secrets_are_listed() {
    let (input, facts) = (input(WAML), facts());
    let before = plan(&input, &facts).unwrap().files;
    let mut after = before.clone();
    after.retain(|file| file.name != "poddisruptionbudget.yaml");
    let bytes = b"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: more}\n".to_vec();
    after.push(ManifestFile { name: "more.yaml".to_owned(), bytes });
    let waml = EditedWaml { text: WAML, budget: Budget::default(), input: &input, facts: &facts };
    let import = import_edit(&waml, &before, &after, &|| true).unwrap();
    let left: Vec<&str> = import.left.iter().map(|left| left.object.as_str()).collect();
    assert_eq!(left, ["ConfigMap more", "PodDisruptionBudget shop"]);
    assert_eq!((import.text.as_str(), import.imported.len()), (WAML, 0));

    let import = of_deployment(|json| {
        let env = json.pointer_mut("/spec/template/spec/containers/0/env").unwrap();
        env.as_array_mut().unwrap().push(json!({"name": "PASSWORD", "value": "hunter2hunter2"}));
    });
    assert!(
        import.left[0].why.contains("secret") && !format!("{:?}", import.left).contains("hunter2")
    );
    assert_eq!(import.text, WAML);

    let two = b"apiVersion: v1\nkind: A\nmetadata: {name: a}\n---\na: b\n".to_vec();
    let files = [ManifestFile { name: "two.yaml".to_owned(), bytes: two }];
    let error = import_edit(&waml, &before, &files, &|| true).unwrap_err().to_string();
    assert!(error.contains("two.yaml is not one object"), "{error}");
}

/// Edits the arguments of the container.
fn of_arguments(before: &Json, after: &Json) -> (String, EditImport) {
    let text = WAML.replace("  test: {}\n", &format!("    args: {before}\n  test: {{}}\n"));
    let import = imported(&text, |name, json| {
        if name == "deployment.yaml" {
            let list = json.pointer_mut("/spec/template/spec/containers/0/args").unwrap();
            assert_eq!(*list, *before);
            *list = after.clone();
        }
    });
    (text, import.unwrap())
}

#[test]
fn an_argument_is_a_secret_by_what_stands_before_it_and_takes_its_list_along() {
    for (before, after) in [
        (json!(["--token", "OLD1", "--mode", "a"]), json!(["--token", "NEW1", "--mode", "a"])),
        (json!(["--mode", "a"]), json!(["--mode", "b", "--token", "NEW1"])),
        // The first edit is harmless, and its patch would be the whole list.
        (json!(["--mode=a", "--password=OLD1"]), json!(["--mode=b", "--password=NEW1"])),
        (json!(["--mode=a", "--password=OLD1"]), json!(["--mode=b", "--password=OLD1"])),
        (json!(["--mode=a"]), json!(["--mode=b", "postgres://me:NEW1@db/app"])),
    ] {
        let (text, import) = of_arguments(&before, &after);
        assert_eq!((import.imported.len(), &import.text), (0, &text), "{import:?}");
        assert!(import.left.iter().all(|left| left.why == SECRET), "{import:?}");
        assert!(!import.left.is_empty() && !format!("{import:?}").contains("NEW1"), "{import:?}");
    }
    let (_, import) = of_arguments(&json!(["--mode=a", "-v"]), &json!(["--mode=b", "-v"]));
    assert_eq!((settings(&import), import.left.len()), (vec!["patches"], 0), "{}", import.text);
}

#[test]
fn no_patch_writes_a_list_with_a_secret_in_it() {
    let object = |list: Json| {
        let json = json!({"apiVersion": "example.com/v1", "kind": "A", "spec": {"list": list}});
        let json = json.as_object().unwrap().clone();
        Object { source: String::new(), json, written: None }
    };
    let list = |name: &str, value: &str| json!([{"name": name, "value": "hunter2hunter2"}, {"name": "B", "value": value}]);
    for (name, count) in [("A", 2), ("A_TOKEN", 0)] {
        let (current, edited) = (object(list(name, "1")), object(list(name, "2")));
        let field = list_differences(&current.json, &edited.json).remove(0);
        let key = ("A".to_owned(), "example.com".to_owned(), String::new());
        let item = EditItem { object: key.clone(), field };
        let objects = [(key.clone(), edited.clone())].into();
        let masked = mask_objects(std::slice::from_ref(&item), &objects).remove(&key).unwrap();
        let candidates = candidates::of_patches(&item, &current, &edited.json, &masked);
        assert_eq!(candidates.len(), count, "{candidates:?}");
    }
}

#[test]
fn an_object_of_a_file_is_changed_in_its_file() {
    let text = WAML.replace("scaling: {replicas: 2}", "manifests: [more.yaml]");
    let file = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: more}\ndata: {a: b}\n";
    let files = ExtraFiles::of_bytes([("more.yaml".to_owned(), Ok(file.as_bytes().to_vec()))]);
    let (old, facts) = (input(&text), facts());
    let waml = Arc::unwrap_or_clone(old.waml.clone()).with_extra_files(files);
    let input = Input { waml: waml.into(), ..old };
    let before = plan(&input, &facts).unwrap().files;
    let mut after = before.clone();
    for file in after.iter_mut().filter(|file| file.name == "configmap.yaml") {
        let edited = String::from_utf8(file.bytes.clone()).unwrap().replace("a: b", "a: c");
        file.bytes = edited.into_bytes();
    }
    let waml = EditedWaml { text: &text, budget: Budget::default(), input: &input, facts: &facts };
    let import = import_edit(&waml, &before, &after, &|| true).unwrap();
    assert_eq!(import.left[0].why, "the object is in the file more.yaml: change it there");
    let twice = [after.clone(), after].concat();
    let error = import_edit(&waml, &before, &twice, &|| true).unwrap_err().to_string();
    assert!(error.contains("two files have an object of the same kind and name"), "{error}");
}

#[test]
fn a_waml_that_gives_something_else_now_keeps_what_it_gives() {
    let (old, facts) = (input(WAML), facts());
    let before = plan(&old, &facts).unwrap().files;
    let mut after = before.clone();
    for file in after.iter_mut().filter(|file| file.name == "deployment.yaml") {
        let mut json: Json = serde_yaml::from_slice(&file.bytes).unwrap();
        set(&mut json, "/spec/replicas", json!(5));
        set(&mut json, "/spec/minReadySeconds", json!(7));
        file.bytes = emit::document(&json).into_bytes();
    }
    let text = WAML.replace("replicas: 2", "replicas: 3");
    let new = input(&text);
    let waml = EditedWaml { text: &text, budget: Budget::default(), input: &new, facts: &facts };
    let import = import_edit(&waml, &before, &after, &|| true).unwrap();
    assert!(import.is_other_base);
    assert_eq!(import.left.len(), 1, "{import:?}");
    assert!(import.left[0].why.contains("another value now"), "{import:?}");
    assert_eq!(import.imported.len(), 1);
    assert!(import.text.contains("replicas: 3"), "{}", import.text);

    let text = WAML.replace("  prod:", "  other:");
    let other = input(WAML);
    let other = Input { waml: Waml::parse("w", text.as_bytes()).unwrap().into(), ..other };
    let waml = EditedWaml { text: &text, budget: Budget::default(), input: &other, facts: &facts };
    let error = import_edit(&waml, &before, &after, &|| true).unwrap_err().to_string();
    assert!(error.contains("prod is not under `deploy`"), "{error}");
}

#[test]
fn when_the_time_is_over_the_rest_is_left() {
    let (input, facts) = (input(WAML), facts());
    let before = plan(&input, &facts).unwrap().files;
    let mut after = before.clone();
    for file in after.iter_mut().filter(|file| file.name == "deployment.yaml") {
        let mut json: Json = serde_yaml::from_slice(&file.bytes).unwrap();
        set(&mut json, "/spec/replicas", json!(5));
        set(&mut json, "/spec/minReadySeconds", json!(7));
        file.bytes = emit::document(&json).into_bytes();
    }
    let waml = EditedWaml { text: WAML, budget: Budget::default(), input: &input, facts: &facts };
    let import_within = |limit: usize| {
        let calls = std::cell::Cell::new(0);
        let has_time = || calls.replace(calls.get() + 1) < limit;
        (import_edit(&waml, &before, &after, &has_time).unwrap(), calls.get())
    };
    let (import, _) = import_within(0);
    assert_eq!((import.text.as_str(), import.imported.len(), import.left.len()), (WAML, 0, 2));
    assert!(import.left.iter().all(|left| left.why == NO_TIME), "{import:?}");
    // The first field takes one plan.
    let (import, _) = import_within(2);
    assert_eq!((settings(&import), import.left.len()), (vec!["scaling.replicas"], 1));
    assert_eq!(import.left[0].why, NO_TIME, "{import:?}");
    let (import, calls) = import_within(usize::MAX);
    assert_eq!((import.left.len(), import.imported.len()), (0, 2), "{import:?}");
    assert!(calls > 4, "each plan asks: {calls}");
}
