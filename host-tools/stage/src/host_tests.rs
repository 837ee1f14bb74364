use super::*;
use compasso_wire::{ClusterTime, Event, Instant};

const NODE: NodeId = NodeId(3);
const NOW: Duration = Duration::from_secs(1);

/// The node's side, just enough of it.
struct Board {
    incarnation: u32,
    sequence: u32,
}

impl Board {
    fn boot(incarnation: u32) -> Board {
        Board { incarnation, sequence: 0 }
    }

    fn say(&mut self, body: &Body<'_>) -> Vec<u8> {
        self.say_to(NodeId::HOST, body)
    }

    fn say_to(&mut self, to: NodeId, body: &Body<'_>) -> Vec<u8> {
        self.sequence += 1;
        let header = Header {
            cluster: 7,
            sender: NODE,
            incarnation: self.incarnation,
            sequence: self.sequence,
            snapshot: 0,
            lamport: 1,
            vector: Vector::default(),
        };
        compasso_wire::seal(&key(), &header, to, body, &mut [0; DATAGRAM_MAX]).to_vec()
    }

    /// Says something, is challenged, proves itself.
    fn join(&mut self, host: &mut Host) {
        let first = self.telemetry(0, 0);
        assert_eq!(host.handle(NOW, &first), Err(Refusal::Unproven));
        let Some(challenge) = sent(host).into_iter().find_map(|said| match said {
            Said::Challenge(challenge) => Some(challenge),
            _ => None,
        }) else {
            panic!("the host must challenge a life it does not know");
        };
        let proof = self.say(&Body::Proof(challenge));
        assert_eq!(host.handle(NOW, &proof), Ok(()));
        sent(host);
    }

    fn telemetry(&mut self, first: u32, count: u32) -> Vec<u8> {
        let mut records = Vec::new();
        for seq in first + 1..=first + count {
            let observation = Observation {
                seq,
                lamport: u64::from(seq),
                vector: Vector::default(),
                hw: Instant(u64::from(seq)),
                cluster: None,
                event: Event::Boot { incarnation: self.incarnation },
            };
            records.extend_from_slice(postcard::to_slice(&observation, &mut [0; 64]).unwrap());
        }
        self.say(&Body::Telemetry(Telemetry {
            first,
            count: count as u16,
            missed: 0,
            hw: Instant(10),
            raw_ns: 10_000,
            rate_ppb: 0,
            records: &records,
        }))
    }
}

#[derive(PartialEq, Debug)]
enum Said {
    Challenge(Challenge),
    Proof(Challenge),
    Ack(u32),
    Command(u32, Command),
    Time(ClusterTime, Option<Leap>),
}

fn key() -> Key {
    Key([5; 16])
}

fn host() -> Host {
    Host::new(key(), 7, &[NodeId(1), NODE])
}

fn sent(host: &mut Host) -> Vec<Said> {
    let mut said = Vec::new();
    while let Some((to, datagram)) = host.poll_transmit() {
        assert_eq!(to, NODE);
        let opened = compasso_wire::open(&key(), 7, to, |id| id == NodeId::HOST, &datagram).unwrap();
        said.push(match opened.body {
            Body::Challenge(challenge) => Said::Challenge(challenge),
            Body::Proof(challenge) => Said::Proof(challenge),
            Body::TelemetryAck { next } => Said::Ack(next),
            Body::Command { index, command } => Said::Command(index, command),
            Body::TimeReply { cluster, leap, .. } => Said::Time(cluster, leap),
            other => panic!("the host does not say {other:?}"),
        });
    }
    said
}

fn seqs(host: &mut Host) -> Vec<u32> {
    std::iter::from_fn(|| host.poll_batch()).flat_map(|b| b.observations).map(|o| o.seq).collect()
}

#[test]
fn nothing_is_taken_from_a_life_that_has_not_proven_itself() {
    let mut host = host();
    let mut board = Board::boot(1);
    let telemetry = board.telemetry(0, 2);
    assert_eq!(host.handle(NOW, &telemetry), Err(Refusal::Unproven));
    assert_eq!(sent(&mut host).len(), 1, "one challenge");
    assert_eq!(host.handle(NOW, &telemetry), Err(Refusal::Unproven));
    assert_eq!(sent(&mut host).len(), 0, "and not one for every datagram");
    let made_up = board.say(&Body::Proof(Challenge { incarnation: 1, count: 99 }));
    assert_eq!(host.handle(NOW, &made_up), Err(Refusal::Unproven));
    assert!(host.poll_batch().is_none());
}

#[test]
fn a_challenge_is_answered_also_to_a_stranger() {
    let mut host = host();
    let challenge = Challenge { incarnation: 1, count: 4 };
    let _ = host.handle(NOW, &Board::boot(1).say(&Body::Challenge(challenge)));
    assert!(sent(&mut host).contains(&Said::Proof(challenge)));
}

#[test]
fn records_come_once_and_in_order_whatever_the_network_does() {
    let mut host = host();
    let mut board = Board::boot(1);
    board.join(&mut host);
    let (one, three, two) = (board.telemetry(0, 2), board.telemetry(4, 2), board.telemetry(1, 3));
    assert_eq!(host.handle(NOW, &one), Ok(()));
    assert_eq!(sent(&mut host), [Said::Ack(2)]);
    assert_eq!(host.handle(NOW, &three), Ok(()));
    assert_eq!(sent(&mut host), [Said::Ack(2)], "a hole: the board is told where it begins");
    assert_eq!(host.handle(NOW, &two), Ok(()));
    assert_eq!(sent(&mut host), [Said::Ack(4)]);
    assert_eq!(host.handle(NOW, &two), Err(Refusal::Replayed));
    assert_eq!(seqs(&mut host), [1, 2, 3, 4]);
    assert_eq!(host.taken(NODE), Some((1, 4)));
}

#[test]
fn a_new_life_begins_a_new_stream_and_ends_the_old_one() {
    let mut host = host();
    let mut old = Board::boot(1);
    old.join(&mut host);
    let early = old.telemetry(0, 1);
    host.handle(NOW, &early).unwrap();
    let late = old.telemetry(1, 1);
    let mut new = Board::boot(2);
    new.join(&mut host);
    assert_eq!(host.handle(NOW, &late), Err(Refusal::PastLife));
    host.handle(NOW, &new.telemetry(0, 1)).unwrap();
    assert_eq!(seqs(&mut host), [1, 1]);
}

#[test]
fn a_buried_life_says_nothing_more_and_its_commands_are_void() {
    let mut host = host();
    let mut board = Board::boot(1);
    board.join(&mut host);
    host.handle(NOW, &board.telemetry(0, 3)).unwrap();
    host.command(NOW, NODE, Command::Elect);
    sent(&mut host);
    assert_eq!(host.bury(NODE, 1), 3);
    assert_eq!(host.handle(NOW, &board.telemetry(3, 1)), Err(Refusal::PastLife));
    assert!(host.is_obeyed(NODE));
    Board::boot(2).join(&mut host);
    assert_eq!(host.taken(NODE), Some((2, 0)));
}

#[test]
fn a_command_is_repeated_until_it_is_acknowledged_and_the_next_waits_for_it() {
    let mut host = host();
    host.command(NOW, NODE, Command::Elect);
    assert_eq!(sent(&mut host), [], "nobody is there to obey");
    let mut board = Board::boot(1);
    board.join(&mut host);
    host.command(NOW, NODE, Command::DropToken);
    let later = NOW + COMMAND_AGAIN;
    host.handle_timeout(later);
    assert!(sent(&mut host).iter().all(|said| *said == Said::Command(0, Command::Elect)));
    assert!(!host.is_obeyed(NODE));
    host.handle(later, &board.say(&Body::CommandAck { next: 1 })).unwrap();
    assert_eq!(sent(&mut host), [Said::Command(1, Command::DropToken)]);
    host.handle(later, &board.say(&Body::CommandAck { next: 2 })).unwrap();
    assert!(host.is_obeyed(NODE));
    assert_eq!(host.poll_timeout(), None);
}

#[test]
fn what_is_forged_foreign_or_cut_is_refused_by_name() {
    let mut host = host();
    let good = Board::boot(1).telemetry(0, 1);
    let mut forged = good.clone();
    *forged.last_mut().unwrap() ^= 1;
    assert_eq!(host.handle(NOW, &forged), Err(Refusal::Forged));
    for length in 0..good.len() {
        assert!(host.handle(NOW, &good[..length]).is_err());
    }
    assert_eq!(Host::new(key(), 8, &[NODE]).handle(NOW, &good), Err(Refusal::Foreign));
    assert_eq!(Host::new(key(), 7, &[NodeId(1)]).handle(NOW, &good), Err(Refusal::NotAMember(NODE)));
}

#[test]
fn the_host_tells_true_time_while_it_serves_it() {
    let mut host = host();
    let mut board = Board::boot(1);
    board.join(&mut host);
    let mut ask = |host: &mut Host| {
        let question = board.say(&Body::TimeRequest { sent: Instant(5) });
        assert_eq!(host.handle(NOW, &question), Ok(()));
        sent(host)
    };
    assert_eq!(ask(&mut host), [], "nobody said that it has the time");
    host.serve_time(700, 1);
    let leap = Leap { at: ClusterTime(9), by: -1 };
    host.announce(leap);
    assert_eq!(ask(&mut host), [Said::Time(ClusterTime(1_000_700), Some(leap))]);
    host.set_serving(None, false);
    assert_eq!(ask(&mut host), []);
}

#[test]
fn hosts_beside_the_first_tell_the_time_and_nothing_else() {
    let (mut host, mut board) = (host(), Board::boot(1));
    let question = Body::TimeRequest { sent: Instant(5) };
    let [first, second, third] = [0, 1, 2].map(NodeId::host);
    let mut ask = |host: &mut Host, to: NodeId, body: &Body<'_>| {
        let taken = host.handle(NOW, &board.say_to(to, body));
        let heard = host.poll_transmit().map(|(_, datagram)| {
            let opened = compasso_wire::open(&key(), 7, NODE, |id| id == to, &datagram).unwrap();
            match opened.body {
                Body::TimeReply { cluster, .. } => cluster.0,
                Body::Proof(challenge) => i64::from(challenge.count),
                other => panic!("{other:?}"),
            }
        });
        (taken, heard)
    };
    assert_eq!(ask(&mut host, second, &question), (Err(Refusal::Forged), None), "there is no such host");
    host.serve_time(700, 3);
    assert_eq!(ask(&mut host, second, &question), (Ok(()), Some(1_000_700)));
    assert_eq!(ask(&mut host, third, &Body::Challenge(Challenge { incarnation: 1, count: 44 })), (Ok(()), Some(44)));
    assert_eq!(ask(&mut host, third, &Body::Alive), (Err(Refusal::Unexpected), None));
    host.lie(NOW, 1, Lie { by_us: -80_000, ppm: 0.0 });
    assert_eq!(ask(&mut host, second, &question), (Ok(()), Some(920_700)));
    assert_eq!(ask(&mut host, third, &question), (Ok(()), Some(1_000_700)), "only one lies");
    host.set_serving(Some(1), false);
    assert_eq!(ask(&mut host, second, &question), (Ok(()), None));
    assert_eq!(ask(&mut host, third, &question), (Ok(()), Some(1_000_700)));
    assert_eq!(ask(&mut host, first, &Body::Challenge(Challenge { incarnation: 1, count: 3 })).1, Some(3));
}

/// The host was started anew, and the board has gone on with its life.
fn joining(incarnation: u32) -> Host {
    Host::joining(key(), 7, &[NodeId(1), NODE], incarnation)
}

#[test]
fn a_later_host_takes_a_stream_up_where_the_earlier_one_left_it() {
    let mut host = joining(5);
    let mut board = Board::boot(1);
    board.join(&mut host);
    // A window full of batches was on its way when the host came: the last of it is no beginning.
    assert_eq!(host.handle(NOW, &board.telemetry(60, 5)), Ok(()));
    assert_eq!(host.handle(NOW + JOIN_AFTER / 2, &board.telemetry(40, 5)), Ok(()));
    assert_eq!((sent(&mut host), seqs(&mut host)), (Vec::new(), Vec::new()), "it must go back first");
    let later = NOW + JOIN_AFTER;
    assert_eq!(host.handle(later, &board.telemetry(45, 5)), Ok(()));
    assert_eq!(sent(&mut host), [], "that is not the first one it has");
    assert_eq!(host.handle(later, &board.telemetry(40, 5)), Ok(()));
    assert_eq!(sent(&mut host), [Said::Ack(45)]);
    assert_eq!(seqs(&mut host), [41, 42, 43, 44, 45]);
    let mut next = Board::boot(2);
    next.join(&mut host);
    assert_eq!(host.handle(later, &next.telemetry(0, 2)), Ok(()), "a life from its beginning needs no patience");
    assert_eq!(sent(&mut host), [Said::Ack(2)]);
}

#[test]
fn a_later_host_asks_which_command_is_next() {
    let mut host = joining(5);
    let mut board = Board::boot(1);
    board.join(&mut host);
    host.command(NOW, NODE, Command::Elect);
    assert_eq!(sent(&mut host), [Said::Command(u32::MAX, Command::Elect)], "nobody carries that one out");
    host.handle(NOW, &board.say(&Body::CommandAck { next: 3 })).unwrap();
    assert!(!host.is_obeyed(NODE), "the earlier host gave those");
    assert_eq!(sent(&mut host), [Said::Command(3, Command::Elect)]);
    host.handle(NOW, &board.say(&Body::CommandAck { next: 4 })).unwrap();
    assert!(host.is_obeyed(NODE));
}

#[test]
fn no_two_hosts_say_the_same_under_one_number() {
    let asked = |host: &mut Host| {
        let _ = host.handle(NOW, &Board::boot(1).telemetry(0, 1));
        host.poll_transmit().unwrap().1
    };
    let (one, other) = (asked(&mut joining(5)), asked(&mut joining(6)));
    let incarnation = |datagram: &[u8]| {
        compasso_wire::open(&key(), 7, NODE, |id| id == NodeId::HOST, datagram).unwrap().header.incarnation
    };
    assert_eq!((incarnation(&one), incarnation(&other)), (5, 6));
}
