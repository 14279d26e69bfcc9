//! One deployment a target, and what GitHub may say to that.

use serde_json::json;

use crate::action::job::{Job, can_run};
use crate::harness::github::Fault;

#[tokio::test]
async fn one_target_is_one_deployment_of_the_commit_and_the_tag() {
    if !can_run() {
        return;
    }
    let job = Job::new("prod-cluster-1", "1.0.202206151506-sha.649008fb").await;
    let run = job.run().await;
    assert_eq!(run.code, 0, "{}", run.log);
    let deployments = job.deployments().await;
    let [one] = deployments.as_slice() else { panic!("{deployments:?}") };
    assert_eq!(one["payload"]["tag"], "1.0.202206151506-sha.649008fb");
    assert_eq!(one["payload"]["actor"], "octocat", "the token is the job's");
    assert_eq!((&one["sha"], &one["ref"]), (&json!(job.commit), &json!(job.commit)));
    assert_eq!((&one["environment"], &one["task"]), (&json!("prod-cluster-1"), &json!("deploy")));
    assert_eq!(one["production_environment"], true, "prod* is the default");
    assert_eq!(one["description"], "release, run 7 by octocat");
    assert_eq!(run.output("ids"), json!({"prod-cluster-1": one["id"]}));
    assert_eq!(run.output("states"), json!({"prod-cluster-1": "pending"}));
    assert!(run.summary.contains("| prod&#45;cluster&#45;1 | ["), "{}", run.summary);
    job.github.settled();
}

#[tokio::test]
async fn one_of_several_apps_is_named_in_the_payload() {
    if !can_run() {
        return;
    }
    for (app, sent) in
        [("worker", json!("worker")), (".weave.yaml", json!(".weave.yaml")), ("", json!(null))]
    {
        let job = Job::new("dev", "v1").await.with("app", app);
        let run = job.run().await;
        assert_eq!(run.code, 0, "{}", run.log);
        let deployments = job.deployments().await;
        assert_eq!(deployments[0]["payload"]["app"], sent);
        assert_eq!(deployments.len(), 1);
        job.github.settled();
    }
}

#[tokio::test]
async fn three_targets_are_three_deployments_a_second_apart() {
    if !can_run() {
        return;
    }
    let job = Job::new("dev, prod-1\n  prod-2 dev", "v1").await.with("production", "prod-2");
    let run = job.run().await;
    assert_eq!((run.code, run.took), (0, 2), "{}", run.log);
    let deployments = job.deployments().await;
    let of = |n: usize| (&deployments[n]["environment"], &deployments[n]["production_environment"]);
    assert_eq!(deployments.len(), 3);
    assert_eq!(of(2), (&json!("dev"), &json!(false)));
    assert_eq!(of(1), (&json!("prod-1"), &json!(false)));
    assert_eq!(of(0), (&json!("prod-2"), &json!(true)));
    job.github.settled();
}

#[tokio::test]
async fn what_people_write_is_data() {
    if !can_run() {
        return;
    }
    let odd = "v1\"$(touch /tmp/owned)`id`\\n${{x}}'; :: %0A ##[error] ü🚀";
    let job = Job::new("::error::x $(id) * %0A", odd)
        .await
        .with("description", &format!("\n::stop::{}", "ß".repeat(200)))
        .with("production", "*%0A");
    let run = job.run().await;
    assert_eq!(run.code, 0, "{}", run.log);
    let deployments = job.deployments().await;
    let targets: Vec<_> = deployments.iter().rev().map(|one| one["environment"].clone()).collect();
    assert_eq!(targets, ["::error::x", "$(id)", "*", "%0A"]);
    assert_eq!(deployments[0]["payload"]["tag"], odd);
    assert_eq!(deployments[0]["production_environment"], true);
    let description = deployments[0]["description"].as_str().unwrap();
    assert_eq!(description.chars().count(), 140);
    assert!(description.ends_with("ß…"), "{description}");
    assert!(run.log.lines().all(|line| line.starts_with("- ")), "{}", run.log);
    assert!(!run.summary.contains("::error"), "{}", run.summary);
    job.github.settled();
}

#[tokio::test]
async fn a_target_that_is_refused_hides_no_other() {
    if !can_run() {
        return;
    }
    let job = Job::new("dev prod", "v1").await;
    job.github.fails(1, "POST deployments", Fault::Status(422));
    let run = job.run().await;
    assert_eq!(run.code, 1, "{}", run.log);
    assert_eq!(run.output("states"), json!({"dev": "refused", "prod": "pending"}));
    assert_eq!(job.deployments().await.len(), 1);
    let [told] = run.annotations()[..] else { panic!("{}", run.log) };
    assert_eq!(
        told,
        "::error title=dev is not deployed::GitHub created no deployment. HTTP 422: Server Error. \
         GitHub does not take it: is `ref` a pushed commit, branch or tag?"
    );
    job.github.settled();
}

#[tokio::test]
async fn each_refusal_says_what_to_do() {
    if !can_run() {
        return;
    }
    for (input, value, words) in [
        ("token", "ghp_wrong", "HTTP 401: Bad credentials. the token is not accepted"),
        ("ref", "no-such-branch", "HTTP 422: No ref found for: no-such-branch. GitHub does not"),
        ("required-contexts", "build\nlint\n", "HTTP 409: "),
        ("required-contexts", "build", "`required-contexts` is not green on this commit"),
    ] {
        let job = Job::new("dev", "v1").await.with(input, value);
        let run = job.run().await;
        assert_eq!(run.code, 1, "{}", run.log);
        assert!(run.log.contains(words), "{words}: {}", run.log);
        assert!(job.deployments().await.is_empty());
        job.github.settled();
    }
    let job = Job::new("dev", "v1").await.variable("GITHUB_REPOSITORY", "acme/nothing");
    let run = job.run().await;
    assert!(run.log.contains("HTTP 404: Not Found. the repository is not there"), "{}", run.log);
    job.github.settled();
}

#[tokio::test]
async fn a_request_that_may_have_arrived_is_looked_for_before_it_is_sent_again() {
    if !can_run() {
        return;
    }
    for (fault, requests) in [(Fault::CutAfter, 1), (Fault::BadGateway, 2), (Fault::CutBefore, 2)] {
        let job = Job::new("prod", "v1").await;
        job.github.fails(1, "POST deployments", fault);
        let run = job.run().await;
        assert_eq!(run.code, 0, "{fault:?}: {}", run.log);
        let deployments = job.deployments().await;
        assert_eq!(deployments.len(), 1, "{fault:?}");
        assert_eq!(run.output("ids"), json!({"prod": deployments[0]["id"]}));
        assert_eq!(job.github.count("POST deployments"), requests, "{fault:?}");
        job.github.settled();
    }
}

#[tokio::test]
async fn a_github_that_is_down_is_given_up_on() {
    if !can_run() {
        return;
    }
    let job = Job::new("prod", "v1").await;
    job.github.fails(12, "", Fault::BadGateway);
    let run = job.run().await;
    assert_eq!(run.code, 1, "{}", run.log);
    assert!(run.log.contains("HTTP 502: no words. GitHub has a fault"), "{}", run.log);
    assert_eq!(job.github.count("POST deployments"), 3);
    job.github.settled();
}

#[tokio::test]
async fn a_limit_is_waited_for_as_github_asks_unless_it_is_too_long() {
    if !can_run() {
        return;
    }
    for (fault, took) in [(Fault::Wait(403, 30), 31), (Fault::Wait(429, 90), 91)] {
        let job = Job::new("prod", "v1").await;
        job.github.fails(1, "POST deployments", fault);
        let run = job.run().await;
        assert_eq!((run.code, run.took), (0, took), "{fault:?}: {}", run.log);
        job.github.settled();
    }
    let job = Job::new("prod", "v1").await;
    job.github.fails(1, "POST deployments", Fault::UsedUp);
    let run = job.run().await;
    assert_eq!((run.code, run.took), (1, 0), "an hour is more than 15 minutes: {}", run.log);
    assert!(run.log.contains("HTTP 403: API rate limit exceeded"), "{}", run.log);
    job.github.settled();
    let job = Job::new("prod", "v1").await.with("timeout", "2h");
    job.github.fails(1, "POST deployments", Fault::UsedUp);
    let run = job.run().await;
    assert_eq!((run.code, run.took), (0, 3601), "{}", run.log);
    job.github.settled();
}

#[tokio::test]
async fn a_renamed_repository_is_followed() {
    if !can_run() {
        return;
    }
    let job = Job::new("dev", "v1").await;
    job.github.repository("acme/web").renamed_to("acme/shop");
    let run = job.run().await;
    assert_eq!(run.code, 0, "{}", run.log);
    assert!(run.log.contains("is created"), "{}", run.log);
    job.github.settled();
}

#[tokio::test]
async fn a_wrong_input_is_told_before_anything_is_asked_for() {
    if !can_run() {
        return;
    }
    for (input, value, words) in [
        ("targets", " ,\n", "`targets` is empty"),
        ("tag", "", "`tag` is empty"),
        ("app", "../worker", "`app` is no name of a file"),
        ("wait", "yes", "`wait` is neither"),
        ("timeout", "soon", "`timeout` is no time"),
        ("timeout", "1d", "`timeout` is no time"),
        ("token", "", "`token` is empty or no token"),
        ("token", "two\nlines\"", "`token` is empty or no token"),
        ("api-url", "http://github.example.com/api/v3", "`api-url` is no https://"),
        ("api-url", "file:///etc/passwd", "`api-url` is no https://"),
    ] {
        let job = Job::new("dev", "v1").await.with(input, value);
        let run = job.run().await;
        assert_eq!(run.code, 2, "{input}: {}", run.log);
        let told = "::error title=the-deployer%3A an input is wrong::".to_owned() + words;
        assert!(run.annotations()[0].starts_with(&told), "{}", run.log);
        assert!(job.github.seen().is_empty());
        job.github.settled();
    }
}
