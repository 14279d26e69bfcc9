//! Previews as people read them.

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

use jiff::Timestamp;

use super::*;
use crate::model::facts::{Fact, Ownership, RegistryImage};
use crate::model::id::{CommitSha, RepoName};
use crate::model::lock::{Lock, LockScope};
use crate::model::preview::{PreviewText, PreviewVerdict};
use crate::model::release::Release;
use crate::model::route::Route;
use crate::model::target::{Clusters, Environment, Target};
use crate::templates::set::TemplateSet;

static TEMPLATES: LazyLock<Arc<TemplateSet>> =
    LazyLock::new(|| TemplateSet::compile(&crate::templates::sources::built_in()).unwrap().into());

const BEFORE: &str = "\
schema: \"2\"
name: Shop
slug: shop
owner: squad@example.com
namespace: devx
defaults:
- match: \"*\"
  service: [{ports: [{name: http, number: 8000}]}]
deploy:
  prod: {scaling: {replicas: 3}}
  test: {}
";

fn waml(text: &str) -> Arc<Waml> {
    Arc::new(Waml::parse(".weave.yaml", text.as_bytes()).unwrap())
}

fn release(tag: &str) -> Release {
    Release {
        repository: RepoName::parse("acme/shop").unwrap(),
        app: None,
        commit: CommitSha::parse("a".repeat(40)).unwrap(),
        tag: ImageTag::parse(tag).unwrap(),
    }
}

fn input(text: &str, target: &str) -> Input {
    Input {
        waml: waml(text),
        target: target.parse().unwrap(),
        fleet: None,
        release: release("1.4"),
        templates: Arc::clone(&TEMPLATES),
    }
}

fn without_lookups() -> Facts {
    Facts::without_lookups(Timestamp::UNIX_EPOCH, Clusters::any())
}

/// Returns the live files after a deployment of that WAML.
fn live(text: &str, target: &str) -> Vec<ManifestFile> {
    plan(&input(text, target), &without_lookups()).unwrap().files
}

fn looked_at(text: &str, target: &str, live: &[ManifestFile], facts: &Facts) -> TargetPreview {
    of_target(&input(text, target), facts, "main", live, Some(release("1.4").tag))
}

/// Returns the preview of a pull request from one WAML to another, with the first one deployed everywhere.
fn preview(before: &str, after: &str) -> Preview {
    let (old, new) = (waml(before), waml(after));
    let preview_target = |target: &&TargetName| {
        let is_live = old.deploy.contains_key(*target) && old.app == new.app;
        let live = if is_live { live(before, target.as_str()) } else { Vec::new() };
        let tag = is_live.then(|| release("1.4").tag);
        of_target(&input(after, target.as_str()), &without_lookups(), "main", &live, tag)
    };
    Preview {
        file: ".weave.yaml".to_owned(),
        app: new.app.clone(),
        base: "main".to_owned(),
        targets: new.targets().iter().map(preview_target).collect(),
        not_looked_at: 0,
        left: left(&old, &new),
    }
}

fn describe_change(before: &str, after: &str) -> PreviewText {
    text::describe_preview(&preview(before, after))
}

fn assert_within_bounds(preview: &PreviewText) {
    assert!(preview.title.chars().count() <= 255, "{}", preview.title.len());
    assert!(preview.summary.chars().count() <= 65_535, "{}", preview.summary.len());
    assert!(preview.text.as_ref().is_none_or(|text| text.chars().count() <= 65_535));
    assert!(preview.remarks.len() <= 50);
    for remark in &preview.remarks {
        assert!(remark.title.chars().count() <= 255 && remark.message.len() <= 64 * 1024);
    }
}

#[test]
fn a_change_is_shown_target_by_target() {
    let after = BEFORE.replace("replicas: 3", "replicas: 5").replace("  test: {}", "  new: {}");
    let preview = describe_change(BEFORE, &after);
    assert_eq!(preview.verdict, PreviewVerdict::Success);
    assert_eq!(preview.title, "1 target changes, 1 target is new");
    assert_eq!(preview.remarks, []);
    insta::assert_snapshot!(preview.summary, @r##"
    What a deployment of `devx/shop` at this commit would change, compared with what is live. Nothing is deployed.

    | target | | violations | warnings | lines |
    |---|---|--:|--:|--:|
    | `prod` | 1 object changes |  |  | +1 −1 |
    | `new` | new: 5 objects |  |  |  |

    **Left behind**: the WAML on `main` deploys `devx/shop` to targets that this one does not have. It stays there until it is removed:

    - `bart remove test devx/shop --reason TEXT`

    Rendered with the tag that is live on each target, so the image does not change here. Whether a tag exists, and the branch, locks and windows, count when it is deployed.
    "##);
    insta::assert_snapshot!(preview.text.unwrap(), @r##"
    ### `prod`

    <details><summary>Deployment <code>shop</code>: changed, +1 −1</summary>

    ```diff
    @@ -9,7 +9,7 @@
         app.kubernetes.io/version: "1.4"
         app.kubernetes.io/managed-by: the-deployer
     spec:
    -  replicas: 3
    +  replicas: 5
       revisionHistoryLimit: 5
       selector:
         matchLabels:
    ```

    </details>

    ### `new`

    Nothing is deployed there yet. New: `Deployment shop`, `PodDisruptionBudget shop`, `PrometheusRule shop`, `Service shop`, `ServiceAccount shop`
    "##);
}

#[test]
fn violations_stand_at_their_lines_once_for_all_targets() {
    let after =
        BEFORE.replace("number: 8000", "number: 80000").replace("replicas: 3", "replica: 3");
    let preview = describe_change(BEFORE, &after);
    assert_eq!(preview.verdict, PreviewVerdict::Failure);
    insta::assert_snapshot!(format!("{}\n{}", preview.title, preview.summary), @r##"
    2 violations
    What a deployment of `devx/shop` at this commit would change, compared with what is live. Nothing is deployed.

    | target | | violations | warnings | lines |
    |---|---|--:|--:|--:|
    | `prod` | would be refused | 2 |  |  |
    | `test` | would be refused | 2 |  |  |

    **Violations**

    - `.weave.yaml:8:43` **schema** `defaults[0].service[0].ports[0].number` must be a whole number from 1 to 65535, but `80000` is out of range: write a number from 1 to 65535 (prod, test)
    - `.weave.yaml:10:20` **unknown-key** `deploy.prod.scaling` has no key `replica`: did you mean `replicas`? (prod, test)

    Rendered with the tag that is live on each target, so the image does not change here. Whether a tag exists, and the branch, locks and windows, count when it is deployed.
    "##);
    let at: Vec<_> = preview.remarks.iter().map(|r| (r.line, r.title.clone())).collect();
    let targets = "on prod, test";
    assert_eq!(
        at,
        [
            (8, format!("schema: violation {targets}")),
            (10, format!("unknown-key: violation {targets}"))
        ]
    );
}

#[test]
fn nothing_that_changes_is_neutral_and_without_details() {
    let after = format!("# a comment\n{BEFORE}");
    let preview = describe_change(BEFORE, &after);
    assert_eq!(
        (preview.verdict, preview.title.as_str()),
        (PreviewVerdict::Neutral, "nothing changes")
    );
    assert_eq!((preview.text, preview.remarks), (None, vec![]));
}

#[test]
fn another_name_leaves_the_app_behind_everywhere() {
    let preview = describe_change(BEFORE, &BEFORE.replace("slug: shop", "slug: store"));
    assert_eq!(preview.title, "2 targets are new");
    assert!(preview.summary.contains("- `bart remove prod devx/shop --reason TEXT`\n- `bart remove test devx/shop --reason TEXT`"), "{}", preview.summary);
}

#[test]
fn what_only_a_deployment_meets_is_a_note() {
    let at = Timestamp::UNIX_EPOCH;
    let lock = Lock {
        scope: LockScope::Everything,
        reason: "an <b>audit</b>".to_owned(),
        by: "bob".to_owned(),
        since: at,
        until: None,
    };
    let mut prod = Target::unconfigured("prod".parse().unwrap());
    prod.environment = Environment::Production;
    prod.policies.branches = Some(vec!["release/*".to_owned()]);
    // The epoch was a Thursday.
    prod.policies.windows = vec![crate::model::lock::Window {
        days: "mon".to_owned(),
        from: "09:00".to_owned(),
        to: "10:00".to_owned(),
        time_zone: None,
        closed: false,
        reason: None,
    }];
    let other_repository = RepoName::parse("other/shop").unwrap();
    let facts = Facts {
        clusters: Clusters::from_targets([prod]),
        locks: Fact::Known { value: vec![lock], at },
        owner: Fact::Known {
            value: Ownership { app: Some(other_repository), namespace: vec![] },
            at,
        },
        images: BTreeMap::from([(
            "acme/shop:1".to_owned(),
            Fact::Known { value: RegistryImage::Absent, at },
        )]),
        branches: Fact::Missing { why: "no".to_owned() },
        secrets: Fact::Missing { why: "Vault did not answer".to_owned() },
        ..without_lookups()
    };
    let preview = looked_at(BEFORE, "prod", &live(BEFORE, "prod"), &facts);
    assert!(matches!(preview.outlook, PreviewEffect::Same), "{preview:?}");
    insta::assert_snapshot!(preview.notes.join("\n"), @r##"
    it is not known whether the secrets exist: Vault did not answer
    `devx/shop` on `prod` belongs to other/shop, not to acme/shop [owner]
    everything is locked by bob since 1970-01-01 00:00 UTC, until it is unlocked: an <b>audit</b> [locks]
    `prod` takes no deployments at this time [windows]
    commits on `main` alone are not deployed there: it takes `release/*` [branch]
    "##);
}

#[test]
fn a_host_that_is_taken_refuses_a_preview_as_a_deployment() {
    let at = Timestamp::UNIX_EPOCH;
    let after = BEFORE.replace(
        "test: {}",
        "test: {ingress: [{host: a.example.com, public: false, paths: [{path: /, servicePort: 8000}]}]}",
    );
    let other = waml(&BEFORE.replace("slug: shop", "slug: other")).app.clone();
    let route = Route {
        host: "a.example.com".to_owned(),
        path: "/".to_owned(),
        app: other,
        repository: None,
    };
    let facts = Facts { routes: Fact::Known { value: vec![route], at }, ..without_lookups() };
    let preview = looked_at(&after, "test", &[], &facts);
    let PreviewEffect::Refused(errors) = preview.outlook else { panic!("{preview:?}") };
    assert_eq!(errors.iter().map(|e| &*e.rule).collect::<Vec<_>>(), ["hosts"]);
}

/// Returns the WAML with a canary on `test`, which takes steps of that size.
fn with_canary(step: u32) -> String {
    let canary = format!(
        "test:\n    ingress: [{{hostPrefix: shop, public: true, port: 8000}}]\n    \
         autoscaling: {{horizontal: {{minReplicas: 2, maxReplicas: 6, cpu: {{averageUtilization: 75}}}}}}\n    \
         canary: {{interval: 1m, threshold: 3, stepWeight: {step}, maxWeight: 60}}"
    );
    BEFORE.replace("test: {}", &canary)
}

#[test]
fn the_forecast_of_a_canary_stands_under_its_target() {
    let preview = preview(&with_canary(30), &with_canary(20));
    let summary = text::describe_preview(&preview).summary;
    let (_, canaries) = summary.split_once("**Canary**\n\n").unwrap();
    insta::assert_snapshot!(canaries.split("\n\n").next().unwrap(), @"- `test`: 20, 40, 60 % of the traffic, a check each 1m; promoted after 3m at the earliest (t_min), all traffic back after 3m of failed checks (t_rollback)");
    assert!(!describe_change(BEFORE, BEFORE).summary.contains("Canary"));

    let [_, canary] = &preview.targets[..] else { panic!("{preview:?}") };
    let many = Preview { targets: vec![canary.clone(); 32], ..preview.clone() };
    let summary = text::describe_preview(&many).summary;
    assert_eq!(summary.matches("% of the traffic").count(), 30);
    assert!(summary.contains("- and 2 more\n"), "{summary}");
}

#[test]
fn files_that_somebody_edited_are_compared_as_they_are() {
    let mut live = live(BEFORE, "test");
    live[0].bytes = b"a: [broken\n".to_vec();
    let preview = looked_at(BEFORE, "test", &live, &without_lookups());
    let PreviewEffect::Changes { changes, .. } = preview.outlook else { panic!("{preview:?}") };
    let [change] = &changes[..] else { panic!("{changes:?}") };
    assert_eq!((change.kind.as_str(), change.name.as_str()), ("File", live[0].name.as_str()));
    assert!(change.diff.contains("-a: [broken\n"));
}

#[test]
fn a_huge_difference_is_cut_and_says_what_to_run() {
    let env = |value: &str| {
        let variables = (0..600).map(|n| format!("  - {{name: V{n}, value: \"{value}{n}\"}}\n"));
        let (head, _) = BEFORE.split_once("deploy:").unwrap();
        let targets: String = (0..12).map(|n| format!("  t{n}: {{}}\n")).collect();
        format!("{head}  env:\n{}deploy:\n{targets}", variables.collect::<String>())
    };
    let preview = describe_change(&env("a"), &env("b"));
    assert_eq!(preview.title, "12 targets change");
    assert_within_bounds(&preview);
    let text = preview.text.unwrap();
    assert!(text.contains(" lines more @@"), "{text}");
    let end =
        "objects more: `bart render --target TARGET --tag TAG` shows all manifests of a target\n";
    assert!(text.ends_with(end), "{}", &text[text.len() - 300..]);
}

#[test]
fn many_violations_with_long_texts_stay_within_bounds() {
    let keys = (0..400).map(|n| format!("    \"{n}{}\": x\n", "`|<".repeat(200)));
    let (head, _) = BEFORE.split_once("  prod:").unwrap();
    let after = format!("{head}  prod:\n{}", keys.collect::<String>());
    let preview = describe_change(BEFORE, &after);
    assert_within_bounds(&preview);
    assert_eq!(preview.remarks.len(), 50);
    assert!(
        preview.summary.contains("- and 370 more: `bart validate` shows all"),
        "{}",
        preview.summary
    );
    let outside_code: String = preview.summary.replace("\\`", "").split('`').step_by(2).collect();
    assert!(!outside_code.contains('<'), "{outside_code}");
}

#[test]
fn the_same_preview_gives_the_same_text() {
    let after = BEFORE.replace("replicas: 3", "replicas: 5");
    assert_eq!(describe_change(BEFORE, &after), describe_change(BEFORE, &after));
}

#[test]
fn a_file_that_is_no_waml_is_one_violation_for_all() {
    let rejection = Waml::parse(".weave.yaml", b"a: [").unwrap_err();
    let preview = text::unreadable(".weave.yaml", &rejection);
    assert_eq!((preview.verdict, preview.title.as_str()), (PreviewVerdict::Failure, "1 violation"));
    assert_eq!(preview.remarks.len(), 1);
    assert!(preview.summary.starts_with("`.weave.yaml` cannot be read"), "{}", preview.summary);
}
