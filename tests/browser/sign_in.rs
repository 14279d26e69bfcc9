//! Signing in and out, at a GitHub that is another site.

use std::time::Duration;

use jiff::SignedDuration;
use serde_json::{Value as Json, json};
use tracing::Level;

use super::{SHOP, deploys, for_people, prepared, signs_in};
use crate::harness::browser::Page;
use crate::harness::log::CapturedLog;

/// All cookies of the browser, also those that no script sees.
async fn cookies(page: &Page) -> Vec<Json> {
    let all = page.cdp("Network.getAllCookies", json!({})).await;
    all["cookies"].as_array().unwrap().clone()
}

#[tokio::test]
async fn a_person_signs_in_with_github_and_comes_back_to_where_they_were() {
    let Some(page) = Page::take("sign-in in a browser").await else { return };
    let log = CapturedLog::of("", Level::TRACE);
    let (deployer, url) = for_people().await;
    let id = deploys(&deployer, "v1").await;
    let path = format!("/deployments/{id}");
    for scripts in [true, false] {
        page.scripts(scripts).await;
        page.open(&url, &path).await;
        assert_eq!(page.text("h1").await, "Account");
        assert_eq!(cookies(&page).await, Vec::<Json>::new(), "none before one signs in");
        page.assert_accessible().await;
        page.screenshot("sign-in").await;
        signs_in(&page, &deployer, &url, "ada", &path).await;
        assert_eq!(page.text("h1").await, "devx/shop to prod-cluster-1");
        let cookies = cookies(&page).await;
        let [cookie] = &cookies[..] else { panic!("{cookies:?}") };
        assert_eq!(
            (&cookie["name"], &cookie["sameSite"]),
            (&json!("the-deployer-session"), &json!("Lax"))
        );
        assert_eq!((&cookie["httpOnly"], &cookie["path"]), (&json!(true), &json!("/")));
        page.open(&url, "/account").await;
        assert!(page.text("main").await.contains("You have signed in as ada (by github)"));
        page.assert_accessible().await;
        page.press("Sign out").await;
        assert!(page.offers("Sign in with GitHub").await);
        page.open(&url, &path).await;
        assert_eq!(page.text("h1").await, "Account");
    }
    assert_eq!(page.console().await, Vec::<String>::new());
    for secret in ["ghu_", "c1ient-s3cret", "c0de-"] {
        assert!(!log.text().contains(secret), "{secret} in\n{}", log.text());
    }
    deployer.settled().await;
}

#[tokio::test]
async fn a_sign_in_that_github_or_its_person_refuses_says_so_and_another_browser_cannot_end_it() {
    let Some(page) = Page::take("sign-in in a browser").await else { return };
    let (deployer, url) = for_people().await;
    deployer.github.sits_at_browser("ada");
    page.open(&url, "/account").await;
    page.press("Sign in with GitHub").await;
    page.wait_for_text("h1", "Authorize the-deployer").await;
    page.press("Cancel").await;
    assert!(page.text("#refused").await.contains("you did not let GitHub tell"));
    // Somebody begins a sign-in and has another browser end it, in their own name.
    page.press("Sign in with GitHub").await;
    page.wait_for_text("h1", "Authorize the-deployer").await;
    page.cdp("Network.clearBrowserCookies", json!({})).await;
    page.press("Authorize").await;
    assert!(page.text("#refused").await.contains("begun in another browser"));
    // Or with a state of their own.
    page.press("Sign in with GitHub").await;
    page.wait_for_text("h1", "Authorize the-deployer").await;
    page.open(&url, "/sign-in/callback?code=c0de-1&state=AAAA").await;
    assert!(page.text("#refused").await.contains("begun in another browser"));
    // A sign-in takes ten minutes at most.
    page.press("Sign in with GitHub").await;
    page.wait_for_text("h1", "Authorize the-deployer").await;
    deployer.clock.advance(Duration::from_mins(10));
    page.press("Authorize").await;
    assert!(page.text("#refused").await.contains("more than ten minutes ago"));
    assert!(page.offers("Sign in with GitHub").await);
    deployer.settled().await;
}

#[tokio::test]
async fn a_session_ends_by_itself_everywhere_and_with_the_token() {
    let Some(page) = Page::take("sign-in in a browser").await else { return };
    let auth = "auth:\n  github: {}\n  sessions: {idle: 1h, longest: 3h}\n";
    let (mut deployer, url) = prepared(auth).await;
    deployer.starts().await;
    deployer.github.repository("example/shop");
    deployer.github.token_of("ada");
    let signed_in = async || {
        page.open(&url, "/account").await;
        page.offers("Sign out").await
    };
    let signs_in = async || {
        deployer.github.sits_at_browser("ada");
        page.open(&url, "/account").await;
        page.press("Sign in with GitHub").await;
        page.wait_for_text("h1", "Authorize the-deployer").await;
        page.press("Authorize").await;
    };
    signs_in().await;
    for _ in 0..2 {
        deployer.clock.advance(Duration::from_mins(59));
        assert!(signed_in().await, "it is used");
    }
    deployer.clock.advance(Duration::from_hours(1));
    assert!(!signed_in().await, "an hour without a request");
    signs_in().await;
    for _ in 0..3 {
        deployer.clock.advance(Duration::from_mins(58));
        assert!(signed_in().await);
    }
    deployer.clock.advance(Duration::from_mins(6));
    assert!(!signed_in().await, "three hours are over");
    // Another browser has a copy of the cookie.
    signs_in().await;
    assert!(signed_in().await);
    let copy = cookies(&page).await.remove(0);
    page.press("Sign out everywhere").await;
    let cookie = json!({"name": copy["name"], "value": copy["value"], "url": url});
    page.cdp("Network.setCookie", cookie.clone()).await;
    assert!(!signed_in().await, "it is ended at the service, not in one browser");
    let age = SignedDuration::from_hours(1);
    let store = deployer.stepped().store();
    assert_eq!(store.prune_sessions(deployer.clock.now(), age).await.unwrap(), 0);
    deployer.settled().await;
}

#[tokio::test]
async fn a_token_signs_in_where_one_is_written_and_a_wrong_one_does_not() {
    let Some(page) = Page::take("sign-in in a browser").await else { return };
    let (deployer, url) = for_people().await;
    deploys(&deployer, "v1").await;
    for (token, name) in [("t0ken-of-ci", "ci (by token)"), ("ghp_tokenOfada", "ada (by github)")] {
        page.open(&url, "/account?to=/deployments%3Flimit%3D1").await;
        page.fill("#token", "wr0ng").await;
        page.press("Sign in with a token").await;
        assert!(page.text("#refused").await.contains("GitHub token or a configured API token"));
        assert_eq!(page.attribute("#token", "value").await, None, "it is not shown again");
        page.fill("#token", token).await;
        page.press("Sign in with a token").await;
        assert_eq!(page.path().await, "/deployments?limit=1");
        page.open(&url, "/account").await;
        assert!(page.text("main").await.contains(name));
        page.press("Sign out").await;
    }
    // A sign-in leads to no other site.
    page.open(&url, "/account?to=https://evil.example/x").await;
    page.fill("#token", "t0ken-of-ci").await;
    page.press("Sign in with a token").await;
    assert_eq!(page.url().await, format!("{url}/"));
    deployer.settled().await;
}

#[tokio::test]
async fn open_pages_show_only_reading_and_acts_need_a_sign_in() {
    let Some(page) = Page::take("sign-in in a browser").await else { return };
    let auth = "auth:\n  pages: open\n  github: {}\n";
    let (mut deployer, url) = prepared(auth).await;
    deployer.starts().await;
    deployer.github.repository("example/shop").commit(&crate::harness::events::waml("shop"));
    let id = deploys(&deployer, "v1").await;
    page.open(&url, &format!("/deployments/{id}")).await;
    assert_eq!(page.text("h1").await, "devx/shop to prod-cluster-1");
    assert_eq!(cookies(&page).await, Vec::<Json>::new());
    let path = format!("{SHOP}/rollback");
    page.open(&url, &path).await;
    assert_eq!(page.text("h1").await, "Account", "an act needs a sign-in");
    // Somebody whom GitHub lets read nothing may read the open pages, and act on nothing.
    deployer.github.token_of("eve");
    signs_in(&page, &deployer, &url, "eve", &path).await;
    assert!(page.text("main").await.contains("may not see"), "{}", page.text("main").await);
    deployer.settled().await;
}
