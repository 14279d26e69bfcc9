//! The guides for the first day: their WAMLs are planned, their configurations are read, and their commands parse.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use clap::CommandFactory as _;
use serde_json::Value as Json;
use the_deployer::config::{LoadedConfig, SettingsSources};
use the_deployer::model::platform::Platform;
use the_deployer::model::target::Clusters;
use the_deployer::pipeline::render::RenderedManifests;
use the_deployer::waml::Waml;

use super::{github, root};
use crate::harness::folder;
use crate::pipeline::{planned_beside, planned_on, templates};

/// The guides whose commands are tried.
const GUIDES: [&str; 13] = [
    "adopting",
    "cluster-credentials",
    "examples",
    "first-deployment",
    "installing-bart",
    "local-runs",
    "metrics",
    "operations",
    "runbooks",
    "scaling",
    "secrets",
    "setup",
    "upgrading",
];

fn page(name: &str) -> String {
    fs::read_to_string(root().join(format!("docs/{name}.md"))).unwrap()
}

/// The code blocks of that language, in the page's order.
fn blocks(page: &str, language: &str) -> Vec<String> {
    let (mut all, mut open) = (Vec::new(), None::<(usize, String)>);
    for line in page.lines() {
        let text = line.trim_start();
        match &mut open {
            None if text == format!("```{language}") => {
                open = Some((line.len() - text.len(), String::new()));
            }
            None => {}
            Some(_) if text == "```" => all.push(open.take().unwrap().1),
            Some((indent, block)) => {
                block.push_str(line.get(*indent..).unwrap_or_default());
                block.push('\n');
            }
        }
    }
    all
}

/// Plans a WAML on a target, and holds that there is nothing to be told of it.
fn render(text: &str, target: &str, platform: &Platform) -> RenderedManifests {
    let rendered = planned_on(text.as_bytes(), Some(target), platform.clone(), templates())
        .unwrap_or_else(|rejection| panic!("{target}: {rejection}"));
    assert_eq!(rendered.warnings, [], "{target}");
    rendered
}

fn objects(rendered: &RenderedManifests) -> Vec<Json> {
    rendered.files.iter().map(|file| serde_yaml::from_slice(&file.bytes).unwrap()).collect()
}

fn kinds(rendered: &RenderedManifests) -> BTreeSet<String> {
    objects(rendered).iter().map(|one| one["kind"].as_str().unwrap().to_owned()).collect()
}

/// The settings of a page, with secrets that are there.
fn load(text: &str) -> LoadedConfig {
    let secrets = folder::temporary();
    github::put_secrets(secrets.path());
    let text = text.replace("/run/secrets/the-deployer", secrets.path().to_str().unwrap());
    let sources = SettingsSources {
        file: Some(("config.yaml".to_owned(), text)),
        variables: BTreeMap::new(),
        home: secrets.path().to_owned(),
    };
    sources.load().unwrap_or_else(|rejection| panic!("{rejection}"))
}

#[test]
fn each_of_the_five_services_is_rendered_on_each_of_its_targets_without_a_warning() {
    let page = page("examples");
    let mut files = blocks(&page, "yaml");
    let cluster: Json = serde_yaml::from_str(&files.pop().unwrap()).unwrap();
    let platform: Platform = serde_json::from_value(cluster["platform"].clone()).unwrap();
    assert_eq!(files.len(), 5);
    let expected: [&[&str]; 5] = [
        &[
            "Deployment",
            "Service",
            "IngressRoute",
            "SQLInstance",
            "HorizontalPodAutoscaler",
            "ExternalSecret",
        ],
        &[
            "Deployment",
            "Service",
            "IngressRoute",
            "Middleware",
            "HorizontalPodAutoscaler",
            "ExternalSecret",
        ],
        &["CronJob", "ExternalSecret"],
        &["Deployment", "HorizontalPodAutoscaler", "ExternalSecret", "PrometheusRule"],
        &["Deployment", "Service", "StatefulSet", "HorizontalPodAutoscaler"],
    ];
    for (text, expected) in files.iter().zip(expected) {
        let waml = Waml::parse(".weave.yaml", text.as_bytes()).unwrap();
        let targets: Vec<String> = waml.targets().iter().map(ToString::to_string).collect();
        assert_eq!(targets, ["prod", "staging"]);
        for target in &targets {
            let rendered = render(text, target, &platform);
            if target == "prod" {
                let kinds = kinds(&rendered);
                let missing: Vec<_> =
                    expected.iter().filter(|&&kind| !kinds.contains(kind)).collect();
                assert!(missing.is_empty(), "{missing:?} of {kinds:?}");
            }
        }
    }
}

/// Each wish of the page is granted by its lines, in a WAML that has nothing else, and leaves nothing to be told.
#[test]
fn each_wish_is_granted_by_its_lines() {
    let page = page("how-do-i");
    let wishes: Vec<&str> = page.lines().filter_map(|line| line.strip_prefix("### … ")).collect();
    let lines = blocks(&page, "yaml");
    assert!(wishes.len() >= 30 && wishes.len() == lines.len(), "{} {}", wishes.len(), lines.len());
    let header =
        "schema: \"2\"\nname: Shop\nslug: shop\nowner: squad@example.com\nnamespace: devx\n";
    let plan = |lines: &str| {
        let indented: String = lines.lines().map(|line| format!("    {line}\n")).collect();
        let text = format!("{header}deploy:\n  prod:\n{indented}");
        let clusters = Clusters::Any(Box::default());
        // Files beside the WAML are those of a case.
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/pipeline/manifests");
        planned_beside(&folder, text.as_bytes(), Some("prod"), clusters, templates())
    };
    let without = plan("{}").unwrap();
    for (wish, lines) in wishes.iter().zip(&lines) {
        let rendered = plan(lines).unwrap_or_else(|rejection| panic!("{wish}: {rejection}"));
        assert_eq!(rendered.warnings, [], "{wish}");
        let files = |rendered: &RenderedManifests| -> Vec<Vec<u8>> {
            rendered.files.iter().map(|file| file.bytes.clone()).collect()
        };
        assert_ne!(files(&rendered), files(&without), "{wish} changes nothing");
    }
}

#[test]
fn the_configuration_and_the_waml_of_the_first_deployment_are_taken() {
    let page = page("first-deployment");
    let [config, waml] = &blocks(&page, "yaml")[..] else { panic!("two files") };
    let loaded = load(config);
    assert!(loaded.warnings.is_empty(), "{:?}", loaded.warnings);
    let config: Json = serde_yaml::from_str(config).unwrap();
    let platform: Platform = serde_json::from_value(config["platform"].clone()).unwrap();
    let kinds = kinds(&render(waml, "prod-cluster-1", &platform));
    assert!(kinds.contains("Deployment") && kinds.contains("Ingress"), "{kinds:?}");
    // The next page that a reader opens has the same file to edit.
    assert!(root().join("deploy/kubernetes/base/configmap.yaml").exists());
}

/// The page promises which lines of the pods change, and so which app restarts.
#[test]
fn an_app_that_is_adopted_changes_the_lines_that_the_page_names_and_no_other() {
    let page = page("adopting");
    let [running, waml] = &blocks(&page, "yaml")[..] else { panic!("two files") };
    let running: Json = serde_yaml::from_str(running).unwrap();
    let rendered = render(waml, "prod-cluster-1", &Platform::default());
    let mut deployment =
        objects(&rendered).into_iter().find(|one| one["kind"] == "Deployment").unwrap();
    for key in ["name", "namespace"] {
        assert_eq!(deployment["metadata"][key], running["metadata"][key], "{key}");
    }
    assert_eq!(deployment["spec"]["selector"], running["spec"]["selector"]);
    assert_eq!(deployment["spec"]["replicas"], running["spec"]["replicas"]);
    // The repository and the tag are the tests' own.
    deployment["spec"]["template"]["spec"]["containers"][0]["image"] =
        running["spec"]["template"]["spec"]["containers"][0]["image"].clone();
    let mut changed = BTreeSet::new();
    differences(
        "spec.template",
        &deployment["spec"]["template"],
        &running["spec"]["template"],
        &mut changed,
    );
    assert_eq!(changed, BTreeSet::from(["spec.template.spec.serviceAccountName".to_owned()]));
    let rows = page.lines().filter(|line| line.starts_with("| `spec.template"));
    let named: BTreeSet<String> =
        rows.map(|line| line.split('`').nth(1).unwrap().to_owned()).collect();
    assert_eq!(named, changed);
}

/// The paths at which two values differ.
fn differences(path: &str, ours: &Json, theirs: &Json, changed: &mut BTreeSet<String>) {
    match (ours, theirs) {
        (Json::Object(one), Json::Object(other)) => {
            let keys: BTreeSet<&String> = one.keys().chain(other.keys()).collect();
            for key in keys {
                differences(&format!("{path}.{key}"), &ours[key], &theirs[key], changed);
            }
        }
        (Json::Array(one), Json::Array(other)) if one.len() == other.len() => {
            for (at, (one, other)) in one.iter().zip(other).enumerate() {
                differences(&format!("{path}[{at}]"), one, other, changed);
            }
        }
        _ if ours == theirs => {}
        _ => {
            changed.insert(path.to_owned());
        }
    }
}

#[test]
fn the_configuration_of_several_manifest_repositories_is_taken() {
    let part = &blocks(&page("scaling"), "yaml")[0];
    let loaded = load(&format!(
        "{part}\nclusters:\n- {{name: prod-eu-1, environment: production, domain: eu.example.com}}\n"
    ));
    let names: Vec<&str> = loaded.settings.manifests.iter().map(|one| one.name.as_str()).collect();
    assert_eq!(names, ["eu", "us", "others"]);
    assert!(loaded.settings.manifests[0].targets.is_match("prod-eu-1"));
}

#[test]
fn the_secret_for_argo_cd_is_one() {
    let text = &blocks(&page("cluster-credentials"), "yaml")[0];
    let secret: Json = serde_yaml::from_str(text).unwrap();
    assert_eq!(secret["metadata"]["labels"]["argocd.argoproj.io/secret-type"], "repository");
    for key in ["type", "url", "githubAppID", "githubAppInstallationID", "githubAppPrivateKey"] {
        assert!(secret["stringData"][key].is_string(), "{key}");
    }
}

/// The words of a line as a shell splits them, up to what belongs to the shell.
fn words(line: &str) -> Vec<String> {
    let mut line = line.to_owned();
    // What a command in the line prints is one word, whatever it is.
    while let Some(start) = line.find("$(")
        && let Some(length) = line[start..].find(')')
    {
        line.replace_range(start..=start + length, "printed");
    }
    let (mut words, mut word, mut quote, mut begun) = (Vec::new(), String::new(), None, false);
    for c in line.chars() {
        match (quote, c) {
            (Some(open), c) if c == open => quote = None,
            (Some(_), c) => word.push(c),
            (None, '"' | '\'') => (quote, begun) = (Some(c), true),
            (None, c) if c.is_whitespace() => {
                if begun {
                    words.push(std::mem::take(&mut word));
                }
                begun = false;
            }
            (None, '#') if !begun => return words,
            (None, '|' | ';' | '&' | '>' | '<' | ')') => break,
            (None, c) => {
                begun = true;
                word.push(c);
            }
        }
    }
    if begun {
        words.push(word);
    }
    words
}

#[test]
fn the_commands_of_the_guides_are_commands() {
    let mut tried = 0;
    for name in GUIDES {
        for block in blocks(&page(name), "sh") {
            let lines = block.replace("\\\n", " ");
            for line in lines.lines() {
                for part in line.split("&&") {
                    let part = part.split(" -- ").last().unwrap();
                    let words = words(part);
                    let Some(first) = words.first() else { continue };
                    let command = match first.as_str() {
                        "bart" => the_deployer::cli::bart::Bart::command(),
                        "the-deployer" => the_deployer::cli::operator::DeployerCli::command(),
                        _ => continue,
                    };
                    tried += 1;
                    if let Err(error) = command.try_get_matches_from(&words) {
                        let kind = error.kind();
                        let shows = [
                            clap::error::ErrorKind::DisplayVersion,
                            clap::error::ErrorKind::DisplayHelp,
                        ];
                        assert!(shows.contains(&kind), "docs/{name}.md: {part}: {error}");
                    }
                }
            }
        }
    }
    assert!(tried >= 25, "{tried}");
}
