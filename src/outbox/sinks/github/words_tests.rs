//! Unit tests of the text of a check run.

use std::sync::Arc;

use super::*;
use crate::model::deployment::State;
use crate::model::event::DeploymentRequest;
use crate::model::id::{CommitSha, DeployId, ImageTag, RepoName};
use crate::model::release::Release;
use crate::model::violation::Position;
use crate::notify::fixture;

const PAGE: &str = "https://deployer.example.com/deployments/1";

fn deployment(violations: Vec<Violation>) -> Deployment {
    let failed = fixture::deployment(State::Failed);
    Deployment {
        id: DeployId::parse("20261121-054812123-000001").unwrap(),
        request: DeploymentRequest {
            release: Release {
                repository: RepoName::parse("acme/web").unwrap(),
                app: None,
                commit: CommitSha::parse("ab".repeat(20)).unwrap(),
                tag: ImageTag::parse("v1").unwrap(),
            },
            actor: "jo".to_owned(),
            ..failed.request
        },
        finished_at: None,
        stages: vec![],
        summary: "given up after 20 attempts: the branch is protected".to_owned(),
        violations: violations.into(),
        ..failed
    }
}

fn at_line(file: &str, line: u32, violation: Violation) -> Violation {
    let position = Position { file: Arc::from(file), line, column: 3, length: 1 };
    violation.at("deploy.prod.env[0]", Some(position))
}

fn report_failure(violations: Vec<Violation>) -> CheckText {
    failure_text(&deployment(violations), PAGE, ".weave.yaml")
}

#[test]
fn violations_in_the_waml_are_noted_at_their_lines_and_others_are_listed() {
    let text = report_failure(vec![
        at_line(".weave.yaml", 12, Violation::error("ports", "no port 80").help("add it")),
        at_line(".weave.yaml", 3, Violation::warning("slo", "odd")),
        at_line("backend-default/defaults.yaml", 4, Violation::error("probes", "no such port")),
        Violation::error("locks", "prod is locked by jo"),
    ]);
    assert_eq!(text.conclusion, Conclusion::Failure);
    assert_eq!(text.title, "not deployed to prod: 3 violations");
    let notes: Vec<_> = text.annotations.iter().map(|note| (note.line, note.level)).collect();
    assert_eq!(notes, [(12, Level::Failure), (3, Level::Warning)], "errors first");
    assert_eq!(text.annotations[0].title, "ports");
    assert_eq!(text.annotations[0].message, "no port 80\nat deploy.prod.env[0]\nhelp: add it");
    assert_eq!(
        text.summary,
        "**v1** was not deployed to **prod**.\n\n\
         shop/web · commit `abababab` · requested by jo · \
         [deployment 20261121-054812123-000001](https://deployer.example.com/deployments/1)\n\n\
         - backend-default/defaults.yaml:4:3: no such port \\[probes\\]\n\
         - prod is locked by jo \\[locks\\]\n\n\
         2 are noted at their lines of .weave.yaml.\n"
    );
}

#[test]
fn where_no_line_is_at_fault_somebody_has_to_act_elsewhere() {
    let text = report_failure(vec![
        Violation::error("locks", "prod is locked by jo"),
        at_line(".weave.yaml", 3, Violation::warning("slo", "odd")),
    ]);
    assert_eq!(text.conclusion, Conclusion::ActionRequired);
    assert_eq!(text.title, "not deployed to prod: prod is locked by jo");
}

#[test]
fn a_fault_without_violations_is_told_in_its_own_words() {
    let text = report_failure(vec![]);
    assert_eq!(text.conclusion, Conclusion::Failure);
    assert!(text.title.starts_with("not deployed to prod: given up after 20 attempts"));
    assert!(text.summary.contains("given up after 20 attempts: the branch is protected"));
    assert_eq!(text.annotations, []);
}

#[test]
fn what_is_too_much_is_counted_and_linked() {
    let many = |n: usize| (0..n).map(|_| Violation::error("env", "*".repeat(400)));
    let in_waml = many(130).map(|violation| at_line(".weave.yaml", 1, violation));
    let text = report_failure(many(70).chain(in_waml).collect());
    assert_eq!(text.annotations.len(), 100);
    assert!(text.summary.contains(&format!("- [and 20 more]({PAGE})")));
    assert!(text.summary.ends_with(&format!("lines of .weave.yaml, [and 30 more]({PAGE}).\n")));
    assert!(text.summary.chars().count() < 65_535, "{}", text.summary.chars().count());
    assert!(text.title.chars().count() <= 255);
}

#[test]
fn words_of_others_are_no_markup_and_call_nobody() {
    let hostile = "<img src=x> @everyone [x](javascript:1) `a` **b** &lt;\n# c";
    let text = report_failure(vec![Violation::error("names", hostile)]);
    let line = text.summary.lines().find(|line| line.starts_with("- ")).unwrap();
    assert_eq!(
        line,
        "- &lt;img src\\=x\\> &#64;everyone \\[x\\]\\(javascript:1\\) \\`a\\` \\*\\*b\\*\\* &amp;lt;\\\\n\\# c \\[names\\]"
    );
}

#[test]
fn a_later_success_says_so() {
    let summary = "v1 is in the manifest repository, commit abababab".to_owned();
    let text = success_text(&Deployment { summary, ..deployment(vec![]) }, PAGE);
    assert_eq!((text.conclusion, text.title.as_str()), (Conclusion::Success, "deployed to prod"));
    assert!(text.summary.starts_with("**v1** is deployed to **prod**: v1 is in the manifest"));
}
