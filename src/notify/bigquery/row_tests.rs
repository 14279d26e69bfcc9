use super::*;
use crate::model::deploy_clock::{DeployMarks, MarkClock, MarkTime};
use crate::model::violation::Violation;
use crate::notify::fixture;

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(1_795_240_000 + seconds).unwrap()
}

fn deployment(state: State) -> Deployment {
    Deployment {
        received_at: at(1),
        pushed_at: Some(at(5)),
        finished_at: Some(at(60)),
        summary: "the image cannot be pulled".to_owned(),
        pushed: fixture::deployment(State::Succeeded).pushed,
        ..fixture::deployment(state)
    }
}

fn row(deployment: &Deployment) -> DeploymentRow {
    let service = "https://deployer.example.com";
    build_row(EndedDeployment { deployment, finished_at: at(60), service })
}

#[test]
fn a_success_has_no_cause_and_a_failure_says_where_it_failed() {
    let DeploymentRow { insert_id, values } = row(&deployment(State::Succeeded));
    assert_eq!(insert_id, "20261121-054812123-3f9a2c");
    assert_eq!(values["outcome"], "succeeded");
    assert_eq!(values["finished_at"], json!(at(60)));
    for absent in ["cause", "failed_in", "rule", "rollback_to", "requested_at", "total_ms"] {
        assert!(values.get(absent).is_none(), "{absent} in {values}");
    }
    let mut failed = deployment(State::Failed);
    let place = |failed: &Deployment| row(failed).values["failed_in"].clone();
    assert_eq!(place(&failed), "cluster");
    assert_eq!(row(&failed).values["cause"], "the image cannot be pulled");
    failed.pushed = None;
    assert_eq!(place(&failed), "service");
    failed.violations = vec![Violation::error("ports", "port 80 is not served")].into();
    assert_eq!(place(&failed), "rules");
    assert_eq!(row(&failed).values["rule"], "ports");
}

#[test]
fn the_intervals_are_those_of_the_deploy_clock_and_none_is_negative() {
    let values = |requested| {
        let requested = at(requested);
        let marks: DeployMarks = [
            MarkTime::new(DeployMark::Requested, requested, MarkClock::CodeHost, at(1)),
            MarkTime::of_service(DeployMark::Received, at(1)),
            MarkTime::of_service(DeployMark::Pushed, at(5)),
            MarkTime::of_service(DeployMark::ArgocdNotified, at(6)),
        ]
        .into_iter()
        .collect();
        row(&Deployment { marks, ..deployment(State::Succeeded) }).values
    };
    let skewed = values(86_400);
    let values = values(0);
    assert_eq!((&values["deployer_ms"], &values["pickup_ms"]), (&json!(4000), &json!(6000)));
    assert_eq!(values["requested_at"], json!(at(0)));
    assert!(values.get("sync_ms").is_none(), "{values}");
    assert!(skewed.get("pickup_ms").is_none(), "{skewed}");
    assert_eq!(skewed["deployer_ms"], 4000);
}

#[test]
fn however_long_texts_are_a_row_stays_small() {
    let mut long = deployment(State::Failed);
    let text = "\u{1F4A5}\"\\\u{7}".repeat(100_000);
    (long.summary, long.request.git_ref) = (text.clone(), text.clone());
    long.request.actor.clone_from(&text);
    long.violations = vec![Violation::error("ports", &text)].into();
    let size = row(&long).values.to_string().len();
    assert!(size < 32 * 1024, "{size} bytes");
}

#[test]
fn a_table_gets_the_columns_that_it_lacks_and_none_of_another_type() {
    assert_eq!(missing_fields(&schema_fields()), Ok(vec![]));
    let kept = [
        json!({"name": "Deployment", "type": "STRING"}),
        json!({"name": "errors", "type": "INT64"}),
    ];
    let missing = missing_fields(&kept).unwrap();
    assert_eq!(missing.len(), COLUMNS.len() - 2);
    assert!(missing.iter().all(|field| field["mode"] == "NULLABLE"), "{missing:?}");
    let foreign = missing_fields(&[json!({"name": "errors", "type": "STRING"})]).unwrap_err();
    assert_eq!(foreign.to_string(), "its column `errors` is of the type STRING, not INTEGER");
}

/// Those who write queries read them there.
#[test]
fn the_page_has_every_column_with_its_type_and_description() {
    let page = include_str!("../../../docs/bigquery.md");
    let table: Vec<&str> = page.lines().filter(|line| line.starts_with("| `")).collect();
    let columns = COLUMNS.iter().map(|TableColumn { name, kind, description, .. }| {
        format!("| `{name}` | {kind} | {description} |")
    });
    let columns: Vec<String> = columns.collect();
    let begin = table.iter().position(|line| *line == columns[0]).expect(&columns[0]);
    assert_eq!(table[begin..begin + columns.len()], columns, "{columns:#?}");
}
