use super::*;
use crate::create_key;
use std::{fs, os::unix::fs::PermissionsExt};

const GOOD: &str = r#"cluster = 7
key = "cluster.key"

[host]
bind = "127.0.0.1:9000"

[[board]]
node = 3
image = "w5500-evb-pico"
probe = "E661AAAA"

[[board]]
node = 1
image = "pico-usb"
address = "192.168.0.9:7000"
"#;

struct Place(tempfile::TempDir);

impl Place {
    fn new() -> Place {
        let place = Place(tempfile::tempdir().unwrap());
        create_key(&place.path("cluster.key")).unwrap();
        place
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn load(&self, text: &str) -> Result<Fleet, ScenarioError> {
        fs::write(self.path("fleet.toml"), text).unwrap();
        Fleet::load(&self.path("fleet.toml"))
    }

    fn refused(&self, text: &str) -> ScenarioError {
        self.load(text).unwrap_err()
    }
}

#[test]
fn boards_stand_in_ring_order_and_have_addresses() {
    let fleet = Place::new().load(GOOD).unwrap();
    assert_eq!((fleet.cluster, fleet.ids()), (7, vec![3, 1]));
    assert_eq!(fleet.bind, "127.0.0.1:9000".parse().unwrap());
    assert_eq!(fleet.boards[0].probe.as_deref(), Some("E661AAAA"));
    assert_eq!(fleet.boards[0].address, "10.77.0.1:7117".parse().unwrap(), "where its page puts it");
    assert_eq!(fleet.boards[1].address, "192.168.0.9:7000".parse().unwrap());
    assert_eq!(fleet.boards[1].image, BoardKind::PicoUsb);
    let plain = GOOD.replace("[host]\nbind = \"127.0.0.1:9000\"\n", "");
    assert_eq!(Place::new().load(&plain).unwrap().bind, "10.77.255.254:7117".parse().unwrap());
}

/// Each mistake: what replaces what, the line, the field and what the message says.
#[test]
fn every_mistake_is_one_line_that_names_its_place() {
    let mistakes = [
        ("cluster = 7", "cluster = 0", 1, "cluster", "the cluster's number"),
        ("cluster = 7", "", 1, "cluster", "missing"),
        ("cluster = 7", "cluster = 7\nboat = 1", 2, "boat", "unknown key"),
        ("cluster = 7", "cluster = 7\ncluster = 8", 2, "cluster", "found twice"),
        ("key = \"cluster.key\"", "", 1, "key", "compasso keys new"),
        ("\"cluster.key\"", "\"other.key\"", 2, "key", "there is none; to make it: compasso keys new --out"),
        ("bind", "bnid", 5, "host.bnid", "unknown key"),
        ("127.0.0.1:9000", "nowhere", 5, "host.bind", "IPv4"),
        ("127.0.0.1:9000", "[::1]:9000", 5, "host.bind", "IPv4"),
        ("node = 3", "node = 65535", 8, "board[0].node", "0 to 65532"),
        ("node = 3", "nod = 3", 8, "board[0].nod", "unknown key"),
        ("node = 1", "node = 3", 13, "board[1].node", "3 is there twice"),
        ("node = 1\n", "", 12, "board[1].node", "missing"),
        ("pico-usb", "pico-x", 14, "board[1].image", "w5500-evb-pico, pico-usb, pico-w"),
        ("\"pico-usb\"", "\"pico-w\"", 14, "board[1].image", "[wifi]"),
        ("probe = \"E661AAAA\"", "probe = \"\"", 10, "board[0].probe", "probe-rs list"),
        ("address = ", "probe = \"E661AAAA\"\naddress = ", 15, "board[1].probe", "E661AAAA is node 3's"),
        ("192.168.0.9:7000", "10.77.0.1", 15, "board[1].address", "10.77.0.1:7117 is node 3's"),
        ("192.168.0.9:7000", "10.77.0", 15, "board[1].address", "10.77.0"),
        ("cluster = 7", "cluster = ", 1, "", ""),
    ];
    let place = Place::new();
    for (from, to, line, field, says) in mistakes {
        assert!(GOOD.contains(from), "{from}");
        let error = place.refused(&GOOD.replacen(from, to, 1));
        let text = error.to_string();
        assert_eq!((error.line, error.field.as_str()), (line, field), "{to}: {text}");
        assert!(text.contains(says) && text.lines().count() == 1 && text.contains("fleet.toml"), "{to}: {text}");
    }
}

#[test]
fn a_key_that_others_may_read_is_refused() {
    let place = Place::new();
    fs::set_permissions(place.path("cluster.key"), fs::Permissions::from_mode(0o644)).unwrap();
    let error = place.refused(GOOD);
    assert_eq!((error.line, error.field.as_str()), (2, "key"));
    assert!(error.message.contains("0644") && error.message.contains("chmod 600"), "{error}");
}

#[test]
fn a_radio_gets_its_network_from_a_file_that_nobody_else_reads() {
    let place = Place::new();
    let text = GOOD.replace("pico-usb", "pico-w") + "[wifi]\nssid = \"room 7\"\npassphrase_file = \"wifi\"\n";
    assert!(place.refused(&text).message.contains("there is none"));
    fs::write(place.path("wifi"), "correct horse\n").unwrap();
    fs::set_permissions(place.path("wifi"), fs::Permissions::from_mode(0o644)).unwrap();
    assert!(place.refused(&text).message.contains("chmod 600"));
    fs::set_permissions(place.path("wifi"), fs::Permissions::from_mode(0o600)).unwrap();
    let wifi = place.load(&text).unwrap().wifi.unwrap();
    assert_eq!((wifi.ssid.as_str(), wifi.passphrase.as_str()), ("room 7", "correct horse"));
    fs::write(place.path("wifi"), "short\n").unwrap();
    assert!(place.refused(&text).message.contains("8 to 63"));
    let open = text.replace("passphrase_file = \"wifi\"\n", "");
    assert_eq!(place.load(&open).unwrap().wifi.unwrap().passphrase.as_str(), "");
}

#[test]
fn a_fleet_suits_a_scenario_with_its_nodes_in_its_order_only() {
    let fleet = Place::new().load(GOOD).unwrap();
    let of = |ids: &str| Scenario::parse(&format!("ids = {ids}\nduration = \"1s\"\n"), "pair.toml").unwrap();
    assert_eq!(fleet.suits(&of("[3, 1]")), Ok(()));
    let error = fleet.suits(&of("[1, 3]")).unwrap_err();
    assert!(error.contains("1, 3") && error.contains("3, 1") && error.contains("pair"), "{error}");
    assert_ne!(fleet.cluster_of(&of("[3, 1]")), fleet.cluster_of(&of("[3, 1]").with_seed(9)));
    assert_eq!(fleet.cluster_of(&of("[3, 1]")), fleet.cluster_of(&of("[3, 1]")));
}
