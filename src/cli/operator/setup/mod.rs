//! `the-deployer setup`: from nothing to the first deployment, step by step.
//!
//! Each step gathers facts, decides a plan of them, prints it, and acts. Planning is pure; a second run finds what the
//! first one did, and leaves it alone.

mod session; // what all steps share
mod folder; // the files of the setup
mod answers; // flags, file and person
mod cluster_answer; // a cluster among the answers
mod action; // the plan of a step
mod file_change; // a file with its wanted text
mod prompt; // questions at the terminal
mod registration; // the listener for a browser
mod registration_page; // its pages
mod configuration_text; // the configuration of the answers
mod github; // step 1: the App
mod repository; // step 2: the manifest repository
mod clusters; // step 3: contexts of a kubeconfig
mod configuration; // step 4: the service's configuration
mod argocd; // step 5: what Argo CD applies
mod check; // step 6: what is left

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};

use self::action::{SetupAction, StepPlan, head, wrap};
use self::answers::{ANSWERS_FILE, Question, SetupAnswers};
use self::file_change::FileChange;
use self::folder::SetupFolder;
use self::github::RegistrationOptions;
use self::prompt::{Interruption, Prompter};
use self::session::SetupSession;
use crate::cli::error::{CliError, CommandOutcome};
use crate::cli::output::{self, BOLD, GOOD, NOTE, word};
use crate::cli::times;

/// Guides from nothing to the first deployment: GitHub App, manifest repository, clusters, configuration, Argo CD.
///
/// Asks for what it does not know, and writes everything into one folder: the configuration, the answers, and secrets
/// that only you can read. Each step looks first at what is there: a second run changes nothing that is done, and no
/// file that differs is replaced without a question. Without steps it runs them all, in order.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  the-deployer setup
  the-deployer setup --dry-run
  the-deployer setup github --organization example --service-url https://deployer.example.com
  the-deployer setup clusters configuration
  the-deployer setup --non-interactive --answers answers.yaml

docs/setup.md has the same steps by hand. Exit codes: 0 done, 1 a step stopped, 2 something is not known or could not be read \
or reached.")]
pub(super) struct Setup {
    /// The steps to run. Default: all
    #[arg(value_enum, value_name = "STEP")]
    steps: Vec<SetupStep>,
    /// Print the plan, and change nothing. It asks GitHub, the manifest repository, the clusters and the service; exit code 1
    /// if a step would stop
    #[arg(long)]
    dry_run: bool,
    /// The folder of the setup's files
    #[arg(long, value_name = "DIR", default_value = "deployer")]
    directory: PathBuf,
    /// A file with answers. Default: answers.yaml in the folder, which the setup writes
    #[arg(long = "answers", value_name = "FILE")]
    answers_file: Option<PathBuf>,
    /// Ask nothing; what is not known ends the setup
    #[arg(long)]
    non_interactive: bool,
    /// Replace files that differ without a question
    #[arg(long)]
    force: bool,
    /// The address of the page from which you register the App
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:0")]
    listen: SocketAddr,
    /// The time that you have at GitHub
    #[arg(long, value_name = "TIME", default_value = "10m", value_parser = times::patience)]
    timeout: Duration,
    #[command(flatten)]
    answers: SetupAnswers,
}

/// The steps, in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
enum SetupStep {
    /// Register the GitHub App, and install it
    Github,
    /// Check that the manifest repository can be pushed to, and prepare it
    Repository,
    /// Choose clusters of a kubeconfig
    Clusters,
    /// Write the configuration, and check it
    Configuration,
    /// Write what Argo CD applies
    Argocd,
    /// Show what is left to do
    Check,
}

impl SetupStep {
    fn about(self) -> &'static str {
        match self {
            Self::Github => "the App that receives events and writes statuses",
            Self::Repository => "the manifest repository, which Argo CD follows",
            Self::Clusters => "the clusters to deploy to, from a kubeconfig",
            Self::Configuration => "the configuration of the service",
            Self::Argocd => "what Argo CD applies",
            Self::Check => "what is left until the first deployment",
        }
    }
}

/// An answer that a plan waits for.
#[derive(Debug, Clone, Copy)]
enum OpenAnswer {
    Text(Question),
    Clusters,
}

fn open_answers(plan: &StepPlan) -> Vec<OpenAnswer> {
    let answer = |action: &SetupAction| match action {
        SetupAction::Ask(question) => Some(OpenAnswer::Text(*question)),
        SetupAction::ChooseClusters(_) => Some(OpenAnswer::Clusters),
        _ => None,
    };
    plan.actions.iter().filter_map(answer).collect()
}

/// The program of one run.
struct SetupRun {
    session: SetupSession,
    prompter: Prompter,
    interruption: Interruption,
    /// The folder as the person named it, for commands.
    directory: String,
    dry_run: bool,
    /// True if a dry run has met a step that would stop.
    is_blocked: bool,
    force: bool,
    registration: RegistrationOptions,
}

impl Setup {
    pub(super) async fn run(self) -> CommandOutcome {
        let folder = SetupFolder::new(&self.directory)?;
        let stored = SetupAnswers::read(&folder.path(ANSWERS_FILE))?.unwrap_or_default();
        let given = match &self.answers_file {
            None => SetupAnswers::default(),
            Some(file) => SetupAnswers::read(file)?.ok_or_else(|| {
                CliError::usage(format!("there is no file of answers {}", file.display()))
            })?,
        };
        let answers = self.answers.over(given).over(stored).check()?;
        let mut steps = self.steps;
        if steps.is_empty() {
            steps = SetupStep::value_variants().to_vec();
        }
        steps.sort();
        steps.dedup();
        let interruption = Interruption::listen();
        let mut run = SetupRun {
            session: SetupSession::new(folder, answers)?,
            prompter: Prompter::new(self.non_interactive || self.dry_run, interruption.clone()),
            interruption,
            directory: self.directory.display().to_string(),
            dry_run: self.dry_run,
            is_blocked: false,
            force: self.force,
            registration: RegistrationOptions { listen: self.listen, timeout: self.timeout },
        };
        run.steps(&steps).await
    }
}

impl SetupRun {
    async fn steps(&mut self, steps: &[SetupStep]) -> CommandOutcome {
        let root = self.session.folder.root().display();
        let mode = if self.dry_run { "the plan; nothing is changed" } else { "setup" };
        output::print(&format!("{BOLD}the-deployer{BOLD:#} {mode}, in {root}\n"))?;
        for step in steps {
            let number = *step as usize + 1;
            output::print(&head(number, &word(step), step.about()))?;
            self.step(*step).await?;
        }
        if self.is_blocked {
            return Err(CliError::rejected());
        }
        Ok(())
    }

    /// Runs a step; it is planned again after each answer.
    async fn step(&mut self, step: SetupStep) -> CommandOutcome {
        loop {
            let plan = self.interruption.guard(self.plan(step)).await?;
            let questions = open_answers(&plan);
            if self.dry_run || questions.is_empty() {
                output::print(&plan.render())?;
                return self.act(step, &plan).await;
            }
            for question in questions {
                match question {
                    OpenAnswer::Text(question) => self.ask(question).await?,
                    OpenAnswer::Clusters => self.choose_clusters().await?,
                }
            }
            self.session.save_answers()?;
        }
    }

    async fn plan(&self, step: SetupStep) -> Result<StepPlan, CliError> {
        let (session, answers) = (&self.session, &self.session.answers);
        Ok(match step {
            SetupStep::Github => github::plan(answers, &github::gather(session).await?),
            SetupStep::Repository => repository::plan(
                answers,
                &repository::gather(session, self.force).await?,
                self.force,
            ),
            SetupStep::Clusters => {
                clusters::plan(answers, &clusters::gather(session).await?, &self.directory)
            }
            SetupStep::Configuration => {
                configuration::plan(answers, &configuration::gather(session)?)
            }
            SetupStep::Argocd => {
                let options = (self.directory.as_str(), self.force);
                argocd::plan(answers, &argocd::gather(session, self.force).await?, options)
            }
            SetupStep::Check => {
                check::plan(answers, &check::gather(session).await?, &self.directory)
            }
        })
    }

    async fn choose_clusters(&mut self) -> CommandOutcome {
        if !self.prompter.asks() {
            let message = "the clusters are not known";
            return Err(CliError::usage(message).hint("say them with --cluster, or in --answers"));
        }
        clusters::choose(&mut self.session, &mut self.prompter).await
    }

    /// Asks until the answer can be used.
    async fn ask(&mut self, question: Question) -> CommandOutcome {
        let (text, flag) = (question.text(), question.flag());
        if !self.prompter.asks() {
            let message = format!("{text} is not known");
            return Err(
                CliError::usage(message).hint(format!("say it with {flag}, or in --answers"))
            );
        }
        let default = self.session.answers.default_answer(question);
        loop {
            let answer = self.prompter.ask(text, default.as_deref()).await?;
            match self.session.answers.answer(question, &answer) {
                Ok(()) => return Ok(()),
                Err(error) => output::note(&format!("    {}\n", wrap(&error.whole(), 4))),
            }
        }
    }

    async fn act(&mut self, step: SetupStep, plan: &StepPlan) -> CommandOutcome {
        if self.dry_run {
            self.is_blocked |= plan.is_blocked();
            return show_differences(plan);
        }
        if plan.obstacle().is_some() {
            let name = word(&step);
            output::note(&format!(
                "\n{NOTE}stopped{NOTE:#} at the step {name}; run the setup again, it continues there\n"
            ));
            return Err(CliError::rejected());
        }
        self.session.save_answers()?;
        for action in &plan.actions {
            self.execute(step, action).await?;
        }
        Ok(())
    }

    async fn execute(&mut self, step: SetupStep, action: &SetupAction) -> CommandOutcome {
        match action {
            SetupAction::RegisterApp(_) => {
                github::register(&self.session, &mut self.prompter, self.registration).await
            }
            SetupAction::AwaitInstallation(_) => {
                github::await_installation(&self.session, &mut self.prompter).await
            }
            SetupAction::Write(change) => self.write(change).await,
            SetupAction::Prepare { differences, .. } if step == SetupStep::Argocd => {
                output::print(differences)?;
                self.interruption.guard(argocd::prepare(&self.session, self.force)).await
            }
            SetupAction::Prepare { differences, .. } => {
                output::print(differences)?;
                self.interruption.guard(repository::prepare(&self.session, self.force)).await
            }
            SetupAction::MakeToken(_) => configuration::make_token(&self.session),
            SetupAction::CheckConfiguration(_) => configuration::check(&self.session),
            SetupAction::RecordVersion(name, version) => {
                let clusters = self.session.answers.clusters.iter_mut();
                for cluster in clusters.filter(|cluster| cluster.name == name.as_str()) {
                    cluster.version = Some(version.clone());
                }
                self.session.save_answers()
            }
            // What was seen, what is up to a person, and what was answered before.
            _ => Ok(()),
        }
    }

    /// Writes a file; one that differs after a question.
    async fn write(&mut self, change: &FileChange) -> CommandOutcome {
        let name = &change.name;
        if change.current.is_some() && !self.force {
            output::print(&change.diff())?;
            let question = format!("replace {name}?");
            let is_wished = self.prompter.asks() && self.prompter.confirm(&question).await?;
            if !is_wished {
                let text = format!("{name} stays as it is; --force replaces it");
                return output::print(&format!("  {NOTE}kept{NOTE:#}      {}\n", wrap(&text, 12)));
            }
        }
        change.write()?;
        output::print(&format!("  {GOOD}written{GOOD:#}   {}\n", wrap(name, 12)))
    }
}

fn show_differences(plan: &StepPlan) -> CommandOutcome {
    for action in &plan.actions {
        match action {
            SetupAction::Write(change) if change.current.is_some() => {
                output::print(&change.diff())?;
            }
            SetupAction::Prepare { differences, .. } => output::print(differences)?,
            _ => {}
        }
    }
    Ok(())
}
