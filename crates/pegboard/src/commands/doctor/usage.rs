//! Learning from use.

use pegboard_engine::usage::Habitual;
use pegboard_gateway::Profile;

use super::finding::{Check, Finding, listed};
use crate::{config::Config, rankers::RankerName};

/// Whether there are searches from which nothing is learned, although it is wanted.
pub(super) fn look(config: &Config) -> Option<Finding> {
    config.usage.as_ref()?;
    let gateway = &config.gateway;
    let profiles = std::iter::once(gateway.profile).chain(gateway.clients.iter().map(|client| client.profile));
    let mut idle: Vec<&str> = Vec::new();
    for profile in profiles {
        let Profile::Dialect(dialect) = profile else { continue };
        let ranker = config.ranker.unwrap_or_else(|| RankerName::of(dialect)).build(None);
        if !Habitual::fits(&*ranker) && !idle.contains(&ranker.name()) {
            idle.push(ranker.name());
        }
    }
    let verb = if idle.len() == 1 { "does" } else { "do" };
    let message = format!("`usageLearning` is on, and {} {verb} not learn from use", listed(idle.iter().copied()));
    let hint = "rank with `\"ranker\": \"hybrid\"` or `\"lexical\"`, or take `usageLearning` out";
    (!idle.is_empty()).then(|| Finding::warning(Check::UsageLearning, message, hint))
}
