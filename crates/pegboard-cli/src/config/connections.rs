//! Connection limits and trusted proxies.

use pegboard_config::{
    document::Node,
    keys::{Key, Kind, Scope, Section, Shape, set},
};
use pegboard_http::{ConnectionLimits, InvalidNetwork, Network, TrustedProxies};

use super::Config;

/// The kind of `connections`.
pub(super) const KIND: Kind = Kind::Object(shape);

/// The kind of `trustedProxies`.
pub(super) const NETWORKS: Kind = Kind::List(&NETWORK);

const NETWORK: Kind = Kind::Shaped {
    pattern: r"^([0-9]{1,3}(\.[0-9]{1,3}){3}|[0-9a-fA-F]*:[0-9a-fA-F:.]+)(/[0-9]{1,3})?$",
    fits: "an IP address or a range such as `10.0.0.0/8`",
};

fn shape() -> Shape {
    SECTION.shape()
}

/// The values of `connections`: limits of the listener, and two of the gateway.
#[derive(Debug)]
pub(super) struct ConnectionsDraft {
    listener: ConnectionLimits,
    streams: usize,
    unread_bytes: usize,
}

/// Reads `connections`.
pub(super) fn read(node: &Node<'_>, config: &mut Config, scope: &mut Scope<'_>) {
    let mut draft = ConnectionsDraft {
        listener: config.listen.connections,
        streams: config.gateway.streams_per_caller,
        unread_bytes: config.gateway.unread_bytes_per_caller,
    };
    SECTION.read(node, &mut draft, scope);
    config.listen.connections = draft.listener;
    config.gateway.streams_per_caller = draft.streams;
    config.gateway.unread_bytes_per_caller = draft.unread_bytes;
}

/// Reads `trustedProxies`.
pub(super) fn read_proxies(node: &Node<'_>, scope: &mut Scope<'_>) -> TrustedProxies {
    let mut networks = Vec::new();
    for item in node.as_list(scope.problems).unwrap_or_default() {
        match item.as_text(scope.problems).map(str::parse::<Network>) {
            Some(Ok(network)) => networks.push(network),
            Some(Err(InvalidNetwork)) => item.must_be(NETWORK, scope.problems),
            None => {}
        }
    }
    TrustedProxies(networks)
}

static SECTION: Section<ConnectionsDraft> = Section::new(
    "connections",
    "Limits on concurrent connections. At a limit, an idle connection is closed in favor of the new one, \
     unauthenticated connections first; if none is idle, the new one is answered with 503 and `Retry-After`. The \
     control socket and standard input are not limited.",
    &[
        Key::new(
            "total",
            Kind::Count { least: 1 },
            "Maximum number of connections, not counting reserved ones.",
            |node, draft: &mut ConnectionsDraft, scope| {
                set(&mut draft.listener.total, node.as_count_from(1, scope.problems));
            },
        )
        .default("1024"),
        Key::new(
            "reserved",
            Kind::Count { least: 0 },
            "Additional connections that serve only `/health`, `/ready` and `/control/` when all others are in use.",
            |node, draft: &mut ConnectionsDraft, scope| {
                set(&mut draft.listener.reserved, node.as_count(scope.problems));
            },
        )
        .default("16"),
        Key::new(
            "perAddress",
            Kind::Count { least: 1 },
            "Maximum number of connections from one address, or from one IPv6 /64 network. Behind `trustedProxies`: \
             requests in progress from one address.",
            |node, draft: &mut ConnectionsDraft, scope| {
                set(&mut draft.listener.per_address, node.as_count_from(1, scope.problems));
            },
        )
        .default("512"),
        Key::new(
            "perToken",
            Kind::Count { least: 1 },
            "Maximum number of requests in progress per token, including event streams.",
            |node, draft: &mut ConnectionsDraft, scope| {
                set(&mut draft.listener.per_token, node.as_count_from(1, scope.problems));
            },
        )
        .default("128"),
        Key::new(
            "streamsPerToken",
            Kind::Count { least: 1 },
            "Maximum number of open event streams per token, or per address if there are no tokens.",
            |node, draft: &mut ConnectionsDraft, scope| set(&mut draft.streams, node.as_count_from(1, scope.problems)),
        )
        .default("64"),
        Key::new(
            "unreadBytesPerToken",
            Kind::Count { least: 1 },
            "Maximum size in bytes of responses that clients have not read yet, per token, or per address if there \
             are no tokens. A response over the limit is replaced by an error; a single response is always sent. \
             Responses of up to 64 KiB are not counted.",
            |node, draft: &mut ConnectionsDraft, scope| {
                set(&mut draft.unread_bytes, node.as_count_from(1, scope.problems));
            },
        )
        .default("134217728"),
        Key::new(
            "headerTimeout",
            Kind::Duration { may_be_zero: false },
            "Timeout for an unauthenticated connection to send the headers of a request.",
            |node, draft: &mut ConnectionsDraft, scope| {
                set(&mut draft.listener.header_timeout, node.as_duration(false, scope.problems));
            },
        )
        .default("\"5s\""),
    ],
);
