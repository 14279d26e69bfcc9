//! `bart builds`: what could be deployed, and where each build is live.

use clap::Args;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::client::{More, Server};
use super::error::Outcome;
use super::here::About;
use super::offline;
use super::output::{self, DIM, Format, GOOD, NOTE};
use super::table::{Column, table};
use super::times::Times;
use crate::model::id::TargetName;

/// Lists the newest builds of the app's image, with age, commit, and the targets where each is live.
///
/// The service asks the image's registry. A registry has no list by time: the tags that are likely to be the
/// newest are looked at, and a note says so where these are not all.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  bart builds
  bart builds --limit 5 --output json
  bart builds --app devx/my-app --target prod-cluster-1")]
pub(super) struct Builds {
    /// The target whose section of the WAML names the image, where they differ
    #[arg(long, short, value_parser = offline::target)]
    target: Option<TargetName>,
    /// At most so many
    #[arg(long, default_value_t = 15, value_parser = offline::count::<100>)]
    limit: u32,
    #[command(flatten)]
    about: About,
    #[command(flatten)]
    server: Server,
    /// How to print the result
    #[arg(long, short, value_enum, default_value_t)]
    output: Format,
}

/// What the service answers.
#[derive(Debug, Serialize, Deserialize)]
struct List {
    image: String,
    builds: Vec<Build>,
    tags: usize,
    complete: bool,
    notes: Vec<String>,
    #[serde(flatten)]
    more: More,
}

#[derive(Debug, Serialize, Deserialize)]
struct Build {
    tag: String,
    digest: Option<String>,
    created: Option<Timestamp>,
    commit: Option<String>,
    live: Vec<String>,
    #[serde(flatten)]
    more: More,
}

impl Builds {
    pub(super) async fn run(self) -> Outcome {
        let mut query =
            vec![("app", self.about.app()?.to_string()), ("limit", self.limit.to_string())];
        query.extend(self.target.iter().map(|target| ("target", target.to_string())));
        let list = self.server.get("/api/v1/builds", &query).await;
        let names = self.about.names(self.target.as_ref());
        let list: List = self.server.suggest(list, &names).await?;
        if self.output.is_data() {
            return output::data(self.output, &list);
        }
        output::print(&text(&list, Times::system()))?;
        output::note(&notes(&list));
        Ok(())
    }
}

fn text(list: &List, times: Times) -> String {
    let List { image, builds, .. } = list;
    if builds.is_empty() {
        return format!("{image} has no builds\n");
    }
    let row = |build: &Build| {
        let commit = build.commit.as_deref().map_or("-", |id| id.get(..8).unwrap_or(id));
        let live = build.live.join(", ");
        [build.tag.clone(), times.maybe_ago(build.created), commit.to_owned(), live]
    };
    let columns = [
        Column::whole("TAG"),
        Column::whole("WHEN"),
        Column::whole("COMMIT").drop(1),
        Column::fold("LIVE ON", 16).paint(|live| format!("{GOOD}{live}{GOOD:#}")),
    ];
    let table = table(columns, builds.iter().map(row).collect());
    format!("{DIM}{image}{DIM:#}\n{table}")
}

fn notes(list: &List) -> String {
    let some = (!list.complete).then(|| {
        format!(
            "the registry lists {} tags, and not all were looked at: newer builds may be missing",
            list.tags
        )
    });
    let all = some.iter().chain(&list.notes);
    all.map(|note| format!("{NOTE}note{NOTE:#}: {note}\n")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::times::TimeStyle;

    #[test]
    fn a_table_is_as_wide_with_colour_as_without() {
        let now = "2026-11-21T12:00:00Z".parse().unwrap();
        let times = Times { now, style: TimeStyle::Relative };
        let list = serde_json::json!({"image": "ghcr.io/acme/shop", "tags": 2, "complete": true,
        "notes": [], "later": 1, "builds": [
            {"tag": "1.1", "digest": null, "created": "2026-11-21T11:00:00Z",
             "commit": "0123456789abcdef", "live": ["dev", "prod"], "later": {"x": 1}},
            {"tag": "1.0", "digest": null, "created": null, "commit": null, "live": []},
        ]});
        let read: List = serde_json::from_value(list.clone()).unwrap();
        assert_eq!(serde_json::to_value(&read).unwrap(), list, "programs get all that came");
        let text = text(&read, times);
        assert!(text.contains(&format!("{GOOD}dev, prod{GOOD:#}\n")), "{text}");
        assert_eq!(text.matches(&GOOD.to_string()).count(), 1, "{text}");
    }
}
