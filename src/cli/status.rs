//! `bart status`: what is live where, what goes on, what is locked, and what the service waits for.

use std::collections::BTreeSet;

use clap::Args;
use futures::StreamExt as _;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::ago::ago;
use super::client::{Detail, List, Overview, Server};
use super::deployment;
use super::error::{CliError, Outcome};
use super::follow::Readiness;
use super::here::{self, About};
use super::offline;
use super::output::{self, BAD, BOLD, DIM, Format, NOTE};
use crate::clock::Clock;
use crate::model::deployment::State;
use crate::model::id::{AppKey, DeployId, TargetName};

/// So many targets are asked for at once.
const AT_ONCE: usize = 8;
/// A longer list is not for people.
const MOST_APPS: usize = 2_000;

/// Shows where an app is: what is live, what is under way, what is locked, and what the service waits
/// for; or one deployment with all that is known of it.
///
/// Where no app is named and the working folder is no service's, it shows all apps.
///
/// Examples:
///
///   bart status                             the app in this folder, on all its targets
///   bart status --app devx/my-app -t dev    another one, on one target
///   bart status --all                       every app
///   bart status 20261121-054812123-3f9a2c   one deployment
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub(super) struct Status {
    /// A deployment's id
    #[arg(value_parser = |text: &str| DeployId::parse(text).map_err(|e| e.to_string()), conflicts_with_all = ["target", "all"])]
    deployment: Option<DeployId>,
    /// Only on this target
    #[arg(long, short, value_parser = offline::target)]
    target: Option<TargetName>,
    /// Every app
    #[arg(long)]
    all: bool,
    #[command(flatten)]
    about: About,
    #[command(flatten)]
    server: Server,
    /// How to print the result
    #[arg(long, short, value_enum, default_value_t)]
    output: Format,
}

/// An app on all its targets.
#[derive(Debug, Serialize)]
struct OneApp {
    app: String,
    /// Where it is, or may be: what its WAML names and it was never deployed to is there without more.
    targets: Vec<Target>,
    service: Readiness,
}

#[derive(Debug, Serialize)]
struct Target {
    target: String,
    /// As the service has it; null where it was never deployed to.
    state: Option<App>,
}

/// An app on a target. Unknown fields are from a newer service, and left out.
#[derive(Debug, Serialize, Deserialize)]
struct App {
    repository: Option<String>,
    owner: Option<String>,
    hosts: Vec<String>,
    live: Option<Live>,
    hand_edited: bool,
    under_way: Vec<Overview>,
    last: Option<Overview>,
    locks: Vec<Lock>,
    #[serde(default)]
    hold: Option<Hold>,
    sync: Sync,
}

#[derive(Debug, Serialize, Deserialize)]
struct Live {
    revision: String,
    tag: Option<String>,
    commit: Option<String>,
    at: Option<Timestamp>,
    actor: Option<String>,
}

#[derive(Debug, Serialize, Deserialize)]
struct Lock {
    id: String,
    scope: serde_json::Value,
    reason: String,
    by: String,
    since: Timestamp,
    until: Option<Timestamp>,
}

#[derive(Debug, Serialize, Deserialize)]
struct Hold {
    by: String,
    reason: String,
    since: Timestamp,
}

#[derive(Debug, Serialize, Deserialize)]
struct Sync {
    state: String,
    why: Option<String>,
    told_at: Option<Timestamp>,
}

/// All apps.
#[derive(Debug, Serialize)]
struct Everything {
    apps: Vec<Placed>,
    missing: Vec<serde_json::Value>,
    under_way: Vec<Overview>,
    service: Readiness,
}

#[derive(Debug, Deserialize)]
struct Page {
    apps: Vec<Placed>,
    next: Option<String>,
    missing: Vec<serde_json::Value>,
}

#[derive(Debug, Serialize, Deserialize)]
struct Placed {
    target: String,
    namespace: String,
    app: String,
    live_revision: Option<String>,
    hosts: Vec<String>,
    owner: Option<String>,
    repository: Option<String>,
    #[serde(default)]
    locked: bool,
    #[serde(default)]
    held: bool,
}

impl Status {
    pub(super) async fn run(self) -> Outcome {
        if let Some(id) = &self.deployment {
            return self.one(id).await;
        }
        if self.all {
            return self.everything().await;
        }
        match self.about.app() {
            Ok(app) => self.app(app).await,
            Err(_) if !self.about.is_said() && here::waml_file().is_none() => {
                self.everything().await
            }
            Err(error) => Err(error),
        }
    }

    async fn one(&self, id: &DeployId) -> Outcome {
        let detail: Detail = self.server.get(&format!("/api/v1/deployments/{id}"), &[]).await?;
        if self.output.is_data() {
            return output::data(self.output, &detail);
        }
        output::print(&deployment::page(&detail))
    }

    async fn app(&self, app: AppKey) -> Outcome {
        let service = self.server.ready().await?;
        let targets = self.targets(&app).await?;
        let (server, key) = (&self.server, &app);
        let asking = targets.into_iter().map(|target| async move {
            let AppKey { namespace, slug } = key;
            let path = format!("/api/v1/apps/{target}/{namespace}/{slug}");
            Ok(Target { state: server.find(&path).await?, target })
        });
        let asked: Vec<_> = futures::stream::iter(asking).buffered(AT_ONCE).collect().await;
        let targets = asked.into_iter().collect::<Result<Vec<_>, CliError>>()?;
        let found = OneApp { app: app.to_string(), targets, service };
        if self.output.is_data() {
            return output::data(self.output, &found);
        }
        output::print(&of_app(&found, Clock::system().now()))
    }

    /// Where the app is, and where its WAML says that it may be.
    async fn targets(&self, app: &AppKey) -> Result<BTreeSet<String>, CliError> {
        if let Some(target) = &self.target {
            return Ok([target.to_string()].into());
        }
        let page: Page = self
            .server
            .get("/api/v1/apps", &[("app", app.to_string()), ("limit", "200".to_owned())])
            .await?;
        let mut targets: BTreeSet<_> = page.apps.into_iter().map(|one| one.target).collect();
        if let Ok(found) = here::waml()
            && found.waml.app == *app
        {
            targets.extend(found.waml.deploy.keys().map(ToString::to_string));
        }
        Ok(targets)
    }

    async fn everything(&self) -> Outcome {
        let service = self.server.ready().await?;
        let (apps, missing) = self.placed().await?;
        let mut under_way = Vec::new();
        for state in [State::Pushing, State::Running, State::Queued] {
            let mut query = vec![("limit", "50".to_owned()), ("state", state.as_str().to_owned())];
            query.extend(self.target.iter().map(|target| ("target", target.to_string())));
            let list: List = self.server.get("/api/v1/deployments", &query).await?;
            under_way.extend(list.deployments);
        }
        let found = Everything { apps, missing, under_way, service };
        if self.output.is_data() {
            return output::data(self.output, &found);
        }
        output::print(&of_all(&found))
    }

    async fn placed(&self) -> Result<(Vec<Placed>, Vec<serde_json::Value>), CliError> {
        let (mut apps, mut cursor) = (Vec::new(), None::<String>);
        loop {
            let mut query = vec![("limit", "200".to_owned())];
            query.extend(self.target.iter().map(|target| ("target", target.to_string())));
            query.extend(cursor.iter().map(|cursor| ("cursor", cursor.clone())));
            let page: Page = self.server.get("/api/v1/apps", &query).await?;
            apps.extend(page.apps);
            cursor = page.next;
            if cursor.is_none() || apps.len() >= MOST_APPS {
                return Ok((apps, page.missing));
            }
        }
    }
}

fn of_app(found: &OneApp, now: Timestamp) -> String {
    let known = found.targets.iter().find_map(|target| target.state.as_ref());
    let whose = known.map(|app| [app.repository.as_deref(), app.owner.as_deref()]);
    let whose: Vec<_> = whose.into_iter().flatten().flatten().collect();
    let mut text = format!("{BOLD}{}{BOLD:#}  {DIM}{}{DIM:#}\n\n", found.app, whose.join("  "));
    let rows: Vec<_> = found.targets.iter().map(|target| row(target, now)).collect();
    if rows.is_empty() {
        text += "it is on no target yet\n";
    } else {
        text += &coloured(&output::table(["TARGET", "LIVE", "SINCE", "BY", "STATE"], rows));
    }
    let states = || found.targets.iter().filter_map(|t| Some((&t.target, t.state.as_ref()?)));
    let under_way: Vec<_> = states().flat_map(|(_, app)| &app.under_way).collect();
    if !under_way.is_empty() {
        text += &format!("\n{BOLD}under way{BOLD:#}\n");
        text += &under_way.iter().map(|one| going(one)).collect::<String>();
    }
    let locks: Vec<_> =
        states().flat_map(|(target, app)| app.locks.iter().map(move |l| (target, l))).collect();
    if !locks.is_empty() {
        text += &format!("\n{BOLD}locked{BOLD:#}\n");
        text += &locks.iter().map(|(target, lock)| locked(target, lock, now)).collect::<String>();
    }
    for (target, hold) in states().filter_map(|(target, app)| Some((target, app.hold.as_ref()?))) {
        let Hold { by, reason, since } = hold;
        text +=
            &format!("\n{BOLD}held{BOLD:#}\n  {target}  by {by}, {}: {reason}\n", ago(now, *since));
    }
    text + &waits(&found.service)
}

/// The table with its words coloured: in it colours would count as characters.
fn coloured(table: &str) -> String {
    let words = [
        ("edited by hand", BAD),
        (" failed", BAD),
        ("Argo CD not told", BAD),
        ("locked", NOTE),
        ("held", NOTE),
        ("never deployed", DIM),
    ];
    words.into_iter().fold(table.to_owned(), |text, (word, colour)| {
        text.replace(word, &format!("{colour}{word}{colour:#}"))
    })
}

/// One target's line.
fn row(target: &Target, now: Timestamp) -> [String; 5] {
    let none = || "-".to_owned();
    let Some(app) = &target.state else {
        return [target.target.clone(), none(), none(), none(), "never deployed".to_owned()];
    };
    let live = app.live.as_ref();
    [
        target.target.clone(),
        live.map_or_else(none, |live| live.tag.clone().unwrap_or_else(|| live.revision.clone())),
        live.and_then(|live| live.at).map_or_else(none, |at| ago(now, at)),
        live.and_then(|live| live.actor.clone()).unwrap_or_else(none),
        state(app),
    ]
}

/// What there is to say of an app on a target, in a few words.
fn state(app: &App) -> String {
    let mut words = Vec::new();
    match (&app.live, app.hand_edited) {
        (Some(_), _) => words.push("live".to_owned()),
        (None, true) => words.push("edited by hand".to_owned()),
        (None, false) => words.push("not there".to_owned()),
    }
    words.extend(app.under_way.iter().map(|one| format!("{} {}", one.tag, one.state.as_str())));
    let failed = app.last.as_ref().filter(|last| last.state == State::Failed);
    words.extend(failed.map(|last| format!("{} failed", last.tag)));
    words.extend((!app.locks.is_empty()).then(|| "locked".to_owned()));
    words.extend(app.hold.as_ref().map(|_| "held".to_owned()));
    words.extend(match app.sync.state.as_str() {
        "waiting" => Some("Argo CD not told yet".to_owned()),
        "given-up" => Some("Argo CD not told".to_owned()),
        _ => None,
    });
    words.join(", ")
}

fn going(one: &Overview) -> String {
    let colour = deployment::colour(one.state);
    let Overview { id, tag, target, actor, summary, .. } = one;
    let state = one.state.as_str();
    format!("  {id}  {colour}{state}{colour:#}  {tag} to {target} by {actor}: {summary}\n")
}

fn locked(target: &str, lock: &Lock, now: Timestamp) -> String {
    let Lock { id, scope, reason, by, since, until } = lock;
    let named = |key: &str| scope.get(key).and_then(serde_json::Value::as_str);
    let what = match (named("app"), named("owner"), named("target")) {
        (Some(_), _, _) => "this app",
        (_, Some(_), _) => "the team's apps",
        (_, _, Some(_)) => "all on it",
        _ => "everything",
    };
    let until = until.map_or(String::new(), |at| format!(", until {at}"));
    format!("  {target}  {id}  {what}, by {by}, {}{until}: {reason}\n", ago(now, *since))
}

/// What the service waits for; nothing where it is ready.
fn waits(service: &Readiness) -> String {
    if service.ready {
        return String::new();
    }
    let waiting = service.checks.iter().filter_map(|check| {
        let why = check.waiting_for.as_ref()?;
        Some(format!("  {}: {why}\n", check.name))
    });
    format!("\n{BAD}the service waits{BAD:#}\n{}", waiting.collect::<String>())
}

fn of_all(found: &Everything) -> String {
    let row = |one: &Placed| {
        let or = |text: &Option<String>| text.clone().unwrap_or_else(|| "-".to_owned());
        let mut state = Vec::new();
        state.extend(one.live_revision.is_none().then_some("edited by hand"));
        state.extend(one.locked.then_some("locked"));
        state.extend(one.held.then_some("held"));
        [
            format!("{}/{}", one.namespace, one.app),
            one.target.clone(),
            or(&one.live_revision),
            or(&one.owner),
            state.join(", "),
        ]
    };
    let mut text = match found.apps.as_slice() {
        [] => "no app is on any target yet\n".to_owned(),
        apps => {
            let header = ["APP", "TARGET", "LIVE REVISION", "OWNER", "STATE"];
            coloured(&output::table(header, apps.iter().map(row).collect()))
        }
    };
    for missing in &found.missing {
        let said = |key: &str| missing.get(key).and_then(serde_json::Value::as_str).unwrap_or("?");
        text +=
            &format!("{NOTE}missing{NOTE:#}: what is in {}: {}\n", said("repository"), said("why"));
    }
    if !found.under_way.is_empty() {
        text += &format!("\n{BOLD}under way{BOLD:#}\n");
        text += &found.under_way.iter().map(going).collect::<String>();
    }
    text + &waits(&found.service)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ready(ready: bool) -> Readiness {
        let checks = serde_json::json!({"ready": ready, "checks": [
            {"name": "database", "ready": true, "waiting_for": null},
            {"name": "manifest repository main", "ready": ready,
             "waiting_for": (!ready).then_some("git.example.com does not answer")},
        ]});
        serde_json::from_value(checks).unwrap()
    }

    fn deployment(state: &str) -> serde_json::Value {
        serde_json::json!({
            "id": "20261121-115900000-3f9a2c", "state": state, "app": "devx/shop", "target": "prod",
            "repository": "acme/shop", "tag": "1.11", "actor": "jo", "summary": "waiting for a worker",
            "received_at": "2026-11-21T11:59:00Z", "finished_at": null, "template": null,
            "errors": 0, "warnings": 0,
        })
    }

    fn app(more: &serde_json::Value) -> App {
        let mut app = serde_json::json!({
            "repository": "acme/shop", "owner": "squad@example.com", "hosts": [],
            "live": {"revision": "20261121-090000000-3f9a2c", "tag": "1.10", "commit": null,
                     "at": "2026-11-21T09:00:00Z", "actor": "alice"},
            "hand_edited": false, "under_way": [], "last": null, "locks": [],
            "sync": {"state": "by-itself", "why": null, "told_at": null},
        });
        for (key, value) in more.as_object().unwrap() {
            app[key] = value.clone();
        }
        serde_json::from_value(app).unwrap()
    }

    #[test]
    fn an_app_is_shown_with_all_that_stands_in_its_way() {
        let now = "2026-11-21T12:00:00Z".parse().unwrap();
        let lock = serde_json::json!({"id": "0123abcd", "scope": {"target": "prod"}, "reason": "books",
            "by": "Jo", "since": "2026-11-21T10:00:00Z", "until": "2026-11-22T00:00:00Z"});
        let full = serde_json::json!({"locks": [lock], "under_way": [deployment("queued")],
            "sync": {"state": "given-up", "why": "no token", "told_at": null},
            "hold": {"by": "ann", "reason": "1.11 loses orders", "since": "2026-11-21T11:30:00Z"}});
        let edited =
            serde_json::json!({"live": null, "hand_edited": true, "last": deployment("failed")});
        let target = |name: &str, state| Target { target: name.to_owned(), state };
        let found = OneApp {
            app: "devx/shop".to_owned(),
            targets: vec![
                target("dev", None),
                target("prod", Some(app(&full))),
                target("test", Some(app(&edited))),
            ],
            service: ready(false),
        };
        let text = anstream::adapter::strip_str(&of_app(&found, now)).to_string();
        insta::assert_snapshot!(text, @"
        devx/shop  acme/shop  squad@example.com

        TARGET  LIVE  SINCE    BY     STATE
        dev     -     -        -      never deployed
        prod    1.10  3 h ago  alice  live, 1.11 queued, locked, held, Argo CD not told
        test    -     -        -      edited by hand, 1.11 failed

        under way
          20261121-115900000-3f9a2c  queued  1.11 to prod by jo: waiting for a worker

        locked
          prod  0123abcd  all on it, by Jo, 2 h ago, until 2026-11-22T00:00:00Z: books

        held
          prod  by ann, 30 min ago: 1.11 loses orders

        the service waits
          manifest repository main: git.example.com does not answer
        ");
    }

    #[test]
    fn all_apps_are_shown_with_what_goes_on() {
        let placed = |app: &str, live: Option<&str>, locked| Placed {
            target: "prod".to_owned(),
            namespace: "devx".to_owned(),
            app: app.to_owned(),
            live_revision: live.map(str::to_owned),
            hosts: Vec::new(),
            owner: live.map(|_| "squad@example.com".to_owned()),
            repository: None,
            locked,
            held: locked,
        };
        let found = Everything {
            apps: vec![
                placed("cart", None, false),
                placed("shop", Some("20261121-090000000-3f9a2c"), true),
            ],
            missing: vec![serde_json::json!({"repository": "far", "why": "it cannot be reached"})],
            under_way: vec![serde_json::from_value(deployment("running")).unwrap()],
            service: ready(true),
        };
        let text = anstream::adapter::strip_str(&of_all(&found)).to_string();
        insta::assert_snapshot!(text, @"
        APP        TARGET  LIVE REVISION              OWNER              STATE
        devx/cart  prod    -                          -                  edited by hand
        devx/shop  prod    20261121-090000000-3f9a2c  squad@example.com  locked, held
        missing: what is in far: it cannot be reached

        under way
          20261121-115900000-3f9a2c  running  1.11 to prod by jo: waiting for a worker
        ");
    }
}
