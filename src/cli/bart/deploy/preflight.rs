//! Checks a WAML before a deployment is created: a WAML that no service would accept is refused, and holds are shown,
//! because a person set them to keep the app as it is.

use std::path::Path;
use std::sync::Arc;

use crate::api::rollbacks::{HoldList, HoldSummary};
use crate::cli::bart::deploy::worktree::{Tree, TreeWaml};
use crate::cli::bart::validate;
use crate::cli::client::ServiceEndpoint;
use crate::cli::diagnostics::{self, SourceTexts};
use crate::cli::error::CommandOutcome;
use crate::cli::extra_files;
use crate::cli::local::{self, LocalInput};
use crate::cli::output::{self, Format, note_line};
use crate::cli::platform::KnownTargets;
use crate::cli::times::TimeFormatter;
use crate::model::id::TargetName;
use crate::model::violation::{Rejection, Severity, Violation, distinct, sort};
use crate::waml::Waml;

/// The name of the rule that a template exists.
const TEMPLATE: &str = "template";
/// The name of the rule that the WAML names the target.
const TARGET: &str = "target";

/// Checks the WAML for each target, with the templates of that folder, or the built-in ones.
///
/// Without a folder the service may have the company's own templates, which are not on this machine: then violations
/// that come from templates and their defaults are warnings, and a WAML that names another template is checked only as
/// far as possible without one. Prints all violations of a WAML that would be refused.
pub(super) fn check(
    waml: &TreeWaml,
    targets: &[TargetName],
    templates: Option<&Path>,
    known_targets: &KnownTargets,
    format: Format,
) -> CommandOutcome {
    let TreeWaml { path, bytes, extra_files: files } = waml;
    let mut sources = SourceTexts::default();
    sources.add(path, String::from_utf8_lossy(bytes));
    let compiled = local::templates(templates, &mut sources, format)?;
    let waml = local::parse(path, bytes, &compiled, known_targets).map(|waml| {
        extra_files::put_in(Arc::unwrap_or_clone(waml), files.clone(), &mut sources).into()
    });
    let world = LocalInput { waml, templates: compiled, sources };
    let (mut violations, doubts) = match Waml::parse(path, bytes) {
        Ok(_) => find_violations(&world, targets, templates.is_some(), known_targets),
        Err(certain) => find_unnamed_violations(&world, &certain, templates.is_some()),
    };
    // Before the violations, which may depend on it.
    if !format.is_data() {
        output::note(&known_targets.note(targets));
    }
    if violations.iter().any(|violation| violation.severity == Severity::Error) {
        // All at once, including those that hold unless the service has other templates.
        violations.extend(doubts);
        sort(&mut violations);
        let error = local::refuse(&violations, &world.sources, format)?;
        if !format.is_data() {
            let alternative = templates.map_or("", |_| ", or name others with --templates");
            output::note(&format!(
                "nothing was deployed: fix these first, commit and push{alternative}; --no-check skips \
                 this check\n"
            ));
        }
        return Err(error);
    }
    if !doubts.is_empty() {
        output::note(&format_doubts(&doubts, &world.sources));
    }
    Ok(())
}

/// Formats the violations that the service may not find.
fn format_doubts(violations: &[Violation], sources: &SourceTexts) -> String {
    let warnings = diagnostics::render(violations, sources);
    format!(
        "{warnings}checked with the templates in bart: the service's may differ; check with those by --templates \
         DIR, or skip the check with --no-check\n"
    )
}

/// Finds the certain violations, and those that hold unless the service has other templates.
fn find_violations(
    world: &LocalInput,
    targets: &[TargetName],
    all_templates: bool,
    known_targets: &KnownTargets,
) -> (Vec<Violation>, Vec<Violation>) {
    let waml = match &world.waml {
        Err(Rejection { violations }) => return (violations.clone(), Vec::new()),
        Ok(waml) => waml,
    };
    // A section under a name that no target can have is checked too, as a mistake in the whole file is.
    let full_waml = Arc::new((**waml).clone().with_misnamed_targets());
    let misnamed = full_waml.targets().into_iter().filter(|target| full_waml.is_misnamed(target));
    let of_targets = targets.iter().chain(misnamed).flat_map(|target| {
        let violations = validate::of_target(&full_waml, target, world, known_targets);
        let is_strange = violations.iter().any(|violation| violation.rule == TEMPLATE);
        if is_strange && !all_templates { Vec::new() } else { violations }
    });
    // Only the rule that the WAML names the target is certain.
    let (sure, doubts): (Vec<_>, Vec<_>) =
        of_targets.partition(|violation| all_templates || violation.rule == TARGET);
    let sure = distinct(sure.into_iter().chain(waml.violations.clone()));
    let mut doubts = uncertain_violations(&sure, distinct(doubts));
    sort(&mut doubts);
    (sure, doubts)
}

/// Does the same for a WAML that does not name its app: no service accepts it, and its other violations depend on
/// templates.
fn find_unnamed_violations(
    world: &LocalInput,
    certain: &Rejection,
    all_templates: bool,
) -> (Vec<Violation>, Vec<Violation>) {
    let violations =
        world.waml.as_ref().err().map(|rejection| rejection.violations.clone()).unwrap_or_default();
    let is_sure = |violation: &Violation| all_templates || certain.violations.contains(violation);
    let (sure, doubts): (Vec<_>, Vec<_>) = violations.into_iter().partition(is_sure);
    let doubts = uncertain_violations(&sure, doubts);
    (sure, doubts)
}

/// Returns the uncertain violations as warnings, without those that are also certain.
fn uncertain_violations(sure: &[Violation], doubts: Vec<Violation>) -> Vec<Violation> {
    let is_told =
        |doubt: &Violation| sure.iter().any(|violation| is_same_finding(violation, doubt));
    doubts.into_iter().filter(|doubt| !is_told(doubt)).filter_map(downgrade).collect()
}

fn is_same_finding(first: &Violation, second: &Violation) -> bool {
    (&first.rule, &first.position, &first.message)
        == (&second.rule, &second.position, &second.message)
}

/// Turns an error into a warning; drops warnings, which the service gives itself.
fn downgrade(violation: Violation) -> Option<Violation> {
    let is_error = violation.severity == Severity::Error;
    is_error.then_some(Violation { severity: Severity::Warning, ..violation })
}

/// Prints the holds on the targets. If the WAML is not on this machine or the service does not answer, it prints
/// nothing: the service checks holds itself.
pub(super) async fn tell_holds(server: &ServiceEndpoint, tree: &Tree, targets: &[TargetName]) {
    let app_of = |waml: &TreeWaml| Some(Waml::parse(&waml.path, &waml.bytes).ok()?.app.to_string());
    let apps: Vec<String> = tree.wamls.iter().filter_map(app_of).collect();
    if apps.is_empty() {
        return;
    }
    // One request for all targets: nothing is created before its answer.
    let Ok(HoldList { holds }) = server.get("/api/v1/holds", &[]).await else { return };
    for app in apps {
        output::note(&hold_notes(&holds, &app, targets, TimeFormatter::system()));
    }
}

/// Returns the notes about holds of the app, in the order of the targets. Pure.
fn hold_notes(
    holds: &[HoldSummary],
    app: &str,
    targets: &[TargetName],
    times: TimeFormatter,
) -> String {
    let find_hold = |target: &TargetName| {
        let mut candidates = holds.iter();
        candidates.find(|hold| hold.app == app && hold.target == target.as_str())
    };
    targets.iter().filter_map(find_hold).map(|hold| note(hold, times)).collect()
}

fn note(hold: &HoldSummary, times: TimeFormatter) -> String {
    let HoldSummary { target, by, reason, since, .. } = hold;
    note_line(format!(
        "{target} is held by {by}, {}: {reason}; a person's deployment of another release ends the hold, and one that \
         a job asks for is refused",
        times.ago(*since)
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::times::TimeStyle;
    use crate::cli::working_folder::WAML_FILE;
    use crate::waml::extra_files::ExtraFiles;

    const WAML: &str = include_str!("../../../../tests/pipeline/example/waml.yaml");

    fn passes(waml: &str, target: &str, templates: Option<&Path>) -> bool {
        let targets = [TargetName::parse(target).unwrap()];
        let waml = TreeWaml {
            path: WAML_FILE.to_owned(),
            bytes: waml.as_bytes().to_vec(),
            extra_files: ExtraFiles::default(),
        };
        check(&waml, &targets, templates, &KnownTargets::unknown("a test"), Format::Text).is_ok()
    }

    #[test]
    fn what_comes_of_templates_refuses_only_with_those_of_the_service() {
        let templates = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/templates"));
        let illegal = WAML.replace("minReplicas: 3", "minReplicas: 30");
        let broken = WAML.replace("namespace:", "namespaze:");
        for (waml, target, without, with) in [
            (WAML, "prod-cluster-1", true, true),
            (&illegal, "prod-cluster-1", true, false),
            (&broken, "prod-cluster-1", false, false),
            (WAML, "moon", false, false),
        ] {
            assert_eq!(passes(waml, target, None), without, "{target} {waml}");
            assert_eq!(passes(waml, target, Some(templates)), with, "{target} {waml}");
        }
    }

    #[test]
    fn what_is_certain_is_not_told_once_more_as_a_warning() {
        for waml in [
            WAML.replace("namespace:", "namespaze:"),
            format!("{WAML}\nversion: \"2\"\n"),
            WAML.replace("slug:", "vault: {paths: [{path: x}]}\nslug:"),
        ] {
            let list = violations(&waml);
            assert!(list.iter().any(|violation| violation.severity == Severity::Error), "{list:?}");
            for (index, violation) in list.iter().enumerate() {
                assert!(
                    !list.iter().skip(index + 1).any(|other| is_same_finding(violation, other)),
                    "{list:?}"
                );
            }
        }
    }

    /// Lists the violations as rule and severity.
    fn list_rules(waml: &str) -> Vec<(String, Severity)> {
        let list = violations(waml).into_iter();
        list.map(|violation| (violation.rule.to_string(), violation.severity)).collect()
    }

    fn violations(waml: &str) -> Vec<Violation> {
        let known_targets = KnownTargets::unknown("a test");
        let mut sources = SourceTexts::default();
        let templates = local::templates(None, &mut sources, Format::Text).unwrap();
        let parsed = local::parse(WAML_FILE, waml.as_bytes(), &templates, &known_targets);
        let world = LocalInput { waml: parsed, templates, sources };
        let target = TargetName::parse("prod-cluster-1").unwrap();
        let (sure, doubts) = match Waml::parse(WAML_FILE, waml.as_bytes()) {
            Ok(_) => find_violations(&world, &[target], false, &known_targets),
            Err(certain) => find_unnamed_violations(&world, &certain, false),
        };
        sure.into_iter().chain(doubts).collect()
    }

    #[test]
    fn everything_is_told_at_once_beside_a_name_that_is_wrong() {
        let illegal = WAML.replace("minReplicas: 3", "minReplicas: 30");
        let slug = illegal.replace("slug: my-app", "slug: My_App");
        assert_ne!(slug, illegal, "the example has that slug");
        let of_slug = list_rules(&slug);
        assert!(of_slug.contains(&("schema".to_owned(), Severity::Error)), "{of_slug:?}");
        assert!(of_slug.contains(&("autoscaling".to_owned(), Severity::Warning)), "{of_slug:?}");
        let misnamed = format!("{WAML}  \"prod eu\":\n    env: [{{name: 1X, value: a}}]\n");
        let of_target = list_rules(&misnamed);
        assert!(of_target.contains(&("schema".to_owned(), Severity::Error)), "{of_target:?}");
        assert!(of_target.contains(&("env".to_owned(), Severity::Warning)), "{of_target:?}");
    }

    #[test]
    fn warnings_say_how_to_check_for_sure() {
        let waml = WAML.replace("minReplicas: 3", "minReplicas: 30");
        let mut sources = SourceTexts::default();
        let templates = local::templates(None, &mut sources, Format::Text).unwrap();
        let parsed = Waml::parse(WAML_FILE, waml.as_bytes()).map(Arc::new);
        let world = LocalInput { waml: parsed, templates, sources };
        let target = TargetName::parse("prod-cluster-1").unwrap();
        let (_, doubts) =
            find_violations(&world, &[target], false, &KnownTargets::unknown("a test"));
        let text =
            anstream::adapter::strip_str(&format_doubts(&doubts, &world.sources)).to_string();
        assert!(text.contains("warning[autoscaling]"), "{text}");
        assert!(text.contains("--templates") && text.contains("--no-check"), "{text}");
    }

    #[test]
    fn holds_of_the_app_are_told_in_the_order_of_the_targets() {
        let hold = |target: &str, app: &str| HoldSummary {
            target: target.to_owned(),
            app: app.to_owned(),
            by: "ann".to_owned(),
            reason: "it loses orders".to_owned(),
            since: "2026-11-21T09:00:00Z".parse().unwrap(),
            rollback: None,
            from: None,
            to: None,
        };
        let holds = [hold("dev", "devx/shop"), hold("prod", "devx/shop"), hold("prod", "pay/till")];
        let now = "2026-11-21T12:00:00Z".parse().unwrap();
        let times = TimeFormatter { now, style: TimeStyle::Relative };
        let render = |targets: &[&str]| {
            let targets: Vec<_> =
                targets.iter().map(|name| TargetName::parse(*name).unwrap()).collect();
            anstream::adapter::strip_str(&hold_notes(&holds, "devx/shop", &targets, times))
                .to_string()
        };
        assert_eq!(
            render(&["prod"]),
            "note: prod is held by ann, 3 h ago: it loses orders; a person's deployment of another release ends the \
             hold, and one that a job asks for is refused\n"
        );
        assert_eq!(render(&["prod", "dev"]).lines().count(), 2);
        assert!(render(&["prod", "dev"]).starts_with("note: prod"), "{}", render(&["prod", "dev"]));
        assert_eq!(render(&["test"]), "");
    }
}
