//! Check of usage learning.

use pegboard_discovery::{DialectName, Exposure};
use pegboard_gateway::Profile;

use super::finding::{Check, Finding, join_names};
use crate::{config::Config, rankers::RankerName};

/// Finds searches with a ranker that does not support the enabled usage learning.
pub(super) fn check_learning(config: &Config) -> Option<Finding> {
    config.usage.as_ref()?;
    let gateway = &config.gateway;
    if matches!(gateway.exposure, Exposure::Never) {
        return None;
    }
    let profiles = std::iter::once(gateway.profile).chain(gateway.clients.iter().map(|client| client.profile));
    let (mut idle, mut idle_of_legacy): (Vec<&str>, Vec<&str>) = (Vec::new(), Vec::new());
    for profile in profiles.filter(|profile| *profile != Profile::Passthrough) {
        let Some(name) = idle_ranker(config, profile.dialect()) else { continue };
        // Some dialects are for conversations with a beginning; modern clients get another.
        let is_idle = idle_ranker(config, profile.constant_dialect()).is_some();
        let names = if is_idle { &mut idle } else { &mut idle_of_legacy };
        if !names.contains(&name) {
            names.push(name);
        }
    }
    let whose = [(idle, "usage"), (idle_of_legacy, "clients that speak 2025-11-25 or older")];
    let parts = whose.iter().filter(|(names, _)| !names.is_empty()).map(|(names, whose)| {
        let verb = if names.len() == 1 { "does" } else { "do" };
        format!("{} {verb} not learn from {whose}", join_names(names.iter().copied()))
    });
    let parts: Vec<String> = parts.collect();
    let message = format!("`usageLearning` is enabled, but {}", parts.join(", and "));
    let hint = "set `\"ranker\": \"hybrid\"` or `\"lexical\"`, or remove `usageLearning`";
    (!parts.is_empty()).then(|| Finding::warning(Check::UsageLearning, message, hint))
}

/// Returns the ranker of a dialect, if it does not support learning.
fn idle_ranker(config: &Config, dialect: DialectName) -> Option<&'static str> {
    let ranker =
        config.ranker.unwrap_or_else(|| RankerName::of(dialect)).build(None, config.gateway.discovery.token_bonus);
    (!ranker.learns_from_usage()).then(|| ranker.name())
}
