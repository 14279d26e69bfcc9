//! The pages of a fleet and of its clusters.

use crate::fleets::world::{CLUSTERS, cluster, configuration, on_both};

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
