//! The shape of the code, held by tests: who may import whom, what the functional core does
//! without, and how files look.

mod cycles;
mod names;
mod source;

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use source::{CodePath, Source};

/// Who may import whom, in reading order. What is not listed is forbidden.
///
/// A name may be a module, or one file of it that may more: `cli/operator/demo`. `docs/architecture.md`
/// shows this table. Tests may import everything.
pub(crate) const IMPORTS: &[(&str, &[&str])] = &[
    ("support", &[]),
    // Invisible characters are no part of a reason; an id is made of what a clock drew.
    ("model", &["support"]),
    ("waml", &["support", "model"]),
    ("manifests", &["support", "model", "waml"]),
    ("policy", &["support", "model", "waml", "manifests"]),
    ("traffic", &["model"]),
    // A set of templates has the policies that lie beside it.
    ("templates", &["model", "waml", "manifests", "policy", "traffic"]),
    ("rollout", &["support", "model"]),
    // A rollout is planned by what a WAML says.
    (
        "pipeline",
        &["support", "model", "waml", "manifests", "policy", "traffic", "templates", "rollout"],
    ),
    ("git", &["support", "model"]),
    ("forge", &["support", "model"]),
    ("notify", &["support", "model"]),
    ("store", &["support", "model"]),
    ("lookups", &["support", "model"]),
    ("cluster", &["support", "model", "manifests"]),
    ("inventory", &["support", "model", "manifests", "git"]),
    (
        "deployments",
        &[
            "support",
            "model",
            "waml",
            "manifests",
            "templates",
            "pipeline",
            "rollout",
            "git",
            "forge",
            // The events of a rollout are written as they are sent, in the transaction of its change.
            "notify",
            "store",
            "lookups",
            "cluster",
            "inventory",
        ],
    ),
    (
        "outbox",
        &["support", "model", "manifests", "git", "forge", "notify", "store", "deployments"],
    ),
    ("controller", &["support", "model", "pipeline", "forge", "store", "cluster", "deployments"]),
    // The words of the HTTP API: what they are made of is the server's business, how they are shown the CLI's.
    ("api", &["support", "model"]),
    (
        "server",
        &[
            "support",
            "model",
            "manifests",
            "pipeline",
            "rollout",
            "forge",
            // Slack's buttons: their values are read as they were written, and answered there.
            "notify",
            "store",
            "cluster",
            "deployments",
            "api",
        ],
    ),
    // Inside a cluster: the watches of the service, and the words of its API.
    ("agent", &["support", "model", "cluster", "api"]),
    // A webhook's rules and the keys for events and commits are settings; others say what they are made of.
    ("config", &["support", "model", "waml", "git", "forge", "notify", "lookups", "cluster"]),
    (
        "app",
        &[
            "support",
            "model",
            "waml",
            "manifests",
            "git",
            "forge",
            "notify",
            "store",
            "lookups",
            "cluster",
            "inventory",
            "deployments",
            "outbox",
            "controller",
            "server",
            "config",
        ],
    ),
    (
        "cli",
        &[
            "support",
            "model",
            "waml",
            "manifests",
            "policy",
            "templates",
            "pipeline",
            "store",
            "cluster",
            "deployments",
            "api",
            "agent",
            "config",
            "app",
        ],
    ),
    // The demo plays GitHub, which signs its events, and shows what is in the repository.
    ("cli/operator/demo", &["support", "model", "git", "forge", "api", "config", "app"]),
    // It registers the GitHub App, and lists contexts of a kubeconfig.
    (
        "cli/operator/setup",
        &["support", "model", "waml", "manifests", "forge", "cluster", "config", "app"],
    ),
    ("bin", &["cli"]),
    // It hands bytes to readers wherever they are; in no program that ships.
    (
        "fuzzing",
        &[
            "model",
            "waml",
            "manifests",
            "templates",
            "pipeline",
            "git",
            "forge",
            "lookups",
            "cluster",
            "server",
            "cli",
        ],
    ),
];

/// The functional core: values in, values out.
const PURE: &[&str] = &[
    "support/cache",
    "support/globs",
    "support/http/retry_after",
    "support/lease",
    "support/markdown",
    "support/rate_limit",
    "support/retry",
    "support/time",
    "support/text",
    "support/secret_marks",
    "support/secret_mask",
    "support/secret_name",
    "support/secret_programs",
    "support/secret_sections",
    "support/secret_text",
    "support/secret_tree",
    "model",
    "waml",
    "manifests",
    "policy",
    "templates",
    "pipeline",
    "traffic",
    "rollout",
    "git/layout",
    "git/message",
    "git/history/trailers",
    "git/transport/push_rejection",
    "forge/github/webhook",
    "notify/threading",
    "notify/route",
    "notify/message",
    "notify/slack/address",
    "notify/slack/answer",
    "notify/slack/rate_limit",
    "notify/events",
    "notify/signature",
    "notify/argocd/event",
    "notify/bigquery/answer",
    "notify/bigquery/row",
    "outbox/sinks/github/words",
    "outbox/sinks/argocd/paths",
    "outbox/outcome",
    "outbox/circuit_breaker",
    "outbox/quota",
    "outbox/report_outcome",
    "outbox/rollouts/status",
    "outbox/rollouts/thread",
    "outbox/environments/status",
    "outbox/environments/comment",
    "lookups/gates/alerts",
    "lookups/gates/promql",
    "lookups/image",
    "lookups/challenge",
    "lookups/registry/tags",
    "lookups/registry/listing",
    "lookups/registry/image_config",
    "cluster",
    "api",
    "server/pages/app",
    "server/pages/audit",
    "server/pages/changes",
    "server/pages/deployment",
    "server/pages/document",
    "server/pages/grid",
    "server/pages/insights",
    "server/pages/list",
    "server/pages/locks",
    "server/pages/plot",
    "server/pages/pods",
    "server/pages/rollouts",
    "server/pages/system",
    "server/pages/timeline",
    "server/pages/words",
    "server/openapi/document",
    "server/openapi/operation",
    "server/query",
    "cli/bart/run/container",
    "cli/bart/run/env_file",
    "cli/bart/run/plan",
    "cli/bart/run/sidecar_plan",
    "cli/bart/status/view",
    "cli/operator/setup/action",
    "cli/operator/setup/cluster_answer",
    "cli/operator/setup/configuration_text",
    "cli/operator/setup/registration_page",
    "cli/secret_store/app_secrets",
    "cli/secret_store/contents",
    "cli/secret_store/location",
    "support/time_text",
];
/// Files of those modules that do things.
const NOT_PURE: &[&str] = &[
    "cluster/connection",
    "cluster/live",
    "cluster/logs",
    "cluster/secret_objects",
    "cluster/watch/canary_events",
    "cluster/watch/protocol",
    "cluster/watch/reflector",
    "templates/sources",
];

/// What the functional core does without: each a path's beginning.
const EFFECTS: &[&str] = &[
    "tokio",
    "reqwest",
    "sqlx",
    "octocrab",
    "git2",
    "uuid",
    "std::env",
    "std::fs",
    "std::net",
    "std::process",
    "std::thread",
    "std::time::Instant",
    "std::time::SystemTime",
];

/// What of the CLI reads data that is no answer of the service, and whose data that is.
const READS_OTHER_DATA: &[(&str, &str)] = &[
    ("cli/bart/deploy/github", "GitHub's API"),
    ("cli/bart/login", "GitHub's API"),
    ("cli/bart/pull_request", "GitHub's API"),
    ("cli/operator/setup", "its own answers"),
    ("cli/settings", "bart's own files"),
];

/// The one file that may hold `unsafe`: libgit2 asks for it of who brings a transport.
const UNSAFE: &str = "git/transport/mod.rs";

const MAX_LINES: usize = 600;

#[test]
fn modules_import_only_what_the_table_allows() {
    let mut broken = Vec::new();
    for source in source::all().iter().filter(|source| !source.is_test()) {
        let module = source.module();
        let Some(own) = module.first() else { continue };
        let Some((name, allowed)) = row(&source.path) else {
            broken.push(format!("{}: `{own}` is not in the table", source.at(1)));
            continue;
        };
        for (line, import) in imports(source) {
            if import != *own && !allowed.contains(&import.as_str()) {
                let at = source.at(line);
                broken
                    .push(format!("{at}: `{name}` imports `{import}`; it may import {allowed:?}"));
            }
        }
    }
    tell("the import table (IMPORTS in tests/architecture/mod.rs)", &broken);
}

#[test]
fn every_row_of_the_table_is_a_module() {
    let sources = source::all();
    let is_there = |name: &str| name == "bin" || sources.iter().any(|s| is_in(&s.path, name));
    let rows = IMPORTS.iter().map(|(name, _)| name).chain(PURE).chain(NOT_PURE);
    let missing: Vec<&&str> = rows.filter(|name| !is_there(name)).collect();
    assert!(missing.is_empty(), "no such module under src/: {missing:?}");
}

/// What is allowed and not used is what nobody decided.
#[test]
fn the_table_allows_nothing_that_is_not_used() {
    let mut used = BTreeSet::new();
    for source in source::all().iter().filter(|source| !source.is_test()) {
        let Some((name, _)) = row(&source.path) else { continue };
        used.extend(imports(source).into_iter().map(|(_, import)| (*name, import)));
    }
    let allowed = IMPORTS.iter().flat_map(|(name, all)| all.iter().map(|one| (*name, *one)));
    let unused = allowed.filter(|(name, import)| !used.contains(&(*name, (*import).to_owned())));
    let broken: Vec<String> =
        unused.map(|(name, import)| format!("`{name}` does not import `{import}`")).collect();
    tell("strike out of the import table what nobody uses", &broken);
}

#[test]
fn the_functional_core_has_no_effects() {
    let mut broken = Vec::new();
    for source in source::all().iter().filter(|source| !source.is_test() && is_pure(&source.path)) {
        let code = source.code();
        let awaits = code.iter().filter(|token| matches!(token.text.as_str(), "async" | "await"));
        broken.extend(awaits.map(|t| format!("{}: `{}`", source.at(t.line), t.text)));
        let effects = source::paths(&code).into_iter().filter(|path| {
            EFFECTS.iter().any(|effect| {
                effect.split("::").zip(&path.parts).all(|(a, b)| a == b)
                    && path.parts.len() >= effect.split("::").count()
            })
        });
        broken.extend(effects.map(|p| format!("{}: `{}`", source.at(p.line), p.parts.join("::"))));
    }
    tell("the functional core is pure: no async, no client, no clock, no environment", &broken);
}

#[test]
fn requests_and_answers_of_the_api_are_declared_once() {
    let sources = source::all();
    let derives = |folder: &'static str, what: &'static str| {
        let files = sources.iter().filter(move |one| !one.is_test() && is_in(&one.path, folder));
        files.flat_map(move |one| one.derives(what).into_iter().map(move |line| (one, line)))
    };
    let is_other = |path: &str| READS_OTHER_DATA.iter().any(|(name, _)| is_in(path, name));
    let read = derives("cli", "Deserialize").filter(|(source, _)| !is_other(&source.path));
    let described = derives("server", "JsonSchema");
    let broken: Vec<String> = read.chain(described).map(|(file, line)| file.at(line)).collect();
    tell(
        "what the API takes and gives is declared in src/api/, for the server and the CLI",
        &broken,
    );
    for (name, whose) in READS_OTHER_DATA {
        assert!(derives(name, "Deserialize").next().is_some(), "src/{name} reads no {whose} now");
    }
}

#[test]
fn only_one_file_holds_unsafe_code() {
    let sources = source::all();
    let mut found = Vec::new();
    for source in sources.iter().filter(|source| source.path != UNSAFE) {
        let tokens = source.tokens();
        let words = tokens.iter().filter(|token| token.text == "unsafe");
        found.extend(words.map(|token| source.at(token.line)));
    }
    tell(&format!("`unsafe` stands in src/{UNSAFE} and nowhere else"), &found);
    let transport = sources.iter().find(|source| source.path == UNSAFE).unwrap();
    assert!(
        transport.tokens().iter().any(|token| token.text == "unsafe"),
        "{UNSAFE} needs none now"
    );
}

#[test]
fn every_file_says_first_what_it_is_for() {
    let sources = source::all();
    let silent = sources.iter().filter(|s| !s.is_test() && !s.text.starts_with("//! "));
    let broken: Vec<String> = silent.map(|source| source.at(1)).collect();
    tell(
        "a file begins with `//!`: what it is for, and what it deliberately does not know",
        &broken,
    );
}

#[test]
fn no_file_is_longer_than_six_hundred_lines() {
    let mut broken = Vec::new();
    for source in source::all() {
        let lines = source.text.lines().count();
        if lines > MAX_LINES {
            broken.push(format!("{} has {lines} lines", source.at(lines)));
        }
    }
    tell("a file has at most 600 lines: split it where it needs an \"and\"", &broken);
}

#[test]
fn every_test_file_is_declared() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests");
    let suite = fs::read_to_string(root.join("suite.rs")).unwrap();
    let mut broken = Vec::new();
    for entry in fs::read_dir(&root).unwrap() {
        let folder = entry.unwrap().path();
        let name = folder.file_stem().unwrap().to_str().unwrap().to_owned();
        if name != "suite" && !declares(&suite, &name) {
            broken.push(format!("tests/suite.rs:1: no `mod {name};`"));
        }
        let module = fs::read_to_string(folder.join("mod.rs")).unwrap_or_default();
        for entry in fs::read_dir(&folder).into_iter().flatten() {
            let file = entry.unwrap().path();
            let inner = file.file_stem().unwrap().to_str().unwrap();
            let is_rust = file.extension().is_some_and(|ending| ending == "rs");
            if is_rust && inner != "mod" && !declares(&module, inner) {
                broken.push(format!("tests/{name}/mod.rs:1: no `mod {inner};`"));
            }
        }
    }
    tell("a test file that is not declared never runs", &broken);
}

fn declares(text: &str, name: &str) -> bool {
    let wanted = format!("mod {name};");
    text.lines().any(|line| line.trim_start_matches("pub(crate) ").starts_with(&wanted))
}

/// The row with the longest name that the file is in.
fn row(path: &str) -> Option<&'static (&'static str, &'static [&'static str])> {
    let rows = IMPORTS.iter().filter(|(name, _)| is_in(path, name));
    rows.max_by_key(|(name, _)| name.len())
}

/// Whether the file is that module's, or within it; `webhook` takes `webhook_parse` in too.
fn is_in(path: &str, module: &str) -> bool {
    path.strip_prefix(module).is_some_and(|rest| {
        rest.starts_with(['/', '.']) || (module.contains('/') && rest.starts_with('_'))
    })
}

fn is_pure(path: &str) -> bool {
    PURE.iter().any(|name| is_in(path, name)) && !NOT_PURE.iter().any(|name| is_in(path, name))
}

/// The modules of the crate that a file names, each with its line.
fn imports(source: &Source) -> Vec<(usize, String)> {
    let depth = source.module().len();
    let module = |path: &CodePath| {
        let rest = match path.parts.first()?.as_str() {
            "crate" | "the_deployer" => path.parts.get(1..)?,
            // As many steps up as the file lies deep lead to the crate's root.
            "super" => {
                let steps = path.parts.iter().take_while(|part| *part == "super").count();
                (steps >= depth).then(|| path.parts.get(steps..))??
            }
            _ => return None,
        };
        Some((path.line, rest.first()?.clone()))
    };
    source::paths(&source.code()).iter().filter_map(module).collect()
}

fn tell(rule: &str, broken: &[String]) {
    assert!(broken.is_empty(), "{rule}\n  {}\n", broken.join("\n  "));
}
