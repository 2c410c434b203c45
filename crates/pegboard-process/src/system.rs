//! The operating system.

/// A family of operating systems that agree on where files are and which variables programs expect.
///
/// Code that differs only in data looks at this value, so that the data of every system can be tested
/// on any of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum System {
    /// Linux, and every system that is none of the others.
    Linux,
    /// macOS.
    Mac,
    /// Windows.
    Windows,
}

impl System {
    /// Returns the system that this program was compiled for.
    pub const fn current() -> Self {
        if cfg!(windows) {
            Self::Windows
        } else if cfg!(target_os = "macos") {
            Self::Mac
        } else {
            Self::Linux
        }
    }

    /// Returns whether the names of environment variables are the same in upper and lower case.
    pub const fn ignores_case_of_variables(self) -> bool {
        matches!(self, Self::Windows)
    }
}
