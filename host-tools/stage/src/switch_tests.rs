use super::*;
use crate::frame;
use compasso_wire::address::{HOST_IPV4, mac, member_ipv4};

const PATIENCE: Duration = Duration::from_secs(10);

struct Lab {
    switch: Switch,
    boards: Vec<UnixDatagram>,
    folder: tempfile::TempDir,
}

impl Lab {
    fn new(boards: usize) -> Lab {
        let folder = tempfile::tempdir().unwrap();
        let names: Vec<String> = (0..boards).map(|i| format!("node {i}")).collect();
        let capture = folder.path().join("c.pcapng");
        let switch = Switch::start(folder.path(), &names, 1, Some(&capture)).unwrap();
        let boards = (0..boards)
            .map(|position| {
                let socket = UnixDatagram::bind(board_socket(folder.path(), position)).unwrap();
                socket.set_read_timeout(Some(PATIENCE)).unwrap();
                socket
            })
            .collect();
        Lab { switch, boards, folder }
    }

    fn send(&self, from: usize, to: [u8; 4], text: &[u8]) {
        let mut frame = mac(to).to_vec();
        frame.extend(mac(member_ipv4(from)));
        frame.extend([8, 0]);
        frame.extend(text);
        self.boards[from].send_to(&frame, switch_socket(self.folder.path(), from)).unwrap();
    }

    fn received(&self, at: usize) -> Vec<u8> {
        let mut buffer = [0; FRAME_MAX];
        let length = self.boards[at].recv(&mut buffer).unwrap();
        buffer[14..length].to_vec()
    }
}

#[test]
fn frames_find_boards_and_host() {
    let lab = Lab::new(3);
    lab.send(0, member_ipv4(2), b"to two");
    assert_eq!(lab.received(2), b"to two");
    lab.send(1, HOST_IPV4, b"to host");
    let mut buffer = [0; FRAME_MAX];
    assert_eq!(&lab.switch.receive(PATIENCE, &mut buffer).unwrap().unwrap()[14..], b"to host");
    lab.switch.send(&frame::from_host(1, b"from host")).unwrap();
    assert!(lab.received(1).ends_with(b"from host"));
    let counters = lab.switch.stop().unwrap();
    assert_eq!((counters.datagrams, counters.host_frames), (1, 2));
    assert!(std::fs::metadata(lab.folder.path().join("c.pcapng")).unwrap().len() > 100);
}

#[test]
fn a_full_queue_delays_frames_and_loses_none() {
    let lab = Lab::new(2);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for number in 0..200u8 {
                lab.send(0, member_ipv4(1), &[number]);
            }
        });
        std::thread::sleep(Duration::from_millis(50)); // The receiver sleeps: the kernel takes ten.
        for number in 0..200 {
            assert_eq!(lab.received(1), [number]);
        }
    });
}

#[test]
fn faults_spare_the_host_and_partitions_can_be_healed() {
    let lab = Lab::new(2);
    lab.switch.set_faults(Faults { loss: 1.0, ..Faults::default() });
    lab.send(0, member_ipv4(1), b"lost");
    lab.send(0, HOST_IPV4, b"kept");
    let mut buffer = [0; FRAME_MAX];
    assert!(lab.switch.receive(PATIENCE, &mut buffer).unwrap().is_some());
    lab.switch.set_faults(Faults::default());
    lab.switch.set_sides(vec![0, 1]);
    lab.send(0, member_ipv4(1), b"blocked");
    lab.send(0, HOST_IPV4, b"kept");
    assert!(lab.switch.receive(PATIENCE, &mut buffer).unwrap().is_some());
    lab.switch.set_sides(Sides::new());
    lab.send(0, member_ipv4(1), b"arrives");
    assert_eq!(lab.received(1), b"arrives");
    let counters = lab.switch.counters();
    assert_eq!((counters.lost, counters.blocked, counters.datagrams), (1, 1, 3));
}

#[test]
fn a_delay_is_kept_and_a_duplicate_comes_twice() {
    let lab = Lab::new(2);
    let delay = Duration::from_millis(30);
    lab.switch.set_faults(Faults { delay_min: delay, delay_max: delay, duplicate: 1.0, ..Faults::default() });
    let sent = Instant::now();
    lab.send(0, member_ipv4(1), b"twice");
    assert_eq!(lab.received(1), b"twice");
    assert!(sent.elapsed() >= delay);
    assert_eq!(lab.received(1), b"twice");
}

#[test]
fn a_board_that_is_gone_is_no_trouble() {
    let mut lab = Lab::new(3);
    lab.boards.remove(2);
    lab.send(0, member_ipv4(2), b"into the void");
    lab.send(0, member_ipv4(1), b"arrives");
    assert_eq!(lab.received(1), b"arrives");
    assert_eq!(lab.switch.counters().undelivered, 1);
}
