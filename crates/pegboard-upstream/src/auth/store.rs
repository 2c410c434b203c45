//! Stored logins.

use std::{
    fmt, fs, io,
    path::{Path, PathBuf},
    time::Duration,
};

use pegboard_state::{Folder, digest};
use serde::{Deserialize, Serialize};
use tokio::time::Instant;

use super::{network::Network, now};

/// Version of the file format.
const VERSION: u32 = 1;

/// Maximum number of bytes of a file.
const MAX_BYTES: usize = 1 << 20;

/// How long to wait for the lock of another process: longer than a refresh can take.
const LOCK_TIMEOUT: Duration = Duration::from_secs(90);

/// How often a held lock is tried again.
const LOCK_POLL_INTERVAL: Duration = Duration::from_millis(50);

/// A private folder of logins, one file for each URL of a server.
#[derive(Clone, Debug)]
pub struct Logins(PathBuf);

impl Logins {
    /// Uses a folder, which need not exist yet.
    pub fn at(folder: impl Into<PathBuf>) -> Self {
        Self(folder.into())
    }

    /// Returns the path of the folder.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Reads the login for a URL, if there is a valid one.
    pub(super) fn read(&self, url: &str) -> io::Result<Option<Grant>> {
        if !self.0.is_dir() {
            return Ok(None);
        }
        let bytes = match Folder::open(&self.0)?.read(&file_name(url), MAX_BYTES) {
            Ok(bytes) => bytes.unwrap_or_default(),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        // A file that is damaged or of a newer version is ignored; another login replaces it.
        // The URL is checked again, so that a token is never sent to another server by mistake.
        let file: Option<LoginFile> = serde_json::from_slice(&bytes).ok();
        Ok(file.filter(|file| file.version == VERSION && file.grant.url == url).map(|file| file.grant))
    }

    pub(super) fn write(&self, grant: &Grant) -> io::Result<()> {
        let file = serde_json::to_vec_pretty(&LoginFile { version: VERSION, grant: grant.clone() })?;
        Folder::open(&self.0)?.replace(&file_name(&grant.url), &file)
    }

    /// Removes the login for a URL, and returns whether there was a file.
    pub(super) fn remove(&self, url: &str) -> io::Result<bool> {
        if !self.0.is_dir() {
            return Ok(false);
        }
        match Folder::open(&self.0)?.remove(&file_name(url)) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Locks a login against changes by other processes until the lock is dropped. A refresh token
    /// can often be used only once, and two processes that use it at once lose the login.
    pub(super) async fn lock(&self, url: &str) -> LoginLock {
        let (logins, url) = (self.clone(), url.to_owned());
        let opened = tokio::task::spawn_blocking(move || logins.lock_file(&url)).await;
        let Ok(Ok(file)) = opened else { return LoginLock { _file: None } };
        let limit = Instant::now() + LOCK_TIMEOUT;
        loop {
            match file.try_lock() {
                Ok(()) => return LoginLock { _file: Some(file) },
                Err(fs::TryLockError::WouldBlock) if Instant::now() < limit => {
                    tokio::time::sleep(LOCK_POLL_INTERVAL).await;
                }
                // A disk without locks, or a process that hangs: continue without the lock.
                Err(_) => return LoginLock { _file: None },
            }
        }
    }

    fn lock_file(&self, url: &str) -> io::Result<fs::File> {
        let folder = Folder::open(&self.0)?;
        let name = format!("{}.lock", file_name(url));
        folder.add(&name, b"")?;
        fs::OpenOptions::new().append(true).open(folder.path().join(name))
    }
}

/// The lock of a login; see [`Logins::lock`].
#[derive(Debug)]
pub(super) struct LoginLock {
    /// Closing the file releases the lock.
    _file: Option<fs::File>,
}

/// Returns the file name of a URL: a hash, so that no URL can be chosen to have another's file.
fn file_name(url: &str) -> String {
    let hex: String = digest(url.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect();
    format!("{hex}.json")
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct LoginFile {
    version: u32,
    #[serde(flatten)]
    grant: Grant,
}

/// The tokens of a login, and what is needed to refresh and revoke them.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Grant {
    /// The server's URL, without its fragment.
    pub(super) url: String,
    /// The issuer of the tokens.
    pub(super) issuer: String,
    /// The OAuth resource that the tokens are for.
    pub(super) resource: String,
    /// The endpoint for refreshing.
    pub(super) token_endpoint: String,
    /// The endpoint for revoking.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) revocation_endpoint: Option<String>,
    /// The client authentication methods of the token endpoint, if the issuer names them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) token_auth_methods: Option<Vec<String>>,
    pub(super) client_id: String,
    /// The secret from the registration; never the configured one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) client_secret: Option<String>,
    pub(super) access_token: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) refresh_token: Option<String>,
    /// Expiry of the access token in seconds since 1970, if the issuer names it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) expires_at: Option<u64>,
    #[serde(default)]
    pub(super) scopes: Vec<String>,
    /// The network that the server was on, if that is not the internet; endpoints that refresh the
    /// login may be there as well.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) network: Option<Network>,
}

impl Grant {
    /// Returns whether the access token expires soon.
    pub(super) fn is_stale(&self) -> bool {
        /// Seconds before the expiry, because a request may take a while to arrive.
        const BEFORE: u64 = 30;
        self.expires_at.is_some_and(|at| at < now().saturating_add(BEFORE))
    }
}

impl fmt::Debug for Grant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { url, issuer, expires_at, .. } = self;
        let mut shown = f.debug_struct("Grant");
        shown.field("url", url).field("issuer", issuer).field("expires_at", expires_at).finish_non_exhaustive()
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::{super::canonical, *};

    fn key(url: &str) -> Option<String> {
        canonical(url).map(String::from)
    }

    pub(crate) fn grant(url: &str) -> Grant {
        Grant {
            url: url.to_owned(),
            issuer: "https://issuer.example".to_owned(),
            resource: url.to_owned(),
            token_endpoint: "https://issuer.example/token".to_owned(),
            revocation_endpoint: None,
            token_auth_methods: None,
            client_id: "client".to_owned(),
            client_secret: Some("client-secret".to_owned()),
            access_token: "access-secret".to_owned(),
            refresh_token: Some("refresh-secret".to_owned()),
            expires_at: None,
            scopes: vec!["read".to_owned()],
            network: None,
        }
    }

    /// A folder that is removed at the end.
    pub(crate) struct Place(pub(crate) Logins);

    impl Place {
        pub(crate) fn new(test: &str) -> Self {
            let folder = std::env::temp_dir().join(format!("pegboard-logins-{test}-{}", std::process::id()));
            let _ = fs::remove_dir_all(&folder);
            Self(Logins::at(folder.join("logins")))
        }
    }

    impl Drop for Place {
        fn drop(&mut self) {
            let _ = self.0.path().parent().map(fs::remove_dir_all);
        }
    }

    #[test]
    fn a_login_is_for_one_address() {
        let place = Place::new("addresses");
        let one = key("https://a.example/mcp#x").expect("an address");
        assert_eq!(one, "https://a.example/mcp");
        assert_eq!(place.0.read(&one).expect("nothing yet"), None);
        place.0.write(&grant(&one)).expect("written");
        assert_eq!(place.0.read(&one).expect("read"), Some(grant(&one)));
        for other in ["https://a.example/mcp/", "https://a.example/", "http://a.example/mcp", "https://b.example/mcp"] {
            assert_eq!(place.0.read(&key(other).expect("an address")).expect("nothing"), None, "{other}");
        }
        assert!(place.0.remove(&one).expect("removed"));
        assert!(!place.0.remove(&one).expect("nothing left"));
        assert_eq!(place.0.read(&one).expect("nothing"), None);
    }

    #[test]
    fn a_file_under_a_wrong_name_is_not_believed() {
        let place = Place::new("names");
        place.0.write(&grant("https://a.example/")).expect("written");
        let path = |url: &str| place.0.path().join(file_name(url));
        fs::rename(path("https://a.example/"), path("https://b.example/")).expect("renamed");
        assert_eq!(place.0.read("https://b.example/").expect("read"), None);
        fs::write(path("https://b.example/"), b"{\"version\": 9}").expect("written");
        assert_eq!(place.0.read("https://b.example/").expect("read"), None);
    }

    #[test]
    #[cfg(unix)]
    fn only_the_owner_can_read() {
        use std::os::unix::fs::PermissionsExt as _;
        let place = Place::new("rights");
        place.0.write(&grant("https://a.example/")).expect("written");
        let mode = |path: &Path| fs::metadata(path).expect("there").permissions().mode() & 0o777;
        assert_eq!(mode(place.0.path()), 0o700);
        assert_eq!(mode(&place.0.path().join(file_name("https://a.example/"))), 0o600);
        fs::set_permissions(place.0.path(), fs::Permissions::from_mode(0o777)).expect("ours");
        assert!(place.0.read("https://a.example/").is_err());
    }

    #[test]
    fn what_is_shown_holds_no_secret() {
        assert!(!format!("{:?}", grant("https://a.example/")).contains("secret"));
    }

    #[tokio::test]
    async fn one_holds_a_login_at_a_time() {
        let place = Place::new("held");
        let lock = place.0.lock("https://a.example/").await;
        assert!(lock._file.is_some());
        let again = place.0.lock_file("https://a.example/").expect("a file");
        assert!(again.try_lock().is_err());
        drop(lock);
        assert!(again.try_lock().is_ok());
    }
}
