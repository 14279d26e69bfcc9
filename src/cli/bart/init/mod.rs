//! `bart init` writes the first WAML of a service.

mod guess; // what the repository's files say
mod text; // the file

use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::io::{BufRead as _, IsTerminal as _, Read as _, Write as _};
use std::path::Path;
use std::str::FromStr;

use clap::Args;

use self::guess::{Guess, GuessedService, PortGuess};
use self::text::FirstWaml;
use crate::api::service::TargetList;
use crate::cli::client::ServiceEndpoint;
use crate::cli::context::RepositorySelector;
use crate::cli::error::{CliError, CommandOutcome};
use crate::cli::output::{self, BOLD, DIM, GOOD};
use crate::cli::repository_apps::RepositoryApps;
use crate::cli::working_folder::{self, WAML_FILE};
use crate::model::id::{AppName, Namespace, Slug, TargetName};
use crate::waml::Waml;
use crate::waml::app_files::path_of;

/// The most that is read of a file.
const MAX_BYTES: u64 = 256 * 1024;
/// The longest answer of a person.
const LONGEST_ANSWER: u64 = 1024;
/// The port, for people.
const PORT: &str = "the port that the service listens on";
/// The answer of a service that listens on none.
const NO_PORT: &str = "none";

/// Writes the first .weave.yaml of a service, with comments, so that it is valid.
///
/// Looks at the repository (Dockerfile, Procfile, the framework) and asks for what it does not find, with its guess as the
/// default. Without a terminal, or with --yes, it takes the guesses and says which. A service that listens on no port is a
/// worker. It never replaces a file.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  bart init
  bart init --yes --namespace devx --owner squad@example.com --target dev --target prod-cluster-1
  bart init --app worker                        one more app of the repository
  bart init --print

Exit codes: 0 written, 1 there is a file already, 2 something is not known or could not be read.")]
pub(super) struct InitArgs {
    /// The name for people. Default: the repository's
    #[arg(long, value_name = "TEXT")]
    name: Option<String>,
    /// Write the file of one of several apps, `.weave/NAME.yaml`
    #[arg(long, value_name = "NAME")]
    app: Option<AppName>,
    /// The name in Kubernetes. Default: made of the repository's, or that of --app
    #[arg(long)]
    slug: Option<Slug>,
    /// The namespace in every cluster. Default: made of the repository's owner
    #[arg(long)]
    namespace: Option<Namespace>,
    /// The owner's e-mail address. Default: that of git's configuration
    #[arg(long, value_name = "EMAIL")]
    owner: Option<String>,
    /// A target; may be given several times. Default: those of the service that are no production, or `dev`
    #[arg(long = "target", short, value_name = "TARGET")]
    targets: Vec<TargetName>,
    /// The port that the service listens on, or `none`. Default: found in the repository
    #[arg(long)]
    port: Option<ListeningPort>,
    /// Take the guesses, and ask nothing
    #[arg(long, short)]
    yes: bool,
    /// Print the file, and write nothing
    #[arg(long)]
    print: bool,
    #[command(flatten)]
    selector: RepositorySelector,
    #[command(flatten)]
    server: ServiceEndpoint,
}

impl InitArgs {
    pub(super) async fn run(self) -> CommandOutcome {
        let folder = working_folder::path()?;
        let name = path_of(WAML_FILE, self.app.as_ref());
        let apps = RepositoryApps::find().filter(|_| !self.print);
        let occupied = apps.as_ref().and_then(|apps| self.find_existing(apps, &name));
        if let Some(file) = occupied {
            let hint = "`bart validate` checks it; for one more app of this repository: `bart init --app NAME`";
            return Err(CliError::refused(format!("there is a {file} already")).hint(hint));
        }
        let first = self.fill(&folder).await?;
        let text = first.write();
        Waml::parse(&name, text.as_bytes()).map_err(|rejection| {
            CliError::usage(format!("the file would not be valid: {rejection}"))
        })?;
        if self.print {
            return output::document(&text);
        }
        let root = apps.as_ref().map_or(folder.as_path(), RepositoryApps::root);
        let path = root.join(&name);
        if let Some(parent) = path.parent().filter(|_| self.app.is_some()) {
            fs::create_dir_all(parent).map_err(CliError::file("make", parent))?;
        }
        let file = OpenOptions::new().write(true).create_new(true).open(&path);
        let written = file.and_then(|mut file| file.write_all(text.as_bytes()));
        written.map_err(CliError::file("write", &path))?;
        output::print(&format!(
            "{GOOD}written{GOOD:#} {BOLD}{name}{BOLD:#} for {}/{}\n\n{DIM}read it, then: bart validate && git add {name} && git \
             commit && git push\n`bart doctor` checks what else a deployment needs{DIM:#}\n",
            first.namespace, first.slug
        ))
    }

    /// Finds the file that is in the way of the new one: itself, or where no app is named any.
    fn find_existing(&self, apps: &RepositoryApps, name: &str) -> Option<String> {
        let files = apps.list();
        let file = files.iter().find(|file| self.app.is_none() || file.name == name)?;
        Some(file.path.display().to_string())
    }

    /// Collects what the file says: arguments, answers, guesses.
    async fn fill(&self, folder: &Path) -> Result<FirstWaml, CliError> {
        let repository = self.selector.repository().ok();
        let parts = repository.as_ref().and_then(|repository| repository.as_str().split_once('/'));
        let here = folder.file_name().map(|name| name.to_string_lossy().into_owned());
        let name = parts.map(|(_, name)| name.to_owned()).or(here).unwrap_or_default();
        let GuessedService { port, processes } = guess::guess_service(&read_files(folder));
        let questions =
            Questions { silent: self.yes || self.print || !std::io::stdin().is_terminal() };
        let name = questions.text("name", "the name for people", self.name.clone(), Some(name))?;
        let slug = self.slug.as_ref().map(ToString::to_string);
        let of_app = self.app.as_ref().filter(|app| !app.is_root()).map(ToString::to_string);
        let guess = of_app.or_else(|| guess::to_slug(&name));
        let slug = questions.text("slug", "the name in Kubernetes", slug, guess)?;
        let slug = Slug::parse(slug).map_err(|error| CliError::usage(error.to_string()))?;
        let namespace = self.namespace.as_ref().map(ToString::to_string);
        let from_owner = parts.and_then(|(owner, _)| guess::to_slug(owner));
        let namespace = questions.text("namespace", "the namespace", namespace, from_owner)?;
        let namespace =
            Namespace::parse(namespace).map_err(|error| CliError::usage(error.to_string()))?;
        let owner =
            questions.text("owner", "the owner's e-mail address", self.owner.clone(), email())?;
        let port = match self.port {
            Some(ListeningPort(port)) => port.map(|port| Guess::new(port, PORT)),
            None => questions.port(port)?,
        };
        let targets = match self.targets.as_slice() {
            [] => vec![self.target(&questions).await?],
            targets => targets.to_vec(),
        };
        Ok(FirstWaml {
            name,
            slug: slug.to_string(),
            namespace: namespace.to_string(),
            owner,
            targets,
            port,
            processes,
        })
    }

    /// Chooses the first target: one of the service that is no production.
    async fn target(&self, questions: &Questions) -> Result<TargetName, CliError> {
        let list: Option<TargetList> = self.server.get("/api/v1/targets", &[]).await.ok();
        let targets = list.map(|list| list.targets).unwrap_or_default();
        let first = targets.iter().find(|target| target.environment != "production");
        let guess = first.or(targets.first()).map_or("dev", |target| target.name.as_str());
        let target = questions.text("target", "the first target", None, Some(guess.to_owned()))?;
        TargetName::parse(target).map_err(|error| CliError::usage(error.to_string()))
    }
}

/// The port that a service listens on, as an argument or an answer: a number, or `none`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct ListeningPort(Option<u16>);

impl FromStr for ListeningPort {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text.eq_ignore_ascii_case(NO_PORT) {
            return Ok(Self(None));
        }
        match text.parse() {
            Ok(port) if port > 0 => Ok(Self(Some(port))),
            _ => Err(format!("a port is a number from 1 to 65535, or `{NO_PORT}`")),
        }
    }
}

/// The questions to a person.
struct Questions {
    /// True if nobody is asked.
    silent: bool,
}

impl Questions {
    /// Returns what an argument says, else the answer of a person, else the guess.
    fn text(
        &self,
        argument: &str,
        what: &str,
        value: Option<String>,
        guess: Option<String>,
    ) -> Result<String, CliError> {
        if let Some(value) = value {
            return Ok(value);
        }
        let unknown = || {
            CliError::usage(format!("{what} is not known"))
                .hint(format!("say it with --{argument}"))
        };
        if self.silent {
            let guess = guess.ok_or_else(unknown)?;
            assume(argument, what, &guess);
            return Ok(guess);
        }
        let default = guess.as_ref().map_or_else(String::new, |guess| format!(" [{guess}]"));
        output::note(&format!("{what}{default}: "));
        let mut line = String::new();
        let read = std::io::stdin().lock().take(LONGEST_ANSWER).read_line(&mut line);
        read.map_err(|error| CliError::io(format!("cannot read your answer: {error}")))?;
        match line.trim() {
            "" => guess.ok_or_else(unknown),
            answer => Ok(answer.to_owned()),
        }
    }

    /// Returns the port that a file names, else the answer of a person, else the usual one of the framework.
    fn port(&self, guess: PortGuess) -> Result<Option<Guess<u16>>, CliError> {
        let (port, is_stated) = match guess {
            PortGuess::Exposed(port) => (Some(port), true),
            PortGuess::NoWeb => (None, true),
            PortGuess::Usual(port) => (Some(port), false),
            PortGuess::Unknown => (None, false),
        };
        if self.silent {
            assume("port", PORT, &describe_port(port.as_ref()));
        }
        if self.silent || is_stated {
            return Ok(port);
        }
        let default = port.as_ref().map_or(NO_PORT.to_owned(), |port| port.value.to_string());
        let what = format!("{PORT}, or `{NO_PORT}`");
        let answer = self.text("port", &what, None, Some(default))?;
        let ListeningPort(number) =
            answer.parse().map_err(|error| CliError::usage(format!("`{answer}`: {error}")))?;
        let usual = port.filter(|port| Some(port.value) == number);
        Ok(usual.or(number.map(|number| Guess::new(number, PORT))))
    }
}

fn describe_port(port: Option<&Guess<u16>>) -> String {
    match port {
        Some(Guess { value, source }) => format!("{value} ({source})"),
        None => format!("{NO_PORT}, so it is a worker without a Service"),
    }
}

/// Says what is taken for true without a question.
fn assume(argument: &str, what: &str, guess: &str) {
    output::note(&output::note_line(format!("{what} is {guess}; --{argument} says another")));
}

/// Reads the files that say something of the service; one that cannot be read says nothing.
fn read_files(folder: &Path) -> BTreeMap<&'static str, String> {
    let read = |name: &&'static str| {
        let mut text = String::new();
        let file = fs::File::open(folder.join(name)).ok()?;
        file.take(MAX_BYTES).read_to_string(&mut text).ok()?;
        Some((*name, text))
    };
    guess::FILES.iter().filter_map(read).collect()
}

/// Returns the address that git knows of the person.
fn email() -> Option<String> {
    let folder = working_folder::path().ok()?;
    let repository = git2::Repository::discover(folder).and_then(|git| git.config());
    let config = repository.or_else(|_| git2::Config::open_default()).ok()?;
    config.get_string("user.email").ok()
}
