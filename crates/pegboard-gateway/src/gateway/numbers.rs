//! How things stand, in numbers.

use std::collections::BTreeMap;

use pegboard_core::vectors::VectorStanding;
use pegboard_upstream::era::Era;

use super::Gateway;
use crate::metrics::{Family, Standing};

impl Gateway {
    /// How many conversations there are.
    pub fn session_count(&self) -> usize {
        self.sessions.all().len()
    }

    /// How many calls servers are busy with.
    pub fn running_calls(&self) -> u64 {
        self.fleet.servers().iter().map(|server| server.running_calls()).sum()
    }

    /// What has happened so far, in numbers: those of [`METRICS`](crate::METRICS).
    pub fn numbers(&self) -> Vec<Family> {
        self.metrics.families(&self.standing())
    }

    /// How things stand, in numbers.
    fn standing(&self) -> Standing {
        let mut servers = BTreeMap::new();
        for server in self.servers().iter() {
            *servers.entry(server.state().as_str()).or_default() += 1;
        }
        let (sessions, tools) = (self.session_count(), self.catalog().len());
        Standing { sessions, tools, servers, uptime: self.began.elapsed(), vectors: self.vector_standing() }
    }

    /// How somebody else's model is doing, if one is asked.
    pub(crate) fn vector_standing(&self) -> Option<VectorStanding> {
        let profile = self.setup().profile;
        let source = |era| self.ranker(Self::dialect(profile, era)).vector_source();
        let source = [Era::Legacy, Era::Modern].into_iter().find_map(source);
        source.map(|source| source.standing())
    }
}
