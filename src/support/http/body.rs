//! Reads an answer's body up to a limit, so that no server decides how much memory it takes.

use http_body_util::BodyExt;

/// A body, or its beginning.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BoundedBody {
    /// The bytes, up to the limit.
    pub bytes: Vec<u8>,
    /// True if the body was longer.
    pub is_cut: bool,
}

/// Reads the body, up to the limit.
///
/// # Errors
/// When the body breaks off.
pub async fn read_bounded<B>(mut body: B, limit: usize) -> Result<BoundedBody, B::Error>
where
    B: BodyExt<Data: AsRef<[u8]>> + Unpin,
{
    let (mut bytes, mut is_cut) = (Vec::new(), false);
    while !is_cut && let Some(frame) = body.frame().await.transpose()? {
        let Ok(chunk) = frame.into_data() else { continue };
        let chunk = chunk.as_ref();
        let room = limit - bytes.len();
        is_cut = chunk.len() > room;
        bytes.extend_from_slice(chunk.get(..room).unwrap_or(chunk));
    }
    Ok(BoundedBody { bytes, is_cut })
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn read(body: &'static str, limit: usize) -> (String, bool) {
        let body = reqwest::Body::from(body);
        let BoundedBody { bytes, is_cut } = read_bounded(body, limit).await.unwrap();
        (String::from_utf8(bytes).unwrap(), is_cut)
    }

    #[tokio::test]
    async fn a_body_is_read_whole_or_cut_at_the_limit() {
        assert_eq!(read("12345", 6).await, ("12345".to_owned(), false));
        assert_eq!(read("12345", 5).await, ("12345".to_owned(), false));
        assert_eq!(read("12345", 4).await, ("1234".to_owned(), true));
        assert_eq!(read("12345", 0).await, (String::new(), true));
        assert_eq!(read("", 0).await, (String::new(), false));
    }
}
