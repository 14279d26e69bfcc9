//! Containers beside the app's own, in Kubernetes' own shape.

use std::collections::{HashMap, HashSet};

use indexmap::IndexMap;
use serde_json::{Map, Value as Json, json};

use crate::model::target::Target;
use crate::templates::view::pod::{list, set_only};
use crate::templates::view::probes::ProbedApp;
use crate::templates::view::secrets::volume_name;
use crate::templates::view::{amounts, network};
use crate::waml::node::{Node, Path};
use crate::waml::section::Section;
use crate::waml::section_containers::{ExtraContainer, Mount};
use crate::waml::section_workload::EnvVar;

/// The first Kubernetes with sidecars of its own, init containers that go on running: on by default.
pub(crate) const SIDECARS_SINCE_MINOR: u16 = 29;

/// The parts of an app that its other containers share.
pub(super) struct PodParts<'a> {
    pub(super) section: &'a Section,
    pub(super) tree: &'a Node,
    pub(super) target: &'a Target,
    /// The view's `image`, `env`, `secrets`, `volumes` and `security`.
    pub(super) view: &'a Map<String, Json>,
}

impl PodParts<'_> {
    /// Shows the containers that run before the app's; null without any.
    pub(super) fn init_containers(&self) -> Json {
        let containers = Path::root().each("initContainers", &self.section.init_containers);
        list(containers.map(|(path, container)| self.show(container, &path, Json::Null)).collect())
    }

    /// Shows the sidecars: `native` ones are among a pod's `initContainers`, and `plain` ones, where Kubernetes is
    /// older, among its `containers`; null without any.
    pub(super) fn sidecars(&self) -> Json {
        let is_native = self.target.kubernetes().minor() >= SIDECARS_SINCE_MINOR;
        let restart = if is_native { json!("Always") } else { Json::Null };
        let sidecars = Path::root().each("sidecars", &self.section.sidecars);
        let all: Vec<Json> = sidecars
            .map(|(path, container)| self.show(container, &path, restart.clone()))
            .collect();
        match (all.is_empty(), is_native) {
            (true, _) => Json::Null,
            (false, true) => json!({"native": all, "plain": []}),
            (false, false) => json!({"native": [], "plain": all}),
        }
    }

    fn show(&self, container: &ExtraContainer, path: &Path, restart: Json) -> Json {
        let ExtraContainer { name, image, command, args, env, resources, .. } = container;
        let of_app = |key: &str| self.view.get(key).filter(|_| container.is_of_app());
        let image_view = of_app("image");
        let probed = ProbedApp::of_container(container, self.tree, path);
        let all_probes = probed.view();
        let probe = |kind: &str| all_probes.get(kind).cloned().unwrap_or(Json::Null);
        let ports = network::container_ports(&probed.ports);
        let ports = ports.iter().map(|port| {
            json!({"name": port.name, "containerPort": port.number, "protocol": port.protocol})
        });
        let mut view = set_only([
            ("name", json!(name)),
            (
                "image",
                image_view
                    .and_then(|image| image.get("reference"))
                    .map_or(json!(image), Json::clone),
            ),
            (
                "imagePullPolicy",
                image_view.and_then(|image| image.get("pullPolicy")).cloned().unwrap_or_default(),
            ),
            ("restartPolicy", restart),
            ("command", json!(command)),
            ("args", json!(args)),
            ("env", env_list(of_app("env"), env.as_deref().unwrap_or_default())),
            ("envFrom", if container.is_of_app() { self.env_sources() } else { Json::Null }),
            ("ports", list(ports.collect())),
            ("resources", amounts::resources(resources.as_ref())),
            ("startupProbe", probe("startup")),
            ("readinessProbe", probe("readiness")),
            ("livenessProbe", probe("liveness")),
            ("volumeMounts", list(self.mounts(container))),
        ]);
        let rights = self.view.get("security").and_then(|security| security.get("container"));
        if let (Some(view), Some(Json::Object(rights))) = (view.as_object_mut(), rights) {
            view.extend(rights.clone());
        }
        view
    }

    /// Shows the sources of whole sets of variables.
    fn env_sources(&self) -> Json {
        let of_part = |part: &str, kind: &str| -> Vec<Json> {
            let sources = self.elements(part).filter(|one| one.get("mountPath").is_none());
            let source = |one: &Json| {
                let optional = one.get("optional").and_then(Json::as_bool).unwrap_or_default();
                json!({kind: {"name": one.get("name"), "optional": optional}})
            };
            sources.map(source).collect()
        };
        list([of_part("configMaps", "configMapRef"), of_part("secrets", "secretRef")].concat())
    }

    /// Lists what the container mounts: the app's folders where it has the app's image, else those that stay writable;
    /// and what it says itself.
    fn mounts(&self, container: &ExtraContainer) -> Vec<Json> {
        let of_app = self.app_mounts();
        let by_volume: HashMap<&str, &AppMount<'_>> =
            of_app.iter().map(|app| (app.volume, app)).collect();
        let own = container.mounts.iter().flatten().filter_map(|mount| {
            let volume = by_volume.get(mount.name.as_str());
            Some((mount, *volume.or_else(|| by_volume.get(volume_name(&mount.name).as_str()))?))
        });
        let own: Vec<(&Mount, &AppMount<'_>)> = own.collect();
        let named: HashSet<&str> = own.iter().map(|(_, app)| app.volume).collect();
        let inherited = of_app.iter().filter(|app| {
            !named.contains(app.volume) && (container.is_of_app() || app.stays_writable)
        });
        let inherited = inherited.map(|app| app.show(None, None));
        let own = own.iter().map(|(m, app)| app.show(m.mount_path.as_deref(), m.read_only));
        inherited.chain(own).collect()
    }

    /// Lists what the app's own container mounts: secrets, volumes, and the folders that stay writable.
    fn app_mounts(&self) -> Vec<AppMount<'_>> {
        let secrets = self.elements("secrets").filter(|secret| secret.get("mountPath").is_some());
        let secrets = secrets.map(|secret| AppMount {
            volume: text(secret, "volume"),
            folder: text(secret, "mountPath"),
            read_only: true,
            stays_writable: false,
        });
        let declared = self.section.volumes.as_ref().map_or(0, Vec::len);
        let volumes = self.elements("volumes").enumerate().map(|(index, volume)| AppMount {
            volume: text(volume, "name"),
            folder: text(volume, "mountPath"),
            read_only: volume.get("readOnly").and_then(Json::as_bool).unwrap_or_default(),
            stays_writable: index >= declared,
        });
        secrets.chain(volumes).collect()
    }

    /// Lists the elements of a part of the view; none where it is null.
    fn elements(&self, part: &str) -> impl Iterator<Item = &Json> {
        self.view.get(part).and_then(Json::as_array).into_iter().flatten()
    }
}

/// A volume as the app's own container mounts it.
struct AppMount<'a> {
    volume: &'a str,
    folder: &'a str,
    read_only: bool,
    /// True for a folder of `security.writable`.
    stays_writable: bool,
}

impl AppMount<'_> {
    fn show(&self, folder: Option<&str>, read_only: Option<bool>) -> Json {
        // What the app's container may not write, nobody may.
        let read_only = self.read_only || read_only.unwrap_or_default();
        set_only([
            ("name", json!(self.volume)),
            ("mountPath", json!(folder.unwrap_or(self.folder))),
            ("readOnly", if read_only { json!(true) } else { Json::Null }),
        ])
    }
}

fn text<'a>(map: &'a Json, key: &str) -> &'a str {
    map.get(key).and_then(Json::as_str).unwrap_or_default()
}

/// Shows variables in a container's form: the app's, in the view's form, with the container's own over them.
fn env_list(of_app: Option<&Json>, own: &[EnvVar]) -> Json {
    let all = merge_env(of_app, own);
    list(all.as_array().into_iter().flatten().map(container_variable).collect())
}

/// Lays variables over the app's; both are in the view's form. Null without any.
pub(super) fn merge_env(of_app: Option<&Json>, own: &[EnvVar]) -> Json {
    let of_app = of_app.and_then(Json::as_array).into_iter().flatten().cloned();
    let own = own.iter().map(|variable| super::without_nulls(json!(variable)));
    let by_name: IndexMap<String, Json> =
        of_app.chain(own).map(|variable| (text(&variable, "name").to_owned(), variable)).collect();
    list(by_name.into_values().collect())
}

/// Shows a variable of the view in a container's form.
fn container_variable(variable: &Json) -> Json {
    let source = |key: &str, field: &str| {
        let reference = variable.get(key)?;
        let value = if reference.is_string() {
            json!({if key == "field" { "fieldPath" } else { "resource" }: reference})
        } else {
            reference.clone()
        };
        Some(json!({field: value}))
    };
    let source = source("secret", "secretKeyRef")
        .or_else(|| source("configMap", "configMapKeyRef"))
        .or_else(|| source("field", "fieldRef"))
        .or_else(|| source("resource", "resourceFieldRef"));
    let value = match source {
        Some(_) => Json::Null,
        None => variable.get("value").cloned().unwrap_or_default(),
    };
    set_only([
        ("name", variable.get("name").cloned().unwrap_or_default()),
        ("valueFrom", source.unwrap_or_default()),
        ("value", value),
    ])
}
