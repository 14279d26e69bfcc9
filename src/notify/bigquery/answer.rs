//! Reads BigQuery's answers: whether a request was done, what may be repeated, and what a person must do. Pure.
//!
//! An `insertAll` that is answered with 200 may have refused rows: each has errors of its own.
//! <https://cloud.google.com/bigquery/docs/error-messages>

use std::time::Duration;

use serde_json::Value as Json;

use crate::model::status::one_line;
use crate::notify::bigquery::error::BigQueryError;

/// The server, as people call it.
pub(super) const BIGQUERY: &str = "BigQuery";

/// The longest text of an answer that is shown, in characters.
const LONGEST_TEXT: usize = 300;

/// An answer as it came.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct HttpReply {
    pub(super) status: u16,
    pub(super) retry_after: Option<Duration>,
    /// Null where the body is no JSON.
    pub(super) body: Json,
}

/// The meaning of an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ReplyVerdict {
    /// Done, with this content.
    Done(Json),
    /// The token is not valid any more.
    Unauthorized,
    /// The table or the dataset is not there.
    NotFound(String),
    /// The table is there already.
    Exists,
    /// The table was changed meanwhile.
    Changed,
    /// Not done.
    Failed(BigQueryError),
}

/// Judges an answer.
pub(super) fn judge(reply: HttpReply) -> ReplyVerdict {
    let HttpReply { status, retry_after: after, body } = reply;
    let (server, error) = (BIGQUERY, body.get("error").cloned().unwrap_or_default());
    let refuse = |hint| {
        let reason = describe(status, &error);
        ReplyVerdict::Failed(BigQueryError::Refused { server, reason, hint })
    };
    match (status, reason_of(&error)) {
        (200..=299, _) => ReplyVerdict::Done(body),
        (401, _) => ReplyVerdict::Unauthorized,
        (404, _) => ReplyVerdict::NotFound(describe(status, &error)),
        (409, _) => ReplyVerdict::Exists,
        (412, _) => ReplyVerdict::Changed,
        (408 | 425 | 429 | 500..=599, _) | (403, "quotaExceeded" | "rateLimitExceeded") => {
            let reason = describe(status, &error);
            ReplyVerdict::Failed(BigQueryError::Busy { server, reason, after })
        }
        (403, "billingNotEnabled") => refuse("streaming needs a project with billing"),
        (403, _) => refuse(
            "grant the service account roles/bigquery.dataEditor on the dataset: docs/bigquery.md",
        ),
        (413, _) => {
            ReplyVerdict::Failed(BigQueryError::InvalidRow { reason: describe(status, &error) })
        }
        (300..=399, _) => refuse("it redirects; compare notify.bigquery.endpoint"),
        (_, _) => refuse("compare notify.bigquery with the project: docs/bigquery.md"),
    }
}

/// Reads the errors of the one row of an `insertAll`.
///
/// # Errors
/// [`BigQueryError::NotYet`] for a column that the table does not have, [`BigQueryError::Busy`] for what may be repeated,
/// [`BigQueryError::InvalidRow`] for the rest.
pub(super) fn check_inserted(body: &Json) -> Result<(), BigQueryError> {
    let rows = body["insertErrors"].as_array().into_iter().flatten();
    let errors: Vec<&Json> = rows.filter_map(|row| row["errors"].as_array()).flatten().collect();
    // A row is `stopped` because of another one's fault.
    let is_invalid = |error: &&&Json| reason_of(error) == "invalid";
    let Some(error) = errors.iter().find(is_invalid).or(errors.first()) else {
        return match body["insertErrors"].as_array() {
            Some(rows) if !rows.is_empty() => Err(busy("the row has an error without a reason")),
            _ => Ok(()),
        };
    };
    let text = message_of(error).to_lowercase();
    let reason = match error["location"].as_str() {
        Some(place) if !place.is_empty() => {
            one_line(&format!("{place}: {}", message_of(error)), LONGEST_TEXT)
        }
        _ => one_line(message_of(error), LONGEST_TEXT),
    };
    match reason_of(error) {
        "invalid" if text.contains("no such field") => Err(BigQueryError::NotYet { reason }),
        "invalid" => Err(BigQueryError::InvalidRow { reason }),
        other => Err(busy(&format!("{other}: {reason}"))),
    }
}

fn busy(reason: &str) -> BigQueryError {
    BigQueryError::Busy { server: BIGQUERY, reason: one_line(reason, LONGEST_TEXT), after: None }
}

/// Returns Google's word for an error; empty where there is none.
fn reason_of(error: &Json) -> &str {
    let first = || error.pointer("/errors/0/reason").and_then(Json::as_str);
    error["reason"].as_str().or_else(first).unwrap_or_default()
}

fn message_of(error: &Json) -> &str {
    error["message"].as_str().unwrap_or_default()
}

/// Describes an error answer for people.
fn describe(status: u16, error: &Json) -> String {
    match message_of(error) {
        "" => format!("it answered {status}"),
        message => one_line(&format!("it answered {status}, {message}"), LONGEST_TEXT),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn judged(status: u16, reason: &str) -> ReplyVerdict {
        let errors = json!([{"domain": "global", "reason": reason, "message": "Oh no"}]);
        let body = json!({"error": {"code": status, "message": "Oh no", "errors": errors}});
        judge(HttpReply { status, retry_after: Some(Duration::from_secs(7)), body })
    }

    #[test]
    fn a_quota_passes_and_a_right_must_be_granted() {
        for (status, reason) in [
            (403, "quotaExceeded"),
            (403, "rateLimitExceeded"),
            (429, "rateLimitExceeded"),
            (500, "internalError"),
            (503, "backendError"),
            (408, ""),
        ] {
            let after = Some(Duration::from_secs(7));
            let reason_text = format!("it answered {status}, Oh no");
            let busy = BigQueryError::Busy { server: BIGQUERY, reason: reason_text, after };
            assert_eq!(judged(status, reason), ReplyVerdict::Failed(busy), "{status} {reason}");
        }
        for (status, reason, hint) in [
            (403, "accessDenied", "roles/bigquery.dataEditor"),
            (403, "billingNotEnabled", "billing"),
            (400, "invalid", "docs/bigquery.md"),
            (302, "", "endpoint"),
        ] {
            let ReplyVerdict::Failed(error @ BigQueryError::Refused { .. }) =
                judged(status, reason)
            else {
                panic!("{status} {reason}")
            };
            assert!(error.to_string().contains(hint), "{error}");
        }
        assert_eq!(judged(401, "authError"), ReplyVerdict::Unauthorized);
        assert_eq!(judged(409, "duplicate"), ReplyVerdict::Exists);
        assert!(matches!(judged(404, "notFound"), ReplyVerdict::NotFound(_)));
        let no_json = HttpReply { status: 502, retry_after: None, body: Json::Null };
        let ReplyVerdict::Failed(error) = judge(no_json) else { panic!() };
        assert_eq!(error.to_string(), "BigQuery is busy or down: it answered 502");
    }

    fn inserted(errors: &Json) -> Result<(), BigQueryError> {
        check_inserted(&json!({"insertErrors": [{"index": 0, "errors": errors}]}))
    }

    #[test]
    fn a_row_with_errors_is_repeated_or_refused_by_their_reason() {
        assert_eq!(check_inserted(&json!({"kind": "x"})), Ok(()));
        assert_eq!(check_inserted(&json!({"insertErrors": []})), Ok(()));
        let invalid =
            json!({"reason": "invalid", "location": "attempts", "message": "Cannot convert"});
        let stopped = json!({"reason": "stopped", "location": "", "message": ""});
        let reason = "attempts: Cannot convert".to_owned();
        let refused = Err(BigQueryError::InvalidRow { reason });
        assert_eq!(inserted(&json!([invalid])), refused);
        assert_eq!(inserted(&json!([stopped, invalid])), refused, "the fault is its own");
        for word in ["stopped", "backendError", "timeout", "unheard"] {
            let result = inserted(&json!([{"reason": word, "message": "again"}]));
            assert!(matches!(result, Err(BigQueryError::Busy { .. })), "{word}: {result:?}");
        }
        let column = json!([{"reason": "invalid", "message": "no such field: total_ms."}]);
        assert!(matches!(inserted(&column), Err(BigQueryError::NotYet { .. })));
        let empty = check_inserted(&json!({"insertErrors": [{"index": 0}]}));
        assert!(matches!(empty, Err(BigQueryError::Busy { .. })), "it is not there: {empty:?}");
    }

    #[test]
    fn texts_of_others_are_one_short_line() {
        let text = "x\n".repeat(1000);
        let Err(error) = inserted(&json!([{"reason": "invalid", "message": text}])) else {
            panic!()
        };
        assert!(error.to_string().chars().count() < 400 && !error.to_string().contains('\n'));
    }
}
