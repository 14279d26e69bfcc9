//! Pages that change while somebody reads them: in place, over connections that break, and behind proxies that hold
//! streams back.

use std::time::Duration;

use reqwest::Method;
use serde_json::json;
use the_deployer::model::deployment::State;

use super::{SHOP, TARGET, deploys};
use crate::harness::browser::Page;
use crate::harness::buffering::BufferingProxy;
use crate::harness::deployer::Deployer;
use crate::harness::events::waml;
use crate::harness::link::{Link, LinkState};
use crate::harness::process::client;
use crate::progress::canaries::{canary, halted};
use crate::progress::cluster::{Pods, Watched};

/// A service with a shop that is live.
async fn with_shop() -> Deployer {
    let deployer = Deployer::start().await;
    deployer.github.repository("example/shop").commit(&waml("shop"));
    deploys(&deployer, "v1").await;
    deployer
}

/// The shop is asked for once more; the path of the deployment that waits.
async fn asks(deployer: &Deployer, tag: &str) -> String {
    deployer.clock.advance(Duration::from_secs(1));
    let number = deployer.github.repository("example/shop").deploys(TARGET, tag).await;
    format!("/deployments/{}", deployer.deployment(number).await.id)
}

async fn locks(deployer: &Deployer, reason: &str) {
    let body = json!({"scope": {"target": TARGET, "app": "devx/shop"}, "reason": reason});
    let url = format!("{}/api/v1/locks", deployer.url());
    let answer = client().request(Method::POST, url).json(&body).send().await.unwrap();
    assert_eq!(answer.status(), 201);
}

/// The reader has the keyboard on that element and has scrolled to it.
async fn rests_on(page: &Page, css: &str) {
    let script = "const one = document.querySelector(arguments[0]); one.focus({preventScroll: true}); \
                  one.scrollIntoView({block: 'center'}); window.rest = one; \
                  window.top_of_rest = one.getBoundingClientRect().top; return window.scrollY";
    let scrolled = page.run(script, json!([css])).await;
    assert!(scrolled.as_f64().unwrap() > 0.0, "{css} is at the top of the page");
}

/// The reader is where they were, on a page that was not loaded again.
async fn assert_rests(page: &Page) {
    let script = "return window.rest !== undefined && document.activeElement === window.rest && \
                  Math.abs(window.rest.getBoundingClientRect().top - window.top_of_rest) < 3";
    page.wait_until(script, json!([])).await;
}

#[tokio::test]
async fn a_page_that_changes_in_place_keeps_scroll_focus_and_what_its_reader_has_opened() {
    let Some(page) = Page::take("live pages in a browser").await else { return };
    let deployer = with_shop().await;
    let second = deploys(&deployer, "v2").await;
    page.resize(700, 260).await;
    // An app: more rows come above.
    page.open(&deployer.url(), SHOP).await;
    rests_on(&page, "p > a[href^='/deployments?target=']").await;
    let third = deploys(&deployer, "v3").await;
    page.wait_for_text(&format!("#r-{third}"), "v3").await;
    assert_rests(&page).await;
    // The grid: a cell changes, and what is typed stays.
    page.open(&deployer.url(), "/").await;
    page.fill("input[name=q]", "sho").await;
    rests_on(&page, &format!("td > a[href='{SHOP}']")).await;
    locks(&deployer, "the sale").await;
    page.wait_for_text(".grid td", "locked").await;
    assert_rests(&page).await;
    // A WAML that cannot be read is a failure of the app that is live; the icon of the tab says so, too.
    let shop = deployer.github.repository("example/shop");
    shop.commit("slug: [");
    deploys(&deployer, "v3.1").await;
    page.wait_for_text(".grid td", "WAML unreadable").await;
    assert_rests(&page).await;
    let icon = page.attribute("#icon", "href").await;
    assert!(icon.is_some_and(|icon| icon.ends_with("/icon-bad.svg")));
    shop.commit(&waml("shop"));
    assert_eq!(
        page.run("return document.querySelector('input[name=q]').value", json!([])).await,
        "sho"
    );
    // A deployment, of which the whole page changes.
    let path = asks(&deployer, "v4").await;
    page.open(&deployer.url(), &path).await;
    rests_on(&page, "p > a[href$='/json']").await;
    deployer.settle().await;
    // It is locked.
    page.wait_for_text(".summary .badge", "failed").await;
    // The keyboard stays on the link, also where the link is a new one.
    let focus = page.run("return document.activeElement.getAttribute('href')", json!([])).await;
    assert_eq!(focus, json!(format!("{path}/json")));
    // Neither is a choice taken away.
    page.open(&deployer.url(), &format!("{SHOP}?from={second}&to={third}")).await;
    page.run("document.querySelector('form.filter select').focus(); window.rest = document.activeElement", json!([])).await;
    let fourth = deploys(&deployer, "v5").await;
    page.wait_for_text("main", &fourth).await;
    let script = "return window.rest !== undefined && document.activeElement === window.rest";
    assert_eq!(page.run(script, json!([])).await, json!(true));
    assert_eq!(page.console().await, Vec::<String>::new());
    deployer.settled().await;
}

#[tokio::test]
async fn a_stream_that_is_cut_is_begun_again_and_misses_nothing() {
    let Some(page) = Page::take("live pages in a browser").await else { return };
    let deployer = with_shop().await;
    let link = Link::tcp(deployer.url().trim_start_matches("http://")).await;
    page.open(&format!("http://{}", link.address()), SHOP).await;
    page.run("window.loaded = 1", json!([])).await;
    deploys(&deployer, "v2").await;
    page.wait_for_text("#revisions ~ table", "v2").await;
    link.set(LinkState::Closed);
    deploys(&deployer, "v3").await;
    page.wait_for_text("#connection", "No live updates; trying again.").await;
    assert!(!page.text("main").await.contains("v3"));
    link.set(LinkState::Open);
    page.wait_for_text("#revisions ~ table", "v3").await;
    page.wait_until("return document.getElementById('connection').hidden", json!([])).await;
    // It goes on from there.
    deploys(&deployer, "v4").await;
    page.wait_for_text("#revisions ~ table", "v4").await;
    assert_eq!(page.run("return window.loaded", json!([])).await, json!(1), "in place");
    deployer.settled().await;
}

#[tokio::test]
async fn behind_a_proxy_that_holds_streams_back_a_page_loads_itself_again() {
    let Some(page) = Page::take("live pages in a browser").await else { return };
    let deployer = with_shop().await;
    let proxy = BufferingProxy::before(deployer.url().trim_start_matches("http://")).await;
    // A minute goes by in three seconds.
    let quick = "const slow = window.setTimeout; \
                 window.setTimeout = (act, time, ...rest) => slow(act, time / 20, ...rest);";
    let script = page.cdp("Page.addScriptToEvaluateOnNewDocument", json!({"source": quick})).await;
    page.open(&proxy.url, SHOP).await;
    page.run("window.loaded = 1", json!([])).await;
    deploys(&deployer, "v2").await;
    page.wait_for_text("#revisions ~ table", "v2").await;
    page.wait_for_text("#connection", "No live updates; trying again.").await;
    deploys(&deployer, "v3").await;
    page.wait_for_text("#revisions ~ table", "v3").await;
    assert_eq!(page.run("return window.loaded", json!([])).await, json!(1), "in place");
    page.cdp(
        "Page.removeScriptToEvaluateOnNewDocument",
        json!({"identifier": script["identifier"]}),
    )
    .await;
    // Without scripts the browser itself does it.
    page.scripts(false).await;
    let path = asks(&deployer, "v4").await;
    page.open(&proxy.url, &path).await;
    assert_eq!(page.text(".summary .badge").await, "queued");
    deployer.settle().await;
    page.wait_for_text(".summary .badge", "succeeded").await;
    deployer.settled().await;
}

#[tokio::test]
async fn a_canary_moves_on_the_pages_of_its_app_and_its_deployment() {
    let Some(page) = Page::take("live pages in a browser").await else { return };
    let deployer = Deployer::prepared().await;
    let world = Watched::start(deployer, ", policies: {on_canary_failure: keep}").await;
    let shop = world.app("shop");
    let id = world.push(&shop, "v1").await;
    // Complete it would be finished where the watch of the Canary is slower.
    let pods = Pods { updated: 1, available: 0 };
    world.sync(id, "shop", 1).await;
    world.server.apply(canary(1, "Progressing", 0, 0));
    world.bring(id, "shop", 1, pods).await;
    world.server.apply(halted("success rate 61.39% < 99%"));
    world.canary_reaches(id, 10, 0, 2).await;
    let deployment = format!("/deployments/{}", world.deployer.deployment(id).await.id);
    let url = world.deployer.url();
    let mut version = 3;
    for (path, weights) in [(SHOP, [20, 30]), (&*deployment, [40, 50])] {
        page.open(&url, path).await;
        for (failed, weight) in (1..).zip(weights) {
            world.deployer.clock.advance(Duration::from_secs(30));
            world.canary_reaches(id, weight, failed, version).await;
            version += 1;
            let sentence = format!("{weight} % of the traffic, {failed} of 3 checks failed");
            page.wait_for_text("figcaption", &sentence).await;
        }
        assert!(page.text("figure .complaints").await.contains("success rate 61.39% < 99%"));
        // A table beneath has the same; by the keyboard the values of the plot are read.
        page.press("Table of Deployment devx/shop").await;
        let table = page.text("figure table").await;
        assert!(table.contains(&format!("{} %", weights[1])), "{table}");
        let script = "const plot = document.querySelector('svg.plot'); plot.focus(); \
                      plot.dispatchEvent(new KeyboardEvent('keydown', {key: 'ArrowLeft', bubbles: true})); \
                      return document.activeElement.getAttribute('aria-label')";
        let value = page.run(script, json!([])).await;
        assert!(
            value.as_str().unwrap().contains(&format!("{} % of the traffic", weights[1])),
            "{value}"
        );
        for (name, width, scheme) in [("400-dark", 400, "dark"), ("1280-light", 1280, "light")] {
            page.resize(width, 800).await;
            page.colors(scheme).await;
            page.assert_fits().await;
            page.assert_accessible().await;
            let kind = if path == SHOP { "app" } else { "deployment" };
            page.screenshot(&format!("canary-{kind}-{name}")).await;
        }
    }
    page.scripts(false).await;
    page.open(&url, &deployment).await;
    assert_eq!(page.count("svg.plot path.p50").await, 1, "the plot needs no script");
    assert_eq!(page.console().await, Vec::<String>::new());
    world.server.apply(canary(version, "Succeeded", 0, 0));
    world.reaches(id, State::Succeeded).await;
    world.ends().await;
}

#[tokio::test]
async fn the_log_of_a_container_is_shown_and_does_nothing() {
    let Some(page) = Page::take("live pages in a browser").await else { return };
    let deployer = Deployer::prepared().await;
    let world = Watched::start(deployer, "").await;
    let shop = world.app("shop");
    let id = world.push(&shop, "v1").await;
    let hostile = "<img src=x onerror=pwned=1><script>pwned=1</script> \u{202e}gnihtyna &amp; ";
    let log = format!("{hostile}{}\n", "x".repeat(300));
    world.crashes_with(id, "shop", &log).await;
    let path = format!("/deployments/{}", world.deployer.deployment(id).await.id);
    for width in [400, 1280] {
        page.resize(width, 800).await;
        page.open(&world.deployer.url(), &path).await;
        page.assert_fits().await;
        let text = page.text("section[aria-labelledby=container-log]").await;
        assert!(text.contains("<script>pwned=1</script>") && text.contains("&amp;"), "{text}");
        assert!(text.contains("gnihtyna") && !text.contains('\u{202e}'), "{text}");
        let script = "return [typeof window.pwned, document.querySelectorAll('main img, main script').length]";
        assert_eq!(page.run(script, json!([])).await, json!(["undefined", 0]));
        page.screenshot(&format!("hostile-log-{width}")).await;
        page.assert_accessible().await;
    }
    assert_eq!(page.console().await, Vec::<String>::new());
    world.recovers(id, "shop").await;
    world.ends().await;
}
