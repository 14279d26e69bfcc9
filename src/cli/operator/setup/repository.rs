//! The step `repository`: checks that the manifest repository can be pushed to, and writes what it needs before its
//! first deployment, as `the-deployer init` does.

use super::action::{SetupAction, StepPlan};
use super::answers::{Question, SetupAnswers};
use super::file_change::diff_lines;
use super::session::SetupSession;
use crate::app::prepare::{Prepared, PreparedFile};
use crate::cli::error::CliError;
use crate::manifests::bootstrap::FileVerdict;

/// The question of the step.
pub(super) const QUESTIONS: [Question; 1] = [Question::ManifestsUrl];

/// What the manifest repository has.
#[derive(Debug)]
pub(super) enum RepositoryFacts {
    /// There is no App yet that could read it.
    NoApp,
    /// The settings are refused, with every violation.
    Refused(Vec<String>),
    /// It cannot be used, and why.
    Unusable(String),
    /// A push was accepted or would be, and these are its files.
    Usable(Vec<Prepared>),
}

/// Looks at the repository, without changing it.
pub(super) async fn gather(
    session: &SetupSession,
    force: bool,
) -> Result<RepositoryFacts, CliError> {
    if !session.answers.open_questions(&QUESTIONS).is_empty() {
        return Ok(RepositoryFacts::Usable(Vec::new()));
    }
    let Some(sources) = session.repository_sources()? else { return Ok(RepositoryFacts::NoApp) };
    let settings = match sources.load_for_rebuild() {
        Ok(loaded) => loaded.settings,
        Err(rejection) => {
            let violations = rejection.violations.iter();
            return Ok(RepositoryFacts::Refused(violations.map(ToString::to_string).collect()));
        }
    };
    Ok(match session.look_at(&settings, force).await {
        Ok(prepared) => RepositoryFacts::Usable(prepared),
        Err(error) => RepositoryFacts::Unusable(error.to_string()),
    })
}

/// Decides what is left to do. Pure.
pub(super) fn plan(answers: &SetupAnswers, facts: &RepositoryFacts, force: bool) -> StepPlan {
    let open = answers.open_questions(&QUESTIONS);
    if !open.is_empty() {
        return StepPlan::ask(open);
    }
    if let Some(problem) = answers.pod_repository_problem() {
        return StepPlan::blocked(problem);
    }
    let url = answers.manifests_url.as_deref().unwrap_or_default();
    match facts {
        RepositoryFacts::NoApp => {
            StepPlan::later(format!("{url} is read once the step github is done"))
        }
        RepositoryFacts::Refused(violations) => {
            StepPlan { actions: violations.iter().cloned().map(SetupAction::Blocked).collect() }
        }
        RepositoryFacts::Unusable(problem) => {
            StepPlan::blocked(format!("{problem}; {}", way_out(answers)))
        }
        RepositoryFacts::Usable(prepared) => {
            let mut plan = StepPlan::default();
            for repository in prepared {
                plan_repository(&mut plan, repository, answers.branch(), force);
            }
            plan
        }
    }
}

/// Plans one repository by its files.
pub(super) fn plan_repository(
    plan: &mut StepPlan,
    repository: &Prepared,
    branch: &str,
    force: bool,
) {
    let url = &repository.url;
    plan.add(SetupAction::Done(format!("{url} can be pushed to")));
    let paths = |verdicts: &[FileVerdict]| -> Vec<String> {
        let files = repository.files.iter().filter(|file| verdicts.contains(&file.verdict));
        files.map(|file| file.expected.path.clone()).collect()
    };
    let written = paths(&[FileVerdict::Write, FileVerdict::Update, FileVerdict::Replace]);
    let different = paths(&[FileVerdict::Keep]);
    if !different.is_empty() {
        let way_out = if force { "" } else { "; `the-deployer init` shows how, --force replaces" };
        plan.add(SetupAction::Done(format!(
            "{} differ from what would be written, and stay{way_out}",
            different.join(", ")
        )));
    }
    if written.is_empty() {
        plan.add(SetupAction::Done(format!("the branch {branch} has what it needs")));
    } else {
        let replacements = paths(&[FileVerdict::Replace]);
        let mut text = format!("push one commit to the branch {branch}: {}", written.join(", "));
        if !replacements.is_empty() {
            text += &format!("; it replaces what people changed in {}", replacements.join(", "));
        }
        let files = repository.files.iter().filter(|file| file.verdict == FileVerdict::Replace);
        plan.add(SetupAction::Prepare { text, differences: files.map(difference).collect() });
    }
}

fn difference(file: &PreparedFile) -> String {
    let current = String::from_utf8_lossy(file.current.as_deref().unwrap_or_default());
    let expected = String::from_utf8_lossy(&file.expected.bytes);
    format!("      {}\n{}", file.expected.path, diff_lines(&current, &expected))
}

fn way_out(answers: &SetupAnswers) -> &'static str {
    if answers.app_pushes() {
        "make the repository (`gh repo create OWNER/manifests --private`), install the App on it, and let the App push; another \
         address is --manifests-url, a token --manifests-token-file"
    } else {
        "check the address (--manifests-url), and that the token of --manifests-token-file may push there"
    }
}

/// Pushes what is missing.
pub(super) async fn prepare(session: &SetupSession, force: bool) -> Result<(), CliError> {
    let sources =
        session.repository_sources()?.ok_or_else(|| CliError::io("there is no App yet"))?;
    SetupSession::push_missing(sources, force).await
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::manifests::bootstrap::ExpectedFile;

    fn answers() -> SetupAnswers {
        let manifests_url = Some("https://github.com/acme/manifests.git".to_owned());
        SetupAnswers { manifests_url, ..SetupAnswers::default() }
    }

    fn repository(verdicts: &[FileVerdict]) -> RepositoryFacts {
        let file = |verdict: &FileVerdict| PreparedFile {
            expected: ExpectedFile {
                path: format!("{verdict:?}.md"),
                bytes: Vec::new(),
                is_project: false,
            },
            current: Some(b"theirs\n".to_vec()),
            verdict: *verdict,
        };
        let files = verdicts.iter().map(file).collect();
        let (name, url) =
            ("manifests".to_owned(), "https://github.com/acme/manifests.git".to_owned());
        RepositoryFacts::Usable(vec![Prepared { name, url, commit: None, files }])
    }

    #[test]
    fn only_what_is_missing_is_pushed() {
        let plan =
            |verdicts: &[FileVerdict]| plan(&answers(), &repository(verdicts), false).render();
        assert!(plan(&[FileVerdict::Same]).contains("has what it needs"));
        let text = plan(&[FileVerdict::Same, FileVerdict::Write, FileVerdict::Keep]);
        assert!(text.contains("push one commit") && text.contains(": Write.md"), "{text}");
        assert!(text.contains("Keep.md differ") && text.contains("--force replaces"), "{text}");
    }

    #[test]
    fn a_file_that_force_replaces_is_named_with_its_difference() {
        let plan = plan(&answers(), &repository(&[FileVerdict::Replace]), true);
        assert!(plan.render().contains("changed in Replace.md"), "{}", plan.render());
        let differences = plan.actions.iter().find_map(|action| match action {
            SetupAction::Prepare { differences, .. } => Some(differences.as_str()),
            _ => None,
        });
        let differences = differences.unwrap();
        assert!(differences.contains("Replace.md") && differences.contains("-theirs"));
    }

    #[test]
    fn without_an_address_it_asks_and_without_an_app_it_waits() {
        let facts = RepositoryFacts::NoApp;
        let asks = plan(&SetupAnswers::default(), &facts, false);
        assert_eq!(asks.actions, [SetupAction::Ask(Question::ManifestsUrl)]);
        assert!(plan(&answers(), &facts, false).obstacle().is_some());
    }
}
