//! Pages: what they say, who may see them, and what a browser may do with them.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use reqwest::Method;
use serde_json::{Value, json};
use tracing::Level;

use super::reading::{asking_for, with_three};
use super::shop::{FOLDER, TARGET, ask_as, asks, asks_with, deploys, recovers};
use super::world::{Answer, get, request, send};
use crate::harness::deployer::Deployer;
use crate::harness::events::waml;
use crate::harness::log::CapturedLog;
use crate::harness::receiver::{Does, Receiver, SECRET};

/// What a browser asks for.
pub(super) async fn browse(deployer: &Deployer, path: &str, authorization: Option<&str>) -> Answer {
    let accept = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8";
    let request = request(deployer, Method::GET, path).header("accept", accept);
    send(match authorization {
        Some(authorization) => request.header("authorization", authorization),
        None => request,
    })
    .await
}

pub(super) fn page(answer: &Answer, status: u16) -> &str {
    assert_eq!(answer.status.as_u16(), status, "{answer:?}");
    assert_eq!(answer.headers["content-type"], "text/html; charset=utf-8");
    assert_eq!(answer.headers["cache-control"], "no-store");
    assert_eq!(answer.headers["referrer-policy"], "no-referrer");
    assert_eq!(answer.headers["x-content-type-options"], "nosniff");
    let policy = answer.headers["content-security-policy"].to_str().unwrap();
    assert!(policy.starts_with("default-src 'self'; base-uri 'none'; "), "{policy}");
    assert!(!policy.contains("unsafe"), "{policy}");
    for never in ["<script>", "<style", " style=\"", " onclick", "{%", "src=\"http"] {
        assert!(!answer.text.contains(never), "{never} in {}", answer.text);
    }
    // Alerts of manifests have templates of their own.
    assert!(!answer.text.contains("{{") || answer.text.contains("class=\"change\""));
    assert_eq!(answer.text.matches("<h1").count(), 1);
    &answer.text
}

/// Each part stands in the text, after the one before it.
pub(super) fn follow(text: &str, parts: &[&str]) {
    let mut rest = text;
    for part in parts {
        let (_, after) =
            rest.split_once(part).unwrap_or_else(|| panic!("{part} is missing in\n{text}"));
        rest = after;
    }
}

/// Not started yet, with a receiver that takes no event: each is given up.
pub(super) async fn with_receiver() -> (Deployer, Receiver) {
    let mut deployer = Deployer::prepared().await;
    let receiver = Receiver::start(&deployer.clock).await;
    receiver.will(std::iter::repeat_n(Does::Answers(400, ""), 10));
    let webhook = format!(
        "notify:\n  webhooks:\n  - {{name: warehouse, url: \"{}\", secret: {{env: SIGNING}}, \
         events: [pipelinerun.finished]}}\n",
        receiver.url()
    );
    deployer.configure(|config| format!("{config}{webhook}"));
    deployer.variable("SIGNING", SECRET);
    (deployer, receiver)
}

/// The shop is deployed, then edited by hand; the id of its revision.
pub(super) async fn edited(deployer: &Deployer) -> String {
    let id = deploys(deployer, "v1").await;
    let file = format!("{FOLDER}/latest/service.yaml");
    let text = deployer.manifests().files()[&file].clone();
    let text = text.replacen("kind: Service\n", "kind: Service # <b>\n", 1);
    deployer.manifests().somebody_writes(&file, &text);
    id
}

/// The page of the newest deployment.
async fn newest(deployer: &Deployer) -> String {
    let id = deployer.deployments().await.pop().unwrap().id;
    format!("/deployments/{id}")
}

#[tokio::test]
async fn a_deployment_that_goes_on_is_looked_at_again_unless_its_reader_holds_it_still() {
    let (mut deployer, _receiver) = with_receiver().await;
    deployer.starts().await;
    asks(&deployer, "v1").await;
    let path = newest(&deployer).await;
    let shown = browse(&deployer, &path, None).await;
    let text = page(&shown, 200);
    let commit = deployer.github.repository("example/shop").tip("main");
    let commit = format!("{}/example/shop/commit/{commit}", deployer.github.url());
    for part in [
        "<noscript><meta http-equiv=\"refresh\" content=\"3\"></noscript>",
        ">queued</span> waiting for a worker",
        "example/shop <span class=\"to\">to</span> prod-cluster-1",
        &commit,
        "octocat",
        "2026-11-21 05:46:41 UTC",
        "waits to be sent",
    ] {
        assert!(text.contains(part), "{part} is missing in\n{text}");
    }
    assert!(text.find("deployment status") < text.find("webhook warehouse"));
    let still = browse(&deployer, &format!("{path}?refresh=off"), None).await;
    assert!(!page(&still, 200).contains("http-equiv"));
    deployer.settle().await;
    let ended = browse(&deployer, &path, None).await;
    let text = page(&ended, 200);
    assert!(!text.contains("http-equiv") && text.contains(">succeeded</span>"), "{text}");
    let given_up = "not delivered: the webhook warehouse does not take this event: it answered 400";
    assert!(text.contains(given_up) && !text.contains("waits to be sent"), "{text}");
    assert!(text.find("deployment status") < text.find("webhook warehouse"));
    deployer.github.settled();
}

#[tokio::test]
async fn what_is_wrong_comes_first_with_its_place_and_a_way_out() {
    let deployer = Deployer::start().await;
    let text = waml("shop").replace("servicePort: 8000", "servicePort: 80");
    let text = text.replace("  ingress:", "  slo: {requestClass: low}\n  ingress:");
    let text = text.replace("hostPrefix: shop", "hostPrefix: <b>");
    asks_with(&deployer, "v1", &text).await;
    deployer.settle().await;
    let shown = browse(&deployer, &newest(&deployer).await, None).await;
    let text = page(&shown, 200);
    assert!(!text.contains("http-equiv"), "it has ended");
    let commit = deployer.github.repository("example/shop").tip("main");
    let line = format!("{}/example/shop/blob/{commit}/.weave.yaml#L13", deployer.github.url());
    follow(
        text,
        &[
            ">failed</span> 2 violations; first: .weave.yaml:13:26: `&#60;b&#62;.prod-cluster-1.internal` is not",
            "2 violations</h2>",
            &line,
            ".weave.yaml:13:26",
            "<code>&#60;b&#62;.prod-cluster-1.internal</code> is not a legal host name",
            ".weave.yaml:13:76",
            "no service has the port 80",
            "aria-label=\"line 13 of the WAML\"><span class=\"quiet\">13 │ </span>",
            "<mark>80</mark>",
            "ingress[0].paths[0].servicePort",
            "there is no such port",
            "write <code>servicePort: 8000</code> for <code>http</code> of shop",
            "1 warning</h2>",
            ".weave.yaml:12:23",
            "<code>defaults[0].slo.requestClass</code> does nothing",
            "overridden everywhere",
            ">Request</h2>",
            ">fetch<",
            " ms</td>",
            ">Messages</h2>",
        ],
    );
    assert!(!text.contains("<b>"), "nothing of theirs is HTML");
    deployer.settled().await;
}

#[tokio::test]
async fn what_somebody_edited_by_hand_is_shown_as_a_diff_and_not_as_html() {
    let stop = format!(
        "clusters:\n- {{name: {TARGET}, environment: development, domain: example.com, \
         policies: {{hand_edits: stop}}}}\n"
    );
    for (sentence, policy, refused) in [
        ("This deployment replaced them", "", false),
        ("and nothing was replaced.", &*stop, false),
        ("Nothing was replaced, because the push failed", "", true),
    ] {
        let mut deployer = Deployer::prepared().await;
        deployer.configure(|config| format!("{config}{policy}"));
        if refused {
            deployer.pushes_to_host().await;
        }
        deployer.starts().await;
        let base = edited(&deployer).await;
        if refused {
            // Our clone gets to know the edit by another app.
            let cart = deployer.github.repository("example/cart");
            cart.commit(&waml("cart"));
            cart.deploys(TARGET, "v1").await;
            deployer.settle().await;
            deployer.manifests().hook("pre-receive", "echo 'not today' >&2; exit 1");
        }
        deploys(&deployer, "v2").await;
        let shown = browse(&deployer, &newest(&deployer).await, None).await;
        let text = page(&shown, 200);
        follow(
            text,
            &[
                "Edited by hand</h2>",
                sentence,
                "service.yaml (changed)",
                "Somebody <span",
                &base,
                "<span class=\"name\">--- a/service.yaml</span>",
                "<span class=\"old\">-kind: Service</span>\n\
                 <span class=\"new\">+kind: Service # &#60;b&#62;</span>",
            ],
        );
        let replaced = text.contains("This deployment replaced");
        assert_eq!(replaced, sentence.contains("This deployment"), "{text}");
        deployer.settled().await;
    }
}

#[tokio::test]
async fn the_newest_are_listed_with_links_to_their_logs() {
    let deployer = Deployer::start().await;
    assert!(
        page(&browse(&deployer, "/deployments", None).await, 200)
            .contains("There are no deployments here")
    );
    let ids = with_three(&deployer).await;
    let shown = browse(&deployer, "/deployments?limit=2", None).await;
    let text = page(&shown, 200);
    let link = |id: &str| format!("href=\"/deployments/{id}\"");
    assert_eq!(text.matches("href=\"/deployments/2").count(), 2);
    follow(text, &[&link(&ids[0]), &link(&ids[1])]);
    let shown =
        browse(&deployer, &format!("/deployments?limit=1&target={TARGET}&state="), None).await;
    let older = format!("/deployments?limit=1&target={TARGET}&cursor={}", ids[0]);
    assert!(page(&shown, 200).contains(&older.replace('&', "&#38;")), "{}", shown.text);
    let rest = browse(&deployer, &older, None).await;
    let text = page(&rest, 200);
    assert_eq!(text.matches("href=\"/deployments/2").count(), 1);
    assert!(text.contains(&link(&ids[2])), "{text}");
    deployer.settle().await;
    deployer.settled().await;
}

#[tokio::test]
async fn what_went_wrong_is_a_page_for_people_and_a_problem_for_programs() {
    let deployer = Deployer::start().await;
    for (path, status, name) in [
        ("/deployments/20261121-054812123-000000", 404, "not-found"),
        ("/deployments/%3Cscript%3E", 400, "bad-request"),
        ("/?tagret=x", 400, "bad-request"),
        ("/nothing", 404, "not-found"),
    ] {
        let shown = browse(&deployer, path, None).await;
        let text = page(&shown, status);
        assert!(text.contains(&status.to_string()), "{text}");
        get(&deployer, path).await.problem(status, name);
    }
    let api = browse(&deployer, "/api/v1/deployments/x", None).await;
    api.problem(400, "bad-request");
    deployer.stepped().store().close().await;
    for path in ["/", "/deployments", "/deployments/20261121-054812123-000000"] {
        let down = browse(&deployer, path, None).await;
        assert!(page(&down, 503).contains("try again later"));
        assert_eq!(down.headers["retry-after"], "5");
    }
    recovers(deployer).await;
}

fn basic(login: &str) -> String {
    format!("Basic {}", STANDARD.encode(login))
}

#[tokio::test]
async fn a_browser_gives_a_token_as_the_password() {
    let log = CapturedLog::of("", Level::TRACE);
    let deployer = asking_for("t0ken:text", "token").await;
    asks(&deployer, "v1").await;
    let first = newest(&deployer).await;
    for right in [&basic("me:t0ken:text"), &basic(":t0ken:text"), "Bearer t0ken:text"] {
        page(&browse(&deployer, &first, Some(right)).await, 200);
        page(&browse(&deployer, "/", Some(right)).await, 200);
    }
    for wrong in [&basic("me:t0ken"), &basic("t0ken:text"), "Basic §", "Basic", "Bearer t0ken", ""]
    {
        for path in [&*first, "/", "/deployments/x", "/deployments/20261121-054812123-000000"] {
            let refused = browse(&deployer, path, Some(wrong)).await;
            assert!(page(&refused, 401).contains("as the password"), "{path} {wrong}");
            assert_eq!(refused.headers["www-authenticate"], "Basic realm=\"the-deployer\"");
        }
    }
    assert!(!log.text().contains("t0ken:tex"), "{}", log.text());
    deployer.settle().await;
    deployer.settled().await;
}

#[tokio::test]
async fn the_data_behind_a_page_is_for_who_may_see_the_page_by_the_same_password() {
    for pages in ["token", "open"] {
        let deployer = asking_for("t0ken", pages).await;
        asks(&deployer, "v1").await;
        let first = newest(&deployer).await;
        let login = basic("me:t0ken");
        let shown = browse(&deployer, &first, Some(&login)).await;
        let link = format!("{first}/json");
        assert!(page(&shown, 200).contains(&format!("href=\"{link}\"")), "{}", shown.text);
        let data = browse(&deployer, &link, Some(&login)).await;
        assert_eq!((data.status.as_u16(), &data.json()["target"]), (200, &TARGET.into()));
        let of_api = ask_as(&deployer, "t0ken", &format!("/api/v1{first}"), &Value::Null).await;
        assert_eq!(data.json(), of_api.json());
        let refused = browse(&deployer, &link, None).await;
        assert_eq!(refused.status, 401);
        assert_eq!(refused.headers["www-authenticate"], "Basic realm=\"the-deployer\"");
        deployer.settle().await;
        deployer.settled().await;
    }
}

/// A page elsewhere can make its visitor's browser send a password along; it must be of no use.
#[tokio::test]
async fn an_operator_may_open_the_pages_and_the_api_stays_closed_and_takes_no_password() {
    let deployer = asking_for("t0ken", "open").await;
    asks(&deployer, "v1").await;
    page(&browse(&deployer, &newest(&deployer).await, None).await, 200);
    get(&deployer, "/api/v1/deployments").await.problem(401, "unauthorized");
    let login = basic("me:t0ken");
    let refused = browse(&deployer, "/api/v1/deployments", Some(&login)).await;
    refused.problem(401, "unauthorized");
    assert_eq!(refused.headers["www-authenticate"], "Bearer");
    deployer.settle().await;
    deployer.settled().await;
}

#[tokio::test]
async fn what_a_page_is_made_of_is_served_to_anybody_and_kept_for_good() {
    let deployer = asking_for("t0ken", "token").await;
    // Whoever has not signed in is led to where one does that.
    let sign_in = browse(&deployer, "/", None).await;
    let text = &sign_in.text;
    assert!(sign_in.status == 200 && text.contains("Sign in with a token"), "{text}");
    assert_eq!(sign_in.headers["referrer-policy"], "same-origin", "its forms have an origin");
    let mut files: Vec<&str> =
        text.split('"').filter(|part| part.starts_with("/assets/")).collect();
    files.push("/assets/icon-plain.svg");
    assert_eq!(files.len(), 4, "{files:?}");
    for file in files {
        let asset = browse(&deployer, file, None).await;
        assert_eq!(asset.status, 200, "{file}");
        let kind = asset.headers["content-type"].to_str().unwrap();
        let kinds = ["text/css; charset=utf-8", "text/javascript; charset=utf-8", "image/svg+xml"];
        assert!(kinds.contains(&kind), "{file}: {kind}");
        assert!(asset.headers["cache-control"].to_str().unwrap().contains("immutable"));
        assert_eq!(asset.headers["x-content-type-options"], "nosniff");
    }
    for file in ["/assets/other.js", "/assets/icon-%3Cscript%3E.svg"] {
        assert!(page(&browse(&deployer, file, None).await, 404).contains("no such file"));
    }
    deployer.settled().await;
}

#[tokio::test]
async fn the_grid_shows_what_is_live_and_what_goes_on_on_each_target() {
    let deployer = Deployer::start().await;
    let empty = browse(&deployer, "/", None).await;
    assert!(page(&empty, 200).contains("There are no apps here yet"));
    let id = deploys(&deployer, "v1").await;
    deployer.clock.advance(std::time::Duration::from_hours(3));
    let shown = browse(&deployer, "/", None).await;
    let cell = format!(
        "<td class=\"good\"><a href=\"/apps/{TARGET}/devx/shop\">v1</a> <time datetime=\"2026-11-21T05:46Z\">3 h</time></td>"
    );
    follow(page(&shown, 200), &["1 app</p>", TARGET, "devx/<b>shop</b>", &cell]);
    // One that fails: what was live before it still is.
    let broken = waml("shop").replace("servicePort: 8000", "servicePort: 80");
    asks_with(&deployer, "v2", &broken).await;
    let queued = browse(&deployer, "/", None).await;
    assert!(page(&queued, 200).contains(&cell), "its app is not known yet: {}", queued.text);
    deployer.settle().await;
    let failed = deployer.deployments().await.pop().unwrap().id;
    let shown = browse(&deployer, "/?state=failed&sort=state&q=SHOP", None).await;
    let word = format!("<a class=\"badge bad\" href=\"/deployments/{failed}\">failed</a>");
    follow(
        page(&shown, 200),
        &["value=\"SHOP\"", "1 app · 1 failed", "<td class=\"bad\">", ">v1</a>", &word],
    );
    assert!(!shown.text.contains(&format!("/deployments/{id}")));
    for nothing in
        ["/?state=held", "/?q=cart", "/?team=x%40example.com", "/?target=dev", "/?namespace=a"]
    {
        let shown = browse(&deployer, nothing, None).await;
        assert!(
            page(&shown, 200).contains("No app passes the filter"),
            "{nothing}: {}",
            shown.text
        );
    }
    let wrong = browse(&deployer, "/?state=lost", None).await;
    assert!(page(&wrong, 400).contains("is not one of failed, deploying"));
    deployer.settled().await;
}

#[tokio::test]
async fn an_app_whose_first_deployment_failed_is_in_the_grid_until_it_is_pushed_or_renamed() {
    let deployer = Deployer::start().await;
    let broken = waml("shop").replace("servicePort: 8000", "servicePort: 80");
    asks_with(&deployer, "v1", &broken).await;
    deployer.settle().await;
    let first = deployer.deployments().await.pop().unwrap().id;
    let cell = |id: &str| {
        format!(
            "<td class=\"bad\"><a href=\"/deployments/{id}\">never live</a> \
             <a class=\"badge bad\" href=\"/deployments/{id}\">failed</a></td>"
        )
    };
    for path in ["/", "/?state=failed", "/?team=squad%40example.com&q=shop"] {
        let shown = browse(&deployer, path, None).await;
        let parts = ["1 app · 1 failed", "devx/<b>shop</b>", &cell(first.as_str())];
        follow(page(&shown, 200), &parts);
    }
    // Its page is there, too.
    let shown = browse(&deployer, &format!("/apps/{TARGET}/devx/shop"), None).await;
    assert!(page(&shown, 200).contains("The newest deployment failed: "), "{}", shown.text);
    // The same under another name: the former one is no app any more once that is live.
    deployer.clock.advance(std::time::Duration::from_secs(1));
    let renamed = broken.replace("slug: shop", "slug: store");
    asks_with(&deployer, "v2", &renamed).await;
    deployer.settle().await;
    let second = deployer.deployments().await.pop().unwrap().id;
    let shown = browse(&deployer, "/", None).await;
    let parts =
        ["2 apps · 2 failed", &cell(first.as_str()), "devx/<b>store</b>", &cell(second.as_str())];
    follow(page(&shown, 200), &parts);
    deployer.clock.advance(std::time::Duration::from_secs(1));
    asks_with(&deployer, "v3", &waml("shop").replace("slug: shop", "slug: store")).await;
    deployer.settle().await;
    let shown = browse(&deployer, "/", None).await;
    let text = page(&shown, 200);
    follow(
        text,
        &["1 app</p>", "devx/<b>store</b>", "<td class=\"good\">", "/devx/store\">v3</a>"],
    );
    assert!(!text.contains("never live"), "{text}");
    deployer.settled().await;
}

#[tokio::test]
async fn a_repository_whose_waml_could_never_be_read_is_in_the_grid_until_one_can_be() {
    let deployer = Deployer::start().await;
    let counted = async |words: &str| {
        let shown = browse(&deployer, "/", None).await;
        assert!(page(&shown, 200).contains(words), "{words} is missing in {}", shown.text);
    };
    asks_with(&deployer, "v1", "slug: [").await;
    counted("There are no apps here yet").await;
    deployer.settle().await;
    asks_with(&deployer, "v2", "no: waml").await;
    deployer.settle().await;
    let id = deployer.deployments().await.pop().unwrap().id;
    let cell = format!(
        "<td class=\"bad\"><a href=\"/deployments/{id}\">never live</a> \
         <a class=\"badge bad\" href=\"/deployments/{id}\">failed</a> <i>WAML unreadable</i></td>"
    );
    let target = format!("/?target={TARGET}&sort=state");
    for path in ["/", "/?state=failed", "/?q=Example/Shop", &target] {
        let shown = browse(&deployer, path, None).await;
        let parts = ["1 app · 1 failed", "example/<b>shop</b> <small>repository</small>", &cell];
        follow(page(&shown, 200), &parts);
    }
    for path in ["/?namespace=devx", "/?state=live", "/?team=a", "/?target=other", "/?q=v9"] {
        let shown = browse(&deployer, path, None).await;
        assert!(page(&shown, 200).contains("No app passes the filter"), "{path}: {}", shown.text);
    }
    // Once one could be read, the app is there in its place, whatever became of it.
    asks_with(&deployer, "v3", &waml("shop").replace("servicePort: 8000", "servicePort: 80")).await;
    deployer.settle().await;
    counted("devx/<b>shop</b>").await;
    counted("1 app · 1 failed").await;
    let shown = browse(&deployer, "/", None).await;
    assert!(!page(&shown, 200).contains("WAML unreadable"), "{}", shown.text);
    asks_with(&deployer, "v4", "slug: [").await;
    deployer.settle().await;
    counted("1 app · 1 failed").await;
    let id = deployer.deployments().await.pop().unwrap().id;
    let shown = browse(&deployer, "/", None).await;
    let cell = "failed</a> <i>WAML unreadable</i>";
    follow(page(&shown, 200), &["devx/<b>shop</b>", &format!("/deployments/{id}\">never"), cell]);
    deployer.settled().await;
}

#[tokio::test]
async fn an_app_that_is_live_has_failed_where_its_newest_waml_could_not_be_read() {
    let deployer = Deployer::start().await;
    deploys(&deployer, "v1").await;
    deployer.clock.advance(std::time::Duration::from_secs(1));
    asks_with(&deployer, "v2", "slug: [").await;
    deployer.settle().await;
    let failed = deployer.deployments().await.pop().unwrap().id;
    let word = format!(
        "<a class=\"badge bad\" href=\"/deployments/{failed}\">failed</a> <i>WAML unreadable</i></td>"
    );
    for path in ["/", "/?state=failed", "/?state=live&sort=state", "/?team=squad%40example.com"] {
        let shown = browse(&deployer, path, None).await;
        let parts = [
            "icon-bad.svg",
            "1 app · 1 failed",
            "devx/<b>shop</b>",
            "<td class=\"bad\">",
            ">v1</a>",
            &word,
        ];
        follow(page(&shown, 200), &parts);
        assert!(!shown.text.contains("example/<b>shop</b>"), "one row: {}", shown.text);
    }
    let shown = browse(&deployer, &format!("/apps/{TARGET}/devx/shop"), None).await;
    let sentence = "The newest deployment of its repository failed before its app was known: ";
    let row = format!("<tr id=\"d-{failed}\">");
    follow(page(&shown, 200), &["badge bad\">failed", sentence, "squad@example.com", &row, ">v2<"]);
    // The API says the same.
    let list = get(&deployer, "/api/v1/apps").await.json();
    assert_eq!(list["apps"][0]["tag"], "v1");
    assert_eq!(list["apps"][0]["failed"], json!({"id": failed, "tag": "v2"}));
    let app = get(&deployer, &format!("/api/v1/apps/{TARGET}/devx/shop")).await.json();
    assert_eq!((&app["last"]["id"], &app["last"]["state"]), (&json!(failed), &json!("failed")));
    assert_eq!(app["live"]["tag"], "v1");
    // The next one is known again.
    deployer.clock.advance(std::time::Duration::from_secs(1));
    deployer.github.repository("example/shop").commit(&waml("shop"));
    asks(&deployer, "v3").await;
    deployer.settle().await;
    let shown = browse(&deployer, "/", None).await;
    follow(page(&shown, 200), &["1 app</p>", "<td class=\"good\">", ">v3</a>"]);
    let shown = browse(&deployer, "/?state=failed", None).await;
    assert!(page(&shown, 200).contains("No app passes the filter"), "{}", shown.text);
    deployer.settled().await;
}

#[tokio::test]
async fn the_grid_says_what_stands_in_the_way_and_hostile_filters_are_only_shown() {
    let deployer = Deployer::start().await;
    edited(&deployer).await;
    let lock =
        serde_json::json!({"scope": {"target": TARGET}, "reason": "<script>alert(1)</script>"});
    assert_eq!(super::world::post(&deployer, "/api/v1/locks", &lock).await.status, 201);
    deployer.clock.advance(std::time::Duration::from_mins(1));
    let shown = browse(&deployer, "/?state=edited", None).await;
    follow(
        page(&shown, 200),
        &["<td class=\"warn\">", ">not live</a>", "<i>edited</i> <i>locked</i>"],
    );
    let hostile = "%22%3E%3Cscript%3Ealert(1)%3C/script%3E%E2%80%AE";
    let shown = browse(&deployer, &format!("/?q={hostile}&team={hostile}"), None).await;
    let text = page(&shown, 200);
    assert!(
        text.contains("value=\"&#34;&#62;&#60;script&#62;alert(1)&#60;/script&#62;\\u{202e}\""),
        "{text}"
    );
    deployer.settled().await;
}
