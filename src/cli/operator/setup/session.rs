//! What all steps of one run share: the folder, the answers, and the connections to the outside.

use std::path::PathBuf;
use std::time::Duration;

use super::answers::{ANSWERS_FILE, RunsOn, SetupAnswers};
use super::configuration_text::{self, ConfigFacts, ConfigPlaces};
use super::folder::{CLIENT_SECRET_FILE, CONFIG_FILE, SetupFolder, read_file};
use crate::app::StartError;
use crate::app::prepare::{PrepareOptions, Prepared, prepare_all};
use crate::cli::error::CliError;
use crate::cli::kubeconfig;
use crate::cli::output::{self, GOOD};
use crate::cli::settings::write_private;
use crate::config::settings::Settings;
use crate::config::{self, SettingsSources};
use crate::support::clock::Clock;
use crate::support::http::{OutboundHttp, install_tls_provider, read_authorities};

/// The longest connection.
const CONNECT: Duration = Duration::from_secs(10);

/// One run of the setup.
#[derive(Debug)]
pub(super) struct SetupSession {
    pub(super) folder: SetupFolder,
    pub(super) answers: SetupAnswers,
    pub(super) outbound: OutboundHttp,
}

impl SetupSession {
    pub(super) fn new(folder: SetupFolder, answers: SetupAnswers) -> Result<Self, CliError> {
        install_tls_provider();
        let outbound = match &answers.ca {
            None => OutboundHttp::default(),
            Some(file) => {
                let pem = std::fs::read(file).map_err(CliError::file("read", file))?;
                let authorities = read_authorities(&pem).filter(|all| !all.is_empty());
                let authorities = authorities.ok_or_else(|| {
                    let name = file.display();
                    CliError::usage(format!("{name} has no whole certificate of an authority"))
                        .hint("name a file with certificates as PEM with --ca")
                })?;
                OutboundHttp { authorities, ..OutboundHttp::default() }
            }
        };
        Ok(Self { folder, answers, outbound })
    }

    /// Returns a client for GitHub, which follows no redirects.
    pub(super) fn http(&self) -> Result<reqwest::Client, CliError> {
        self.outbound.client_without_redirects(CONNECT).map_err(CliError::failed)
    }

    /// Returns the sources of the settings that the answers make, for the manifest repository: without clusters, whose
    /// files the configuration decides. `None` if there is no App yet.
    pub(super) fn repository_sources(&self) -> Result<Option<SettingsSources>, CliError> {
        let answers = SetupAnswers { clusters: Vec::new(), ..self.answers.clone() };
        let Some(facts) = self.config_facts()? else { return Ok(None) };
        let places = ConfigPlaces::on_this_machine(&self.folder);
        Ok(Some(self.sources(configuration_text::render(&answers, &facts, &places))))
    }

    /// Returns the sources of the settings of the configuration that is there; `None` if there is none yet.
    pub(super) fn file_sources(&self) -> Result<Option<SettingsSources>, CliError> {
        let text = read_file(&self.folder.path(CONFIG_FILE))?;
        Ok(text.map(|text| self.sources(self.on_this_machine(&text))))
    }

    /// Returns a configuration's text with the files of this machine in place of a pod's.
    pub(super) fn on_this_machine(&self, text: &str) -> String {
        match self.answers.runs_on() {
            RunsOn::Machine => text.to_owned(),
            RunsOn::Kubernetes => {
                configuration_text::on_this_machine(text, &self.folder, &self.answers)
            }
        }
    }

    /// Returns the sources of the settings of a configuration's text.
    pub(super) fn sources(&self, text: String) -> SettingsSources {
        let mut variables = config::environment();
        // The variables of a service are not those of the setup.
        variables.retain(|name, _| !name.starts_with("THE_DEPLOYER_"));
        let name = self.folder.path(CONFIG_FILE).display().to_string();
        SettingsSources { file: Some((name, text)), variables, home: self.folder.path("data") }
    }

    /// Returns what the configuration is made of; `None` if there is no App yet.
    pub(super) fn config_facts(&self) -> Result<Option<ConfigFacts>, CliError> {
        let Some(app) = self.folder.app()? else { return Ok(None) };
        let has_client_secret = self.folder.contains(CLIENT_SECRET_FILE);
        Ok(Some(ConfigFacts { app, has_client_secret, kubeconfig: self.kubeconfig() }))
    }

    /// Looks at the manifest repositories of settings without changing them, nor the folder: the clones' empty folders go too.
    pub(super) async fn look_at(
        &self,
        settings: &Settings,
        force: bool,
    ) -> Result<Vec<Prepared>, StartError> {
        let root = self.folder.root().to_owned();
        let folders = [self.folder.path("data/clones"), self.folder.path("data"), root];
        let new: Vec<PathBuf> = folders.into_iter().filter(|folder| !folder.exists()).collect();
        let options = PrepareOptions { dry_run: true, probe: true, force };
        let result = prepare_all(settings, options, &Clock::system()).await;
        for folder in new {
            // What is in use by now stays.
            let _is_kept = std::fs::remove_dir(folder);
        }
        result
    }

    /// Pushes what the manifest repositories of some settings lack, and says each commit.
    pub(super) async fn push_missing(
        sources: SettingsSources,
        force: bool,
    ) -> Result<(), CliError> {
        let settings = sources.load_for_rebuild().map_err(CliError::failed)?.settings;
        let options = PrepareOptions { force, ..PrepareOptions::default() };
        let prepared = prepare_all(&settings, options, &Clock::system()).await;
        for repository in prepared.map_err(CliError::failed)? {
            let commit = repository
                .commit
                .map_or("nothing to do".to_owned(), |commit| format!("commit {}", commit.short()));
            output::print(&format!("  {GOOD}pushed{GOOD:#}    {commit}, {}\n", repository.url))?;
        }
        Ok(())
    }

    /// Returns the kubeconfig: that of the answers, or the one that `kubectl` reads.
    pub(super) fn kubeconfig(&self) -> PathBuf {
        let own = || kubeconfig::default_file(&config::environment());
        let usual = || PathBuf::from(".kube/config");
        let path = self.answers.kubeconfig.clone().or_else(own).unwrap_or_else(usual);
        std::path::absolute(&path).unwrap_or(path)
    }

    /// Returns the kubeconfig that commands for a person must name: `None` where `kubectl` reads the same one by itself.
    pub(super) fn named_kubeconfig(&self) -> Option<PathBuf> {
        let is_one = kubeconfig::variable_files(&config::environment()).len() <= 1;
        let is_same = self.answers.kubeconfig.is_none() && is_one;
        (!is_same).then(|| self.kubeconfig())
    }

    /// Stores the answers, unless the file has them.
    pub(super) fn save_answers(&self) -> Result<(), CliError> {
        let path = self.folder.path(ANSWERS_FILE);
        let stored = SetupAnswers::read(&path)?;
        if stored.as_ref() == Some(&self.answers) {
            return Ok(());
        }
        write_private(&path, self.answers.to_text().as_bytes())
    }
}
