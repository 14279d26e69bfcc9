//! The branches of a commit, by comparing it with each.

use super::*;

/// Returns GitHub's word for the comparison of the commit with a branch; `None` where there is no such branch.
fn standing(world: &World, branch: &str) -> Option<&'static str> {
    world.branches.iter().find(|(name, _)| name == branch).map(|(_, standing)| *standing)
}

pub(super) async fn compare(
    State(world): State<Shared>,
    Path((owner, name, basehead)): Path<(String, String, String)>,
    Query(query): Query<std::collections::HashMap<String, String>>,
    headers: Headers,
) -> Result<Response, Response> {
    gate(&world, &headers).await?;
    let (branch, head) = basehead.rsplit_once("...").unwrap();
    assert_eq!((head, query["page"].as_str()), (SHA, "2"), "the first page has all files");
    let world = world.lock().unwrap();
    match standing(&world, branch).filter(|_| (owner.as_str(), name.as_str()) == ("acme", "shop")) {
        Some(status) => {
            Ok(Json(json!({"status": status, "ahead_by": 0, "commits": []})).into_response())
        }
        None => Err(not_found("Not Found")),
    }
}

pub(super) async fn list(
    State(world): State<Shared>,
    Query(query): Query<std::collections::HashMap<String, usize>>,
    headers: Headers,
) -> Result<Response, Response> {
    gate(&world, &headers).await?;
    let (size, page) = (query["per_page"], query["page"]);
    assert!(size <= 100, "GitHub gives no more");
    let world = world.lock().unwrap();
    let page = world.branches.iter().skip(size * (page - 1)).take(size);
    let page: Vec<Value> =
        page.map(|(name, _)| json!({"name": name, "commit": {"sha": SHA}})).collect();
    Ok(Json(page).into_response())
}

async fn with(branches: &[(&str, &'static str)]) -> (Forge, Shared) {
    let (github, world) = stand_in().await;
    let to_owned_pair = |(name, status): &(&str, &'static str)| ((*name).to_owned(), *status);
    world.lock().unwrap().branches = branches.iter().map(to_owned_pair).collect();
    (github, world)
}

async fn on(github: &Forge, globs: &[&str]) -> Result<Vec<String>, ForgeError> {
    let globs: Vec<String> = globs.iter().map(|glob| (*glob).to_owned()).collect();
    github.branches_with(&shop(), &commit(), &globs).await
}

#[tokio::test]
async fn a_commit_is_on_a_branch_that_it_is_behind_or_the_tip_of() {
    for (word, is_on) in
        [("behind", true), ("identical", true), ("ahead", false), ("diverged", false)]
    {
        let (github, _) = with(&[("release/1.0", word)]).await;
        for glob in ["release/1.0", "release/*", "**"] {
            assert_eq!(!on(&github, &[glob]).await.unwrap().is_empty(), is_on, "{word} {glob}");
        }
    }
}

#[tokio::test]
async fn branches_that_are_named_need_no_list_and_the_first_hit_ends_it() {
    let (github, world) = with(&[("main", "behind"), ("release/1", "behind")]).await;
    assert_eq!(on(&github, &["main", "release/*"]).await.unwrap(), ["main"]);
    assert_eq!(world.lock().unwrap().requests, 1);
    world.lock().unwrap().branches[0].1 = "diverged";
    assert_eq!(on(&github, &["main", "release/*"]).await.unwrap(), ["release/1"]);
    assert_eq!(world.lock().unwrap().requests, 1 + 3, "one more of each kind");
    assert_eq!(on(&github, &[]).await.unwrap(), Vec::<String>::new());
}

#[tokio::test]
async fn a_branch_that_is_not_there_has_no_commit_and_a_repository_that_is_not_is_an_error() {
    let (github, _) = with(&[("main", "behind")]).await;
    assert_eq!(on(&github, &["gone"]).await.unwrap(), Vec::<String>::new());
    let no_repository = RepoName::parse("acme/none").unwrap();
    let globs = ["main".to_owned()];
    let error = github.branches_with(&no_repository, &commit(), &globs).await.unwrap_err();
    assert!(matches!(error, ForgeError::NoRepository { .. }), "{error}");
}

#[tokio::test]
async fn many_branches_are_listed_page_by_page_and_too_many_are_refused() {
    let (github, world) = with(&[]).await;
    let many = |n: usize| (0..n).map(|n| (format!("work/{n}"), "diverged")).collect::<Vec<_>>();
    world.lock().unwrap().branches = many(230);
    world.lock().unwrap().branches.push(("hotfix/1".to_owned(), "identical"));
    assert_eq!(on(&github, &["hotfix/*"]).await.unwrap(), ["hotfix/1"]);
    assert_eq!(world.lock().unwrap().requests, 3 + 1);
    let error = on(&github, &["work/*"]).await.unwrap_err();
    assert!(error.to_string().contains("more than 50 branches of acme/shop"), "{error}");
    world.lock().unwrap().branches = many(2001);
    let error = on(&github, &["hotfix/*"]).await.unwrap_err();
    assert!(error.to_string().contains("write the names of the allowed ones in full"), "{error}");
    assert_eq!(error.disposition(), Disposition::Stop);
}

#[tokio::test]
async fn trouble_is_told_and_not_taken_for_an_answer() {
    let (github, world) = with(&[("main", "behind")]).await;
    let github = within(github, Duration::from_millis(300));
    for trouble in [Trouble::Limited, Trouble::Silent, Trouble::BadGateway] {
        world.lock().unwrap().trouble = Some(trouble);
        for glob in ["main", "m*"] {
            let error = on(&github, &[glob]).await.unwrap_err();
            assert_ne!(error.disposition(), Disposition::Stop, "{error}");
        }
    }
}
