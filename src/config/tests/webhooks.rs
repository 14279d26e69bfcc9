//! Programs that receive events, Argo CDs that hear of pushes, and who may see the pages.

use super::{loaded, refused};
use crate::config::file::auth::Pages;
use crate::model::announcement::Announcement;

const KEY: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

#[test]
fn a_webhook_gets_every_event_unless_some_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let key = folder.path().join("key");
    std::fs::write(&key, KEY).unwrap();
    let text = format!(
        "notify:\n  webhooks:\n  - {{name: all, url: 'https://a.example.com/in', secret: {{file: {0}}}}}\n  \
         - {{name: ends, url: 'http://127.0.0.1:1/', secret: {{file: {0}}}, events: [pipelinerun.finished]}}\n",
        key.display()
    );
    let webhooks = loaded(&text).settings.event_webhooks;
    let [all, ends] = webhooks.as_slice() else { panic!("two") };
    assert_eq!((all.name.as_str(), all.url.as_str()), ("all", "https://a.example.com/in"));
    assert_eq!(all.events, Announcement::ALL);
    assert_eq!(ends.events, [Announcement::Finished]);
    assert!(!format!("{webhooks:?}").contains("MfKQ9r8"), "a secret does not print");
}

#[test]
fn a_webhook_that_cannot_be_meant_is_told_at_its_place() {
    let text = refused(
        "notify:\n  webhooks:\n  \
         - {name: a, url: 'http://warehouse.example.com/in', secret: {env: TOKEN}}\n  \
         - {name: a, url: 'https://me:pw@warehouse.example.com', secret: {env: NONE}}\n  \
         - {name: b, url: 'https://w.example.com', secret: {env: TOKEN}, events: []}\n",
    );
    for part in [
        "3:20: events would go over the network in the clear",
        "3:55: this is not a signing secret",
        "there is a webhook called a already",
        "the variable NONE is not set",
        "it would get no event at all",
    ] {
        assert!(text.contains(part), "{part} is missing in\n{text}");
    }
    assert!(!text.contains("me:pw"), "{text}");
}

#[test]
fn a_webhook_with_words_that_are_not_known_is_told_of_them_and_of_nothing_else() {
    let text = refused(
        "notify:\n  webhooks:\n  \
         - {name: c, url: 'https://w.example.com', secret: {env: SIGNING}, events: [deployed]}\n  \
         - {name: D d, url: 'ftp://w.example.com', secret: plain}\n",
    );
    assert_eq!(text.lines().count(), 4, "{text}");
    for part in ["`deployed`", "D d", "ftp:", "`notify.webhooks[1].secret` holds a secret itself"] {
        assert!(text.contains(part), "{part} is missing in\n{text}");
    }
    assert!(!text.contains("plain"), "{text}");
}

#[test]
fn pages_are_behind_the_tokens_unless_they_are_opened() {
    assert_eq!(loaded("{}").settings.pages, Pages::Token);
    assert_eq!(loaded("auth: {pages: open}").settings.pages, Pages::Open);
    assert!(refused("auth: {pages: public}").contains("public"));
}

const ARGOCD: &str = "clusters:\n- name: prod-1\n  environment: production\n  domain: p.example.com\n  \
                      argocd:\n    webhook: ";

#[test]
fn an_argo_cd_is_told_where_its_cluster_says_so() {
    let settings = loaded(&format!(
        "{ARGOCD}{{url: 'http://argocd-server.argocd.svc/api/webhook', secret: {{env: TOKEN}}}}\n\
         - {{name: dev, environment: development, domain: d.example.com, server: 'https://10.0.0.1', \
           argocd: {{project: x}}}}\n"
    ));
    assert_eq!(settings.warnings, []);
    let argocd = settings.settings.argocd;
    let [(cluster, one)] = &argocd.iter().collect::<Vec<_>>()[..] else { panic!("{argocd:?}") };
    assert_eq!(cluster.as_str(), "prod-1");
    assert_eq!(one.url, "http://argocd-server.argocd.svc/api/webhook");
    assert!(!format!("{argocd:?}").contains("t0ken"), "a secret does not print");
}

#[test]
fn an_argo_cd_that_cannot_be_meant_is_told_at_its_place() {
    for (webhook, wrong) in [
        ("{url: 'ftp://a.example.com/api/webhook', secret: {env: TOKEN}}", "6:20"),
        ("{url: 'https://me:pw@a.example.com/api/webhook', secret: {env: TOKEN}}", "ends in logs"),
        ("{url: 'https://a.example.com/api/webhook', secret: {env: NONE}}", "NONE is not set"),
        ("{url: 'https://a.example.com/api/webhook', secret: h00k}", "holds a secret itself"),
        ("{url: 'https://a.example.com/api/webhook'}", "secret"),
        ("{url: 'https://a.example.com/api/webhook', secret: {env: TOKEN}, sha: 1}", "sha"),
    ] {
        let text = refused(&format!("{ARGOCD}{webhook}\n"));
        assert!(text.contains(wrong), "{wrong} is missing in\n{text}");
        assert!(!text.contains("me:pw") && !text.contains("h00k"), "{text}");
    }
}

#[test]
fn an_argo_cd_at_another_path_would_not_hear() {
    let webhook = "{url: 'https://a.example.com/webhook', secret: {env: TOKEN}}";
    let loaded = loaded(&format!("{ARGOCD}{webhook}\n"));
    let [one] = &loaded.warnings[..] else { panic!("{:?}", loaded.warnings) };
    assert!(one.message.contains("/api/webhook"), "{one:?}");
}
