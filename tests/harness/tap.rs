//! The way to the database, which can be cut while everything else goes on.

use std::path::Path;

use tempfile::TempDir;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::watch;

use crate::harness::folder;

/// The name that PostgreSQL gives its socket.
const SOCKET: &str = ".s.PGSQL.5432";

/// A socket before that of PostgreSQL.
pub(crate) struct Tap {
    /// The same database, this way.
    pub(crate) url: String,
    cut: watch::Sender<bool>,
    _folder: TempDir,
}

impl Tap {
    /// A way to the database at that URL, which names a socket's folder.
    pub(crate) fn before(url: &str) -> Self {
        let folder = folder::named("deployer-tap");
        let (front, socket) = url.split_once("?host=").unwrap();
        let behind = Path::new(&socket.replace("%2F", "/")).join(SOCKET);
        let listener = UnixListener::bind(folder.path().join(SOCKET)).unwrap();
        let (cut, is_cut) = watch::channel(false);
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let server = UnixStream::connect(&behind).await.unwrap();
                let (asks, hears) = client.into_split();
                let (answers, is_asked) = server.into_split();
                tokio::spawn(pass_on(asks, is_asked, is_cut.clone()));
                tokio::spawn(pass_on(answers, hears, is_cut.clone()));
            }
        });
        let host = folder.path().display().to_string().replace('/', "%2F");
        Self { url: format!("{front}?host={host}"), cut, _folder: folder }
    }

    /// From now on nothing comes through, in neither direction, and no connection ends.
    pub(crate) fn cut(&self) {
        self.cut.send_replace(true);
    }
}

async fn pass_on(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    mut is_cut: watch::Receiver<bool>,
) {
    let mut bytes = vec![0; 64 * 1024];
    loop {
        let read = tokio::select! {
            biased;
            () = until_cut(&mut is_cut) => return std::future::pending().await,
            read = from.read(&mut bytes) => read,
        };
        match read {
            Ok(n) if n > 0 && to.write_all(&bytes[..n]).await.is_ok() => {}
            _ => return,
        }
    }
}

async fn until_cut(is_cut: &mut watch::Receiver<bool>) {
    let _ends_with_the_test = is_cut.wait_for(|cut| *cut).await.is_ok();
}
