//! A connection that can be cut: a small proxy between one process and one server behind it.

use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use tempfile::TempDir;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::harness::folder;

/// The name of PostgreSQL's socket in its folder.
const SOCKET: &str = ".s.PGSQL.5432";

/// How a link treats what goes over it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LinkState {
    /// Everything arrives.
    Open,
    /// Nothing arrives, and nobody is told: what was sent arrives when the link opens again.
    Silent,
    /// Connections are cut, and new ones too.
    Closed,
}

/// A proxy on loopback, or on a socket of a folder; it ends when this is dropped.
pub(crate) struct Link {
    state: watch::Sender<LinkState>,
    address: String,
    server: JoinHandle<()>,
    _folder: Option<TempDir>,
}

impl Link {
    /// To a server at `127.0.0.1:PORT`.
    pub(crate) async fn tcp(server: &str) -> Self {
        let server: SocketAddr = server.parse().unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let state = watch::Sender::new(LinkState::Open);
        let sender = state.clone();
        let server = tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let _best_effort = client.set_nodelay(true);
                let state = sender.subscribe();
                tokio::spawn(forward(client, state, async move || {
                    let stream = TcpStream::connect(server).await?;
                    stream.set_nodelay(true)?;
                    Ok(stream)
                }));
            }
        });
        Self { state, address, server, _folder: None }
    }

    /// To the PostgreSQL whose socket is in that folder.
    pub(crate) fn postgres(folder: &Path) -> Self {
        let server: PathBuf = folder.join(SOCKET);
        // A socket's path may not be longer than 107 bytes, so not in a long TMPDIR.
        let folder = folder::named("deployer-link");
        let listener = UnixListener::bind(folder.path().join(SOCKET)).unwrap();
        let address = folder.path().display().to_string();
        let state = watch::Sender::new(LinkState::Open);
        let sender = state.clone();
        let server = tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let (state, server) = (sender.subscribe(), server.clone());
                tokio::spawn(forward(client, state, async move || {
                    UnixStream::connect(server).await
                }));
            }
        });
        Self { state, address, server, _folder: Some(folder) }
    }

    /// Where a client finds it: `127.0.0.1:PORT`, or the folder of its socket.
    pub(crate) fn address(&self) -> &str {
        &self.address
    }

    /// From now on.
    pub(crate) fn set(&self, state: LinkState) {
        self.state.send_replace(state);
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.server.abort();
        self.state.send_replace(LinkState::Closed);
    }
}

/// Carries one connection, as the link lets it.
async fn forward<C, S>(
    client: C,
    mut state: watch::Receiver<LinkState>,
    connect: impl AsyncFnOnce() -> io::Result<S>,
) where
    C: AsyncRead + AsyncWrite,
    S: AsyncRead + AsyncWrite,
{
    if is_closed(&mut state).await {
        return;
    }
    let Ok(server) = connect().await else { return };
    let ((client_reads, client_writes), (server_reads, server_writes)) =
        (tokio::io::split(client), tokio::io::split(server));
    let there = pump(client_reads, server_writes, state.clone());
    let back = pump(server_reads, client_writes, state);
    // One that is cut ends the other too.
    let _cut = tokio::try_join!(there, back);
}

/// Waits while the link is silent.
async fn is_closed(state: &mut watch::Receiver<LinkState>) -> bool {
    let state = state.wait_for(|state| *state != LinkState::Silent).await;
    state.map_or(true, |state| *state == LinkState::Closed)
}

async fn pump(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    mut state: watch::Receiver<LinkState>,
) -> io::Result<()> {
    let mut buffer = vec![0; 16 * 1024];
    loop {
        let mut watched = state.clone();
        let read = tokio::select! {
            read = from.read(&mut buffer) => read?,
            _ = watched.wait_for(|state| *state == LinkState::Closed) => return Err(cut()),
        };
        if is_closed(&mut state).await {
            return Err(cut());
        }
        if read == 0 {
            return to.shutdown().await;
        }
        to.write_all(&buffer[..read]).await?;
    }
}

fn cut() -> io::Error {
    io::ErrorKind::ConnectionReset.into()
}
