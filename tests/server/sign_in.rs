//! Sessions and forms over bare HTTP: what a browser would never send, and others might.

use std::sync::LazyLock;
use std::time::Duration;

use reqwest::redirect::Policy;
use reqwest::{Client, Method, RequestBuilder};
use serde_json::Value;

use super::admission::{configure_people, get_as};
use super::reading::asking_for;
use super::shop::{SHOP, audited, deploys};
use super::world::{Answer, send};
use crate::harness::deployer::Deployer;

/// The pages of the shop's acts begin with this.
const PAGE: &str = "/apps/prod-cluster-1/devx/shop";

/// The public address of the service in all these tests.
pub(super) const OURS: &str = "https://deploy.example.com";

/// It follows no redirect: where one leads is what the tests are about.
static CLIENT: LazyLock<Client> = LazyLock::new(|| {
    the_deployer::support::http::install_tls_provider();
    let client = Client::builder().no_proxy().pool_max_idle_per_host(0).redirect(Policy::none());
    client.timeout(Duration::from_mins(3)).build().unwrap()
});

fn request(deployer: &Deployer, method: Method, path: &str) -> RequestBuilder {
    CLIENT.request(method, format!("{}{path}", deployer.url()))
}

/// A form as the browser of somebody at that site would send it.
pub(super) async fn send_form(
    deployer: &Deployer,
    path: &str,
    from: Option<&str>,
    cookie: Option<&str>,
    fields: &[(&str, &str)],
) -> Answer {
    let encode = |(name, value): &(&str, &str)| format!("{name}={}", value.replace(' ', "+"));
    let body = fields.iter().map(encode).collect::<Vec<_>>().join("&");
    let mut form = request(deployer, Method::POST, path)
        .header("content-type", "application/x-www-form-urlencoded")
        .header("accept", "text/html");
    if let Some(origin) = from {
        form = form.header("origin", origin);
    }
    if let Some(cookie) = cookie {
        form = form.header("cookie", cookie);
    }
    send(form.body(body)).await
}

pub(super) async fn open(deployer: &Deployer, path: &str, cookie: &str) -> Answer {
    let page = request(deployer, Method::GET, path).header("accept", "text/html");
    send(page.header("cookie", cookie)).await
}

/// Signs in with a token; the cookie, as a browser sends it back.
pub(super) async fn signs_in(deployer: &Deployer, token: &str) -> String {
    let form = [("token", token), ("to", "/")];
    let answer = send_form(deployer, "/sign-in/token", Some(OURS), None, &form).await;
    assert_eq!(answer.status, 303, "{answer:?}");
    assert_eq!(answer.headers["location"], "/");
    let cookie = answer.headers["set-cookie"].to_str().unwrap();
    let (pair, attributes) = cookie.split_once("; ").unwrap();
    assert!(pair.starts_with("__Host-the-deployer-session="), "{cookie}");
    assert_eq!(attributes, "Path=/; Max-Age=86400; HttpOnly; SameSite=Lax; Secure");
    pair.to_owned()
}

/// The value of a hidden field of a page.
pub(super) fn hidden(answer: &Answer, name: &str) -> String {
    let begin = format!("name=\"{name}\" value=\"");
    let (_, rest) = answer.text.split_once(&begin).unwrap_or_else(|| panic!("{answer:?}"));
    rest.split_once('"').unwrap().0.to_owned()
}

/// Two deployments of the shop, and somebody who has signed in.
async fn with_session() -> (Deployer, String) {
    let deployer = asking_for("t0ken", "token").await;
    deploys(&deployer, "v1").await;
    deploys(&deployer, "v2").await;
    let cookie = signs_in(&deployer, "t0ken").await;
    (deployer, cookie)
}

#[tokio::test]
async fn a_form_needs_the_session_its_token_and_its_own_site() {
    let (deployer, cookie) = with_session().await;
    let path = format!("{PAGE}/hold");
    let page = open(&deployer, &path, &cookie).await;
    assert_eq!(page.status, 200, "{page:?}");
    assert!(page.headers.get("set-cookie").is_none());
    let token = hidden(&page, "form_token");
    let other = signs_in(&deployer, "t0ken").await;
    let of_other = hidden(&open(&deployer, &path, &other).await, "form_token");
    assert_ne!(token, of_other, "each session has its own");
    let fields = |token: &str| {
        vec![("form_token".to_owned(), token.to_owned()), ("reason".to_owned(), "x".to_owned())]
    };
    for (from, cookie, token, status) in [
        (Some("https://evil.example"), Some(&*cookie), &*token, 403),
        (Some("null"), Some(&*cookie), &*token, 403),
        (Some("http://deploy.example.com"), Some(&*cookie), &*token, 403),
        (None, Some(&*cookie), &*token, 403),
        (Some(OURS), Some(&*cookie), "", 403),
        (Some(OURS), Some(&*cookie), &*of_other, 403),
        (Some(OURS), None, &*token, 303),
        (Some(OURS), Some("__Host-the-deployer-session=abc.def"), &*token, 303),
        (Some(OURS), Some(&cookie.replace("__Host-", "")), &*token, 303),
    ] {
        let fields = fields(token);
        let fields: Vec<_> = fields.iter().map(|(name, value)| (&**name, &**value)).collect();
        let answer = send_form(&deployer, &path, from, cookie, &fields).await;
        assert_eq!(answer.status.as_u16(), status, "{from:?} {cookie:?} {token}: {answer:?}");
        if status == 303 {
            assert!(answer.headers["location"].to_str().unwrap().starts_with("/account?to="));
        }
    }
    // A page of another site, as browsers say it beside the origin.
    let cross = request(&deployer, Method::POST, &path).header("sec-fetch-site", "cross-site");
    let cross = cross.header("origin", OURS).header("cookie", &cookie).body("");
    assert_eq!(send(cross).await.status, 403);
    // A password is sent along by browsers, and is no session.
    let basic = request(&deployer, Method::POST, &path).basic_auth("me", Some("t0ken"));
    assert_eq!(send(basic.header("origin", OURS).body("")).await.status, 303);
    assert!(audited(&deployer).await.is_empty());
    let fields = fields(&token);
    let fields: Vec<_> = fields.iter().map(|(name, value)| (&**name, &**value)).collect();
    let done = send_form(&deployer, &path, Some(OURS), Some(&cookie), &fields).await;
    assert_eq!((done.status.as_u16(), &done.headers["location"]), (303, &PAGE.parse().unwrap()));
    assert_eq!(audited(&deployer).await.len(), 1);
    // The API takes no cookie: it has no forms to check.
    let api = request(&deployer, Method::GET, SHOP).header("cookie", &cookie);
    send(api).await.problem(401, "unauthorized");
    deployer.settled().await;
}

#[tokio::test]
async fn nothing_is_done_by_get_and_a_form_that_is_sent_twice_acts_once() {
    let (deployer, cookie) = with_session().await;
    let path = format!("{PAGE}/rollback");
    let page = open(&deployer, &format!("{path}?reason=x&form_key=k"), &cookie).await;
    assert_eq!(page.status, 200, "{page:?}");
    assert!(audited(&deployer).await.is_empty());
    let (token, key, to) =
        (hidden(&page, "form_token"), hidden(&page, "form_key"), hidden(&page, "to"));
    let fields = [("form_token", &*token), ("form_key", &*key), ("to", &*to), ("reason", "x")];
    let once = send_form(&deployer, &path, Some(OURS), Some(&cookie), &fields).await;
    let twice = send_form(&deployer, &path, Some(OURS), Some(&cookie), &fields).await;
    assert_eq!((once.status.as_u16(), twice.status.as_u16()), (303, 303));
    assert_eq!(once.headers["location"], twice.headers["location"]);
    assert_eq!(audited(&deployer).await.len(), 1);
    // Too much, and too little.
    let long = "x".repeat(20_000);
    let fields = [("form_token", &*token), ("reason", &*long)];
    let answer = send_form(&deployer, &path, Some(OURS), Some(&cookie), &fields).await;
    assert!(answer.status.is_client_error(), "{answer:?}");
    deployer.settle().await;
    deployer.settled().await;
}

#[tokio::test]
async fn a_session_is_over_with_its_token_and_at_a_sign_out() {
    let (mut deployer, cookie) = with_session().await;
    let page = open(&deployer, "/account", &cookie).await;
    let token = hidden(&page, "form_token");
    assert_eq!(open(&deployer, "/", &cookie).await.status, 200);
    let forged =
        send_form(&deployer, "/sign-out", Some(OURS), Some(&cookie), &[("form_token", "x")]);
    assert_eq!(forged.await.status, 403);
    let fields = [("form_token", &*token)];
    let out = send_form(&deployer, "/sign-out", Some(OURS), Some(&cookie), &fields).await;
    assert_eq!(out.status, 303);
    let removal = out.headers["set-cookie"].to_str().unwrap();
    assert!(removal.contains("Max-Age=0"), "{removal}");
    assert_eq!(
        open(&deployer, "/", &cookie).await.status,
        303,
        "a copy of the cookie is of no use"
    );
    // Sessions outlive a restart, and not the token in the configuration.
    let cookie = signs_in(&deployer, "t0ken").await;
    deployer.dies();
    deployer.starts().await;
    assert_eq!(open(&deployer, "/", &cookie).await.status, 200);
    deployer.dies();
    deployer.variable("API_TOKEN", "an0ther");
    deployer.starts().await;
    assert_eq!(open(&deployer, "/", &cookie).await.status, 303);
    deployer.variable("API_TOKEN", "t0ken");
    deployer.dies();
    deployer.starts().await;
    assert_eq!(open(&deployer, "/", &cookie).await.status, 303, "it was ended");
    deployer.settled().await;
}

#[tokio::test]
async fn wrong_tokens_are_limited_as_everywhere_and_github_decides_at_each_request() {
    let mut deployer = Deployer::prepared().await;
    configure_people(&mut deployer);
    deployer.starts().await;
    let token = deployer.github.token_of("ada");
    let cookie = signs_in(&deployer, &token).await;
    assert_eq!(open(&deployer, "/", &cookie).await.status, 200);
    let whoami = get_as(&deployer, &token, "/api/v1/whoami").await;
    assert_eq!(whoami.json()["name"], "ada");
    let form = [("token", "wr0ng"), ("to", "/")];
    let mut statuses = Vec::new();
    for _ in 0..31 {
        let answer = send_form(&deployer, "/sign-in/token", Some(OURS), None, &form).await;
        assert!(answer.headers.get("set-cookie").is_none() && !answer.text.contains("wr0ng"));
        statuses.push(answer.status.as_u16());
    }
    assert_eq!((statuses[29], statuses[30]), (401, 429), "{statuses:?}");
    // Whoever has signed in goes on, until GitHub knows the token no more.
    assert_eq!(open(&deployer, "/", &cookie).await.status, 200);
    deployer.github.revokes("ada");
    deployer.clock.advance(Duration::from_mins(20));
    let page = open(&deployer, &format!("{PAGE}/hold"), &cookie).await;
    assert_eq!(page.status, 303, "{page:?}");
    assert!(page.headers["location"].to_str().unwrap().starts_with("/account?to="));
    assert!(page.headers["set-cookie"].to_str().unwrap().contains("Max-Age=0"));
    assert!(audited(&deployer).await.is_empty());
    deployer.settled().await;
}

#[tokio::test]
async fn the_database_has_neither_a_cookie_nor_a_token() {
    let mut deployer = Deployer::prepared().await;
    configure_people(&mut deployer);
    deployer.starts().await;
    let token = deployer.github.token_of("ada");
    let cookie = signs_in(&deployer, &token).await;
    let mut other = deployer.another_connection().await;
    let rows = sqlx::query("SELECT id, account, name, sealed, digest FROM sessions");
    let rows = rows.fetch_all(&mut other).await.unwrap();
    assert_eq!(rows.len(), 1);
    let (_, value) = cookie.split_once('=').unwrap();
    let id = value.split('.').next().unwrap();
    for column in ["id", "account", "name", "sealed", "digest"] {
        let text: Option<String> = sqlx::Row::get(&rows[0], column);
        let text = text.unwrap_or_default();
        assert!(!text.contains(id) && !text.contains(&token), "{column} {text}");
        assert!(!text.contains(&hex::encode(&token)), "{column} {text}");
    }
    let _: Value = get_as(&deployer, &token, "/api/v1/whoami").await.json();
    deployer.settled().await;
}
