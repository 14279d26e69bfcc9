//! Reads the present objects of one app from its cluster's API server, when they are asked for: its workloads, and the
//! pods that belong to them by their owners.
//!
//! Labels alone prove nothing: a pod of another app of the namespace may carry the same name. So a pod counts only if
//! its owners lead to a workload that the service rendered for the app, or to Flagger's copy of one. The service needs
//! the permission to `list` alone. Each list has bounds of objects, bytes and time; what is beyond them is left out,
//! and said to be.

use std::time::Duration;

use futures::future::join_all;
use http::Request;
use kube::core::params::ListParams;
use tokio::time::Instant;

use crate::cluster::connection::client::{ClusterClient, ClusterConnection};
use crate::cluster::connection::error::UNAUTHORIZED;
use crate::cluster::index::ClusterIndex;
use crate::cluster::logs::is_object_name;
use crate::cluster::object::{Marks, ObjectKey, WatchedKind};
use crate::cluster::pod::PodRow;
use crate::cluster::progress::{ProgressContext, WorkloadProgress, workload_progress};
use crate::cluster::watch::protocol::{ListPage, WatchProblem};
use crate::cluster::watched::WatchedObject;
use crate::manifests::APP_LABEL;

/// The most pods of an app that are read.
pub const MAX_PODS: usize = 500;
/// The most objects of any other kind of an app that are read: a `CronJob` has some Jobs, a Deployment has eleven
/// `ReplicaSet` objects.
const MAX_OBJECTS: usize = 500;
/// The objects of a page. Where one is too large, all is asked for again in smaller ones.
const PAGE_ITEMS: u32 = 50;
/// The largest page, in bytes: several kinds are read at the same time.
const MAX_PAGE: usize = 4 * 1024 * 1024;
/// The most bytes of all pages of a kind.
const MAX_BYTES: usize = 64 * 1024 * 1024;
/// A list that the server forgets while it is read is begun again so often.
const MAX_ATTEMPTS: u32 = 6;

/// The kinds that are read, owners before their parts.
const KINDS: [WatchedKind; 8] = [
    WatchedKind::Canary,
    WatchedKind::Deployment,
    WatchedKind::StatefulSet,
    WatchedKind::DaemonSet,
    WatchedKind::CronJob,
    WatchedKind::Job,
    WatchedKind::ReplicaSet,
    WatchedKind::Pod,
];

/// The kinds that jobs and processes of an app make, with a name label of their own.
const KINDS_OF_PARTS: [WatchedKind; 2] = [WatchedKind::ReplicaSet, WatchedKind::Pod];

/// The present state of an app in its cluster.
#[derive(Debug)]
pub struct AppSnapshot {
    /// Its workloads, by kind and name, each with its pods, by name.
    pub workloads: Vec<WorkloadSnapshot>,
    /// True if objects are left out: there are too many of them, or they came too late.
    pub is_cut: bool,
    /// The kinds that could not be read.
    pub unread: Vec<UnreadKind>,
}

/// A workload with its pods.
#[derive(Debug)]
pub struct WorkloadSnapshot {
    /// The workload.
    pub object: WatchedObject,
    /// Its replicas, and the step that it is at.
    pub progress: WorkloadProgress,
    /// Its pods.
    pub pods: Vec<PodRow>,
}

/// A kind of object that could not be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnreadKind {
    /// The kind.
    pub kind: WatchedKind,
    /// The reason.
    pub error: LiveReadError,
}

/// The reason why a cluster does not say what runs there. No text has a secret in it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LiveReadError {
    /// The service may not list the objects.
    #[error("{0}; grant the service `list` there, as deploy/kubernetes/watch/rbac.yaml does")]
    Forbidden(String),
    /// The cluster cannot be reached, or did not answer.
    #[error("{0}")]
    Unavailable(String),
}

/// The name and the labels by which objects are listed.
#[derive(Clone, Copy)]
struct ObjectSelector<'a> {
    namespace: &'a str,
    slug: &'a str,
    name: Option<&'a str>,
    /// True for what its jobs and processes make, whose label of a name is another one.
    parts: bool,
}

/// The objects of one kind.
#[derive(Clone, Default)]
struct KindObjects {
    objects: Vec<WatchedObject>,
    is_cut: bool,
}

impl KindObjects {
    fn and(mut self, others: Self) -> Self {
        self.objects.extend(others.objects);
        Self { is_cut: self.is_cut || others.is_cut, ..self }
    }
}

/// Reads the workloads and pods of an app within that time.
///
/// # Errors
/// [`LiveReadError`] where nothing could be read at all.
pub async fn read_app(
    connection: &ClusterConnection,
    namespace: &str,
    slug: &str,
    deadline: Duration,
) -> Result<AppSnapshot, LiveReadError> {
    let until = Instant::now() + deadline;
    let client = connect(connection, until).await?;
    let selector = ObjectSelector { namespace, slug, name: None, parts: false };
    let of_parts = ObjectSelector { parts: true, ..selector };
    let read = async |kind: WatchedKind| {
        let own = read_kind(&client, kind, &selector, until);
        if !KINDS_OF_PARTS.contains(&kind) {
            return own.await;
        }
        let (own, of_parts) = tokio::join!(own, read_kind(&client, kind, &of_parts, until));
        Ok(own?.and(of_parts?))
    };
    let lists = KINDS.into_iter().zip(join_all(KINDS.map(read)).await);
    let (mut index, mut unread, mut is_cut) = (ClusterIndex::new(), Vec::new(), false);
    for (kind, list) in lists {
        match list {
            Ok(list) => {
                is_cut |= list.is_cut;
                index.begin_list(kind);
                for object in list.objects {
                    index.apply(object);
                }
                index.end_list(kind);
            }
            Err(WatchProblem::Absent) => {
                index.give_up(kind);
            }
            Err(problem) => {
                index.hide(kind);
                if problem == WatchProblem::Unauthorized {
                    connection.report_refusal(&client);
                }
                unread.push(UnreadKind { kind, error: explain(problem) });
            }
        }
    }
    // A cluster without Flagger may refuse to say so.
    unread.retain(|one| one.kind != WatchedKind::Canary);
    let is_blind = unread.len() + 1 >= KINDS.len();
    if let Some(first) = unread.first().filter(|_| is_blind) {
        return Err(first.error.clone());
    }
    Ok(AppSnapshot { is_cut, unread, ..snapshot(&index, namespace, slug, is_cut) })
}

/// Finds a pod of the app; `None` where the cluster has none of that name, or it belongs to another app.
///
/// # Errors
/// [`LiveReadError`]
pub async fn find_pod(
    connection: &ClusterConnection,
    namespace: &str,
    slug: &str,
    pod: &str,
    deadline: Duration,
) -> Result<Option<PodRow>, LiveReadError> {
    if !is_object_name(pod) {
        return Ok(None);
    }
    let until = Instant::now() + deadline;
    let client = connect(connection, until).await?;
    let find_labelled = async |kind: WatchedKind, name: &str, parts: bool| {
        let selector = ObjectSelector { namespace, slug, name: Some(name), parts };
        let list = read_kind(&client, kind, &selector, until).await;
        let list = list.or_else(|problem| match problem {
            WatchProblem::Absent => Ok(KindObjects::default()),
            WatchProblem::Unauthorized => {
                connection.report_refusal(&client);
                Err(explain(WatchProblem::Unauthorized))
            }
            problem => Err(explain(problem)),
        })?;
        let is_it = |object: &WatchedObject| &*object.meta().name == name;
        Ok(list.objects.into_iter().find(is_it))
    };
    let find = async |kind: WatchedKind, name: &str| match find_labelled(kind, name, false).await? {
        None if KINDS_OF_PARTS.contains(&kind) => find_labelled(kind, name, true).await,
        object => Ok(object),
    };
    let Some(object) = find(WatchedKind::Pod, pod).await? else { return Ok(None) };
    let mut part = object.clone();
    // Pod, ReplicaSet, Deployment; or Pod, Job, CronJob.
    for _ in 0..3 {
        if is_rendered(&part, slug) {
            return Ok(object.pod().cloned());
        }
        if let Some(name) = canary_origin(&part) {
            // The copy of another app's workload may carry the label of this app, too.
            let origin = find(part.kind(), name).await?;
            let is_copy = origin.is_some_and(|origin| is_rendered(&origin, slug));
            return Ok(object.pod().filter(|_| is_copy).cloned());
        }
        let Some(reference) = part.meta().controller.clone() else { return Ok(None) };
        let Some(kind) = reference.kind else { return Ok(None) };
        match find(kind, &reference.name).await? {
            Some(owner) if owner.meta().uid == reference.uid => part = owner,
            Some(_) | None => return Ok(None),
        }
    }
    Ok(None)
}

/// Checks that an object is a workload that the service rendered for the app.
fn is_rendered(object: &WatchedObject, slug: &str) -> bool {
    let is_marked = matches!(&object.meta().marks, Marks::Revision { app, .. } if &**app == slug);
    object.kind().is_workload() && is_marked
}

/// Returns the name of the workload that Flagger copied: its copy serves while the workload itself has no pods. `None`
/// where this is no such copy.
fn canary_origin(object: &WatchedObject) -> Option<&str> {
    let owner = object.meta().controller.as_ref();
    let is_copy = owner.is_some_and(|owner| owner.kind == Some(WatchedKind::Canary));
    object.meta().name.strip_suffix("-primary").filter(|_| is_copy && object.kind().is_workload())
}

/// Picks the workloads and pods of an app out of an index.
pub(super) fn snapshot(
    index: &ClusterIndex,
    namespace: &str,
    slug: &str,
    is_cut: bool,
) -> AppSnapshot {
    let rendered = index.workloads_of_app(namespace, slug);
    let copies = rendered.iter().filter_map(|object| {
        let key = object.key();
        let copy = ObjectKey { name: format!("{}-primary", key.name).into(), ..key };
        index.get(&copy).filter(|object| canary_origin(object).is_some())
    });
    let mut objects: Vec<&WatchedObject> = rendered.iter().copied().chain(copies).collect();
    objects.sort_by_key(|object| object.key());
    objects.dedup_by_key(|object| object.key());
    let workload = |object: &WatchedObject| {
        let progress = workload_progress(object, index, &ProgressContext::default())?;
        let pods = index.pods_of(object).into_iter().cloned().collect();
        Some(WorkloadSnapshot { object: object.clone(), progress, pods })
    };
    let workloads = objects.into_iter().filter_map(workload).collect();
    AppSnapshot { workloads, is_cut, unread: Vec::new() }
}

async fn connect(
    connection: &ClusterConnection,
    until: Instant,
) -> Result<ClusterClient, LiveReadError> {
    let client = tokio::time::timeout_at(until, connection.client()).await;
    let client = client.map_err(|_elapsed| explain(WatchProblem::Silent))?;
    client.map_err(|error| LiveReadError::Unavailable(error.to_string()))
}

fn explain(problem: WatchProblem) -> LiveReadError {
    let reason = match problem {
        WatchProblem::Forbidden(reason) => return LiveReadError::Forbidden(reason),
        WatchProblem::Unauthorized => UNAUTHORIZED.to_owned(),
        WatchProblem::Throttled(_, reason) | WatchProblem::Failed(reason) => reason,
        WatchProblem::Silent => "the cluster does not answer in time".to_owned(),
        WatchProblem::TooLarge => "an object of the app is too large to be read".to_owned(),
        WatchProblem::Expired => "the list changes faster than it can be read".to_owned(),
        WatchProblem::Absent => "the cluster has no such kind".to_owned(),
    };
    LiveReadError::Unavailable(reason)
}

/// Reads the objects of a kind, in pages. A list that ends too late is cut; one that does not begin in time fails.
async fn read_kind(
    client: &ClusterClient,
    kind: WatchedKind,
    selector: &ObjectSelector<'_>,
    until: Instant,
) -> Result<KindObjects, WatchProblem> {
    let mut items = PAGE_ITEMS;
    for attempt in 1..=MAX_ATTEMPTS {
        let mut list = KindObjects::default();
        match read_pages(client, kind, selector, items, until, &mut list).await {
            Ok(()) => return Ok(list),
            Err(WatchProblem::TooLarge) if items > 1 => items = (items / 4).max(1),
            Err(WatchProblem::Expired) if attempt < MAX_ATTEMPTS => {}
            Err(WatchProblem::Silent) if !list.objects.is_empty() => {
                return Ok(KindObjects { is_cut: true, ..list });
            }
            Err(problem) => return Err(problem),
        }
    }
    Err(WatchProblem::Expired)
}

async fn read_pages(
    client: &ClusterClient,
    kind: WatchedKind,
    selector: &ObjectSelector<'_>,
    items: u32,
    until: Instant,
    list: &mut KindObjects,
) -> Result<(), WatchProblem> {
    let most = if kind == WatchedKind::Pod { MAX_PODS } else { MAX_OBJECTS };
    let (mut continuation, mut bytes) = (None, 0_usize);
    loop {
        let request = selector.request(kind, items, continuation)?;
        let page = ListPage::fetch_bounded(&client.client, request, MAX_PAGE, Duration::MAX);
        let page = tokio::time::timeout_at(until, page).await;
        let page = page.map_err(|_elapsed| WatchProblem::Silent)??;
        let parts = page.parts()?;
        // An object without a name is left out.
        let objects = parts.objects().filter_map(|json| WatchedObject::read(kind, &json).ok());
        list.objects.extend(objects);
        bytes = bytes.saturating_add(page.len());
        continuation = parts.continuation();
        let is_full = list.objects.len() >= most || bytes >= MAX_BYTES;
        list.is_cut = list.objects.len() > most || (is_full && continuation.is_some());
        list.objects.truncate(most);
        if is_full || continuation.is_none() {
            return Ok(());
        }
    }
}

impl ObjectSelector<'_> {
    /// Makes the request for a page. Flagger renames the label of its copies.
    fn request(
        &self,
        kind: WatchedKind,
        items: u32,
        continuation: Option<String>,
    ) -> Result<Request<Vec<u8>>, WatchProblem> {
        let Self { namespace, slug, name, parts: _ } = self;
        // A server refuses a longer value of a label, and Flagger can make no such copy.
        let has_copy = slug.len() + "-primary".len() <= 63;
        let names = if has_copy { format!("{slug},{slug}-primary") } else { (*slug).to_owned() };
        let label = if self.parts {
            format!("{APP_LABEL}={slug}")
        } else {
            format!("app.kubernetes.io/name in ({names})")
        };
        let params = ListParams {
            label_selector: Some(label),
            field_selector: name.map(|name| format!("metadata.name={name}")),
            limit: Some(items),
            continue_token: continuation,
            ..ListParams::default()
        };
        let request = kube::core::Request::new(kind.path_in(namespace)).list(&params);
        request.map_err(|error| WatchProblem::Failed(error.to_string()))
    }
}
