//! Tests that the pages about GitHub say what the program does.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use serde_json::Value as Json;
use the_deployer::config::SettingsSources;
use the_deployer::config::access::GitAccess;
use the_deployer::forge::github::app_manifest::{APP_EVENTS, APP_PERMISSIONS, AppManifest};

use super::root;

use crate::harness::folder;

/// Every secret that an example names.
pub(super) fn put_secrets(folder: &Path) {
    let key = include_str!("../../src/forge/github/auth/tests/app.pem");
    let authority = include_str!("../facts/tls/ca.pem");
    let other = "a-secret-that-is-long-enough-for-anything";
    for (name, text) in [
        ("github-app.pem", key),
        ("company-ca.pem", authority),
        ("webhook-secret", other),
        ("api-token", other),
        ("argocd-webhook-secret", other),
    ] {
        let file = folder.join(name);
        fs::write(&file, text).unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o440)).unwrap();
    }
}

fn page(name: &str) -> String {
    fs::read_to_string(root().join(name)).unwrap()
}

#[test]
fn every_configuration_of_the_app_page_is_one_that_the_service_takes() {
    let page = page("deploy/github-app.md");
    let blocks = page.split("```yaml\n").skip(1).map(|rest| rest.split("```").next().unwrap());
    let mut read = 0;
    for block in blocks {
        let secrets = folder::temporary();
        put_secrets(secrets.path());
        let text = block.replace("/run/secrets", secrets.path().to_str().unwrap());
        let sources = SettingsSources {
            file: Some(("config.yaml".to_owned(), text)),
            variables: BTreeMap::new(),
            home: secrets.path().to_owned(),
        };
        let loaded = sources.load().unwrap_or_else(|rejection| panic!("{block}\n{rejection}"));
        assert!(loaded.warnings.is_empty(), "{:?}", loaded.warnings);
        let manifests = &loaded.settings.manifests[0];
        let GitAccess::App(repository) = &manifests.access else { panic!("{manifests:?}") };
        assert_eq!(repository.to_string(), "example/manifests");
        read += 1;
    }
    assert_eq!(read, 2);
}

#[test]
fn the_manifest_asks_for_what_the_page_explains_and_no_more() {
    let page = page("deploy/github-app.md");
    let manifest: Json =
        serde_json::from_str(&self::page("deploy/github-app-manifest.json")).unwrap();
    assert_eq!(manifest["public"], false, "nobody else installs it");
    let hook = manifest["hook_attributes"]["url"].as_str().unwrap();
    assert!(hook.starts_with("https://") && hook.ends_with("/webhooks/github"), "{hook}");
    let asked = manifest["default_permissions"].as_object().unwrap().iter();
    let asked = asked.map(|(name, level)| format!("{name} {}", level.as_str().unwrap()));
    assert_eq!(rows(&page, "permission", 2), asked.collect());
    let events = manifest["default_events"].as_array().unwrap();
    let events = events.iter().map(|event| event.as_str().unwrap().to_owned());
    assert_eq!(rows(&page, "event", 1), events.collect());
}

/// The rows of the table whose first head is that: the first word of each of its first cells.
fn rows(page: &str, head: &str, cells: usize) -> BTreeSet<String> {
    let table = page.split(&format!("| {head} |")).nth(1).unwrap().split("\n\n").next().unwrap();
    let row = |line: &str| {
        let cells = line.split('|').skip(1).take(cells);
        let words = cells.map(|cell| cell.trim().trim_matches('`').split([' ', ';']).next());
        words.map(Option::unwrap).map(|word| word.trim_matches('`')).collect::<Vec<_>>().join(" ")
    };
    table.lines().skip(2).map(row).collect()
}

/// The files, the page about GitHub and `the-deployer setup` have one table of permissions and events.
#[test]
fn the_manifest_is_that_of_the_setup() {
    let manifest: Json = serde_json::from_str(&page("deploy/github-app-manifest.json")).unwrap();
    let url = "https://deployer.example.com".to_owned();
    let app = AppManifest {
        name: "the-deployer".to_owned(),
        service_url: url.clone(),
        redirect_url: url,
        pushes: false,
    };
    assert_eq!(manifest, app.to_json());
    let pushes = AppManifest { pushes: true, ..app }.to_json();
    assert_eq!(pushes["default_permissions"]["contents"], "write");
    let page = page("docs/github.md");
    let row = page.lines().find(|line| line.starts_with("| permissions |")).unwrap();
    let cell = row.split('|').nth(2).unwrap().split('(').next().unwrap();
    let explained: BTreeSet<&str> = cell.split('`').skip(1).step_by(2).collect();
    let needed = APP_PERMISSIONS.iter().filter(|(name, _)| *name != "metadata");
    let needed: Vec<String> = needed.map(|(name, level)| format!("{name}: {level}")).collect();
    assert_eq!(explained, needed.iter().map(String::as_str).collect());
    let events = page.split("| event | effect |").nth(1).unwrap().split("\n\n").next().unwrap();
    for event in APP_EVENTS {
        assert!(events.contains(&format!("| `{event}`")), "{event}");
    }
}

#[test]
fn the_form_sends_that_manifest() {
    let form = page("deploy/github-app.html");
    let inside = form.split("type=\"application/json\">").nth(1).unwrap();
    let inside: Json = serde_json::from_str(inside.split("</script>").next().unwrap()).unwrap();
    let manifest: Json = serde_json::from_str(&page("deploy/github-app-manifest.json")).unwrap();
    assert_eq!(inside, manifest);
    // Nothing is loaded from anywhere, and nothing is sent but the form.
    for word in [" src=", "<link", "fetch(", "import ", "XMLHttpRequest"] {
        assert!(!form.contains(word), "{word}");
    }
}

/// All of the text of the folder's files with that ending, with texts that go over lines in one.
fn sources(folder: &Path, ending: &str, text: &mut String) {
    for entry in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
        if entry.is_dir() {
            sources(&entry, ending, text);
        } else if entry.extension().is_some_and(|found| found == ending) {
            let lines = fs::read_to_string(entry).unwrap();
            let lines: Vec<&str> = lines.split("\\\n").map(str::trim_start).collect();
            *text += &lines.concat();
        }
    }
}

#[test]
fn every_message_that_is_explained_is_one_that_is_said() {
    for (name, head, folder, ending) in [
        ("docs/github.md", "| it says |", "src", "rs"),
        ("docs/logging.md", "| message |", "src", "rs"),
        ("deploy/github-app.md", "| message |", "src", "rs"),
        ("deploy/action/README.md", "| it says |", "deploy/action", "sh"),
    ] {
        let mut said = String::new();
        sources(&root().join(folder), ending, &mut said);
        let page = page(name);
        let table = page.split(head).nth(1).unwrap().split("\n\n").next().unwrap();
        let mut explained = 0;
        for row in table.lines().skip(2) {
            let cell = row.trim_start_matches("| ").split(" | ").next().unwrap();
            let messages =
                cell.split('`').skip(1).step_by(2).filter(|one| !one.starts_with("HTTP"));
            for part in messages.flat_map(|message| message.split('…')).filter(|p| !p.is_empty())
            {
                assert!(said.contains(part.trim()), "{name}: nobody says {part:?}");
                explained += 1;
            }
        }
        assert!(explained > 1, "{name}");
    }
}
