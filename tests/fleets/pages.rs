//! The pages of a fleet and of its clusters, and what the API says beside them.

use serde_json::{Value as Json, json};
use the_deployer::model::deployment::State;

use crate::fleets::world::{CLUSTERS, Prod, cluster, configuration, on_both};

/// Each part stands in the text, after the one before it.
fn follow(text: &str, parts: &[&str]) {
    let mut rest = text;
    for part in parts {
        let found = rest.split_once(part);
        rest = found.unwrap_or_else(|| panic!("{part} is missing in\n{text}")).1;
    }
}

fn app_page(target: &str) -> String {
    format!("/apps/{target}/devx/shop")
}

/// The targets on which the API lists the app in a state.
async fn listed(prod: &Prod, query: &str) -> Vec<String> {
    let list = prod.reads(&format!("/apps?{query}")).await;
    let target = |app: &Json| app["target"].as_str().unwrap().to_owned();
    list["apps"].as_array().unwrap().iter().map(target).collect()
}

/// The words of the grid beside the app's cells that are live.
async fn count_in_grid(prod: &Prod, flag: &str) -> usize {
    prod.page("/").await.matches(&format!("<i>{flag}</i>")).count()
}

#[tokio::test]
async fn the_page_of_a_fleet_has_its_history_and_leads_to_its_clusters_for_files() {
    on_both(async |prod| {
        let first = prod.runs("prod", "v1").await;
        let second = prod.runs("prod", "v2").await;
        let row = |id: &str| format!("<tr id=\"r-{id}\">");
        let (one, two) = (row(first.id.as_str()), row(second.id.as_str()));
        let page = prod.page(&app_page("prod")).await;
        let live = "<span class=\"badge good\">live</span>";
        let links = CLUSTERS.map(|name| format!("<a href=\"/apps/{name}/devx/shop\">{name}</a>"));
        let [eu_1, eu_2, us_1] = &links;
        follow(
            &page,
            &[
                "shop <span class=\"to\">on</span> prod</h1>",
                ">live</span>",
                ">v2</dd>",
                "squad@example.com",
                &two,
                live,
                ">v2</td>",
                &one,
                ">v1</td>",
                "Its files and their differences are those of its clusters",
                eu_1,
                eu_2,
                us_1,
                ">Deployments</h2>",
            ],
        );
        let compared = format!("{}?from={}&to={}", app_page("prod"), first.id, second.id);
        for page in [page, prod.page(&compared).await] {
            for never in ["Compare two revisions", "since the one before", "cannot be compared"] {
                assert!(!page.contains(never), "{never} in {page}");
            }
        }
        let page = prod.page(&app_page("eu-1")).await;
        follow(&page, &["since the one before", "Compare two revisions"]);
        // A rollback makes the former deployment live again, and is no revision of its own.
        prod.rolls_back(None).await;
        let page = prod.page(&app_page("prod")).await;
        follow(&page, &[">v1</dd>", &two, &one, live]);
        let history = prod.reads(&format!("{}/revisions", app_page("prod"))).await;
        let revisions = history["revisions"].as_array().unwrap().iter();
        let revisions: Vec<_> =
            revisions.map(|one| (one["id"].as_str().unwrap(), one["live"] == true)).collect();
        assert_eq!(revisions, [(second.id.as_str(), false), (first.id.as_str(), true)]);
    })
    .await;
}

#[tokio::test]
async fn the_page_of_a_fleets_deployment_leads_to_its_part_on_each_cluster_and_back() {
    on_both(async |prod| {
        let deployment = prod.runs("prod", "v1").await;
        let parts = prod.records(&deployment).await;
        let link =
            |n: usize| format!("<a href=\"/deployments/{}\">{}</a>", parts[n].id, CLUSTERS[n]);
        let succeeded = "<span class=\"badge good\">succeeded</span>";
        let page = prod.page(&format!("/deployments/{}", deployment.id)).await;
        follow(
            &page,
            &[
                "of <a href=\"/apps/prod/devx/shop\">devx/shop on prod</a>",
                "devx/shop <span class=\"to\">to</span> prod</h1>",
                "<h2 id=\"parts\">Clusters</h2>",
                &link(0),
                succeeded,
                &link(1),
                succeeded,
                &link(2),
                succeeded,
            ],
        );
        let part = prod.page(&format!("/deployments/{}", parts[1].id)).await;
        let whole = format!("<a class=\"mono\" href=\"/deployments/{0}\">{0}</a>", deployment.id);
        follow(&part, &["devx/shop on eu-2</a>", "<dt>Fleet</dt><dd>a part of ", &whole]);
    })
    .await;
}

#[tokio::test]
async fn a_lock_is_shown_wherever_it_stops_deployments() {
    on_both(async |prod| {
        prod.runs("beside", "v1").await;
        prod.runs("prod", "v1").await;
        let on_fleet = json!({"target": "prod"});
        let app_on_fleet = json!({"target": "prod", "app": "devx/shop"});
        let all = vec!["eu-1", "eu-2", "us-1"];
        for (scope, locked) in [
            (on_fleet, all.clone()),
            (app_on_fleet, all),
            (json!({"target": "eu-2"}), vec!["eu-2"]),
            (json!({"target": "eu-2", "app": "devx/shop"}), vec!["eu-2"]),
        ] {
            let body = json!({"scope": scope, "reason": "an incident"});
            let (status, lock) = prod.asks("/locks", body).await;
            assert_eq!(status, 201, "{lock}");
            let remove = format!("/locks/{}/remove", lock["id"].as_str().unwrap());
            assert_eq!(listed(prod, "state=locked").await, locked, "{scope}");
            assert_eq!(listed(prod, "state=locked&target=eu-2").await, ["eu-2"], "{scope}");
            assert_eq!(count_in_grid(prod, "locked").await, locked.len(), "{scope}");
            for target in locked.iter().chain(&["prod"]) {
                let page = prod.page(&app_page(target)).await;
                follow(&page, &["In the way of a deployment", "<b>Locked</b>", "an incident"]);
                let is_of_app = scope["app"].is_string();
                assert_eq!(page.contains(&remove), is_of_app, "{target}, {scope}: {page}");
                let app = prod.reads(&app_page(target)).await;
                assert_eq!(app["locks"][0]["id"], lock["id"], "{target}, {scope}: {app}");
            }
            let page = prod.page(&app_page("beside")).await;
            assert!(!page.contains("Locked"), "{scope}: {page}");
            prod.confirms(&remove, "it is over").await;
        }
        // The fleet itself has a cell where its newest deployment has failed.
        let body = json!({"scope": {"target": "eu-2"}, "reason": "an incident"});
        let (_, lock) = prod.asks("/locks", body).await;
        assert_eq!(prod.deploys("prod", "v2").await.state, State::Failed);
        assert_eq!(count_in_grid(prod, "locked").await, 2, "of eu-2, and of the fleet");
        let remove = format!("/locks/{}/remove", lock["id"].as_str().unwrap());
        prod.confirms(&remove, "it is over").await;
    })
    .await;
}

#[tokio::test]
async fn the_hold_of_a_fleets_rollback_is_shown_on_its_clusters_and_released_on_the_fleet() {
    on_both(async |prod| {
        prod.runs("prod", "v1").await;
        prod.runs("prod", "v2").await;
        prod.rolls_back(None).await;
        assert_eq!(listed(prod, "state=held").await, CLUSTERS);
        assert_eq!(listed(prod, "state=held&target=us-1").await, ["us-1"]);
        assert_eq!(count_in_grid(prod, "held").await, 3);
        let page = prod.page(&app_page("eu-1")).await;
        let release = "<a href=\"/apps/prod/devx/shop/release\">Release</a>";
        follow(&page, &[release, "<b>Held</b>", "holds automation off prod since "]);
        assert!(!page.contains("devx/shop/hold\""), "{page}");
        // The cluster has no hold of its own that could be released.
        let page = prod.page(&format!("{}/release", app_page("eu-1"))).await;
        let sentence = "has held it on prod since ";
        follow(&page, &["href=\"/apps/prod/devx/shop\"", sentence, "It is released there."]);
        assert!(!page.contains("<form"), "{page}");
        let body = json!({"reason": "it is over"});
        let (status, refused) = prod.asks(&format!("{}/release", app_page("eu-1")), body).await;
        let sentence = "devx/shop is not held on eu-1 itself: release the hold on prod";
        assert_eq!((status, &refused["detail"]), (404, &json!(sentence)));
        let page = prod.page(&format!("{}/hold", app_page("eu-1"))).await;
        assert!(page.contains("It is held already, by the hold of prod, "), "{page}");
        prod.confirms(&format!("{}/hold", app_page("eu-1")), "we look at it").await;
        let page = prod.page(&format!("{}/release", app_page("eu-1"))).await;
        follow(&page, &["has held it on eu-1 since ", "Another hold stays: "]);
        prod.confirms(&format!("{}/release", app_page("eu-1")), "it is over").await;
        prod.confirms("/apps/prod/devx/shop/release", "it is over").await;
        assert_eq!(
            (listed(prod, "state=held").await.len(), count_in_grid(prod, "held").await),
            (0, 0)
        );
        let page = prod.page(&app_page("eu-1")).await;
        follow(&page, &["<a href=\"/apps/eu-1/devx/shop/hold\">Hold</a>"]);
        // In reverse: the fleet is held by a cluster.
        prod.confirms(&format!("{}/hold", app_page("eu-1")), "we look at it").await;
        let page = prod.page(&app_page("prod")).await;
        follow(
            &page,
            &["/apps/eu-1/devx/shop/release\">Release", "holds automation off eu-1 since "],
        );
        // A newer one of the fleet hides no way to release the cluster's own.
        let body = json!({"reason": "we look at all"});
        let (status, held) = prod.asks("/apps/prod/devx/shop/hold", body).await;
        assert_eq!(status, 200, "{held}");
        let page = prod.page(&app_page("eu-1")).await;
        let release = "<a href=\"/apps/eu-1/devx/shop/release\">Release</a>";
        follow(&page, &[release, "holds automation off prod since "]);
        prod.confirms("/apps/prod/devx/shop/release", "it is over").await;
        assert_eq!(listed(prod, "state=held").await, ["eu-1"], "and no other cluster is");
    })
    .await;
}

#[tokio::test]
async fn a_fleet_is_closed_while_one_of_its_clusters_is_and_opens_with_the_last() {
    on_both(async |prod| {
        prod.runs("prod", "v1").await;
        // It is Saturday.
        let window = |from: &str, to: &str| {
            format!(", policies: {{windows: [{{days: mon-fri, from: '{from}', to: '{to}'}}]}}")
        };
        let clusters = [
            cluster("eu-1", &window("09:00", "17:00")),
            cluster("eu-2", ""),
            cluster("us-1", &window("15:00", "23:00")),
        ];
        prod.restarts_with(&configuration(&clusters.concat(), &CLUSTERS)).await;
        let refused = prod.deploys("prod", "v2").await;
        assert!(refused.summary.contains("takes no deployments at this time"), "{refused:?}");
        let page = prod.page(&app_page("prod")).await;
        let sentence = "eu-1, us-1 take no deployments now, so the fleet takes none; \
             it opens Monday 15:00 UTC.";
        follow(&page, &["<b>Outside the window</b>", sentence]);
        let page = prod.page(&app_page("eu-1")).await;
        follow(&page, &["The target takes no deployments now; it opens Monday 09:00 UTC."]);
        let page = prod.page(&app_page("eu-2")).await;
        assert!(!page.contains("Outside the window"), "it is open by itself: {page}");
    })
    .await;
}
