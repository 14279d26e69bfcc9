//! A proxy as companies have them: it tunnels TLS, sends plain requests on, and wants to know who
//! asks.

use std::io;
use std::sync::{Arc, Mutex};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

/// A head is no longer in any test.
const HEAD: usize = 64 * 1024;

/// A proxy on loopback.
pub(crate) struct Proxy {
    pub(crate) url: String,
    seen: Arc<Mutex<Vec<String>>>,
}

impl Proxy {
    /// For everybody.
    pub(crate) async fn start() -> Self {
        Self::with(None).await
    }

    /// For who has that name and password.
    pub(crate) async fn for_login(name: &str, password: &str) -> Self {
        Self::with(Some(format!("Basic {}", STANDARD.encode(format!("{name}:{password}"))))).await
    }

    async fn with(login: Option<String>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let seen: Arc<Mutex<Vec<String>>> = Arc::default();
        let lines = seen.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (lines, login) = (lines.clone(), login.clone());
                tokio::spawn(async move {
                    let _ends = pass_on(stream, login.as_deref(), &lines).await;
                });
            }
        });
        Self { url, seen }
    }

    /// What was asked of it: `CONNECT 127.0.0.1:443`, `GET http://127.0.0.1:80/`.
    pub(crate) fn seen(&self) -> Vec<String> {
        self.seen.lock().unwrap().clone()
    }
}

async fn pass_on(
    mut client: TcpStream,
    login: Option<&str>,
    lines: &Mutex<Vec<String>>,
) -> io::Result<()> {
    let (head, rest) = head_of(&mut client).await?;
    let (line, headers) = head.split_once("\r\n").unwrap();
    let (method, target) = line.trim_end_matches(" HTTP/1.1").split_once(' ').unwrap();
    lines.lock().unwrap().push(format!("{method} {target}"));
    let given = headers.lines().filter_map(|header| header.split_once(": "));
    let mut given = given.filter(|(name, _)| name.eq_ignore_ascii_case("proxy-authorization"));
    if login.is_some() && given.next().map(|(_, value)| value) != login {
        let refusal = "HTTP/1.1 407 Proxy Authentication Required\r\ncontent-length: 0\r\n\
                       proxy-authenticate: Basic\r\nconnection: close\r\n\r\n";
        return client.write_all(refusal.as_bytes()).await;
    }
    if method == "CONNECT" {
        let mut server = TcpStream::connect(target).await?;
        client.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await?;
        server.write_all(&rest).await?;
        tokio::io::copy_bidirectional(&mut client, &mut server).await?;
        return Ok(());
    }
    // One request a connection: those after it would come with the whole address as well.
    let url = reqwest::Url::parse(target).unwrap();
    let path = target.split_once(url.authority()).unwrap().1;
    let mut server = TcpStream::connect(url.authority()).await?;
    let headers: String = headers
        .split_inclusive("\r\n")
        .filter(|header| !header.to_ascii_lowercase().starts_with("proxy-"))
        .collect();
    let head = format!("{method} {path} HTTP/1.1\r\nconnection: close\r\n{headers}");
    server.write_all(head.as_bytes()).await?;
    server.write_all(&rest).await?;
    tokio::io::copy_bidirectional(&mut client, &mut server).await?;
    Ok(())
}

/// Up to and with the empty line, and what came behind it.
pub(crate) async fn head_of(client: &mut TcpStream) -> io::Result<(String, Vec<u8>)> {
    let mut bytes = Vec::new();
    loop {
        if let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") {
            let rest = bytes.split_off(end + 4);
            return Ok((String::from_utf8(bytes).unwrap(), rest));
        }
        assert!(bytes.len() < HEAD);
        if client.read_buf(&mut bytes).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
}
