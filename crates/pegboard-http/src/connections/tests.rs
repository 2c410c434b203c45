use std::net::{IpAddr, Ipv4Addr};

use proptest::prelude::*;

use super::*;

const LIMITS: ConnectionLimits =
    ConnectionLimits { total: 4, reserved: 2, per_address: 3, per_token: 2, header_timeout: Duration::from_secs(5) };

fn address(number: u8) -> Option<PeerAddress> {
    Some(IpAddr::V4(Ipv4Addr::new(192, 0, 2, number)).into())
}

fn admit(connections: &Arc<Connections>, number: u8) -> Result<Arc<Ticket>, Rejection> {
    connections.admit(address(number)).map(Arc::new)
}

/// A connection with a request in progress that was let in.
fn busy(connections: &Arc<Connections>, number: u8) -> (Arc<Ticket>, InProgress) {
    let ticket = admit(connections, number).expect("room");
    let request = ticket.begin(Some(ShareOwner::Token(Principal(number.into())))).expect("a share");
    (ticket, request)
}

fn is_open(ticket: &Ticket) -> bool {
    ticket.connections.state().open.contains_key(&ticket.number)
}

#[test]
fn the_oldest_idle_connection_makes_room() {
    let connections = Connections::new(LIMITS);
    let [first, second, third] = [1, 1, 1].map(|number| admit(&connections, number).expect("room"));
    // A request keeps the first one open; then the second was idle longest.
    let request = first.begin(None).expect("no share");
    let fourth = admit(&connections, 1).expect("the second makes room");
    assert_eq!([&first, &second, &third, &fourth].map(|ticket| is_open(ticket)), [true, false, true, true]);
    // What has just become idle is the last to go.
    drop(request);
    let fifth = admit(&connections, 1).expect("the third makes room");
    assert_eq!([&first, &third, &fourth, &fifth].map(|ticket| is_open(ticket)), [true, false, true, true]);
}

#[test]
fn connections_that_have_authenticated_are_closed_last() {
    let connections = Connections::new(LIMITS);
    let (known, request) = busy(&connections, 1);
    drop(request);
    let [unknown, other] = [1, 1].map(|number| admit(&connections, number).expect("room"));
    let newest = admit(&connections, 1).expect("an unknown one makes room");
    assert_eq!([&known, &unknown, &other, &newest].map(|ticket| is_open(ticket)), [true, false, true, true]);
    let requests = [&other, &newest].map(|ticket| ticket.begin(None).expect("no share"));
    let _latest = admit(&connections, 1).expect("the known one makes room");
    assert!(!is_open(&known));
    drop(requests);
}

#[test]
fn an_address_that_works_on_all_its_connections_is_refused_another() {
    let connections = Connections::new(LIMITS);
    let all = [1, 1, 1].map(|number| {
        let ticket = admit(&connections, number).expect("room");
        let request = ticket.begin(None).expect("no share");
        (ticket, request)
    });
    // A reserved connection is left for probes and control, and no more than half of these.
    let reserved = admit(&connections, 1).expect("a reserved one");
    assert_eq!(reserved.claim_any_path(), Err(Rejection::AddressShare));
    let probe = reserved.begin(None).expect("no share");
    assert_eq!(admit(&connections, 1).expect_err("no idle one"), Rejection::AddressShare);
    drop((probe, reserved));
    let other = admit(&connections, 2).expect("another address has a share of its own");
    drop(all);
    assert!(is_open(&other));
    assert!(admit(&connections, 1).is_ok(), "closed connections give their places back");
}

#[test]
fn reserved_connections_serve_priority_paths_alone() {
    let connections = Connections::new(LIMITS);
    let working: Vec<_> = [1, 1, 2, 2].map(|number| busy(&connections, number)).into();
    let reserved = admit(&connections, 3).expect("a reserved one");
    assert_eq!(reserved.claim_any_path(), Err(Rejection::Connections));
    let request = reserved.begin(None).expect("no share");
    let idle = admit(&connections, 4).expect("the other reserved one");
    let newer = admit(&connections, 5).expect("the idle one makes room");
    assert_eq!([&reserved, &idle, &newer].map(|ticket| is_open(ticket)), [true, false, true]);
    let also = newer.begin(None).expect("no share");
    assert_eq!(admit(&connections, 6).expect_err("nothing is idle"), Rejection::Connections);
    // A place that becomes free is taken by a reserved connection that can use it.
    drop(working);
    assert_eq!(reserved.claim_any_path(), Ok(()));
    assert_eq!(connections.state().n_reserved, 1);
    drop((request, also));
}

#[test]
fn the_most_crowded_address_makes_room_for_others() {
    let connections = Connections::new(ConnectionLimits { reserved: 0, total: 4, ..LIMITS });
    let lonely = admit(&connections, 1).expect("room");
    let crowd = [2, 2, 2].map(|number| admit(&connections, number).expect("room"));
    let newest = admit(&connections, 3).expect("one of the crowd makes room");
    assert!(is_open(&lonely) && is_open(&newest) && !is_open(&crowd[0]) && is_open(&crowd[1]));
}

#[test]
fn tokens_have_a_share_of_requests() {
    let connections = Connections::new(LIMITS);
    let token = Some(ShareOwner::Token(Principal(7)));
    let tickets = [1, 2, 3].map(|number| admit(&connections, number).expect("room"));
    let first = tickets[0].begin(token).expect("a share");
    let _second = tickets[1].begin(token).expect("a share");
    assert_eq!(tickets[2].begin(token).expect_err("two are all"), Rejection::TokenShare);
    assert!(tickets[2].begin(Some(ShareOwner::Token(Principal(8)))).is_ok(), "another token has its own");
    drop(first);
    assert!(tickets[2].begin(token).is_ok());
    drop(tickets);
}

#[test]
fn requests_to_priority_paths_have_a_share_of_their_own() {
    let connections = Connections::new(ConnectionLimits { total: 100, per_address: 100, ..LIMITS });
    let ticket = admit(&connections, 1).expect("room");
    let check = |priority: Option<ShareOwner>, ordinary: Option<ShareOwner>, expected: Rejection| {
        let requests: Vec<_> = (0..20).filter_map(|_| ticket.begin(priority).ok()).collect();
        assert_eq!(requests.len(), PRIORITY_REQUESTS);
        assert_eq!(ticket.begin(priority).expect_err("these are all"), expected);
        assert!(ticket.begin(ordinary).is_ok(), "the other share is not touched");
    };
    let (token, client) = (Principal(1), address(1).expect("an address"));
    check(Some(ShareOwner::TokenPriority(token)), Some(ShareOwner::Token(token)), Rejection::TokenShare);
    check(Some(ShareOwner::AddressPriority(client)), Some(ShareOwner::Address(client)), Rejection::AddressShare);
}

#[test]
fn clients_behind_a_proxy_have_a_share_of_requests() {
    let connections = Connections::new(ConnectionLimits { total: 100, ..LIMITS });
    let tickets: Vec<_> = (0..10).map(|_| Arc::new(connections.admit(None).expect("proxies have no share"))).collect();
    let client = address(9).map(ShareOwner::Address);
    let requests: Vec<_> = tickets.iter().map(|ticket| ticket.begin(client)).collect();
    assert_eq!(requests.iter().filter(|request| request.is_ok()).count(), LIMITS.per_address);
    assert!(tickets[9].begin(address(8).map(ShareOwner::Address)).is_ok());
}

#[test]
fn one_caller_has_all_connections() {
    let limits = ConnectionLimits::for_one_caller(7);
    assert_eq!((limits.total, limits.reserved, limits.per_address, limits.per_token), (7, 0, 7, 7));
}

#[test]
fn nothing_is_left_behind() {
    let connections = Connections::new(LIMITS);
    let working: Vec<_> = [1, 1, 2, 2, 3].map(|number| busy(&connections, number)).into();
    drop(working);
    let state = connections.state();
    assert!(state.open.is_empty() && state.groups.is_empty() && state.in_progress.is_empty());
    assert_eq!(state.n_reserved, 0);
}

#[tokio::test(start_paused = true)]
async fn connections_must_authenticate_in_time() {
    let connections = Connections::new(LIMITS);
    let began = Instant::now();
    let ticket = admit(&connections, 1).expect("room");
    assert_eq!(ticket.wait_until_must_close().await, "no authenticated request in time");
    assert_eq!(began.elapsed(), LIMITS.header_timeout);
    // A request that needs no token gives another such time, not more.
    let request = ticket.begin(None).expect("no share");
    let waiting = tokio::spawn({
        let ticket = Arc::clone(&ticket);
        async move { ticket.wait_until_must_close().await }
    });
    tokio::time::sleep(Duration::from_secs(60)).await;
    drop(request);
    let ended = Instant::now();
    assert_eq!(waiting.await.expect("no panic"), "no authenticated request in time");
    assert!(ended.elapsed() >= LIMITS.header_timeout && ended.elapsed() <= 2 * LIMITS.header_timeout);
}

#[tokio::test(start_paused = true)]
async fn known_connections_close_for_others_alone() {
    let connections = Connections::new(ConnectionLimits { per_address: 1, ..LIMITS });
    let (known, request) = busy(&connections, 1);
    drop(request);
    assert!(tokio::time::timeout(Duration::from_secs(3600), known.wait_until_must_close()).await.is_err());
    let _new = admit(&connections, 1).expect("the known one makes room");
    assert_eq!(known.wait_until_must_close().await, "evicted for a new connection");
}

/// What happens to connections, by the numbers of addresses and of what is open.
#[derive(Clone, Debug)]
enum Event {
    Admit(Option<u8>),
    Begin(usize, bool),
    End(usize),
    ClaimAnyPath(usize),
    Close(usize),
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        proptest::option::weighted(0.9, 0..4u8).prop_map(Event::Admit),
        (0..8usize, any::<bool>()).prop_map(|(at, is_known)| Event::Begin(at, is_known)),
        (0..8usize).prop_map(Event::End),
        (0..8usize).prop_map(Event::ClaimAnyPath),
        (0..8usize).prop_map(Event::Close),
    ]
}

/// Whether what is counted is what is open.
fn check_counts(state: &State) {
    let mut groups: HashMap<Group, Members> = HashMap::new();
    for (number, connection) in &state.open {
        let members = groups.entry(connection.group).or_default();
        members.count += 1;
        if connection.requests == 0 {
            members.idle.insert(connection.order(), *number);
        }
    }
    assert_eq!(state.groups, groups);
    let reserved = state.open.values().filter(|connection| connection.group.is_reserved).count();
    assert_eq!(state.n_reserved, reserved);
    assert!(state.n_unreserved() <= LIMITS.total && reserved <= LIMITS.reserved);
    let most = |group: &Group| if group.is_reserved { LIMITS.reserved.div_ceil(2) } else { LIMITS.per_address };
    let with_share = groups.iter().filter(|(group, _)| group.address.is_some());
    with_share.for_each(|(group, members)| assert!(members.count <= most(group), "{group:?}"));
}

proptest! {
    #[test]
    fn counts_follow_what_is_open(events in proptest::collection::vec(event(), 0..60)) {
        let connections = Connections::new(LIMITS);
        let (mut tickets, mut requests) = (Vec::new(), Vec::new());
        for event in events {
            match event {
                Event::Admit(number) => tickets.extend(connections.admit(number.and_then(address)).map(Arc::new)),
                Event::Begin(at, is_known) => {
                    let holder = is_known.then_some(ShareOwner::Token(Principal(at)));
                    requests.extend(tickets.get(at).and_then(|ticket: &Arc<Ticket>| ticket.begin(holder).ok()));
                }
                Event::End(at) if at < requests.len() => drop(requests.remove(at)),
                Event::ClaimAnyPath(at) => _ = tickets.get(at).map(|ticket| ticket.claim_any_path()),
                Event::Close(at) if at < tickets.len() => drop(tickets.remove(at)),
                Event::End(_) | Event::Close(_) => {}
            }
            check_counts(&connections.state());
        }
        drop((tickets, requests));
        prop_assert!(connections.state().groups.is_empty());
    }
}
