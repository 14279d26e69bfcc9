//! The documentation says what the code says: generated parts are compared with their source, and
//! every file, heading and function that a page names exists.
//!
//! A page's generated part stands between two comments. With `UPDATE_EXPECTED=1` it is written
//! anew.

mod alerts;
mod commands;
mod github;
mod guides;
mod links;
pub(crate) mod monitoring;
mod reference;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use the_deployer::config::SettingsSources;

use crate::architecture::IMPORTS;
use crate::harness::folder;

const BEGIN: &str = "<!-- generated: run `just update-expected` -->\n";
const END: &str = "<!-- end of the generated part -->\n";

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// Holds the generated part of a page against what it should be.
fn hold(page: &str, wanted: &str) {
    let path = root().join(page);
    let text = fs::read_to_string(&path).unwrap();
    let (head, rest) = text.split_once(BEGIN).unwrap_or_else(|| panic!("{page}: no {BEGIN}"));
    let (found, tail) = rest.split_once(END).unwrap_or_else(|| panic!("{page}: no {END}"));
    let wanted = format!("\n{}\n\n", wanted.trim());
    if std::env::var_os("UPDATE_EXPECTED").is_some() {
        fs::write(&path, format!("{head}{BEGIN}{wanted}{END}{tail}")).unwrap();
    } else {
        assert_eq!(found, wanted, "{page} is out of date: run `just update-expected`");
    }
}

#[test]
fn the_waml_reference_is_the_schema() {
    let schema = the_deployer::waml::document::json_schema();
    hold("docs/waml.md", &reference::markdown(schema.as_value()));
}

#[test]
fn the_list_of_rules_is_the_one_that_runs() {
    use the_deployer::pipeline::validate::RULES;
    use the_deployer::pipeline::validate::Weight;
    let mut table =
        String::from("| rule | violations | on | what it checks | from |\n|---|---|---|---|---|\n");
    for rule in RULES {
        let weight = match rule.weight {
            Weight::Error => "error",
            Weight::Warning => "warning",
            Weight::Both => "error or warning",
        };
        let when = format!("{:?}", rule.stage()).to_lowercase();
        let (name, about, source) = (rule.name, rule.about, rule.source);
        writeln!(table, "| `{name}` | {weight} | {when} | {about} | {source} |").unwrap();
    }
    let mut names: Vec<_> = RULES.iter().map(|rule| rule.name).collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), RULES.len(), "two rules have one name");
    assert!(RULES.len() >= 20, "rules are missing");
    hold("docs/validators.md", &table);
}

#[test]
fn the_parameters_that_the_pages_show_are_those_that_are_tried() {
    let page = |name: &str| fs::read_to_string(root().join("docs").join(name)).unwrap();
    let tried = |name: &str| {
        fs::read_to_string(root().join("tests/pipeline/parameters").join(name)).unwrap()
    };
    let declared = tried("templates/apps/web/parameters.yaml");
    assert!(page("templates.md").contains(&format!("```yaml\n{declared}```\n")));
    let waml = tried("waml.yaml");
    let (_, settings) = waml.split_once("template: web\n").unwrap();
    assert!(page("waml.md").contains(&format!("```yaml\ntemplate: web\n{settings}```\n")));
    let read = tried("templates/apps/web/latest/deployment.yaml.tmpl");
    let (_, shown) = page("templates.md")
        .split_once("null where nothing is set:\n\n```text\n")
        .map(|(a, b)| (a.to_owned(), b.to_owned()))
        .unwrap();
    let (shown, _) = shown.split_once("```").unwrap();
    assert!(read.contains(shown), "{shown}");
}

#[test]
fn the_patches_that_the_page_shows_are_those_that_are_tried() {
    let page = fs::read_to_string(root().join("docs/waml.md")).unwrap();
    let tried = fs::read_to_string(root().join("tests/pipeline/patches/waml.yaml")).unwrap();
    let (_, settings) = tried.split_once("defaults:\n").unwrap();
    assert!(page.contains(&format!("```yaml\ndefaults:\n{settings}```\n")));
}

#[test]
fn the_policies_that_the_guide_shows_are_those_that_are_tried() {
    let page = fs::read_to_string(root().join("docs/policies.md")).unwrap();
    let shown = page.split_once("```yaml\n").unwrap().1.split_once("```").unwrap().0;
    let tried = root().join("tests/pipeline/company-policies/policies.yaml");
    assert_eq!(shown, fs::read_to_string(tried).unwrap());
}

#[test]
fn the_rollouts_that_the_guide_shows_are_those_that_are_tried() {
    let page = fs::read_to_string(root().join("docs/rollouts.md")).unwrap();
    let shown = page.split_once("```yaml\n").unwrap().1.split_once("```").unwrap().0;
    let tried = fs::read_to_string(root().join("tests/pipeline/rollouts/waml.yaml")).unwrap();
    assert!(tried.ends_with(&format!("\n{shown}")), "{shown}");
}

#[test]
fn the_canary_that_the_guide_shows_is_one_that_is_tried() {
    let page = fs::read_to_string(root().join("docs/canary.md")).unwrap();
    let shown = page.split_once("```yaml\n").unwrap().1.split_once("```").unwrap().0;
    let tried = fs::read_to_string(root().join("tests/pipeline/canary-gateway/waml.yaml")).unwrap();
    assert!(tried.ends_with(&format!("\n{shown}")), "{shown}");
}

#[test]
fn the_table_of_errors_is_that_of_the_server() {
    use the_deployer::server::problem::ProblemKind;
    let mut table = String::from("| `type` ends in | status | when |\n|---|---|---|\n");
    for kind in ProblemKind::ALL {
        let (name, status, when) = kind.documentation();
        writeln!(table, "| `{name}` | {status} | {when} |").unwrap();
    }
    let mut names: Vec<_> = ProblemKind::ALL.iter().map(|kind| kind.documentation().0).collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), ProblemKind::ALL.len(), "two kinds have one name");
    assert!(ProblemKind::ALL.is_sorted_by_key(|kind| kind.documentation().1), "by status");
    hold("docs/api.md", &table);
}

#[test]
fn the_table_of_alerts_is_the_one_that_is_rendered() {
    let templates = crate::pipeline::templates();
    hold("docs/alerts.md", &alerts::markdown(&templates));
}

#[test]
fn the_import_table_is_the_one_that_is_held() {
    let mut table = String::from("| module | may import |\n|---|---|\n");
    for (module, allowed) in IMPORTS {
        let names: Vec<String> = allowed.iter().map(|name| format!("`{name}`")).collect();
        let names = if names.is_empty() { "nothing of ours".to_owned() } else { names.join(", ") };
        writeln!(table, "| `{module}` | {names} |").unwrap();
    }
    hold("docs/architecture.md", &table);
}

#[test]
fn every_part_of_a_section_is_explained_to_who_writes_templates() {
    let page = fs::read_to_string(root().join("docs/templates.md")).unwrap();
    let schema = the_deployer::waml::document::json_schema();
    let section = schema.as_value()["$defs"]["Section"]["properties"].as_object().unwrap();
    let missing: Vec<_> =
        section.keys().filter(|key| !page.contains(&format!("`{key}`"))).collect();
    assert!(missing.is_empty(), "docs/templates.md does not say what these are: {missing:?}");
}

#[test]
fn the_waml_page_names_what_the_built_in_template_leaves_out() {
    let page = fs::read_to_string(root().join("docs/waml.md")).unwrap();
    let (_, after) = page.split_once("`backend-default` does not use").unwrap();
    let named = after.split_once("\n\n").unwrap().0;
    let templates = crate::pipeline::templates();
    let template = templates.iter().find(|t| t.id() == "backend-default@latest").unwrap();
    let schema = the_deployer::waml::document::json_schema();
    let section = schema.as_value()["$defs"]["Section"]["properties"].as_object().unwrap();
    // Those are for us, not for templates; `traffic` is part of the view of `ingress` and `versions`.
    let ours = ["template", "removes", "traffic", "parameters", "patches", "manifests"];
    for key in section.keys().filter(|key| !ours.contains(&key.as_str())) {
        assert_ne!(named.contains(&format!("`{key}`")), template.uses(key), "{key}");
    }
}

#[test]
fn the_configuration_under_deploy_is_one_that_the_service_takes() {
    let map = fs::read_to_string(root().join("deploy/kubernetes/base/configmap.yaml")).unwrap();
    let map: serde_json::Value = serde_yaml::from_str(&map).unwrap();
    let secrets = folder::temporary();
    github::put_secrets(secrets.path());
    let text = map["data"]["config.yaml"].as_str().unwrap();
    let text = text.replace("/run/secrets/the-deployer", secrets.path().to_str().unwrap());
    let sources = SettingsSources {
        file: Some(("config.yaml".to_owned(), text)),
        variables: BTreeMap::new(),
        home: secrets.path().to_owned(),
    };
    match sources.load() {
        Ok(loaded) => assert!(loaded.warnings.is_empty(), "{:?}", loaded.warnings),
        Err(rejection) => panic!("{rejection}"),
    }
}

/// Copied as it stands, an example must not make a second record in the folder where somebody happens to be.
#[test]
fn every_example_of_a_command_on_the_record_names_the_configuration() {
    const COMMANDS: [&str; 8] =
        ["backup", "restore", "rebuild", "lock", "unlock", "locks", "owners", "audit"];
    let folders = ["docs", "deploy"].map(|folder| root().join(folder));
    let pages = folders.iter().flat_map(|folder| fs::read_dir(folder).unwrap());
    let pages = pages.map(|entry| entry.unwrap().path());
    let mut examples = 0;
    for page in pages.filter(|path| path.extension().is_some_and(|ending| ending == "md")) {
        let text = fs::read_to_string(&page).unwrap();
        let mut in_block = false;
        for line in text.lines() {
            in_block ^= line.starts_with("```");
            if !(in_block || line.starts_with("    ")) {
                continue;
            }
            let words =
                line.split("the-deployer ").skip(1).filter_map(|rest| rest.split(' ').next());
            for word in words.filter(|word| COMMANDS.contains(word)) {
                assert!(line.contains(" --config "), "{}: {line} ({word})", page.display());
                examples += 1;
            }
        }
    }
    assert!(examples >= 8, "{examples}");
}

/// What the service has, the pod that takes its place has too.
#[test]
fn the_pod_for_commands_without_the_service_is_like_the_services() {
    let read = |path: &str| -> serde_json::Value {
        serde_yaml::from_str(&fs::read_to_string(root().join(path)).unwrap()).unwrap()
    };
    let deployment = read("deploy/kubernetes/base/deployment.yaml");
    let overlay = "deploy/kubernetes/overlays/sqlite";
    let state = read(&format!("{overlay}/deployment.yaml"));
    let volumes = [&state, &deployment]
        .map(|part| part["spec"]["template"]["spec"]["volumes"].as_array().unwrap().clone());
    let (theirs, ours) = (
        &deployment["spec"]["template"]["spec"],
        &read("deploy/kubernetes/offline/pod.yaml")["spec"],
    );
    assert_eq!(ours["volumes"].as_array().unwrap(), &volumes.concat());
    for key in ["securityContext", "automountServiceAccountToken"] {
        assert_eq!(ours[key], theirs[key], "{key}");
    }
    for key in ["securityContext", "volumeMounts"] {
        assert_eq!(ours["containers"][0][key], theirs["containers"][0][key], "{key}");
    }
    let image = &read(&format!("{overlay}/kustomization.yaml"))["images"][0];
    let text = |key: &str| image[key].as_str().unwrap();
    assert_eq!(
        ours["containers"][0]["image"].as_str().unwrap(),
        format!("{}:{}-tools", text("newName"), text("newTag"))
    );
}

#[test]
fn the_configuration_on_the_page_about_argo_cd_is_one_that_the_service_takes() {
    let page = fs::read_to_string(root().join("docs/argocd.md")).unwrap();
    let shown = page.split_once("```yaml\n").unwrap().1.split_once("```").unwrap().0;
    let secrets = folder::temporary();
    github::put_secrets(secrets.path());
    let text = shown.replace("/run/secrets", secrets.path().to_str().unwrap());
    let sources = SettingsSources {
        file: Some(("config.yaml".to_owned(), text)),
        variables: BTreeMap::new(),
        home: secrets.path().to_owned(),
    };
    let loaded = sources.load().unwrap_or_else(|rejection| panic!("{rejection}"));
    assert!(loaded.warnings.is_empty(), "{:?}", loaded.warnings);
    assert_eq!(loaded.settings.argocd.len(), 1);
}

#[test]
fn the_page_about_bart_is_its_help() {
    use clap::CommandFactory as _;
    let bart = the_deployer::cli::bart::Bart::command();
    let silent = commands::without_help(&bart);
    assert!(silent.is_empty(), "no word of help for {silent:?}");
    hold("docs/bart.md", &commands::markdown(&bart));
}

/// What tests say of rules: every file of tests, and what is recorded of cases.
fn told_by_tests() -> String {
    fn collect(folder: &Path, told: &mut String) {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_str().unwrap();
            if path.is_dir() {
                collect(&path, told);
            } else if name == "violations.txt" || name.contains("test") || folder.ends_with("tests")
            {
                *told += &fs::read_to_string(&path).unwrap();
            }
        }
    }
    let mut told = String::new();
    collect(&root().join("src"), &mut told);
    collect(&root().join("tests/pipeline"), &mut told);
    told
}

#[test]
fn every_rule_has_a_test_that_shows_it() {
    let told = told_by_tests();
    for rule in the_deployer::pipeline::validate::RULES {
        let own = root().join("src/pipeline/validate");
        let inside = fs::read_to_string(own.join(format!("{}.rs", rule.name)));
        let shown = told.contains(&format!("[{}]", rule.name))
            || own.join(rule.name).join("tests.rs").is_file()
            || inside.is_ok_and(|text| text.contains("#[test]"));
        assert!(shown, "no test has a violation of the rule {}", rule.name);
    }
}
