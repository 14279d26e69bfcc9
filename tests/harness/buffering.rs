//! A proxy in front of a service that passes an answer on when it is whole, so that nothing of a stream ever arrives.

use std::net::SocketAddr;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

use crate::harness::proxy::head_of;

/// It ends when this is dropped.
pub(crate) struct BufferingProxy {
    /// Where clients find it: `http://HOST:PORT`.
    pub(crate) url: String,
    serving: JoinHandle<()>,
}

impl BufferingProxy {
    /// In front of a server at `127.0.0.1:PORT`.
    pub(crate) async fn before(server: &str) -> Self {
        let server: SocketAddr = server.parse().unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let serving = tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                tokio::spawn(async move {
                    let _ends = carry(client, server).await;
                });
            }
        });
        Self { url, serving }
    }
}

impl Drop for BufferingProxy {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

/// Carries one request without a body, and its answer; gives up when the client does.
async fn carry(mut client: TcpStream, server: SocketAddr) -> std::io::Result<()> {
    let (head, _) = head_of(&mut client).await?;
    let (line, headers) = head.split_once("\r\n").unwrap();
    let mut server = TcpStream::connect(server).await?;
    let kept = headers.split_inclusive("\r\n");
    let kept = kept.filter(|header| !header.to_ascii_lowercase().starts_with("connection:"));
    let kept: String = kept.collect();
    server.write_all(format!("{line}\r\nconnection: close\r\n{kept}").as_bytes()).await?;
    let (mut answer, mut nothing) = (Vec::new(), [0; 1]);
    tokio::select! {
        whole = server.read_to_end(&mut answer) => drop(whole?),
        _ = client.read(&mut nothing) => return Ok(()),
    }
    client.write_all(&answer).await?;
    client.shutdown().await
}
