//! The default alerts and the classes of objectives as Markdown.

use std::fmt::Write as _;

use the_deployer::model::platform::monitoring::Objectives;
use the_deployer::templates::alerts::ALERTS;
use the_deployer::templates::alerts::AlertNeeds;
use the_deployer::templates::alerts::AlertRule;
use the_deployer::templates::set::TemplateSet;
use the_deployer::waml::node::Path;

pub(super) fn markdown(templates: &TemplateSet) -> String {
    let mut out = String::from(
        "| alert | what it says | needs | threshold | for | severity |\n|---|---|---|---|---|---|\n",
    );
    for alert in ALERTS {
        let value = |key: &str| default(templates, alert, key).unwrap_or_default();
        let (threshold, wait, severity) = (value("threshold"), value("for"), value("severity"));
        let (name, about, needs) = (alert.name, alert.about, needs(alert.needs));
        writeln!(out, "| `{name}` | {about} | {needs} | {threshold} | {wait} | {severity} |")
            .unwrap();
    }
    out.push_str("\n| class | of requests succeed | may fail in 30 days |\n|---|---|---|\n");
    let mut classes: Vec<_> = Objectives::default().classes.into_iter().collect();
    classes.sort_by(|(_, a), (_, b)| b.availability.total_cmp(&a.availability));
    for (name, class) in classes {
        let minutes = (100.0 - class.availability) / 100.0 * 30.0 * 24.0 * 60.0;
        writeln!(out, "| `{name}` | {} % | {minutes:.0} minutes' worth |", class.availability)
            .unwrap();
    }
    out
}

/// What the first built-in template says that has the alert at all.
fn default(templates: &TemplateSet, alert: &AlertRule, key: &str) -> Option<String> {
    let path = Path::root().key("alerts").key(alert.name);
    let node = templates.iter().find_map(|template| template.defaults.at(&path))?;
    Some(node.get(key)?.as_text()?.to_owned())
}

fn needs(needs: AlertNeeds) -> &'static str {
    match needs {
        AlertNeeds::Pods | AlertNeeds::Replicas => "",
        AlertNeeds::Autoscaler => "`autoscaling`",
        AlertNeeds::Schedule => "`cron`",
        AlertNeeds::Grpc => "`grpc`",
        AlertNeeds::Database => "`database`",
        AlertNeeds::Redis => "`redis`",
        AlertNeeds::Objective => "`slo`",
    }
}
