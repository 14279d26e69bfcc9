//! The step `github`: the App is registered by its manifest, once, by the person at the browser and nobody else.

use std::fs;

use serde_json::{Value as Json, json};
use the_deployer::forge::github::app_manifest::AppManifest;

use super::{Browser, Outcome, Place, SERVICE, form_of, mode};
use crate::harness::github::{CLIENT_ID, CLIENT_SECRET, Fault, HOOK_SECRET};

/// Nothing of an App is there.
fn nothing_is_stored(place: &Place) {
    for name in ["github-app.json", "github-app.pem", "webhook-secret", "github-client-secret"] {
        assert!(!place.file(name).exists(), "{name}");
    }
}

#[tokio::test]
async fn an_app_is_registered_with_what_the_service_needs_and_its_secrets_are_nobody_elses() {
    let place = Place::new().await;
    let (run, url) = place.registers(&[]).await;
    let back = Browser::new().confirms(&url, &place.github.url()).await;
    let (status, page) = Browser::new().opens(&back).await;
    assert_eq!(status, 200, "{page}");
    assert!(page.contains("/apps/the-deployer/installations/new"), "{page}");
    let Outcome { code, text } = run.ends().await;
    assert_eq!(code, 0, "{text}");
    assert!(text.contains("registered the-deployer (424242) of acme"), "{text}");
    assert!(text.contains("/apps/the-deployer/installations/new"), "{text}");
    let expected = AppManifest {
        name: "the-deployer".to_owned(),
        service_url: SERVICE.to_owned(),
        redirect_url: back.split('?').next().unwrap().to_owned(),
        pushes: true,
    };
    assert_eq!(place.github.manifest().unwrap(), expected.to_json());
    let record: Json = serde_json::from_str(&place.read("github-app.json")).unwrap();
    assert_eq!(record["id"], 424_242);
    assert_eq!(record["client_id"], CLIENT_ID);
    assert_eq!(place.read("webhook-secret"), HOOK_SECRET);
    assert_eq!(place.read("github-client-secret"), CLIENT_SECRET);
    assert!(place.read("github-app.pem").starts_with("-----BEGIN"));
    for (name, _) in place.files() {
        assert_eq!(mode(&place.file(&name)), 0o600, "{name}");
    }
    assert_eq!(mode(&place.path("deployer")), 0o700);
    place.github.settled();
}

#[tokio::test]
async fn a_second_run_finds_the_app_and_changes_nothing() {
    let place = Place::new().await;
    let (run, url) = place.registers(&[]).await;
    let back = Browser::new().confirms(&url, &place.github.url()).await;
    Browser::new().opens(&back).await;
    assert_eq!(run.ends().await.code, 0);
    let files = place.files();
    place.github.repository("acme/shop");
    let Outcome { code, text } = place.runs(&["github"]).await;
    assert_eq!(code, 0, "{text}");
    assert!(text.contains("the App the-deployer (424242)"), "{text}");
    assert!(text.contains("installed at acme"), "{text}");
    assert!(!text.contains("to do") && !text.contains("lacks"), "{text}");
    assert_eq!(place.files(), files);
    place.github.settled();
}

#[tokio::test]
async fn a_code_of_somebody_else_is_turned_away_and_the_right_one_still_counts() {
    let place = Place::new().await;
    let (run, url) = place.registers(&[]).await;
    let browser = Browser::new();
    let origin = url.rsplit_once('/').unwrap().0;
    let foreign = place.github.foreign_code("evil");
    for (path, expected) in [
        ("/".to_owned(), 404),
        ("/0000".to_owned(), 404),
        (format!("/registered?code={foreign}"), 404),
        (format!("/registered?code={foreign}&state="), 404),
        (format!("/registered?code={foreign}&state={}", "0".repeat(64)), 404),
    ] {
        let (status, page) = browser.opens(&format!("{origin}{path}")).await;
        assert_eq!(status, expected, "{path}: {page}");
        assert!(!page.contains("state=") && !page.contains("manifest"), "{page}");
    }
    // A page of another site whose name leads here sees nothing.
    let rebound = browser.0.get(&url).header("host", "evil.example").send().await.unwrap();
    assert_eq!(rebound.status().as_u16(), 421);
    assert!(!rebound.text().await.unwrap().contains("state="));
    let posted = browser.0.post(&url).body("x").send().await.unwrap();
    assert_eq!(posted.status().as_u16(), 400);
    nothing_is_stored(&place);
    let back = browser.confirms(&url, &place.github.url()).await;
    assert_eq!(browser.opens(&back).await.0, 200);
    let Outcome { code, text } = run.ends().await;
    assert_eq!(code, 0, "{text}");
    place.github.settled();
}

#[tokio::test]
async fn a_code_is_used_once_even_while_the_first_exchange_is_under_way() {
    let place = Place::new().await;
    place.github.fails(1, "POST app-manifests", Fault::Held);
    let held = place.github.met("POST app-manifests");
    let (run, url) = place.registers(&[]).await;
    let browser = Browser::new();
    let back = browser.confirms(&url, &place.github.url()).await;
    let first = tokio::spawn({
        let (browser, back) = (Browser::new(), back.clone());
        async move { browser.opens(&back).await }
    });
    held.await;
    let (status, page) = browser.opens(&back).await;
    assert_eq!(status, 410, "{page}");
    place.github.lets_go();
    assert_eq!(first.await.unwrap().0, 200);
    let Outcome { code, text } = run.ends().await;
    assert_eq!(code, 0, "{text}");
    assert_eq!(place.github.count("POST app-manifests"), 1);
    place.github.settled();
}

#[tokio::test]
async fn a_code_that_github_does_not_know_any_more_leaves_nothing_behind() {
    let place = Place::new().await;
    let (run, url) = place.registers(&[]).await;
    let browser = Browser::new();
    let back = browser.confirms(&url, &place.github.url()).await;
    let code = reqwest::Url::parse(&back).unwrap();
    let code = code.query_pairs().find(|(name, _)| name == "code").unwrap().1.into_owned();
    let conversion = format!("{}/app-manifests/{code}/conversions", place.github.api_url());
    assert_eq!(browser.0.post(conversion).send().await.unwrap().status().as_u16(), 201);
    let (_, page) = browser.opens(&back).await;
    assert!(
        page.contains("was not registered") && page.contains("does not know the code"),
        "{page}"
    );
    let Outcome { code, text } = run.ends().await;
    assert_eq!(code, 1, "{text}");
    assert!(text.contains("a code works once, and for one hour"), "{text}");
    nothing_is_stored(&place);
    place.github.settled();
}

#[tokio::test]
async fn a_refusal_an_outage_and_another_owners_app_leave_nothing_behind() {
    for (fault, words) in [
        (Some(Fault::Status(503)), "HTTP 503"),
        (Some(Fault::CutBefore), "cannot be reached"),
        (None, "of evil, which nobody asked for here"),
    ] {
        let place = Place::new().await;
        let (mut run, _) = place.registers(&[]).await;
        if let Some(fault) = fault {
            place.github.fails(1, "POST app-manifests", fault);
        }
        let code = place.github.foreign_code("evil");
        run.types(&code).await;
        let Outcome { code: exit, text } = run.ends().await;
        assert_eq!(exit, 1, "{text}");
        assert!(text.contains(words), "{words}: {text}");
        assert!(!text.contains(&code), "a code is as good as a key: {text}");
        nothing_is_stored(&place);
        place.github.settled();
    }
}

#[tokio::test]
async fn without_a_browser_on_the_machine_the_address_is_pasted() {
    let place = Place::new().await;
    let (mut run, url) = place.registers(&[]).await;
    let back = Browser::new().confirms(&url, &place.github.url()).await;
    run.types("what do you want").await;
    run.says("neither a code nor an address").await;
    let state = back.find("state=").unwrap();
    run.types(&format!("{}state={}", &back[..state], "0".repeat(64))).await;
    run.says("of another registration").await;
    nothing_is_stored(&place);
    run.types(&back).await;
    let Outcome { code, text } = run.ends().await;
    assert_eq!(code, 0, "{text}");
    assert!(place.file("github-app.json").exists());
    place.github.settled();
}

#[tokio::test]
async fn it_gives_up_in_time_and_on_ctrl_c() {
    let place = Place::new().await;
    let (run, _) = place.registers(&["--timeout", "1s"]).await;
    let Outcome { code, text } = run.ends().await;
    assert_eq!(code, 1, "{text}");
    assert!(text.contains("no App was registered in time"), "{text}");
    let (run, _) = place.registers(&[]).await;
    run.interrupts();
    let Outcome { code, text } = run.ends().await;
    assert_eq!(code, 130, "{text}");
    nothing_is_stored(&place);
    place.github.settled();
}

#[tokio::test]
async fn hostile_values_are_text_on_the_page_and_refused_where_they_lead_elsewhere() {
    let place = Place::new().await;
    let name = "\"><script>alert('x')</script>&";
    let (run, url) = place.registers(&["--app-name", name]).await;
    let browser = Browser::new();
    let (_, page) = browser.opens(&url).await;
    assert!(!page.contains("<script"), "{page}");
    let manifest: Json = serde_json::from_str(&form_of(&page).manifest).unwrap();
    assert_eq!(manifest["name"], json!(name));
    run.interrupts();
    run.ends().await;
    let organization = ["--organization", "acme/../evil"];
    let listen = ["--listen", "0.0.0.0:0"];
    let service = ["--service-url", "http://deployer.example.com"];
    let api = ["--github-api", "http://github.example.com/api/v3"];
    for (arguments, words) in [
        (organization, "no name of an organization"),
        (listen, "names no address of this machine"),
        (service, "no https address"),
        (api, "no address of GitHub's API"),
    ] {
        let mut command = crate::cli::program("the-deployer", place.folder.path());
        let mut given = vec!["setup", "github"];
        for pair in [["--service-url", SERVICE], ["--organization", "acme"], ["--app-name", "x"]] {
            if pair[0] != arguments[0] {
                given.extend(pair);
            }
        }
        let output = command.args(given).args(arguments).output().unwrap();
        let text = crate::cli::said(&output);
        assert_eq!(output.status.code(), Some(2), "{text}");
        assert!(text.contains(words), "{words}: {text}");
    }
    nothing_is_stored(&place);
    place.github.settled();
}

#[tokio::test]
async fn a_key_that_is_there_is_never_replaced() {
    let place = Place::new().await;
    fs::create_dir(place.path("deployer")).unwrap();
    fs::write(place.file("github-app.pem"), "theirs").unwrap();
    let arguments =
        ["github", "--service-url", SERVICE, "--organization", "acme", "--app-name", "x"];
    let Outcome { code, text } = place.runs(&[&arguments[..], &["--force"]].concat()).await;
    assert_eq!(code, 1, "{text}");
    assert!(text.contains("move the file away"), "{text}");
    assert_eq!(place.read("github-app.pem"), "theirs");
    place.github.settled();
}

#[tokio::test]
async fn what_is_not_known_is_said_with_its_flag() {
    let place = Place::new().await;
    let Outcome { code, text } = place.runs(&["github"]).await;
    assert_eq!(code, 2, "{text}");
    assert!(text.contains("say it with --service-url"), "{text}");
    place.github.settled();
}
