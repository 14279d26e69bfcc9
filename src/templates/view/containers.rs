//! Containers beside the app's own, in Kubernetes' own shape.

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
        let source = |kind: &str, name: &str, optional: Option<bool>| json!({kind: {"name": name, "optional": optional.unwrap_or(false)}});
        let maps = self.section.config_maps.iter().flatten();
        let maps = maps.map(|map| source("configMapRef", &map.name, map.optional));
        let has_secrets = self.view.get("secrets").is_some_and(|secrets| !secrets.is_null());
        let secrets = self
            .section
            .secrets
            .iter()
            .flatten()
            .filter(|secret| has_secrets && secret.mount_path.is_none());
        let secrets = secrets.map(|secret| source("secretRef", &secret.name, secret.optional));
        list(maps.chain(secrets).collect())
    }

    /// Lists what the container mounts: the app's folders where it has the app's image, else those that stay writable;
    /// and what it says itself.
    fn mounts(&self, container: &ExtraContainer) -> Vec<Json> {
        let volumes = self.view.get("volumes").and_then(Json::as_array);
        let volumes = volumes.into_iter().flatten().map(|volume| AppMount {
            volume: text(volume, "name"),
            folder: text(volume, "mountPath"),
            read_only: volume.get("readOnly").and_then(Json::as_bool).unwrap_or_default(),
        });
        let secrets = self.view.get("secrets").and_then(Json::as_array).into_iter().flatten();
        let secrets = secrets.filter(|secret| secret.get("mountPath").is_some());
        let secrets = secrets.map(|secret| AppMount {
            volume: text(secret, "volume"),
            folder: text(secret, "mountPath"),
            read_only: true,
        });
        let of_app: Vec<AppMount<'_>> = secrets.chain(volumes).collect();
        let own: Vec<(&Mount, &AppMount<'_>)> = container
            .mounts
            .iter()
            .flatten()
            .filter_map(|mount| {
                let secret = volume_name(&mount.name);
                let volume = of_app
                    .iter()
                    .find(|app| app.volume == mount.name)
                    .or_else(|| of_app.iter().find(|app| app.volume == secret))?;
                Some((mount, volume))
            })
            .collect();
        let declared = |volume: &str| {
            self.section.volumes.iter().flatten().any(|declared| declared.name == volume)
        };
        let inherited = of_app.iter().filter(|app| {
            let is_own = own.iter().any(|(_, volume)| volume.volume == app.volume);
            let is_writable_folder = !app.read_only && !declared(app.volume);
            !is_own && (container.is_of_app() || is_writable_folder)
        });
        let inherited = inherited.map(|app| app.show(None, None));
        inherited
            .chain(
                own.iter()
                    .map(|(mount, app)| app.show(mount.mount_path.as_deref(), mount.read_only)),
            )
            .collect()
    }
}

/// A volume as the app's own container mounts it.
struct AppMount<'a> {
    volume: &'a str,
    folder: &'a str,
    read_only: bool,
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
    let own = own.iter().map(|variable| super::without_nulls(json!(variable)));
    let mut all: Vec<Json> = of_app.and_then(Json::as_array).cloned().unwrap_or_default();
    for variable in own {
        match all.iter_mut().find(|other| other.get("name") == variable.get("name")) {
            Some(other) => *other = variable,
            None => all.push(variable),
        }
    }
    list(all)
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
