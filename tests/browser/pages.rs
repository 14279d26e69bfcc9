//! Each page: the same with and without scripts, for everybody, in every size and colour; and what strangers write is
//! only shown.

use std::time::Duration;

use reqwest::Method;
use serde_json::{Value as Json, json};

use super::{SHOP, TARGET, deploys, for_people, signs_in};
use crate::harness::browser::Page;
use crate::harness::deployer::Deployer;
use crate::harness::events::waml;
use crate::harness::process::client;

/// Text that does something where it is not escaped, and that is too long for any page.
const HOSTILE: &str =
    "<img src=x onerror=pwned=1><script>pwned=1</script>\" onfocus=pwned=1 autofocus x=\"";

/// A service with a deployment that has succeeded and one that was refused.
async fn with_two() -> Deployer {
    let deployer = Deployer::start().await;
    let shop = deployer.github.repository("example/shop");
    shop.commit(&waml("shop"));
    shop.deploys("prod-cluster-1", "v1").await;
    deployer.settle().await;
    shop.commit(&waml("shop").replace("servicePort: 8000", "servicePort: 80"));
    shop.deploys("prod-cluster-1", "v2").await;
    deployer.settle().await;
    deployer
}

async fn posts(deployer: &Deployer, path: &str, body: Json) -> Json {
    let url = format!("{}/api/v1{path}", deployer.url());
    let answer = client().request(Method::POST, url).json(&body).send().await.unwrap();
    let (status, text) = (answer.status(), answer.text().await.unwrap());
    assert!(status.is_success(), "{path}: {status} {text}");
    serde_json::from_str(&text).unwrap()
}

/// A service in which every page has something to show, and the paths of the pages with their names. Whatever people may
/// write has this text in it.
async fn with_everything(text: &str) -> (Deployer, Vec<(&'static str, String)>) {
    let mut deployer = Deployer::prepared().await;
    // It is a Saturday.
    let clusters = format!(
        "clusters:\n- {{name: {TARGET}, environment: development, domain: example.com, policies: {{windows: [\
         {{days: wed, from: \"12:00\", to: \"13:00\", closed: true, reason: {}}}]}}}}\n\
         - {{name: dev, environment: development, domain: dev.example.com}}\n",
        json!(format!("lunch {text}"))
    );
    deployer.configure(|config| format!("{config}{clusters}"));
    deployer.starts().await;
    let steps =
        "    steps:\n    - targets: [dev]\n    - approval: {}\n    - targets: [prod-cluster-1]\n";
    let shop = waml("shop").replace("deploy:\n", "deploy:\n  dev: {}\n");
    let shop = format!("{shop}rollouts:\n  production:\n{steps}");
    deployer.github.repository("example/shop").commit(&shop);
    let first = deploys(&deployer, "v1").await;
    let second = deploys(&deployer, "v2").await;
    // One of which nothing was ever pushed.
    let cart = deployer.github.repository("example/cart");
    let broken = waml("cart")
        .replace("hostPrefix: cart", &format!("hostPrefix: {}", json!(format!("cart {text}"))));
    cart.commit(&broken);
    cart.deploys(TARGET, "v1").await;
    deployer.settle().await;
    let failed = deployer.deployments().await.pop().unwrap().id;
    deployer.clock.advance(Duration::from_secs(1));
    let lock =
        json!({"scope": {"target": TARGET, "app": "devx/cart"}, "reason": format!("sale {text}")});
    posts(&deployer, "/locks", lock).await;
    let rollout = json!({
        "repository": "example/shop", "ref": "main", "tag": "v3", "name": "production", "reason": format!("fair {text}"),
    });
    let rollout = posts(&deployer, "/rollouts", rollout).await;
    posts(&deployer, &format!("{SHOP}/hold"), json!({"reason": format!("fix {text}")})).await;
    deployer.works().await;
    let pages = [
        ("grid", "/".to_owned()),
        ("app", format!("{SHOP}?from={first}&to={second}")),
        ("unpushed-app", format!("/apps/{TARGET}/devx/cart")),
        ("list", "/deployments".to_owned()),
        ("deployment", format!("/deployments/{second}")),
        ("failed-deployment", format!("/deployments/{failed}")),
        ("rollouts", "/rollouts".to_owned()),
        ("rollout", format!("/rollouts/{}", rollout["id"].as_str().unwrap())),
        ("locks", "/locks".to_owned()),
        ("insights", "/insights?window=24h".to_owned()),
        ("audit", "/audit".to_owned()),
        ("system", "/system".to_owned()),
        ("account", "/account".to_owned()),
        ("nothing", "/nothing".to_owned()),
    ];
    (deployer, pages.into())
}

/// The rollout that waits ends, so that nothing is left.
async fn ends(deployer: Deployer, pages: &[(&str, String)]) {
    let (_, path) = pages.iter().find(|(name, _)| *name == "rollout").unwrap();
    posts(&deployer, &format!("{path}/cancel"), json!({"reason": "over"})).await;
    deployer.settle().await;
    deployer.settled().await;
}

#[tokio::test]
async fn a_deployment_reads_the_same_with_and_without_scripts() {
    let Some(page) = Page::take("pages in a browser").await else { return };
    let deployer = with_two().await;
    let newest = deployer.deployments().await.pop().unwrap().id;
    for scripts in [true, false] {
        page.scripts(scripts).await;
        page.open(&deployer.url(), &format!("/deployments/{newest}")).await;
        assert!(page.title().await.ends_with("the-deployer"));
        assert_eq!(page.text("h1").await, "devx/shop to prod-cluster-1");
        assert_eq!(page.text(".summary .badge").await, "failed");
        assert_eq!(page.count("ol.complaints > li").await, 1);
        page.press("the-deployer").await;
        assert_eq!(page.path().await, "/");
        assert_eq!(page.count("h1").await, 1);
    }
    assert_eq!(page.console().await, Vec::<String>::new());
    deployer.settled().await;
}

#[tokio::test]
async fn every_page_is_accessible_in_every_size_and_colour_and_reads_the_same_without_scripts() {
    let Some(page) = Page::take("pages in a browser").await else { return };
    let (deployer, pages) = Box::pin(with_everything("")).await;
    let url = deployer.url();
    for (name, path) in &pages {
        for (width, scheme) in [(400, "light"), (400, "dark"), (1280, "light"), (3840, "dark")] {
            page.resize(width, 800).await;
            page.colors(scheme).await;
            page.open(&url, path).await;
            page.assert_fits().await;
            page.assert_accessible().await;
            let color = "return getComputedStyle(document.body).colorScheme";
            assert_eq!(page.run(color, json!([])).await, "light dark");
            page.screenshot(&format!("{name}-{width}-{scheme}")).await;
        }
        assert_eq!(page.count("h1").await, 1, "{name}");
        // Times are local with scripts; everything else is the same.
        let with_scripts = page.texts("h1, h2, h3, dt, .badge, main nav a, button").await;
        page.scripts(false).await;
        page.open(&url, path).await;
        assert_eq!(
            page.texts("h1, h2, h3, dt, .badge, main nav a, button").await,
            with_scripts,
            "{name}"
        );
        page.scripts(true).await;
    }
    // The page of nothing is an answer with 404, which the browser says.
    let console = page.console().await;
    let complaints: Vec<_> = console.iter().filter(|line| !line.contains("/nothing ")).collect();
    assert_eq!(complaints, Vec::<&String>::new());
    ends(deployer, &pages).await;
}

#[tokio::test]
async fn what_strangers_write_is_shown_and_does_nothing() {
    let Some(page) = Page::take("pages in a browser").await else { return };
    let text = format!("{HOSTILE}{}", "x".repeat(300));
    let (deployer, pages) = Box::pin(with_everything(&text)).await;
    let mut shown = Vec::new();
    for (name, path) in &pages {
        for width in [400, 1280] {
            page.resize(width, 800).await;
            page.open(&deployer.url(), path).await;
            page.assert_fits().await;
        }
        let script = "return [typeof window.pwned, document.querySelectorAll('main script, main img, [onfocus], [onerror], \
                      [autofocus]').length, document.body.innerText.includes(arguments[0])]";
        let [pwned, elements, is_shown]: [Json; 3] =
            serde_json::from_value(page.run(script, json!([HOSTILE])).await).unwrap();
        assert_eq!((pwned, elements), (json!("undefined"), json!(0)), "{name}");
        if is_shown == json!(true) {
            shown.push(*name);
        }
        page.screenshot(&format!("hostile-{name}")).await;
    }
    let expected = ["app", "unpushed-app", "rollout", "locks", "audit"];
    assert!(expected.iter().all(|name| shown.contains(name)), "{shown:?}");
    // In an address it is only text, too.
    let query = HOSTILE.replace(' ', "%20").replace('"', "%22").replace('<', "%3C");
    for path in [
        "/?q=",
        "/deployments?actor=",
        "/rollouts?app=devx/",
        "/audit?by=",
        "/apps/",
        "/locks/new?owner=",
    ] {
        page.open(&deployer.url(), &format!("{path}{query}")).await;
        let script = "return [typeof window.pwned, document.querySelectorAll('main script, main img').length]";
        assert_eq!(page.run(script, json!([])).await, json!(["undefined", 0]), "{path}");
    }
    let console = page.console().await;
    let complaints: Vec<_> = console
        .iter()
        .filter(|line| !line.contains("the server responded with a status of 4"))
        .collect();
    assert_eq!(complaints, Vec::<&String>::new());
    ends(deployer, &pages).await;
}

#[tokio::test]
async fn a_person_sees_their_app_also_where_its_first_deployment_failed() {
    let Some(page) = Page::take("pages in a browser").await else { return };
    let (deployer, url) = for_people().await;
    deployer
        .github
        .repository("example/shop")
        .commit(&waml("shop").replace("servicePort: 8000", "servicePort: 80"));
    let id = deploys(&deployer, "v1").await;
    signs_in(&page, &deployer, &url, "eve", "/").await;
    assert_eq!(page.text(".grid td").await, "never live failed");
    page.press("never live").await;
    assert_eq!(page.path().await, format!("/deployments/{id}"));
    deployer.settled().await;
}

#[tokio::test]
async fn the_page_of_locks_leads_to_locking_a_target_for_those_who_may() {
    let Some(page) = Page::take("pages in a browser").await else { return };
    let (deployer, url) = for_people().await;
    deploys(&deployer, "v1").await;
    deployer.github.token_of("root");
    deployer.github.joins("root", "example/ops");
    signs_in(&page, &deployer, &url, "root", "/locks").await;
    assert!(page.offers("Lock everything").await);
    page.fill("input[name=target]", TARGET).await;
    page.press("Lock this target").await;
    assert_eq!(page.text("h1").await, format!("Lock everything on {TARGET}"));
    page.fill("#reason", "the sale").await;
    page.press("Lock").await;
    assert_eq!(page.path().await, "/locks");
    assert!(page.text("main").await.contains("the sale"));
    page.assert_accessible().await;
    page.screenshot("locks-of-an-administrator").await;
    page.press(&format!("Remove the lock on everything on {TARGET}")).await;
    page.fill("#reason", "over").await;
    page.press("Remove the lock").await;
    assert_eq!(page.path().await, "/locks");
    assert!(page.text("main").await.contains("Nothing is locked."));
    // Somebody who may not is offered nothing.
    page.open(&url, "/account").await;
    page.press("Sign out").await;
    signs_in(&page, &deployer, &url, "eve", "/locks").await;
    assert!(!page.offers("Lock everything").await && !page.offers("Lock this target").await);
    assert_eq!(page.console().await, Vec::<String>::new());
    deployer.settled().await;
}

/// A key of the keyboard, by its name and its number.
async fn types(page: &Page, key: &str, number: u32) {
    for kind in ["rawKeyDown", "keyUp"] {
        let event = json!({"type": kind, "key": key, "code": key, "windowsVirtualKeyCode": number});
        page.cdp("Input.dispatchKeyEvent", event).await;
    }
}

#[tokio::test]
async fn a_page_is_used_by_keyboard_and_what_has_the_focus_is_seen() {
    let Some(page) = Page::take("pages in a browser").await else { return };
    let deployer = with_two().await;
    let newest = deployer.deployments().await.pop().unwrap().id;
    let focus = "const at = document.activeElement; const style = getComputedStyle(at); \
         const box = at.getBoundingClientRect(); \
         return [at === document.body ? '' : `${at.nodeName} ${at.getAttribute('href') ?? at.name ?? ''}`, \
         style.outlineStyle !== 'none' && parseFloat(style.outlineWidth) >= 2 && box.width > 0 && box.left >= 0]";
    let count = "return [...document.querySelectorAll('a[href], button, input:not([type=hidden]), select, summary, [tabindex=\"0\"]')] \
         .filter(one => one.checkVisibility()).length";
    for path in ["/", SHOP, &format!("/deployments/{newest}"), "/locks", "/insights?window=24h"] {
        page.open(&deployer.url(), path).await;
        let all = page.run(count, json!([])).await.as_u64().unwrap();
        let mut reached: Vec<String> = Vec::new();
        loop {
            types(&page, "Tab", 9).await;
            let (name, is_seen): (String, bool) =
                serde_json::from_value(page.run(focus, json!([])).await).unwrap();
            if name.is_empty() || reached.len() as u64 > 2 * all {
                break;
            }
            // The values of a plot show themselves in place of an outline.
            assert!(is_seen || name.starts_with('g'), "{path}: {name} has the focus unseen");
            reached.push(name);
        }
        assert_eq!(reached[0], "A #main", "{path}");
        assert!(reached.len() as u64 >= all, "{path}: {all} are not {reached:?}");
    }
    deployer.settled().await;
}

#[tokio::test]
async fn on_paper_there_is_what_is_read_and_nothing_that_is_pressed() {
    let Some(page) = Page::take("pages in a browser").await else { return };
    let deployer = with_two().await;
    page.open(&deployer.url(), SHOP).await;
    page.colors("dark").await;
    page.cdp("Emulation.setEmulatedMedia", json!({"media": "print"})).await;
    let seen = "return [...document.querySelectorAll(arguments[0])].filter(one => one.checkVisibility()).length";
    for css in ["nav", "form", ".skip"] {
        assert_eq!(page.run(seen, json!([css])).await, 0, "{css}");
    }
    assert!(page.run(seen, json!(["h1, h2, table"])).await.as_u64() > Some(3));
    let colors = "return [getComputedStyle(document.body).backgroundColor, getComputedStyle(document.body).color]";
    assert_eq!(page.run(colors, json!([])).await, json!(["rgb(255, 255, 255)", "rgb(0, 0, 0)"]));
    page.screenshot("app-print").await;
    let paper = page.cdp("Page.printToPDF", json!({"printBackground": true})).await;
    assert!(paper["data"].as_str().is_some_and(|data| data.len() > 10_000), "it is printed");
    page.cdp("Emulation.setEmulatedMedia", json!({"media": ""})).await;
    deployer.settled().await;
}
