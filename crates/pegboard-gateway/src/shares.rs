//! Shares per caller, such as open event streams or bytes of subscriptions.

use std::{
    collections::HashMap,
    hash::{DefaultHasher, Hash as _, Hasher as _},
    sync::{Arc, Mutex},
};

use axum::body::Bytes;
use pegboard_http::PeerAddress;

use crate::{caller::Caller, lock};

/// The owner of a share: a token, or the address of a request without a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Party {
    Caller(Caller),
    Address(PeerAddress),
}

impl Party {
    /// Returns the party of a caller at an address. Pipes have no address.
    pub(crate) fn of(caller: Caller, address: Option<PeerAddress>) -> Self {
        match (caller, address) {
            (Caller::Anybody, Some(address)) => Self::Address(address),
            (caller, _) => Self::Caller(caller),
        }
    }

    /// Returns a number that two parties hardly ever share.
    pub(crate) fn key(self) -> u64 {
        let mut hasher = DefaultHasher::new();
        self.hash(&mut hasher);
        hasher.finish()
    }
}

/// The amounts that each party has claimed of something.
#[derive(Debug, Default)]
pub(crate) struct Shares {
    taken: Mutex<HashMap<Party, usize>>,
}

impl Shares {
    /// Claims `amount` for a party that may have `most` altogether; `None` if that is too much.
    pub(crate) fn take(self: &Arc<Self>, party: Party, amount: usize, most: usize) -> Option<Claim> {
        let mut taken = lock(&self.taken);
        let before = taken.get(&party).copied().unwrap_or(0);
        let after = before.checked_add(amount).filter(|after| *after <= most)?;
        taken.insert(party, after);
        Some(Claim { shares: Arc::clone(self), party, amount })
    }
}

/// A claimed amount; dropping it releases the amount.
#[derive(Debug)]
pub(crate) struct Claim {
    shares: Arc<Shares>,
    party: Party,
    amount: usize,
}

impl Claim {
    pub(crate) fn amount(&self) -> usize {
        self.amount
    }

    /// Releases the claim above `amount`.
    pub(crate) fn shrink_to(&mut self, amount: usize) {
        let remove_surplus = self.amount.saturating_sub(amount);
        self.amount -= remove_surplus;
        let mut taken = lock(&self.shares.taken);
        if let Some(amount) = taken.get_mut(&self.party) {
            *amount -= remove_surplus;
            if *amount == 0 {
                taken.remove(&self.party);
            }
        }
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        self.shrink_to(0);
    }
}

/// A text to send, with its claim on its caller's share of memory. The claim is released when the
/// last byte has been sent.
#[derive(Debug)]
pub(crate) struct Document {
    pub(crate) text: String,
    pub(crate) room: Vec<Claim>,
}

impl AsRef<[u8]> for Document {
    fn as_ref(&self) -> &[u8] {
        self.text.as_bytes()
    }
}

impl From<String> for Document {
    fn from(text: String) -> Self {
        Self { text, room: Vec::new() }
    }
}

impl From<Document> for Bytes {
    fn from(document: Document) -> Self {
        if document.room.is_empty() { Self::from(document.text) } else { Self::from_owner(document) }
    }
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv4Addr};

    use pegboard_http::Principal;

    use super::*;

    #[test]
    fn what_was_given_back_can_be_taken_again() {
        let shares = Arc::new(Shares::default());
        let [one, other] = [1, 2].map(|number| Party::Caller(Caller::Token(Principal(number))));
        let first = shares.take(one, 6, 10).expect("room");
        assert!(shares.take(one, 5, 10).is_none());
        let second = shares.take(one, 4, 10).expect("room");
        assert!(shares.take(other, 10, 10).is_some(), "another party has its own share");
        drop(first);
        assert!(shares.take(one, 7, 10).is_none());
        assert!(shares.take(one, 6, 10).is_some());
        drop(second);
        let mut large = shares.take(one, 10, 10).expect("room");
        large.shrink_to(12);
        assert_eq!(large.amount(), 10);
        large.shrink_to(3);
        assert!(shares.take(one, 8, 10).is_none() && shares.take(one, 7, 10).is_some());
        drop(large);
        assert!(shares.take(one, usize::MAX, 10).is_none());
        assert!(lock(&shares.taken).is_empty(), "nothing is left behind");
    }

    #[test]
    fn parties() {
        let address = Some(IpAddr::V4(Ipv4Addr::LOCALHOST).into());
        let token = Caller::Token(Principal(1));
        assert_eq!(Party::of(token, address), Party::Caller(token));
        assert_ne!(Party::of(Caller::Anybody, address), Party::of(Caller::Anybody, None));
        assert_eq!(Party::of(Caller::Pipe, None), Party::Caller(Caller::Pipe));
    }
}
