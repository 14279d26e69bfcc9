//! A proxy between bart and a service: it records the requests, and can break.

use std::sync::Arc;
use std::time::Duration;

use tokio::io::AsyncWriteExt as _;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{broadcast, watch};

use crate::harness::proxy;

/// Longer than anything takes, even where every core is busy.
const PATIENCE: Duration = Duration::from_mins(1);

/// A wire to one service, on loopback. Each connection carries one request.
pub(crate) struct Wire {
    pub(crate) url: String,
    heads: watch::Receiver<Vec<String>>,
    cut: broadcast::Sender<()>,
}

impl Wire {
    /// To the service at `http://HOST:PORT`.
    pub(crate) async fn to(service: &str) -> Self {
        Self::ending_at(Some(service.strip_prefix("http://").unwrap().to_owned())).await
    }

    /// To a service that takes requests and never answers.
    pub(crate) async fn to_nobody() -> Self {
        Self::ending_at(None).await
    }

    async fn ending_at(service: Option<String>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let (send, heads) = watch::channel(Vec::new());
        let (cut, _) = broadcast::channel(1);
        let (send, cuts) = (Arc::new(send), cut.clone());
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (send, service, cuts) = (Arc::clone(&send), service.clone(), cuts.clone());
                tokio::spawn(async move {
                    let _ends = carry(stream, service.as_deref(), &send, &cuts).await;
                });
            }
        });
        Self { url, heads, cut }
    }

    /// The requests with that in their first lines, in order, as soon as there are so many.
    pub(crate) async fn asked(&self, path: &str, times: usize) -> Vec<String> {
        let mut heads = self.heads.clone();
        let enough = heads.wait_for(|heads| of(heads, path).len() >= times);
        let enough = tokio::time::timeout(PATIENCE, enough).await;
        let heads = enough.unwrap_or_else(|_| panic!("{path} is not asked for {times} times"));
        of(&heads.unwrap(), path)
    }

    /// The requests so far with that in their first lines.
    pub(crate) fn asked_so_far(&self, path: &str) -> usize {
        of(&self.heads.borrow(), path).len()
    }

    /// Breaks off all streams of events.
    pub(crate) fn cut(&self) {
        self.cut.send(()).expect("there is a stream to cut");
    }
}

fn of(heads: &[String], path: &str) -> Vec<String> {
    let first = |head: &&String| head.lines().next().is_some_and(|line| line.contains(path));
    heads.iter().filter(first).cloned().collect()
}

async fn carry(
    mut client: TcpStream,
    service: Option<&str>,
    heads: &watch::Sender<Vec<String>>,
    cuts: &broadcast::Sender<()>,
) -> std::io::Result<()> {
    let (head, rest) = proxy::head_of(&mut client).await?;
    // Who waits for a request may cut it at once.
    let mut cut = head.lines().next().unwrap().contains("/events").then(|| cuts.subscribe());
    heads.send_modify(|heads| heads.push(head.clone()));
    let Some(service) = service else { return std::future::pending().await };
    let mut server = TcpStream::connect(service).await?;
    server.write_all(head.replacen("\r\n", "\r\nconnection: close\r\n", 1).as_bytes()).await?;
    server.write_all(&rest).await?;
    let cut = async {
        match &mut cut {
            Some(cut) => drop(cut.recv().await),
            None => std::future::pending().await,
        }
    };
    tokio::select! {
        carried = tokio::io::copy_bidirectional(&mut client, &mut server) => carried.map(drop),
        () = cut => Ok(()),
    }
}
