//! The plan of a step: what was seen, and the actions that are left. Pure.

use unicode_width::UnicodeWidthStr as _;

use super::answers::Question;
use super::file_change::FileChange;
use crate::cli::output::{BAD, BOLD, DIM, GOOD, NOTE};
use crate::model::id::TargetName;

/// The columns of a line.
const WIDTH: usize = 80;
/// The columns before the text of a line.
const INDENT: usize = 12;

/// One line of a plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum SetupAction {
    /// Nothing is left to do; with what was seen.
    Done(String),
    /// A question to a person.
    Ask(Question),
    /// A question to a person for the clusters of the kubeconfig.
    ChooseClusters(String),
    /// The App is registered on GitHub.
    RegisterApp(String),
    /// The person installs the App; the setup waits for it.
    AwaitInstallation(String),
    /// A file is written.
    Write(FileChange),
    /// The answers get the version of a cluster.
    RecordVersion(TargetName, String),
    /// A token for the API is made.
    MakeToken(String),
    /// The configuration is checked.
    CheckConfiguration(String),
    /// A commit is pushed to the manifest repository.
    Prepare {
        text: String,
        /// The differences of the files that it replaces.
        differences: String,
    },
    /// A person does it; the setup cannot.
    Person(String),
    /// It waits for another step.
    Later(String),
    /// It cannot be done now, and why.
    Blocked(String),
}

/// The plan of one step.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct StepPlan {
    pub(super) actions: Vec<SetupAction>,
}

impl StepPlan {
    /// Makes the plan of a step that waits for another one.
    pub(super) fn later(reason: impl Into<String>) -> Self {
        Self { actions: vec![SetupAction::Later(reason.into())] }
    }

    /// Makes the plan of a step that cannot go on.
    pub(super) fn blocked(reason: impl Into<String>) -> Self {
        Self { actions: vec![SetupAction::Blocked(reason.into())] }
    }

    /// Makes the plan of a step that asks first.
    pub(super) fn ask(questions: Vec<Question>) -> Self {
        Self { actions: questions.into_iter().map(SetupAction::Ask).collect() }
    }

    pub(super) fn add(&mut self, action: SetupAction) {
        self.actions.push(action);
    }

    /// Returns the first reason why the step cannot go on.
    pub(super) fn obstacle(&self) -> Option<&str> {
        self.actions.iter().find_map(|action| match action {
            SetupAction::Blocked(reason) | SetupAction::Later(reason) => Some(reason.as_str()),
            _ => None,
        })
    }

    /// Returns whether a run would stop at this step, whatever the steps before it do.
    pub(super) fn is_blocked(&self) -> bool {
        self.actions.iter().any(|action| matches!(action, SetupAction::Blocked(_)))
    }

    /// Returns the lines of the plan, at most 80 columns wide.
    pub(super) fn render(&self) -> String {
        self.actions.iter().map(SetupAction::render).collect()
    }
}

impl SetupAction {
    fn describe(&self) -> (&'static str, String, anstyle::Style) {
        match self {
            Self::Done(text) => ("done", text.clone(), GOOD),
            Self::Ask(question) => {
                ("asks", format!("for {} ({})", question.text(), question.flag()), NOTE)
            }
            Self::ChooseClusters(text) => ("asks", text.clone(), NOTE),
            Self::RegisterApp(text)
            | Self::AwaitInstallation(text)
            | Self::MakeToken(text)
            | Self::CheckConfiguration(text)
            | Self::Prepare { text, .. } => ("to do", text.clone(), BOLD),
            Self::RecordVersion(name, version) => {
                ("to do", format!("note that {name} has Kubernetes {version}"), BOLD)
            }
            Self::Write(change) => ("to do", change.describe(), BOLD),
            Self::Person(text) => ("by you", text.clone(), NOTE),
            Self::Later(text) => ("later", text.clone(), DIM),
            Self::Blocked(text) => ("stops", text.clone(), BAD),
        }
    }

    fn render(&self) -> String {
        let (word, text, style) = self.describe();
        let pad = " ".repeat(INDENT - 2 - word.len());
        format!("  {style}{word}{style:#}{pad}{}\n", wrap(&text, INDENT))
    }
}

/// Breaks a text at spaces so that its lines end before the 80th column; later lines are indented. A line that begins
/// with two spaces is a command, and stays as it is.
pub(super) fn wrap(text: &str, indent: usize) -> String {
    let pad = " ".repeat(indent);
    let mut lines: Vec<String> = Vec::new();
    for paragraph in text.lines() {
        if paragraph.starts_with("  ") {
            lines.push(paragraph.to_owned());
            continue;
        }
        let mut line = String::new();
        for word in paragraph.split(' ') {
            if !line.is_empty() && indent + line.width() + 1 + word.width() > WIDTH {
                lines.push(std::mem::take(&mut line));
            }
            if !line.is_empty() {
                line.push(' ');
            }
            line.push_str(word);
        }
        lines.push(line);
    }
    lines.join(&format!("\n{pad}"))
}

/// Returns the head of a step: its number and name, and what it is about.
pub(super) fn head(number: usize, name: &str, about: &str) -> String {
    format!("\n{BOLD}{number} {name:<14}{BOLD:#}{DIM}{about}{DIM:#}\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_line_is_wider_than_a_terminal_but_a_word_that_is() {
        let text = "word ".repeat(60) + &"x".repeat(90);
        let plan = StepPlan { actions: vec![SetupAction::Person(text)] };
        let lines = plan.render();
        let wide: Vec<&str> = lines.lines().filter(|line| line.width() > 90).collect();
        assert_eq!(wide.len(), 1, "{lines}");
        assert!(lines.lines().skip(1).all(|line| line.starts_with("            ")));
    }

    #[test]
    fn a_command_is_not_broken() {
        let command = "  kubectl ".to_owned() + &"x ".repeat(60);
        assert_eq!(wrap(&command, 4), command);
        assert_eq!(wrap("once:\n  do it", 4), "once:\n      do it");
    }

    #[test]
    fn a_step_stops_at_what_it_cannot_do() {
        let mut plan = StepPlan::default();
        plan.add(SetupAction::Done("x".to_owned()));
        plan.add(SetupAction::Person("y".to_owned()));
        assert_eq!(plan.obstacle(), None);
        plan.add(SetupAction::Blocked("z".to_owned()));
        assert_eq!(plan.obstacle(), Some("z"));
    }
}
