//! Delays for wrong tokens, which grow with the number of wrong tokens from an address.

use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use tokio::time::Instant;

use crate::PeerAddress;

/// Number of wrong tokens in a row that are answered without a delay: a person may have copied the
/// wrong one.
const AT_ONCE: u32 = 3;

/// The first delay; each further wrong token doubles it.
const FIRST_DELAY: Duration = Duration::from_millis(100);

/// The longest delay.
const MAX_DELAY: Duration = Duration::from_secs(2);

/// How long an address is remembered after its last wrong token.
const MEMORY: Duration = Duration::from_secs(60);

/// Maximum number of remembered addresses; the one with the oldest wrong token is evicted.
const MAX_ADDRESSES: usize = 4096;

/// Wrong tokens by address. Valid tokens are never delayed: this is consulted only after a token
/// has proved wrong.
#[derive(Debug, Default)]
pub(crate) struct Failures {
    by_address: Mutex<HashMap<PeerAddress, Record>>,
}

#[derive(Clone, Copy, Debug)]
struct Record {
    count: u32,
    last: Instant,
}

impl Failures {
    /// Records a wrong token and returns the delay of its response.
    pub(crate) fn record(&self, address: PeerAddress, now: Instant) -> Duration {
        let mut records = self.by_address.lock().unwrap_or_else(PoisonError::into_inner);
        if records.len() >= MAX_ADDRESSES && !records.contains_key(&address) {
            let oldest = records.iter().min_by_key(|(_, record)| record.last).map(|(address, _)| *address);
            oldest.and_then(|oldest| records.remove(&oldest));
        }
        let record = records.entry(address).or_insert(Record { count: 0, last: now });
        if now.saturating_duration_since(record.last) >= MEMORY {
            record.count = 0;
        }
        *record = Record { count: record.count.saturating_add(1), last: now };
        delay(record.count)
    }
}

fn delay(count: u32) -> Duration {
    match count.checked_sub(AT_ONCE + 1) {
        None => Duration::ZERO,
        Some(doublings) => FIRST_DELAY.saturating_mul(1 << doublings.min(16)).min(MAX_DELAY),
    }
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv4Addr};

    use super::*;

    fn address(number: u32) -> PeerAddress {
        IpAddr::V4(Ipv4Addr::from(number)).into()
    }

    #[test]
    fn delays_grow_and_are_forgotten() {
        let failures = Failures::default();
        let start = Instant::now();
        let at = |number: u32, seconds: u64| failures.record(address(number), start + Duration::from_secs(seconds));
        let delays: Vec<u128> = (0..10).map(|_| at(1, 0).as_millis()).collect();
        assert_eq!(delays, [0, 0, 0, 100, 200, 400, 800, 1600, 2000, 2000]);
        assert_eq!(at(2, 0), Duration::ZERO, "another address has not failed yet");
        assert_eq!(at(1, 59), MAX_DELAY);
        assert_eq!(at(1, 119), Duration::ZERO);
    }

    #[test]
    fn memory_is_bounded() {
        let failures = Failures::default();
        let start = Instant::now();
        for number in 0..2 * u32::try_from(MAX_ADDRESSES).expect("a number") {
            failures.record(address(number), start + Duration::from_micros(number.into()));
        }
        assert_eq!(failures.by_address.lock().expect("no panic").len(), MAX_ADDRESSES);
    }
}
