//! Tests that no output shows a secret of a WAML: whole files are parsed, checked and shown in every way, each with one
//! secret at a place where secrets belong, or where people put them.

use std::fmt::Write as _;
use std::sync::{Arc, LazyLock};

use jiff::Timestamp;
use serde_json::json;

use super::changes::{self, ShownChange};
use super::diagnostics::{self, SourceTexts};
use crate::manifests::diff;
use crate::model::deployment::Deployment;
use crate::model::event::{DeploymentRequest, Recipient};
use crate::model::facts::Facts;
use crate::model::id::{AppKey, CommitSha, ImageTag, RepoName};
use crate::model::release::Release;
use crate::model::revision::ManifestFile;
use crate::model::rollback::Holds;
use crate::model::target::Clusters;
use crate::model::violation::{Rejection, Violation};
use crate::notify::message::{self, Links, MessageAudience, News, NewsKind, SlackPerson, Stamp};
use crate::pipeline;
use crate::pipeline::preview::{Preview, text};
use crate::pipeline::{Input, all_violations, dry_run, preview};
use crate::templates::set::TemplateSet;
use crate::templates::sources;
use crate::waml::Waml;
use crate::waml::yaml::Budget;

const FILE: &str = ".weave.yaml";

/// Broken and whole sections, with `§` where the secret is.
const SECTIONS: &[&str] = &[
    // Of a wrong type.
    "env: [{name: A, secret: §}]",
    "env: [{name: A, secret: {key: §!}}]",
    "env: [{name: A, secret: {name: db, key: '§!'}}]",
    "env: [{name: A, secret: {name: '§!', key: a}}]",
    "env: [{name: DB_PASSWORD, secret: [§]}]",
    "env: [DB_PASSWORD=§]",
    "env: [\"DB_PASSWORD=§\", {name: B, value: x}]",
    "env: [§]",
    "env: §",
    "env: DB_PASSWORD=§",
    "env: {DB_PASSWORD: §}",
    "env: {A: §}",
    "env:\n    - DB_PASSWORD=§",
    "env:\n    - DB_PASSWORD: §",
    "env:\n      DB_PASSWORD: §",
    "env: [{name: A, value: [§]}]",
    "env: [{name: A, value: {a: §}}]",
    "env: [{name: DB_PASSWORD, value: \"§\\0\"}]",
    "env: [{name: A, value: \"§\\0\"}]",
    "env: [{name: A, value:§}]",
    "env:\n    - name: A\n      value:§",
    "env: [{name: A, value: !§}]",
    "env: [{name: A, value: &§}]",
    "env: [{name: A, value: *§}]",
    "env: [{name: DB_PASSWORD, plain: §}]",
    "env: [{name: \"DB_PASSWORD=§\", value: x}]",
    "env: [{name: \"DB_PASSWORD=§\", value: x}, {name: \"DB_PASSWORD=§\", value: y}]",
    "env: [{DB_PASSWORD=§}]",
    "env: [{DB_PASSWORD=§: x}]",
    "env: [{name: A, DB_PASSWORD=§: x, DB_PASSWORD=§: y}]",
    "command: mysql -p§",
    "command: [mysql, -p§, {a: b}]",
    "command: \"PGPASSWORD=§ psql\"",
    "args: --password=§",
    "args: [\"--password=§\", {a: b}]",
    "args: [--password, §, {a: b}]",
    "args:\n    - --password=§\n    - {a: b}",
    "args: [\"--token=§\\0\"]",
    "secrets: {db: §}",
    "secrets: [§]",
    "secrets: §",
    "secrets: [{name: §!}]",
    "secrets: [{name: db, value: §}]",
    "vault: §",
    "vault: {paths: [\"§!\"]}",
    "volumes: [{name: a, mountPath: /a, files: §}]",
    "volumes: [{name: a, mountPath: /a, files: [PASSWORD=§]}]",
    "volumes: [{name: a, mountPath: /a, files: {a.env: {PASSWORD: §}}}]",
    "volumes: [{name: a, mountPath: /a, files: {\"a.env=§\": x}}]",
    "files: {a.env: \"PASSWORD=§\"}",
    "annotations: {db-password: [§]}",
    "labels: {db-password: \"§!\"}",
    "probes: {liveness: {command: check --password=§}}",
    // Under keys that are not the right ones.
    "env: [{name: DB_PASSWORD, valeu: §}]",
    "env: [{name: DB_PASSWORD, val: §}]",
    "env: [{name: DB_PASSWORD, Value: §}]",
    "env: [{name: A, valeu: §}]",
    "env: [{name: DB_PASSWORD value: §}]",
    "env:\n    - name: DB_PASSWORD value: §",
    "env:\n    - name: DB_PASSWORD\n      valeu: §",
    "env:\n    - name: DB_PASSWORD\n      valeu: |\n        §\n      other: 1",
    "env:\n    - valeu: \"x\n        §\"\n      name: A",
    "environment: [DB_PASSWORD=§]",
    "environment: {A: §}",
    "evn: [{name: A, valeu: §}]",
    "envs: [§]",
    "password: §",
    "dbpass: §",
    "GITHUB_PAT: §",
    // Beside something else that is wrong.
    "env: [{name: 1X, value: 1}, {name: A, value: §}]\n    scaling: {replicas: lots}",
    "env: [{name: A, value: §}, {name: 1X}]",
    "env: [{name: 1X, value: x}, {name: AUTH, value: §}]",
    "env: [{name: SSH_KEY, value: §}, {name: 1X, value: x}]",
    "args: [\"--password=§\"]\n    env: [{name: 1X, value: x}]",
    "args: [\"--password=§\"]\n    scaling: {replicas: lots}",
    "env: # DB_PASSWORD=§\n    - {name: 1X, value: x}",
    "env:\n    # - {name: A, value: §}\n    - {name: 1X, value: x}",
    "env: [{name: A, value: x}, # §\n      {name: 1X, value: #§\n      x}]",
    "env: [{name: A, value: §}",
    "env: [{name: A, valeu: \"§}]",
    "volumes: [{name: a, mountPath: b, files: {a.env: \"PASSWORD=§\"}}]",
    "volumes:\n    - name: a\n      files:\n        a.env: |\n          PASSWORD=§\n          x\n      mountPath: b",
    "annotations: {db-password: §, \"a b\": x}",
    // Of which nothing is wrong, or too little.
    "env: [{name: DB_PASSWORD, value: §}]",
    "args: [\"--password=§\"]",
    "command: [mysql, -p§]",
    "slo: {class: high, password: §}",
];

/// One that people choose, and one that is made.
const SECRETS: &[&str] = &["hunter2S3CR", "Xk9-vq2LmP7w"];

static TEMPLATES: LazyLock<Arc<TemplateSet>> =
    LazyLock::new(|| TemplateSet::compile(&sources::built_in()).unwrap().into());

fn file(section: &str) -> String {
    format!(
        "schema: \"2\"\nname: Shop\nslug: shop\nowner: a@b.c\nnamespace: devx\ndeploy:\n  t:\n    \
         service: [{{ports: [{{name: http, number: 8000}}]}}]\n    {section}\n  u: {{bad: 1}}\n"
    )
}

fn release() -> Release {
    Release {
        repository: RepoName::parse("acme/shop").unwrap(),
        app: None,
        commit: CommitSha::parse("ab".repeat(20)).unwrap(),
        tag: ImageTag::parse("v42").unwrap(),
    }
}

fn input(waml: Waml) -> Input {
    Input {
        waml: waml.into(),
        target: "t".parse().unwrap(),
        fleet: None,
        release: release(),
        templates: Arc::clone(&TEMPLATES),
    }
}

fn facts() -> Facts {
    Facts::without_lookups(Timestamp::UNIX_EPOCH, Clusters::any())
}

/// All that is said of a file when it is read and planned.
fn violations(text: &str) -> Vec<Violation> {
    let rejection = match Waml::parse(FILE, text.as_bytes()) {
        Ok(waml) => match pipeline::plan(&input(waml), &facts()) {
            Ok(rendered) => return rendered.warnings,
            Err(rejection) => rejection,
        },
        Err(rejection) => rejection,
    };
    let draft = Waml::parse_draft(FILE, text.as_bytes(), &Budget::default());
    let clusters = Clusters::any();
    all_violations::of_unnamed(rejection, draft.as_ref(), None, &TEMPLATES, &clusters).violations
}

/// Renders the violations in every form in which somebody reads them.
fn render_violations(text: &str, violations: &[Violation]) -> String {
    let mut sources = SourceTexts::default();
    sources.add(FILE, text);
    let mut out = diagnostics::render(violations, &sources);
    // Each alone, as the only excerpt: others' places must not be what hides it.
    for violation in violations {
        out += &diagnostics::render(std::slice::from_ref(violation), &sources);
    }
    writeln!(out, "{}", serde_json::to_string(violations).unwrap()).unwrap();
    let Some(rejection) = Rejection::of(violations.to_vec()) else { return out };
    writeln!(out, "{rejection}\n{:?}", text::unreadable(FILE, &rejection)).unwrap();
    let deployment = deployment(&rejection);
    let slack_message = message::compose_message(&news(&deployment));
    writeln!(out, "{slack_message:?}\n{}", serde_json::to_string(&deployment).unwrap()).unwrap();
    out
}

fn deployment(rejection: &Rejection) -> Deployment {
    let app = AppKey { namespace: "devx".parse().unwrap(), slug: "shop".parse().unwrap() };
    let json = json!({
        "id": "20261121-054812123-0a1b2c",
        "request": DeploymentRequest {
            forge_id: 7, release: release(), target: "t".parse().unwrap(), git_ref: "main".to_owned(),
            actor: "octocat".to_owned(), description: String::new(), production: true,
            automatic: false, recipient: Recipient::Actor, identity: None,
            requested_at: None,
        },
        "app": app, "state": "failed", "received_at": "2026-11-21T05:48:12.123Z",
        "finished_at": null, "stages": [], "summary": rejection.to_string(),
        "violations": rejection.violations, "pushed": null, "template": null,
        "templates_commit": null, "contact": null, "address": null, "attempts": 1,
    });
    serde_json::from_value(json).unwrap()
}

fn news(deployment: &Deployment) -> News<'_> {
    News {
        deployment,
        kind: NewsKind::Rejected,
        reader: MessageAudience::Team(None),
        person: SlackPerson { name: "octocat".to_owned(), slack: None },
        links: Links { pages: "https://deploy.example.com", forge: None, waml: FILE },
        last_good: None,
        canaries: Vec::new(),
        holds: Holds::Automation,
        undo: None,
        acts: false,
        is_fleet: false,
        undeliverable: None,
        stamp: Stamp::Deployment {
            deployment: deployment.id.clone(),
            sink: "channel".to_owned(),
            seq: 1,
        },
    }
}

#[test]
fn a_secret_is_in_no_message_and_no_excerpt_wherever_it_is_written() {
    let mut leaks = Vec::new();
    for section in SECTIONS {
        for secret in SECRETS {
            let written = section.replace('§', secret);
            assert!(written.contains(secret), "{section}");
            for end in ["\n", "\r"] {
                let text = file(&written).replace('\n', end);
                let output = render_violations(&text, &violations(&text));
                if output.contains(secret) {
                    let line =
                        output.lines().find(|line| line.contains(secret)).unwrap_or_default();
                    leaks.push(format!("{written:?} with {end:?}: {line}"));
                }
            }
        }
    }
    leaks.dedup();
    assert!(leaks.is_empty(), "{} leaks:\n{}", leaks.len(), leaks.join("\n"));
}

/// Most of an excerpt still helps.
#[test]
fn what_is_wrong_can_be_read_beside_a_secret() {
    let text = file("env: [{name: DB_PASSWORD, valeu: hunter2}, {name: PORT, value: 80}]");
    let output = render_violations(&text, &violations(&text));
    for part in ["valeu", "DB_PASSWORD", "did you mean `value`?", "name: PORT", "{bad: 1}"] {
        assert!(output.contains(part), "{part}: {output}");
    }
}

fn planned(section: &str) -> Vec<ManifestFile> {
    let text = file(section).replace("  u: {bad: 1}\n", "");
    let waml = Waml::parse(FILE, text.as_bytes()).unwrap();
    pipeline::plan(&input(waml), &facts()).unwrap().files
}

/// Everything that shows what a deployment or a rollback would change.
fn differences(before: &str, after: &str) -> String {
    let live = planned(before);
    let text = file(after).replace("  u: {bad: 1}\n", "");
    let input = input(Waml::parse(FILE, text.as_bytes()).unwrap());
    let outcome = dry_run::plan_dry_run(&input, &facts(), &live);
    assert_eq!(outcome.outcome, dry_run::DryRunOutcome::Changes, "{before} → {after}");
    let mut out = serde_json::to_string(&outcome.changes).unwrap();
    let changes: Vec<crate::model::change::Change> = serde_json::from_str(&out).unwrap();
    for how in [ShownChange::Names, ShownChange::Fields, ShownChange::Lines] {
        out += &changes::page(&changes, how);
    }
    let target = preview::of_target(&input, &facts(), "main", &live, None);
    let preview = Preview {
        file: FILE.to_owned(),
        app: input.waml.app.clone(),
        base: "main".to_owned(),
        targets: vec![target],
        not_looked_at: 0,
        left: None,
    };
    out += &format!("{:?}", text::describe_preview(&preview));
    for file in live.iter().chain(&planned(after)) {
        out += &diff::masked_text(file).unwrap_or_default();
    }
    // Files that somebody edited so that they are no objects any more.
    let broken = |files: Vec<ManifestFile>| -> Vec<ManifestFile> {
        let edit = |file: ManifestFile| ManifestFile {
            bytes: [file.bytes.as_slice(), b"  - [\n"].concat(),
            ..file
        };
        files.into_iter().map(edit).collect()
    };
    out + &format!("{:?}", diff::compare(&broken(live), &broken(planned(after)), 3))
}

#[test]
fn a_secret_is_in_no_difference_and_that_it_differs_is() {
    let (old, new) = ("hunter2S3CR", "Xk9vq2LmP7w");
    let dsn = "env: [{name: DSN, value: \"postgres://me:SECRET@db/app\"}, {name: MODE, value: V}]";
    for section in [
        "env: [{name: DB_PASSWORD, value: SECRET}, {name: MODE, value: V}]",
        "env: [{name: GITHUB_PAT, value: SECRET}, {name: MODE, value: V}]",
        "args: [\"--password=SECRET\", \"--mode=V\"]",
        "args: [--password, SECRET, V]",
        "command: [sh, -c, \"PGPASSWORD=SECRET psql V\"]",
        "annotations: {example.com/db-password: SECRET, mode: V}",
        "volumes: [{name: a, mountPath: /a, files: {a.env: \"PASSWORD=SECRET\\nMODE=V\\n\"}}]",
        "volumes: [{name: a, mountPath: /a, files: {password: SECRET, mode: V}}]",
    ] {
        let with = |secret: &str, mode: &str| section.replace("SECRET", secret).replace('V', mode);
        let output = differences(&with(old, "slow"), &with(new, "fast"));
        assert!(!output.contains(old) && !output.contains(new), "{section}: {output}");
        assert!(
            output.contains("slow") && output.contains("fast") && output.contains("••••"),
            "{output}"
        );
        // Of the secret alone.
        let output = differences(&with(old, "slow"), &with(new, "slow"));
        assert!(!output.contains(old) && !output.contains(new), "{section}: {output}");
        let from_mask_to_mask = output.matches("••••").count() >= 2;
        assert!(from_mask_to_mask && !output.contains(['\u{F0000}', '\u{F0001}']), "{output}");
    }
    let token = |end: &str| format!("ghp_{}{end}", "aB3dE5gH7jK9mN1pQ2rS4tU6vW8xY0zaB3dE5");
    for (old, new) in [(old.to_owned(), new.to_owned()), (token("x1"), token("y2"))] {
        // No deployment takes these; what was pushed by hand, or by an older version, may have them.
        let object = |secret: &str| {
            let value = dsn.replace("SECRET", secret).replace('V', "slow");
            let text = format!(
                "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: a, annotations: {{b: \"ghp_{secret}\"}}}}\n{value}\n"
            );
            vec![ManifestFile { name: "configmap.yaml".to_owned(), bytes: text.into_bytes() }]
        };
        let (changes, _) = diff::compare(&object(&old), &object(&new), 3);
        assert!(!format!("{changes:?}").contains(&format!("me:{old}")), "{changes:?}");
        assert_eq!(changes.len(), 1);
    }
}

#[test]
fn ordinary_changes_are_shown_as_they_are() {
    let output = differences(
        "env: [{name: MODE, value: slow}, {name: TOKEN_TTL_SECONDS, value: 60}]",
        "env: [{name: MODE, value: fast}, {name: TOKEN_TTL_SECONDS, value: 90}]",
    );
    for part in ["\\\"60\\\"", "slow", "fast", "90"] {
        assert!(
            output.contains(part) || output.contains(&part.replace('\\', "")),
            "{part}: {output}"
        );
    }
    assert!(!output.split("### ").next().unwrap_or_default().contains("••••"), "{output}");
}
