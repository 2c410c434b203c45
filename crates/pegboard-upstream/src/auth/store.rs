//! Where logins are kept.

use std::{
    fmt, fs, io,
    path::{Path, PathBuf},
    time::Duration,
};

use pegboard_state::{Folder, digest};
use serde::{Deserialize, Serialize};
use tokio::time::Instant;

use super::{network::Network, now};

/// The form of the files that this build writes and reads.
const VERSION: u32 = 1;

/// A larger file is no login.
const MAX_BYTES: usize = 1 << 20;

/// How long another process may hold a login before it is no longer waited for: longer than
/// renewing one can take.
const HELD_FOR: Duration = Duration::from_secs(90);

/// How often a held login is looked at.
const LOOK_AGAIN: Duration = Duration::from_millis(50);

/// A folder of logins, one file for each address of a server, for its owner alone.
#[derive(Clone, Debug)]
pub struct Logins(PathBuf);

impl Logins {
    /// The logins in a folder, which need not be there yet.
    pub fn at(folder: impl Into<PathBuf>) -> Self {
        Self(folder.into())
    }

    /// Where they are.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// The login for an address, if there is one that can be read.
    pub(super) fn read(&self, url: &str) -> io::Result<Option<Grant>> {
        if !self.0.is_dir() {
            return Ok(None);
        }
        let bytes = match Folder::open(&self.0)?.read(&name(url), MAX_BYTES) {
            Ok(bytes) => bytes.unwrap_or_default(),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        // What was damaged or is newer than us is as good as nothing; another login mends it.
        // The address is looked at once more: nobody else's token goes out by a mistake of ours.
        let kept: Option<Kept> = serde_json::from_slice(&bytes).ok();
        Ok(kept.filter(|kept| kept.version == VERSION && kept.grant.url == url).map(|kept| kept.grant))
    }

    pub(super) fn write(&self, grant: &Grant) -> io::Result<()> {
        let kept = serde_json::to_vec_pretty(&Kept { version: VERSION, grant: grant.clone() })?;
        Folder::open(&self.0)?.replace(&name(&grant.url), &kept)
    }

    /// Removes the login for an address; whether there was a file.
    pub(super) fn remove(&self, url: &str) -> io::Result<bool> {
        if !self.0.is_dir() {
            return Ok(false);
        }
        match Folder::open(&self.0)?.remove(&name(url)) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Keeps other processes from changing a login until it is dropped. A refresh token can
    /// often be used once, and two of us that use it at once lose the login.
    pub(super) async fn hold(&self, url: &str) -> Held {
        let (logins, url) = (self.clone(), url.to_owned());
        let opened = tokio::task::spawn_blocking(move || logins.lock_file(&url)).await;
        let Ok(Ok(file)) = opened else { return Held { _file: None } };
        let limit = Instant::now() + HELD_FOR;
        loop {
            match file.try_lock() {
                Ok(()) => return Held { _file: Some(file) },
                Err(fs::TryLockError::WouldBlock) if Instant::now() < limit => tokio::time::sleep(LOOK_AGAIN).await,
                // A disk without locks, or a process that hangs: better unguarded than not at all.
                Err(_) => return Held { _file: None },
            }
        }
    }

    fn lock_file(&self, url: &str) -> io::Result<fs::File> {
        let folder = Folder::open(&self.0)?;
        let name = format!("{}.lock", name(url));
        folder.add(&name, b"")?;
        fs::OpenOptions::new().append(true).open(folder.path().join(name))
    }
}

/// A login that is ours to change; see [`Logins::hold`].
#[derive(Debug)]
pub(super) struct Held {
    /// It is unlocked when it is closed.
    _file: Option<fs::File>,
}

/// The file of an address: nobody can choose one address so that it has the file of another.
fn name(url: &str) -> String {
    let hex: String = digest(url.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect();
    format!("{hex}.json")
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Kept {
    version: u32,
    #[serde(flatten)]
    grant: Grant,
}

/// What a login gave.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Grant {
    /// The server's address, without its fragment.
    pub(super) url: String,
    /// Who gave it.
    pub(super) issuer: String,
    /// What it is for, as whoever gave it calls the server.
    pub(super) resource: String,
    /// Where it is renewed.
    pub(super) token_endpoint: String,
    /// Where it is given back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) revocation_endpoint: Option<String>,
    /// How the client may say who it is there, as far as that is told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) token_auth_methods: Option<Vec<String>>,
    pub(super) client_id: String,
    /// What the client got when it was registered; never what is configured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) client_secret: Option<String>,
    pub(super) access_token: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) refresh_token: Option<String>,
    /// In seconds since 1970, as far as it is told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) expires_at: Option<u64>,
    #[serde(default)]
    pub(super) scopes: Vec<String>,
    /// The network that the server was on, if that is not the internet; endpoints that renew the login
    /// may be there as well.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) network: Option<Network>,
}

impl Grant {
    /// Whether its token will not do for long any more.
    pub(super) fn is_stale(&self) -> bool {
        /// A request may take a while to arrive.
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
        let path = |url: &str| place.0.path().join(name(url));
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
        assert_eq!(mode(&place.0.path().join(name("https://a.example/"))), 0o600);
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
        let held = place.0.hold("https://a.example/").await;
        assert!(held._file.is_some());
        let again = place.0.lock_file("https://a.example/").expect("a file");
        assert!(again.try_lock().is_err());
        drop(held);
        assert!(again.try_lock().is_ok());
    }
}
