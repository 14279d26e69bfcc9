//! Repositories with several apps, by the names of their files.

use super::*;

const ROOT: &str = ".weave.yaml";

fn name(text: &str) -> AppName {
    text.parse().unwrap()
}

fn files(has_root: bool, names: &[&str]) -> AppFiles {
    AppFiles::of_names(ROOT, has_root, names.iter().copied())
}

#[test]
fn the_folder_is_the_file_without_its_ending() {
    for (path, folder) in [
        (ROOT, Some(".weave")),
        ("deploy/weave.yml", Some("deploy/weave")),
        ("weave", None),
        (".yaml", None),
        ("deploy/.yaml", None),
    ] {
        assert_eq!(folder_of(path), folder, "{path}");
    }
    assert_eq!(path_of(ROOT, None), ROOT);
    assert_eq!(path_of(ROOT, Some(&AppName::root())), ROOT);
    assert_eq!(path_of(ROOT, Some(&name("worker"))), ".weave/worker.yaml");
    assert_eq!(path_of("a/b.yaml", Some(&name("worker"))), "a/b/worker.yaml");
}

#[test]
fn a_path_leads_back_to_its_app() {
    assert_eq!(app_of(ROOT, ROOT), Some(AppName::root()));
    assert_eq!(app_of(ROOT, ".weave/worker.yaml"), Some(name("worker")));
    for path in [
        ".weave/k8s/worker.yaml",
        ".weave/.weave.yaml.yaml",
        ".weave/A.yaml",
        "worker.yaml",
        ".weaveworker.yaml",
        ".weave/a.yml",
    ] {
        assert_eq!(app_of(ROOT, path), None, "{path}");
    }
}

#[test]
fn a_request_is_for_the_only_app_for_one_or_for_all() {
    let all = |apps: &[&str]| AppChoice::All(apps.iter().map(|app| name(app)).collect());
    let cases: [(AppFiles, Option<&str>, AppChoice); 7] = [
        (files(true, &[]), None, AppChoice::Only),
        (files(true, &[]), Some(ROOT), AppChoice::One(AppName::root())),
        (files(false, &["web.yaml"]), None, AppChoice::One(name("web"))),
        (files(false, &["web.yaml", "api.yaml"]), None, all(&["api", "web"])),
        (files(true, &["api.yaml"]), None, all(&[ROOT, "api"])),
        (files(true, &["api.yaml"]), Some("api"), AppChoice::One(name("api"))),
        (files(true, &["api.yaml", "README.md"]), Some(ROOT), AppChoice::One(AppName::root())),
    ];
    for (files, app, choice) in cases {
        let app = app.map(name);
        assert_eq!(files.choose(app.as_ref()), Ok(choice), "{files:?} {app:?}");
    }
}

#[test]
fn an_unknown_app_is_refused_with_those_that_there_are() {
    let files = files(true, &["worker.yaml", "web.yaml"]);
    assert_eq!(
        files.choose(Some(&name("wokrer"))),
        Err("the repository has no app `wokrer`, but `.weave.yaml`, `web` and `worker`; did you mean `worker`?".to_owned())
    );
    let none = AppFiles::of_names(ROOT, false, []).choose(None).unwrap_err();
    assert!(none.contains("add .weave.yaml, or a file for each app under .weave/"), "{none}");
}

#[test]
fn a_file_that_can_be_no_app_is_named_with_the_way_out() {
    let files = files(false, &["a.yaml", "b.yml", "C.yaml", ".yaml", "README.md", "-.yaml"]);
    let problems: Vec<String> = files.problems().iter().map(Violation::to_string).collect();
    assert_eq!(
        problems,
        [
            ".weave/b.yml:1:1: `.weave/b.yml` does not end in `.yaml`, so it is no app's [apps]",
            ".weave/C.yaml:1:1: `.weave/C.yaml` has a name that no app can have [apps]",
            ".weave/.yaml:1:1: `.weave/.yaml` has a name that no app can have [apps]",
            ".weave/-.yaml:1:1: `.weave/-.yaml` has a name that no app can have [apps]",
        ]
    );
    assert_eq!(files.apps(), [name("a")]);
}

#[test]
fn the_number_of_apps_is_bounded() {
    let names: Vec<String> = (0..=MAX_APPS).map(|n| format!("app-{n}.yaml")).collect();
    let files = AppFiles::of_names(ROOT, false, names.iter().map(String::as_str));
    assert_eq!((files.apps().len(), files.problems().len()), (MAX_APPS, 1));
    assert!(files.is_cut());
    let files = AppFiles::of_names(ROOT, false, names[1..].iter().map(String::as_str));
    assert!(!files.is_cut() && files.problems().is_empty());
}

#[test]
fn apps_of_one_name_are_refused_at_every_place() {
    let waml = |file: &str, slug: &str| {
        let text = format!(
            "schema: \"2\"\nname: A\nslug: {slug}\nowner: a@b.ch\nnamespace: devx\ndeploy: {{t: {{}}}}\n"
        );
        Waml::parse(file, text.as_bytes()).unwrap()
    };
    let wamls = [waml(".weave/a.yaml", "shop"), waml(".weave/b.yaml", "web"), waml(ROOT, "shop")];
    let pairs = wamls.iter().map(|waml| (waml.app.clone(), place_of(waml)));
    let violations: Vec<String> = find_duplicates(pairs).iter().map(Violation::to_string).collect();
    assert_eq!(
        violations,
        [
            ".weave/a.yaml:3:7: `devx/shop` is also the app of `.weave.yaml:3:7` [apps]",
            ".weave.yaml:3:7: `devx/shop` is also the app of `.weave/a.yaml:3:7` [apps]",
        ]
    );
    let pairs = wamls[..2].iter().map(|waml| (waml.app.clone(), place_of(waml)));
    assert!(find_duplicates(pairs).is_empty());
}
