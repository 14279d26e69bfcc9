//! A sample week: what the service would have after a week of several apps, so that its pages have something to show.
//!
//! The service itself lives through it, on a clock that is moved by hand: signed events, manifests, rollouts and acts are
//! real, and only the time is not. All of it is in the namespace `sample`, on targets that the demo does not use
//! otherwise.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use secrecy::SecretString;
use serde_json::{Value as Json, json};

use super::story;
use crate::app::App;
use crate::app::stepped::SteppedApp;
use crate::cli::error::{CliError, CommandOutcome};
use crate::config::settings::Settings;
use crate::support::clock::Clock;

/// The namespace of all that is made up.
const NAMESPACE: &str = "sample";
/// The apps, each with its team.
const APPS: [(&str, &str); 5] = [
    ("checkout", "payments"),
    ("invoices", "payments"),
    ("search", "discovery"),
    ("catalog", "discovery"),
    ("gateway", "platform"),
];
const TARGETS: [&str; 3] = ["staging", "prod-eu", "prod-us"];
/// The time of the day, in hours, at which deployments begin.
const HOURS: [i64; 6] = [8, 9, 11, 14, 15, 17];
const DAYS: i64 = 7;
/// The most rounds of work for one event.
const ROUNDS: usize = 100;

/// The week while it goes on.
struct SampleWeek {
    app: SteppedApp,
    clock: Clock,
    root: PathBuf,
    secret: SecretString,
    number: i64,
}

/// Lets the service live through a week that ends now.
pub(super) async fn live_through(
    settings: Settings,
    root: PathBuf,
    secret: SecretString,
) -> CommandOutcome {
    let now = Clock::system().now();
    let begin = now.saturating_sub(SignedDuration::from_hours(24 * DAYS)).unwrap_or(now);
    let clock = Clock::manual(begin);
    let app = App::build(settings, clock.clone()).await.map_err(CliError::failed)?;
    let app = app.stepped().map_err(CliError::failed)?;
    let mut week = SampleWeek { app, clock, root, secret, number: 1_000 };
    for day in 0..DAYS {
        week.live_day(begin, day).await?;
    }
    week.act().await?;
    week.app.store().close().await;
    Ok(())
}

impl SampleWeek {
    fn address(&self) -> SocketAddr {
        self.app.address()
    }

    /// Deploys some apps: first to staging, then to production.
    async fn live_day(&mut self, begin: Timestamp, day: i64) -> CommandOutcome {
        for (slot, hour) in (0_i64..).zip(HOURS) {
            let at = SignedDuration::from_hours(24 * day + hour);
            self.advance_to(begin.saturating_add(at).unwrap_or(begin));
            let turn = day * 6 + slot;
            let app = usize::try_from(turn).unwrap_or(0) % APPS.len();
            // Some have a mistake, which is found before anything is written.
            let is_broken = turn % 9 == 4;
            let targets = if slot % 3 == 2 { &TARGETS[..] } else { &TARGETS[..1] };
            for target in targets {
                self.deploy(app, target, is_broken).await?;
            }
        }
        Ok(())
    }

    fn advance_to(&self, at: Timestamp) {
        let wait = at.duration_since(self.clock.now());
        self.clock.advance(Duration::try_from(wait).unwrap_or_default());
    }

    async fn deploy(&mut self, app: usize, target: &str, is_broken: bool) -> CommandOutcome {
        let Some((slug, team)) = APPS.get(app) else { return Ok(()) };
        self.number += 1;
        let number = self.number;
        let waml = waml(slug, team, number, is_broken);
        let path = self.root.join(format!("sample/{slug}.git"));
        let commit = story::commit_waml(&path, &waml, "a change", self.clock.now().as_second());
        let commit = commit
            .map_err(|error| CliError::io(format!("cannot make {}: {error}", path.display())))?;
        let event = story::EventToSend {
            number,
            repository: format!("sample/{slug}"),
            repository_number: 100 + i64::try_from(app).unwrap_or(0),
            target: target.to_owned(),
            tag: format!("1.{number}.0"),
            description: "sample week".to_owned(),
            login: "sample-ada".to_owned(),
        };
        story::send_event(self.address(), &self.secret, &event, &commit).await?;
        // The time in the queue, and of the attempt.
        self.clock.advance(Duration::from_millis(1_800 + number.unsigned_abs() * 977 % 5_200));
        self.work().await
    }

    /// Does all that can be done now.
    async fn work(&self) -> CommandOutcome {
        for _ in 0..ROUNDS {
            if self.app.run_once().await.map_err(CliError::failed)? == 0 {
                return Ok(());
            }
        }
        Ok(())
    }

    /// What people have done by the end of the week: a rollback, a lock, and a rollout that waits for an approval.
    async fn act(&mut self) -> CommandOutcome {
        let back = json!({"reason": "sample: orders were lost"});
        self.post(&format!("/api/v1/apps/prod-us/{NAMESPACE}/checkout/rollback"), &back).await?;
        self.clock.advance(Duration::from_secs(2));
        self.work().await?;
        let lock = json!({
            "scope": {"target": "prod-eu", "app": format!("{NAMESPACE}/search")},
            "reason": "sample: the index is rebuilt",
        });
        self.post("/api/v1/locks", &lock).await?;
        let rollout = json!({
            "repository": "sample/gateway", "ref": "main", "tag": "2.0.0", "name": "production",
            "reason": "sample: the new gateway",
        });
        self.post("/api/v1/rollouts", &rollout).await?;
        for _ in 0..5 {
            self.clock.advance(Duration::from_secs(2));
            self.work().await?;
        }
        Ok(())
    }

    async fn post(&self, path: &str, body: &Json) -> CommandOutcome {
        let url = format!("http://{}{path}", self.address());
        let client = story::http_client()?;
        let request = client.post(&url).header("content-type", "application/json");
        let answer = request.body(body.to_string()).send().await;
        let answer = answer.map_err(|error| CliError::io(format!("{path}: {error}")))?;
        if answer.status().is_success() {
            return Ok(());
        }
        let (status, text) = (answer.status(), answer.text().await.unwrap_or_default());
        Err(CliError::io(format!("{path} was answered with {status}: {text}")))
    }
}

fn waml(slug: &str, team: &str, number: i64, is_broken: bool) -> String {
    let port = if is_broken { 80 } else { 8000 };
    let section = format!("{{env: [{{name: RELEASE, value: \"{number}\"}}]}}");
    format!(
        "schema: \"2\"\nname: {slug}\nslug: {slug}\nowner: {team}@example.com\nnamespace: {NAMESPACE}\n\
         links: [{{name: Runbook, url: \"https://example.com/runbooks/{slug}\"}}]\n\
         defaults:\n- match: \"*\"\n  service: [{{ports: [{{name: http, number: 8000}}]}}]\n  \
         ingress: [{{hostPrefix: {slug}, public: true, paths: [{{path: /, servicePort: {port}}}]}}]\n\
         deploy:\n  staging: {section}\n  prod-eu: {section}\n  prod-us: {section}\n\
         rollouts:\n  production:\n    steps:\n    - targets: [staging]\n    - approval: {{}}\n    - targets: [prod-eu, prod-us]\n"
    )
}
