//! Acts on an app of a target: roll back, hold, release, deploy a build.

use std::time::Duration;

use axum::response::Response;
use serde_json::{Value as Json, json};

use crate::api::apps::AppDetail;
use crate::api::builds::{BuildPage, BuildSummary};
use crate::api::deployments::DeployAnswer;
use crate::api::plans::{PlanAnswer, PlanOutcome};
use crate::api::revisions::{RevisionList, RevisionSummary};
use crate::api::rollbacks::{HoldAnswer, HoldSummary, RollbackAnswer, RollbackVersion};
use crate::deployments::CodeHost;
use crate::model::app_instance::AppInstance;
use crate::model::github_deployment::RequiredChecks;
use crate::model::id::RepoName;
use crate::server::act_api::ApiRefusal;
use crate::server::call::{PathParam, QueryPairs, unavailable, unprocessable};
use crate::server::pages::acts::act_call::ActCall;
use crate::server::pages::acts::confirmation::{
    ActConfirmation, ActField, Choice, ChoiceField, ChoiceOption, SelectField, TextField,
};
use crate::server::pages::acts::form::ActForm;
use crate::server::pages::acts::links::app_path;
use crate::server::problem::Problem;
use crate::store::Filter;
use crate::support::percent::encode_segment;

/// The longest wait for the list of builds, which is only an offer.
const BUILDS: Duration = Duration::from_secs(3);
/// The longest wait for GitHub's event of a deployment that was created there: the app's page tells of later ones.
const ARRIVAL: Duration = Duration::from_secs(3);
/// The time between two looks for it without a signal.
const ARRIVAL_LOOK: Duration = Duration::from_millis(250);
/// The reason of a dry run, which nothing records.
const DRY_RUN_REASON: &str = "dry run";

/// Shows what a rollback would change.
pub(super) async fn ask_rollback(
    call: ActCall,
    PathParam(instance): PathParam<AppInstance>,
    query: QueryPairs,
) -> Result<Response, Problem> {
    call.require_deploy(&instance).await?;
    let page = rollback_page(&call, &instance, query.value("to"), Allowed::default()).await;
    call.ask(page)
}

/// Rolls an app back.
pub(super) async fn roll_back(
    call: ActCall,
    PathParam(instance): PathParam<AppInstance>,
    form: ActForm,
) -> Result<Response, Problem> {
    let to = form.get("to");
    let allowed = Allowed {
        data: form.is_checked("with_data"),
        fewer_pods: form.is_checked("with_fewer_pods"),
    };
    let body = rollback_body(to, form.reason(), allowed, false);
    let answer: Result<RollbackAnswer, ApiRefusal> =
        call.api.post(&format!("{}/rollback", app_path(&instance)), &body, form.key()).await;
    let outcome = answer.map(|answer| match answer.deployment {
        Some(deployment) => format!("/deployments/{}", deployment.id),
        None => app_path(&instance),
    });
    call.end(outcome, rollback_page(&call, &instance, to, allowed), &form).await
}

/// What a person allows a rollback to do.
#[derive(Debug, Clone, Copy, Default)]
struct Allowed {
    data: bool,
    fewer_pods: bool,
}

fn rollback_body(to: Option<&str>, reason: &str, allowed: Allowed, is_dry_run: bool) -> Json {
    json!({"to": to, "reason": reason, "with_data": allowed.data, "with_fewer_pods": allowed.fewer_pods,
        "dry_run": is_dry_run})
}

async fn rollback_page(
    call: &ActCall,
    instance: &AppInstance,
    to: Option<&str>,
    allowed: Allowed,
) -> Result<ActConfirmation, ApiRefusal> {
    let base = app_path(instance);
    let history: RevisionList = call.api.get(&format!("{base}/revisions")).await?;
    // Everything is allowed to a dry run, so that it says what would be lost.
    let everything = Allowed { data: true, fewer_pods: true };
    let body = rollback_body(to, DRY_RUN_REASON, everything, true);
    let plan: Result<RollbackAnswer, ApiRefusal> =
        call.api.post(&format!("{base}/rollback"), &body, None).await;
    let options = history.revisions.iter().filter(|revision| !revision.live);
    let chosen = match (&plan, to) {
        (Ok(plan), _) => Some(plan.to.id.clone()),
        (Err(_), to) => to.map(str::to_owned),
    };
    let options: Vec<_> =
        options.map(|revision| revision_option(revision, chosen.as_deref())).collect();
    let mut page = ActConfirmation {
        heading: format!("Roll back {}", subject(instance)),
        is_severe: true,
        back: back(instance),
        choice: (!options.is_empty()).then_some(Choice {
            label: "Revision",
            name: "to",
            options,
            takes_others: false,
            button: "Show what changes",
            fields: Vec::new(),
        }),
        ..ActConfirmation::default()
    };
    let plan = match plan {
        Ok(plan) => plan,
        // Another revision can be chosen.
        Err(refusal) if page.choice.is_some() => {
            page.warnings.push(refusal.detail());
            return Ok(page);
        }
        Err(refusal) => return Err(refusal),
    };
    let RollbackAnswer { deployment: _, from, to, warning, notes, hold, changes } = plan;
    page.consequences.push(match &from {
        Some(from) => format!("{} replaces {}, byte for byte.", version(&to), version(from)),
        None => format!("{} replaces the files that were edited by hand.", version(&to)),
    });
    if hold {
        let sentence =
            "Automation is held off: only a person can deploy over it, or release the hold.";
        page.consequences.push(sentence.to_owned());
    }
    if let Some(earlier) = warning {
        page.warnings.push(format!("{} was rolled back before, by {}.", version(&to), earlier.by));
    }
    page.warnings.extend(notes);
    page.changes = Some(changes.unwrap_or_default());
    page.button = Some("Roll back");
    page.fields = vec![
        ActField::Fixed { name: "to", value: to.id },
        ActField::reason(),
        ActField::Consent {
            name: "with_data",
            label: "Objects that keep data may be removed",
            is_checked: allowed.data,
        },
        ActField::Consent {
            name: "with_fewer_pods",
            label: "It may run with one pod until its autoscaler works",
            is_checked: allowed.fewer_pods,
        },
    ];
    Ok(page)
}

fn revision_option(revision: &RevisionSummary, chosen: Option<&str>) -> ChoiceOption {
    let tag = revision.tag.as_deref().unwrap_or("unknown tag");
    let actor = revision.actor.as_deref().map(|actor| format!(" by {actor}")).unwrap_or_default();
    let note = match (&revision.rolled_back, &revision.failed) {
        (Some(_), _) => ", rolled back",
        (None, Some(_)) => ", failed",
        (None, None) => "",
    };
    ChoiceOption {
        text: format!("{tag} ({}{actor}{note})", revision.id),
        is_chosen: chosen == Some(revision.id.as_str()),
        value: revision.id.clone(),
    }
}

fn version(version: &RollbackVersion) -> String {
    match &version.tag {
        Some(tag) => format!("{tag} ({})", version.id),
        None => version.id.clone(),
    }
}

/// Shows what a hold does.
pub(super) async fn ask_hold(
    call: ActCall,
    PathParam(instance): PathParam<AppInstance>,
) -> Result<Response, Problem> {
    call.require_deploy(&instance).await?;
    let page = hold_page(&call, &instance).await;
    call.ask(page)
}

/// Holds automation off an app.
pub(super) async fn hold(
    call: ActCall,
    PathParam(instance): PathParam<AppInstance>,
    form: ActForm,
) -> Result<Response, Problem> {
    let outcome = send_hold(&call, &instance, "hold", &form).await;
    call.end(outcome, hold_page(&call, &instance), &form).await
}

async fn hold_page(call: &ActCall, instance: &AppInstance) -> Result<ActConfirmation, ApiRefusal> {
    let app: AppDetail = call.api.get(&app_path(instance)).await?;
    let mut page = ActConfirmation {
        heading: format!("Hold {}", subject(instance)),
        consequences: vec![
            "Deployments of programs are refused until somebody releases the hold; those of people are not."
                .to_owned(),
        ],
        fields: vec![ActField::reason()],
        button: Some("Hold"),
        back: back(instance),
        ..ActConfirmation::default()
    };
    if let Some(hold) = app.hold {
        let place = if hold.target == app.target {
            String::new()
        } else {
            format!("by the hold of {}, ", hold.target)
        };
        page.warnings.push(format!("It is held already, {place}by {}: {}", hold.by, hold.reason));
    }
    Ok(page)
}

/// Shows what the release of a hold does.
pub(super) async fn ask_release(
    call: ActCall,
    PathParam(instance): PathParam<AppInstance>,
) -> Result<Response, Problem> {
    call.require_deploy(&instance).await?;
    let page = release_page(&call, &instance).await;
    call.ask(page)
}

/// Ends a hold.
pub(super) async fn release(
    call: ActCall,
    PathParam(instance): PathParam<AppInstance>,
    form: ActForm,
) -> Result<Response, Problem> {
    let outcome = send_hold(&call, &instance, "release", &form).await;
    call.end(outcome, release_page(&call, &instance), &form).await
}

async fn release_page(
    call: &ActCall,
    instance: &AppInstance,
) -> Result<ActConfirmation, ApiRefusal> {
    let app: AppDetail = call.api.get(&app_path(instance)).await?;
    let mut page = ActConfirmation {
        heading: format!("Release {}", subject(instance)),
        back: back(instance),
        ..ActConfirmation::default()
    };
    let holds = call.request.deployments().holds_that_concern(instance).await;
    let holds = holds.map_err(|error| unavailable(&error))?.into_iter().map(HoldSummary::from);
    let (own, others): (Vec<_>, Vec<_>) = holds.partition(|hold| hold.target == app.target);
    let other = others.into_iter().next_back();
    let own = own.into_iter().next();
    let Some(hold) = own else {
        match other {
            Some(hold) => {
                page.consequences.push(format!("{} It is released there.", describe_hold(&hold)));
                let place = AppInstance::parse(&format!("{}/{}", hold.target, hold.app));
                page.back = place.as_ref().map_or(page.back, back);
            }
            None => page.consequences.push("Nothing holds it.".to_owned()),
        }
        return Ok(page);
    };
    page.consequences.push(describe_hold(&hold));
    // A fleet shares clusters with others: the hold of each of them stops programs.
    page.consequences.push(match &other {
        Some(other) => format!("Another hold stays: {}", describe_hold(other)),
        None => "Programs can deploy it again at once.".to_owned(),
    });
    page.fields = vec![ActField::reason()];
    page.button = Some("Release");
    Ok(page)
}

/// Writes who holds an app where, since when and why.
fn describe_hold(HoldSummary { target, by, reason, since, .. }: &HoldSummary) -> String {
    let since = since.strftime("%Y-%m-%d %H:%M UTC");
    let stop = if reason.ends_with(['.', '!', '?']) { "" } else { "." };
    format!("{by} has held it on {target} since {since}: {reason}{stop}")
}

async fn send_hold(
    call: &ActCall,
    instance: &AppInstance,
    act: &str,
    form: &ActForm,
) -> Result<String, ApiRefusal> {
    let base = app_path(instance);
    let body = json!({"reason": form.reason()});
    let answer: Result<HoldAnswer, ApiRefusal> =
        call.api.post(&format!("{base}/{act}"), &body, form.key()).await;
    answer.map(|_| base)
}

/// Shows the builds that can be deployed, and what a chosen one would change.
pub(super) async fn ask_deploy(
    call: ActCall,
    PathParam(instance): PathParam<AppInstance>,
    query: QueryPairs,
) -> Result<Response, Problem> {
    call.require_deploy(&instance).await?;
    let page = deploy_page(&call, &instance, DeployChoice::new(|name| query.value(name))).await;
    call.ask(page)
}

/// Deploys a build.
pub(super) async fn deploy(
    call: ActCall,
    PathParam(instance): PathParam<AppInstance>,
    form: ActForm,
) -> Result<Response, Problem> {
    let choice = DeployChoice::new(|name| form.get(name));
    let outcome = send_deploy(&call, &instance, &form, choice).await;
    call.end(outcome, deploy_page(&call, &instance, choice), &form).await
}

/// What a person has chosen to deploy.
#[derive(Debug, Clone, Copy)]
struct DeployChoice<'a> {
    tag: Option<&'a str>,
    git_ref: Option<&'a str>,
    /// `none`, `all` or `named`.
    checks: &'a str,
    /// The names of checks, one a line.
    contexts: &'a str,
}

impl<'a> DeployChoice<'a> {
    fn new(get: impl Fn(&str) -> Option<&'a str>) -> Self {
        Self {
            tag: get("tag").filter(|tag| !tag.is_empty()),
            git_ref: get("ref").filter(|git_ref| !git_ref.is_empty()),
            checks: get("checks").filter(|checks| !checks.is_empty()).unwrap_or("none"),
            contexts: get("contexts").unwrap_or_default(),
        }
    }

    /// Returns the checks that GitHub is to require; the error says what is to be chosen.
    fn required_checks(&self) -> Result<RequiredChecks, String> {
        let names = self.contexts.lines().map(str::trim).filter(|name| !name.is_empty());
        let names: Vec<String> = names.map(str::to_owned).collect();
        match (self.checks, names.is_empty()) {
            ("named", true) => Err("Name the checks that must have succeeded, one a line.".into()),
            ("named", false) => RequiredChecks::new(false, names),
            ("none" | "all", false) => {
                Err("Checks are named that are not chosen: choose them, or name none.".into())
            }
            ("none", true) => Ok(RequiredChecks::None),
            ("all", true) => Ok(RequiredChecks::All),
            _ => Err("checks: use none, all or named".into()),
        }
    }
}

async fn send_deploy(
    call: &ActCall,
    instance: &AppInstance,
    form: &ActForm,
    choice: DeployChoice<'_>,
) -> Result<String, ApiRefusal> {
    let checks = choice.required_checks().map_err(unprocessable)?;
    let app: AppDetail = call.api.get(&app_path(instance)).await?;
    let body = json!({
        "repository": app.repository, "app_name": app_name(&app), "ref": choice.git_ref.unwrap_or_default(),
        "tag": choice.tag.unwrap_or_default(), "target": instance.target.as_str(),
        "description": form.get("reason"), "required_contexts": checks.contexts().unwrap_or_default(),
        "require_all_contexts": checks == RequiredChecks::All,
    });
    let DeployAnswer { id, forge_id } = call.api.post("/deployments", &body, form.key()).await?;
    let id = match id {
        Some(id) => Some(id),
        None => find_arrived(call, app.repository, forge_id).await,
    };
    Ok(match id {
        Some(id) => format!("/deployments/{id}"),
        None => format!("{}?created={forge_id}", app_path(instance)),
    })
}

/// Returns the app by the name of its file, where its repository has several; the others are then left as they are.
fn app_name(app: &AppDetail) -> Option<&str> {
    let live = app.live.as_ref().and_then(|live| live.app_name.as_deref());
    live.or_else(|| app.last.as_ref().and_then(|last| last.app_name.as_deref()))
}

/// Returns the id of a deployment that was created at GitHub, if its event arrives soon.
async fn find_arrived(call: &ActCall, repository: Option<String>, forge_id: i64) -> Option<String> {
    let repository = RepoName::parse(repository?).ok()?;
    let store = &call.request.deployments().store;
    let mut changes = store.changes();
    let filter =
        Filter { repository: Some(repository), forge_id: Some(forge_id), ..Filter::default() };
    let arrival = async {
        loop {
            let page = store.deployments(&filter, None, 1).await.ok()?;
            if let Some(deployment) = page.deployments.into_iter().next() {
                return Some(deployment.id.to_string());
            }
            // Another replica may have received it, whose changes are not signalled here.
            let _ = tokio::time::timeout(ARRIVAL_LOOK, changes.changed()).await;
        }
    };
    tokio::time::timeout(ARRIVAL, arrival).await.ok().flatten()
}

async fn deploy_page(
    call: &ActCall,
    instance: &AppInstance,
    choice: DeployChoice<'_>,
) -> Result<ActConfirmation, ApiRefusal> {
    let DeployChoice { tag, git_ref, .. } = choice;
    let is_at_github = call.request.deployments().code_host != CodeHost::Local;
    let app: AppDetail = call.api.get(&app_path(instance)).await?;
    let builds = format!(
        "/builds?app={}&target={}",
        encode_segment(&instance.app.to_string()),
        encode_segment(instance.target.as_str())
    );
    let reading = call.api.get::<BuildPage>(&builds);
    let builds = tokio::time::timeout(BUILDS, reading).await;
    let mut page = ActConfirmation {
        heading: format!("Deploy {}", subject(instance)),
        back: back(instance),
        ..ActConfirmation::default()
    };
    let builds = match builds {
        Ok(Ok(list)) => list.builds,
        Ok(Err(refusal)) => {
            page.warnings.push(refusal.detail());
            Vec::new()
        }
        Err(_) => {
            page.warnings.push("The registry does not answer; a tag can be written.".to_owned());
            Vec::new()
        }
    };
    let git_ref = git_ref.map(str::to_owned).or_else(|| {
        let build = builds.iter().find(|build| Some(build.tag.as_str()) == tag);
        build.and_then(|build| build.commit.clone())
    });
    let mut build_choice = build_choice(&builds, tag, git_ref.as_deref());
    if is_at_github && call.has_github_token() {
        build_choice.fields.push(ChoiceField::OneOf(checks_field(choice.checks)));
        build_choice.fields.push(ChoiceField::Text(TextField {
            label: "Names of checks",
            name: "contexts",
            value: choice.contexts.to_owned(),
            is_required: false,
            has_lines: true,
            hint: "one a line, where only these are required",
        }));
    }
    page.choice = Some(build_choice);
    let (Some(tag), Some(git_ref)) = (tag, git_ref) else {
        page.consequences.push("Choose a build, and the commit or branch of its WAML.".to_owned());
        return Ok(page);
    };
    let app_name = app_name(&app);
    let body = json!({"repository": app.repository, "app_name": app_name, "target": instance.target.as_str(),
        "tag": tag, "ref": git_ref});
    let plan: PlanAnswer = match call.api.post("/plan", &body, None).await {
        Ok(plan) => plan,
        Err(refusal) => {
            page.warnings.push(refusal.detail());
            return Ok(page);
        }
    };
    let live = app.live.and_then(|live| live.tag).unwrap_or_else(|| "nothing".to_owned());
    page.consequences
        .push(format!("{tag} is deployed to {}, where {live} is live.", instance.target));
    page.warnings.extend(plan.violations.iter().map(|one| format!("Refused: {one}")));
    page.warnings.extend(plan.warnings.iter().map(ToString::to_string));
    page.warnings.extend(plan.notes);
    page.changes = Some(plan.changes);
    if plan.outcome == PlanOutcome::Refused {
        return Ok(page);
    }
    if is_at_github {
        let target = &instance.target;
        if !call.has_github_token() {
            page.consequences.push(format!(
                "Deployments are created at GitHub, in the name of a person who may do that there, and you have signed in \
                 with an API token: sign in with GitHub, or use `bart deploy {tag} {target} --ref {git_ref}`."
            ));
            return Ok(page);
        }
        page.consequences.push(
            "A deployment is created at GitHub in your name, with your own token, so that GitHub decides whether you may; \
             its event starts it here."
                .to_owned(),
        );
        match choice.required_checks() {
            Ok(checks) => page.consequences.push(checks_consequence(&checks, &git_ref)),
            Err(detail) => {
                page.warnings.push(detail);
                return Ok(page);
            }
        }
    }
    page.fields = vec![
        ActField::Fixed { name: "tag", value: tag.to_owned() },
        ActField::Fixed { name: "ref", value: git_ref },
        ActField::Fixed { name: "checks", value: choice.checks.to_owned() },
        ActField::Fixed { name: "contexts", value: choice.contexts.to_owned() },
        ActField::Reason { value: String::new(), is_required: false },
    ];
    page.button = Some("Deploy");
    Ok(page)
}

/// Says what GitHub does about the checks of a commit.
fn checks_consequence(checks: &RequiredChecks, git_ref: &str) -> String {
    match checks {
        RequiredChecks::None => {
            format!(
                "No check is required: {git_ref} is deployed also where checks have failed or still run."
            )
        }
        RequiredChecks::All => format!(
            "GitHub refuses it unless every check of {git_ref} has succeeded, also this service's own of an earlier \
             deployment. It does not wait for those that still run."
        ),
        RequiredChecks::Named(names) => format!(
            "GitHub refuses it unless these checks of {git_ref} have succeeded: {}. It does not wait for those that \
             still run.",
            names.join(", ")
        ),
    }
}

fn checks_field(chosen: &str) -> SelectField {
    let options = [
        ("none", "none is required"),
        ("all", "all must have succeeded"),
        ("named", "the named ones must have succeeded"),
    ];
    let option = |(value, text): (&str, &str)| ChoiceOption {
        value: value.to_owned(),
        text: text.to_owned(),
        is_chosen: value == chosen,
    };
    SelectField {
        label: "Checks at GitHub",
        name: "checks",
        options: options.into_iter().map(option).collect(),
    }
}

fn build_choice(builds: &[BuildSummary], tag: Option<&str>, git_ref: Option<&str>) -> Choice {
    let option = |build: &BuildSummary| ChoiceOption {
        text: match build.created {
            Some(created) => format!("{} ({})", build.tag, created.strftime("%Y-%m-%d %H:%M UTC")),
            None => build.tag.clone(),
        },
        is_chosen: Some(build.tag.as_str()) == tag,
        value: build.tag.clone(),
    };
    let mut options: Vec<_> = builds.iter().map(option).collect();
    if let Some(tag) = tag.filter(|tag| !builds.iter().any(|build| build.tag == **tag)) {
        let (value, text) = (tag.to_owned(), tag.to_owned());
        options.insert(0, ChoiceOption { value, text, is_chosen: true });
    }
    Choice {
        label: "Build",
        name: "tag",
        options,
        takes_others: true,
        button: "Show what changes",
        fields: vec![ChoiceField::Text(TextField {
            label: "Commit, branch or tag of git",
            name: "ref",
            value: git_ref.unwrap_or_default().to_owned(),
            is_required: false,
            has_lines: false,
            hint: "of the build, where its image names one",
        })],
    }
}

fn back(instance: &AppInstance) -> (String, String) {
    (app_path(instance), subject(instance))
}

fn subject(AppInstance { target, app }: &AppInstance) -> String {
    format!("{app} on {target}")
}
