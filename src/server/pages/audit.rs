//! The page of the audit log, for administrators. Pure.

use askama::Template;

use crate::model::audit::AuditRecord;
use crate::server::pages::document::{Frame, PageError, PageSection};
use crate::server::pages::words::{self, RelativeTime};

#[derive(Template)]
#[template(path = "audit.html")]
struct AuditView {
    frame: Frame,
    filter: AuditFilter,
    is_filtered: bool,
    rows: Vec<AuditRow>,
    /// The query of the next page.
    older: Option<String>,
}

/// The texts of the filter, as the address has them.
#[derive(Default)]
struct AuditFilter {
    by: String,
    act: String,
    target: String,
    app: String,
}

struct AuditRow {
    at: RelativeTime,
    act: String,
    subject: String,
    by: String,
    via: String,
    reason: String,
    outcome: String,
}

/// Renders the page.
///
/// # Errors
/// [`PageError`]
pub(crate) fn page(
    records: Vec<AuditRecord>,
    pairs: &[(String, String)],
    older: Option<String>,
) -> Result<String, PageError> {
    let text = |name: &str| {
        let pair = pairs.iter().find(|(key, _)| key == name);
        pair.map(|(_, value)| value.clone()).unwrap_or_default()
    };
    let view = AuditView {
        frame: Frame {
            title: "audit log".to_owned(),
            section: PageSection::Audit,
            ..Frame::default()
        },
        filter: AuditFilter {
            by: text("by"),
            act: text("act"),
            target: text("target"),
            app: text("app"),
        },
        is_filtered: pairs.iter().any(|(name, _)| name != "cursor"),
        rows: records.into_iter().map(row).collect(),
        older,
    };
    Ok(view.render()?)
}

fn row(record: AuditRecord) -> AuditRow {
    let AuditRecord { id: _, at, by, act, target, app, subject, reason, outcome } = record;
    let place = match (target, app) {
        (Some(target), Some(app)) => format!("{app} on {target} "),
        (Some(target), None) => format!("{target} "),
        (None, Some(app)) => format!("{app} "),
        (None, None) => String::new(),
    };
    let from = by.from.map(|from| format!(" from {from}")).unwrap_or_default();
    AuditRow {
        at: words::moment(at),
        act: words::plain(&act),
        subject: format!("{place}{subject}"),
        by: by.name,
        via: format!("{}{from}", by.via.as_str()),
        reason,
        outcome,
    }
}
