//! Restricts requests to public addresses, for host names that developers write or foreign servers redirect to. All
//! other addresses are the operator's network: other services, a cluster's API, a cloud's metadata.
//!
//! Names and written addresses are checked before a request; the addresses that a name resolves to are checked by the
//! client's own resolver when it connects, so that a second answer of the name server cannot differ. Through a proxy
//! the proxy resolves: then only names are checked.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use reqwest::Url;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};

/// A network: an address in it, and the number of leading bits that its addresses share.
pub type Network = (IpAddr, u8);

/// Parses `10.0.0.0/8`, or one address.
pub fn parse_network(text: &str) -> Option<Network> {
    let (address, bits) = match text.split_once('/') {
        Some((address, bits)) => (address, Some(bits)),
        None => (text, None),
    };
    let address: IpAddr = address.parse().ok()?;
    let longest = if address.is_ipv4() { 32 } else { 128 };
    let digits = |bits: &str| bits.bytes().all(|b| b.is_ascii_digit());
    let bits = match bits {
        Some(bits) => bits.parse().ok().filter(|_| digits(bits))?,
        None => longest,
    };
    (bits <= longest).then_some((address, bits))
}

/// Suffixes of names that only mean something in a private network (RFC 6761, 6762 and 8375, ICANN's `internal`,
/// conventions of Kubernetes and companies).
const PRIVATE_SUFFIXES: [&str; 11] = [
    "localhost",
    "localdomain",
    "local",
    "internal",
    "svc",
    "home.arpa",
    "lan",
    "home",
    "corp",
    "intranet",
    "private",
];

/// The networks of IPv4 that are not on the Internet (IANA's special-purpose registry; RFC 6890).
const NOT_PUBLIC_V4: [(Ipv4Addr, u8); 15] = [
    (Ipv4Addr::UNSPECIFIED, 8),           // this network
    (Ipv4Addr::new(10, 0, 0, 0), 8),      // private
    (Ipv4Addr::new(100, 64, 0, 0), 10),   // shared by a carrier's customers
    (Ipv4Addr::new(127, 0, 0, 0), 8),     // loopback
    (Ipv4Addr::new(169, 254, 0, 0), 16),  // link-local: a cloud's metadata
    (Ipv4Addr::new(172, 16, 0, 0), 12),   // private
    (Ipv4Addr::new(192, 0, 0, 0), 24),    // protocol assignments
    (Ipv4Addr::new(192, 0, 2, 0), 24),    // documentation
    (Ipv4Addr::new(192, 88, 99, 0), 24),  // relays to IPv6
    (Ipv4Addr::new(192, 168, 0, 0), 16),  // private
    (Ipv4Addr::new(198, 18, 0, 0), 15),   // benchmarks
    (Ipv4Addr::new(198, 51, 100, 0), 24), // documentation
    (Ipv4Addr::new(203, 0, 113, 0), 24),  // documentation
    (Ipv4Addr::new(224, 0, 0, 0), 4),     // multicast
    (Ipv4Addr::new(240, 0, 0, 0), 4),     // reserved, broadcast
];

/// The only network of IPv6 that is on the Internet.
const GLOBAL_V6: (Ipv6Addr, u8) = (Ipv6Addr::new(0x2000, 0, 0, 0, 0, 0, 0, 0), 3);

/// The exceptions in it.
const NOT_PUBLIC_V6: [(Ipv6Addr, u8); 4] = [
    (Ipv6Addr::new(0x2001, 0, 0, 0, 0, 0, 0, 0), 23), // protocol assignments, Teredo
    (Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 0), 32), // documentation
    (Ipv6Addr::new(0x2002, 0, 0, 0, 0, 0, 0, 0), 16), // 6to4
    (Ipv6Addr::new(0x3fff, 0, 0, 0, 0, 0, 0, 0), 20), // documentation
];

/// NAT64: an IPv4 address in the last four bytes. In a network without IPv4 every public name resolves to such an
/// address.
const NAT64: (Ipv6Addr, u8) = (Ipv6Addr::new(0x64, 0xff9b, 0, 0, 0, 0, 0, 0), 96);

/// A check for addresses on the Internet, or in networks that the operator allows.
#[derive(Debug, Clone, Default)]
pub struct PublicOnly {
    allowed: Vec<Network>,
    /// The hosts of proxies: a client must resolve them, wherever they are.
    proxies: Vec<String>,
}

/// The reason why an address is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AddressRefusal {
    /// The address has no host.
    #[error("there is no host in the address")]
    NoHost,
    /// The name is one of a private network.
    #[error("{0} is a name that only a private network knows")]
    Name(String),
    /// The address is not public.
    #[error("{0} is not a public address")]
    Address(IpAddr),
    /// The name resolves to no public address.
    #[error("{0} resolves to {1}, which is not a public address")]
    LeadsTo(String, IpAddr),
}

impl PublicOnly {
    pub(super) fn new(allowed: Vec<Network>, proxies: Vec<String>) -> Self {
        Self { allowed, proxies }
    }

    /// Checks an address by its host as it is written: a name, or a number in any spelling, which the URL standard
    /// turns into one of four parts.
    ///
    /// # Errors
    /// [`AddressRefusal`] when it cannot be public.
    pub fn check(&self, url: &Url) -> Result<(), AddressRefusal> {
        let host = url.host_str().filter(|host| !host.is_empty()).ok_or(AddressRefusal::NoHost)?;
        if let Ok(address) = host.trim_matches(['[', ']']).parse::<IpAddr>() {
            return if self.allows(address) {
                Ok(())
            } else {
                Err(AddressRefusal::Address(address))
            };
        }
        let name = host.trim_end_matches('.').to_ascii_lowercase();
        if is_private_name(&name) || self.proxies.contains(&name) {
            return Err(AddressRefusal::Name(name));
        }
        Ok(())
    }

    /// Returns whether an address is public or allowed.
    fn allows(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        is_public(address) || self.allowed.iter().any(|network| contains(*network, address))
    }

    /// Keeps those addresses of a name to which the client may connect.
    fn filter(
        &self,
        name: &str,
        addresses: Vec<SocketAddr>,
    ) -> Result<Vec<SocketAddr>, AddressRefusal> {
        if self.proxies.iter().any(|proxy| proxy == &name.to_ascii_lowercase()) {
            return Ok(addresses);
        }
        let first = addresses.first().map(SocketAddr::ip);
        let public: Vec<_> =
            addresses.into_iter().filter(|address| self.allows(address.ip())).collect();
        match first {
            Some(first) if public.is_empty() => {
                Err(AddressRefusal::LeadsTo(name.to_owned(), first))
            }
            _ => Ok(public),
        }
    }
}

impl Resolve for PublicOnly {
    fn resolve(&self, name: Name) -> Resolving {
        let resolver = self.clone();
        Box::pin(async move {
            let addresses = tokio::net::lookup_host((name.as_str(), 0)).await?;
            let public = resolver.filter(name.as_str(), addresses.collect())?;
            Ok(Box::new(public.into_iter()) as Addrs)
        })
    }
}

fn is_private_name(name: &str) -> bool {
    let is_below = |suffix: &&str| {
        name.strip_suffix(*suffix).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
    };
    !name.contains('.') || PRIVATE_SUFFIXES.iter().any(is_below)
}

/// Returns whether an address is on the Internet.
fn is_public(address: IpAddr) -> bool {
    match address.to_canonical() {
        IpAddr::V4(address) => is_public_v4(address),
        IpAddr::V6(address) if contains_v6(NAT64, address) => {
            let [.., a, b, c, d] = address.octets();
            is_public_v4(Ipv4Addr::new(a, b, c, d))
        }
        IpAddr::V6(address) => {
            contains_v6(GLOBAL_V6, address)
                && !NOT_PUBLIC_V6.iter().any(|network| contains_v6(*network, address))
        }
    }
}

fn is_public_v4(address: Ipv4Addr) -> bool {
    let is_within = |(network, bits): &(Ipv4Addr, u8)| {
        contains((IpAddr::V4(*network), *bits), IpAddr::V4(address))
    };
    !NOT_PUBLIC_V4.iter().any(is_within)
}

fn contains_v6((network, bits): (Ipv6Addr, u8), address: Ipv6Addr) -> bool {
    contains((IpAddr::V6(network), bits), IpAddr::V6(address))
}

fn contains((network, bits): Network, address: IpAddr) -> bool {
    let (network, address, width) = match (network.to_canonical(), address) {
        (IpAddr::V4(network), IpAddr::V4(address)) => {
            (u128::from(network.to_bits()), u128::from(address.to_bits()), 32)
        }
        (IpAddr::V6(network), IpAddr::V6(address)) => (network.to_bits(), address.to_bits(), 128),
        _ => return false,
    };
    let rest = width - u32::from(bits).min(width);
    let begin = |bits: u128| bits.checked_shr(rest).unwrap_or_default();
    begin(network) == begin(address)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn guard() -> PublicOnly {
        let allowed = vec![("10.1.0.0".parse().unwrap(), 16), ("fd00::".parse().unwrap(), 8)];
        PublicOnly::new(allowed, vec!["proxy.example.com".to_owned()])
    }

    fn check(host: &str) -> Result<(), AddressRefusal> {
        guard().check(&Url::parse(&format!("https://{host}/")).unwrap())
    }

    #[test]
    fn an_address_is_refused_in_every_spelling() {
        for host in [
            "127.0.0.1",
            "127.0.0.0x1",
            "0x7f.1",
            "2130706433",
            "017700000001",
            "127.1",
            "127.0.0.1.",
            "[::1]",
            "[::ffff:127.0.0.1]",
            "[::ffff:7f00:1]",
            "[::]",
            "0.0.0.0",
            "0",
            "169.254.169.254",
            "0xa9fea9fe",
            "[fe80::1]",
            "[fd12::1%]",
            "10.0.0.1",
            "172.31.255.255",
            "192.168.0.1",
            "100.64.0.1",
            "224.0.0.1",
            "255.255.255.255",
            "192.0.2.1",
            "198.18.0.1",
            "203.0.113.7",
            "[2001:db8::1]",
            "[ff02::1]",
            "[2002:7f00:1::]",
            "[64:ff9b::7f00:1]",
            "[fc00::1]",
            "[::127.0.0.1]",
            "%31%32%37.0.0.1",
            "127。0。0。1",
            "１２７.0.0.1",
        ] {
            let Ok(url) = Url::parse(&format!("https://{host}/")) else { continue };
            assert!(guard().check(&url).is_err(), "{host}: {url}");
        }
        for host in [
            "8.8.8.8",
            "134744072",
            "[2606:4700::1]",
            "[64:ff9b::808:808]",
            "172.32.0.1",
            "10.1.2.3",
            "[fd00::7]",
        ] {
            assert_eq!(check(host), Ok(()), "{host}");
        }
    }

    #[test]
    fn a_name_of_a_private_network_is_refused() {
        for name in [
            "localhost",
            "LOCALHOST",
            "localhost.",
            "a.localhost",
            "registry",
            "kubernetes.default.svc",
            "kubernetes.default.svc.cluster.local",
            "metadata.google.internal",
            "metadata.google.internal.",
            "printer.local",
            "x.home.arpa",
            "proxy.example.com",
            "metadata.google.ｉnternal",
        ] {
            let result = check(name);
            assert!(matches!(result, Err(AddressRefusal::Name(_))), "{name}: {result:?}");
        }
        for name in
            ["ghcr.io", "registry-1.docker.io", "a.example.com.", "mylocal.dev", "svc.example.com"]
        {
            assert_eq!(check(name), Ok(()), "{name}");
        }
    }

    #[test]
    fn of_what_a_name_leads_to_only_the_public_addresses_are_used() {
        let addresses_of = |texts: &[&str]| -> Vec<SocketAddr> {
            texts.iter().map(|text| text.parse().unwrap()).collect()
        };
        let addresses = addresses_of(&["127.0.0.1:0", "8.8.8.8:0", "[::ffff:10.0.0.1]:0"]);
        assert_eq!(
            guard().filter("a.example.com", addresses).unwrap(),
            addresses_of(&["8.8.8.8:0"])
        );
        let error =
            guard().filter("a.example.com", addresses_of(&["169.254.169.254:0"])).unwrap_err();
        assert_eq!(
            error.to_string(),
            "a.example.com resolves to 169.254.169.254, which is not a public address"
        );
        assert!(
            guard().filter("a.example.com", addresses_of(&["[::ffff:10.1.0.1]:0"])).is_ok(),
            "allowed"
        );
        assert!(guard().filter("proxy.example.com", addresses_of(&["10.0.0.1:0"])).is_ok());
        assert_eq!(guard().filter("a.example.com", Vec::new()).unwrap(), []);
    }

    proptest::proptest! {
        #[test]
        fn what_is_mapped_is_judged_as_what_it_maps(bits: u32) {
            let address = Ipv4Addr::from_bits(bits);
            let mapped = IpAddr::V6(address.to_ipv6_mapped());
            proptest::prop_assert_eq!(is_public(mapped), is_public(IpAddr::V4(address)));
            if address.is_private() || address.is_loopback() || address.is_link_local() || address.is_multicast() {
                proptest::prop_assert!(!is_public(mapped));
            }
        }
    }
}
