//! Client addresses, and the proxies that are trusted to report them.

use std::{fmt, net::IpAddr, str::FromStr};

use axum::http::HeaderMap;

/// The header with the addresses that a request has passed, the client's first.
const FORWARDED_FOR: &str = "x-forwarded-for";

/// The address by which shares and delays are counted; an extension of every request that came over
/// TCP.
///
/// An IPv4 address counts by itself, an IPv6 address by its /64 network: one host usually has
/// all addresses of such a network and could use another one for every connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PeerAddress(IpAddr);

impl From<IpAddr> for PeerAddress {
    fn from(address: IpAddr) -> Self {
        Self(masked(address.to_canonical(), 64))
    }
}

impl fmt::Display for PeerAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            IpAddr::V4(address) => write!(f, "{address}"),
            IpAddr::V6(network) => write!(f, "{network}/64"),
        }
    }
}

/// A range of addresses: `10.0.0.0/8`, `fd00::/8`, or a single address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Network {
    address: IpAddr,
    prefix: u8,
}

/// A text that is not a range of addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not an IP address or a range such as `10.0.0.0/8`")]
pub struct InvalidNetwork;

impl FromStr for Network {
    type Err = InvalidNetwork;

    fn from_str(text: &str) -> Result<Self, InvalidNetwork> {
        let (address, prefix) = text.split_once('/').map_or((text, None), |(address, prefix)| (address, Some(prefix)));
        let address = address.parse::<IpAddr>().map_err(|_| InvalidNetwork)?;
        let most = bits(address);
        let prefix = match prefix {
            Some(prefix) => prefix.parse::<u8>().ok().filter(|prefix| *prefix <= most).ok_or(InvalidNetwork)?,
            None => most,
        };
        Ok(Self { address, prefix })
    }
}

impl Network {
    /// Whether `address` is in this range. An IPv4 address in IPv6 form is the same address.
    pub fn contains(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        address.is_ipv4() == self.address.is_ipv4()
            && prefix_of(address, self.prefix) == prefix_of(self.address, self.prefix)
    }
}

/// The proxies whose `X-Forwarded-For` header is believed; none by default.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TrustedProxies(pub Vec<Network>);

impl TrustedProxies {
    /// Returns whether `address` is that of a trusted proxy.
    pub fn contains(&self, address: IpAddr) -> bool {
        self.0.iter().any(|network| network.contains(address))
    }

    /// Returns the address of the client behind a connection from `peer`: the last one that a
    /// trusted proxy reports and that is not itself a trusted proxy. Anything further to the left
    /// is an unverified claim of the client.
    pub fn client(&self, peer: IpAddr, headers: &HeaderMap) -> IpAddr {
        let mut client = peer;
        if !self.contains(client) {
            return client;
        }
        let values = headers.get_all(FORWARDED_FOR).iter().rev();
        for hop in values.flat_map(|value| value.to_str().unwrap_or_default().rsplit(',')) {
            let Some(address) = address_of(hop.trim()) else { break };
            client = address;
            if !self.contains(client) {
                break;
            }
        }
        client
    }
}

/// Parses an address with or without a port.
fn address_of(text: &str) -> Option<IpAddr> {
    let bare = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')).unwrap_or(text);
    let with_port = || text.parse::<std::net::SocketAddr>().ok().map(|address| address.ip());
    bare.parse().ok().or_else(with_port)
}

fn bits(address: IpAddr) -> u8 {
    if address.is_ipv4() { 32 } else { 128 }
}

/// Returns the first bits of an address, aligned to the left.
fn prefix_of(address: IpAddr, prefix: u8) -> u128 {
    let all = match address {
        IpAddr::V4(address) => u128::from(u32::from(address)) << 96,
        IpAddr::V6(address) => u128::from(address),
    };
    all & u128::MAX.checked_shl(128 - u32::from(prefix)).unwrap_or(0)
}

/// An IPv6 address with everything after its prefix set to zero; an IPv4 address as it is.
fn masked(address: IpAddr, prefix: u8) -> IpAddr {
    match address {
        IpAddr::V4(_) => address,
        IpAddr::V6(_) => IpAddr::V6(prefix_of(address, prefix).into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(text: &str) -> IpAddr {
        text.parse().expect("an address")
    }

    #[test]
    fn networks() {
        let check = |network: &str, address: &str, expected: bool| {
            let parsed: Network = network.parse().expect("a network");
            assert_eq!(parsed.contains(ip(address)), expected, "{network} {address}");
        };
        check("10.0.0.0/8", "10.255.0.1", true);
        check("10.0.0.0/8", "11.0.0.1", false);
        check("10.1.2.3/8", "10.9.9.9", true);
        check("127.0.0.1", "127.0.0.1", true);
        check("127.0.0.1", "127.0.0.2", false);
        check("127.0.0.1", "::ffff:127.0.0.1", true);
        check("0.0.0.0/0", "8.8.8.8", true);
        check("0.0.0.0/0", "::1", false);
        check("::/0", "2001:db8::1", true);
        check("::/0", "8.8.8.8", false);
        check("fd00::/8", "fdff::1", true);
        check("fd00::/8", "fe80::1", false);
        for wrong in ["", "10.0.0.0/33", "10.0.0/8", "::/129", "10.0.0.0/", "10.0.0.0/-1", "localhost", "10.0.0.0/8/8"]
        {
            assert_eq!(wrong.parse::<Network>(), Err(InvalidNetwork), "{wrong}");
        }
    }

    #[test]
    fn clients_behind_proxies() {
        let proxies = TrustedProxies(["10.0.0.0/8", "::1"].map(|text| text.parse().expect("a network")).to_vec());
        let check = |peer: &str, values: &[&str], expected: &str| {
            let mut headers = HeaderMap::new();
            for value in values {
                headers.append(FORWARDED_FOR, value.parse().expect("a value"));
            }
            assert_eq!(proxies.client(ip(peer), &headers), ip(expected), "{peer} {values:?}");
        };
        check("192.0.2.1", &["1.1.1.1"], "192.0.2.1");
        check("10.0.0.1", &[], "10.0.0.1");
        check("10.0.0.1", &["1.1.1.1"], "1.1.1.1");
        // What is to the left of the first untrusted address was written by the client.
        check("10.0.0.1", &["6.6.6.6, 1.1.1.1"], "1.1.1.1");
        check("10.0.0.1", &["6.6.6.6", "1.1.1.1,10.0.0.2"], "1.1.1.1");
        check("::1", &["[2001:db8::7]:4711"], "2001:db8::7");
        check("::1", &["1.1.1.1:80"], "1.1.1.1");
        check("10.0.0.1", &["1.1.1.1, unknown, 10.0.0.2"], "10.0.0.2");
        check("10.0.0.1", &["10.0.0.3, 10.0.0.2"], "10.0.0.3");
        check("10.0.0.1", &["1.1.1.1,"], "10.0.0.1");
    }

    #[test]
    fn one_host_is_one_peer() {
        let same = |one: &str, other: &str| PeerAddress::from(ip(one)) == PeerAddress::from(ip(other));
        assert!(same("2001:db8::1", "2001:db8::ffff:ffff:ffff:ffff"));
        assert!(!same("2001:db8::1", "2001:db8:0:1::1"));
        assert!(same("::ffff:192.0.2.1", "192.0.2.1"));
        assert!(!same("192.0.2.1", "192.0.2.2"));
        assert_eq!(PeerAddress::from(ip("2001:db8::7")).to_string(), "2001:db8::/64");
        assert_eq!(PeerAddress::from(ip("192.0.2.1")).to_string(), "192.0.2.1");
    }
}
