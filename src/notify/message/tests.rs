use insta::assert_snapshot;
use serde_json::{Value as Json, json};

use super::block::{LONGEST_SECTION, MAX_BLOCKS, MAX_TOGETHER, size};
use super::*;
use crate::model::deployment::{Contact, State};
use crate::model::event::DeploymentRequest;
use crate::model::id::{AppKey, CommitSha, Namespace, RepoName, Slug, TargetName};
use crate::model::release::Release;
use crate::model::rollback::Holds;
use crate::model::violation::{Position, Violation};

fn deployment(violations: &[Violation]) -> Deployment {
    let json = json!({
        "id": "20261121-054812123-0a1b2c",
        "request": DeploymentRequest {
            forge_id: 7,
            release: Release {
                repository: RepoName::parse("acme/shop").unwrap(),
                app: None,
                commit: CommitSha::parse("ab".repeat(20)).unwrap(),
                tag: ImageTag::parse("v42").unwrap(),
            },
            target: TargetName::parse("prod-cluster-1").unwrap(),
            git_ref: "main".to_owned(),
            actor: "octocat".to_owned(),
            description: "the new checkout".to_owned(),
            production: true,
            automatic: false,
            recipient: crate::model::event::Recipient::Actor,
            identity: None, requested_at: None,
        },
        "app": AppKey { namespace: Namespace::parse("devx").unwrap(), slug: Slug::parse("shop").unwrap() },
        "state": "failed",
        "received_at": "2026-11-21T05:48:12.123Z", "finished_at": null, "stages": [],
        "summary": "2 violations; first: .weave.yaml:12:5: port 80 is not served [ports]",
        "violations": violations, "pushed": null, "template": null, "templates_commit": null,
        "contact": Contact {
            name: "The Shop".to_owned(), owner: "squad@example.com".to_owned(),
            slack: Some("#squad-devx".to_owned()), successes: false, links: vec![],
        },
        "address": null, "attempts": 1,
    });
    serde_json::from_value(json).unwrap()
}

fn broken(line: u32, message: &str) -> Violation {
    let position = Position { file: ".weave.yaml".into(), line, column: 5, length: 2 };
    Violation::error("ports", message)
        .at("deploy", Some(position))
        .help("name one of `http`, `grpc`")
}

fn news(deployment: &Deployment) -> News<'_> {
    News {
        deployment,
        kind: NewsKind::Rejected,
        reader: MessageAudience::Team(None),
        person: SlackPerson { name: "octocat".to_owned(), slack: UserId::parse("U0CTOCAT") },
        links: Links {
            pages: "https://deploy.example.com",
            forge: Some("https://github.com"),
            waml: ".weave.yaml",
        },
        last_good: Some(LastGoodRelease {
            id: DeployId::parse("20261120-101112131-0a0b0c").unwrap(),
            tag: ImageTag::parse("v41").unwrap(),
        }),
        undo: None,
        canaries: Vec::new(),
        acts: false,
        is_fleet: false,
        holds: Holds::Automation,
        undeliverable: None,
        stamp: Stamp::Deployment {
            deployment: deployment.id.clone(),
            sink: "channel".to_owned(),
            seq: 1,
        },
    }
}

#[test]
fn a_rejection_says_what_where_who_why_and_what_to_do() {
    let deployment = deployment(&[broken(12, "port 80 is not served"), broken(14, "so is 81")]);
    let message = compose_message(&news(&deployment));
    assert_snapshot!(message.plain, @r"
    ❌ shop v42 was not deployed to prod-cluster-1
    Rejected, because of these 2 things; nothing was changed:
    *App*
    The Shop (devx/shop)
    *Target*
    prod-cluster-1
    *Tag*
    v42
    *Commit*
    <https://github.com/acme/shop/commit/abababababababababababababababababababab|abababab> of main
    *Started by*
    <@U0CTOCAT>
    *Asked for with*
    the new checkout
    Log: https://deploy.example.com/deployments/20261121-054812123-0a1b2c
    Commit abababab: https://github.com/acme/shop/commit/abababababababababababababababababababab
    Last good: v41: https://deploy.example.com/deployments/20261120-101112131-0a0b0c
    deployment 20261121-054812123-0a1b2c
    <https://github.com/acme/shop/blob/abababababababababababababababababababab/.weave.yaml#L12|.weave.yaml:12:5>
    port 80 is not served [ports]
    → name one of `http`, `grpc`
    <https://github.com/acme/shop/blob/abababababababababababababababababababab/.weave.yaml#L14|.weave.yaml:14:5>
    so is 81 [ports]
    → name one of `http`, `grpc`
    ");
    assert_snapshot!(message.text, @"❌ shop v42 was not deployed to prod-cluster-1: 2 violations; first: .weave.yaml:12:5: port 80 is not served [ports]");
}

#[test]
fn a_release_that_does_not_run_says_why_and_what_its_container_said_last_and_how_to_go_back() {
    let mut deployment = deployment(&[]);
    deployment.summary = "shop-7c9 ends again and again (exit code 1)".to_owned();
    deployment.log_tail = vec!["starting".to_owned(), "no such table: <users>".to_owned()];
    deployment.pushed = serde_json::from_value(json!({
        "commit": "cd".repeat(20), "changed": true, "digest": "ef".repeat(32), "files": ["shop.yaml"],
    }))
    .unwrap();
    let message = compose_message(&news(&deployment));
    assert_snapshot!(message.plain, @r"
    ❌ shop v42 does not run on prod-cluster-1
    shop-7c9 ends again and again (exit code 1)
    It is live in the manifest repository. Deploy a fix, or go back to v41 with `bart rollback prod-cluster-1 --app devx/shop --to 20261120-101112131-0a0b0c --reason TEXT`.
    ```
    starting
    no such table: &lt;users&gt;
    ```
    *App*
    The Shop (devx/shop)
    *Target*
    prod-cluster-1
    *Tag*
    v42
    *Commit*
    <https://github.com/acme/shop/commit/abababababababababababababababababababab|abababab> of main
    *Started by*
    <@U0CTOCAT>
    *Asked for with*
    the new checkout
    Log: https://deploy.example.com/deployments/20261121-054812123-0a1b2c
    Commit abababab: https://github.com/acme/shop/commit/abababababababababababababababababababab
    Last good: v41: https://deploy.example.com/deployments/20261120-101112131-0a0b0c
    deployment 20261121-054812123-0a1b2c
    ");
}

#[test]
fn the_blocks_are_slacks_own() {
    let deployment = deployment(&[broken(12, "port 80 is not served")]);
    let message = compose_message(&news(&deployment));
    let json = serde_json::to_value(&message.blocks).unwrap();
    let kinds: Vec<_> = json.as_array().unwrap().iter().map(|block| &block["type"]).collect();
    assert_eq!(kinds, ["header", "section", "section", "section", "actions", "context"]);
    assert_eq!(json[0]["block_id"], "20261121-054812123-0a1b2c/channel/1");
    assert_eq!(json[0]["text"]["type"], "plain_text");
    assert_eq!(
        json[1],
        json!({"type": "section", "text": {
            "type": "mrkdwn", "verbatim": true,
            "text": "Rejected, because of this; nothing was changed:",
        }})
    );
    assert_eq!(
        json[4]["elements"][0],
        json!({
            "type": "button", "action_id": "log",
            "text": {"type": "plain_text", "text": "Log", "emoji": false},
            "url": "https://deploy.example.com/deployments/20261121-054812123-0a1b2c",
        })
    );
}

#[test]
fn who_started_it_is_told_so_and_not_who_they_are() {
    let deployment = deployment(&[]);
    let message = compose_message(&News { reader: MessageAudience::Person, ..news(&deployment) });
    assert!(message.plain.contains("You started it. Rejected: 2 violations"), "{}", message.plain);
    assert!(!message.plain.contains("Started by") && !message.plain.contains("U0CTOCAT"));
}

#[test]
fn a_fault_of_ours_is_not_put_on_the_waml() {
    let mut deployment = deployment(&[]);
    deployment.summary = "given up after 20 attempts: the manifest host is down".to_owned();
    let message = compose_message(&News { kind: NewsKind::GivenUp, ..news(&deployment) });
    assert!(
        message.plain.contains("not because of the WAML: given up after 20"),
        "{}",
        message.plain
    );
}

#[test]
fn a_recovery_and_a_success_have_their_own_words() {
    let mut deployment = deployment(&[]);
    deployment.summary = "v42 is in the manifest repository, commit abababab".to_owned();
    let render = |kind| compose_message(&News { kind, ..news(&deployment) });
    let text = render(NewsKind::Recovered { failures: 2 }).plain;
    assert!(text.starts_with("✅ shop v42 is deployed to prod-cluster-1\nThe 2 deployments before it had failed. v42 is in"), "{text}");
    let text = render(NewsKind::Deployed).text;
    assert_eq!(
        text,
        "✅ shop v42 is deployed to prod-cluster-1: v42 is in the manifest repository, commit abababab"
    );
}

/// Returns a rollback to v41 from v42, which took a hold.
fn rolled_back() -> Deployment {
    let mut deployment = deployment(&[]);
    let release = deployment.request.release.clone();
    deployment.request.release.tag = ImageTag::parse("v41").unwrap();
    deployment.request.description = "checkout fails".to_owned();
    deployment.summary = "rolled back to v41, commit abababab; automation is held".to_owned();
    deployment.rollback = Some(crate::model::rollback::Rollback {
        with_data: false,
        with_fewer_pods: false,
        undoes: None,
        replaces: None,
        only_from: false,
        to: DeployId::parse("20261120-101112131-0a0b0c").unwrap(),
        from: DeployId::parse("20261121-044812123-0a1b2c").ok(),
        away: Some(release),
        tree: crate::model::rollback::TreeId("ab".repeat(20)),
        reason: "checkout fails".to_owned(),
        hold: true,
    });
    deployment
}

#[test]
fn a_rollback_says_what_is_held_and_how_that_ends() {
    let mut deployment = rolled_back();
    let render = |deployment: &Deployment| {
        compose_message(&News { kind: NewsKind::RolledBack, last_good: None, ..news(deployment) })
            .plain
    };
    let text = render(&deployment);
    assert!(text.starts_with("⏪ shop was rolled back to v41 on prod-cluster-1\n"), "{text}");
    let expected = "Deployments by programs are held: they are refused. v42 is refused to people too. That \
                ends when a person deploys another release, or with `bart unhold prod-cluster-1 --app \
                devx/shop --reason TEXT`.";
    assert!(text.contains(expected), "{text}");
    assert!(text.contains("*Rolled back because*\ncheckout fails"), "{text}");
    assert!(!text.contains("Last good") && !text.contains("*Reason*"), "{text}");
    let render_with = |holds, deployment: &Deployment| {
        let kind = NewsKind::RolledBack;
        compose_message(&News { kind, holds, last_good: None, ..news(deployment) }).plain
    };
    let everybody = render_with(Holds::Everybody, &deployment);
    let expected = "All deployments are held: they are refused. That ends with `bart unhold prod-cluster-1 --app \
                devx/shop --reason TEXT` only.";
    assert!(everybody.contains(expected) && !everybody.contains("a person deploys"), "{everybody}");
    assert!(!render_with(Holds::Off, &deployment).contains("bart unhold"), "nobody is held there");
    deployment.rollback.as_mut().unwrap().hold = false;
    assert!(!render(&deployment).contains("held: they are"), "there is no hold");
}

#[test]
fn a_release_that_the_service_rolls_back_leaves_nothing_to_do_but_a_fix() {
    let mut deployment = deployment(&[]);
    deployment.summary = "no pods; it is being rolled back to v41 by rollback \
                          20261121-060000000-0a1b2c"
        .to_owned();
    deployment.pushed = serde_json::from_value(json!({
        "commit": "cd".repeat(20), "changed": true, "digest": "ef".repeat(32), "files": ["shop.yaml"],
    }))
    .unwrap();
    let undo = DeployId::parse("20261121-060000000-0a1b2c").ok();
    let text = compose_message(&News { undo, ..news(&deployment) }).plain;
    let expected = "it is being rolled back to v41 by rollback 20261121-060000000-0a1b2c\n\
                    `bart logs 20261121-060000000-0a1b2c --follow` shows the rollback. Deploy a fix after it.\n";
    assert!(text.contains(expected) && !text.contains("bart rollback"), "{text}");
}

#[test]
fn what_could_not_go_to_its_channel_says_so() {
    let deployment = deployment(&[]);
    let undeliverable = Undeliverable {
        channel: "#gone".to_owned(),
        problem: "there is no such channel (channel_not_found)".to_owned(),
    };
    let message =
        compose_message(&News { undeliverable: Some(undeliverable), ..news(&deployment) });
    assert!(
        message.plain.contains(
            ":warning: This was meant for #gone: there is no such channel (channel_not_found)."
        ),
        "{}",
        message.plain
    );
}

#[test]
fn without_an_app_and_without_a_forge_it_is_told_nevertheless() {
    let mut deployment = deployment(&[broken(1, "no YAML")]);
    (deployment.app, deployment.contact) = (None, None);
    let links = Links { forge: None, ..news(&deployment).links };
    let person = SlackPerson { name: "octocat".to_owned(), slack: None };
    let message = compose_message(&News { links, person, last_good: None, ..news(&deployment) });
    assert!(message.text.starts_with("❌ acme/shop v42 was not deployed"), "{}", message.text);
    assert!(
        message.plain.contains("*.weave.yaml:1:5*")
            && message.plain.contains("*Started by*\noctocat")
    );
    assert!(!message.plain.contains("github"), "{}", message.plain);
}

/// Builds a deployment with Slack's markup in every text that others write.
fn hostile(size: usize) -> Deployment {
    let evil =
        "<!channel> <!here|x> <@U999> <#C1> <https://evil|us> @everyone & \u{202e}🦀 ``` *_~ "
            .repeat(size);
    let mut violations: Vec<_> = (1..200).map(|line| broken(line, &evil).help(&*evil)).collect();
    violations[0].rule = evil.clone().into();
    violations[1].position.as_mut().unwrap().file = evil.clone().into();
    let mut deployment = deployment(&violations);
    let request = &mut deployment.request;
    (request.git_ref, request.actor, request.description) =
        (evil.clone(), evil.clone(), evil.clone());
    deployment.summary = evil.clone();
    let contact = deployment.contact.as_mut().unwrap();
    (contact.name, contact.slack) = (evil.clone(), Some(evil));
    deployment
}

fn texts<'j>(json: &'j Json, output: &mut Vec<(&'j str, &'j Json)>) {
    match json {
        Json::Object(map) => {
            if let (Some(kind), Some(Json::String(text))) = (map.get("type"), map.get("text")) {
                output.push((text, kind));
            }
            map.values().for_each(|value| texts(value, output));
        }
        Json::Array(list) => list.iter().for_each(|value| texts(value, output)),
        _ => {}
    }
}

#[test]
fn nobody_is_called_and_nothing_linked_by_what_others_wrote() {
    let deployment = hostile(1);
    let evil = deployment.summary.clone();
    let undeliverable = Undeliverable { channel: evil.clone(), problem: evil.clone() };
    let person = SlackPerson { name: evil.clone(), slack: None };
    for kind in [
        NewsKind::Rejected,
        NewsKind::GivenUp,
        NewsKind::Deployed,
        NewsKind::Recovered { failures: 1 },
    ] {
        let (undeliverable, person) = (Some(undeliverable.clone()), person.clone());
        let message = compose_message(&News {
            kind,
            undeliverable,
            person,
            reader: MessageAudience::Team(Some(&evil)),
            ..news(&deployment)
        });
        let json = serde_json::to_value(&message.blocks).unwrap();
        let mut texts_with_kinds = Vec::new();
        texts(&json, &mut texts_with_kinds);
        let bodies = texts_with_kinds
            .iter()
            .map(|(text, _)| *text)
            .chain([message.text.as_str(), &message.plain]);
        for text in bodies {
            for link in text.split('<').skip(1) {
                assert!(link.starts_with("https://github.com/acme/shop/"), "<{link}");
            }
            assert!(!text.contains('\u{202e}'));
        }
        for (text, kind) in texts_with_kinds.iter().filter(|(_, kind)| **kind == "plain_text") {
            assert!(!text.contains(['&', '<', '@']), "{text} in {kind}");
        }
    }
}

#[test]
fn every_limit_is_kept_whatever_is_said() {
    for size_of_evil in [1, 10, 1000] {
        let deployment = hostile(size_of_evil);
        let person = SlackPerson { name: deployment.summary.clone(), slack: None };
        let message = compose_message(&News { person, ..news(&deployment) });
        assert!(message.blocks.len() <= MAX_BLOCKS);
        assert!(size(&message.blocks) <= MAX_TOGETHER, "{}", size(&message.blocks));
        assert!(message.plain.chars().count() <= 12_000 && message.text.chars().count() <= 1000);
        let json = serde_json::to_value(&message.blocks).unwrap();
        let mut texts_with_kinds = Vec::new();
        texts(&json, &mut texts_with_kinds);
        assert!(texts_with_kinds.iter().all(|(text, _)| text.encode_utf16().count() <= LONGEST_SECTION && !text.is_empty()));
        assert!(
            texts_with_kinds.iter().any(|(text, _)| text.starts_with("and 19")),
            "how many more: {texts_with_kinds:?}"
        );
        assert!(message.plain.contains("Log: https://deploy.example.com/"), "{}", message.plain);
    }
}

#[test]
fn ids_of_people_have_their_form() {
    assert!(UserId::parse("U0123ABC").is_some() && UserId::parse("W0123ABC").is_some());
    for text in ["", "U", "u0123", "U01 23", "U01|x", "B0123", "<@U1>", "C0123ABC"] {
        assert!(UserId::parse(text).is_none(), "{text}");
    }
}

#[test]
fn a_canary_says_its_share_and_its_failed_checks_and_mentions_nobody() {
    let deployment = Deployment { state: State::Progressing, ..deployment(&[]) };
    let status = |workload: &str, failed_checks, reason: Option<&str>| CanaryStatus {
        workload: workload.to_owned(),
        phase: "Progressing".to_owned(),
        weight: 20,
        failed_checks,
        threshold: 3,
        reason: reason.map(str::to_owned),
    };
    let render = |canaries: Vec<CanaryStatus>| {
        let kind = NewsKind::Canary;
        let news = News { kind, canaries, last_good: None, ..news(&deployment) };
        compose_message(&news)
    };
    let text = render(vec![status("Deployment devx/shop", 0, None)]).plain;
    let start = "🐤 shop v42 is a canary on prod-cluster-1\ncanary at 20 % of the traffic\n";
    assert!(text.starts_with(start), "{text}");
    let reason = "<!channel> *request duration* 2.485 s > 1 s";
    let text = render(vec![status("Deployment devx/shop", 2, Some(reason))]).plain;
    assert!(text.starts_with("✋ shop v42 is halted on prod-cluster-1\n"), "{text}");
    assert!(text.contains("2.485 s &gt; 1 s, 2 of 3 checks failed"), "{text}");
    assert!(!text.contains("<!channel>"), "{text}");
    let many: Vec<_> = (0..9).map(|n| status(&format!("w{n}"), 1, Some(reason))).collect();
    let message = render(many);
    let text = &message.plain;
    assert!(text.contains("w4: canary") && !text.contains("w5: canary"), "{text}");
    let blocks = format!("{:?}", message.blocks);
    assert!(blocks.contains("and 4 more"), "{blocks}");
}
