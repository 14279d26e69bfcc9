//! The requests of a browser to a port of this machine, to which another site leads it back.

use tokio::io::{AsyncRead, AsyncReadExt as _};

/// The longest head of a browser's request, in bytes.
const MAX_HEAD: usize = 16 * 1024;

/// Reads the head of a request; `None` if there is none, or too much of it. The caller has the deadline.
pub(super) async fn read_head(stream: &mut (impl AsyncRead + Unpin)) -> Option<String> {
    let (mut head, mut part) = (Vec::new(), [0; 2048]);
    while !head.windows(4).any(|end| end == b"\r\n\r\n") {
        let read = stream.read(&mut part).await.ok().filter(|read| *read > 0)?;
        head.extend_from_slice(part.get(..read)?);
        if head.len() > MAX_HEAD {
            return None;
        }
    }
    String::from_utf8(head).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_head_has_an_end_and_a_bound() {
        let whole = "GET / HTTP/1.1\r\nhost: a\r\n\r\n";
        assert_eq!(read_head(&mut whole.as_bytes()).await.as_deref(), Some(whole));
        assert_eq!(read_head(&mut "GET / HTTP/1.1\r\n".as_bytes()).await, None, "no end");
        let endless = format!("GET /{}", "a".repeat(2 * MAX_HEAD));
        let mut rest = endless.as_bytes();
        assert_eq!(read_head(&mut rest).await, None);
        assert!(rest.len() + MAX_HEAD + 2048 >= endless.len(), "{} bytes are left", rest.len());
        assert_eq!(read_head(&mut [0xff; 4].chain(&b"\r\n\r\n"[..])).await, None, "no text");
    }
}
