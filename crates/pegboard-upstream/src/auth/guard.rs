//! Protection against server-side request forgery (SSRF) in logins.
//!
//! A server names its authorization server, and so decides where requests of this process go. A
//! server on the internet must not make it contact hosts that only this machine can reach. Names
//! are resolved before a request, for a clear error; and the connection itself uses addresses that
//! were checked again, so that a name that is rebound meanwhile has no effect.

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

/// Timeout for resolving a name.
const RESOLVE_TIMEOUT: Duration = Duration::from_secs(15);

/// The error of a URL that must not be requested.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum RefusedUrl {
    /// The URL is not encrypted.
    #[error("`{0}` is not a secure URL: it must begin with `https://`")]
    Unencrypted(String),
    /// The address is on a private network, and the server is not.
    #[error("`{place}` is a {network} address, and the server is not on such a network (`allowPrivateIssuers`)")]
    Private {
        /// The URL without its path, which may hold a secret.
        place: String,
        network: Network,
    },
}

/// The future of resolving a name.
type ResolveFuture = Pin<Box<dyn Future<Output = io::Result<Vec<IpAddr>>> + Send>>;

/// Decides which URLs may be requested for the login of a server.
pub(super) struct UrlGuard {
    server: Url,
    /// Whether all URLs are allowed that are encrypted or on this machine.
    allows_private: bool,
    /// The networks of the server itself, in addition to the internet.
    networks: Mutex<Vec<Network>>,
    /// Hosts that were named by the server or by its authorization servers.
    named: Mutex<BTreeSet<String>>,
    /// The addresses of the server's own name when it was last resolved.
    server_addresses: Mutex<Vec<IpAddr>>,
    resolve: fn(String) -> ResolveFuture,
}

impl fmt::Debug for UrlGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UrlGuard").field("networks", &self.networks).finish_non_exhaustive()
    }
}

impl UrlGuard {
    /// Creates the guard for the server at this URL.
    pub(super) fn new(server: &Url, allows_private: bool) -> Arc<Self> {
        Arc::new(Self::with(server, allows_private, |name| Box::pin(resolve(name))))
    }

    fn with(server: &Url, allows_private: bool, resolve: fn(String) -> ResolveFuture) -> Self {
        let networks = host_of(server).and_then(|host| Network::of_host(&host)).into_iter().collect();
        Self {
            server: server.clone(),
            allows_private,
            networks: Mutex::new(networks),
            named: Mutex::default(),
            server_addresses: Mutex::default(),
            resolve,
        }
    }

    /// Allows the network that the server was on when the login was made.
    pub(super) fn allow_network(&self, network: Option<Network>) {
        let mut networks = lock(&self.networks);
        if let Some(network) = network.filter(|network| !networks.contains(network)) {
            networks.push(network);
        }
    }

    /// Allows the network that the server has answered from. An answer through a proxy allows
    /// nothing, because then the name was not resolved here.
    pub(super) fn allow_network_of(&self, answer: &Response) {
        let address = answer.remote_addr().map(|address| address.ip());
        let known = address.filter(|address| lock(&self.server_addresses).contains(address));
        self.allow_network(known.map(Network::of));
    }

    /// Returns the network of the server, if it is not on the internet.
    pub(super) fn network(&self) -> Option<Network> {
        lock(&self.networks).iter().copied().find(|network| *network != Network::Public)
    }

    fn allows(&self, network: Network) -> bool {
        let is_opted_in = self.allows_private && network != Network::Special;
        network == Network::Public || is_opted_in || lock(&self.networks).contains(&network)
    }

    /// Checks a URL without resolving its host.
    pub(super) fn check(&self, url: &Url) -> Result<(), RefusedUrl> {
        let place = || url.origin().ascii_serialization();
        let is_web = matches!(url.scheme(), "http" | "https");
        let network = host_of(url).and_then(|host| Network::of_host(&host));
        match network.filter(|_| is_web) {
            Some(network) if !self.allows(network) => Err(RefusedUrl::Private { place: place(), network }),
            // Loopback needs no encryption.
            Some(Network::Loopback) => Ok(()),
            _ if url.scheme() == "https" && url.has_host() => Ok(()),
            _ => Err(RefusedUrl::Unencrypted(place())),
        }
    }

    /// Checks a URL and the addresses of its host. From now on, connections to it are guarded.
    pub(super) async fn check_resolved(&self, url: &Url) -> Result<(), RefusedUrl> {
        self.check(url)?;
        let Some(host) = host_of(url).filter(|host| Network::of_host(host).is_none()) else { return Ok(()) };
        if Some(&host) == host_of(&self.server).as_ref() {
            return Ok(());
        }
        lock(&self.named).insert(host.clone());
        // A name that cannot be resolved here may be known to a proxy; without one, connecting fails.
        let addresses = (self.resolve)(host).await.unwrap_or_default();
        match self.first_refused_network(&addresses) {
            Some(network) => Err(RefusedUrl::Private { place: url.origin().ascii_serialization(), network }),
            None => Ok(()),
        }
    }

    /// Returns the network of the first address that is not allowed. One is enough to reject the
    /// host, because any of its addresses may be used.
    fn first_refused_network(&self, addresses: &[IpAddr]) -> Option<Network> {
        addresses.iter().map(|address| Network::of(*address)).find(|network| !self.allows(*network))
    }

    /// Returns the addresses to connect to for a name.
    async fn resolve_for_connection(&self, host: String) -> io::Result<Vec<IpAddr>> {
        let is_server = Some(&host) == host_of(&self.server).as_ref();
        // Without redirects, a name that is neither the server's nor was named belongs to a proxy.
        let is_guarded = !is_server && lock(&self.named).contains(&host);
        let addresses = (self.resolve)(host.clone()).await?;
        if is_server {
            lock(&self.server_addresses).clone_from(&addresses);
        }
        match self.first_refused_network(&addresses).filter(|_| is_guarded) {
            Some(network) => {
                Err(io::Error::new(io::ErrorKind::PermissionDenied, RefusedUrl::Private { place: host, network }))
            }
            None => Ok(addresses),
        }
    }
}

/// The resolver of the HTTP client, which rejects addresses that are not allowed.
#[derive(Clone, Debug)]
pub(super) struct GuardedResolver(pub(super) Arc<UrlGuard>);

impl Resolve for GuardedResolver {
    fn resolve(&self, name: Name) -> Resolving {
        let guard = Arc::clone(&self.0);
        Box::pin(async move {
            let addresses = guard.resolve_for_connection(canonical_host(name.as_str())).await?;
            let addresses: Addrs = Box::new(addresses.into_iter().map(|address| SocketAddr::new(address, 0)));
            Ok(addresses)
        })
    }
}

async fn resolve(name: String) -> io::Result<Vec<IpAddr>> {
    let found = tokio::time::timeout(RESOLVE_TIMEOUT, tokio::net::lookup_host((name, 0))).await?;
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

    /// Resolves the names of the tests; `rebinds` has another address each time.
    #[expect(clippy::needless_pass_by_value, reason = "the signature of a look-up")]
    fn names(name: String) -> ResolveFuture {
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
            let guard = UrlGuard::with(&url(server), allows, names);
            let found = guard.check_resolved(&url(place)).await.err().map(|refused| refused.to_string());
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
        let guard = UrlGuard::with(&url("https://mcp.example/mcp"), false, names);
        guard.check_resolved(&url("https://rebinds.example/token")).await.expect("it is public at first");
        let refused = guard.resolve_for_connection("rebinds.example".to_owned()).await.expect_err("it is not any more");
        assert!(refused.to_string().contains("is a loopback address"), "{refused}");
        // A name that was not named by a server is that of a proxy.
        assert_eq!(guard.resolve_for_connection("private.example".to_owned()).await.expect("addresses").len(), 1);
    }

    #[tokio::test]
    async fn a_login_stays_on_the_network_of_its_server() {
        let guard = UrlGuard::with(&url("https://mcp.intern/mcp"), false, names);
        assert_eq!(guard.network(), None);
        guard.allow_network(Some(Network::Private));
        assert_eq!(guard.network(), Some(Network::Private));
        guard.check_resolved(&url("https://issuer.intern/")).await.expect("the same network");
    }
}
