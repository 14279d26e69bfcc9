//! A plan as people read it.

use crate::api::plans::{PlanAnswer, PlanOutcome};
use crate::cli::changes::{self, Shown};
use crate::cli::diagnostics::{self, Sources};
use crate::cli::output::{BAD, BOLD, GOOD, NOTE};
use crate::model::change::How;

/// One target's plan.
pub(super) fn of(plan: &PlanAnswer, diff: bool, sources: &Sources) -> String {
    let app = plan.app.as_deref().unwrap_or("the app");
    let tag = plan.tag.as_ref().map_or_else(String::new, |tag| format!(", tag {tag}"));
    let mut text = format!("{BOLD}{app} on {}{BOLD:#}{tag}: {}\n", plan.target, verdict(plan));
    let shown = if diff { Shown::Lines } else { Shown::Fields };
    text += &changes::page(&plan.changes, shown);
    for note in &plan.notes {
        text += &format!("{NOTE}note{NOTE:#}: {note}\n");
    }
    let met: Vec<_> = plan.violations.iter().chain(&plan.warnings).cloned().collect();
    if !met.is_empty() {
        text += &format!("\n{}", diagnostics::render(&met, sources));
        text += &diagnostics::left_out(plan.violations_left_out + plan.warnings_left_out);
    }
    text
}

fn verdict(plan: &PlanAnswer) -> String {
    let of = |how: How| plan.changes.iter().filter(|change| change.how == how).count();
    match plan.outcome {
        PlanOutcome::Refused => format!("{BAD}would be refused{BAD:#}"),
        PlanOutcome::Unchanged => format!("{GOOD}nothing would change{GOOD:#}"),
        PlanOutcome::Changes => {
            let counts = [
                ("new", of(How::Added)),
                ("changed", of(How::Changed)),
                ("gone", of(How::Removed)),
            ];
            let some = counts.into_iter().filter(|(_, n)| *n > 0);
            some.map(|(word, n)| format!("{n} {word}")).collect::<Vec<_>>().join(", ")
        }
    }
}
