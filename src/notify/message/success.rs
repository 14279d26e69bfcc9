//! A deployment is in the manifest repository: for teams that want to hear of it, and for those
//! who were told that the one before had failed.

use crate::notify::message::block::Block;
use crate::notify::message::letter::Told;
use crate::notify::message::parts::{self, MOST_VIOLATIONS, TitleIcon};
use crate::notify::message::text::shown;
use crate::notify::message::{Kind, News};

const LONGEST_SUMMARY: usize = 1500;

pub(super) fn told(news: &News<'_>) -> Told {
    let deployment = news.deployment;
    let title = title(news);
    let summary = shown(&deployment.summary, LONGEST_SUMMARY);
    let mut head = vec![Block::header(&title, &news.stamp.mark())];
    head.extend(news.astray.as_ref().map(parts::astray));
    head.push(Block::section(&match news.kind {
        Kind::Recovered { failures: 1 } => {
            format!("The deployment before it had failed. {summary}")
        }
        Kind::Recovered { failures } => {
            format!("The {failures} deployments before it had failed. {summary}")
        }
        Kind::Deployed | Kind::RolledBack | Kind::Rejected | Kind::GivenUp => summary.clone(),
    }));
    head.extend(parts::hold(deployment, news.holds));
    head.push(parts::facts(news));
    let warnings = &deployment.violations;
    let item = |violation| parts::violation(violation, deployment, news.links);
    Told {
        text: format!("{title}: {summary}"),
        head,
        items: warnings.iter().take(MOST_VIOLATIONS).map(item).collect(),
        hidden: warnings.len().saturating_sub(MOST_VIOLATIONS) + warnings.left_out(),
        tail: vec![parts::buttons(news), parts::small_print(news)],
    }
}

/// Nobody has looked whether its pods run: what is claimed is that it is deployed.
fn title(news: &News<'_>) -> String {
    match news.kind {
        Kind::RolledBack => parts::rollback_title(news.deployment),
        Kind::Deployed | Kind::Recovered { .. } | Kind::Rejected | Kind::GivenUp => {
            parts::title(TitleIcon::Success, news.deployment, "is deployed to")
        }
    }
}
