//! Finds the client address of a request, behind trusted proxies. Pure.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use axum::extract::ConnectInfo;
use axum::http::{Extensions, HeaderMap};

/// The trusted proxies as networks: an address and the number of leading bits.
#[derive(Debug, Clone, Default)]
pub struct Proxies(pub Vec<(IpAddr, u8)>);

/// The number of proxies in a row that are followed.
const MAX_HOPS: usize = 20;

impl Proxies {
    pub(crate) fn contain(&self, address: IpAddr) -> bool {
        self.0.iter().any(|(network, bits)| is_in(address, *network, *bits))
    }

    /// Returns the client address of a request. The header is believed as far back as trusted proxies go: anybody may
    /// have written what is before them.
    pub(super) fn origin(&self, peer: IpAddr, headers: &HeaderMap) -> IpAddr {
        let mut origin = peer.to_canonical();
        // A header before the proxy's own may have any bytes, which do not make the proxy's wrong.
        let hops = headers.get_all("x-forwarded-for").iter();
        let hops: Vec<_> = hops.map(|line| String::from_utf8_lossy(line.as_bytes())).collect();
        let hops: Vec<&str> = hops.iter().flat_map(|line| line.split(',')).map(str::trim).collect();
        for hop in hops.into_iter().rev().take(MAX_HOPS) {
            if !self.contain(origin) {
                break;
            }
            let Some(previous) = address(hop) else { break };
            origin = previous.to_canonical();
        }
        origin
    }
}

/// Returns the peer's address, if the server listens on a socket.
pub(super) fn peer(extensions: &Extensions) -> Option<IpAddr> {
    extensions.get::<ConnectInfo<SocketAddr>>().map(|ConnectInfo(peer)| peer.ip())
}

/// Returns the text that stands for the subscriber of an address: in IPv6 one subscriber has a whole network of 64
/// bits.
pub(crate) fn subscriber(address: IpAddr) -> String {
    match address {
        IpAddr::V4(_) => address.to_string(),
        IpAddr::V6(v6) => {
            let network = Ipv6Addr::from_bits(v6.to_bits() >> 64 << 64);
            format!("{network}/64")
        }
    }
}

/// Parses an address; some proxies add a port.
fn address(text: &str) -> Option<IpAddr> {
    let address = text.trim_start_matches('[').trim_end_matches(']');
    let address = address.parse().ok();
    address.or_else(|| text.parse().ok().map(|address: SocketAddr| address.ip()))
}

fn is_in(address: IpAddr, network: IpAddr, bits: u8) -> bool {
    match (address.to_canonical(), network) {
        (IpAddr::V4(address), IpAddr::V4(network)) => {
            let (address, network) = (u128::from(address.to_bits()), u128::from(network.to_bits()));
            share(address, network, 32, bits)
        }
        (IpAddr::V6(address), IpAddr::V6(network)) => {
            share(address.to_bits(), network.to_bits(), 128, bits)
        }
        _ => false,
    }
}

fn share(address: u128, network: u128, width: u32, bits: u8) -> bool {
    let host_bits = width.saturating_sub(u32::from(bits));
    (address ^ network).checked_shr(host_bits).unwrap_or(0) == 0
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    fn from(peer: &str, hops: &[&'static str]) -> String {
        let proxies = Proxies(vec![(ip("10.0.0.0"), 8), (ip("fd00::1"), 128)]);
        let mut headers = HeaderMap::new();
        for line in hops {
            headers.append("x-forwarded-for", HeaderValue::from_bytes(line.as_bytes()).unwrap());
        }
        proxies.origin(ip(peer), &headers).to_string()
    }

    #[test]
    fn only_what_our_own_proxies_say_is_believed() {
        for (peer, hops, origin) in [
            ("192.0.2.1", &[][..], "192.0.2.1"),
            ("192.0.2.1", &["198.51.100.7"], "192.0.2.1"),
            ("10.1.2.3", &["198.51.100.7"], "198.51.100.7"),
            ("10.1.2.3", &["1.2.3.4, 198.51.100.7, 10.9.9.9"], "198.51.100.7"),
            ("10.1.2.3", &["1.2.3.4", "198.51.100.7", "10.9.9.9"], "198.51.100.7"),
            ("10.1.2.3", &["198.51.100.7:4711"], "198.51.100.7"),
            ("10.1.2.3", &["[2001:db8::1]:443"], "2001:db8::1"),
            ("fd00::1", &["2001:db8::1"], "2001:db8::1"),
            ("fd00::2", &["2001:db8::1"], "fd00::2"),
            ("::ffff:10.1.2.3", &["198.51.100.7"], "198.51.100.7"),
            ("10.1.2.3", &["unknown"], "10.1.2.3"),
            ("10.1.2.3", &["198.51.100.7, junk"], "10.1.2.3"),
            ("10.1.2.3", &[""], "10.1.2.3"),
            ("10.1.2.3", &["\u{fc}, 198.51.100.7"], "198.51.100.7"),
        ] {
            assert_eq!(from(peer, hops), origin, "{peer} {hops:?}");
        }
    }

    #[test]
    fn a_network_of_no_bits_is_everybody_and_one_of_all_is_one() {
        assert!(is_in(ip("8.8.8.8"), ip("0.0.0.0"), 0) && is_in(ip("::1"), ip("::"), 0));
        assert!(is_in(ip("10.0.0.1"), ip("10.0.0.1"), 32));
        assert!(!is_in(ip("10.0.0.2"), ip("10.0.0.1"), 32));
        assert!(!is_in(ip("::1"), ip("0.0.0.0"), 0));
    }

    #[test]
    fn a_subscriber_of_ipv6_is_counted_as_one() {
        assert_eq!(subscriber(ip("2001:db8:1:2:3::4")), "2001:db8:1:2::/64");
        assert_eq!(subscriber(ip("192.0.2.1")), "192.0.2.1");
    }
}
