//! Settings of single tools, and tools that a server wants to be always listed.

use pegboard_upstream::{Presentation, UnusedOverride, config::ServerConfig};

use super::finding::{Check, Finding, count, join_names};

/// Settings without effect on the tools of a server.
pub(super) fn check_overrides(config: &ServerConfig, presentation: &Presentation<'_>) -> Vec<Finding> {
    let mut findings: Vec<Finding> = presentation.unused.iter().map(unused).collect();
    findings.extend(not_always_loaded(config, &presentation.not_always_loaded));
    findings
}

fn unused(unused: &UnusedOverride) -> Finding {
    match unused {
        UnusedOverride::NoTool { tool, nearest } => {
            let message = format!("`pegboard.tools.{tool}` matches no tool of the server");
            let hint = match nearest {
                Some(nearest) => format!("did you mean `{nearest}`? Names are those of the server, without a prefix"),
                None => "remove it, or write the name that the server uses, without a prefix".to_owned(),
            };
            Finding::warning(Check::ToolOverride, message, hint)
        }
        UnusedOverride::NameTaken { tool, name } => {
            let message = format!("the server's own `{name}` is not shown: `{tool}` was given its name");
            let hint = format!("choose another `pegboard.tools.{tool}.name`, or rename `{name}` too");
            Finding::warning(Check::ToolOverride, message, hint)
        }
    }
}

fn not_always_loaded(config: &ServerConfig, names: &[&str]) -> Option<Finding> {
    let asks = format!(
        "{} {} for being listed without a search: {}",
        count(names.len(), "tool"),
        if names.len() == 1 { "asks" } else { "ask" },
        join_names(names.iter().copied())
    );
    let max = config.always_load.max_tokens;
    let (message, hint) = match config.always_load.is_trusted {
        true => (format!("{asks}; over `alwaysLoadTokens` ({max})"), "raise `pegboard.alwaysLoadTokens` of the server"),
        false => (
            format!("{asks}; ignored"),
            "no action needed; `pegboard.trustAlwaysLoad` of the server allows it, `alwaysShow` lists single tools",
        ),
    };
    (!names.is_empty()).then(|| Finding::note(Check::AlwaysLoad, message, hint))
}

#[cfg(test)]
mod tests {
    use pegboard_upstream::config::{AlwaysLoad, TransportConfig};

    use super::*;

    #[test]
    fn unused_settings_and_ignored_wishes() {
        let url = TransportConfig::Http { url: String::new(), headers: Vec::new(), kind: Default::default() };
        let check = |is_trusted: bool, presentation: Presentation<'_>, expected: &[&str]| {
            let mut config = ServerConfig::new("git", url.clone());
            config.always_load = AlwaysLoad { is_trusted, max_tokens: 10 };
            let found = check_overrides(&config, &presentation).into_iter();
            let found: Vec<String> = found
                .map(|finding| format!("{}: {} → {}", finding.check.name(), finding.message, finding.hint))
                .collect();
            assert_eq!(found, expected);
        };
        let unused = |unused: UnusedOverride| Presentation { unused: vec![unused], ..Presentation::default() };
        check(false, Presentation::default(), &[]);
        check(
            false,
            unused(UnusedOverride::NoTool { tool: "lgo".into(), nearest: Some("log".into()) }),
            &[
                "tool-override: `pegboard.tools.lgo` matches no tool of the server → did you mean `log`? Names are those \
               of the server, without a prefix",
            ],
        );
        check(
            false,
            unused(UnusedOverride::NameTaken { tool: "log".into(), name: "diff".into() }),
            &["tool-override: the server's own `diff` is not shown: `log` was given its name → choose another \
               `pegboard.tools.log.name`, or rename `diff` too"],
        );
        let asking = || Presentation { not_always_loaded: vec!["log"], ..Presentation::default() };
        check(
            false,
            asking(),
            &["always-load: 1 tool asks for being listed without a search: `log`; ignored → no action needed; \
               `pegboard.trustAlwaysLoad` of the server allows it, `alwaysShow` lists single tools"],
        );
        check(
            true,
            asking(),
            &[
                "always-load: 1 tool asks for being listed without a search: `log`; over `alwaysLoadTokens` (10) → raise \
               `pegboard.alwaysLoadTokens` of the server",
            ],
        );
    }
}
