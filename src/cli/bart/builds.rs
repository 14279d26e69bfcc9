//! `bart builds` lists the builds that can be deployed, and where each is live.

use clap::Args;

use crate::api::builds::{BuildPage, BuildSummary, BuildsRequest};
use crate::cli::client::ServiceEndpoint;
use crate::cli::context::{self, Context};
use crate::cli::error::{CliError, CommandOutcome};
use crate::cli::local;
use crate::cli::output::{self, DIM, GOOD, NOTE, note_line, short};
use crate::cli::repository_apps::AppChoiceArg;
use crate::cli::table::{Column, layout, wrap};
use crate::cli::times::{TimeFormatter, WHEN};
use crate::cli::verbatim::Verbatim;
use crate::model::id::{AppKey, RepoName, TargetName};

/// Lists the newest builds of the app's image, with age, commit, and the targets where each is live.
///
/// The service asks the image's registry. Registries cannot list tags by time: the service looks at the tags that are
/// likely to be the newest, and a note says if there are more tags. Live builds are always in the list.
///
/// The image is the one of the newest deployment's WAML; for an app that was never deployed, that of the WAML in the
/// working folder.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  bart builds
  bart builds --limit 5 --output json
  bart builds --cursor 15                              older ones
  bart builds --app devx/my-app --target prod-cluster-1")]
pub(super) struct BuildsArgs {
    /// The target whose section of the WAML names the image, where they differ
    #[arg(long, short)]
    target: Option<TargetName>,
    /// The largest number of builds
    #[arg(long, default_value_t = 15, value_parser = local::count::<100>)]
    limit: u32,
    /// The `next` of an earlier answer: lists the older builds after it
    #[arg(long)]
    cursor: Option<String>,
    #[command(flatten)]
    context: Context,
}

impl BuildsArgs {
    pub(super) async fn run(self) -> CommandOutcome {
        let list = self.list().await?;
        self.context
            .output
            .print(&list, || text(&list, TimeFormatter::system(), output::width()))?;
        if !self.context.output.is_data() {
            output::note(&wrap(&notes(&list), output::width()));
        }
        Ok(())
    }

    async fn list(&self) -> Result<Verbatim<BuildPage>, CliError> {
        let Context { about, server, .. } = &self.context;
        let lookup = BuildLookup {
            app: server.find_app(about).await?,
            repository: about.repository().ok(),
            target: self.target.clone(),
            limit: self.limit,
            cursor: self.cursor.clone(),
        };
        server.suggest(lookup.fetch(server).await, &about.names(self.target.as_ref())).await
    }
}

/// A page of the builds of an app.
#[derive(Debug)]
pub(super) struct BuildLookup {
    pub(super) app: AppKey,
    /// The service repository, where it is known.
    pub(super) repository: Option<RepoName>,
    /// The target whose section of the WAML names the image; `None` means any.
    pub(super) target: Option<TargetName>,
    /// The largest number of builds.
    pub(super) limit: u32,
    /// The `next` of the page before.
    pub(super) cursor: Option<String>,
}

impl BuildLookup {
    /// Fetches the page. If the service does not know the app, or the caller may not see it, the WAML in the working
    /// folder names the image: an app that was never deployed has builds too.
    pub(super) async fn fetch(
        &self,
        server: &ServiceEndpoint,
    ) -> Result<Verbatim<BuildPage>, CliError> {
        let Self { app, repository: _, target, limit, cursor } = self;
        let mut query = vec![("app", app.to_string()), ("limit", limit.to_string())];
        query.extend(target.iter().map(|target| ("target", target.to_string())));
        query.extend(cursor.iter().map(|cursor| ("cursor", cursor.clone())));
        let page: Result<Verbatim<BuildPage>, CliError> =
            server.get("/api/v1/builds", &query).await;
        if page.as_ref().is_err_and(CliError::is_refusal)
            && let Some(request) = self.request_with_waml()
        {
            return server.consult("/api/v1/builds", &request).await;
        }
        page
    }

    /// Returns the request with the WAML of the working folder, if it is the WAML of the app.
    fn request_with_waml(&self) -> Option<BuildsRequest> {
        let Self { app, repository, target, limit, cursor } = self;
        let choice = AppChoiceArg::of_key(app);
        let waml = context::waml_of(&choice).ok().filter(|waml| waml.app == *app)?;
        let target = target.as_ref();
        target.is_none_or(|target| waml.targets().contains(&target)).then_some(())?;
        let (_, bytes) = context::waml_text(&choice).ok()?;
        Some(BuildsRequest {
            repository: repository.clone()?.into(),
            waml: String::from_utf8(bytes).ok()?,
            target: target.map(ToString::to_string),
            limit: Some(*limit),
            cursor: cursor.clone(),
        })
    }
}

fn text(list: &BuildPage, times: TimeFormatter, width: Option<usize>) -> String {
    let BuildPage { image, builds, .. } = list;
    match (builds.is_empty(), list.complete) {
        (true, true) => format!("{image} has no builds\n"),
        (true, false) => format!("no builds of {image} are known here\n"),
        (false, _) => {
            format!("{DIM}{image}{DIM:#}\n{}", self::list(builds, times, width))
        }
    }
}

fn list(builds: &[BuildSummary], times: TimeFormatter, width: Option<usize>) -> String {
    let row = |build: &BuildSummary| {
        let commit = build.commit.as_deref().map_or("-", short);
        let live = build.live.join(", ");
        [build.tag.clone(), times.past_cell(build.created), commit.to_owned(), live]
    };
    let columns = [
        // As wide as a tag with a version, a time and a commit, so that people can copy it whole.
        Column::middle("TAG", 29),
        times.column(WHEN),
        Column::whole("COMMIT").drop(1),
        Column::fold("LIVE ON", 16).paint(|live| format!("{GOOD}{live}{GOOD:#}")),
    ];
    layout(&columns, builds.iter().map(row).collect(), width)
}

fn notes(list: &BuildPage) -> String {
    let incomplete = (!list.complete).then(|| {
        format!(
            "the registry lists {} tags, and not all were looked at: newer builds may be missing",
            list.tags
        )
    });
    let notes = incomplete.iter().chain(&list.notes).map(note_line);
    let older = list.next.as_ref();
    let older = older.map(|next| format!("{NOTE}older ones{NOTE:#}: add --cursor {next}\n"));
    notes.chain(older).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
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
            let times = TimeFormatter { now, style };
            let text = list(&builds, times, Some(80));
            let plain = anstream::adapter::strip_str(&text).to_string();
            assert!(plain.lines().all(|line| line.chars().count() <= 80), "{plain}");
            assert!(plain.contains(usual), "{plain}");
        }
    }

    #[test]
    fn a_table_is_as_wide_with_colour_as_without() {
        let now = "2026-11-21T12:00:00Z".parse().unwrap();
        let times = TimeFormatter { now, style: TimeStyle::Relative };
        let list = serde_json::json!({"image": "ghcr.io/acme/shop", "tags": 2, "complete": true,
        "notes": [], "next": "15", "later": 1, "builds": [
            {"tag": "1.1", "digest": null, "created": "2026-11-21T11:00:00Z",
             "commit": "0123456789abcdef", "live": ["dev", "prod"], "later": {"x": 1}},
            {"tag": "1.0", "digest": null, "created": null, "commit": null, "live": []},
        ]});
        let page: Verbatim<BuildPage> = serde_json::from_value(list.clone()).unwrap();
        assert_eq!(serde_json::to_value(&page).unwrap(), list, "programs get all that came");
        let text = text(&page, times, None);
        assert!(text.contains(&format!("{GOOD}dev, prod{GOOD:#}\n")), "{text}");
        assert_eq!(text.matches(&GOOD.to_string()).count(), 1, "{text}");
    }
}
