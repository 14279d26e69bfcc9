//! Hosts in URLs.

use std::net::IpAddr;

use reqwest::Url;

/// Checks that requests to the host (`localhost`, `127.0.0.1`, `[::1]`; without a port) stay on
/// this machine.
pub fn is_loopback(host: &str) -> bool {
    let bare = host.trim_start_matches('[').trim_end_matches(']').trim_end_matches('.');
    let is_local = |ip: IpAddr| ip.to_canonical().is_loopback();
    bare.eq_ignore_ascii_case("localhost") || bare.parse().is_ok_and(is_local)
}

/// Checks that requests to a host that may have a port stay on this machine: `localhost:5000`,
/// `[::1]:5000`.
pub fn is_loopback_authority(authority: &str) -> bool {
    let port =
        authority.rsplit_once(':').filter(|(_, port)| port.bytes().all(|b| b.is_ascii_digit()));
    let host = port.map(|(host, _)| host).filter(|host| !host.contains(':') || host.ends_with(']'));
    is_loopback(host.unwrap_or(authority))
}

/// Checks that requests to the address stay on this machine.
pub fn is_local(url: &Url) -> bool {
    url.host_str().is_some_and(is_loopback)
}

/// Checks that requests to the address are encrypted, or stay on this machine.
pub fn is_encrypted_or_local(address: &str) -> bool {
    Url::parse(address).is_ok_and(|url| match url.scheme() {
        "https" => url.has_host(),
        "http" => is_local(&url),
        _ => false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_this_machine_is_loopback() {
        for host in [
            "localhost",
            "LOCALHOST.",
            "127.0.0.1",
            "127.1.2.3",
            "::1",
            "[::1]",
            "::ffff:127.0.0.1",
        ] {
            assert!(is_loopback(host), "{host}");
        }
        for host in
            ["", "localhost.example.com", "10.0.0.1", "128.0.0.1", "[::2]", "127.0.0.1.example.com"]
        {
            assert!(!is_loopback(host), "{host}");
        }
        for authority in
            ["localhost:5000", "127.0.0.1:80", "[::1]:8080", "[::1]", "::1", "localhost"]
        {
            assert!(is_loopback_authority(authority), "{authority}");
        }
        for authority in
            ["registry.example.com:5000", "10.0.0.1:80", "[::2]:1", ":5000", "localhost:x"]
        {
            assert!(!is_loopback_authority(authority), "{authority}");
        }
    }
}
