//! The step `configuration`: writes the configuration of the service, and checks it as `config check` does.

use super::action::{SetupAction, StepPlan};
use super::answers::{Question, SetupAnswers};
use super::configuration_text::{self, ConfigPlaces};
use super::file_change::FileChange;
use super::folder::{API_TOKEN_FILE, CONFIG_FILE, read_file};
use super::session::SetupSession;
use crate::app::signing::check_signing;
use crate::cli::error::CliError;
use crate::cli::operator::config::ConfigSource;
use crate::cli::output::{self, Format, GOOD};
use crate::cli::settings::write_private;
use crate::config::secret;

/// The questions of the step.
const QUESTIONS: [Question; 2] = [Question::ServiceUrl, Question::ManifestsUrl];

/// What the folder has of the configuration.
#[derive(Debug, Clone)]
pub(super) struct ConfigurationFacts {
    /// True if there is an App.
    pub(super) has_app: bool,
    /// The file, where it is to be written.
    pub(super) change: Option<FileChange>,
    /// The violations of the text that the answers make.
    pub(super) violations: Vec<String>,
    /// True if there is a token for the API.
    pub(super) has_token: bool,
}

/// Reads the folder, and checks the text that the answers make.
pub(super) fn gather(session: &SetupSession) -> Result<ConfigurationFacts, CliError> {
    let has_token = session.folder.contains(API_TOKEN_FILE);
    let is_open = !session.answers.open_questions(&QUESTIONS).is_empty();
    let app = session.config_facts()?;
    let Some(facts) = app.as_ref().filter(|_| !is_open) else {
        let has_app = app.is_some();
        return Ok(ConfigurationFacts { has_app, change: None, violations: Vec::new(), has_token });
    };
    let render = |places| configuration_text::render(&session.answers, facts, &places);
    let here = render(ConfigPlaces::on_this_machine(&session.folder));
    let violations = match session.sources(here).load_for_rebuild() {
        Ok(_) => Vec::new(),
        Err(rejection) => rejection.violations.iter().map(ToString::to_string).collect(),
    };
    let text = render(ConfigPlaces::for_service(&session.folder, session.answers.runs_on()));
    let about = "the configuration of the service";
    let change = FileChange::compare(&session.folder, CONFIG_FILE, about, text)?;
    Ok(ConfigurationFacts { has_app: true, change, violations, has_token })
}

/// Decides what is left to do. Pure.
pub(super) fn plan(answers: &SetupAnswers, facts: &ConfigurationFacts) -> StepPlan {
    let open = answers.open_questions(&QUESTIONS);
    if !open.is_empty() {
        return StepPlan::ask(open);
    }
    if !facts.has_app {
        return StepPlan::later(format!("{CONFIG_FILE} is written once the step github is done"));
    }
    let mut plan = StepPlan::default();
    for problem in [answers.pod_repository_problem(), answers.pod_cluster_problem()] {
        plan.actions.extend(problem.map(SetupAction::Blocked));
    }
    for violation in &facts.violations {
        plan.add(SetupAction::Blocked(format!("the answers make no configuration: {violation}")));
    }
    if facts.has_token {
        plan.add(SetupAction::Done(format!("a token for the API, in {API_TOKEN_FILE}")));
    } else {
        plan.add(SetupAction::MakeToken(format!(
            "make a token for the API, for operators and the first deployment, in {API_TOKEN_FILE}"
        )));
    }
    match &facts.change {
        Some(change) => plan.add(SetupAction::Write(change.clone())),
        None => plan.add(SetupAction::Done(format!("{CONFIG_FILE} is what the answers make"))),
    }
    plan.add(SetupAction::CheckConfiguration(format!("check {CONFIG_FILE}")));
    plan
}

/// Makes the token for the API.
pub(super) fn make_token(session: &SetupSession) -> Result<(), CliError> {
    let token = secret::token().map_err(CliError::failed)?;
    let path = session.folder.path(API_TOKEN_FILE);
    write_private(&path, format!("{}\n", token.text).as_bytes())?;
    output::print(&format!("  {GOOD}written{GOOD:#}   {API_TOKEN_FILE}\n"))
}

/// Checks the file that is there, with everything that this machine can check.
pub(super) fn check(session: &SetupSession) -> Result<(), CliError> {
    let path = session.folder.path(CONFIG_FILE);
    let text =
        read_file(&path)?.ok_or_else(|| CliError::io(format!("there is no {}", path.display())))?;
    let here = session.on_this_machine(&text);
    let settings = if here == text {
        ConfigSource { config: Some(path.clone()) }.load(Format::Text)?.settings
    } else {
        // A pod checks the rest: the files and the account that only it has.
        session.sources(here).load_for_rebuild().map_err(CliError::failed)?.settings
    };
    if let Some(violation) = check_signing(&settings).first() {
        return Err(CliError::refused(violation.to_string()));
    }
    output::print(&format!("  {GOOD}ok{GOOD:#}        {CONFIG_FILE} can be used\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_asks_then_waits_for_the_app_then_writes() {
        let mut facts = ConfigurationFacts {
            has_app: false,
            change: None,
            violations: Vec::new(),
            has_token: false,
        };
        let asks = plan(&SetupAnswers::default(), &facts);
        assert_eq!(asks.actions.len(), 2, "{asks:?}");
        let answers = SetupAnswers {
            service_url: Some("https://a.example.com".to_owned()),
            manifests_url: Some("/srv/m.git".to_owned()),
            ..SetupAnswers::default()
        };
        assert!(plan(&answers, &facts).obstacle().is_some());
        facts.has_app = true;
        let text = plan(&answers, &facts).render();
        assert!(text.contains("make a token") && text.contains("check config.yaml"), "{text}");
        facts.violations = vec!["clusters[0].domain: this is not a domain".to_owned()];
        assert!(plan(&answers, &facts).obstacle().unwrap().contains("not a domain"));
    }
}
