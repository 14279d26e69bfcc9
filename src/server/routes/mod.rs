//! `/api/v1`: the JSON API. This file has the contract of all routes; each handler is in the file of its noun.

use std::sync::{Arc, LazyLock};

use axum::Router;
use axum::extract::{DefaultBodyLimit, Request, State};
use axum::middleware::{Next, from_fn, from_fn_with_state};
use axum::response::Response;

use crate::api::agent_logs::{AgentLogAnswer, AgentLogPart, AgentLogRequests};
use crate::api::apps::{AppDetail, AppPage, RemovalAnswer, RemovalRequest};
use crate::api::audit::AuditPage;
use crate::api::builds::{BuildPage, BuildsRequest};
use crate::api::deployments::{
    CancelRequest, DeployAnswer, DeployRequest, DeploymentDetail, DeploymentLog, DeploymentPage,
    DeploymentPicture, DeploymentSummary,
};
use crate::api::hand_edits::{EditImportAnswer, EditImportRequest};
use crate::api::insights::InsightsAnswer;
use crate::api::locks::{LockPage, LockRequest, LockSummary, UnlockRequest};
use crate::api::observations::{ObservationAnswer, ObservationReport, REPORT_BYTES};
use crate::api::plans::{PlanAnswer, PlanRequest};
use crate::api::pods::{ContainerLogLine, LiveStateAnswer};
use crate::api::revisions::{RevisionDetail, RevisionList};
use crate::api::rollbacks::{
    HoldAnswer, HoldList, HoldRequest, ReleaseRequest, RollbackAnswer, RollbackRequest,
};
use crate::api::rollouts::{
    RolloutActRequest, RolloutApprovalRequest, RolloutDetail, RolloutList, RolloutPlanAnswer,
    RolloutStartRequest, RolloutSummary,
};
use crate::api::secrets::{SecretActAnswer, SecretActRequest};
use crate::api::service::{CodeHostAnswer, Identity, TargetList};
use crate::model::snapshot::ClusterSnapshot;
use crate::server::auth::CallerSurface;
use crate::server::conditional::{CachedDocument, conditional};
use crate::server::openapi::{self, Routes};
use crate::server::problem::{Problem, ProblemKind};
use crate::server::state::Shared;
use crate::server::{idempotency, query};

mod apps; // apps, revisions and removals
mod hand_edits; // manual edits, imported into a WAML
pub(super) mod audit; // the audit log
mod builds; // builds that can be deployed
pub(super) mod deployments; // deployments and their logs
mod events; // streams of events
pub(super) mod insights; // how long deployments take, and how they end
pub(super) mod locks; // locks
mod agent_logs; // logs that are read through agents
mod observations; // reports of agents
mod plan; // dry runs
mod pods; // apps in their clusters
pub(super) mod rollbacks; // rollbacks and holds
pub(super) mod rollouts; // one release over many targets
mod secrets; // acts on secrets, for the audit log
mod service; // the caller, the code host and the targets

/// The path of the API.
pub(super) const BASE: &str = "/api/v1";

/// The path of an app on a target.
const APP: &str = "/apps/{target}/{namespace}/{app}";

/// The public document of all routes.
static DOCUMENT: LazyLock<CachedDocument> = LazyLock::new(|| {
    let routes = [authenticated_routes(), open(), agent_routes(), public_routes()];
    openapi::render(BASE, routes.into_iter().flat_map(|routes| routes.operations).collect())
});

/// Builds all routes that answer in time, behind authentication; and the public document of all routes.
pub(super) fn routes(shared: &Arc<Shared>) -> Router<Arc<Shared>> {
    authenticated_routes()
        .router
        // The library's own limit is less.
        .layer(DefaultBodyLimit::max(idempotency::PLAN))
        .layer(from_fn_with_state(shared.clone(), idempotency::idempotent))
        .layer(from_fn_with_state(shared.clone(), authenticated))
        .merge(public_routes().router)
        .merge(openapi::served(&DOCUMENT))
        .layer(from_fn(conditional))
}

/// Builds the routes for callers that are authenticated already: the acts of pages.
pub(super) fn acts(shared: &Arc<Shared>) -> Router {
    let idempotent = from_fn_with_state(shared.clone(), idempotency::idempotent);
    authenticated_routes().router.layer(idempotent).with_state(shared.clone())
}

/// Builds the routes of streams, which have limits of their own.
pub(super) fn streams(shared: &Arc<Shared>) -> Router<Arc<Shared>> {
    open().router.layer(from_fn_with_state(shared.clone(), authenticated))
}

/// Builds the routes of agents, which have tokens and limits of their own.
pub(super) fn reports() -> Router<Arc<Shared>> {
    agent_routes().router.layer(DefaultBodyLimit::max(REPORT_BYTES))
}

#[expect(clippy::too_many_lines, reason = "it is a table")]
fn authenticated_routes() -> Routes<Arc<Shared>> {
    Routes::new()
        .get("/deployments", deployments::list)
        .reads("listDeployments", "Deployments, newest first.")
        .query(query::DEPLOYMENTS)
        .gives::<DeploymentPage>(200, "One page.")
        .get("/deployments/{id}", deployments::get)
        .reads("getDeployment", "A deployment with all its details.")
        .gives::<DeploymentDetail>(200, "The deployment.")
        .fails(&[ProblemKind::NotFound])
        .get("/deployments/{id}/log", deployments::log)
        .reads(
            "getDeploymentLog",
            "The log of a deployment, oldest entry first, for people to read.",
        )
        .gives::<DeploymentLog>(200, "The log so far.")
        .fails(&[ProblemKind::NotFound])
        .get("/insights", insights::get)
        .reads("getInsights", "How long the deployments of a window took, and how they ended.")
        .about("The window is about the times at which deployments were received. `docs/insights.md` defines each figure.")
        .query(insights::QUERY)
        .gives::<InsightsAnswer>(200, "The figures of the deployments that the caller may see.")
        .get("/apps", apps::list)
        .reads("listApps", "The apps on all targets, by target, namespace and name.")
        .about(
            "The list shows the manifest repositories, not what clusters run. It may be incomplete \
             when `missing` is not empty.",
        )
        .query(apps::QUERY)
        .gives::<AppPage>(200, "One page.")
        .get("/targets", service::targets)
        .reads("listTargets", "The targets: clusters to which the service deploys.")
        .gives::<TargetList>(200, "The clusters, by name.")
        .get("/platform", service::platform)
        .reads(
            "getPlatform",
            "The offers of each cluster (ingress, secrets, cloud), for plans by `bart`.",
        )
        .about("`bart validate` and `bart render` use it. It has no addresses of API servers.")
        .query(service::PLATFORM)
        .gives::<ClusterSnapshot>(200, "The clusters that the caller may see.")
        .get(APP, apps::get)
        .reads("getApp", "The state of an app on a target.")
        .about(
            "The live revision is the one under `latest` in the manifest repository. The service \
             fetches that repository at most every half minute; it sees its own pushes at once.",
        )
        .gives::<AppDetail>(200, "The app.")
        .fails(&[ProblemKind::NotFound])
        .get(&format!("{APP}/revisions"), apps::revisions)
        .reads("listRevisions", "The revisions of an app, newest first.")
        .about(
            "The actor, time and reason come from the database, else from the commit; they are \
             null where neither has them.",
        )
        .gives::<RevisionList>(200, "The history.")
        .fails(&[ProblemKind::NotFound])
        .get(&format!("{APP}/revisions/{{revision}}"), apps::revision)
        .reads(
            "getRevision",
            "One revision with its files and its difference from the live revision.",
        )
        .gives::<RevisionDetail>(200, "The revision.")
        .fails(&[ProblemKind::NotFound])
        .post(&format!("{APP}/import-edit"), hand_edits::import)
        .reads("importEdit", "The change of a WAML that gives a manual edit of an app's manifests.")
        .about(
            "Each change is rendered with the release that was edited, and kept if it gives edited fields and \
             nothing else. Nothing is recorded, and nothing is written.",
        )
        .takes::<EditImportRequest>()
        .gives::<EditImportAnswer>(200, "The WAML with the changes, and what they do not give.")
        .fails(&[ProblemKind::NotFound, ProblemKind::Overloaded])
        .get(&format!("{APP}/pods"), pods::list)
        .reads("listPods", "The workloads and pods of an app, as its cluster has them now.")
        .about(
            "The cluster is asked for each answer. There is nothing to see on a target whose cluster \
             the service does not watch. Where an agent reports the cluster, the replica that it reports to knows the \
             pods; another one answers 421 and names it.",
        )
        .gives::<LiveStateAnswer>(200, "The workloads and pods.")
        .fails(&[ProblemKind::NotFound, ProblemKind::Misdirected])
        .post(&format!("{APP}/remove"), apps::remove)
        .acts("removeApp", "Takes an app off a target, with all its manifests.")
        .takes::<RemovalRequest>()
        .gives::<RemovalAnswer>(200, "The objects and files that were removed, or would be.")
        .fails(&[ProblemKind::NotFound, ProblemKind::Conflict, ProblemKind::WouldLoseData])
        .post(&format!("{APP}/rollback"), rollbacks::roll_back)
        .acts("rollBack", "Makes a former revision live again, byte for byte.")
        .about(
            "A rollback is a deployment of its own and waits in its lane. If the target's settings \
             say so, it also holds automation: only a person can deploy over it, or release the \
             hold.",
        )
        .takes::<RollbackRequest>()
        .gives::<RollbackAnswer>(200, "The plan of a dry run; nothing was changed.")
        .gives::<RollbackAnswer>(202, "It is recorded, and will be done.")
        .fails(&[
            ProblemKind::NotFound,
            ProblemKind::Conflict,
            ProblemKind::Outdated,
            ProblemKind::WouldLoseData,
        ])
        .post(&format!("{APP}/hold"), rollbacks::hold)
        .acts("holdApp", "Holds automation off an app on a target.")
        .takes::<HoldRequest>()
        .gives::<HoldAnswer>(200, "The hold.")
        .fails(&[ProblemKind::NotFound, ProblemKind::Conflict])
        .post(&format!("{APP}/release"), rollbacks::release)
        .acts("releaseApp", "Ends a hold.")
        .takes::<ReleaseRequest>()
        .gives::<HoldAnswer>(200, "The hold that was released.")
        .fails(&[ProblemKind::NotFound, ProblemKind::Outdated])
        .post(&format!("{APP}/secrets"), secrets::record)
        .acts("recordSecretAct", "Records what the caller did to secrets of an app.")
        .about(
            "`bart secrets` tells it: people read and write secrets in their store with a login of their own. The service \
             sees no value.",
        )
        .takes::<SecretActRequest>()
        .gives::<SecretActAnswer>(200, "It is recorded, or may be.")
        .post("/deployments", deployments::create)
        .acts("deploy", "Creates a deployment.")
        .about(
            "With GitHub, callers with a GitHub token of their own create a GitHub deployment in their name; the service \
             receives it as a webhook event. Others create one at GitHub themselves.",
        )
        .takes::<DeployRequest>()
        .gives::<DeployAnswer>(202, "It is recorded, and will be done.")
        .fails(&[ProblemKind::Conflict])
        .get("/builds", builds::list)
        .reads("listBuilds", "The builds of an app that can be deployed, and where each is live.")
        .query(builds::QUERY)
        .gives::<BuildPage>(200, "The newest builds of its image.")
        .fails(&[ProblemKind::NotFound, ProblemKind::Unprocessable])
        .post("/builds", builds::of_waml)
        .reads("listBuildsOfWaml", "The builds that can be deployed of the app of a WAML.")
        .about("For an app that was never deployed. Nothing is recorded.")
        .takes::<BuildsRequest>()
        .gives::<BuildPage>(200, "The newest builds of its image.")
        .post("/deployments/{id}/cancel", deployments::cancel)
        .acts("cancelDeployment", "Ends a deployment whose push has not begun.")
        .takes::<CancelRequest>()
        .gives::<DeploymentSummary>(200, "It is cancelled.")
        .fails(&[ProblemKind::NotFound, ProblemKind::Conflict])
        .get("/rollouts", rollouts::list)
        .reads("listRollouts", "Rollouts, newest first.")
        .about("A rollout is visible to a caller who may see the app on every target of it.")
        .query(rollouts::QUERY)
        .gives::<RolloutList>(200, "One page.")
        .post("/rollouts", rollouts::start)
        .acts("startRollout", "Starts a rollout: one release over many targets.")
        .about(
            "It needs the right to deploy to every one of its targets. The sequence is fixed when it starts; with \
             `dry_run` it is only shown. From then on the service carries it out by itself, and takes it back from \
             every target when one fails.",
        )
        .takes::<RolloutStartRequest>()
        .gives::<RolloutPlanAnswer>(200, "The plan of a dry run; nothing was changed.")
        .gives::<RolloutSummary>(202, "It is recorded, and will be done.")
        .fails(&[ProblemKind::Conflict])
        .get("/rollouts/{id}", rollouts::get)
        .reads("getRollout", "A rollout with its steps, gates and targets, and what it waits for.")
        .gives::<RolloutDetail>(200, "The rollout.")
        .fails(&[ProblemKind::NotFound])
        .post("/rollouts/{id}/pause", rollouts::pause)
        .acts("pauseRollout", "Stops a rollout before its next target.")
        .takes::<RolloutActRequest>()
        .gives::<RolloutSummary>(200, "It is paused; deployments that are under way go on.")
        .fails(&[ProblemKind::NotFound, ProblemKind::Conflict])
        .post("/rollouts/{id}/resume", rollouts::resume)
        .acts("resumeRollout", "Lets a paused rollout go on, also past targets that have failed.")
        .takes::<RolloutActRequest>()
        .gives::<RolloutSummary>(200, "It goes on.")
        .fails(&[ProblemKind::NotFound, ProblemKind::Conflict])
        .post("/rollouts/{id}/approve", rollouts::approve)
        .acts("approveRollout", "Approves the gate at which a rollout waits.")
        .about(
            "A gate with a team is for its members and for administrators; any other one is for whoever may deploy to \
             every target.",
        )
        .takes::<RolloutApprovalRequest>()
        .gives::<RolloutSummary>(200, "It is approved.")
        .fails(&[ProblemKind::NotFound, ProblemKind::Conflict, ProblemKind::Outdated])
        .post("/rollouts/{id}/cancel", rollouts::cancel)
        .acts("cancelRollout", "Ends a rollout where it is.")
        .takes::<RolloutActRequest>()
        .gives::<RolloutSummary>(200, "It is cancelled; every target keeps what it has.")
        .fails(&[ProblemKind::NotFound, ProblemKind::Conflict])
        .post("/rollouts/{id}/undo", rollouts::undo)
        .acts("undoRollout", "Gives every changed target its former revision back.")
        .takes::<RolloutActRequest>()
        .gives::<RolloutSummary>(200, "The undo has begun.")
        .fails(&[ProblemKind::NotFound, ProblemKind::Conflict])
        .post("/rollouts/{id}/retry", rollouts::retry)
        .acts("retryRollout", "Tries the failed targets of the current step, or failed undos, again.")
        .takes::<RolloutActRequest>()
        .gives::<RolloutSummary>(200, "It goes on.")
        .fails(&[ProblemKind::NotFound, ProblemKind::Conflict])
        .get("/locks", locks::list)
        .reads("listLocks", "The active locks with their reasons.")
        .query(locks::QUERY)
        .gives::<LockPage>(200, "The locks, oldest first.")
        .post("/locks", locks::place)
        .acts("placeLock", "Locks an app, an owner's apps, a target or everything, with a reason.")
        .about(
            "A lock of an app needs the right to deploy it, one of a team the right to \
             deploy everything, one of a cluster or of everything `admin`.",
        )
        .takes::<LockRequest>()
        .gives::<LockSummary>(201, "The lock.")
        .fails(&[ProblemKind::Conflict])
        .post("/locks/{id}/remove", locks::remove)
        .acts("removeLock", "Removes a lock.")
        .takes::<UnlockRequest>()
        .gives::<LockSummary>(200, "The lock that was removed.")
        .fails(&[ProblemKind::NotFound, ProblemKind::Conflict])
        .post("/plan", plan::plan)
        .reads(
            "plan",
            "The changes that a deployment would make, or the reasons why it would be refused.",
        )
        .about("Nothing is recorded, and nothing is written.")
        .takes::<PlanRequest>()
        .gives::<PlanAnswer>(200, "The plan for the target.")
        .fails(&[ProblemKind::NotFound, ProblemKind::Overloaded])
        .get("/holds", rollbacks::holds)
        .reads("listHolds", "The apps off which automation is held.")
        .query(rollbacks::HOLDS)
        .gives::<HoldList>(200, "The holds.")
        .get("/audit", audit::list)
        .reads("listAudit", "The acts of people and programs, newest first.")
        .admin()
        .about("Deployments that arrived as events are in the list of deployments instead.")
        .query(audit::QUERY)
        .gives::<AuditPage>(200, "One page.")
        .get("/whoami", service::whoami)
        .reads("whoAmI", "The identity and permissions of the caller.")
        .gives::<Identity>(200, "You.")
}

/// Builds the public routes: a person must know the code host to log in.
fn public_routes() -> Routes<Arc<Shared>> {
    Routes::new()
        .get("/forge", service::forge)
        .open("getCodeHost", "The code host, and how to log in there.")
        .gives::<CodeHostAnswer>(200, "The code host; nothing of it is secret.")
}

fn agent_routes() -> Routes<Arc<Shared>> {
    Routes::new()
        .post("/clusters/{cluster}/observations", observations::report)
        .reports("reportObservations", "Takes a report of a cluster's agent.")
        .about(
            "For `the-deployer agent`, with the token of `clusters[].agent`, which is good for nothing else. The \
             reports of a session are numbered, and each is taken once; a report without an answer is sent again as it \
             was. The replica that follows the cluster takes them; another one answers 421.",
        )
        .takes::<ObservationReport>()
        .gives::<ObservationAnswer>(200, "It is taken, or the agent begins another session.")
        .fails(&[ProblemKind::Conflict, ProblemKind::Misdirected])
        .get("/clusters/{cluster}/log-requests", agent_logs::list_wanted)
        .reports("listWantedLogs", "Waits for logs that callers want to read through a cluster's agent.")
        .about(
            "For `the-deployer agent --pod-logs`, with the same token. It answers as soon as there is one, or after some \
             seconds without any; each is told once.",
        )
        .gives::<AgentLogRequests>(200, "The logs that are wanted.")
        .fails(&[ProblemKind::Misdirected])
        .post("/clusters/{cluster}/logs/{id}", agent_logs::receive)
        .reports("sendLogPart", "Takes a part of a log that a caller reads through a cluster's agent.")
        .about("The parts are numbered, and each is taken once; one without an answer is sent again as it was.")
        .takes::<AgentLogPart>()
        .gives::<AgentLogAnswer>(200, "It is taken, or nobody reads the log any more.")
        .fails(&[ProblemKind::Misdirected])
}

fn open() -> Routes<Arc<Shared>> {
    Routes::new()
        .get("/deployments/{id}/events", events::follow_deployment)
        .reads("followDeployment", "The progress of a deployment, as server-sent events.")
        .about(
            "Events are called `deployment`; their data is the deployment's current state, and \
             their id changes with it. The stream ends after the event of a final state, when the \
             service stops, and after about an hour: connect again with the last id.",
        )
        .headers(events::RESUME)
        .streams::<DeploymentPicture>(
            200,
            "A stream of events; the data of each is such an object.",
        )
        .ends(
            204,
            "The deployment has ended, and the client has its last event: do not connect again.",
        )
        .fails(&[ProblemKind::NotFound])
        .get("/rollouts/{id}/events", events::follow_rollout)
        .reads("followRollout", "The progress of a rollout, as server-sent events.")
        .about(
            "Events are called `rollout`; otherwise as for a deployment. The stream ends after the event of a state in \
             which the rollout has ended.",
        )
        .headers(events::RESUME)
        .streams::<RolloutDetail>(200, "A stream of events; the data of each is such an object.")
        .ends(
            204,
            "The rollout has ended, and the client has its last event: do not connect again.",
        )
        .fails(&[ProblemKind::NotFound])
        .get(&format!("{APP}/pods/{{pod}}/log"), pods::log)
        .reads("followPodLog", "The log of a container, line by line, as server-sent events.")
        .about(
            "Events are called `line`; the last one is called `end`. A client that connects again \
             gets the last lines again. The configuration can refuse logs of a cluster.",
        )
        .query(pods::LOG)
        .streams::<ContainerLogLine>(200, "A stream of events; the data of each is such an object.")
        .fails(&[ProblemKind::NotFound])
}

async fn authenticated(
    State(shared): State<Arc<Shared>>,
    request: Request,
    next: Next,
) -> Result<Response, Problem> {
    // Streams have no time limit around them, and GitHub may be slow.
    let limit = shared.state.limits.request_timeout;
    let admitted =
        tokio::time::timeout(limit, shared.state.auth.admit(request, CallerSurface::Api)).await;
    let request = admitted.unwrap_or_else(|_| {
        let detail = "the authentication took too long; try again later";
        Err(Problem::new(ProblemKind::TookTooLong, detail))
    })?;
    Ok(next.run(request).await)
}
