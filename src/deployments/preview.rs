//! The preview of a pull request: reads what it needs from the code host, the manifest
//! repositories, the store and the facts. The text is made by pure functions.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::deployments::Deployments;
use crate::deployments::app_files::{AppHead, WamlText};
use crate::deployments::outcome::{DeployError, Remedy};
use crate::forge::check::{Annotation, CheckRun, Conclusion, Level};
use crate::forge::error::ForgeError;
use crate::model::event::PullRequest;
use crate::model::fleet::FleetPlace;
use crate::model::id::{AppName, CommitSha, RepoName, TargetName};
use crate::model::preview::{PreviewText, PreviewVerdict};
use crate::model::release::Release;
use crate::model::revision::ManifestFile;
use crate::model::violation::{Rejection, Severity, Violation};
use crate::pipeline::preview::{Preview, PreviewEffect, TargetPreview, live, text};
use crate::pipeline::{Input, preview};
use crate::templates::set::TemplateSet;
use crate::waml::Waml;
use crate::waml::app_files::{AppFiles, MAX_APPS, app_of, find_duplicates};
use crate::waml::extra_files::{beside, check_path};

/// The name of the check run, as the list of checks shows it.
pub(crate) const CHECK: &str = "the-deployer/preview";

/// The most targets of a preview: a WAML of 256 KiB has room for thousands, and no reader wants
/// more rows.
const MAX_TARGETS: usize = 40;

/// The most targets of all apps together.
const MAX_TARGETS_OF_ALL: usize = 120;

/// The work that a pull request needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PreviewTask {
    /// None, for this reason.
    Nothing(&'static str),
    /// Show this text, without a plan.
    Say(PreviewText),
    /// Compute a preview, by these files that the pull request changes.
    Look(BTreeSet<String>),
}

/// The check run in which a preview is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PreviewPlace {
    /// A new check run.
    New,
    /// The check run that an earlier attempt may have created, otherwise a new one.
    Unsure,
    /// The check run of this number.
    At(i64),
}

impl Deployments {
    /// Returns the work that the pull request needs. `is_shown` is true if an earlier head has a check
    /// run.
    pub(crate) async fn assess_pull_request(
        &self,
        request: &PullRequest,
        is_shown: bool,
    ) -> Result<PreviewTask, DeployError> {
        if request.is_from_fork() && !self.previews.forks {
            return Ok(PreviewTask::Say(text::from_fork()));
        }
        let PullRequest { repository, number, .. } = request;
        // Files that a WAML may name, beside the WAMLs themselves.
        let folder = beside(&self.waml.path, "");
        let is_candidate = |path: &str| {
            app_of(&self.waml.path, path).is_some()
                || path.strip_prefix(&*folder).is_some_and(|path| check_path(path).is_ok())
        };
        let changed = self.forge.pull_request_files(repository, *number, is_candidate).await?;
        let is_waml = |path: &String| app_of(&self.waml.path, path).is_some();
        if changed.iter().any(is_waml)
            || (!changed.is_empty() && self.names_any(request, &changed).await?)
        {
            return Ok(PreviewTask::Look(changed));
        }
        // A check run of an earlier head must not be the last result that people see.
        Ok(if is_shown || self.previews.always {
            PreviewTask::Say(text::write_untouched(&self.waml.path))
        } else {
            PreviewTask::Nothing("the WAML is not touched")
        })
    }

    /// Computes what the pull request would change, by these files that it changes: for each app that they are of.
    pub(crate) async fn preview_pull_request(
        &self,
        request: &PullRequest,
        changed: &BTreeSet<String>,
    ) -> Result<PreviewText, DeployError> {
        let files = self.list_apps(&request.repository, &request.head).await?;
        let was_split = changed
            .iter()
            .any(|path| app_of(&self.waml.path, path).is_some_and(|app| !app.is_root()));
        if !files.has_folder() && !was_split {
            return self.preview_app(request, None, MAX_TARGETS).await;
        }
        let heads = self.read_heads(&request.repository, &request.head, &files).await?;
        let mut sections = Vec::new();
        let problems = find_problems(&files, &heads);
        if !problems.is_empty() {
            let rejection = Rejection { violations: problems };
            sections.push(("the WAMLs together".to_owned(), text::unusable_set(&rejection)));
        }
        if files.is_cut() {
            // Which apps are left out would be chance.
            return Ok(text::combine(&sections));
        }
        let mut room = MAX_TARGETS_OF_ALL;
        for (app, head) in &heads {
            let path = self.waml_path(Some(app));
            let names_changed = head.as_ref().is_some_and(|head| {
                head.extra_paths.iter().any(|extra| changed.contains(&beside(&path, extra)))
            });
            if changed.contains(&path) || names_changed {
                let most = MAX_TARGETS.min(room);
                let section = self.preview_app(request, Some(app), most).await?;
                let count = head.as_ref().map_or(0, |head| head.targets.len());
                room = room.saturating_sub(count.min(most));
                sections.push((section_title(app, &path), section));
            }
        }
        let apps = changed.iter().filter_map(|path| Some((app_of(&self.waml.path, path)?, path)));
        let gone: Vec<_> = apps.filter(|(app, _)| !files.apps().contains(app)).collect();
        for (app, path) in gone.iter().take(MAX_APPS) {
            let section = self.preview_gone(request, (app, path), &heads).await?;
            sections.push((section_title(app, path), section));
        }
        if gone.len() > MAX_APPS {
            let count = gone.len() - MAX_APPS;
            sections.push((format!("and {count} more"), text::more_gone(count)));
        }
        Ok(text::combine(&sections))
    }

    /// Computes what the pull request would change of one app; `None` is the only one of its repository.
    async fn preview_app(
        &self,
        request: &PullRequest,
        app: Option<&AppName>,
        most: usize,
    ) -> Result<PreviewText, DeployError> {
        let path = self.waml_path(app);
        let Some(file) = self.waml_at(&request.repository, app, &request.head).await? else {
            return Ok(text::no_file(&path));
        };
        let base_file = self.waml_at(&request.repository, app, &request.base_commit).await?;
        let deployments = self.clone();
        let parsing = self.cpu_pool.run_blocking(move || {
            let base_waml = base_file.and_then(|file| deployments.parse(&file).ok());
            let waml = deployments.parse(&file);
            let waml = waml.map_err(|rejection| deployments.all_violations(rejection, &file, None));
            waml.map(|waml| (Arc::new(waml), base_waml))
        });
        let (waml, base_waml) = match parsing.await? {
            Ok(wamls) => wamls,
            Err(rejection) => return Ok(text::unreadable(&path, &rejection)),
        };
        let wamls = (waml, base_waml.as_ref());
        let preview = self.preview_targets(request, app, wamls, most).await?;
        self.cpu_pool.run_blocking(move || text::describe_preview(&preview)).await
    }

    /// Says what becomes of an app whose WAML the pull request removes: the same app may be in another file now.
    async fn preview_gone(
        &self,
        request: &PullRequest,
        (app, path): (&AppName, &str),
        heads: &[(AppName, Option<AppHead>)],
    ) -> Result<PreviewText, DeployError> {
        let base = self.waml_at(&request.repository, Some(app), &request.base_commit).await?;
        let deployments = self.clone();
        let read_app = move || base.and_then(|file| Some(deployments.parse(&file).ok()?.app));
        let key = self.cpu_pool.run_blocking(read_app).await?;
        let is_same = |head: &AppHead| Some(&head.app) == key.as_ref();
        let other = heads.iter().find(|(_, head)| head.as_ref().is_some_and(is_same));
        Ok(match other {
            Some((other, _)) => text::moved(path, &self.waml_path(Some(other))),
            None => text::no_file(path),
        })
    }

    /// Shows the preview at the head; returns the number of the check run.
    pub(crate) async fn show_preview(
        &self,
        request: &PullRequest,
        text: &PreviewText,
        place: PreviewPlace,
    ) -> Result<i64, DeployError> {
        let check = check_run(request, text);
        let repository = &request.repository;
        let check_id = match place {
            PreviewPlace::New => None,
            PreviewPlace::At(id) => Some(id),
            PreviewPlace::Unsure => {
                self.forge.find_check(repository, &check.head, CHECK, &check.external_id).await?
            }
        };
        match check_id {
            Some(id) => {
                self.forge.update_check(repository, id, &check).await?;
                Ok(id)
            }
            None => Ok(self.forge.create_check(repository, &check).await?),
        }
    }
}

impl Deployments {
    /// Returns the WAML at a commit, if it is there.
    async fn waml_at(
        &self,
        repository: &RepoName,
        app: Option<&AppName>,
        commit: &CommitSha,
    ) -> Result<Option<WamlText>, DeployError> {
        match self.file_of(repository, commit, app).await {
            Ok(file) => Ok(Some(file)),
            Err(ForgeError::NoFile { .. }) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Checks that a WAML at the head names one of the files.
    async fn names_any(
        &self,
        request: &PullRequest,
        changed: &BTreeSet<String>,
    ) -> Result<bool, DeployError> {
        let files = self.list_apps(&request.repository, &request.head).await?;
        let heads = self.read_heads(&request.repository, &request.head, &files).await?;
        let names_changed = |(app, head): &(AppName, Option<AppHead>)| {
            let path = self.waml_path(Some(app));
            let mut paths = head.iter().flat_map(|head| &head.extra_paths);
            paths.any(|extra| changed.contains(&beside(&path, extra)))
        };
        Ok(heads.iter().any(names_changed))
    }

    async fn preview_targets(
        &self,
        request: &PullRequest,
        app: Option<&AppName>,
        (mut waml, base_waml): (Arc<Waml>, Option<&Waml>),
        most: usize,
    ) -> Result<Preview, DeployError> {
        let templates = self.templates.now();
        // A fleet has a row for each of its clusters.
        let of_target = |target: &TargetName| {
            let places = self.fleet_places(target).into_iter();
            places.map(|place| (target.clone(), place)).collect::<Vec<_>>()
        };
        let names: Vec<_> = waml.targets().into_iter().flat_map(of_target).collect();
        let (mut targets, mut paths) = (Vec::new(), Vec::new());
        for target in names.iter().take(most) {
            // The files of one target at a time: those of all may be many. Most targets have the same.
            let target_paths = waml.extra_paths_of(&target.0);
            if target_paths != paths {
                let (repository, head) = (&request.repository, &request.head);
                let former = Arc::unwrap_or_clone(waml);
                waml = self.with_extra_files(former, &target.0, repository, head).await?.into();
                paths = target_paths;
            }
            targets.push(self.preview_target(request, (app, &waml), target, &templates).await?);
        }
        Ok(Preview {
            file: self.waml_path(app),
            app: waml.app.clone(),
            base: request.base.clone(),
            targets,
            not_looked_at: names.len().saturating_sub(most),
            left: base_waml.and_then(|base_waml| preview::left(base_waml, &waml)),
        })
    }

    /// Previews one target. A problem that does not pass is shown in the target's row; one that may
    /// pass fails the whole preview, which is tried again.
    async fn preview_target(
        &self,
        request: &PullRequest,
        app: (Option<&AppName>, &Arc<Waml>),
        target: &(TargetName, Option<FleetPlace>),
        templates: &Arc<TemplateSet>,
    ) -> Result<TargetPreview, DeployError> {
        match self.look_at_target(request, app, target, templates).await {
            Err(DeployError {
                remedy: Remedy::Reject | Remedy::Doubt | Remedy::GiveUp,
                message,
            }) => Ok(TargetPreview {
                target: target.1.as_ref().map_or(&target.0, |place| &place.cluster).clone(),
                outlook: PreviewEffect::Unknown(message),
                tag: None,
                warnings: Vec::new(),
                canary: None,
                notes: Vec::new(),
            }),
            other => other,
        }
    }

    async fn look_at_target(
        &self,
        request: &PullRequest,
        (app, waml): (Option<&AppName>, &Arc<Waml>),
        (section, place): &(TargetName, Option<FleetPlace>),
        templates: &Arc<TemplateSet>,
    ) -> Result<TargetPreview, DeployError> {
        let target = place.as_ref().map_or(section, |place| &place.cluster);
        self.check_owner(request, waml, target).await?;
        let live = self.live(&waml.app, target).await?;
        let (release, tag) = self.preview_release(request, (app, waml), target, &live).await?;
        let input = Input {
            waml: Arc::clone(waml),
            target: section.clone(),
            fleet: place.clone(),
            release,
            templates: Arc::clone(templates),
        };
        let clusters = self.clusters.clone();
        let (input, questions) = self
            .cpu_pool
            .run_blocking(move || {
                let questions = preview::questions(&input, &clusters);
                (input, questions)
            })
            .await?;
        let facts = self.gather(questions.as_ref()).await;
        let base = request.base.clone();
        self.cpu_pool
            .run_blocking(move || preview::of_target(&input, &facts, &base, &live, tag))
            .await
    }

    /// Refuses to show another repository's app, whatever name the WAML has.
    async fn check_owner(
        &self,
        request: &PullRequest,
        waml: &Waml,
        target: &TargetName,
    ) -> Result<(), DeployError> {
        match self.store.ownership(target, &waml.app).await?.app {
            Some(owner) if !owner.is_same(&request.repository) => {
                Err(DeployError::reject(format!(
                    "`{}` on `{target}` belongs to another repository: a deployment would be refused, \
                 and what is live is not shown",
                    waml.app
                )))
            }
            Some(_) | None => Ok(()),
        }
    }

    /// Returns the release to render with: the live one.
    async fn preview_release(
        &self,
        request: &PullRequest,
        (app, waml): (Option<&AppName>, &Waml),
        target: &TargetName,
        live: &[ManifestFile],
    ) -> Result<(Release, Option<crate::model::id::ImageTag>), DeployError> {
        let release = Release {
            repository: request.repository.clone(),
            app: app.cloned(),
            commit: request.head.clone(),
            tag: live::no_tag(),
        };
        let succeeded = self.recent_successes(&waml.app, target).await?;
        Ok(live::release(live, &succeeded, &release))
    }
}

fn section_title(app: &AppName, path: &str) -> String {
    if app.is_root() { path.to_owned() } else { format!("{app} ({path})") }
}

fn check_run(request: &PullRequest, text: &PreviewText) -> CheckRun {
    let PreviewText { verdict, title, summary, text: details, remarks } = text;
    let annotation = |remark: &crate::model::preview::Remark| Annotation {
        path: remark.file.clone(),
        line: remark.line,
        level: match remark.severity {
            Severity::Error => Level::Failure,
            Severity::Warning => Level::Warning,
        },
        title: remark.title.clone(),
        message: remark.message.clone(),
    };
    CheckRun {
        name: CHECK.to_owned(),
        head: request.head.clone(),
        external_id: text::external_id(request),
        conclusion: match verdict {
            PreviewVerdict::UnderWay => None,
            PreviewVerdict::Failure => Some(Conclusion::Failure),
            PreviewVerdict::Success => Some(Conclusion::Success),
            PreviewVerdict::Neutral => Some(Conclusion::Neutral),
        },
        title: title.clone(),
        summary: summary.clone(),
        text: details.clone(),
        details_url: None,
        annotations: remarks.iter().map(annotation).collect(),
    }
}

/// Finds what is wrong with the WAMLs of a repository as a set.
fn find_problems(files: &AppFiles, heads: &[(AppName, Option<AppHead>)]) -> Vec<Violation> {
    let readable = heads.iter().filter_map(|(_, head)| head.as_ref());
    let duplicates = find_duplicates(readable.map(|head| (head.app.clone(), head.place.clone())));
    files.problems().iter().cloned().chain(duplicates).collect()
}
