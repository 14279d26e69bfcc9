//! Pages: what they say, who may see them, and what a browser may do with them.

use axum::body::Body;
use axum::http::Request;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use tracing::Level;

use super::world::{Answer, Fake, World, now, world, world_for};
use crate::dashboard::Places;
use crate::dashboard::deployment::Log as Record;
use crate::model::deployment::{Stage, StageTime, State};
use crate::model::hand_edit::{EditCommit, Edited, EditedFile, HandEdit};
use crate::model::id::DeployId;
use crate::model::notice::Sink;
use crate::model::status::ForgeStatus;
use crate::model::violation::{Position, Violation};
use crate::server::Limits;
use crate::server::auth::{Pages, Token, Tokens};
use crate::server::ports::{Fault, Logs};
use crate::store::Told;
use crate::support::log::Log;

impl Logs for Fake {
    async fn log(&self, id: &DeployId) -> Result<Option<Record>, Fault> {
        self.trouble().await?;
        let inner = self.inner.lock().unwrap();
        let found = inner.stored.iter().map(|(_, d)| d).find(|d| d.id == *id);
        let told = |sink, parked: Option<&str>| Told {
            sink,
            seq: 1,
            status: ForgeStatus::queued(),
            at: now(),
            sent_at: parked.is_none().then(now),
            parked: parked.map(str::to_owned),
            skipped: None,
            reference: None,
        };
        let refused = "the webhook <warehouse> refuses us";
        Ok(found.map(|deployment| Record {
            deployment: deployment.clone(),
            told: vec![
                told(Sink::Events("warehouse".to_owned()), Some(refused)),
                told(Sink::Forge, None),
            ],
            places: Places {
                forge: Some("https://github.com".to_owned()),
                waml: ".weave.yaml".to_owned(),
            },
        }))
    }
}

const FIRST: &str = "/deployments/20261121-054812000-3f9a2c";

async fn with_one() -> World {
    let world = world();
    assert_eq!(world.deliver("d-1", "prod").await.status, 202);
    world
}

/// What a browser asks for.
async fn browse(world: &World, path: &str, authorization: Option<&str>) -> Answer {
    let accept = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8";
    let mut request = Request::get(path).header("accept", accept);
    if let Some(authorization) = authorization {
        request = request.header("authorization", authorization);
    }
    world.send(request.body(Body::empty()).unwrap()).await
}

fn page(answer: &Answer, status: u16) -> &str {
    assert_eq!(answer.status.as_u16(), status, "{answer:?}");
    assert_eq!(answer.headers["content-type"], "text/html; charset=utf-8");
    assert_eq!(answer.headers["cache-control"], "no-store");
    assert_eq!(answer.headers["referrer-policy"], "no-referrer");
    assert_eq!(answer.headers["x-content-type-options"], "nosniff");
    let policy = answer.headers["content-security-policy"].to_str().unwrap();
    assert!(policy.starts_with("default-src 'none'; style-src 'sha256-"), "{policy}");
    for never in ["<script", " style=\"", " onclick", "{{", "{%"] {
        assert!(!answer.text.contains(never), "{never} in {}", answer.text);
    }
    assert_eq!(answer.text.matches("<h1").count(), 1);
    &answer.text
}

#[tokio::test]
async fn a_deployment_that_goes_on_is_looked_at_again_unless_its_reader_holds_it_still() {
    let world = with_one().await;
    let shown = browse(&world, FIRST, None).await;
    let text = page(&shown, 200);
    for part in [
        "http-equiv=\"refresh\" content=\"3\"",
        ">queued</span> waiting for a worker",
        "acme/shop <span class=\"to\">to</span> prod",
        "https://github.com/acme/shop/commit/a84d88e7554fc1fa21bcbc4efae3c782a70d2b9d",
        "octo-dev",
        "2026-11-21 05:48:12 UTC",
        "given up: the webhook &#60;warehouse&#62; refuses us",
    ] {
        assert!(text.contains(part), "{part} is missing in\n{text}");
    }
    assert!(text.find("deployment status") < text.find("webhook warehouse"));
    let still = browse(&world, &format!("{FIRST}?refresh=off"), None).await;
    assert!(!page(&still, 200).contains("http-equiv"));
}

#[tokio::test]
async fn what_is_wrong_comes_first_with_its_place_and_a_way_out() {
    let world = with_one().await;
    {
        let mut inner = world.fake.inner.lock().unwrap();
        let deployment = &mut inner.stored[0].1;
        deployment.state = State::Failed;
        deployment.finished_at = Some(now());
        deployment.summary = "<b>1 violation".to_owned();
        deployment.stages = vec![StageTime { stage: Stage::Fetch, micros: 12_300 }];
        let position = Position { file: ".weave.yaml".into(), line: 12, column: 5, length: 3 };
        let violation = Violation::error("ports", "port <80> is not served")
            .at("deploy.prod.service", Some(position))
            .expected("a port of the pod")
            .help("serve it, or route to 8000");
        deployment.violations =
            vec![Violation::warning("slo", "no class is set"), violation].into();
    }
    let shown = browse(&world, FIRST, None).await;
    let text = page(&shown, 200);
    assert!(!text.contains("http-equiv"), "it has ended");
    let order = [
        "1 violation</h2>",
        ".weave.yaml:12:5",
        "port &#60;80&#62; is not served",
        "deploy.prod.service",
        "a port of the pod",
        "serve it, or route to 8000",
        "1 warning</h2>",
        "no class is set",
        ">What</h2>",
        "12.3 ms",
        "Who was told",
    ];
    let places: Vec<_> = order.iter().map(|part| text.find(part)).collect();
    assert!(places.iter().all(Option::is_some) && places.is_sorted(), "{places:?} in\n{text}");
    let line = "/acme/shop/blob/a84d88e7554fc1fa21bcbc4efae3c782a70d2b9d/.weave.yaml#L12";
    assert!(text.contains(line), "{text}");
    assert!(!text.contains("<b>"), "nothing of theirs is HTML");
}

#[tokio::test]
async fn what_somebody_edited_by_hand_is_shown_as_a_diff_and_not_as_html() {
    let world = with_one().await;
    let edit = HandEdit {
        replaced: true,
        push_failed: false,
        base: Some(DeployId::parse("20261120-054812123-3f9a2c").unwrap()),
        files: vec![EditedFile { name: "a.yaml".to_owned(), how: Edited::Changed }],
        diff: "--- a/a.yaml\n+++ b/a.yaml\n@@ -1 +1 @@\n-image: <b>\n+image: c\n".to_owned(),
        commit: Some(EditCommit {
            id: "c".repeat(40).parse().unwrap(),
            author: "Jo <jo>".to_owned(),
            at: now(),
        }),
    };
    world.fake.inner.lock().unwrap().stored[0].1.hand_edit = Some(edit.clone());
    let shown = browse(&world, FIRST, None).await;
    let text = page(&shown, 200);
    for part in [
        "Edited by hand</h2>",
        "This deployment replaced them",
        "a.yaml (changed)",
        "20261120-054812123-3f9a2c",
        "Jo &#60;jo&#62;",
        "<span class=\"old\">-image: &#60;b&#62;</span>\n<span class=\"new\">+image: c</span>",
        "<span class=\"name\">--- a/a.yaml</span>",
    ] {
        assert!(text.contains(part), "{part} is missing in\n{text}");
    }
    for (push_failed, sentence) in [
        (false, "and nothing was replaced."),
        (true, "Nothing was replaced, because the push failed"),
    ] {
        let edit = HandEdit { replaced: false, push_failed, ..edit.clone() };
        world.fake.inner.lock().unwrap().stored[0].1.hand_edit = Some(edit);
        let shown = browse(&world, FIRST, None).await;
        let text = page(&shown, 200);
        assert!(text.contains(sentence) && !text.contains("This deployment replaced"), "{text}");
    }
}

#[tokio::test]
async fn the_newest_are_listed_with_links_to_their_logs() {
    let world = world();
    assert!(page(&browse(&world, "/", None).await, 200).contains("There are none here"));
    for n in 0..3 {
        world.deliver(&format!("d-{n}"), "prod").await;
    }
    let shown = browse(&world, "/?limit=2&target=prod", None).await;
    let text = page(&shown, 200);
    assert_eq!(text.matches("href=\"/deployments/2").count(), 2);
    let older = "/?limit=2&target=prod&cursor=20261121-054812001-3f9a2c";
    assert!(text.contains(&older.replace('&', "&#38;")), "{text}");
    let rest = browse(&world, older, None).await;
    assert_eq!(page(&rest, 200).matches("href=\"/deployments/2").count(), 1);
}

#[tokio::test]
async fn what_went_wrong_is_a_page_for_people_and_a_problem_for_programs() {
    let world = with_one().await;
    for (path, status, name) in [
        ("/deployments/20261121-054812123-000000", 404, "not-found"),
        ("/deployments/%3Cscript%3E", 400, "bad-request"),
        ("/?tagret=x", 400, "bad-request"),
        ("/nothing", 404, "not-found"),
    ] {
        let shown = browse(&world, path, None).await;
        let text = page(&shown, status);
        assert!(text.contains(&status.to_string()), "{text}");
        world.get(path).await.problem(status, name);
    }
    let api = browse(&world, "/api/v1/deployments/x", None).await;
    api.problem(400, "bad-request");
    world.fake.inner.lock().unwrap().broken = true;
    let down = browse(&world, FIRST, None).await;
    assert!(page(&down, 503).contains("come again"));
    assert_eq!(down.headers["retry-after"], "5");
    world.fake.inner.lock().unwrap().panics = true;
    page(&browse(&world, FIRST, None).await, 500);
}

fn basic(login: &str) -> String {
    format!("Basic {}", STANDARD.encode(login))
}

#[tokio::test]
async fn a_browser_gives_a_token_as_the_password() {
    let log = Log::of("", Level::TRACE);
    let tokens = Tokens(vec![Token::of_text("developers", "t0ken:text")]);
    let world = world_for(Limits::default(), tokens, Pages::Token);
    world.deliver("d-1", "prod").await;
    for right in [&basic("me:t0ken:text"), &basic(":t0ken:text"), "Bearer t0ken:text"] {
        page(&browse(&world, FIRST, Some(right)).await, 200);
        page(&browse(&world, "/", Some(right)).await, 200);
    }
    for wrong in [&basic("me:t0ken"), &basic("t0ken:text"), "Basic §", "Basic", "Bearer t0ken", ""]
    {
        for path in [FIRST, "/", "/deployments/x", "/deployments/20261121-054812123-000000"] {
            let refused = browse(&world, path, Some(wrong)).await;
            assert!(page(&refused, 401).contains("as the password"), "{path} {wrong}");
            assert_eq!(refused.headers["www-authenticate"], "Basic realm=\"the-deployer\"");
        }
    }
    assert!(!log.text().contains("t0ken:tex"), "{}", log.text());
}

/// A page elsewhere can make its visitor's browser send a password along; it must be of no use.
#[tokio::test]
async fn the_api_takes_no_password() {
    let tokens = Tokens(vec![Token::of_text("developers", "t0ken")]);
    let world = world_for(Limits::default(), tokens, Pages::Open);
    let login = basic("me:t0ken");
    let refused = browse(&world, "/api/v1/deployments", Some(&login)).await;
    refused.problem(401, "unauthorized");
    assert_eq!(refused.headers["www-authenticate"], "Bearer");
}

#[tokio::test]
async fn the_data_behind_a_page_is_for_who_may_see_the_page_by_the_same_password() {
    let tokens = Tokens(vec![Token::of_text("developers", "t0ken")]);
    for pages in [Pages::Token, Pages::Open] {
        let world = world_for(Limits::default(), tokens.clone(), pages);
        world.deliver("d-1", "prod").await;
        let login = basic("me:t0ken");
        let shown = browse(&world, FIRST, Some(&login)).await;
        let link = format!("{FIRST}/json");
        assert!(page(&shown, 200).contains(&format!("href=\"{link}\"")), "{}", shown.text);
        let data = browse(&world, &link, Some(&login)).await;
        assert_eq!((data.status.as_u16(), &data.json()["target"]), (200, &"prod".into()));
        let of_api = world.get_as("t0ken", &format!("/api/v1{FIRST}")).await;
        assert_eq!(data.json(), of_api.json());
        let refused = browse(&world, &link, None).await;
        assert_eq!(refused.status, 401);
        assert_eq!(refused.headers["www-authenticate"], "Basic realm=\"the-deployer\"");
    }
}

#[tokio::test]
async fn an_operator_may_open_the_pages_and_the_api_stays_closed() {
    let tokens = Tokens(vec![Token::of_text("developers", "t0ken")]);
    let world = world_for(Limits::default(), tokens, Pages::Open);
    world.deliver("d-1", "prod").await;
    page(&browse(&world, FIRST, None).await, 200);
    world.get("/api/v1/deployments").await.problem(401, "unauthorized");
}

#[tokio::test]
async fn the_policy_is_that_of_the_style_sheet_in_the_page() {
    use sha2::{Digest, Sha256};
    let world = with_one().await;
    let shown = browse(&world, FIRST, None).await;
    let style = shown.text.split_once("<style>").unwrap().1.split_once("</style>").unwrap().0;
    let hash = STANDARD.encode(Sha256::digest(style));
    let policy = shown.headers["content-security-policy"].to_str().unwrap();
    assert!(policy.contains(&format!("'sha256-{hash}'")), "{policy}");
}
