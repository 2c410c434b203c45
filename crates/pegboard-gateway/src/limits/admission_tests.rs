//! Who shares a limit with whom, and which calls pass.

use std::net::{IpAddr, Ipv4Addr};

use pegboard_core::{Catalog, Query, QueryError, Ranker, Ranking, Selection};
use pegboard_http::{PeerAddress, Principal};
use pegboard_upstream::{Tripped, config::Secret, era::Era, json::raw, rpc::RpcError, trace::TraceContext};
use serde_json::json;
use tokio::sync::mpsc;

use super::*;
use crate::{
    GatewaySettings,
    exchange::Viewer,
    sessions::{Beginning, ClientSession},
    settings::{Profile, Token},
};

#[derive(Debug)]
struct Nothing;

impl Ranker for Nothing {
    fn name(&self) -> &'static str {
        "nothing"
    }

    fn rank(&self, _: &Query<'_>, _: &Catalog, _: &Selection) -> Result<Ranking, QueryError> {
        Ok(Ranking::default())
    }
}

/// A gateway without servers: everybody has `limits`, and the holders of tokens have their own.
fn gateway(limits: CallLimits, own: &[Option<CallLimits>]) -> Arc<Gateway> {
    let token = |(at, limits): (usize, &Option<CallLimits>)| Token {
        name: format!("holder {at}"),
        secret: Secret::new(format!("a-secret-of-holder-{at}")),
        selection: Selection::everything(),
        limits: *limits,
    };
    let tokens = own.iter().enumerate().map(token).collect();
    let settings = GatewaySettings { limits, tokens, ..GatewaySettings::default() };
    Gateway::start(Vec::new(), settings, Arc::new(|_| Arc::new(Nothing)), Vec::new())
}

/// A request of a caller, in a conversation of this number that lasts or not.
fn exchange(gateway: &Gateway, caller: Caller, session: Option<(u64, bool)>) -> Exchange {
    let viewer = Viewer { caller, selection: Arc::default(), setup: 0 };
    let session = session.map(|(owner, is_lasting)| {
        let beginning = gateway.beginning(viewer.clone(), Profile::Passthrough, raw(&json!({})), "test".to_owned());
        Arc::new(ClientSession::new(owner, Beginning { is_lasting, ..beginning }))
    });
    Exchange {
        era: Era::Legacy,
        viewer,
        address: None,
        session,
        capabilities: raw(&json!({})),
        log_level: None,
        progress: None,
        outlet: mpsc::channel(1).0,
        owner: 0,
        trace: TraceContext::default(),
    }
}

fn address(number: usize) -> PeerAddress {
    let number = u32::try_from(number).expect("a small number");
    IpAddr::V4(Ipv4Addr::from(number)).into()
}

const fn token(number: usize) -> Caller {
    Caller::Token(Principal(number))
}

#[tokio::test]
async fn parties_and_queues() {
    let gateway = gateway(CallLimits::default(), &[]);
    let check = |caller: Caller, session: Option<(u64, bool)>, party: Party, queue: u64| {
        let exchange = exchange(&gateway, caller, session);
        assert_eq!((exchange.party(), exchange.queue()), (party, queue), "{caller:?} {session:?}");
    };
    // The holder of a token has one share, whatever the conversation; turns are by conversation.
    check(token(3), None, Party::Caller(token(3)), u64::MAX - 5);
    check(token(3), Some((7, true)), Party::Caller(token(3)), 7);
    check(token(3), Some((7, false)), Party::Caller(token(3)), u64::MAX - 5);
    check(Caller::Anybody, Some((7, true)), Party::Caller(Caller::Anybody), 7);
    check(Caller::Anybody, Some((7, false)), Party::Caller(Caller::Anybody), u64::MAX);
    check(Caller::Anybody, None, Party::Caller(Caller::Anybody), u64::MAX);
    check(Caller::Pipe, None, Party::Caller(Caller::Pipe), u64::MAX - 1);
    check(Caller::Pipe, Some((7, true)), Party::Caller(Caller::Pipe), 7);
    check(Caller::Pipe, Some((7, false)), Party::Caller(Caller::Pipe), u64::MAX - 1);
    check(token(0), None, Party::Caller(token(0)), u64::MAX - 2);
    // Without tokens callers are told apart by their addresses, whatever sessions they begin.
    let from = |caller| Exchange { address: Some(address(1)), ..exchange(&gateway, caller, Some((7, true))) };
    assert_eq!(from(Caller::Anybody).party(), Party::Address(address(1)));
    assert_eq!(from(token(3)).party(), Party::Caller(token(3)));
}

#[tokio::test(start_paused = true)]
async fn calls_at_a_time() {
    let one_at_a_time = CallLimits { concurrent: 1, per_minute: 0 };
    let gateway = gateway(one_at_a_time, &[]);
    let from = |number| Exchange { address: Some(address(number)), ..exchange(&gateway, Caller::Anybody, None) };
    let (one, other) = (from(1), from(2));
    let wait = Duration::from_secs(3);
    let turn = gateway.admit(&one, wait).await.expect("the first call").expect("a turn");
    let busy = gateway.admit(&one, wait).await.expect_err("there is one already");
    assert_eq!(busy, Refusal::Busy(Busy::Waited { most: 1, waited: wait }));
    assert!(gateway.admit(&other, wait).await.is_ok(), "another address has its own share");
    drop(turn);
    assert!(gateway.admit(&one, wait).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn calls_in_a_minute() {
    let gateway = gateway(
        CallLimits { concurrent: 0, per_minute: 2 },
        &[None, Some(CallLimits { concurrent: 0, per_minute: 1 }), Some(CallLimits::default())],
    );
    let passing = async |caller: Caller| {
        let exchange = exchange(&gateway, caller, None);
        let mut passed = 0;
        while passed < 5 && gateway.admit(&exchange, Duration::ZERO).await.is_ok() {
            passed += 1;
        }
        passed
    };
    assert_eq!(passing(token(0)).await, 2, "what everybody may");
    assert_eq!(passing(token(1)).await, 1, "a limit of its own");
    assert_eq!(passing(token(2)).await, 5, "no limit");
    assert_eq!(passing(Caller::Anybody).await, 2);
    let refused = gateway.admit(&exchange(&gateway, token(1), None), Duration::ZERO).await.expect_err("it is used up");
    assert_eq!(refused, Refusal::Rate { per_minute: 1, retry_in: Duration::from_secs(60) });
    let unlimited = gateway.admit(&exchange(&gateway, token(2), None), Duration::ZERO).await.expect("no limit");
    assert!(unlimited.is_none(), "nothing is counted");
}

#[tokio::test(start_paused = true)]
async fn whoever_is_busy_is_not_forgotten() {
    let limits = Limits::default();
    let one = CallLimits { concurrent: 1, per_minute: 0 };
    let busy = limits.share(Party::Address(address(0)), one);
    let turn = busy.turns.take(0, Duration::ZERO).await.expect("a turn");
    assert!(!busy.is_as_new());
    drop(busy);
    for number in 1..=MOST {
        limits.share(Party::Address(address(number)), one);
    }
    assert_eq!(lock(&limits.shares).len(), 2, "those that ask for nothing have given way");
    assert!(!limits.share(Party::Address(address(0)), one).turns.is_idle(), "its turn still counts");
    // A share that a caller holds is not replaced.
    let held = limits.share(Party::Address(address(1)), one);
    for number in 2..=MOST + 1 {
        limits.share(Party::Address(address(number)), one);
    }
    assert!(Arc::ptr_eq(&held, &limits.share(Party::Address(address(1)), one)));
    drop(turn);
    assert!(limits.share(Party::Address(address(0)), one).is_as_new());
}

#[test]
fn refusals_are_counted_by_their_limit() {
    let busy = Busy::Waited { most: 1, waited: Duration::ZERO };
    let tripped = Tripped { failures: 1, reason: "no".into(), retry_in: None };
    let cases = [
        (Refusal::Rate { per_minute: 1, retry_in: Duration::ZERO }.into(), Some(Refused::Rate)),
        (Refusal::Busy(busy).into(), Some(Refused::CallerBusy)),
        (CallError::Busy(busy).into(), Some(Refused::ServerBusy)),
        (CallError::Tripped(tripped).into(), Some(Refused::Breaker)),
        (CallError::ArgumentsTooLarge { bytes: 2, most: 1 }.into(), Some(Refused::ArgumentBytes)),
        (CallError::ResultTooLarge { bytes: None, most: 1 }.into(), Some(Refused::ResultBytes)),
        (CallError::Timeout(Duration::ZERO).into(), None),
        (ForwardError::Rpc(RpcError::new(RpcError::INVALID_PARAMS, "no")), None),
    ];
    for (error, expected) in cases {
        let error: ForwardError = error;
        assert_eq!(error.refused(), expected, "{error}");
    }
}

#[test]
fn a_bucket_fills_up_to_its_size() {
    let start = Instant::now();
    let at = |ms: u64| start + Duration::from_millis(ms);
    let mut bucket = Bucket::new(2, start);
    assert!(bucket.is_full(start));
    assert_eq!(bucket.take(start), Ok(()));
    assert!(!bucket.is_full(at(29_000)));
    assert!(bucket.is_full(at(30_000)));
    assert!(bucket.left <= 2.0);
}
