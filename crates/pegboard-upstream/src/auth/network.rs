//! The kinds of networks that addresses belong to.

use std::{
    fmt,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
};

use serde::{Deserialize, Serialize};

/// The kind of network that an address belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Network {
    /// The internet.
    Public,
    /// This machine.
    Loopback,
    /// A private network (RFC 1918, unique local addresses of IPv6).
    Private,
    /// A network behind carrier-grade NAT (RFC 6598), also of some VPNs.
    Shared,
    /// The devices on the same link; cloud machines have their metadata service there.
    LinkLocal,
    /// Multicast, unspecified and reserved addresses.
    Special,
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Public => "public",
            Self::Loopback => "loopback",
            Self::Private => "private",
            Self::Shared => "shared (carrier-grade NAT)",
            Self::LinkLocal => "link-local",
            Self::Special => "special-purpose",
        })
    }
}

impl Network {
    /// Returns the network of an address. IPv6 addresses that embed an IPv4 address count as that.
    pub(super) fn of(address: IpAddr) -> Self {
        match address {
            IpAddr::V4(address) => Self::of_v4(address),
            IpAddr::V6(address) => Self::of_v6(address),
        }
    }

    /// Returns the network of a host if no name has to be resolved: an IP address or `localhost`.
    pub(super) fn of_host(host: &str) -> Option<Self> {
        let host = host.trim_end_matches('.');
        let literal = host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
        let is_local_name = host.eq_ignore_ascii_case("localhost") || host.to_ascii_lowercase().ends_with(".localhost");
        literal.ok().map(Self::of).or(is_local_name.then_some(Self::Loopback))
    }

    fn of_v4(address: Ipv4Addr) -> Self {
        match address.octets() {
            [127, ..] => Self::Loopback,
            [10, ..] | [192, 168, ..] | [172, 16..=31, ..] => Self::Private,
            [100, 64..=127, ..] => Self::Shared,
            [169, 254, ..] => Self::LinkLocal,
            // This network, protocol assignments, benchmarks, multicast, reserved, broadcast.
            [0, ..] | [192, 0, 0, _] | [198, 18..=19, ..] | [224..=255, ..] => Self::Special,
            _ => Self::Public,
        }
    }

    fn of_v6(address: Ipv6Addr) -> Self {
        let embedded = |high: u16, low: u16| {
            let ([a, b], [c, d]) = (high.to_be_bytes(), low.to_be_bytes());
            Self::of_v4(Ipv4Addr::new(a, b, c, d))
        };
        match address.segments() {
            [0, 0, 0, 0, 0, 0, 0, 0] => Self::Special,
            [0, 0, 0, 0, 0, 0, 0, 1] => Self::Loopback,
            // IPv4-mapped, IPv4-translated, IPv4-compatible, and the prefix of NAT64.
            [0, 0, 0, 0, 0, 0xffff, high, low]
            | [0, 0, 0, 0, 0xffff, 0, high, low]
            | [0, 0, 0, 0, 0, 0, high, low]
            | [0x64, 0xff9b, 0, 0, 0, 0, high, low] => embedded(high, low),
            // Local NAT64, whose meaning only the owner of the network knows.
            [0x64, 0xff9b, 1, ..] => Self::Private,
            // 6to4, and Teredo, which stores the address with inverted bits.
            [0x2002, high, low, ..] => embedded(high, low),
            [0x2001, 0, _, _, _, _, high, low] => embedded(!high, !low),
            [first, ..] if first & 0xfe00 == 0xfc00 => Self::Private,
            // Site-local addresses, which unique local ones have replaced.
            [first, ..] if first & 0xffc0 == 0xfec0 => Self::Private,
            [first, ..] if first & 0xffc0 == 0xfe80 => Self::LinkLocal,
            [first, ..] if first & 0xff00 == 0xff00 => Self::Special,
            // The discard prefix.
            [0x100, 0, 0, 0, ..] => Self::Special,
            _ => Self::Public,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn networks() {
        let check = |addresses: &[&str], expected: Network| {
            for address in addresses {
                assert_eq!(Network::of_host(address), Some(expected), "{address}");
            }
        };
        check(&["8.8.8.8", "172.32.0.1", "100.128.0.1", "192.0.1.1", "[2606:4700::1111]"], Network::Public);
        check(&["[::ffff:8.8.8.8]", "[64:ff9b::808:808]", "[2002:808:808::1]"], Network::Public);
        check(&["127.0.0.1", "127.9.9.9", "[::1]", "[::ffff:127.0.0.1]", "[64:ff9b::7f00:1]"], Network::Loopback);
        check(&["localhost", "LOCALHOST.", "a.localhost", "[::127.0.0.1]", "[2002:7f00:1::]"], Network::Loopback);
        check(&["10.0.0.1", "172.16.0.1", "172.31.255.255", "192.168.1.1", "[fd00::1]", "[fec0::1]"], Network::Private);
        check(&["[::ffff:10.0.0.1]", "[64:ff9b::a00:1]", "[64:ff9b:1::a00:1]", "[::ffff:0:a00:1]"], Network::Private);
        check(&["[2001:0:1:2:3:4:f5ff:fffe]"], Network::Private);
        check(&["100.64.0.1", "100.127.255.255", "[::ffff:100.64.0.1]"], Network::Shared);
        check(&["169.254.169.254", "[fe80::1]", "[64:ff9b::a9fe:a9fe]"], Network::LinkLocal);
        check(&["0.0.0.0", "0.1.2.3", "224.0.0.1", "255.255.255.255", "240.0.0.1", "198.18.0.1"], Network::Special);
        check(&["[::]", "[ff02::1]", "[100::1]", "192.0.0.8"], Network::Special);
        for name in ["example.com", "localhost.example.com", "10.0.0", "notlocalhost"] {
            assert_eq!(Network::of_host(name), None, "{name}");
        }
    }
}
