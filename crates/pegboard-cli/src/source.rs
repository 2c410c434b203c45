//! The configuration that a command uses.

use std::path::{Path, PathBuf};

use clap::Args;

use crate::{
    clients::config_files::{Os, SystemEnvironment},
    config::{Config, Content},
    error::{CliError, say},
    terminal_text, trust,
};

/// The name of a configuration file that is found in a folder.
const FILE: &str = "pegboard.json";

/// The origin of a configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    /// Given by the user: on the command line, or in `PEGBOARD_CONFIG`.
    Named(PathBuf),
    /// `pegboard.json` in the working folder, or in one above it.
    Folder(PathBuf),
    /// The user configuration, which `pegboard import --write` writes.
    Own(PathBuf),
    /// The demo, because there is no file.
    Demo,
    /// The demo, because the user asked for it.
    ChosenDemo,
}

/// Flags that select a configuration.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct ConfigArgs {
    /// Configuration file [default: `pegboard.json` in this folder or above, else your user
    /// configuration, else the demo]
    #[arg(long, value_name = "FILE", env = "PEGBOARD_CONFIG")]
    pub(crate) config: Option<PathBuf>,

    /// Use the demo instead of a configuration
    #[arg(long)]
    pub(crate) demo: bool,

    /// Use the named file only if it is trusted (see `pegboard trust`)
    #[arg(long)]
    pub(crate) check_trust: bool,
}

/// [`ConfigArgs`] for commands that also accept the file as an argument.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct ConfigArgument {
    /// Configuration file [default: `pegboard.json` in this folder or above, else your user
    /// configuration, else the demo]
    #[arg(value_name = "CONFIG", conflicts_with = "demo")]
    pub(crate) argument: Option<PathBuf>,

    /// Configuration file, as a flag
    #[arg(long = "config", value_name = "FILE", env = "PEGBOARD_CONFIG")]
    pub(crate) config: Option<PathBuf>,

    /// Use the demo instead of a configuration
    #[arg(long)]
    pub(crate) demo: bool,

    /// Use the named file only if it is trusted (see `pegboard trust`)
    #[arg(long)]
    pub(crate) check_trust: bool,
}

/// [`ConfigArgs`] for commands that cannot use the demo.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct ConfigFileArgs {
    /// Configuration file [default: `pegboard.json` in this folder or above, else your user
    /// configuration]
    #[arg(long, value_name = "FILE", env = "PEGBOARD_CONFIG")]
    pub(crate) config: Option<PathBuf>,

    /// Use the named file only if it is trusted (see `pegboard trust`)
    #[arg(long)]
    pub(crate) check_trust: bool,
}

impl ConfigArgs {
    /// Returns the selected configuration.
    pub(crate) fn source(&self) -> Source {
        Source::find(self.config.as_deref(), self.demo).checking(self.check_trust)
    }
}

impl ConfigFileArgs {
    /// Returns the selected configuration; [`Source::Demo`] if there is no file.
    pub(crate) fn source(&self) -> Source {
        Source::find(self.config.as_deref(), false).checking(self.check_trust)
    }
}

impl ConfigArgument {
    /// Returns the selected configuration.
    pub(crate) fn source(&self) -> Source {
        Source::find(self.argument.as_deref().or(self.config.as_deref()), self.demo).checking(self.check_trust)
    }
}

impl Source {
    /// Returns the first that exists: the named file, `pegboard.json` in the working folder or
    /// above it, the user configuration, the demo.
    pub(crate) fn find(named: Option<&Path>, is_demo: bool) -> Self {
        let env = |name: &str| std::env::var(name).ok();
        let own = SystemEnvironment { os: Os::current(), env: &env }.own_configuration();
        Self::find_in(named, is_demo, std::env::current_dir().ok().as_deref(), own)
    }

    /// Returns the configuration for a command that runs in `folder` and names none.
    pub(crate) fn found_from(folder: &Path) -> Self {
        let env = |name: &str| std::env::var(name).ok();
        let own = SystemEnvironment { os: Os::current(), env: &env }.own_configuration();
        Self::find_in(None, false, Some(folder), own)
    }

    fn find_in(named: Option<&Path>, is_demo: bool, folder: Option<&Path>, own: Option<PathBuf>) -> Self {
        if is_demo {
            return Self::ChosenDemo;
        }
        if let Some(path) = named {
            return Self::Named(path.to_owned());
        }
        let mut candidates = folder.into_iter().flat_map(Path::ancestors).map(|folder| folder.join(FILE));
        let own = own.filter(|own| own.is_file());
        match candidates.find(|path| path.is_file()) {
            // The user may be in the folder of their own file.
            Some(path) if own.as_ref() != Some(&path) => Self::Folder(path),
            _ => own.map_or(Self::Demo, Self::Own),
        }
    }

    /// Returns whether the content of the file must be trusted.
    pub(crate) fn needs_trust(&self) -> bool {
        matches!(self, Self::Folder(_))
    }

    /// Returns the source where a named file must be trusted too, if `checks_trust`.
    fn checking(self, checks_trust: bool) -> Self {
        match self {
            Self::Named(path) if checks_trust => Self::Folder(path),
            source => source,
        }
    }

    /// Returns the file, if there is one.
    pub(crate) fn path(&self) -> Option<&Path> {
        match self {
            Self::Named(path) | Self::Folder(path) | Self::Own(path) => Some(path),
            Self::Demo | Self::ChosenDemo => None,
        }
    }

    /// Prints which configuration is used, unless the user has named it.
    pub(crate) fn announce(&self) {
        match self {
            Self::Named(_) | Self::ChosenDemo => {}
            Self::Folder(path) | Self::Own(path) => {
                say(&format!("configuration: {}", terminal_text::clean(&path.display().to_string())));
            }
            Self::Demo => {
                say("configuration: the demo; to use your own servers, run `pegboard import --write`");
            }
        }
    }

    /// Loads the file, if there is one. A file that was found in a folder must be trusted with its
    /// content: nothing in it is used before.
    ///
    /// # Errors
    /// If it cannot be read, or is not trusted and the user does not confirm or cannot be
    /// asked.
    pub(crate) fn load(&self, state: Option<&str>) -> Result<Option<Content>, CliError> {
        let Some(path) = self.path() else { return Ok(None) };
        let content = Content::load(path)?;
        if matches!(self, Self::Folder(_)) {
            trust::check(&content, state)?;
        }
        Ok(Some(content))
    }

    /// Reads the configuration, for a command that starts its servers.
    ///
    /// # Errors
    /// If it is not trusted, or has mistakes.
    pub(crate) fn read(&self, state: Option<&str>) -> Result<Config, CliError> {
        match self.load(state)? {
            Some(content) => content.read(),
            None => demo(),
        }
    }

    /// Reads the configuration, for a command that starts no server; empty without a file.
    ///
    /// # Errors
    /// If it is not trusted, or has mistakes.
    pub(crate) fn read_offline(&self, state: Option<&str>) -> Result<Config, CliError> {
        self.load(state)?.map_or_else(|| Ok(Config::default()), |content| content.read_offline())
    }

    /// Returns the file, for a command that cannot use the demo.
    ///
    /// # Errors
    /// If there is none.
    pub(crate) fn file(&self) -> Result<&Path, CliError> {
        self.path().ok_or_else(|| {
            CliError::new("no configuration found").hint(
                "`pegboard import --write` creates one from the servers of your clients, `pegboard add` adds one \
                 server; `--config` names another file",
            )
        })
    }
}

/// Returns the path of the user configuration, even if the file does not exist.
///
/// # Errors
/// If there is no home folder.
pub(crate) fn own_file() -> Result<PathBuf, CliError> {
    let env = |name: &str| std::env::var(name).ok();
    SystemEnvironment { os: Os::current(), env: &env }.own_configuration().ok_or_else(|| {
        CliError::new("cannot find your configuration folder: `HOME` is not set").hint("name a file with `--config`")
    })
}

/// Returns the configuration of the demo.
pub(crate) fn demo() -> Result<Config, CliError> {
    Ok(Config { servers: pegboard_demo::servers()?, ..Config::default() })
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn the_nearest_file_counts() {
        let root = std::env::temp_dir().join(format!("pegboard-source-{}", std::process::id()));
        let (inner, home) = (root.join("a/b"), root.join("home"));
        fs::create_dir_all(&inner).expect("folders");
        fs::create_dir_all(&home).expect("folders");
        let own = home.join(FILE);
        let check = |named: Option<&str>, is_demo: bool, folder: &Path, expected: Source| {
            let found = Source::find_in(named.map(Path::new), is_demo, Some(folder), Some(own.clone()));
            assert_eq!(found, expected);
        };
        check(None, false, &inner, Source::Demo);
        fs::write(&own, "{}").expect("a file");
        check(None, false, &inner, Source::Own(own.clone()));
        check(None, false, &home, Source::Own(own.clone()));
        let above = root.join("a").join(FILE);
        fs::write(&above, "{}").expect("a file");
        check(None, false, &inner, Source::Folder(above));
        let here = inner.join(FILE);
        fs::write(&here, "{}").expect("a file");
        check(None, false, &inner, Source::Folder(here));
        check(Some("x.json"), false, &inner, Source::Named("x.json".into()));
        check(None, true, &inner, Source::ChosenDemo);
        let _ = fs::remove_dir_all(root);
    }
}
