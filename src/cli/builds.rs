//! `bart builds`: what could be deployed, and where each build is live.

use clap::Args;

use super::client::Server;
use super::error::{CliError, Outcome};
use super::here::{self, About};
use super::offline;
use super::output::{self, DIM, Format, GOOD, NOTE};
use super::table::{Column, table, wrap};
use super::times::{TimeHeader, Times};
use super::verbatim::Verbatim;
use crate::api::builds::{BuildPage, BuildSummary, BuildsRequest};
use crate::model::id::{AppKey, TargetName};

/// Lists the newest builds of the app's image, with age, commit, and the targets where each is live.
///
/// The service asks the image's registry. A registry has no list by time: the tags that are likely to be the
/// newest are looked at, and a note says so where these are not all. What is live is in the list, however old it is.
///
/// The image is the one of the newest deployment's WAML; of an app that was never deployed, that of the WAML in the
/// working folder.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  bart builds
  bart builds --limit 5 --output json
  bart builds --cursor 15                              older ones
  bart builds --app devx/my-app --target prod-cluster-1")]
pub(super) struct Builds {
    /// The target whose section of the WAML names the image, where they differ
    #[arg(long, short, value_parser = offline::target)]
    target: Option<TargetName>,
    /// At most so many
    #[arg(long, default_value_t = 15, value_parser = offline::count::<100>)]
    limit: u32,
    /// The `next` of an earlier answer: goes on with older ones
    #[arg(long)]
    cursor: Option<String>,
    #[command(flatten)]
    about: About,
    #[command(flatten)]
    server: Server,
    /// How to print the result
    #[arg(long, short, value_enum, default_value_t)]
    output: Format,
}

impl Builds {
    pub(super) async fn run(self) -> Outcome {
        let list = self.list().await?;
        if self.output.is_data() {
            return output::data(self.output, &list);
        }
        output::print(&text(&list, Times::system()))?;
        output::note(&wrap(&notes(&list), output::width()));
        Ok(())
    }

    async fn list(&self) -> Result<Verbatim<BuildPage>, CliError> {
        let app = self.server.find_app(&self.about).await?;
        let mut query = vec![("app", app.to_string()), ("limit", self.limit.to_string())];
        query.extend(self.target.iter().map(|target| ("target", target.to_string())));
        query.extend(self.cursor.iter().map(|cursor| ("cursor", cursor.clone())));
        let list: Result<Verbatim<BuildPage>, CliError> =
            self.server.get("/api/v1/builds", &query).await;
        let names = self.about.names(self.target.as_ref());
        match (list, self.request_with_waml(&app)) {
            // The service does not know the app, or may not say that it does: the WAML that is here names the image.
            (Err(refused), Some(ask)) if refused.is_refusal() => {
                let of_waml = self.server.consult("/api/v1/builds", &ask).await;
                self.server.suggest(of_waml, &names).await
            }
            (list, _) => self.server.suggest(list, &names).await,
        }
    }

    /// What to ask with the WAML of the working folder, if it is of the app.
    fn request_with_waml(&self, app: &AppKey) -> Option<BuildsRequest> {
        let found = here::waml().ok().filter(|found| found.app == *app)?;
        let target = self.target.as_ref();
        let named =
            target.is_none_or(|target| found.targets().into_iter().any(|one| one == target));
        let (_, bytes) = here::waml_text().ok()?;
        named.then_some(())?;
        Some(BuildsRequest {
            repository: self.about.repository().ok()?.into(),
            waml: String::from_utf8(bytes).ok()?,
            target: target.map(ToString::to_string),
            limit: Some(self.limit),
            cursor: self.cursor.clone(),
        })
    }
}

fn text(list: &BuildPage, times: Times) -> String {
    let BuildPage { image, builds, .. } = list;
    if builds.is_empty() {
        if list.complete {
            return format!("{image} has no builds\n");
        }
        return format!("no builds of {image} are known here\n");
    }
    let table = table(columns(times), rows(builds, times));
    format!("{DIM}{image}{DIM:#}\n{table}")
}

fn rows(builds: &[BuildSummary], times: Times) -> Vec<[String; 4]> {
    let row = |build: &BuildSummary| {
        let commit = build.commit.as_deref().map_or("-", |id| id.get(..8).unwrap_or(id));
        let live = build.live.join(", ");
        [build.tag.clone(), times.past_cell(build.created), commit.to_owned(), live]
    };
    builds.iter().map(row).collect()
}

fn columns(times: Times) -> [Column; 4] {
    [
        // As wide as a tag of a version, a time and a commit: such are copied whole.
        Column::middle("TAG", 29),
        times.column(TimeHeader::When),
        Column::whole("COMMIT").drop(1),
        Column::fold("LIVE ON", 16).paint(|live| format!("{GOOD}{live}{GOOD:#}")),
    ]
}

fn notes(list: &BuildPage) -> String {
    let some = (!list.complete).then(|| {
        format!(
            "the registry lists {} tags, and not all were looked at: newer builds may be missing",
            list.tags
        )
    });
    let all = some.iter().chain(&list.notes);
    let notes: String = all.map(|note| format!("{NOTE}note{NOTE:#}: {note}\n")).collect();
    let older = list.next.as_ref();
    notes
        + &older.map_or_else(String::new, |next| {
            format!("{NOTE}older ones{NOTE:#}: add --cursor {next}\n")
        })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::table::layout;
    use crate::cli::times::TimeStyle;

    #[test]
    fn builds_fit_80_columns_in_every_style_and_a_usual_tag_is_whole() {
        let build = |tag: &str| BuildSummary {
            tag: tag.to_owned(),
            digest: None,
            created: Some("2026-11-11T11:00:00Z".parse().unwrap()),
            commit: Some("0123456789abcdef".to_owned()),
            live: vec!["prod-cluster-1".to_owned(), "prod-cluster-2".to_owned()],
        };
        let usual = "1.0.202206151506-sha.649008fb";
        let builds = [build(usual), build(&"a".repeat(60))];
        let now = "2026-11-21T12:00:00Z".parse().unwrap();
        for style in [TimeStyle::Relative, TimeStyle::Absolute] {
            let times = Times { now, style };
            let text = layout(&columns(times), rows(&builds, times), Some(80));
            let bare = anstream::adapter::strip_str(&text).to_string();
            assert!(bare.lines().all(|line| line.chars().count() <= 80), "{bare}");
            assert!(bare.contains(usual), "{bare}");
        }
    }

    #[test]
    fn a_table_is_as_wide_with_colour_as_without() {
        let now = "2026-11-21T12:00:00Z".parse().unwrap();
        let times = Times { now, style: TimeStyle::Relative };
        let list = serde_json::json!({"image": "ghcr.io/acme/shop", "tags": 2, "complete": true,
        "notes": [], "next": "15", "later": 1, "builds": [
            {"tag": "1.1", "digest": null, "created": "2026-11-21T11:00:00Z",
             "commit": "0123456789abcdef", "live": ["dev", "prod"], "later": {"x": 1}},
            {"tag": "1.0", "digest": null, "created": null, "commit": null, "live": []},
        ]});
        let read: Verbatim<BuildPage> = serde_json::from_value(list.clone()).unwrap();
        assert_eq!(serde_json::to_value(&read).unwrap(), list, "programs get all that came");
        let text = text(&read, times);
        assert!(text.contains(&format!("{GOOD}dev, prod{GOOD:#}\n")), "{text}");
        assert_eq!(text.matches(&GOOD.to_string()).count(), 1, "{text}");
    }
}
