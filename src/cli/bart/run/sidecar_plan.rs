//! The environment, files and ports of an app's sidecars on a developer's machine. Pure.

use std::collections::BTreeSet;

use super::plan::{MissingValue, RunFile, RunPlan, RunPort, RunSources, RunVariable, VariableSet};
use crate::model::id::AppKey;
use crate::templates::view::network::PortRef;
use crate::waml::section::Section;
use crate::waml::section_containers::{ExtraContainer, Mount};

/// A sidecar as it runs on this machine.
pub(super) struct SidecarPlan<'a> {
    pub(super) name: &'a str,
    /// Its own image; `None` for the app's.
    pub(super) image: Option<&'a str>,
    pub(super) command: &'a [String],
    pub(super) args: &'a [String],
    /// By name; each once.
    pub(super) variables: Vec<RunVariable>,
    pub(super) missing: Vec<MissingValue>,
    pub(super) files: Vec<RunFile>,
    pub(super) ports: BTreeSet<RunPort>,
}

/// Makes the plans of the sidecars. One with the app's image has the variables and files of the app's plan too.
pub(super) fn sidecars<'a>(
    section: &'a Section,
    app: &AppKey,
    sources: &RunSources,
    app_plan: &RunPlan,
) -> Vec<SidecarPlan<'a>> {
    let sidecars = section.sidecars.iter().flatten();
    sidecars.map(|sidecar| sidecar_plan(sidecar, app, sources, app_plan)).collect()
}

fn sidecar_plan<'a>(
    sidecar: &'a ExtraContainer,
    app: &AppKey,
    sources: &RunSources,
    app_plan: &RunPlan,
) -> SidecarPlan<'a> {
    let ExtraContainer { name, image, command, args, env, mounts, ports, .. } = sidecar;
    let of_app = if sidecar.is_of_app() { app_plan.variables.as_slice() } else { &[] };
    let mut variables = VariableSet::of(of_app);
    for variable in env.iter().flatten() {
        variables.add(variable, app, sources);
    }
    // What is given for the app must not reach another image that does not ask for it.
    variables.add_given(sources, |given| env.iter().flatten().any(|one| one.name == given));
    let (variables, mut missing) = variables.finish();
    let mounts = mounts.as_deref().unwrap_or_default();
    let is_mounted = |file: &&RunFile| mounts.iter().any(|mount| mount.name == file.volume);
    let inherited = app_plan.files.iter().filter(|_| sidecar.is_of_app());
    let mut files: Vec<RunFile> = inherited.filter(|file| !is_mounted(file)).cloned().collect();
    for mount in mounts {
        let mounted = mounted_files(mount, &app_plan.files);
        if mounted.is_empty() {
            missing.push(MissingValue {
                name: format!("the mount {}", mount.name),
                reason: "only files of the WAML and of secrets are mounted here".to_owned(),
            });
        }
        files.extend(mounted);
    }
    let ports = ports.iter().flatten().map(|port| {
        let port = PortRef::of_container(port);
        RunPort { number: port.target, protocol: port.protocol }
    });
    SidecarPlan {
        name,
        image: image.as_deref(),
        command: command.as_deref().unwrap_or_default(),
        args: args.as_deref().unwrap_or_default(),
        variables,
        missing,
        files,
        ports: ports.collect(),
    }
}

/// Lists the files of a mount, in its own folder if it has one.
fn mounted_files(mount: &Mount, files: &[RunFile]) -> Vec<RunFile> {
    let files = files.iter().filter(|file| file.volume == mount.name).cloned();
    let in_folder = |file: RunFile| RunFile {
        folder: mount.mount_path.clone().unwrap_or_else(|| file.folder.clone()),
        ..file
    };
    files.map(in_folder).collect()
}

#[cfg(test)]
mod tests {
    use secrecy::ExposeSecret as _;

    use super::*;
    use crate::cli::bart::run::plan::plan;

    const SECTION: &str = "
env: [{name: MODE, value: slow}]
volumes: [{name: conf, mountPath: /etc/app, files: {app.toml: 'a = 1'}}, {name: data, mountPath: /data}]
sidecars:
- name: proxy
  image: ghcr.io/acme/proxy:1.2
  args: [--fast]
  env: [{name: LEVEL, value: info}, {name: TOKEN, secret: {name: proxy, key: token}}]
  ports: [{name: dns, number: 5353, protocol: UDP}]
  mounts: [{name: conf, mountPath: /etc/proxy}, {name: data}]
- {name: tail, command: [tail], env: [{name: LEVEL, value: info}]}
";

    #[test]
    fn a_sidecar_has_its_own_settings_and_with_the_apps_image_the_apps_too() {
        let section: Section = serde_yaml::from_str(SECTION).unwrap();
        let app = AppKey { namespace: "n".parse().unwrap(), slug: "shop".parse().unwrap() };
        let sources = RunSources {
            overrides: vec![("LEVEL".to_owned(), "debug".into()), ("EXTRA".to_owned(), "1".into())],
            ..RunSources::default()
        };
        let app_plan = plan(&section, &app, &[], &sources);
        let shown = |one: &SidecarPlan<'_>| {
            let variables = one.variables.iter();
            let variables =
                variables.map(|one| format!("{}={}", one.name, one.value.expose_secret()));
            let files = one.files.iter().map(|file| format!("{}/{}", file.folder, file.name));
            let missing = one.missing.iter().map(|missing| format!("no {}", missing.name));
            let ports = one.ports.iter().map(ToString::to_string);
            variables.chain(files).chain(missing).chain(ports).collect::<Vec<_>>().join(" ")
        };
        let sidecars = sidecars(&section, &app, &sources, &app_plan);
        let shown: Vec<_> = sidecars.iter().map(shown).collect();
        assert_eq!(
            shown,
            [
                "LEVEL=debug /etc/proxy/app.toml no TOKEN no the mount data 5353/udp",
                "EXTRA=1 LEVEL=debug MODE=slow /etc/app/app.toml",
            ]
        );
    }
}
