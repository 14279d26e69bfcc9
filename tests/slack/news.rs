//! Tests the messages, and the channels and people that get them.

use insta::assert_snapshot;
use the_deployer::model::notice::Sink;

use crate::slack::{Office, TARGET};

#[tokio::test]
async fn a_failure_reaches_the_team_and_who_started_it() {
    let office = Office::with("email: \"{login}@example.com\"").await;
    let octocat = office.slack.person("octocat@example.com");
    let shop = office.app("shop");
    shop.deploys("v1").await;
    let failed = shop.fails("v2").await;
    let [told] = office.squad().try_into().unwrap();
    assert_eq!(told.title, format!("❌ shop v2 was not deployed to {TARGET}"));
    assert_eq!((told.called, told.thread), (vec![octocat.clone()], None));
    let id = office.deployer.deployment(failed).await.id;
    let sha = shop.repository.tip("main");
    let text = told.text.replace(id.as_str(), "ID").replace(&sha, "SHA").replace(&sha[..8], "SH");
    assert_snapshot!(text, @r"
    ❌ shop v2 was not deployed to prod-cluster-1
    Rejected, because of these 2 things; nothing was changed:
    *App*
    My App (devx/shop)
    *Target*
    prod-cluster-1
    *Tag*
    v2
    *Commit*
    SH of main
    *Started by*
    @U00000001
    .weave.yaml:12:77
    no service has the port 81 [ingress]
    → write `servicePort: 8000` for `http` of shop
    .weave.yaml:18:5
    `deploy.prod-cluster-1` has no key `colour` [unknown-key]
    → remove it, or look for the right word in the documentation of this file
    deployment ID
    ");
    let good = &office.deployer.deployments().await[0].id;
    let origin = office.deployer.github.api_url().replace("/api/v3", "");
    let wanted = [
        format!("Log https://deploy.example.com/deployments/{id}"),
        format!("Commit {} {origin}/example/shop/commit/{sha}", &sha[..8]),
        format!("Last good: v1 https://deploy.example.com/deployments/{good}"),
        format!(".weave.yaml:12:77 {origin}/example/shop/blob/{sha}/.weave.yaml#L12"),
    ];
    for link in wanted {
        assert!(told.links.contains(&link), "{link} in {:#?}", told.links);
    }
    let [own] = office.slack.read(&octocat).try_into().unwrap();
    assert_eq!(own.title, format!("❌ shop v2 was not deployed to {TARGET}"));
    assert!(own.text.contains("You started it. Rejected") && own.called.is_empty(), "{own:?}");
    office.closes().await;
}

#[tokio::test]
async fn a_row_of_failures_and_its_end_are_one_thread() {
    let office = Office::open().await;
    let shop = office.app("shop");
    shop.fails("v1").await;
    shop.fails("v2").await;
    shop.deploys("v3").await;
    shop.deploys("v4").await;
    shop.fails("v5").await;
    let [first, second, well, again] = office.squad().try_into().unwrap();
    assert_eq!((first.thread, first.aloud), (None, true));
    let thread = Some(first.ts.clone());
    assert_eq!((&second.thread, second.aloud), (&thread, true), "shown in the channel, too");
    assert_eq!((&well.thread, well.aloud), (&thread, false));
    assert_eq!(well.title, format!("✅ shop v3 is deployed to {TARGET}"));
    assert!(well.text.contains("The 2 deployments before it had failed."), "{}", well.text);
    assert_eq!(
        (again.title, again.thread),
        (format!("❌ shop v5 was not deployed to {TARGET}"), None)
    );
    office.closes().await;
}

#[tokio::test]
async fn successes_are_told_to_teams_that_ask_for_them() {
    let office = Office::open().await;
    let shop =
        office.app("shop").says("namespace: devx", "namespace: devx\nnotify: {success: true}");
    shop.deploys("v1").await;
    shop.fails("v2").await;
    shop.deploys("v3").await;
    let [well, failed, again] = office.squad().try_into().unwrap();
    assert_eq!(well.title, format!("✅ shop v1 is deployed to {TARGET}"));
    assert_eq!((again.thread, again.aloud), (Some(failed.ts), true));
    assert_eq!(again.title, format!("✅ shop v3 is deployed to {TARGET}"));
    office.closes().await;
}

#[tokio::test]
async fn targets_and_apps_have_stories_of_their_own() {
    let office = Office::open().await;
    let (shop, blog) = (office.app("shop"), office.app("blog"));
    shop.fails("v1").await;
    blog.fails("v1").await;
    blog.deploys("v2").await;
    let [_, failed, well] = office.squad().try_into().unwrap();
    assert_eq!(well.thread, Some(failed.ts));
    office.closes().await;
}

#[tokio::test]
async fn a_waml_that_cannot_be_read_is_told_where_the_last_one_said() {
    let office = Office::open().await;
    let (known, unknown) = (office.app("shop"), office.app("blog"));
    known.deploys("v1").await;
    known.asks("v2", "schema: [").await;
    unknown.asks("v1", "schema: [").await;
    office.settle().await;
    let [told] = office.squad().try_into().unwrap();
    assert_eq!(told.title, format!("❌ example/shop v2 was not deployed to {TARGET}"));
    let [told] = office.deploys().try_into().unwrap();
    assert_eq!(told.title, format!("❌ example/blog v1 was not deployed to {TARGET}"));
    office.closes().await;
}

#[tokio::test]
async fn a_channel_that_takes_nothing_is_told_of_in_the_default_one() {
    let office = Office::open().await;
    office.slack.change("#old", |channel| channel.archived = true);
    office.slack.change("#secret", |channel| (channel.private, channel.member) = (true, false));
    for (n, (channel, says)) in [
        ("#gone", "#gone: there is no such channel"),
        ("#old", "#old: it is archived"),
        ("#secret", "#secret: there is no such channel, or it is private"),
        ("@octocat", "@octocat: that is no channel"),
        ("<!channel>", "<!channel>: that is no channel"),
        ("U0123456789", "U0123456789: that is no channel"),
    ]
    .into_iter()
    .enumerate()
    {
        let app = office.app(&format!("app{n}")).says("\"#squad-devx\"", &format!("\"{channel}\""));
        app.fails("v1").await;
        let told = office.deploys().pop().unwrap();
        assert!(
            told.text.contains(&format!(":warning: This was meant for {says}")),
            "{}",
            told.text
        );
        assert_eq!(told.called, Vec::<String>::new());
    }
    assert_eq!(office.deploys().len(), 6);
    office.closes().await;
}

#[tokio::test]
async fn a_bot_that_is_not_in_a_public_channel_needs_a_right_to_write_there() {
    let office = Office::open().await;
    office.slack.change("#squad-devx", |channel| channel.member = false);
    office.app("shop").fails("v1").await;
    assert_eq!(office.squad().len(), 1);
    office.slack.takes_scope("chat:write.public");
    office.app("blog").fails("v1").await;
    let [told] = office.deploys().try_into().unwrap();
    assert!(
        told.text.contains("the bot is not in it: invite it there with `/invite`"),
        "{}",
        told.text
    );
    office.closes().await;
}

#[tokio::test]
async fn a_recovery_goes_where_the_failure_was_told_and_new_failures_where_they_belong() {
    let office = Office::open().await;
    let shop = office.app("shop").says("\"#squad-devx\"", "\"#gone\"");
    shop.fails("v1").await;
    office.slack.channel("#gone");
    shop.fails("v2").await;
    shop.deploys("v3").await;
    let [strayed] = office.deploys().try_into().unwrap();
    let [home, well] = office.slack.read("#gone").try_into().unwrap();
    assert!(strayed.text.contains("meant for #gone") && !home.text.contains("meant for"));
    assert_eq!((home.thread, well.thread), (None, Some(home.ts)));
    office.closes().await;
}

#[tokio::test]
async fn where_no_channel_takes_it_that_is_recorded() {
    let office = Office::open().await;
    for channel in ["#squad-devx", "#deploys"] {
        office.slack.change(channel, |channel| channel.archived = true);
    }
    let failed = office.app("shop").fails("v1").await;
    let [told] = office.told(failed, &Sink::Channel).await.try_into().unwrap();
    assert_snapshot!(told.parked.unwrap(), @"no channel accepts it: #squad-devx: it is archived: name another one in `slack` of the WAML, or open it again (is_archived); #deploys: it is archived: name another one in `slack` of the WAML, or open it again (is_archived)");
    office.closes_with_parked(1).await;
}

#[tokio::test]
async fn nobody_is_called_by_what_a_developer_writes() {
    let office = Office::open().await;
    let evil = "<!channel> @here <https://evil.example.com|click>";
    let shop = office.app("shop").says("name: My App", &format!("name: \"{evil}\""));
    shop.asks(
        "v1",
        &shop
            .waml()
            .replace("my-env", evil)
            .replace("{requestClass: critical}", &format!("{{requestClass: \"{evil}\"}}")),
    )
    .await;
    office.settle().await;
    let [told] = office.squad().try_into().unwrap();
    assert!(told.text.contains(evil), "{}", told.text);
    assert_eq!(told.called, Vec::<String>::new());
    assert!(!told.links.iter().any(|link| link.contains("evil.example.com")), "{:?}", told.links);
    office.closes().await;
}

#[tokio::test]
async fn hundreds_of_violations_fit_into_one_message() {
    let office = Office::open().await;
    let shop = office.app("shop");
    let many: String = (0..300).map(|n| format!("    {}{n}: 1\n", "ä".repeat(200))).collect();
    shop.asks("v1", &(shop.waml() + &many)).await;
    office.settle().await;
    let [told] = office.squad().try_into().unwrap();
    assert!(
        told.text.contains("these 300 things") && told.text.contains("and 29"),
        "{}",
        told.text
    );
    office.closes().await;
}

#[tokio::test]
async fn an_incoming_webhook_takes_everything_into_its_channel() {
    let office = Office::with_a_webhook().await;
    let shop = office.app("shop");
    let failed = shop.fails("v1").await;
    shop.deploys("v2").await;
    let [told, well] = office.deploys().try_into().unwrap();
    assert!(
        told.text.contains("for #squad-devx") && told.text.contains("octocat"),
        "{}",
        told.text
    );
    assert_eq!((well.title, well.thread), (format!("✅ shop v2 is deployed to {TARGET}"), None));
    let [own] = office.told(failed, &Sink::Person).await.try_into().unwrap();
    assert_eq!(own.skipped.unwrap(), "an incoming webhook cannot write to people");
    office.closes().await;
}

#[tokio::test]
async fn a_rollback_reaches_the_team_whatever_it_wants_to_hear() {
    let office = Office::with("email: \"{login}@example.com\"").await;
    let shop = office.app("shop");
    shop.deploys("v1").await;
    shop.deploys("v2").await;
    assert_eq!(office.squad().len(), 0, "successes are not told");
    office.rolls_back("shop", "checkout fails").await;
    let [told] = office.squad().try_into().unwrap();
    assert_eq!(told.title, format!("⏪ shop was rolled back to v1 on {TARGET}"));
    assert!(told.text.contains("rolled back to v1"), "{}", told.text);
    assert!(told.text.contains("*Rolled back because*\ncheckout fails"), "{}", told.text);
    assert!(!told.links.iter().any(|link| link.contains("v2")), "{:#?}", told.links);
    assert!(told.text.contains("`bart unhold prod-cluster-1 --app devx/shop"), "{}", told.text);
    office.closes().await;
}

#[tokio::test]
async fn after_a_rollback_nobody_is_offered_what_was_rolled_back_from() {
    let office = Office::open().await;
    let shop = office.app("shop");
    shop.deploys("v1").await;
    shop.deploys("v2").await;
    office.rolls_back("shop", "checkout fails").await;
    shop.fails("v3").await;
    let [_, failed] = office.squad().try_into().unwrap();
    let good: Vec<_> = failed.links.iter().filter(|link| link.contains("Last good")).collect();
    assert!(good.len() == 1 && good[0].contains("Last good: v1"), "{:#?}", failed.links);
    shop.deploys("v4").await;
    shop.deploys("v5").await;
    office.rolls_back("shop", "so does v5").await;
    office.rolls_back("shop", "and v4").await;
    shop.fails("v6").await;
    let failed = office.squad().pop().unwrap();
    let offered = failed.links.iter().filter(|link| link.contains("Last good"));
    assert!(offered.clone().count() == 1, "{:#?}", failed.links);
    assert!(!offered.clone().any(|link| link.contains("v4") || link.contains("v5")));
    office.closes().await;
}
