//! Repositories with several apps, before any service: bart checks all of them, and asks where a command is about one.

use std::path::Path;

use tempfile::TempDir;

use super::{bart, example, said};

/// A folder with the example at the root, and the same as `worker` and `web` under `.weave/`.
fn three_apps() -> TempDir {
    let folder = example();
    let text = std::fs::read_to_string(folder.path().join(".weave.yaml")).unwrap();
    write(folder.path(), "worker", &text.replace("my-app", "worker"));
    write(folder.path(), "web", &text.replace("my-app", "web"));
    folder
}

fn write(folder: &Path, app: &str, text: &str) {
    std::fs::create_dir_all(folder.join(".weave")).unwrap();
    std::fs::write(folder.join(format!(".weave/{app}.yaml")), text).unwrap();
}

fn runs(folder: &Path, arguments: &[&str]) -> (Option<i32>, String) {
    let output = bart(folder, arguments);
    (output.status.code(), said(&output))
}

#[test]
fn all_files_are_checked_and_one_that_is_named_alone() {
    let folder = three_apps();
    let (code, text) = runs(folder.path(), &["validate"]);
    assert_eq!(code, Some(0), "{text}");
    for file in [".weave.yaml", ".weave/web.yaml", ".weave/worker.yaml"] {
        assert!(text.contains(&format!("ok {file} is valid for prod-cluster-1")), "{text}");
    }
    let worker = std::fs::read_to_string(folder.path().join(".weave/worker.yaml")).unwrap();
    write(folder.path(), "worker", &worker.replace("namespace:", "namespaze:"));
    let (code, text) = runs(folder.path(), &["validate"]);
    assert_eq!(code, Some(1), "{text}");
    assert!(text.contains("--> .weave/worker.yaml:") && text.contains("namespaze"), "{text}");
    let (code, text) = runs(folder.path(), &["validate", "--app", "web"]);
    assert_eq!((code, text.contains("worker")), (Some(0), false), "{text}");
    let (code, text) = runs(folder.path(), &["validate", "--app", "wokrer"]);
    assert_eq!(code, Some(2), "{text}");
    assert!(
        text.contains("has no app `wokrer`") && text.contains("did you mean `worker`?"),
        "{text}"
    );
}

#[test]
fn what_is_wrong_with_the_files_together_is_told_at_each_place() {
    let folder = three_apps();
    let web = std::fs::read_to_string(folder.path().join(".weave/web.yaml")).unwrap();
    write(folder.path(), "copy", &web);
    std::fs::write(folder.path().join(".weave/Other.yaml"), &web).unwrap();
    std::fs::write(folder.path().join(".weave/README.md"), "# The apps\n").unwrap();
    let output = bart(folder.path(), &["validate", "--output", "json"]);
    assert_eq!(output.status.code(), Some(1));
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let of_set: Vec<String> = json["violations"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|one| one["rule"] == "apps")
        .map(|one| {
            format!(
                "{}: {}",
                one["position"]["file"].as_str().unwrap(),
                one["message"].as_str().unwrap()
            )
        })
        .collect();
    assert_eq!(
        of_set,
        [
            ".weave/Other.yaml: `.weave/Other.yaml` has a name that no app can have",
            ".weave/copy.yaml: `devx/web` is also the app of `.weave/web.yaml:3:7`",
            ".weave/web.yaml: `devx/web` is also the app of `.weave/copy.yaml:3:7`",
        ]
    );
}

#[test]
fn a_command_about_one_app_asks_for_it() {
    let folder = three_apps();
    let render = ["render", "--target", "prod-cluster-1", "--tag", "1.0"];
    let explain = ["explain", "--target", "prod-cluster-1", "slug"];
    for command in [&render[..], &explain[..]] {
        let (code, text) = runs(folder.path(), command);
        assert_eq!(code, Some(2), "{text}");
        assert!(text.contains("name one: `.weave.yaml`, `web` and `worker`"), "{text}");
        let (code, text) = runs(folder.path(), &[command, &["--app", "worker"]].concat());
        assert_eq!(code, Some(0), "{text}");
        assert!(text.contains("worker") && !text.contains(" my-app"), "{text}");
        // A slug is as good as the name of a file.
        let (code, text) = runs(folder.path(), &[command, &["--app", "my-app"]].concat());
        assert_eq!((code, text.contains("my-app")), (Some(0), true), "{text}");
    }
}

#[test]
fn one_more_app_gets_a_file_of_its_own() {
    let folder = example();
    let init =
        ["init", "--yes", "--namespace", "devx", "--owner", "squad@example.com", "--target", "dev"];
    let (code, text) = runs(folder.path(), &init);
    assert_eq!(code, Some(1), "{text}");
    assert!(text.contains("bart init --app NAME"), "{text}");
    let more = [&init[..], &["--app", "worker"]].concat();
    let (code, text) = runs(folder.path(), &more);
    assert_eq!(code, Some(0), "{text}");
    let written = std::fs::read_to_string(folder.path().join(".weave/worker.yaml")).unwrap();
    assert!(written.contains("slug: worker"), "{written}");
    let (code, text) = runs(folder.path(), &more);
    assert_eq!((code, text.contains("worker.yaml already")), (Some(1), true), "{text}");
    let (code, text) = runs(folder.path(), &["validate"]);
    assert_eq!(code, Some(0), "{text}");
}
