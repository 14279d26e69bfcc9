//! Cases as data: a folder with `waml.yaml` and what comes of it.
//!
//! `expected/` holds the manifests of a plan that succeeds, `violations.txt` what is said of it:
//! a rejection, or warnings. The target is the first under `deploy`, or the one in `target`;
//! `platform.yaml` says what its cluster has to offer, and `templates/` holds templates of its own,
//! which share the built-in components; `policies.yaml` says what the company asks. Files that the WAML names under
//! `manifests` are beside it.
//! With `UPDATE_EXPECTED=1` the files are written anew; read the diff before keeping it.

mod canary_matrix; // each feature with each provider
mod extra_files; // limits of files beside a WAML
mod generate;
mod hostile;
mod memory;
mod routes;
mod rules;
mod hostile_platform;
mod property;
mod traffic; // versions over a fleet
mod versions; // of Kubernetes

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock};

use the_deployer::model::facts::Facts;
use the_deployer::model::id::{CommitSha, ImageTag, RepoName, TargetName};
use the_deployer::model::platform::Platform;
use the_deployer::model::release::Release;
use the_deployer::model::target::Clusters;
use the_deployer::model::template::{TemplateFile, TemplateSources};
use the_deployer::model::violation::{Rejection, Violation};
use the_deployer::pipeline::Input;
use the_deployer::pipeline::plan;
use the_deployer::pipeline::render::RenderedManifests;
use the_deployer::templates::set::TemplateSet;
use the_deployer::waml::Waml;
use the_deployer::waml::extra_files::ExtraFiles;

pub(crate) fn release() -> Release {
    Release {
        repository: RepoName::parse("weave-lab/my-app").unwrap(),
        app: None,
        commit: CommitSha::parse("649008fb649008fb649008fb649008fb649008fb").unwrap(),
        tag: ImageTag::parse("1.0.202206151506-sha.649008fb").unwrap(),
    }
}

pub(crate) fn templates() -> Arc<TemplateSet> {
    TEMPLATES.clone()
}

/// Compiled once: it takes longer than what most tests do with them.
static TEMPLATES: LazyLock<Arc<TemplateSet>> = LazyLock::new(|| {
    TemplateSet::compile(&the_deployer::templates::sources::built_in()).unwrap().into()
});

pub(crate) fn facts() -> Facts {
    Facts::without_lookups(jiff::Timestamp::UNIX_EPOCH, Clusters::any())
}

pub(crate) fn planned(text: &[u8], target: Option<&str>) -> Result<RenderedManifests, Rejection> {
    planned_on(text, target, Platform::default(), templates())
}

/// Plans for the first target, on a cluster with that platform.
pub(crate) fn planned_on_platform(
    text: &[u8],
    platform: Platform,
) -> Result<RenderedManifests, Rejection> {
    planned_on(text, None, platform, templates())
}

/// The built-in templates or those of a case, and the company's policies beside them.
fn templates_of(case: &Path) -> Arc<TemplateSet> {
    let (own, policies) = (case.join("templates"), case.join("policies.yaml"));
    if !own.exists() && !policies.exists() {
        return templates();
    }
    let mut sources = the_deployer::templates::sources::built_in();
    if own.exists() {
        let components = sources.components;
        sources = TemplateSources {
            components,
            ..the_deployer::templates::sources::folder(&own).unwrap()
        };
    }
    let policies = fs::read_to_string(policies).ok();
    let policies = policies.map(|text| TemplateFile { path: "policies.yaml".to_owned(), text });
    sources.policies.extend(policies);
    Arc::new(TemplateSet::compile(&sources).unwrap())
}

pub(crate) fn planned_on(
    text: &[u8],
    target: Option<&str>,
    platform: Platform,
    templates: Arc<TemplateSet>,
) -> Result<RenderedManifests, Rejection> {
    planned_for(text, target, Clusters::Any(Box::new(platform)), templates)
}

fn planned_for(
    text: &[u8],
    target: Option<&str>,
    clusters: Clusters,
    templates: Arc<TemplateSet>,
) -> Result<RenderedManifests, Rejection> {
    planned_beside(Path::new("none"), text, target, clusters, templates)
}

/// Plans a WAML with the files of that folder.
pub(crate) fn planned_beside(
    folder: &Path,
    text: &[u8],
    target: Option<&str>,
    clusters: Clusters,
    templates: Arc<TemplateSet>,
) -> Result<RenderedManifests, Rejection> {
    let facts = Facts { clusters, ..facts() };
    let waml = Waml::parse(".weave.yaml", text)?;
    let files = ExtraFiles::read(waml.extra_paths(), |path| {
        fs::read(folder.join(path)).map_err(|_| "there is no such file".to_owned())
    });
    let waml = waml.with_extra_files(files);
    let first = waml.targets().first().map(|target| (*target).clone());
    let target = target.map(|name| TargetName::parse(name).unwrap()).or(first);
    let target = target.unwrap_or(TargetName::parse("none").unwrap());
    let input = Input { waml: waml.into(), target, fleet: None, release: release(), templates };
    plan(&input, &facts)
}

fn said(violations: &[Violation]) -> String {
    violations
        .iter()
        .map(|v| {
            let help = v.help.as_ref().map_or(String::new(), |help| format!("    help: {help}\n"));
            format!("{:?} {v}\n{help}", v.severity)
        })
        .collect()
}

fn outcome(case: &Path) -> BTreeMap<PathBuf, String> {
    let text = fs::read(case.join("waml.yaml")).unwrap();
    let target = fs::read_to_string(case.join("target")).ok();
    let platform = fs::read_to_string(case.join("platform.yaml")).ok();
    let platform = platform.map(|text| serde_yaml::from_str(&text).unwrap()).unwrap_or_default();
    let clusters = Clusters::Any(Box::new(platform));
    let target = target.as_deref().map(str::trim);
    let planned = planned_beside(case, &text, target, clusters, templates_of(case));
    let (files, violations) = match planned {
        Ok(rendered) => (rendered.files, rendered.warnings),
        Err(rejection) => (Vec::new(), rejection.violations),
    };
    let manifests = files.into_iter().map(|file| {
        (Path::new("expected").join(file.name), String::from_utf8(file.bytes).unwrap())
    });
    let told = (!violations.is_empty()).then(|| ("violations.txt".into(), said(&violations)));
    manifests.chain(told).collect()
}

fn recorded(case: &Path) -> BTreeMap<PathBuf, String> {
    let expected = fs::read_dir(case.join("expected")).into_iter().flatten();
    let files = expected.map(|entry| Path::new("expected").join(entry.unwrap().file_name()));
    files
        .chain(["violations.txt".into()])
        .filter_map(|path| Some((path.clone(), fs::read_to_string(case.join(&path)).ok()?)))
        .collect()
}

fn record(case: &Path, outcome: &BTreeMap<PathBuf, String>) {
    let _ = fs::remove_dir_all(case.join("expected"));
    let _ = fs::remove_file(case.join("violations.txt"));
    for (path, text) in outcome {
        let path = case.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
}

#[test]
fn every_case_gives_what_is_recorded_of_it() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/pipeline");
    let folders = fs::read_dir(&root).unwrap().map(|entry| entry.unwrap().path());
    let mut cases: Vec<PathBuf> = folders.filter(|path| path.join("waml.yaml").exists()).collect();
    cases.sort();
    assert!(cases.len() >= 10, "cases are missing");
    for case in cases {
        let outcome = outcome(&case);
        if std::env::var_os("UPDATE_EXPECTED").is_some() {
            record(&case, &outcome);
        }
        let recorded = recorded(&case);
        assert!(!recorded.is_empty(), "{} has no record: UPDATE_EXPECTED=1", case.display());
        assert_eq!(recorded, outcome, "{}", case.display());
    }
}

/// On a target that offers each thing in turn; with `KEEP_SAMPLES=FOLDER` the manifests are kept
/// there, for looking at and for other validators.
#[test]
fn every_sample_of_a_built_in_template_is_rendered() {
    let platforms = [
        "{}",
        "{ingress: {kind: kubernetes}, certificates: {kind: none}}",
        "{ingress: {kind: gateway}, certificates: {kind: cached-certificate}, network_policy: {enabled: true, ingress: {namespaces: [a]}, egress: {}}}",
        "{monitoring: {http: istio}, secrets: {delivery: external-secrets}}",
        "{monitoring: {enabled: false}, secrets: {delivery: vault-secrets-operator}}",
    ];
    let sources = the_deployer::templates::sources::built_in();
    let samples: Vec<_> =
        sources.files.iter().filter(|file| file.path.contains("/samples/")).collect();
    for template in templates().iter() {
        let own = |path: &str| path.starts_with(&format!("{}/samples/", template.name));
        assert!(samples.iter().any(|file| own(&file.path)), "{} has no sample", template.id());
    }
    for sample in samples {
        for (n, platform) in platforms.iter().enumerate() {
            let platform = serde_yaml::from_str(platform).unwrap();
            let rendered = planned_on(sample.text.as_bytes(), None, platform, templates())
                .unwrap_or_else(|rejection| panic!("{} on {n}: {rejection}", sample.path));
            let (template, _) = sample.path.split_once('/').unwrap();
            assert_eq!(rendered.template, format!("{template}@latest"), "{}", sample.path);
            keep(&rendered, &format!("{}-{n}", sample.path.replace('/', "-")));
        }
    }
}

/// On every platform, in Google's cloud too, with everything that an app may ask for there.
#[test]
fn an_app_with_the_longest_slug_is_rendered_wherever_it_runs() {
    let platforms = [
        "{}",
        "{ingress: {kind: kubernetes}, certificates: {kind: none}}",
        "{ingress: {kind: gateway}, certificates: {kind: cached-certificate}, network_policy: {enabled: true, ingress: {namespaces: [a]}, egress: {}}}",
        "{monitoring: {http: istio}, secrets: {delivery: external-secrets}}",
        "{monitoring: {enabled: false}, secrets: {delivery: vault-secrets-operator}}",
        "{cloud: {provider: gcp, identities: every-app, gcp: {project: p-project, region: europe-west3, network: n}, database: cloudsql, redis: memorystore}, secrets: {vault: {operator: true, roles: every-app}}}",
    ];
    let slug = "a".repeat(63);
    let sources = the_deployer::templates::sources::built_in();
    let samples = sources.files.iter().filter(|file| file.path.contains("/samples/"));
    for sample in samples {
        for (n, platform) in platforms.iter().enumerate() {
            let line = |line: &str| match line.strip_prefix("slug: ") {
                Some(_) => format!("slug: {slug}\n"),
                None => format!("{line}\n"),
            };
            let text: String = sample.text.lines().map(line).collect();
            let platform = serde_yaml::from_str(platform).unwrap();
            let rendered = match planned_on(text.as_bytes(), None, platform, templates()) {
                Ok(rendered) => rendered,
                Err(rejection) => panic!("{} on {n}: {rejection}", sample.path),
            };
            for file in &rendered.files {
                let object: serde_json::Value = serde_yaml::from_slice(&file.bytes).unwrap();
                let name = object["metadata"]["name"].as_str().unwrap();
                assert!(name.split('.').all(|part| part.len() <= 63), "{name}");
            }
        }
    }
}

/// A shorter one keeps its names: rights by another name would be taken away for a while.
#[test]
fn names_of_rights_in_googles_cloud_are_as_they_were_for_short_slugs() {
    let platform = "{cloud: {provider: gcp, gcp: {project: p-project, region: europe-west3}}}";
    let objects = |slug: &str, namespace: &str| -> Vec<serde_json::Value> {
        let text = format!(
            "schema: \"2\"\nname: A\nslug: {slug}\nowner: a@b.c\nnamespace: {namespace}\ndeploy:\n  prod-cluster-1:\n    iam: {{roles: [roles/pubsub.publisher]}}\n"
        );
        let platform = serde_yaml::from_str(platform).unwrap();
        let rendered = planned_on(text.as_bytes(), None, platform, templates()).unwrap();
        rendered.files.iter().map(|file| serde_yaml::from_slice(&file.bytes).unwrap()).collect()
    };
    let named = |objects: &[serde_json::Value]| -> Vec<String> {
        let members = objects.iter().filter(|object| object["kind"] == "IAMPolicyMember");
        members.map(|object| object["metadata"]["name"].as_str().unwrap().to_owned()).collect()
    };
    let shown = |objects: &[serde_json::Value]| -> String {
        let account = objects.iter().find(|object| object["kind"] == "IAMServiceAccount").unwrap();
        account["spec"]["displayName"].as_str().unwrap().to_owned()
    };
    let short = objects("shop", "devx");
    assert_eq!(shown(&short), "devx/shop");
    let short = named(&short);
    assert!(short.contains(&"shop-workload-identity".to_owned()), "{short:?}");
    assert!(short.iter().any(|name| name.starts_with("shop-pubsub-publisher-")), "{short:?}");
    let long = objects(&"a".repeat(50), &"n".repeat(63));
    assert!(shown(&long).len() <= 100, "{}", shown(&long));
    let long = named(&long);
    assert!(long.len() == 2 && long.iter().all(|name| name.len() <= 63), "{long:?}");
}

/// A company begins with these: what is told of its own must not drown in what is told of them.
#[test]
fn the_built_in_templates_are_without_a_warning() {
    let sources = the_deployer::templates::sources::built_in();
    let report = the_deployer::pipeline::check::templates(&sources).unwrap();
    assert_eq!(report.violations, []);
    assert!(report.templates.iter().all(|one| one.objects > 0), "{:?}", report.templates);
}

fn keep(rendered: &RenderedManifests, name: &str) {
    let Some(folder) = std::env::var_os("KEEP_SAMPLES") else { return };
    let folder = Path::new(&folder).join(name);
    fs::create_dir_all(&folder).unwrap();
    for file in &rendered.files {
        fs::write(folder.join(&file.name), &file.bytes).unwrap();
    }
}

#[test]
fn the_same_input_gives_the_same_bytes() {
    let text = include_bytes!("example/waml.yaml");
    let first = planned(text, None).unwrap();
    for _ in 0..20 {
        let again = planned(text, None).unwrap();
        assert_eq!(again.files, first.files);
        assert_eq!(again.digest, first.digest);
    }
}

#[test]
fn the_digest_is_on_the_workload_and_nowhere_on_its_pods() {
    let rendered = planned(include_bytes!("example/waml.yaml"), None).unwrap();
    let key = "the-deployer.dev/digest";
    for file in &rendered.files {
        let text = std::str::from_utf8(&file.bytes).unwrap();
        let object: serde_json::Value = serde_yaml::from_str(text).unwrap();
        let on_it = &object["metadata"]["annotations"][key];
        if object["kind"] == "Deployment" {
            assert_eq!(*on_it, rendered.digest.to_string());
            assert_eq!(text.matches(key).count(), 1);
        } else {
            assert_eq!(text.matches(key).count(), 0);
        }
    }
}

#[test]
fn the_digest_can_be_had_from_the_files_alone() {
    for text in [&include_bytes!("example/waml.yaml")[..], include_bytes!("layers/waml.yaml")] {
        let rendered = planned(text, None).unwrap();
        let found = the_deployer::manifests::files::digest_of(&rendered.files);
        assert_eq!(found, Some(rendered.digest));
    }
    assert_eq!(the_deployer::manifests::files::digest_of(&[]), None);
}

#[test]
fn a_wamls_labels_are_on_every_object() {
    let text = include_str!("example/waml.yaml").replace(
        "deploy:\n  prod-cluster-1:\n",
        "deploy:\n  prod-cluster-1:\n    labels: {team: squad}\n",
    );
    let rendered = planned(text.as_bytes(), None).unwrap();
    for file in &rendered.files {
        let object: serde_json::Value = serde_yaml::from_slice(&file.bytes).unwrap();
        assert_eq!(object["metadata"]["labels"]["team"], "squad", "{}", file.name);
    }
}
