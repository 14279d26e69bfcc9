//! Observability of an app: the place of its metrics, the receivers of its alerts, and its links.

use serde_json::{Map, Value as Json, json};

use crate::model::platform::monitoring::{Monitoring, fill_pattern};
use crate::model::target::Target;
use crate::templates::promql::literal;
use crate::templates::view::naming;
use crate::waml::Waml;
use crate::waml::section::Section;
use crate::waml::section_operations::{Alert, AlertSeverity};

/// An app on a target, with what measures there.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ObservedApp<'a> {
    pub(crate) waml: &'a Waml,
    pub(crate) section: &'a Section,
    pub(crate) target: &'a Target,
}

impl<'a> ObservedApp<'a> {
    pub(crate) fn slug(&self) -> &'a str {
        self.waml.app.slug.as_str()
    }

    /// Names the workload of the pods.
    pub(crate) fn workload(&self) -> String {
        naming::workload(self.slug())
    }

    /// Lists the workloads of the app's live versions, which are called as their Services; none where it has no versions.
    pub(crate) fn version_workloads(&self) -> Vec<String> {
        let versions = self.section.versions.iter().flatten();
        versions.map(|version| naming::version_workload(self.slug(), &version.name)).collect()
    }

    /// Lists the workloads beside the app's first: those of its live versions and of its processes.
    fn part_workloads(&self) -> Vec<String> {
        let processes = self.section.other_processes();
        let of_processes = processes.map(|(name, _)| naming::version_workload(self.slug(), name));
        self.version_workloads().into_iter().chain(of_processes).collect()
    }

    /// Writes a matcher for the Deployments that run the app's pods. A canary has a second one, and
    /// each live version and process its own.
    pub(crate) fn deployments(&self) -> String {
        let (workload, parts) = (self.workload(), self.part_workloads());
        let copy = if self.section.canary.is_some() { "(-primary)?" } else { "" };
        if copy.is_empty() && parts.is_empty() {
            return format!(r#"deployment="{workload}""#);
        }
        // A template may make nothing of the versions or processes.
        let names: Vec<String> = [format!("{workload}{copy}")].into_iter().chain(parts).collect();
        format!(r#"deployment=~"{}""#, names.join("|"))
    }

    /// Writes a matcher for the app's autoscalers: each live version has its own, and each process, by its label.
    pub(crate) fn autoscalers(&self) -> String {
        // In a regular expression a dot is any character.
        let label = |name: &str| naming::join_name(self.slug(), name).replace('.', "[.]");
        let of_processes = self.section.other_processes().map(|(name, _)| label(name));
        let parts: Vec<String> = self.version_workloads().into_iter().chain(of_processes).collect();
        if parts.is_empty() {
            format!(r#"horizontalpodautoscaler="{}""#, self.slug())
        } else {
            format!(r#"horizontalpodautoscaler=~"{}|{}""#, self.slug(), parts.join("|"))
        }
    }

    /// Writes a pattern for the names of the app's workloads, before what Kubernetes puts behind
    /// them for each pod.
    fn pod_prefix(&self) -> String {
        let workload = self.workload();
        let begins = format!("{workload}-");
        let mut other_workloads = self.part_workloads();
        other_workloads.retain(|name| !name.starts_with(&begins));
        if other_workloads.is_empty() {
            workload
        } else {
            format!("({workload}|{})", other_workloads.join("|"))
        }
    }

    pub(crate) fn namespace(&self) -> &'a str {
        self.waml.app.namespace.as_str()
    }

    pub(crate) fn monitoring(&self) -> &'a Monitoring {
        &self.target.platform.monitoring
    }

    /// Writes matchers for the app's own container, whatever workload it is in. The container has
    /// the slug's name, so an app whose slug only begins likewise is not meant.
    pub(crate) fn container(&self) -> String {
        let (namespace, slug, prefix) = (self.namespace(), self.slug(), self.pod_prefix());
        format!(r#"namespace="{namespace}", pod=~"{prefix}-.+", container="{slug}""#)
    }

    /// Fills in a pattern of the operator's for this app.
    pub(crate) fn fill_pattern(&self, pattern: &str) -> String {
        fill_pattern(pattern, &self.waml.app, &self.target.name)
    }

    /// Collects the labels of every object of rules: the WAML's, and those by which Prometheus
    /// finds it.
    pub(crate) fn object_labels(&self) -> Json {
        let mut labels = Map::new();
        for (key, value) in self.section.labels.iter().flatten() {
            labels.insert(key.clone(), json!(value.as_deref().unwrap_or_default()));
        }
        for (key, value) in &self.monitoring().rule_labels {
            labels.insert(key.clone(), json!(value));
        }
        Json::Object(labels)
    }

    /// Collects the labels that Alertmanager routes by. Labels of a series that are called the same
    /// are overwritten.
    pub(crate) fn labels(&self, alert: &Alert) -> Map<String, Json> {
        let severities = &self.monitoring().severities;
        let severity = match alert.severity.unwrap_or(AlertSeverity::Ticket) {
            AlertSeverity::Page => &severities.page,
            AlertSeverity::Ticket => &severities.ticket,
            AlertSeverity::Info => &severities.info,
        };
        let mut labels = Map::new();
        let mut set = |key: &str, text: &str| drop(labels.insert(key.to_owned(), json!(text)));
        set("severity", severity);
        set("namespace", self.namespace());
        set("app", self.slug());
        set("owner", &literal(&self.waml.owner));
        if let Some(slack) = alert.slack.as_ref().or(self.waml.slack.as_ref()) {
            set("slack", &literal(slack));
        }
        labels
    }

    /// Collects the annotations of an alert, for the person who gets it.
    pub(crate) fn annotations(&self, name: &str, summary: &str, text: &str) -> Map<String, Json> {
        let mut annotations = Map::new();
        let mut set =
            |key: &str, text: String| drop(annotations.insert(key.to_owned(), text.into()));
        set("summary", summary.to_owned());
        if !text.is_empty() {
            set("description", text.to_owned());
        }
        let monitoring = self.monitoring();
        let pattern = |pattern: &Option<String>| {
            pattern.as_ref().map(|pattern| self.fill_pattern(pattern).replace("{alert}", name))
        };
        for (key, link, otherwise) in [
            ("runbook_url", "runbook", pattern(&monitoring.runbook_url)),
            ("dashboard_url", "dashboard", pattern(&monitoring.dashboard_url)),
        ] {
            if let Some(url) = self.link(link).or(otherwise) {
                set(key, literal(&url));
            }
        }
        annotations
    }

    /// Finds a link of the WAML by its name, in whatever case.
    fn link(&self, name: &str) -> Option<String> {
        let mut links = self.waml.links.iter();
        Some(links.find(|link| link.name.trim().eq_ignore_ascii_case(name))?.url.clone())
    }
}
