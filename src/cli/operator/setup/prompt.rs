//! Questions to the person at the terminal. Ctrl-C ends the setup at any of them.

use std::io::{BufRead as _, IsTerminal as _, Read as _};

use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::action::wrap;
use super::answers::MAX_ANSWER;
use crate::cli::error::CliError;
use crate::cli::output::{self, BOLD, DIM};

/// Ctrl-C, from the first moment on: none that comes between two waits is lost.
#[derive(Debug, Clone)]
pub(super) struct Interruption(CancellationToken);

impl Interruption {
    /// Listens for Ctrl-C from now on; to be called within the runtime.
    pub(super) fn listen() -> Self {
        let token = CancellationToken::new();
        let interruption = Self(token.clone());
        tokio::spawn(async move {
            // Without a handler Ctrl-C ends the process, as it does by default.
            if tokio::signal::ctrl_c().await.is_ok() {
                token.cancel();
            }
        });
        interruption
    }

    /// Ends at Ctrl-C, with the error of it.
    pub(super) async fn wait(&self) -> CliError {
        self.0.cancelled().await;
        CliError::interrupted("the steps that are done stay done")
            .hint("run the setup again: it continues there")
    }

    /// Does work that Ctrl-C may cut off.
    pub(super) async fn guard<T>(
        &self,
        work: impl Future<Output = Result<T, CliError>>,
    ) -> Result<T, CliError> {
        tokio::select! {
            result = work => result,
            error = self.wait() => Err(error),
        }
    }
}

/// The lines of standard input, and whether a person types them.
pub(super) struct Prompter {
    interruption: Interruption,
    /// True if questions are asked.
    asks: bool,
    lines: Option<mpsc::Receiver<String>>,
}

impl Prompter {
    /// Makes a prompter that asks if standard input is a terminal, unless that is not wished.
    pub(super) fn new(non_interactive: bool, interruption: Interruption) -> Self {
        let is_terminal = std::io::stdin().is_terminal();
        let lines = (!non_interactive).then(read_lines);
        Self { interruption, asks: is_terminal && !non_interactive, lines }
    }

    pub(super) fn interruption(&self) -> Interruption {
        self.interruption.clone()
    }

    /// Returns whether a person can be asked.
    pub(super) fn asks(&self) -> bool {
        self.asks
    }

    /// Returns whether lines may still come, of a person or a program.
    pub(super) fn reads(&self) -> bool {
        self.lines.is_some()
    }

    /// Returns the next line without its end; never, once there are no more.
    pub(super) async fn line(&mut self) -> String {
        if let Some(lines) = &mut self.lines
            && let Some(line) = lines.recv().await
        {
            return line;
        }
        self.lines = None;
        std::future::pending().await
    }

    /// Asks a question, with the default in brackets.
    pub(super) async fn ask(
        &mut self,
        question: &str,
        default: Option<&str>,
    ) -> Result<String, CliError> {
        let default_text = default.map(|text| format!(" {DIM}[{text}]{DIM:#}")).unwrap_or_default();
        output::note(&format!("  {BOLD}?{BOLD:#} {}{default_text}: ", wrap(question, 4)));
        let line = self.answer().await?;
        match (line.trim(), default) {
            ("", Some(default)) => Ok(default.to_owned()),
            (answer, _) => Ok(answer.to_owned()),
        }
    }

    /// Asks until the answer can be used.
    pub(super) async fn ask_valid(
        &mut self,
        question: &str,
        default: Option<&str>,
        check: impl Fn(&str) -> Result<(), String>,
    ) -> Result<String, CliError> {
        loop {
            let answer = self.ask(question, default).await?;
            match check(&answer) {
                Ok(()) => return Ok(answer),
                Err(problem) => output::note(&format!("    {}\n", wrap(&problem, 4))),
            }
        }
    }

    /// Asks for a yes; everything else is a no.
    pub(super) async fn confirm(&mut self, question: &str) -> Result<bool, CliError> {
        let answer = self.ask(&format!("{question} [y/N]"), None).await?;
        Ok(matches!(answer.to_ascii_lowercase().as_str(), "y" | "yes"))
    }

    async fn answer(&mut self) -> Result<String, CliError> {
        let Some(lines) = &mut self.lines else { return Err(no_answer()) };
        let line = tokio::select! {
            line = lines.recv() => line,
            error = self.interruption.wait() => return Err(error),
        };
        line.ok_or_else(no_answer)
    }
}

fn no_answer() -> CliError {
    CliError::usage("standard input has ended before the answer")
        .hint("give the answers as flags or in a file (--answers)")
}

/// Reads lines on a thread of its own; it ends with the process.
fn read_lines() -> mpsc::Receiver<String> {
    let (sender, lines) = mpsc::channel(1);
    std::thread::spawn(move || {
        let mut stdin = std::io::stdin().lock();
        loop {
            let mut line = Vec::new();
            let limit = 2 * MAX_ANSWER as u64;
            match stdin.by_ref().take(limit).read_until(b'\n', &mut line) {
                Ok(0) | Err(_) => return,
                Ok(_) => {}
            }
            let line = String::from_utf8_lossy(&line).trim().to_owned();
            if sender.blocking_send(line).is_err() {
                return;
            }
        }
    });
    lines
}
