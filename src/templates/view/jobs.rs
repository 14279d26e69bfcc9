//! Jobs before a release, with the app's image.
//!
//! Their pods have a name label of their own, `SLUG.JOB`: what selects the app's pods (Services, autoscalers, budgets)
//! does not find them. No slug has a dot, so no other app's finds them either.

use serde_json::{Map, Value as Json, json};

use crate::manifests::APP_LABEL;
use crate::model::id::AppKey;
use crate::templates::view::containers::merge_env;
use crate::templates::view::pod::list;
use crate::templates::view::{amounts, labels_with, naming};
use crate::waml::section::Section;
use crate::waml::section_containers::ReleaseJob;

/// Seconds that a job may take where it does not say it.
const JOB_SECONDS: u32 = 600;

/// An app whose jobs are shown; `view` has its `app`, `env` and `volumes`.
pub(super) struct AppParts<'a> {
    pub(super) section: &'a Section,
    pub(super) app: &'a AppKey,
    pub(super) view: &'a Map<String, Json>,
}

impl AppParts<'_> {
    /// Shows the jobs that run before a release; null without any.
    pub(super) fn jobs(&self) -> Json {
        list(self.section.jobs.iter().flatten().map(|job| self.job(job)).collect())
    }

    fn job(&self, job: &ReleaseJob) -> Json {
        let ReleaseJob {
            name,
            command,
            args,
            env,
            resources,
            active_deadline_seconds,
            backoff_limit,
        } = job;
        json!({
            "name": name,
            "app": self.as_seen_by(name),
            "command": command,
            "args": args,
            "env": merge_env(self.view.get("env"), env.as_deref().unwrap_or_default()),
            "resources": amounts::resources(resources.as_ref().or(self.section.resources.as_ref())),
            "volumes": self.shared_volumes(),
            "labels": labels_with(self.section, APP_LABEL, self.app.slug.as_str()),
            "annotations": self.ending_annotations(),
            "activeDeadlineSeconds": active_deadline_seconds.unwrap_or(JOB_SECONDS),
            "backoffLimit": backoff_limit.unwrap_or(0),
        })
    }

    /// Shows the app as a job sees it: with a name label and a workload of its own, and the app's account.
    fn as_seen_by(&self, job: &str) -> Json {
        let slug = self.app.slug.as_str();
        let mut app = self.view.get("app").cloned().unwrap_or_default();
        if let Some(app) = app.as_object_mut() {
            app.insert("slug".to_owned(), json!(naming::join_name(slug, job)));
            app.insert("workload".to_owned(), json!(naming::of_two(slug, job)));
        }
        app
    }

    /// Lists the volumes that several pods can have: no disk, which the app's own pods may hold.
    fn shared_volumes(&self) -> Json {
        let volumes = self.view.get("volumes").and_then(Json::as_array).into_iter().flatten();
        let is_disk = |volume: &&Json| volume.get("claim").is_some_and(|claim| !claim.is_null());
        list(volumes.filter(|volume| !is_disk(volume)).cloned().collect())
    }

    /// Lists the pods' annotations for pods that end: the Vault agent must not stay.
    fn ending_annotations(&self) -> Json {
        let mut annotations = self.view.get("annotations").cloned().unwrap_or_default();
        if let Some(annotations) = annotations.as_object_mut() {
            super::delivery::end_with_pod(annotations);
        }
        annotations
    }
}
