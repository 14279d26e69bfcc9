//! A build is deployed from a page with GitHub as the code host: in the person's name, with their own token, once.

use std::time::Duration;

use reqwest::Method;
use serde_json::{Value, json};
use the_deployer::model::audit::AuthMethod;
use tracing::Level;

use super::admission::{LIST, OURS as API_TOKEN, TARGET, configure_people, post_as};
use super::shop::audited;
use super::sign_in::{OURS, hidden, open, send_form, signs_in};
use super::world::{Answer, post, request, send};
use crate::harness::deployer::Deployer;
use crate::harness::events::waml;
use crate::harness::github::{Fault, Webhooks};
use crate::harness::log::CapturedLog;

/// The page of the app, with which those of its acts begin.
const SHOP: &str = "/apps/prod-cluster-1/devx/shop";
/// What GitHub is asked to create a deployment by.
const CREATION: &str = "POST repos/acme/shop/deployments";

/// The shop of `acme/shop` is live, and ada may push to it; her token, and her cookie.
async fn at_github() -> (Deployer, String, String) {
    with_ada(Deployer::prepared().await).await
}

/// The same where GitHub is an Enterprise Server.
async fn at_enterprise() -> (Deployer, String, String) {
    let mut deployer = Deployer::prepared().await;
    let [from, to] = [deployer.github.url(), deployer.github.api_url()];
    deployer.configure(|config| config.replace(&from, &to));
    with_ada(deployer).await
}

async fn with_ada(mut deployer: Deployer) -> (Deployer, String, String) {
    configure_people(&mut deployer);
    deployer.starts().await;
    let shop = deployer.github.repository("acme/shop");
    shop.commit(&waml("shop"));
    shop.deploys(TARGET, "v1").await;
    deployer.settle().await;
    deployer.clock.advance(Duration::from_secs(1));
    let token = deployer.github.token_of("ada");
    deployer.github.lets("ada", "acme/shop", "push");
    let cookie = signs_in(&deployer, &token).await;
    (deployer, token, cookie)
}

/// The fields of the form of a page, to be sent again and again.
struct Form {
    token: String,
    key: String,
}

impl Form {
    async fn of_page(deployer: &Deployer, cookie: &str) -> Self {
        let page = open(deployer, &format!("{SHOP}/deploy?tag=v2&ref=main"), cookie).await;
        assert_eq!(page.status, 200, "{page:?}");
        assert!(page.text.contains("at GitHub in your name, with your own token"), "{page:?}");
        Self { token: hidden(&page, "form_token"), key: hidden(&page, "form_key") }
    }

    async fn send(&self, deployer: &Deployer, cookie: &str, git_ref: &str) -> Answer {
        let fields = [
            ("form_token", &*self.token),
            ("form_key", &*self.key),
            ("tag", "v2"),
            ("ref", git_ref),
            ("reason", "a better one"),
        ];
        send_form(deployer, &format!("{SHOP}/deploy"), Some(OURS), Some(cookie), &fields).await
    }
}

/// The deployments at GitHub of the second version.
fn of_second(deployer: &Deployer) -> Vec<Value> {
    let payloads = deployer.github.repository("acme/shop").payloads();
    payloads.into_iter().map(|(_, payload)| payload).filter(|one| one["tag"] == "v2").collect()
}

/// Where an answer leads to.
fn location(answer: &Answer) -> String {
    assert_eq!(answer.status, 303, "{answer:?}");
    answer.headers["location"].to_str().unwrap().to_owned()
}

#[tokio::test]
async fn a_person_creates_the_deployment_at_github_and_a_form_that_is_sent_twice_creates_one() {
    for enterprise in [false, true] {
        let log = CapturedLog::of("", Level::TRACE);
        let (deployer, token, cookie) =
            if enterprise { Box::pin(at_enterprise()).await } else { at_github().await };
        let form = Form::of_page(&deployer, &cookie).await;
        // Nothing is done by GET.
        let query = format!("{SHOP}/deploy?tag=v2&ref=main&form_key={}", form.key);
        open(&deployer, &query, &cookie).await;
        assert_eq!(of_second(&deployer), Vec::<Value>::new());
        let once = form.send(&deployer, &cookie, "main").await;
        let twice = form.send(&deployer, &cookie, "main").await;
        assert_eq!(location(&once), location(&twice));
        let [payload] = &of_second(&deployer)[..] else { panic!("one deployment") };
        assert_eq!((&payload["by"], &payload["tag"]), (&json!("the-deployer"), &json!("v2")));
        let deployment = deployer.deployments().await.pop().unwrap();
        assert_eq!(location(&once), format!("/deployments/{}", deployment.id));
        let asked = &deployment.request;
        assert_eq!((&*asked.actor, &*asked.description), ("ada", "a better one"));
        assert!(asked.production && !asked.automatic, "as `bart deploy` says of prod*: {asked:?}");
        let [act] = &audited(&deployer).await[..] else { panic!("one act") };
        assert_eq!((&*act.act, &*act.by.name, act.by.via), ("deploy", "ada", AuthMethod::GitHub));
        assert_eq!((&*act.reason, &*act.outcome), ("a better one", "created"));
        let number = asked.forge_id;
        assert!(
            act.subject.starts_with(&format!("GitHub deployment {number} of acme/shop:v2 at "))
        );
        assert_eq!(act.app.as_ref().unwrap().to_string(), "devx/shop");
        deployer.settle().await;
        assert_eq!(deployer.github.told(number).last().unwrap(), "success");
        let pages = [once.text, open(&deployer, &location(&twice), &cookie).await.text];
        assert!(pages.iter().chain([&log.text()]).all(|text| !text.contains(&token)));
        deployer.settled().await;
    }
}

#[tokio::test]
async fn before_the_event_has_arrived_the_page_of_the_app_says_so() {
    let (deployer, _, cookie) = at_github().await;
    let form = Form::of_page(&deployer, &cookie).await;
    deployer.github.webhooks(Webhooks::Held);
    let path = location(&form.send(&deployer, &cookie, "main").await);
    let (page, number) = path.split_once("?created=").unwrap();
    assert_eq!(page, SHOP);
    let text = open(&deployer, &path, &cookie).await.text;
    assert!(text.contains(&format!(
        "Deployment {number} was created at GitHub. Its event has not arrived"
    )));
    assert!(
        text.contains("/acme/shop/deployments\" rel=\"noreferrer\">Its deployments at GitHub"),
        "{text}"
    );
    deployer.github.webhooks(Webhooks::Delivered);
    deployer.github.release(&[0]).await;
    let id = deployer.deployments().await.pop().unwrap().id;
    let text = open(&deployer, &path, &cookie).await.text;
    let link = format!("and has arrived here: <a href=\"/deployments/{id}\">");
    assert!(text.contains(&link), "{text}");
    for wrong in ["x", "0", "-1", "99999999999999999999"] {
        let answer = open(&deployer, &format!("{SHOP}?created={wrong}"), &cookie).await;
        assert_eq!(answer.status, 400, "{wrong}");
    }
    deployer.settle().await;
    deployer.settled().await;
}

#[tokio::test]
async fn github_decides_and_each_refusal_says_what_to_do() {
    let (deployer, token, cookie) = at_github().await;
    let form = Form::of_page(&deployer, &cookie).await;
    let refused = async |status: u16, words: &[&str], git_ref: &str| {
        let answer = form.send(&deployer, &cookie, git_ref).await;
        assert_eq!(answer.status.as_u16(), status, "{answer:?}");
        for word in words {
            assert!(answer.text.contains(word), "{word} is missing in {}", answer.text);
        }
        assert!(!answer.text.contains(&token));
        assert_eq!(of_second(&deployer), Vec::<Value>::new());
        assert!(audited(&deployer).await.is_empty());
    };
    // She may read it since a moment ago: the service has an older answer, and GitHub knows.
    deployer.github.lets("ada", "acme/shop", "pull");
    let words = ["403: Must have admin rights", "your GitHub token needs `deployments: write`"];
    refused(403, &words, "main").await;
    deployer.github.lets("ada", "acme/shop", "push");
    for (fault, status, words) in [
        (Fault::Status(404), 403, "your GitHub token does not see acme/shop"),
        (Fault::Status(409), 409, "the required checks have not succeeded on main"),
        (Fault::Unprocessable, 422, "compare the request with GitHub&#39;s message"),
        (Fault::BadGateway, 503, "and may have created the deployment; send the same again"),
        (Fault::WebPage, 503, "a web page came in place of an answer"),
        (Fault::CutBefore, 503, "send the same again, which finds it and creates no other"),
    ] {
        deployer.github.fails(1, CREATION, fault);
        refused(status, &[words, "id=\"refused\""], "main").await;
    }
    deployer.github.fails(1, "GET repos/acme/shop/deployments", Fault::BadGateway);
    refused(503, &["nothing was created: try again"], "main").await;
    deployer.github.fails(1, CREATION, Fault::Wait(403, 60));
    refused(503, &["rate limit of your token"], "main").await;
    deployer.clock.advance(Duration::from_secs(61));
    // The key was free after each refusal; another body under it is another request.
    let other = Form::of_page(&deployer, &cookie).await;
    let answer = other.send(&deployer, &cookie, "nowhere").await;
    assert_eq!(answer.status, 422, "{answer:?}");
    assert!(answer.text.contains("nowhere is not at GitHub: push it, then deploy again"));
    let path = location(&form.send(&deployer, &cookie, "main").await);
    assert!(path.starts_with("/deployments/"), "{path}");
    assert_eq!((of_second(&deployer).len(), audited(&deployer).await.len()), (1, 1));
    // A token that GitHub knows no more is signed out.
    let form = Form::of_page(&deployer, &cookie).await;
    deployer.github.revokes("ada");
    let path = location(&form.send(&deployer, &cookie, "main").await);
    assert!(path.starts_with("/account?to="), "{path}");
    assert_eq!(of_second(&deployer).len(), 1);
    deployer.settle().await;
    deployer.settled().await;
}

#[tokio::test]
async fn a_creation_whose_answer_was_lost_is_found_and_done_once() {
    let (deployer, _, cookie) = at_github().await;
    let form = Form::of_page(&deployer, &cookie).await;
    deployer.github.fails(1, CREATION, Fault::CutAfter);
    let path = location(&form.send(&deployer, &cookie, "main").await);
    assert!(path.starts_with("/deployments/"), "{path}");
    assert_eq!((of_second(&deployer).len(), audited(&deployer).await.len()), (1, 1));
    deployer.settle().await;
    // It is done after the person has been told that it is not known.
    deployer.clock.advance(Duration::from_secs(1));
    let form = Form::of_page(&deployer, &cookie).await;
    deployer.github.fails(1, CREATION, Fault::DoneLate(5));
    let answer = form.send(&deployer, &cookie, "main").await;
    assert_eq!(answer.status, 503, "{answer:?}");
    assert_eq!(hidden(&answer, "form_key"), form.key, "the page sends the same again");
    deployer.clock.advance(Duration::from_secs(6));
    let path = location(&form.send(&deployer, &cookie, "main").await);
    assert!(path.starts_with("/deployments/"), "{path}");
    assert_eq!((of_second(&deployer).len(), audited(&deployer).await.len()), (2, 2));
    deployer.settle().await;
    deployer.settled().await;
}

#[tokio::test]
async fn whoever_has_signed_in_with_an_api_token_sees_what_would_change_and_the_command() {
    let (deployer, token, _) = at_github().await;
    let cookie = signs_in(&deployer, API_TOKEN).await;
    let page = open(&deployer, SHOP, &cookie).await;
    assert!(page.text.contains("/deploy\">Plan</a>"), "{page:?}");
    let page = open(&deployer, &format!("{SHOP}/deploy?tag=v2&ref=main"), &cookie).await;
    for words in [
        "in the name of a person who may do that there",
        "`bart deploy v2 prod-cluster-1 --ref main`",
        "What changes",
        "Deployment shop",
    ] {
        assert!(page.text.contains(words), "{words} is missing in {}", page.text);
    }
    assert!(!page.text.contains("method=\"post\" class=\"act\""), "{page:?}");
    // The form all the same, with the token of another page.
    let token_of_form =
        hidden(&open(&deployer, &format!("{SHOP}/hold"), &cookie).await, "form_token");
    let form = Form { token: token_of_form, key: "k".to_owned() };
    let answer = form.send(&deployer, &cookie, "main").await;
    assert_eq!(answer.status, 409, "{answer:?}");
    // The API is the same.
    let body = json!({"repository": "acme/shop", "ref": "main", "tag": "v2", "target": TARGET});
    post_as(&deployer, API_TOKEN, LIST, &body).await.problem(409, "conflict");
    let created = post_as(&deployer, &token, LIST, &body).await;
    assert_eq!(created.status, 202, "{created:?}");
    let number = created.json()["forge_id"].as_i64().unwrap();
    assert_eq!(created.json(), json!({"id": null, "forge_id": number}));
    deployer.settle().await;
    assert_eq!(deployer.github.told(number).last().unwrap(), "success");
    // A reader of the repository may not, whatever they send.
    let eve = deployer.github.token_of("eve");
    deployer.github.lets("eve", "acme/shop", "pull");
    post_as(&deployer, &eve, LIST, &body).await.problem(403, "forbidden");
    let cookie = signs_in(&deployer, &eve).await;
    let path = format!("{SHOP}/deploy");
    let page = send(request(&deployer, Method::GET, &path).header("cookie", &cookie)).await;
    assert_eq!(page.status, 403, "{page:?}");
    assert_eq!(of_second(&deployer).len(), 1);
    deployer.settled().await;
}

#[tokio::test]
async fn checks_that_a_person_requires_must_have_succeeded_at_github() {
    let (deployer, token, cookie) = at_github().await;
    let shop = deployer.github.repository("acme/shop");
    shop.check_ends("build", "success");
    shop.check_ends("lint (a, b)", "pending");
    let path = |query: &str| format!("{SHOP}/deploy?tag=v2&ref=main{query}");
    let contexts = |names: &str| format!("&checks=named&contexts={names}");
    // The page says what each choice means, before anything is done.
    for (query, words) in [
        ("", "No check is required: main is deployed also where checks have failed or still run."),
        ("&checks=all", "unless every check of main has succeeded, also this service&#39;s own"),
        (&contexts("build%0D%0A+lint+(a,+b)+"), "have succeeded: build, lint (a, b). It does not"),
    ] {
        let page = open(&deployer, &path(query), &cookie).await;
        assert!(page.text.contains(words), "{words} is missing in {}", page.text);
        assert!(page.text.contains("<button>Deploy</button>"), "{}", page.text);
    }
    for (query, words) in [
        ("&checks=named", "Name the checks that must have succeeded"),
        ("&contexts=build", "Checks are named that are not chosen"),
        ("&checks=some", "checks: use none, all or named"),
        (&contexts("a%E2%80%AEb"), "has an invisible character (U+202E)"),
    ] {
        let page = open(&deployer, &path(query), &cookie).await;
        assert!(page.text.contains(words), "{words} is missing in {}", page.text);
        assert!(!page.text.contains("<button>Deploy</button>"), "{}", page.text);
    }
    let send = async |checks: &str, names: &str| {
        let form = Form::of_page(&deployer, &cookie).await;
        let fields = [
            ("form_token", &*form.token),
            ("form_key", &*form.key),
            ("tag", "v2"),
            ("ref", "main"),
            ("checks", checks),
            ("contexts", names),
        ];
        send_form(&deployer, &format!("{SHOP}/deploy"), Some(OURS), Some(&cookie), &fields).await
    };
    for (checks, names, status, words) in [
        ("all", "", 409, "the required checks have not succeeded on main: build is success"),
        ("named", "build\r\nlint (a, b)", 409, "lint (a, b) is pending"),
        ("named", "", 422, "Name the checks"),
        ("none", "build", 422, "Checks are named that are not chosen"),
    ] {
        let answer = send(checks, names).await;
        assert_eq!(answer.status.as_u16(), status, "{answer:?}");
        assert!(answer.text.contains(words), "{words} is missing in {}", answer.text);
    }
    assert_eq!(of_second(&deployer), Vec::<Value>::new());
    assert!(location(&send("named", "build").await).starts_with("/deployments/"));
    assert_eq!(of_second(&deployer).len(), 1);
    deployer.settle().await;
    // The API is the same.
    let body = |more: Value| {
        let mut body =
            json!({"repository": "acme/shop", "ref": "main", "tag": "v3", "target": TARGET});
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        body
    };
    deployer.clock.advance(Duration::from_secs(1));
    for (more, status, problem) in [
        (json!({"require_all_contexts": true}), 409, "conflict"),
        (json!({"required_contexts": ["lint (a, b)"]}), 409, "conflict"),
        (json!({"required_contexts": ["a"], "require_all_contexts": true}), 422, "unprocessable"),
        (json!({"required_contexts": [" "]}), 422, "unprocessable"),
    ] {
        post_as(&deployer, &token, LIST, &body(more)).await.problem(status, problem);
    }
    shop.check_ends("lint (a, b)", "success");
    let named = body(json!({"required_contexts": ["build", "lint (a, b)"]}));
    assert_eq!(post_as(&deployer, &token, LIST, &named).await.status, 202);
    deployer.settle().await;
    deployer.settled().await;
}

#[tokio::test]
async fn a_code_host_without_checks_refuses_to_require_any() {
    let mut deployer = Deployer::prepared_local().await;
    deployer.starts().await;
    let shop = deployer.service_repository("example/shop");
    shop.somebody_writes(".weave.yaml", &waml("shop"));
    let body = json!({"repository": "example/shop", "ref": "main", "tag": "v1", "target": TARGET,
        "require_all_contexts": true});
    let refused = post(&deployer, LIST, &body).await;
    let refused = refused.problem(422, "unprocessable");
    assert!(refused.contains("has no checks of commits"), "{refused}");
    deployer.settled().await;
}
