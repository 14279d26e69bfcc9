//! The WAML: the file in which a service repository describes its app.

use schemars::JsonSchema;
use serde::Deserialize;

use crate::config::resolver::Resolver;

/// The WAML: the file in which a service repository describes its app.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Waml {
    /// Its path in the repository. Default: `.weave.yaml`. Without its extension it is the folder of the WAMLs of
    /// several apps, `.weave/APP.yaml`.
    path: Option<String>,
    /// Its largest size in bytes. Default: 262144.
    #[schemars(range(min = 1, max = 262_144))]
    max_bytes: Option<u32>,
}

/// The settings of the WAML.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WamlSettings {
    /// Its path in the repository; without its extension it is the folder of the WAMLs of several apps.
    pub path: String,
    /// Its largest size in bytes.
    pub max_bytes: usize,
}

impl Resolver<'_> {
    pub(super) fn waml(&mut self, waml: Waml) -> WamlSettings {
        let Waml { path, max_bytes } = waml;
        let path = path.unwrap_or_else(|| ".weave.yaml".to_owned());
        let inside = |part: &str| !matches!(part, "" | "." | "..");
        if !path.split('/').all(inside) || path.chars().any(char::is_control) {
            let help = "write it like .weave.yaml or deploy/weave.yaml";
            self.report.error("waml.path", "this is not a path inside a repository", help);
        }
        WamlSettings { path, max_bytes: max_bytes.unwrap_or(262_144) as usize }
    }
}
