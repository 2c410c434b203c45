//! Which addresses may be asked on behalf of a server's login.
//!
//! A server names who gives logins for it, and so decides where requests of ours go. One on the
//! internet must not make us ask machines that only we can reach. Names are looked up before a
//! request is made, for a clear refusal; and the connection itself uses addresses that were
//! checked once more, so that a name which means another address by then leads nowhere.

use std::{
    collections::BTreeSet,
    fmt, io,
    net::{IpAddr, SocketAddr},
    pin::Pin,
    sync::{Arc, Mutex},
    time::Duration,
};

use pegboard_core::locks::lock;
use reqwest::{
    Response, Url,
    dns::{Addrs, Name, Resolve, Resolving},
};

use super::network::Network;

/// How long a name may take to be looked up.
const LOOK_UP: Duration = Duration::from_secs(15);

/// A place that may not be asked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum RefusedPlace {
    /// Others could listen in.
    #[error("`{0}` is not a secure URL: it must begin with `https://`")]
    Unencrypted(String),
    /// It is not on the internet, and the server is not there.
    #[error("`{place}` is a {network} address, and the server is not on such a network (`allowPrivateIssuers`)")]
    Private {
        /// The address without its path, which may hold a secret.
        place: String,
        network: Network,
    },
}

/// A look-up of a name.
type LookingUp = Pin<Box<dyn Future<Output = io::Result<Vec<IpAddr>>> + Send>>;

/// Decides which addresses may be asked.
pub(super) struct Guard {
    server: Url,
    /// Whether everything is allowed that is encrypted or on this machine.
    allows_private: bool,
    /// The networks that the server itself is on, beside the internet.
    networks: Mutex<Vec<Network>>,
    /// Hosts that were named by the server, or by those whom it named.
    named: Mutex<BTreeSet<String>>,
    /// The addresses of the server's own name when it was last looked up.
    server_addresses: Mutex<Vec<IpAddr>>,
    look_up: fn(String) -> LookingUp,
}

impl fmt::Debug for Guard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Guard").field("networks", &self.networks).finish_non_exhaustive()
    }
}

impl Guard {
    /// For the server at this address.
    pub(super) fn new(server: &Url, allows_private: bool) -> Arc<Self> {
        Arc::new(Self::with(server, allows_private, |name| Box::pin(look_up(name))))
    }

    fn with(server: &Url, allows_private: bool, look_up: fn(String) -> LookingUp) -> Self {
        let networks = host_of(server).and_then(|host| Network::of_host(&host)).into_iter().collect();
        Self {
            server: server.clone(),
            allows_private,
            networks: Mutex::new(networks),
            named: Mutex::default(),
            server_addresses: Mutex::default(),
            look_up,
        }
    }

    /// Allows a network that the server was on when the login was made.
    pub(super) fn allow(&self, network: Option<Network>) {
        let mut networks = lock(&self.networks);
        if let Some(network) = network.filter(|network| !networks.contains(network)) {
            networks.push(network);
        }
    }

    /// Takes note of the network that the server has answered from. An answer that came through a
    /// proxy says nothing: then its name was not looked up here.
    pub(super) fn learn_from(&self, answer: &Response) {
        let address = answer.remote_addr().map(|address| address.ip());
        let known = address.filter(|address| lock(&self.server_addresses).contains(address));
        self.allow(known.map(Network::of));
    }

    /// The network of the server, if it is not on the internet.
    pub(super) fn network(&self) -> Option<Network> {
        lock(&self.networks).iter().copied().find(|network| *network != Network::Public)
    }

    fn allows(&self, network: Network) -> bool {
        let is_opted_in = self.allows_private && network != Network::Special;
        network == Network::Public || is_opted_in || lock(&self.networks).contains(&network)
    }

    /// Refuses an address that is unsafe as it is written.
    pub(super) fn check(&self, url: &Url) -> Result<(), RefusedPlace> {
        let place = || url.origin().ascii_serialization();
        let is_web = matches!(url.scheme(), "http" | "https");
        let network = host_of(url).and_then(|host| Network::of_host(&host));
        match network.filter(|_| is_web) {
            Some(network) if !self.allows(network) => Err(RefusedPlace::Private { place: place(), network }),
            // Nobody listens in on this machine.
            Some(Network::Loopback) => Ok(()),
            _ if url.scheme() == "https" && url.has_host() => Ok(()),
            _ => Err(RefusedPlace::Unencrypted(place())),
        }
    }

    /// Refuses an address that is unsafe as it is written, or whose name means an address that
    /// is. From now on, connections to it are guarded.
    pub(super) async fn check_place(&self, url: &Url) -> Result<(), RefusedPlace> {
        self.check(url)?;
        let Some(host) = host_of(url).filter(|host| Network::of_host(host).is_none()) else { return Ok(()) };
        if Some(&host) == host_of(&self.server).as_ref() {
            return Ok(());
        }
        lock(&self.named).insert(host.clone());
        // A name that nobody knows here may be known to a proxy; without one, connecting fails.
        let addresses = (self.look_up)(host).await.unwrap_or_default();
        match self.refused_among(&addresses) {
            Some(network) => Err(RefusedPlace::Private { place: url.origin().ascii_serialization(), network }),
            None => Ok(()),
        }
    }

    /// The network of the first address that may not be asked. One is enough to refuse all:
    /// which of them is used is not ours to say.
    fn refused_among(&self, addresses: &[IpAddr]) -> Option<Network> {
        addresses.iter().map(|address| Network::of(*address)).find(|network| !self.allows(*network))
    }

    /// The addresses to connect to for a name.
    async fn connectable(&self, host: String) -> io::Result<Vec<IpAddr>> {
        let is_server = Some(&host) == host_of(&self.server).as_ref();
        // Without redirects, a name that is neither the server's nor was named is a proxy's.
        let is_guarded = !is_server && lock(&self.named).contains(&host);
        let addresses = (self.look_up)(host.clone()).await?;
        if is_server {
            lock(&self.server_addresses).clone_from(&addresses);
        }
        match self.refused_among(&addresses).filter(|_| is_guarded) {
            Some(network) => {
                Err(io::Error::new(io::ErrorKind::PermissionDenied, RefusedPlace::Private { place: host, network }))
            }
            None => Ok(addresses),
        }
    }
}

/// Looks names up for connections.
#[derive(Clone, Debug)]
pub(super) struct GuardedNames(pub(super) Arc<Guard>);

impl Resolve for GuardedNames {
    fn resolve(&self, name: Name) -> Resolving {
        let guard = Arc::clone(&self.0);
        Box::pin(async move {
            let addresses = guard.connectable(canonical_host(name.as_str())).await?;
            let addresses: Addrs = Box::new(addresses.into_iter().map(|address| SocketAddr::new(address, 0)));
            Ok(addresses)
        })
    }
}

async fn look_up(name: String) -> io::Result<Vec<IpAddr>> {
    let found = tokio::time::timeout(LOOK_UP, tokio::net::lookup_host((name, 0))).await?;
    Ok(found?.map(|address| address.ip()).collect())
}

fn host_of(url: &Url) -> Option<String> {
    url.host_str().map(canonical_host)
}

fn canonical_host(host: &str) -> String {
    host.trim_end_matches('.').to_ascii_lowercase()
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    /// Names as the tests know them; `rebinds` means something else each time.
    #[expect(clippy::needless_pass_by_value, reason = "the signature of a look-up")]
    fn names(name: String) -> LookingUp {
        static ASKED: AtomicUsize = AtomicUsize::new(0);
        let addresses: &[&str] = match name.as_str() {
            "public.example" | "mcp.example" => &["93.184.216.34"],
            "private.example" | "mcp.intern" | "issuer.intern" => &["10.1.2.3"],
            "mixed.example" => &["93.184.216.34", "fd00::1"],
            "metadata.example" => &["169.254.169.254"],
            "rebinds.example" if ASKED.fetch_add(1, Ordering::Relaxed) == 0 => &["93.184.216.34"],
            "rebinds.example" => &["127.0.0.1"],
            _ => &[],
        };
        let addresses = addresses.iter().filter_map(|address| address.parse().ok()).collect();
        Box::pin(std::future::ready(Ok(addresses)))
    }

    fn url(text: &str) -> Url {
        Url::parse(text).expect("an address")
    }

    #[tokio::test]
    async fn places_that_may_be_asked() {
        let check = async |server: &str, allows: bool, place: &str, expected: Option<&str>| {
            let guard = Guard::with(&url(server), allows, names);
            let found = guard.check_place(&url(place)).await.err().map(|refused| refused.to_string());
            let is_fine = match (&found, expected) {
                (Some(found), Some(expected)) => found.contains(expected),
                (found, expected) => found.is_none() && expected.is_none(),
            };
            assert!(is_fine, "{server} {place}: {found:?}");
        };
        let (far, near, intern) = ("https://mcp.example/mcp", "http://127.0.0.1:8080/mcp", "https://10.9.9.9/mcp");
        for server in [far, near, intern] {
            check(server, false, "https://public.example/token", None).await;
            check(server, false, "http://public.example/token?x", Some("`http://public.example` is not a secure"))
                .await;
            check(server, false, "file:///etc/passwd", Some("not a secure URL")).await;
            check(server, false, "https://metadata.example/", Some("is a link-local address")).await;
            check(server, false, "https://mixed.example/", if server == intern { None } else { Some("is a private") })
                .await;
            check(server, true, "https://private.example/", None).await;
            check(server, true, "http://10.0.0.1/", Some("not a secure URL")).await;
            check(server, true, "http://127.0.0.1:9/", None).await;
        }
        check(far, false, "https://private.example/token", Some("`https://private.example` is a private address"))
            .await;
        check(far, false, "https://[::ffff:10.0.0.1]/", Some("is a private address")).await;
        check(far, false, "https://0x7f.1/", Some("`https://127.0.0.1` is a loopback address")).await;
        check(far, false, "http://LOCALHOST./x", Some("is a loopback address")).await;
        // The same kind of network as the server's, and no other.
        check(near, false, "http://localhost:9000/token", None).await;
        check(near, false, "http://[::1]:9000/token", None).await;
        check(near, false, "https://10.0.0.1/token", Some("is a private address")).await;
        check(intern, false, "https://private.example/token", None).await;
        check(intern, false, "https://127.0.0.1/token", Some("is a loopback address")).await;
        // The server's own host is where the configuration says.
        check("https://mcp.intern/mcp", false, "https://mcp.intern/.well-known/x", None).await;
        check("https://mcp.intern/mcp", false, "https://issuer.intern/", Some("is a private address")).await;
    }

    #[tokio::test]
    async fn connections_are_checked_again() {
        let guard = Guard::with(&url("https://mcp.example/mcp"), false, names);
        guard.check_place(&url("https://rebinds.example/token")).await.expect("it is public at first");
        let refused = guard.connectable("rebinds.example".to_owned()).await.expect_err("it is not any more");
        assert!(refused.to_string().contains("is a loopback address"), "{refused}");
        // A name that nobody has named is the one of a proxy.
        assert_eq!(guard.connectable("private.example".to_owned()).await.expect("addresses").len(), 1);
    }

    #[tokio::test]
    async fn a_login_stays_on_the_network_of_its_server() {
        let guard = Guard::with(&url("https://mcp.intern/mcp"), false, names);
        assert_eq!(guard.network(), None);
        guard.allow(Some(Network::Private));
        assert_eq!(guard.network(), Some(Network::Private));
        guard.check_place(&url("https://issuer.intern/")).await.expect("the same network");
    }
}
