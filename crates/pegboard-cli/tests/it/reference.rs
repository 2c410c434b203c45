//! The generated references in the repository are up to date.

use std::path::Path;

/// Set by `cargo xtask generate` to write the files instead of comparing them.
const WRITE: &str = "PEGBOARD_WRITE_REFERENCES";

#[test]
fn references_are_up_to_date() {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
    let man = String::from_utf8(pegboard_cli::reference::man_page().expect("a manual page")).expect("UTF-8");
    let references = [
        ("cli.md", pegboard_cli::reference::markdown()),
        ("configuration.md", pegboard_cli::reference::configuration()),
        ("doctor.md", pegboard_cli::reference::doctor()),
        ("pegboard.1", man),
        ("pegboard.schema.json", pegboard_cli::reference::configuration_schema()),
    ];
    for (file, expected) in references {
        let path = docs.join(file);
        if std::env::var_os(WRITE).is_some() {
            std::fs::create_dir_all(&docs).expect("a folder");
            std::fs::write(&path, &expected).expect("a file");
        }
        let found = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(found == expected, "docs/{file} is out of date; run `cargo xtask generate`");
    }
}
