//! The service in the process of a benchmark, on a port of its own.

use std::net::SocketAddr;
use std::path::Path;

use the_deployer::app::App;
use the_deployer::config::SettingsSources;
use the_deployer::support::clock::Clock;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// The service while it runs.
pub(crate) struct RunningService {
    pub(crate) address: SocketAddr,
    stop: CancellationToken,
    running: JoinHandle<()>,
}

impl RunningService {
    /// Starts it with these variables; what it stores is in that folder.
    pub(crate) async fn start(home: &Path, variables: &[(&str, &str)]) -> Self {
        let listen = ("THE_DEPLOYER_SERVER_LISTEN", "127.0.0.1:0");
        let variables = std::iter::once(&listen).chain(variables);
        let variables = variables.map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
        let sources =
            SettingsSources { file: None, variables: variables.collect(), home: home.to_owned() };
        let settings = sources.load().expect("the settings are right").settings;
        let app = Box::pin(App::build(settings, Clock::system())).await;
        let app = app.expect("the service starts");
        let address = app.address().expect("an address");
        let stop = CancellationToken::new();
        let running = Box::pin(Box::pin(app.run(stop.clone())));
        let running = tokio::spawn(async move { running.await.expect("a clean end") });
        Self { address, stop, running }
    }

    /// Stops it, and waits for its end.
    pub(crate) async fn end(self) {
        self.stop.cancel();
        self.running.await.expect("no fault");
    }
}
