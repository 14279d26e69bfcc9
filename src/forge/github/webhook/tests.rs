//! Events in GitHub's shape, whole and broken.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::rules::{Repositories, TagRule};
use super::*;
use crate::model::event::{
    DeploymentRequest, EventRefusal, Recipient, RepositoryIdentity, RequestedRollout,
};
use crate::model::id::AppName;

const SHA: &str = "a84d88e7554fc1fa21bcbc4efae3c782a70d2b9d";

/// Returns the event of GitHub's own documentation, shortened where it repeats itself.
fn event() -> Value {
    json!({
        "action": "created",
        "deployment": {
            "url": "https://api.github.com/repos/weave-lab/my-app/deployments/145988746",
            "id": 145_988_746, "node_id": "MDEwOkRlcGxveW1lbnQxNDU5ODg3NDY=", "sha": SHA,
            "ref": "main", "task": "deploy", "payload": {"tag": "1.10"},
            "original_environment": "prod-cluster-1", "environment": "prod-cluster-1",
            "description": "please", "transient_environment": false,
            "production_environment": false, "performed_via_github_app": null,
            "creator": {"login": "Codertocat", "id": 21_031_067, "type": "User"},
            "created_at": "2026-11-20T10:00:00Z", "updated_at": "2026-11-20T10:00:00Z"
        },
        "workflow": null, "workflow_run": null,
        "repository": {"id": 1, "name": "my-app", "full_name": "weave-lab/my-app",
            "owner": {"login": "weave-lab"}, "private": true, "default_branch": "main"},
        "organization": {"login": "weave-lab", "id": 2},
        "sender": {"login": "octo-dev", "id": 3, "type": "User"},
        "installation": {"id": 4, "node_id": "x"}
    })
}

/// Returns the event with one value set; `null` clears it.
fn with(pointer: &str, value: Value) -> Value {
    let mut event = event();
    *event.pointer_mut(pointer).unwrap_or_else(|| panic!("{pointer} is in the event")) = value;
    event
}

fn parsed(event: &Value) -> Result<WebhookEvent, MalformedPayload> {
    parse("deployment", ContentType::Json, event.to_string().as_bytes(), &Rules::default())
}

fn request(event: &Value) -> DeploymentRequest {
    match parsed(event) {
        Ok(WebhookEvent::Deployment(request)) => request,
        other => panic!("{other:?} is no deployment"),
    }
}

/// Returns the reason why nothing can be made of the event: malformed, or refused by a field.
fn refused(event: &Value) -> String {
    match parsed(event) {
        Err(malformed) => malformed.to_string(),
        Ok(WebhookEvent::Refused(EventRefusal { field, problem, .. })) => {
            format!("{field}: {problem}")
        }
        Ok(other) => panic!("{other:?} is neither malformed nor refused"),
    }
}

#[test]
fn a_payload_names_one_of_several_apps() {
    let app = |payload: Value| request(&with("/deployment/payload", payload)).release.app;
    let worker: Option<AppName> = Some("worker".parse().unwrap());
    assert_eq!(app(json!({"tag": "1.0", "app": "worker"})), worker);
    assert_eq!(app(json!("{\"tag\": \"1.0\", \"app\": \"worker\"}")), worker);
    assert_eq!(app(json!({"tag": "1.0", "app": ".weave.yaml"})), Some(AppName::root()));
    for none in [json!({"tag": "1.0"}), json!({"tag": "1.0", "app": null})] {
        assert_eq!(app(none), None);
    }
    for (app, problem) in [
        (json!("Not a name"), "deployment.payload.app: "),
        (json!("../worker"), "deployment.payload.app: "),
        (json!(7), "deployment.payload.app: is a number"),
    ] {
        let refusal = refused(&with("/deployment/payload", json!({"tag": "1.0", "app": app})));
        assert!(refusal.starts_with(problem), "{refusal}");
    }
}

fn tag(payload: Value) -> String {
    request(&with("/deployment/payload", payload)).release.tag.to_string()
}

#[test]
fn githubs_event_becomes_a_request() {
    let request = request(&event());
    assert_eq!(request.forge_id, 145_988_746);
    assert_eq!(request.release.repository.as_str(), "weave-lab/my-app");
    assert_eq!(request.release.commit.as_str(), SHA);
    assert_eq!(request.release.tag.as_str(), "1.10");
    assert_eq!(request.target.as_str(), "prod-cluster-1");
    assert_eq!(request.git_ref, "main");
    assert_eq!(request.actor, "octo-dev");
    assert_eq!(request.description, "please");
    let at = "2026-11-20T10:00:00Z".parse().ok();
    let identity = RepositoryIdentity { repository: 1, owner: None, at };
    assert_eq!(request.identity, Some(identity));
    let with_owner =
        self::request(&with("/repository/owner", json!({"login": "weave-lab", "id": 9})));
    assert_eq!(with_owner.identity, Some(RepositoryIdentity { owner: Some(9), ..identity }));
    assert_eq!(self::request(&with("/repository/id", json!("x"))).identity, None);
}

#[test]
fn only_what_is_used_is_required() {
    let small = json!({
        "action": "created",
        "deployment": {"id": 1, "sha": SHA, "ref": "main", "environment": "dev"},
        "repository": {"full_name": "a/b"}
    });
    let request = request(&small);
    assert_eq!((request.actor.as_str(), request.description.as_str()), ("ghost", ""));
    assert_eq!(request.release.tag.as_str(), SHA);
}

/// Enterprise Server's deployment events had no `action` at first.
#[test]
fn an_event_without_an_action_is_of_a_deployment_that_was_created() {
    let mut older = event();
    older.as_object_mut().unwrap().remove("action");
    assert_eq!(request(&older), request(&event()));
    assert_eq!(request(&with("/action", json!(null))), request(&event()));
    for field in ["production_environment", "transient_environment", "performed_via_github_app"] {
        older["deployment"].as_object_mut().unwrap().remove(field);
    }
    assert_eq!(request(&older), request(&event()));
}

#[test]
fn the_payload_may_be_an_object_json_in_a_text_a_text_or_nothing() {
    assert_eq!(tag(json!({"tag": "1.10", "other": [1, {"tag": "no"}]})), "1.10");
    assert_eq!(tag(json!("{\"tag\": \"1.10\"}")), "1.10");
    assert_eq!(tag(json!("  {\"other\": 1}")), SHA);
    for payload in [json!({}), json!({"tag": null}), json!(""), json!("hello"), json!("\"x\"")] {
        assert_eq!(tag(payload.clone()), SHA, "{payload}");
    }
    for payload in [json!(null), json!(1), json!(1.5), json!(-1), json!(true), json!([{"tag": 1}])]
    {
        assert_eq!(tag(payload.clone()), SHA, "{payload}");
    }
    let message = refused(&with("/deployment/payload", json!("{\"tag\": ")));
    assert_eq!(message, "deployment.payload: begins like JSON and is not; fix or drop it");
    let number = refused(&with("/deployment/payload", json!({"tag": 1.10})));
    assert!(number.starts_with("deployment.payload.tag: is a number"), "{number}");
}

#[test]
fn a_program_may_name_the_person_who_started_it_and_a_person_nobody_else() {
    let recipient = |sender: &str, payload: Value| {
        let mut event = with("/deployment/payload", payload);
        event["sender"] =
            json!({"login": sender, "type": if sender.ends_with(']') { "Bot" } else { "User" }});
        request(&event).recipient
    };
    let bot = "github-actions[bot]";
    let octocat = Recipient::Login("octocat".to_owned());
    assert_eq!(recipient(bot, json!({"tag": "1", "actor": "octocat"})), octocat);
    assert_eq!(recipient(bot, json!("{\"tag\": \"1\", \"actor\": \"octocat\"}")), octocat);
    assert_eq!(recipient("mallory", json!({"tag": "1", "actor": "octocat"})), Recipient::Actor);
    for junk in
        [json!(7), json!(null), json!(""), json!("a b"), json!("<!here>"), json!("x".repeat(61))]
    {
        assert_eq!(recipient(bot, json!({"tag": "1", "actor": junk})), Recipient::Actor, "{junk}");
    }
}

#[test]
fn a_form_carries_the_same_event() {
    let digits = hex::encode(event().to_string());
    let escaped: Vec<&str> = digits.as_bytes().chunks(2).flat_map(std::str::from_utf8).collect();
    let body = format!("payload=%{}", escaped.join("%"));
    let event = parse("deployment", ContentType::Form, body.as_bytes(), &Rules::default());
    assert!(matches!(event, Ok(WebhookEvent::Deployment(_))), "{event:?}");
    let event_without_field = parse("deployment", ContentType::Form, b"a=b", &Rules::default());
    assert_eq!(event_without_field, Err(MalformedPayload::NoPayloadField));
}

#[test]
fn pings_are_pings_and_other_events_are_ignored_unread() {
    let parse = |name| parse(name, ContentType::Json, b"not json", &Rules::default());
    assert_eq!(parse("ping"), Ok(WebhookEvent::Ping));
    let reason = "event \"issues\" is not used".to_owned();
    assert_eq!(parse("issues"), Ok(WebhookEvent::Ignored { why: UnusedPart::Kind, reason }));
    assert!(matches!(parse("deployment_status"), Ok(WebhookEvent::Ignored { .. })));
}

#[test]
fn what_is_meant_for_others_is_ignored_before_its_values_are_judged() {
    let reason = |event: &Value, rules: &Rules| match parse(
        "deployment",
        ContentType::Json,
        event.to_string().as_bytes(),
        rules,
    ) {
        Ok(WebhookEvent::Ignored { reason, .. }) => reason,
        other => panic!("{other:?} is not ignored"),
    };
    let own_rules = Rules::default();
    assert_eq!(
        reason(&with("/action", json!("edited")), &own_rules),
        "action \"edited\" is not used"
    );
    let mut preview = with("/deployment/task", json!("preview"));
    preview["deployment"]["environment"] = json!("Preview – shop");
    assert_eq!(reason(&preview, &own_rules), "task \"preview\" is not used");
    let repositories = Repositories::matching(["acme/*"]).unwrap();
    let rules = Rules { repositories, ..Rules::default() };
    let reason = reason(&event(), &rules);
    assert_eq!(reason, "repository weave-lab/my-app is not among the allowed ones");
}

#[test]
fn a_hostile_value_is_refused_by_its_field_and_shown_cut() {
    let huge = "x".repeat(10_000);
    let cases = [
        ("/repository/full_name", "repository.full_name", "../../x"),
        ("/repository/full_name", "repository.full_name", "a/b/../c"),
        ("/deployment/environment", "deployment.environment", "prod/../../x"),
        ("/deployment/environment", "deployment.environment", &huge),
        ("/deployment/payload/tag", "deployment.payload.tag", "1.0\nDeploy-Id: x"),
        ("/deployment/payload/tag", "deployment.payload.tag", ""),
        ("/deployment/sha", "deployment.sha", "HEAD"),
        ("/deployment/ref", "deployment.ref", "main\u{1b}[31m"),
        ("/deployment/id", "deployment.id", "12"),
    ];
    for (pointer, field, value) in cases {
        let message = refused(&with(pointer, json!(value)));
        assert!(message.starts_with(field), "{message}");
        assert!(!message.chars().any(char::is_control), "{message:?}");
        assert!(message.len() < 300 && !message.contains(&"x".repeat(61)), "{message}");
    }
}

#[test]
fn a_value_of_another_kind_is_named_and_a_missing_one_too() {
    let environment = |value| refused(&with("/deployment/environment", value));
    assert_eq!(environment(json!(null)), "deployment.environment: is missing");
    assert_eq!(environment(json!(["a"])), "deployment.environment: is a list; a text is expected");
    assert_eq!(
        refused(&with("/deployment/id", json!(0))),
        "deployment.id: is not a positive number"
    );
    assert_eq!(refused(&with("/repository", json!(null))), "repository: is missing");
    assert_eq!(refused(&json!({})), "deployment: is missing");
    assert!(refused(&with("/action", json!(7))).starts_with("action: is a number"));
    let secret = refused(&with("/deployment", json!("s3cret")));
    assert!(secret.contains("has not the shape") && !secret.contains("s3cret"), "{secret}");
    let body = parse("deployment", ContentType::Json, b"{\"a\": \n s3cret}", &Rules::default());
    assert_eq!(body, Err(MalformedPayload::NotJson { line: 2, column: 2 }));
}

#[test]
fn a_rule_whose_tag_is_not_legal_says_so() {
    let mut event = with("/deployment/payload", json!(""));
    event["deployment"]["ref"] = json!("feature/x");
    let rules = Rules { tag: TagRule::parse("{ref}").unwrap(), ..Rules::default() };
    let body = event.to_string();
    let event = parse("deployment", ContentType::Json, body.as_bytes(), &rules);
    let Ok(WebhookEvent::Refused(EventRefusal { problem, forge_id, .. })) = event else {
        panic!("{event:?}")
    };
    assert_eq!(forge_id, 145_988_746);
    assert_eq!(
        problem,
        "is missing, and the configured rule {ref} makes \"feature/x\": use 1 to \
         128 letters, digits, `_`, `.` and `-`, not beginning with `.` or `-`"
    );
}

#[test]
fn long_descriptions_are_cut_by_characters() {
    let request = request(&with("/deployment/description", json!("ä".repeat(600))));
    assert_eq!(request.description, "ä".repeat(500));
    let logins = with("/sender/login", json!("a".repeat(200)));
    assert_eq!(self::request(&logins).actor.len(), 100);
}

#[test]
fn content_types_are_recognised_with_parameters() {
    assert_eq!(ContentType::of("application/json; charset=utf-8"), Some(ContentType::Json));
    assert_eq!(ContentType::of("Application/X-WWW-Form-Urlencoded"), Some(ContentType::Form));
    assert_eq!(ContentType::of("text/plain"), None);
    assert_eq!(ContentType::of(""), None);
}

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        "\\PC{0,20}".prop_map(Value::from),
        Just(Value::from("{\"tag\":[")),
    ];
    let key = prop_oneof![
        Just("tag".to_owned()),
        Just("id".to_owned()),
        Just("login".to_owned()),
        Just("environment".to_owned()),
        ".{0,5}"
    ];
    leaf.prop_recursive(3, 24, 6, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::vec((key.clone(), inner), 0..4)
                .prop_map(|entries| Value::Object(entries.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn arbitrary_bytes_never_panic(bytes: Vec<u8>, form: bool) {
        let content_type = if form { ContentType::Form } else { ContentType::Json };
        let _ = parse("deployment", content_type, &bytes, &Rules::default());
        let _ = signature::Verifier::begin([&"s".into()], std::str::from_utf8(&bytes).ok());
    }

    #[test]
    fn arbitrary_values_anywhere_in_the_event_never_panic(value in any_json(), at in 0..14usize) {
        let pointers = [
            "", "/action", "/deployment", "/deployment/id", "/deployment/sha", "/deployment/ref",
            "/deployment/task", "/deployment/payload", "/deployment/payload/tag", "/sender",
            "/deployment/environment", "/deployment/description", "/repository", "/sender/login",
        ];
        let _ = parsed(&with(pointers[at], value));
    }
}

#[test]
fn the_task_rollout_with_a_name_starts_a_rollout_and_without_one_it_is_another_tools() {
    let event_of = |payload: Value| {
        let mut event = with("/deployment/payload", payload);
        event["deployment"]["task"] = json!("rollout");
        // An environment that can be no target.
        event["deployment"]["environment"] = json!("All of production");
        parse("deployment", ContentType::Json, event.to_string().as_bytes(), &Rules::default())
    };
    let event = event_of(json!({"tag": "1.10", "rollout": "production"}));
    let Ok(WebhookEvent::Rollout(trigger)) = event else { panic!("{event:?}") };
    let name = RequestedRollout::Name("production".parse().unwrap());
    assert_eq!((trigger.forge_id, trigger.rollout), (145_988_746, name));
    assert_eq!((trigger.release.tag.as_str(), trigger.actor.as_str()), ("1.10", "octo-dev"));
    assert!(trigger.identity.is_some() && !trigger.automatic);
    let described = json!({"tag": "1.10", "rollout": {"targets": ["prod-*"]}});
    for payload in [described.clone(), json!(described.to_string())] {
        let event = event_of(payload);
        let Ok(WebhookEvent::Rollout(trigger)) = event else { panic!("{event:?}") };
        let RequestedRollout::Targets(targets) = trigger.rollout else { panic!("{trigger:?}") };
        assert_eq!(targets.patterns, ["prod-*"]);
    }
    for payload in [json!({"tag": "1.10"}), json!({"rollout": null}), json!("production")] {
        let event = event_of(payload.clone());
        assert!(matches!(event, Ok(WebhookEvent::Ignored { .. })), "{payload}: {event:?}");
    }
    for name in [json!(7), json!("no name"), json!(""), json!({"parallel": 2}), json!([])] {
        let event = event_of(json!({"rollout": name}));
        let Ok(WebhookEvent::Refused(refusal)) = event else { panic!("{name}: {event:?}") };
        assert_eq!(refusal.field, "deployment.payload.rollout", "{name}");
    }
}
