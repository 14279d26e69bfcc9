//! Deployments, pull requests, people.

use axum::extract::RawQuery;

use super::*;

/// Starts a GitHub that answers one route with a list, page by page, and counts.
async fn listing(route: &str, list: Vec<Value>) -> (Forge, Arc<Mutex<usize>>) {
    let calls = Arc::new(Mutex::new(0));
    let counter = calls.clone();
    let answer = async move |RawQuery(query): RawQuery| {
        *counter.lock().unwrap() += 1;
        Json(page_of(&list, &query.unwrap()))
    };
    let router = Router::new().route(&format!("/api/v3{route}"), get(answer));
    (serve(router, TOKEN).await, calls)
}

#[tokio::test]
async fn the_newest_deployments_come_as_github_sent_them_and_each_once() {
    let deployment = |id: i64| json!({"id": id, "task": "deploy", "payload": "{}", "new": [id]});
    let mut list: Vec<Value> = (0..250).map(|n| deployment(1000 - n)).collect();
    // While the first page was read, a new one pushed this one onto the second.
    list.insert(100, list[99].clone());
    let (github, calls) = listing("/repos/acme/shop/deployments", list).await;
    let deployments = github.recent_deployments(&shop(), 3).await.unwrap();
    assert_eq!(deployments, [deployment(1000), deployment(999), deployment(998)]);
    assert_eq!(*calls.lock().unwrap(), 1);
    let deployments = github.recent_deployments(&shop(), 1000).await.unwrap();
    let ids: Vec<i64> =
        deployments.iter().map(|deployment| deployment["id"].as_i64().unwrap()).collect();
    assert_eq!(ids, (0..250).map(|n| 1000 - n).collect::<Vec<_>>());
    assert_eq!(*calls.lock().unwrap(), 1 + 3);
}

#[tokio::test]
async fn a_pull_request_touches_what_it_changes_and_what_it_moves_away() {
    let mut list: Vec<Value> = (0..205).map(|n| json!({"filename": format!("{n}.rs")})).collect();
    list.push(
        json!({"filename": "old.yaml", "previous_filename": ".weave.yaml", "status": "renamed"}),
    );
    let (github, calls) = listing("/repos/acme/shop/pulls/7/files", list).await;
    assert!(
        github
            .pull_request_files(&shop(), 7, |path| path == ".weave.yaml")
            .await
            .unwrap()
            .contains(".weave.yaml")
    );
    assert_eq!(*calls.lock().unwrap(), 3);
    assert!(github.pull_request_files(&shop(), 7, |_| false).await.unwrap().is_empty());
}

#[tokio::test]
async fn a_persons_address_is_told_if_it_is_public() {
    let user = async |Path(login): Path<String>| match login.as_str() {
        "octo/../cat" => Json(json!({"login": "x", "email": "octo@example.com"})).into_response(),
        "shy" => Json(json!({"login": "shy", "email": null})).into_response(),
        _ => not_found("Not Found"),
    };
    let router = Router::new().route("/api/v3/users/{login}", get(user));
    let github = serve(router, TOKEN).await;
    let octo = github.email_of("octo/../cat").await.unwrap();
    assert_eq!(octo.as_deref(), Some("octo@example.com"), "a login stays in its place");
    assert_eq!(github.email_of("shy").await.unwrap(), None);
    assert_eq!(github.email_of("nobody 🦀").await.unwrap(), None);
}

#[tokio::test]
async fn without_an_app_nobody_knows_of_lost_events() {
    let (github, _) = stand_in().await;
    let error = github.failed_deliveries(jiff::Timestamp::UNIX_EPOCH, 10).await.unwrap_err();
    assert!(error.to_string().contains("set forge.github.app"), "{error}");
    assert_eq!(error.disposition(), Disposition::Stop);
    assert_eq!(github.installed_repositories(10).await.unwrap(), []);
}

/// Starts a GitHub that redirects to `location` from everything under `old`.
async fn renamed(location: &'static str, code: Code) -> (Forge, Arc<Mutex<Vec<Value>>>) {
    let bodies = Arc::new(Mutex::new(Vec::new()));
    let sink = bodies.clone();
    let redirect =
        async move || (code, [("location", location)], Json(json!({"message": "Moved"})));
    let write = async move |headers: Headers, Json(body): Json<Value>| {
        assert_eq!(headers["authorization"], format!("Bearer {TOKEN}").as_str());
        sink.lock().unwrap().push(body);
        (Code::CREATED, Json(json!({"id": 1})))
    };
    let read_file = async || "name: Shop\n";
    let router = Router::new()
        .route("/api/v3/repos/acme/shop/{*rest}", get(redirect).post(redirect))
        .route("/api/v3/repositories/7", get(read_file).post(write));
    (serve(router, TOKEN).await, bodies)
}

#[tokio::test]
async fn a_renamed_repository_is_followed_with_the_same_method_and_body() {
    for code in [Code::MOVED_PERMANENTLY, Code::TEMPORARY_REDIRECT, Code::PERMANENT_REDIRECT] {
        let (github, bodies) = renamed("/api/v3/repositories/7", code).await;
        assert_eq!(weave(&github).await.unwrap(), b"name: Shop\n");
        github.report(&shop(), 5, &success()).await.unwrap();
        assert_eq!(bodies.lock().unwrap().len(), 1, "{code}");
        assert_eq!(bodies.lock().unwrap()[0]["state"], "success");
    }
}

#[tokio::test]
async fn nobody_else_gets_our_token_by_a_redirect() {
    for away in ["http://127.0.0.2:1/api/v3/repositories/7", "/elsewhere", "https://evil.example/"]
    {
        let (github, _) = renamed(away, Code::TEMPORARY_REDIRECT).await;
        let error = github.report(&shop(), 5, &success()).await.unwrap_err();
        assert!(matches!(error, ForgeError::Refused { status: 301, .. }), "{error}");
        assert!(error.to_string().contains("set forge.github.api_url"), "{error}");
    }
    let (github, _) = renamed("/api/v3/repos/acme/shop/round", Code::TEMPORARY_REDIRECT).await;
    let error = github.report(&shop(), 5, &success()).await.unwrap_err();
    assert!(error.to_string().contains("in circles"), "{error}");
}

#[tokio::test]
async fn what_is_left_is_remembered_from_every_answer() {
    let answer = async || {
        let headers = [
            ("x-ratelimit-limit", "5000"),
            ("x-ratelimit-remaining", "4321"),
            ("x-ratelimit-reset", "1795255290"),
            ("x-ratelimit-resource", "core"),
        ];
        (headers, "name: Shop\n")
    };
    let router = Router::new().route("/api/v3/repos/acme/shop/contents/.weave.yaml", get(answer));
    let github = serve(router, TOKEN).await;
    assert_eq!(github.budget(), None);
    weave(&github).await.unwrap();
    let budget = github.clone().budget().unwrap();
    assert_eq!((budget.limit, budget.remaining), (5000, 4321));
    assert_eq!(budget.reset.as_second(), 1_795_255_290);
}
