//! Waiting for the ends of deployments.

use serde_json::json;

use crate::action::job::{Job, can_run};
use crate::harness::github::Fault;

async fn waiting(targets: &str) -> Job {
    Job::new(targets, "v1").await.with("wait", "true")
}

#[tokio::test]
async fn a_success_is_waited_for_and_each_status_is_printed_once() {
    if !can_run() {
        return;
    }
    let job = waiting("prod")
        .await
        .tells(1, "prod", "queued", "waiting")
        .tells(5, "prod", "in_progress", "rendering")
        .tells(40, "prod", "success", "pushed 5cabc4a4");
    let run = job.run().await;
    assert_eq!(run.code, 0, "{}", run.log);
    let id = job.deployments().await[0]["id"].clone();
    let link = format!("https://deployer.example.com/deployments/{id}");
    let said = format!(
        "- prod  deployment {id} is created\n- prod  queued  waiting  {link}\n\
         - prod  in_progress  rendering  {link}\n- prod  success  pushed 5cabc4a4  {link}\n"
    );
    assert_eq!(run.log, said);
    assert_eq!(run.output("states"), json!({"prod": "success"}));
    assert!(run.summary.contains(&format!("[log](<{link}>)")), "{}", run.summary);
    assert!((40..60).contains(&run.took), "{}", run.took);
    job.github.settled();
}

#[tokio::test]
async fn one_that_fails_is_told_and_the_others_are_waited_for() {
    if !can_run() {
        return;
    }
    let job = waiting("dev prod-1 prod-2")
        .await
        .tells(5, "dev", "success", "pushed")
        .tells(
            6,
            "prod-1",
            "failure",
            "2 violations: .weave.yaml:11:79 | <b>no</b> port\n::error::x",
        )
        .tells(90, "prod-2", "success", "pushed");
    let run = job.run().await;
    assert_eq!(run.code, 1, "{}", run.log);
    let states = json!({"dev": "success", "prod-1": "failure", "prod-2": "success"});
    assert_eq!(run.output("states"), states);
    let [told] = run.annotations()[..] else { panic!("{}", run.log) };
    assert!(told.starts_with("::error title=prod-1%3A failure::2 violations: .weave.yaml:11:79 |"));
    assert!(!run.summary.contains("<b>") && !run.summary.contains("| <"), "{}", run.summary);
    assert!(run.took >= 90, "{}", run.took);
    job.github.settled();
}

#[tokio::test]
async fn a_superseded_one_is_no_success_but_a_success_that_was_replaced_is() {
    if !can_run() {
        return;
    }
    let job = waiting("prod").await.tells(3, "prod", "inactive", "superseded by deployment 9");
    let run = job.run().await;
    assert_eq!(run.code, 1, "{}", run.log);
    assert!(
        run.log.contains("title=prod is not deployed%3A superseded::superseded by"),
        "{}",
        run.log
    );
    job.github.settled();
    let job = waiting("prod").await.tells(2, "prod", "success", "pushed").tells(
        2,
        "prod",
        "inactive",
        "a newer one is live",
    );
    let run = job.run().await;
    assert_eq!((run.code, run.output("states")), (0, json!({"prod": "success"})), "{}", run.log);
    job.github.settled();
}

#[tokio::test]
async fn when_the_time_is_over_the_job_ends_and_says_how_it_stood() {
    if !can_run() {
        return;
    }
    let job =
        waiting("prod").await.with("timeout", "2m").tells(5, "prod", "in_progress", "pushing");
    let run = job.run().await;
    assert_eq!((run.code, run.took), (3, 120), "{}", run.log);
    let words = "::error title=prod%3A not ended in time::It is in_progress after 120 s (`timeout`), \
                 and goes on without this job: pushing https://deployer.example.com/";
    assert!(run.annotations()[0].starts_with(words), "{}", run.log);
    job.github.settled();
}

#[tokio::test]
async fn faults_pass_and_a_deployment_that_is_not_everywhere_yet_is_looked_at_again() {
    if !can_run() {
        return;
    }
    let job = waiting("prod").await.tells(120, "prod", "success", "pushed");
    job.github.late(1);
    job.github.fails(2, "GET statuses", Fault::BadGateway);
    job.github.fails(1, "GET statuses", Fault::CutBefore);
    job.github.fails(1, "GET statuses", Fault::Wait(403, 45));
    let run = job.run().await;
    assert_eq!(run.code, 0, "{}", run.log);
    job.github.settled();
}

#[tokio::test]
async fn a_token_that_ends_in_the_middle_ends_the_waiting() {
    if !can_run() {
        return;
    }
    let job = waiting("prod").await.tells(900, "prod", "success", "too late");
    job.github.fails(1, "GET statuses", Fault::BadCredentials);
    let run = job.run().await;
    assert_eq!((run.code, run.output("states")), (1, json!({"prod": "unknown"})), "{}", run.log);
    assert!(
        run.log.contains("its statuses cannot be read::HTTP 401: Bad credentials"),
        "{}",
        run.log
    );
    job.github.settled();
}

#[tokio::test]
async fn waiting_costs_little_and_what_is_left_is_spread() {
    if !can_run() {
        return;
    }
    let job = waiting("prod").await.with("timeout", "1h");
    let run = job.run().await;
    assert_eq!(run.code, 3, "{}", run.log);
    let looks = job.github.count("GET statuses");
    assert!((100..140).contains(&looks), "{looks} looks in an hour");
    let seen = job.github.seen();
    let unchanged = seen.iter().filter(|seen| seen.status == 304).count();
    assert!(unchanged >= looks - 1, "{unchanged} of {looks} were free of charge");
    job.github.settled();

    // Eight requests for the hour: the creation, and statuses that change.
    let job = waiting("prod")
        .await
        .with("timeout", "59m")
        .tells(1, "prod", "queued", "waiting")
        .tells(3000, "prod", "success", "done");
    job.github.hourly(10);
    let run = job.run().await;
    assert_eq!(run.code, 0, "{}", run.log);
    job.github.settled();
}
