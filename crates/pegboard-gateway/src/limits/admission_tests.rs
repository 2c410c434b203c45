//! Who shares a limit with whom, and which calls pass.

use std::net::{IpAddr, Ipv4Addr};

use pegboard_core::{Secret, Selection, breaker::Tripped};
use pegboard_http::{PeerAddress, Principal};
use pegboard_upstream::CallError;

use super::*;
use crate::{
    GatewaySettings, caller::Caller, exchange::Exchange, forward::calls::ForwardError, metrics::RejectReason,
    settings::Token, setup::Setup, testing,
};

/// Settings in which everybody has `limits`, and the holders of tokens have their own.
fn setup(limits: CallLimits, own: &[Option<CallLimits>]) -> Arc<Setup> {
    let token = |(at, limits): (usize, &Option<CallLimits>)| Token {
        name: format!("holder {at}"),
        secret: Secret::new(format!("a-secret-of-holder-{at}")),
        selection: Selection::everything(),
        limits: *limits,
    };
    let tokens = own.iter().enumerate().map(token).collect();
    testing::setups(GatewaySettings { limits, tokens, ..GatewaySettings::default() }).current()
}

fn address(number: usize) -> PeerAddress {
    let number = u32::try_from(number).expect("a small number");
    IpAddr::V4(Ipv4Addr::from(number)).into()
}

const fn token(number: usize) -> Caller {
    Caller::Token(Principal(number))
}

#[test]
fn parties_and_queues() {
    let check = |caller: Caller, session: Option<(u64, bool)>, party: Option<u64>, member: u64| {
        let exchange = testing::exchange(caller, session);
        assert_eq!(exchange.party(), Party::Caller(caller), "{caller:?} {session:?}");
        assert_eq!(exchange.on_behalf(true), CallerKey { party, member }, "{caller:?} {session:?}");
        assert_eq!(exchange.on_behalf(false), CallerKey { party: None, member }, "{caller:?} {session:?}");
    };
    // The holder of a token has one share; its sessions take turns within it.
    check(token(3), None, Some(3), u64::MAX);
    check(token(3), Some((7, true)), Some(3), 7);
    check(token(3), Some((7, false)), Some(3), u64::MAX);
    check(Caller::Anybody, Some((7, true)), None, 7);
    check(Caller::Anybody, Some((7, false)), None, u64::MAX);
    check(Caller::Pipe, Some((7, true)), None, 7);
    check(Caller::Pipe, None, None, u64::MAX);
    // Without tokens callers are told apart by their addresses, whatever sessions they begin.
    let from = |caller| Exchange { address: Some(address(1)), ..testing::exchange(caller, Some((7, true))) };
    assert_eq!(from(Caller::Anybody).party(), Party::Address(address(1)));
    assert_eq!(from(token(3)).party(), Party::Caller(token(3)));
}

#[tokio::test(start_paused = true)]
async fn calls_at_a_time() {
    let (limits, one_at_a_time) = (AdmissionControl::default(), CallLimits { concurrent: 1, per_minute: 0 });
    let [one, other] = [1, 2].map(|number| Party::Address(address(number)));
    let wait = Duration::from_secs(3);
    let turn = limits.admit(one_at_a_time, one, wait).await.expect("the first call").expect("a turn");
    let busy = limits.admit(one_at_a_time, one, wait).await.expect_err("there is one already");
    assert_eq!(busy, LimitExceeded::Busy(Busy::Waited { limit: 1, waited: wait }));
    assert!(limits.admit(one_at_a_time, other, wait).await.is_ok(), "another address has its own share");
    drop(turn);
    assert!(limits.admit(one_at_a_time, one, wait).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn calls_in_a_minute() {
    let setup = setup(
        CallLimits { concurrent: 0, per_minute: 2 },
        &[None, Some(CallLimits { concurrent: 0, per_minute: 1 }), Some(CallLimits::default())],
    );
    let limits = AdmissionControl::default();
    let admit = |caller| limits.admit(setup.limits_of(caller), Party::Caller(caller), Duration::ZERO);
    let passing = async |caller: Caller| {
        let mut passed = 0;
        while passed < 5 && admit(caller).await.is_ok() {
            passed += 1;
        }
        passed
    };
    assert_eq!(passing(token(0)).await, 2, "what everybody may");
    assert_eq!(passing(token(1)).await, 1, "a limit of its own");
    assert_eq!(passing(token(2)).await, 5, "no limit");
    assert_eq!(passing(Caller::Anybody).await, 2);
    let refused = admit(token(1)).await.expect_err("it is used up");
    assert_eq!(refused, LimitExceeded::Rate { per_minute: 1, retry_in: Duration::from_secs(60) });
    assert!(admit(token(2)).await.expect("no limit").is_none(), "nothing is counted");
}

#[tokio::test(start_paused = true)]
async fn busy_callers_are_not_evicted() {
    let limits = AdmissionControl::default();
    let one = CallLimits { concurrent: 1, per_minute: 0 };
    let busy = limits.share(Party::Address(address(0)), one);
    let turn = busy.turns.acquire(CallerKey::default(), Duration::ZERO).await.expect("a turn");
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

#[tokio::test(start_paused = true)]
async fn long_work_goes_round_by_party() {
    let limits = AdmissionControl { long_work: CallQueue::new(1), ..AdmissionControl::default() };
    let party = |number| Party::Address(address(number));
    assert!(limits.begin_work(party(1), LONG_ARGUMENTS - 1).await.expect("no turn is needed").is_none());
    let first = limits.begin_work(party(1), LONG_ARGUMENTS).await.expect("a turn");
    assert!(first.is_some());
    assert!(limits.begin_work(party(2), 0).await.expect("short work does not wait").is_none());
    let order = Mutex::new(Vec::new());
    let work = async |number: usize| {
        let turn = limits.begin_work(party(number), LONG_ARGUMENTS).await;
        lock(&order).push(number);
        drop(turn);
    };
    tokio::join!(work(1), work(1), work(1), work(2), async { drop(first) });
    assert_eq!(*lock(&order), [1, 2, 1, 1]);
    let _held = limits.begin_work(party(1), LONG_ARGUMENTS).await;
    let busy = limits.begin_work(party(2), LONG_ARGUMENTS).await.expect_err("it waits for too long");
    let expected = "the gateway is busy: a request with large arguments gave up after 30 s; try again later";
    assert_eq!(busy.message, expected);
}

#[test]
fn unread_answers() {
    const MOST: usize = 10 * SMALL_ANSWER;
    let limits = AdmissionControl::default();
    let open = |number, bytes| limits.open_answer(Party::Address(address(number)), bytes, MOST);
    assert!(matches!(open(1, SMALL_ANSWER), Ok(None)));
    let one = open(1, SMALL_ANSWER + 1).expect("room");
    assert!(one.is_some());
    assert!(open(1, MOST).is_err());
    assert!(open(2, MOST).is_ok());
    drop(one);
    let huge = open(1, 2 * MOST).expect("a single answer may have any size");
    let refused = TooMuchUnread { bytes: SMALL_ANSWER + 1, most: MOST };
    assert_eq!(open(1, SMALL_ANSWER + 1).expect_err("no room"), refused);
    drop(huge);
}

#[test]
fn refusals_are_counted_by_their_limit() {
    let busy = Busy::Waited { limit: 1, waited: Duration::ZERO };
    let tripped = Tripped { failures: 1, reason: "no".into(), retry_in: None };
    let cases = [
        (LimitExceeded::Rate { per_minute: 1, retry_in: Duration::ZERO }.into(), Some(RejectReason::Rate)),
        (LimitExceeded::Busy(busy).into(), Some(RejectReason::CallerBusy)),
        (CallError::Busy(busy).into(), Some(RejectReason::ServerBusy)),
        (CallError::Tripped(tripped).into(), Some(RejectReason::Breaker)),
        (CallError::ArgumentsTooLarge { bytes: 2, most: 1 }.into(), Some(RejectReason::ArgumentBytes)),
        (CallError::ResultTooLarge { bytes: None, most: 1 }.into(), Some(RejectReason::ResultBytes)),
        (CallError::Timeout(Duration::ZERO).into(), None),
        (ForwardError::Rpc(RpcError::new(RpcError::INVALID_PARAMS, "no")), None),
    ];
    for (error, expected) in cases {
        let error: ForwardError = error;
        assert_eq!(error.reject_reason(), expected, "{error}");
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
