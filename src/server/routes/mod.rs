//! `/api/v1`: what happened, and what people do, as JSON. Here is the contract of all routes; each handler is in its
//! noun's file.

use std::sync::Arc;

use axum::Router;
use axum::extract::{Request, State};
use axum::middleware::{Next, from_fn, from_fn_with_state};
use axum::response::Response;

use crate::api::apps::{AppDetail, AppPage, RemovalAnswer, RemovalRequest};
use crate::api::audit::AuditPage;
use crate::api::builds::{BuildPage, BuildsRequest};
use crate::api::deployments::{
    CancelRequest, DeployAnswer, DeployRequest, DeploymentDetail, DeploymentLog, DeploymentPage,
    DeploymentPicture, DeploymentSummary,
};
use crate::api::locks::{LockPage, LockRequest, LockSummary, UnlockRequest};
use crate::api::plans::{PlanAnswer, PlanRequest};
use crate::api::revisions::{RevisionDetail, RevisionList};
use crate::api::rollbacks::{HoldAnswer, HoldList, HoldRequest, RollbackAnswer, RollbackRequest};
use crate::api::service::{CodeHostAnswer, Identity, TargetList};
use crate::model::snapshot::ClusterSnapshot;
use crate::server::auth::CallerSurface;
use crate::server::conditional::conditional;
use crate::server::openapi::{self, Routes};
use crate::server::problem::{Problem, ProblemKind};
use crate::server::state::Shared;
use crate::server::{idempotency, query};

mod apps; // what is where, and removals
mod audit; // who did what
mod builds; // what could be deployed
pub(super) mod deployments; // what happened
mod events; // what happens
mod locks; // what people keep back
mod plan; // what a deployment would do
mod rollbacks; // a former revision made live again, and holds
mod service; // who calls, and what there is to deploy from and to

/// Where all of it is.
pub(super) const BASE: &str = "/api/v1";

/// All routes that answer in time, behind the API's tokens; and the document of all routes, which
/// everybody may read.
pub(super) fn routes(shared: &Arc<Shared>) -> Router<Arc<Shared>> {
    let (working, free) = (working(), free());
    let mut operations = working.operations;
    operations.extend(open().operations);
    operations.extend(free.operations);
    working
        .router
        .layer(from_fn_with_state(shared.clone(), idempotency::idempotent))
        .layer(from_fn_with_state(shared.clone(), authenticated))
        .merge(free.router)
        .merge(openapi::served(BASE, operations))
        .layer(from_fn(conditional))
}

/// Those that stay open, which have bounds of their own.
pub(super) fn streams(shared: &Arc<Shared>) -> Router<Arc<Shared>> {
    open().router.layer(from_fn_with_state(shared.clone(), authenticated))
}

#[expect(clippy::too_many_lines, reason = "it is a table")]
fn working() -> Routes<Arc<Shared>> {
    const APP: &str = "/apps/{target}/{namespace}/{app}";
    Routes::new()
        .get("/deployments", deployments::list)
        .reads("listDeployments", "Deployments, newest first.")
        .query(query::DEPLOYMENTS)
        .gives::<DeploymentPage>(200, "One page.")
        .get("/deployments/{id}", deployments::one)
        .reads("getDeployment", "A deployment with all that is known of it.")
        .gives::<DeploymentDetail>(200, "The deployment.")
        .fails(&[ProblemKind::NotFound])
        .get("/deployments/{id}/log", deployments::log)
        .reads("getDeploymentLog", "What happened to a deployment, in order, for people.")
        .gives::<DeploymentLog>(200, "The log so far.")
        .fails(&[ProblemKind::NotFound])
        .get("/apps", apps::list)
        .reads("listApps", "What is where, by target, namespace and name.")
        .about(
            "It is what the manifest repositories have, and not what clusters run. Where \
             `missing` is not empty there may be more.",
        )
        .query(apps::QUERY)
        .gives::<AppPage>(200, "One page.")
        .get("/targets", service::targets)
        .reads("listTargets", "The clusters that can be deployed to.")
        .gives::<TargetList>(200, "The clusters, by name.")
        .get("/platform", service::platform)
        .reads("getPlatform", "What the clusters offer, for planning elsewhere.")
        .about(
            "`bart validate` and `bart render` plan with it. Where API servers are is left \
             out.",
        )
        .query(service::PLATFORM)
        .gives::<ClusterSnapshot>(200, "The clusters that the caller may see.")
        .get(APP, apps::one)
        .reads("getApp", "An app on a target as it is now.")
        .about(
            "What is live is what the manifest repository has under `latest`. The server of \
             that repository is asked at most every half minute; our own pushes are seen at \
             once.",
        )
        .gives::<AppDetail>(200, "The app.")
        .fails(&[ProblemKind::NotFound])
        .get(&format!("{APP}/revisions"), apps::revisions)
        .reads("listRevisions", "The revisions of an app that are kept, newest first.")
        .about(
            "Who made one, when and why comes from the database, or from the commit where \
             the database does not know it; what neither says is null.",
        )
        .gives::<RevisionList>(200, "The history.")
        .fails(&[ProblemKind::NotFound])
        .get(&format!("{APP}/revisions/{{revision}}"), apps::revision)
        .reads("getRevision", "One revision with its files, against what is live.")
        .gives::<RevisionDetail>(200, "The revision.")
        .fails(&[ProblemKind::NotFound])
        .post(&format!("{APP}/remove"), apps::remove)
        .acts("removeApp", "Takes an app off a target, with all its manifests.")
        .takes::<RemovalRequest>()
        .gives::<RemovalAnswer>(200, "What was removed, or would be.")
        .fails(&[ProblemKind::NotFound, ProblemKind::Conflict, ProblemKind::WouldLoseData])
        .post(&format!("{APP}/rollback"), rollbacks::roll_back)
        .acts("rollBack", "Makes a former revision live again, byte for byte.")
        .about(
            "It is a deployment of its own and waits its turn. Where the target says so, \
             automation is held afterwards: only a person deploys over it, or releases the \
             hold.",
        )
        .takes::<RollbackRequest>()
        .gives::<RollbackAnswer>(200, "What would be done; nothing was.")
        .gives::<RollbackAnswer>(202, "It is recorded, and will be done.")
        .fails(&[ProblemKind::NotFound, ProblemKind::Conflict, ProblemKind::WouldLoseData])
        .post(&format!("{APP}/hold"), rollbacks::hold)
        .acts("holdApp", "Holds automation off an app on a target.")
        .takes::<HoldRequest>()
        .gives::<HoldAnswer>(200, "The hold.")
        .fails(&[ProblemKind::NotFound, ProblemKind::Conflict])
        .post(&format!("{APP}/release"), rollbacks::release)
        .acts("releaseApp", "Ends a hold.")
        .takes::<HoldRequest>()
        .gives::<HoldAnswer>(200, "The hold that it was.")
        .fails(&[ProblemKind::NotFound])
        .post("/deployments", deployments::create)
        .acts("deploy", "Deploys, where the service keeps the repositories itself.")
        .about("With GitHub a deployment is created there, and comes here by its event.")
        .takes::<DeployRequest>()
        .gives::<DeployAnswer>(202, "It is recorded, and will be done.")
        .fails(&[ProblemKind::Conflict])
        .get("/builds", builds::list)
        .reads("listBuilds", "What could be deployed of an app, and where it is live.")
        .query(builds::QUERY)
        .gives::<BuildPage>(200, "The newest builds of its image.")
        .fails(&[ProblemKind::NotFound, ProblemKind::Unprocessable])
        .post("/builds", builds::of_waml)
        .reads("listBuildsOfWaml", "What could be deployed of the app of a WAML.")
        .about("For an app that was never deployed. Nothing is recorded.")
        .takes::<BuildsRequest>()
        .gives::<BuildPage>(200, "The newest builds of its image.")
        .post("/deployments/{id}/cancel", deployments::cancel)
        .acts("cancelDeployment", "Ends a deployment whose push has not begun.")
        .takes::<CancelRequest>()
        .gives::<DeploymentSummary>(200, "It is cancelled.")
        .fails(&[ProblemKind::NotFound, ProblemKind::Conflict])
        .get("/locks", locks::list)
        .reads("listLocks", "What people keep back now, and why.")
        .query(locks::QUERY)
        .gives::<LockPage>(200, "The locks, oldest first.")
        .post("/locks", locks::place)
        .acts("placeLock", "Keeps deployments back, with a reason.")
        .about(
            "A lock of an app needs the right to deploy it, one of a team the right to \
             deploy everything, one of a cluster or of everything `admin`.",
        )
        .takes::<LockRequest>()
        .gives::<LockSummary>(201, "The lock.")
        .fails(&[ProblemKind::Conflict])
        .post("/locks/{id}/remove", locks::remove)
        .acts("removeLock", "Takes a lock away.")
        .takes::<UnlockRequest>()
        .gives::<LockSummary>(200, "The lock that was taken away.")
        .fails(&[ProblemKind::NotFound, ProblemKind::Conflict])
        .post("/plan", plan::plan)
        .reads("plan", "What a deployment would change, or why it would be refused.")
        .about("Nothing is recorded, and nothing is written.")
        .takes::<PlanRequest>()
        .gives::<PlanAnswer>(200, "What would come of it.")
        .fails(&[ProblemKind::NotFound, ProblemKind::Overloaded])
        .get("/holds", rollbacks::holds)
        .reads("listHolds", "What automation is held off.")
        .query(rollbacks::HOLDS)
        .gives::<HoldList>(200, "The holds.")
        .get("/audit", audit::list)
        .reads("listAudit", "Who did what on purpose, newest first.")
        .admin()
        .about(
            "Deployments that came as events are not in it: they are in the list of \
             deployments.",
        )
        .query(audit::QUERY)
        .gives::<AuditPage>(200, "One page.")
        .get("/whoami", service::whoami)
        .reads("whoAmI", "Who calls.")
        .gives::<Identity>(200, "You.")
}

/// Those that need no token: whoever wants to log in must know where.
fn free() -> Routes<Arc<Shared>> {
    Routes::new()
        .get("/forge", service::forge)
        .open("getCodeHost", "Which code host, and how one logs in there.")
        .gives::<CodeHostAnswer>(200, "The code host; nothing of it is secret.")
}

fn open() -> Routes<Arc<Shared>> {
    Routes::new()
        .get("/deployments/{id}/events", events::follow)
        .reads("followDeployment", "A deployment as it goes on, as server-sent events.")
        .about(
            "Events are called `deployment`; their data is the deployment as it is now, and their id \
             changes whenever that does. The stream ends after the event of a final state, when the \
             service stops, and after about an hour: come again with the last id.",
        )
        .headers(events::RESUME)
        .streams::<DeploymentPicture>(
            200,
            "A stream of events; the data of each is such an object.",
        )
        .ends(204, "It has ended, and you have heard of it: do not come again.")
        .fails(&[ProblemKind::NotFound])
}

async fn authenticated(
    State(shared): State<Arc<Shared>>,
    request: Request,
    next: Next,
) -> Result<Response, Problem> {
    // Streams have no bound on time around them, and GitHub may be slow.
    let limit = shared.state.limits.request_timeout;
    let admitted =
        tokio::time::timeout(limit, shared.state.auth.admit(request, CallerSurface::Api)).await;
    let request = admitted.unwrap_or_else(|_| {
        let detail = "it could not be found out in time who you are; come again";
        Err(Problem::new(ProblemKind::TookTooLong, detail))
    })?;
    Ok(next.run(request).await)
}
