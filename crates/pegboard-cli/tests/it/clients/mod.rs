//! `pegboard import` and `pegboard connect`, in home folders made for them.

mod connect;
mod import;
mod llm;

use std::{
    path::{Path, PathBuf},
    process::Output,
};

use crate::harness::{Folder, show};

/// A part of every secret of a fixture, which no output may contain.
const SECRET: &str = "s3cret";

/// A home folder with a project in it, where the commands run.
struct Home {
    folder: Folder,
    variables: Vec<(&'static str, String)>,
}

impl Home {
    fn new(test: &str) -> Self {
        let folder = Folder::new(&format!("clients_{test}"));
        let home = Self { folder, variables: Vec::new() };
        // The project ends here, and not where this repository does.
        std::fs::create_dir_all(home.path("app/.git")).expect("a folder");
        home
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn file(&self, name: &str, content: &str) -> &Self {
        let path = self.path(name);
        std::fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        std::fs::write(path, content).expect("a file");
        self
    }

    fn with(mut self, variable: &'static str, value: &str) -> Self {
        self.variables.push((variable, value.to_owned()));
        self
    }

    fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.path(name)).expect("a file")
    }

    /// Returns the names of the files in a folder, in order.
    fn names(&self, folder: &str) -> Vec<String> {
        let entries = std::fs::read_dir(self.path(folder)).expect("a folder");
        let name = |entry: std::io::Result<std::fs::DirEntry>| entry.expect("an entry").file_name();
        let mut names: Vec<String> = entries.map(|entry| name(entry).to_string_lossy().into_owned()).collect();
        names.sort();
        names
    }

    /// Runs `pegboard` in the project, with an otherwise empty environment.
    fn run(&self, args: &[&str]) -> Output {
        let mut command = self.folder.isolated();
        command.args(args).current_dir(self.path("app"));
        command.envs(self.variables.iter().map(|(name, value)| (*name, value)));
        let output = command.output().expect("the binary starts");
        for bytes in [&output.stdout, &output.stderr] {
            assert!(!String::from_utf8_lossy(bytes).contains(SECRET), "a secret is shown by {args:?}");
        }
        output
    }

    /// Returns exit code and output, with this test's paths replaced by words.
    fn show(&self, args: &[&str]) -> String {
        self.replace_paths(&show(&self.run(args)))
    }

    fn replace_paths(&self, text: &str) -> String {
        let text = text.replace(&*self.folder.path().to_string_lossy(), "[home]");
        text.replace(env!("CARGO_BIN_EXE_pegboard"), "[pegboard]")
    }
}

#[cfg(unix)]
fn mode(path: &Path) -> u32 {
    use std::os::unix::fs::PermissionsExt;
    std::fs::metadata(path).expect("a file").permissions().mode() & 0o777
}
