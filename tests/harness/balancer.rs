//! A load balancer on loopback: each connection goes to the next of its members, which may come, go and die; and the
//! way back may lose answers.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// It ends when this is dropped.
pub(crate) struct Balancer {
    /// Where clients find it: `http://HOST:PORT`.
    pub(crate) url: String,
    shared: Arc<Mutex<Shared>>,
    serving: JoinHandle<()>,
}

#[derive(Default)]
struct Shared {
    members: Vec<SocketAddr>,
    /// The number of connections so far.
    connections: usize,
    /// The number of answers that are lost from now on.
    losses: usize,
    /// Ends the connections that there are.
    cut: CancellationToken,
}

impl Balancer {
    /// In front of these servers.
    pub(crate) async fn of(members: &[SocketAddr]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let shared = Shared { members: members.to_vec(), ..Shared::default() };
        let shared = Arc::new(Mutex::new(shared));
        let accepting = Arc::clone(&shared);
        let serving = tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let (member, cut) = {
                    let mut shared = accepting.lock().unwrap();
                    shared.connections += 1;
                    let next = shared.connections % shared.members.len().max(1);
                    (shared.members.get(next).copied(), shared.cut.clone())
                };
                let Some(member) = member else { continue };
                let shared = Arc::clone(&accepting);
                tokio::spawn(async move {
                    let carrying = carry(client, member, &shared);
                    let _ends = cut.run_until_cancelled(carrying).await;
                });
            }
        });
        Self { url, shared, serving }
    }

    /// From now on its members are these; connections to others are cut.
    pub(crate) fn lead_to(&self, members: &[SocketAddr]) {
        let mut shared = self.shared.lock().unwrap();
        shared.members = members.to_vec();
        std::mem::take(&mut shared.cut).cancel();
    }

    /// The next answers do not arrive, and neither do those after them on the same connection.
    pub(crate) fn lose_answers(&self, count: usize) {
        self.shared.lock().unwrap().losses = count;
    }

    /// The number of answers that are still to be lost.
    pub(crate) fn losses_left(&self) -> usize {
        self.shared.lock().unwrap().losses
    }
}

impl Drop for Balancer {
    fn drop(&mut self) {
        self.serving.abort();
        self.shared.lock().unwrap().cut.cancel();
    }
}

async fn carry(
    client: TcpStream,
    member: SocketAddr,
    shared: &Mutex<Shared>,
) -> std::io::Result<()> {
    let server = TcpStream::connect(member).await?;
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    let (mut from_client, mut to_client) = client.into_split();
    let (mut from_server, mut to_server) = server.into_split();
    let there = async {
        tokio::io::copy(&mut from_client, &mut to_server).await?;
        to_server.shutdown().await
    };
    let back = async {
        let mut buffer = vec![0; 16 * 1024];
        loop {
            let read = from_server.read(&mut buffer).await?;
            if read == 0 {
                return to_client.shutdown().await;
            }
            let is_lost = {
                let mut shared = shared.lock().unwrap();
                let is_lost = shared.losses > 0;
                shared.losses = shared.losses.saturating_sub(1);
                is_lost
            };
            if is_lost {
                return Err(std::io::ErrorKind::ConnectionReset.into());
            }
            to_client.write_all(&buffer[..read]).await?;
        }
    };
    tokio::try_join!(there, back).map(|_| ())
}
