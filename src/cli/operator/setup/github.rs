//! The step `github`: registers the App by its manifest, and has it installed.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use secrecy::SecretString;
use tokio::time::{Instant, timeout_at};

use super::action::{SetupAction, StepPlan, wrap};
use super::answers::{Question, SetupAnswers};
use super::folder::{APP_FILE, AppRecord, CLIENT_SECRET_FILE, HOOK_SECRET_FILE, KEY_FILE};
use super::prompt::Prompter;
use super::registration::{
    BrowserCode, BrowserReply, PastedText, RegistrationListener, is_open, read_pasted,
};
use super::registration_page::{self, FormPage};
use super::session::SetupSession;
use crate::cli::bart::open::open_browser;
use crate::cli::error::CliError;
use crate::cli::output::{self, BOLD, DIM, GOOD};
use crate::cli::settings::write_private;
use crate::forge::github::address::web_url;
use crate::forge::github::app_manifest::{
    APP_EVENTS, AppManifest, RegisteredApp, RegistrationError, app_permissions, exchange_code,
    registration_page,
};
use crate::forge::github::auth::key::AppCredentials;
use crate::forge::github::client::own_app::OwnApp;
use crate::forge::github::client::{Credentials, GitHubClient, GitHubSettings};
use crate::support::clock::Clock;

/// The questions of the step.
pub(super) const QUESTIONS: [Question; 3] =
    [Question::ServiceUrl, Question::Organization, Question::AppName];
/// The file that leads a browser to the page of the registration.
const OPENER_FILE: &str = "register.html";
/// The longest call of GitHub's API.
const CALL: Duration = Duration::from_secs(20);
/// The pause between two looks for the installation.
const INSTALLATION_PAUSE: Duration = Duration::from_secs(3);

/// What a person does with a code that the setup could not send.
const PASTE_AGAIN: &str = "Once GitHub can be reached, paste here in the terminal the address to which GitHub led the \
                           browser, or only its code.";

/// What a person does with an App whose code did not come.
const LEFT_APP: &str = "if you confirmed the App at GitHub already, delete it there first";

/// What the folder and GitHub say of the App.
#[derive(Debug, Clone)]
pub(super) struct GitHubFacts {
    /// The record in the folder.
    pub(super) record: Option<AppRecord>,
    /// The secrets in the folder.
    pub(super) secrets: Vec<&'static str>,
    /// The App at GitHub, if there is a record with its key.
    pub(super) app: Option<Result<AppAtGitHub, String>>,
}

/// The App at GitHub.
#[derive(Debug, Clone)]
pub(super) struct AppAtGitHub {
    pub(super) app: OwnApp,
    /// The accounts at which it is installed.
    pub(super) accounts: Vec<String>,
}

/// The options of a registration.
#[derive(Debug, Clone, Copy)]
pub(super) struct RegistrationOptions {
    /// The address of the page.
    pub(super) listen: SocketAddr,
    /// The time for the person at GitHub.
    pub(super) timeout: Duration,
}

/// Reads the folder, and asks GitHub about the App.
pub(super) async fn gather(session: &SetupSession) -> Result<GitHubFacts, CliError> {
    let folder = &session.folder;
    let (record, secrets) = (folder.app()?, folder.app_secrets());
    let app = match &record {
        Some(record) if secrets.contains(&KEY_FILE) => Some(fetch_app(session, record).await),
        _ => None,
    };
    Ok(GitHubFacts { record, secrets, app })
}

async fn fetch_app(session: &SetupSession, record: &AppRecord) -> Result<AppAtGitHub, String> {
    let key = session.folder.secret(KEY_FILE).map_err(|error| error.whole())?;
    let client = client(session, record.id, &key).map_err(|error| error.whole())?;
    let app = client.own_app().await.map_err(|error| error.to_string())?;
    let accounts = client.installation_accounts().await.map_err(|error| error.to_string())?;
    Ok(AppAtGitHub { app, accounts })
}

fn client(session: &SetupSession, id: u64, key: &SecretString) -> Result<GitHubClient, CliError> {
    let key = AppCredentials::parse(&id.to_string(), key)
        .map_err(|error| CliError::usage(format!("{KEY_FILE}: {error}")))?;
    let credentials = Credentials::App(key, Clock::system());
    let api_url = session.answers.api_url().to_owned();
    let settings = GitHubSettings { api_url, credentials, timeout: CALL };
    GitHubClient::new(settings, session.http()?).map_err(CliError::failed)
}

/// Decides what is left to do. Pure.
pub(super) fn plan(answers: &SetupAnswers, facts: &GitHubFacts) -> StepPlan {
    let Some(record) = &facts.record else {
        if let Some(name) = facts.secrets.first() {
            return StepPlan::blocked(format!(
                "there is a {name} and no {APP_FILE}: to use that App, write {{\"id\": 1234567}} with its id into {APP_FILE}; to \
                 register another one, move the file away"
            ));
        }
        let open = answers.open_questions(&QUESTIONS);
        if !open.is_empty() {
            return StepPlan::ask(open);
        }
        return registration_plan(answers);
    };
    if answers.service_url.is_none() {
        return StepPlan::ask(vec![Question::ServiceUrl]);
    }
    let needed = [KEY_FILE, HOOK_SECRET_FILE];
    let missing: Vec<&str> =
        needed.into_iter().filter(|name| !facts.secrets.contains(name)).collect();
    if let Some(name) = missing.first() {
        return StepPlan::blocked(format!(
            "{name} is missing beside {APP_FILE}: put it there (the App's settings make a new key, and a new secret), or move \
             {APP_FILE} away to register another App"
        ));
    }
    match &facts.app {
        Some(Ok(app)) => verify(answers, record, app, &facts.secrets),
        Some(Err(problem)) => StepPlan::blocked(problem.clone()),
        None => StepPlan::default(),
    }
}

fn registration_plan(answers: &SetupAnswers) -> StepPlan {
    let name = answers.app_name.as_deref().unwrap_or_default();
    let owner = answers.organization().unwrap_or("your own account");
    let web = web_url(answers.api_url());
    let contents = if answers.app_pushes() { "write" } else { "read" };
    let register = format!(
        "register the App {name} for {owner} on {web}, with `contents: {contents}`; its key and secrets go into files that only \
         you can read"
    );
    let install = "wait until you have installed the App".to_owned();
    StepPlan {
        actions: vec![SetupAction::RegisterApp(register), SetupAction::AwaitInstallation(install)],
    }
}

/// Compares the App at GitHub with what the service needs.
fn verify(
    answers: &SetupAnswers,
    record: &AppRecord,
    AppAtGitHub { app, accounts }: &AppAtGitHub,
    secrets: &[&str],
) -> StepPlan {
    let mut plan = StepPlan::default();
    plan.add(SetupAction::Done(format!("the App {} ({}), {}", app.name, record.id, app.html_url)));
    let missing = missing_permissions(answers, app);
    if !missing.is_empty() {
        plan.add(SetupAction::Person(format!(
            "the App lacks {}: add it under Permissions & events in the App's settings, and accept it where the App is installed",
            missing.join(", ")
        )));
    }
    if record.client_id.is_some() && !secrets.contains(&CLIENT_SECRET_FILE) {
        plan.add(SetupAction::Person(format!(
            "{CLIENT_SECRET_FILE} is missing: without it nobody signs in on the pages; the App's settings make a new one"
        )));
    }
    if accounts.is_empty() {
        let page = format!("{}/installations/new", app.html_url.trim_end_matches('/'));
        plan.add(SetupAction::AwaitInstallation(format!(
            "wait until you have installed the App, on the manifest repository and on those that may deploy: {page}"
        )));
    } else {
        plan.add(SetupAction::Done(format!("installed at {}", accounts.join(", "))));
    }
    plan
}

/// Returns the permissions and events that the App does not have.
fn missing_permissions(answers: &SetupAnswers, app: &OwnApp) -> Vec<String> {
    let rank = |level: Option<&str>| match level {
        Some("read") => 1,
        Some("write" | "admin") => 2,
        _ => 0,
    };
    let needed = app_permissions(answers.app_pushes());
    let lacks = |(name, level): &(&str, &str)| {
        rank(app.permissions.get(*name).map(String::as_str)) < rank(Some(level))
    };
    let permissions = needed.iter().filter(|entry| lacks(entry));
    let permissions = permissions.map(|(name, level)| format!("`{name}: {level}`"));
    let events = APP_EVENTS.iter().filter(|event| !app.events.iter().any(|own| own == *event));
    permissions.chain(events.map(|event| format!("the event `{event}`"))).collect()
}

/// Registers the App: shows the address of the page, waits for the code, and stores what GitHub gives for it.
pub(super) async fn register(
    session: &SetupSession,
    prompter: &mut Prompter,
    options: RegistrationOptions,
) -> Result<(), CliError> {
    let answers = &session.answers;
    session.folder.probe()?;
    let listener = RegistrationListener::bind(options.listen).await?;
    let manifest = AppManifest {
        name: answers.app_name.clone().unwrap_or_default(),
        service_url: answers.service_url.clone().unwrap_or_default(),
        redirect_url: listener.redirect_url(),
        pushes: answers.app_pushes(),
    };
    let manifest = manifest.to_json();
    let state = listener.state().to_owned();
    let form = FormPage {
        action: registration_page(answers.api_url(), answers.organization(), &state),
        manifest: manifest.to_string(),
        readable: serde_json::to_string_pretty(&manifest).unwrap_or_default(),
        github: web_url(answers.api_url()),
    };
    show_address(&listener, options);
    let _opener = open_page(session, &listener, prompter)?;
    let mut codes = listener.serve(&form);
    let deadline = Instant::now() + options.timeout;
    let result = loop {
        let code = wait_for_code(&mut codes, prompter, &state);
        let (code, reply) = timeout_at(deadline, code).await.map_err(|_elapsed| {
            CliError::refused("no App was registered in time")
                .hint(format!("run the setup again; --timeout gives more time; {LEFT_APP}"))
        })??;
        output::note("  GitHub has answered; the keys are fetched …\n");
        // Not cut off by Ctrl-C or the deadline: the code works once, and the keys are shown once.
        let exchange = exchange_code(&session.http()?, answers.api_url(), &code).await;
        let is_unsent = matches!(exchange, Err(RegistrationError::NotSent { .. }));
        if let Err(error) = &exchange
            && (reply.is_none() || is_unsent && prompter.reads())
            && error.allows_another_code()
        {
            output::note(&format!("  {}\n", wrap(&error.to_string(), 2)));
            if let Some(reply) = reply {
                output::note(&format!("  {}\n", wrap(PASTE_AGAIN, 2)));
                let text = format!("{error}. {PASTE_AGAIN}");
                let title = "The App is not registered yet";
                reply.show(registration_page::message(title, &text, None)).await;
            }
            continue;
        }
        let result = store(session, exchange);
        if let Some(reply) = reply {
            reply.show(result_page(&result)).await;
        }
        break result;
    };
    let app = result?;
    output::note(&format!(
        "  {GOOD}registered{GOOD:#} {} ({}) of {}\n",
        app.name, app.id, app.owner
    ));
    Ok(())
}

fn show_address(listener: &RegistrationListener, options: RegistrationOptions) {
    let url = listener.url();
    let (address, port) = (listener.address(), listener.address().port());
    let minutes = options.timeout.as_secs().div_ceil(60);
    let open = if is_open(address.ip()) {
        "\n  Others in this network can see the code: the page is not encrypted."
    } else {
        ""
    };
    let there = wrap(
        &format!(
            "Browser on another machine? Run there `ssh -L {port}:127.0.0.1:{port} HOST` first; or paste here the address to \
             which GitHub led it, or its code."
        ),
        2,
    );
    output::note(&format!(
        "  Open this address within {minutes} min, press the button there, and confirm at\n  GitHub:\n\n  {BOLD}{url}{BOLD:#}\n\n  {DIM}{there}{open}{DIM:#}\n"
    ));
}

/// The file that leads a browser to the page; it goes with the registration.
struct PageOpener(PathBuf);

impl Drop for PageOpener {
    fn drop(&mut self) {
        // It leads nowhere once the listener is gone.
        let _is_gone = std::fs::remove_file(&self.0);
    }
}

/// Opens the page in the browser, where a person sits at this machine. The browser gets the name of a file that only its owner
/// reads, because every user of the machine sees the arguments of a process, and the page's address is a secret.
fn open_page(
    session: &SetupSession,
    listener: &RegistrationListener,
    prompter: &Prompter,
) -> Result<Option<PageOpener>, CliError> {
    if !prompter.asks() || is_open(listener.address().ip()) {
        return Ok(None);
    }
    let opener = PageOpener(session.folder.path(OPENER_FILE));
    write_private(&opener.0, registration_page::leads_to(&listener.url()).as_bytes())?;
    if let Ok(url) = reqwest::Url::from_file_path(&opener.0) {
        // A browser in a terminal would hold up everything else.
        tokio::task::spawn_blocking(move || open_browser(&url));
    }
    Ok(Some(opener))
}

/// Waits for a code, of the browser or pasted.
async fn wait_for_code(
    codes: &mut tokio::sync::mpsc::Receiver<BrowserCode>,
    prompter: &mut Prompter,
    state: &str,
) -> Result<(String, Option<BrowserReply>), CliError> {
    let interruption = prompter.interruption();
    loop {
        tokio::select! {
            Some(BrowserCode { code, reply }) = codes.recv() => return Ok((code, Some(reply))),
            line = prompter.line() => match read_pasted(&line, state) {
                PastedText::Code(code) => return Ok((code, None)),
                PastedText::Foreign => output::note(
                    "  That address is of another registration: its state differs. Open the address above; or, if you\n  registered that App yourself in an earlier run, paste only the code in it.\n",
                ),
                PastedText::Nothing if line.is_empty() => {}
                PastedText::Nothing => output::note("  That is neither a code nor an address with one.\n"),
            },
            error = interruption.wait() => {
                return Err(error.hint(format!("run the setup again: it continues there; {LEFT_APP}")));
            }
        }
    }
}

/// Stores the App, unless it is another one than was asked for.
fn store(
    session: &SetupSession,
    exchange: Result<RegisteredApp, RegistrationError>,
) -> Result<RegisteredApp, CliError> {
    let app = exchange.map_err(|error| CliError::refused(error.to_string()))?;
    let owner = session.answers.organization();
    if owner.is_some_and(|owner| !app.owner.eq_ignore_ascii_case(owner)) {
        let (name, actual) = (&app.name, &app.owner);
        let message =
            format!("the code is of the App {name} of {actual}, which nobody asked for here");
        return Err(CliError::refused(message).hint("register the App again, and delete that one"));
    }
    match session.folder.store(&app) {
        Ok(()) => Ok(app),
        Err(error) => Err(error.hint(format!(
            "the keys of the App are lost: delete it at GitHub ({}), and register it again",
            app.html_url.as_deref().unwrap_or(&app.name)
        ))),
    }
}

fn result_page(result: &Result<RegisteredApp, CliError>) -> String {
    match result {
        Ok(app) => {
            let text = format!(
                "{} belongs to {} now. Install it, then look at the terminal.",
                app.name, app.owner
            );
            let page = app.html_url.as_ref().map(|page| format!("{page}/installations/new"));
            let link = page.as_deref().map(|page| (page, "Install it on repositories"));
            registration_page::message("The App is registered", &text, link)
        }
        Err(error) => {
            registration_page::message("The App was not registered", &error.whole(), None)
        }
    }
}

/// Waits until the App is installed somewhere; a person may go on without.
pub(super) async fn await_installation(
    session: &SetupSession,
    prompter: &mut Prompter,
) -> Result<(), CliError> {
    let record = session.folder.app()?.ok_or_else(|| CliError::io("there is no App yet"))?;
    let key = session.folder.secret(KEY_FILE)?;
    let client = client(session, record.id, &key)?;
    let interruption = prompter.interruption();
    let page = if let Some(page) = record.html_url {
        page
    } else {
        // Without an answer the name of the place has to do.
        tokio::select! {
            app = client.own_app() => app.map(|app| app.html_url).unwrap_or_default(),
            error = interruption.wait() => return Err(error),
        }
    };
    let page = match page.trim_end_matches('/') {
        "" => "the App's settings at GitHub, Install App".to_owned(),
        page => format!("{page}/installations/new"),
    };
    output::note(&format!(
        "  Install the App on the manifest repository and on those that may deploy:\n\n  \
         {BOLD}{page}{BOLD:#}\n\n"
    ));
    if !prompter.asks() {
        return Ok(());
    }
    output::note("  Waiting for it; press Enter to go on without.\n");
    let mut problem = String::new();
    loop {
        tokio::select! {
            _line = prompter.line() => return Ok(()),
            error = interruption.wait() => return Err(error),
            () = tokio::time::sleep(INSTALLATION_PAUSE) => {}
        }
        match client.installation_accounts().await {
            Ok(accounts) if accounts.is_empty() => {}
            Ok(accounts) => {
                output::note(&format!("  {GOOD}installed{GOOD:#} at {}\n", accounts.join(", ")));
                return Ok(());
            }
            // The next look may succeed; the same problem is not repeated.
            Err(error) if error.to_string() == problem => {}
            Err(error) => {
                problem = error.to_string();
                output::note(&format!("  {}\n", wrap(&format!("GitHub says: {problem}"), 2)));
            }
        }
    }
}
