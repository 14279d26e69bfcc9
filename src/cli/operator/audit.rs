//! `the-deployer audit` prints the audit log: the actor, time, origin and reason of each act.

use clap::Args;
use jiff::Timestamp;

use super::config::ConfigSource;
use super::ledger::{app, open, unusable};
use crate::api::audit::AuditPage;
use crate::cli::error::CommandOutcome;
use crate::cli::local;
use crate::cli::output::{self, Format};
use crate::cli::table::{Column, layout};
use crate::cli::times::{self, TimeFormatter, WHEN};
use crate::model::audit::{AuditRecord, Search};
use crate::model::id::{AppKey, TargetName};

/// Shows the audit log: who did each act, when, why and from where, newest first.
///
/// It has rollbacks, holds, locks, removals, cancellations and changes of an app's owner, made over the API or with
/// this program. Deployments that arrived as events are in the list of deployments. Entries are written with the act
/// and never changed. Works on the database of the configuration, whether the service runs or not.
#[derive(Debug, Args)]
pub(super) struct Audit {
    #[command(flatten)]
    source: ConfigSource,
    /// Only acts of this person or token
    #[arg(long, value_name = "NAME")]
    by: Option<String>,
    /// Only acts of this kind: `lock`, `rollback`, `remove`, `move-owner`
    #[arg(long, value_name = "ACT")]
    act: Option<String>,
    /// Only acts on this target
    #[arg(long)]
    target: Option<TargetName>,
    /// Only acts on this app
    #[arg(long, value_name = "NAMESPACE/APP", value_parser = app)]
    app: Option<AppKey>,
    /// Only acts at this time or later: `2h`, `2d` (so long ago), 2026-11-21 (from its beginning, UTC),
    /// 2026-11-21T08:00:00Z
    #[arg(long, value_name = "TIME", value_parser = times::past)]
    since: Option<Timestamp>,
    /// Only acts before this time, written in the same way
    #[arg(long, value_name = "TIME", value_parser = times::past)]
    until: Option<Timestamp>,
    /// The largest number of entries
    #[arg(long, value_name = "NUMBER", default_value_t = 50, value_parser = local::count::<500>)]
    limit: u32,
    /// The format of the result
    #[arg(long, short, value_enum, default_value_t)]
    output: Format,
}

impl Audit {
    pub(super) async fn run(self) -> CommandOutcome {
        let ledger = open(&self.source).await?;
        let Self { source: _, by, act, target, app, since, until, limit, output } = self;
        let search = Search { by, act, target, app, since, until, before: None, limit };
        let records = ledger.audit_records(&search).await.map_err(unusable)?;
        ledger.close().await;
        if output.is_data() {
            return output::data(output, &AuditPage::from(records));
        }
        if records.entries.is_empty() {
            output::print("there are no entries\n")?;
        } else {
            output::print(&list(&records.entries, TimeFormatter::system(), output::width()))?;
        }
        // Only for people: a program knows which limit it gave.
        if records.next.is_some() {
            output::note("there are older entries: use --limit or --until\n");
        }
        Ok(())
    }
}

fn list(entries: &[AuditRecord], times: TimeFormatter, width: Option<usize>) -> String {
    let row = |entry: &AuditRecord| {
        let AuditRecord { id: _, at, by, act, target, app, subject, reason, outcome } = entry;
        let from = by.from.as_deref().map_or_else(String::new, |from| format!(" from {from}"));
        let principal = format!("{} ({}{from})", by.name, by.via.as_str());
        let place = match (app, target) {
            (Some(app), Some(target)) => format!("{app} on {target}"),
            (None, Some(target)) => target.to_string(),
            (_, None) => subject.clone(),
        };
        let title = if place == *subject { "" } else { subject.as_str() };
        let details = [title, reason, outcome].into_iter().filter(|text| !text.is_empty());
        let text = details.collect::<Vec<_>>().join(": ");
        [times.past_cell(Some(*at)), principal, act.to_string(), place, text]
    };
    let columns = [
        times.column(WHEN),
        Column::cut("WHO", 12),
        Column::middle("ACT", 10),
        Column::middle("WHERE", 12),
        Column::fold("WHAT AND WHY", 20),
    ];
    layout(&columns, entries.iter().map(row).collect(), width)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::times::TimeStyle;
    use crate::model::audit::{AuthMethod, Principal};
    use crate::model::id::DeployId;

    #[test]
    fn an_audit_log_fits_80_columns_in_every_style() {
        let at = "2026-11-11T09:00:00Z".parse().unwrap();
        let entry = |act: &str| AuditRecord {
            id: DeployId::parse("20261111-090000000-3f9a2c").unwrap(),
            at,
            by: Principal {
                name: "somebody-with-a-long-name".to_owned(),
                via: AuthMethod::Operator,
                from: Some("2001:db8::4711".to_owned()),
                request: None,
            },
            act: act.to_owned().into(),
            target: TargetName::parse("prod-cluster-1").ok(),
            app: app("devx/shop").ok(),
            subject: "20261121-115900000-3f9a2c".to_owned(),
            reason: "the checkout does not work, and nobody knows why".to_owned(),
            outcome: "created deployment.yaml, service.yaml, ingress.yaml and 5 more".to_owned(),
        };
        let acts = [
            "lock",
            "unlock",
            "hold",
            "release",
            "deploy",
            "cancel",
            "rollback",
            "move-owner",
            "remove",
            "restore",
            "rebuild",
        ];
        let entries: Vec<_> = acts.map(entry).into();
        let now = "2026-11-21T12:00:00Z".parse().unwrap();
        for style in [TimeStyle::Relative, TimeStyle::Absolute] {
            let times = TimeFormatter { now, style };
            let text = list(&entries, times, Some(80));
            assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
            assert!(text.contains("move-owner"), "{text}");
        }
    }
}
