//! `pegboard connect --llm`.

use super::Home;

const PROGRAMS: [&str; 6] = ["claude-code", "codex", "cline", "continue", "opencode", "aider"];

/// The programs whose files can be written, and their files.
const FILES: [(&str, &str); 3] = [
    ("claude-code", ".claude/settings.json"),
    ("codex", ".codex/config.toml"),
    ("opencode", ".config/opencode/opencode.json"),
];

#[test]
fn every_program_in_its_own_form() {
    let home = Home::new("llm_snippets");
    let mut text = String::new();
    for program in PROGRAMS {
        text.push_str(&format!("$ pegboard connect {program} --llm\n{}\n", home.show(&["connect", program, "--llm"])));
    }
    let other = ["connect", "codex", "--llm=https://tools.example/token/abc/"];
    text.push_str(&format!("$ pegboard {}\n{}\n", other.join(" "), home.show(&other)));
    insta::assert_snapshot!(text);
}

#[test]
fn files_are_written_once_and_restored() {
    let home = Home::new("llm_written");
    let before = [
        "{\n  // mine\n  \"env\": {\"ANTHROPIC_BASE_URL\": \"https://theirs\", \"OTHER\": \"x\"}\n}\n",
        "# mine\nmodel = \"gpt-5.4\"\nmodel_provider = \"azure\" # theirs\n\n[model_providers.azure]\nname = \"Azure\"\n",
        "{\n  \"theme\": \"dark\"\n}\n",
    ];
    let mut text = String::new();
    for ((program, file), old) in FILES.into_iter().zip(before) {
        home.file(file, old);
        let show = |args: &[&str]| format!("$ pegboard {}\n{}\n", args.join(" "), home.show(args));
        text.push_str(&show(&["connect", program, "--llm", "--write"]));
        text.push_str(&format!("--- {file}\n{}\n", home.read(file)));
        let written = home.read(file);
        text.push_str(&show(&["connect", program, "--llm", "--write"]));
        assert_eq!(home.read(file), written, "{program}: once");
        assert_eq!(home.read(&format!("{file}.pegboard-backup")), old);
        // An address that is not the one that was written.
        let other = home.run(&["disconnect", program, "--llm=http://127.0.0.1:1"]);
        assert_eq!((other.status.code(), home.read(file)), (Some(1), written), "{program}");
        text.push_str(&show(&["disconnect", program, "--llm"]));
        text.push_str(&format!("--- {file}\n{}\n", home.read(file)));
    }
    insta::assert_snapshot!(text);
}

#[test]
fn files_of_our_own_are_removed() {
    let home = Home::new("llm_created");
    for (program, file) in FILES {
        let missing = home.run(&["connect", program, "--llm", "--write"]);
        assert_eq!(missing.status.code(), Some(2), "{program} is not installed");
        assert_eq!(home.run(&["connect", program, "--llm", "--write", "--force"]).status.code(), Some(0), "{program}");
        assert!(home.path(file).exists());
        assert_eq!(home.run(&["disconnect", program, "--llm"]).status.code(), Some(0), "{program}");
        assert!(!home.path(file).exists(), "{program}");
    }
}

#[test]
fn what_cannot_be_done_is_told() {
    let home = Home::new("llm_refused");
    let mut text = String::new();
    for args in [
        &["connect", "cursor", "--llm"][..],
        &["connect", "zed", "--llm"],
        &["connect", "gemini", "--llm"],
        &["connect", "aider"],
        &["connect", "cline", "--llm", "--write"],
        &["disconnect", "cline", "--llm"],
        &["connect", "codex", "--llm=127.0.0.1:8090"],
    ] {
        text.push_str(&format!("$ pegboard {}\n{}\n", args.join(" "), home.show(args)));
    }
    insta::assert_snapshot!(text);
}
