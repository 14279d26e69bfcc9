//! A deployment did not arrive: why, and what to do about it.

use crate::model::violation::{Severity, Violation};
use crate::notify::message::block::Block;
use crate::notify::message::letter::Told;
use crate::notify::message::parts::{self, MOST_VIOLATIONS, TitleIcon};
use crate::notify::message::text::shown;
use crate::notify::message::{Kind, News, Reader};

const LONGEST_SUMMARY: usize = 1500;
const LONGEST_LINE: usize = 400;

pub(super) fn told(news: &News<'_>) -> Told {
    let deployment = news.deployment;
    let title = match &deployment.rollback {
        Some(_) => parts::title(TitleIcon::Failure, deployment, "was not made live again on"),
        None => parts::title(TitleIcon::Failure, deployment, "was not deployed to"),
    };
    let errors: Vec<_> = deployment.violations.iter().filter(|one| stops(one)).collect();
    let mut head = vec![Block::header(&title, &news.stamp.mark())];
    head.extend(news.astray.as_ref().map(parts::astray));
    let violations = &deployment.violations;
    head.push(Block::section(&why(news, violations.errors())));
    head.push(parts::facts(news));
    let item = |violation: &&Violation| parts::violation(violation, deployment, news.links);
    Told {
        text: format!("{title}: {}", shown(&deployment.summary, LONGEST_LINE)),
        head,
        items: errors.iter().take(MOST_VIOLATIONS).map(item).collect(),
        hidden: violations.errors() - errors.len().min(MOST_VIOLATIONS),
        tail: vec![parts::buttons(news), parts::small_print(news)],
    }
}

fn stops(violation: &Violation) -> bool {
    violation.severity == Severity::Error
}

/// The sentence under the title.
fn why(news: &News<'_>, errors: usize) -> String {
    let you = if news.reader == Reader::Person { "You started it. " } else { "" };
    let summary = shown(&news.deployment.summary, LONGEST_SUMMARY);
    let why = match (news.kind, errors) {
        (Kind::GivenUp, _) => {
            format!(
                "Given up, and not because of the WAML: {summary}\nDeploy again once that is mended."
            )
        }
        (_, 0) => format!("Rejected: {summary}"),
        (_, 1) => "Rejected, because of this; nothing was changed:".to_owned(),
        (_, n) => format!("Rejected, because of these {n} things; nothing was changed:"),
    };
    format!("{you}{why}")
}
