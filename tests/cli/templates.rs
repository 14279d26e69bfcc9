//! Templates tried out: what `the-deployer templates` prints, and how it ends.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value as Json;
use tempfile::TempDir;

use super::{program, said, the_deployer};
use crate::harness::events::Event;
use crate::harness::folder;
use crate::harness::git::Bare;
use crate::harness::process::Home;

const DEPLOYMENT: &str = "\
apiVersion: apps/v1
kind: Deployment
metadata:
  name: {{ app.slug }}
spec:
  replicas: {{ scaling.replicas }}
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers: [{name: app, image: {{ image.reference }}}]
";
const CONFIGMAP: &str = "\
apiVersion: v1
kind: ConfigMap
metadata:
  name: {{ app.slug }}
data: {{ (labels or {}) | yaml }}
";
const DEFAULTS: &str = "scaling: {replicas: 2}\n";

fn waml(slug: &str, rest: &str) -> String {
    format!(
        "schema: \"2\"\nname: {slug}\nslug: {slug}\nowner: a@example.com\nnamespace: devx\n\
         template: web\ndeploy:\n  dev: {{{rest}}}\n"
    )
}

fn put(folder: &Path, path: &str, text: &str) {
    let path = folder.join(path);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

/// A folder with the template `web`.
fn templates() -> TempDir {
    let folder = folder::temporary();
    put(folder.path(), "apps/web/defaults.yaml", DEFAULTS);
    put(folder.path(), "apps/web/latest/deployment.yaml.tmpl", DEPLOYMENT);
    put(folder.path(), "apps/web/samples/small.yaml", &waml("small", ""));
    folder
}

#[test]
fn our_own_templates_pass() {
    let ours = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("templates");
    let folder = folder::temporary();
    let output = the_deployer(folder.path(), &["templates", "check", ours.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    assert!(said(&output).contains("backend-default@latest: "), "{}", said(&output));
    assert!(!said(&output).contains(" 0 objects"), "{}", said(&output));
    assert!(!said(&output).contains("warning"), "{}", said(&output));
}

#[test]
fn templates_that_can_be_used_are_counted() {
    let folder = templates();
    let output = the_deployer(folder.path(), &["templates", "check"]);
    assert_eq!(output.status.code(), Some(0));
    insta::assert_snapshot!(said(&output), @r#"
    web@latest: 1 file; 1 sample for 1 target gave 1 object
    ok the templates in . can be used
    "#);
}

#[test]
fn everything_that_is_wrong_is_told_at_its_place() {
    let folder = templates();
    let body = DEPLOYMENT.replace("{{ image.reference }}", "{{ <image image/> }}");
    put(folder.path(), "apps/web/latest/deployment.yaml.tmpl", &body);
    let component = "{% component image(image) %}{{ image.reference }}{% if image.sha %}@{{ sha }}{% endif %}{% endcomponent %}";
    put(folder.path(), "components/image.yaml.tmpl", component);
    put(folder.path(), "apps/web/defaults.yaml", "scaling: {replicas: 2}\ncommand: [run]\n");
    put(folder.path(), "apps/job/defaults.yaml", "{}");
    put(folder.path(), "apps/job/latest/configmap.yaml.tmpl", CONFIGMAP);
    let output = the_deployer(folder.path(), &["templates", "check", "."]);
    assert_eq!(output.status.code(), Some(1));
    insta::assert_snapshot!(said(&output), @r#"
    job@latest: 1 file; 0 samples for 0 targets gave 0 objects
    web@latest: 1 file; 1 sample for 1 target gave 1 object
    refused the templates in . cannot be used as they are
    warning[undefined]: `image.sha` may not exist: no sample has it, and no WAML can have it
     --> components/image.yaml.tmpl:1:56
      |
    1 | {% component image(image) %}{{ image.reference }}{% if image.sha %}@{{ sha }}{% endif %}{% endcomponent %}
      |                                                        ^^^^^^^^^ never seen
      |
      = help: correct it, or add a sample that has it

    error[undefined]: the component has no parameter `sha`
     --> components/image.yaml.tmpl:1:72
      |
    1 | {% component image(image) %}{{ image.reference }}{% if image.sha %}@{{ sha }}{% endif %}{% endcomponent %}
      |                                                                        ^^^ no such name
      |
      = help: a component sees its parameters only: add it to them, and hand it over

    warning[unused-default]: no file of the template reads `command`
     --> web/defaults.yaml:2:1
      |
    2 | command: [run]
      | ^^^^^^^ without effect
      |
      = help: remove it, or use it in the template

    warning[samples]: the template `job` has no sample, so nothing was rendered with it
     |
     = help: add a WAML as apps/job/samples/minimal.yaml that deploys with it

    1 violation, 3 warnings
    "#);

    let output = the_deployer(folder.path(), &["templates", "check", "--output", "json"]);
    assert_eq!(output.status.code(), Some(1));
    let json: Json = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(json["valid"], false);
    assert_eq!(json["templates"][1]["template"], "web@latest");
    assert_eq!(json["templates"][1]["objects"], 1);
    assert_eq!(json["violations"].as_array().unwrap().len(), 4, "{json}");
    assert!(output.stderr.is_empty());
}

#[test]
fn what_cannot_be_compiled_or_read_is_told_too() {
    let folder = templates();
    put(folder.path(), "components/broken.yaml.tmpl", "{% component x() %}");
    let output = the_deployer(folder.path(), &["templates", "check"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(said(&output).contains("components/broken.yaml.tmpl:1:"), "{}", said(&output));
    let output = the_deployer(folder.path(), &["templates", "check", "nowhere"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(said(&output).contains("nowhere holds no templates"), "{}", said(&output));
}

/// A repository with three sets of templates, the newest on `main`, and WAMLs of four apps.
fn history(folder: &Path) -> Bare {
    let bare = Bare::create(&folder.join("templates.git"));
    bare.somebody_writes("apps/web/defaults.yaml", DEFAULTS);
    bare.somebody_writes("apps/web/latest/deployment.yaml.tmpl", DEPLOYMENT);
    bare.run(&["tag", "one", "main"]);
    bare.somebody_writes("apps/web/latest/configmap.yaml.tmpl", CONFIGMAP);
    bare.run(&["tag", "two", "main"]);
    let next = DEPLOYMENT
        .replace("name: app,", "name: app, args: [{{ args[0] }}],")
        .replace("replicas: {{", "paused: {{ labels.paused or false }}\n  replicas: {{");
    bare.somebody_writes("apps/web/latest/deployment.yaml.tmpl", &next);
    put(folder, "wamls/shop/.weave.yaml", &waml("shop", "args: [a]"));
    put(folder, "wamls/mail.yml", &waml("mail", ""));
    put(folder, "wamls/pinned.yaml", &waml("pinned", "template: web@v1"));
    put(folder, "wamls/notes.yaml", "just: notes\n");
    put(folder, "wamls/README.md", "not read");
    bare
}

fn impact(folder: &Path, arguments: &[&str]) -> std::process::Output {
    let all = [&["templates", "impact", "--repository", "templates.git"], arguments].concat();
    the_deployer(folder, &all)
}

#[test]
fn what_would_change_is_told_app_by_app() {
    let folder = folder::temporary();
    history(folder.path());
    let compared = ["--from", "one", "--to", "two", "--wamls", "wamls"];
    let output = impact(folder.path(), &compared);
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    let short = without_commits(&said(&output));
    insta::assert_snapshot!(short, @r#"
    one (commit) → two (commit)
    APP          TARGET  RESULT         PODS  ABOUT
    devx/mail    dev     changed              ConfigMap mail added
    devx/shop    dev     changed              ConfigMap shop added
    devx/pinned  dev     still refused        wamls/pinned.yaml:8:19: the template `web` has no version `v1` [template]
    cannot be read wamls/notes.yaml: 7 violations; first: wamls/notes.yaml:1:1: the file has no key `just` [unknown-key]
    3 compared: 2 changed (pods restart in 0), 0 refused, 0 repaired, 1 still refused, 0 unchanged
    "#);
}

/// Without what differs from run to run: the commits.
fn without_commits(text: &str) -> String {
    let mut out = String::new();
    for line in text.lines() {
        let commit = |word: &str| {
            let inner = word.trim_matches(['(', ')']);
            inner.len() == 8 && inner.chars().all(|c| c.is_ascii_hexdigit())
        };
        let words: Vec<&str> =
            line.split(' ').map(|word| if commit(word) { "(commit)" } else { word }).collect();
        out += &(words.join(" ") + "\n");
    }
    out
}

#[test]
fn restarts_refusals_and_lines_are_told() {
    let folder = folder::temporary();
    history(folder.path());
    let compared = ["--from", "two", "--to", "main", "--wamls", "wamls"];
    let output = impact(folder.path(), &[&compared[..], &["--diff"]].concat());
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    insta::assert_snapshot!(without_commits(&said(&output)), @r#"
    two (commit) → main (commit)
    APP          TARGET  RESULT         PODS     ABOUT
    devx/mail    dev     refused                 web/latest/deployment.yaml.tmpl:12:42: Tried to render a variable that is undefined [template]
    devx/shop    dev     changed        restart  Deployment shop changed
    devx/pinned  dev     still refused           wamls/pinned.yaml:8:19: the template `web` has no version `v1` [template]

    devx/shop on dev
    Deployment shop changed
    @@ -10,4 +10,5 @@
         app.kubernetes.io/managed-by: the-deployer
     spec:
    +  paused: false
       replicas: 2
       selector:
    @@ -21,3 +22,5 @@
           containers:
           - name: app
    +        args:
    +        - a
             image: local/shop:validate
    cannot be read wamls/notes.yaml: 7 violations; first: wamls/notes.yaml:1:1: the file has no key `just` [unknown-key]
    3 compared: 1 changed (pods restart in 1), 1 refused, 0 repaired, 1 still refused, 0 unchanged
    error[template]: Tried to render a variable that is undefined
      --> web/latest/deployment.yaml.tmpl:12:42
       |
    12 |       containers: [{name: app, args: [{{ args[0] }}], image: {{ image.reference }}}]
       |                                          ^^^^^^
       |
       = help: correct the template at this place

    1 violation
    "#);

    let output = impact(folder.path(), &[&compared[..], &["--output", "json"]].concat());
    let json: Json = serde_json::from_slice(&output.stdout).unwrap();
    let apps = json["apps"].as_array().unwrap();
    let verdicts: Vec<_> = apps
        .iter()
        .map(|app| (app["app"].as_str().unwrap(), app["verdict"].as_str().unwrap()))
        .collect();
    let expected =
        [("devx/mail", "refused"), ("devx/shop", "changed"), ("devx/pinned", "still-refused")];
    assert_eq!(verdicts, expected);
    assert_eq!(apps[1]["restarts"], serde_json::json!(["Deployment shop"]));
    assert!(apps[1]["objects"][0].get("diff").is_none());
    assert_eq!(json["to"]["commit"].as_str().unwrap().len(), 40);
}

#[test]
fn folders_are_compared_too_and_mistakes_have_their_exit_codes() {
    let folder = folder::temporary();
    history(folder.path());
    put(folder.path(), "next/apps/web/defaults.yaml", "scaling: {replicas: 3}\n");
    put(folder.path(), "next/apps/web/latest/deployment.yaml.tmpl", DEPLOYMENT);
    let output = impact(folder.path(), &["--from", "one", "--to", "next", "--wamls", "wamls"]);
    assert!(
        said(&output).contains("3 compared: 2 changed (pods restart in 0)"),
        "{}",
        said(&output)
    );
    let output = impact(folder.path(), &["--from", "nine", "--to", "next", "--wamls", "wamls"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(said(&output).contains("has no commit \"nine\""), "{}", said(&output));
    put(folder.path(), "next/apps/web/defaults.yaml", "scaling: [");
    let output = impact(folder.path(), &["--from", "one", "--to", "next", "--wamls", "wamls"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(said(&output).contains("web/defaults.yaml:1:"), "{}", said(&output));
    fs::create_dir(folder.path().join("empty")).unwrap();
    let output = impact(folder.path(), &["--from", "one", "--to", "two", "--wamls", "empty"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(said(&output).contains("there is no WAML in empty"), "{}", said(&output));
}

#[tokio::test]
async fn without_a_folder_the_wamls_are_those_that_are_deployed() {
    let home = Home::embedded();
    let process = home.start().await;
    for (number, app) in [(1, "shop"), (2, "mail"), (4, "gone")] {
        let id = Event::of_app(&home, number, app).accepted(&process).await;
        process.ended(&id).await;
    }
    let path = "/api/v1/apps/prod-cluster-1/devx/gone/remove";
    let asked = process.request(reqwest::Method::POST, path);
    let removed = asked.json(&serde_json::json!({"reason": "moved"})).send().await.unwrap();
    assert!(removed.status().is_success());
    let broken = Event::new(3, "shop", &"ab".repeat(20)).accepted(&process).await;
    process.ended(&broken).await;
    let ours = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("templates");
    let next = home.path("next");
    copy(&ours, &next);
    fs::remove_file(next.join("apps/backend-default/latest/serviceaccount.yaml.tmpl")).unwrap();
    let mut command = program("the-deployer", &home.path(""));
    let from = ours.to_str().unwrap().to_owned();
    command.args(["templates", "impact", "--from", &from, "--to", "next", "--output", "json"]);
    let output = tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    let json: Json = serde_json::from_slice(&output.stdout).unwrap();
    let apps: Vec<_> = json["apps"].as_array().unwrap().iter().map(|app| &app["app"]).collect();
    assert_eq!(apps, ["devx/mail", "devx/shop"], "{json}");
    assert_eq!(json["apps"][0]["objects"][0]["kind"], "ServiceAccount");
    assert_eq!(json["apps"][0]["objects"][0]["how"], "removed");
    assert_eq!(json["unreadable"], serde_json::json!([]));
    assert_eq!(process.get("/readyz").await.0, 200, "the service beside it goes on");
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.path().is_dir() {
            copy(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).unwrap();
        }
    }
}
