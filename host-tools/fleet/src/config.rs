//! `fleet.toml`: names every board, read with the care of a scenario.

use crate::key::{Counter, read_key, read_secret};
use compasso_scenario::{
    Scenario, ScenarioError, mix,
    reader::{self, Field, Section},
};
use compasso_stage::setup::BoardKind;
use compasso_wire::{
    Key, NodeId,
    address::{self, HOST_IPV4, PORT},
    flash::page::Wifi,
    limits::MEMBERS_MAX,
};
use std::{
    net::{IpAddr, Ipv4Addr, SocketAddr},
    path::{Path, PathBuf},
};

/// A fleet file is no longer than this, in bytes.
const FILE_MAX: usize = 1 << 20;

/// One board.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Board {
    /// Which node it is.
    pub node: u16,
    /// Which image it runs.
    pub image: BoardKind,
    /// The serial number of the probe that it hangs on; none: it gets UF2 files by hand.
    pub probe: Option<String>,
    /// Where the host reaches it.
    pub address: SocketAddr,
}

/// Every board of a cluster, in ring order, and what they share.
#[derive(Clone, PartialEq, Debug)]
pub struct Fleet {
    /// The file as the user named it.
    pub file: String,
    /// Tells clusters on one network apart.
    pub cluster: u32,
    /// Their secret.
    pub key: Key,
    /// Where it is.
    pub key_file: PathBuf,
    /// Where the host listens.
    pub bind: SocketAddr,
    /// What boards perform from the moment they are switched on, if the file says.
    pub scenario: Option<PathBuf>,
    /// The network of boards with a radio.
    pub wifi: Option<Wifi>,
    /// The boards, in ring order.
    pub boards: Vec<Board>,
}

impl Fleet {
    /// Reads a fleet file, and the files that it names.
    ///
    /// # Errors
    /// One line that names file, line, field and what was expected.
    pub fn load(path: &Path) -> Result<Fleet, ScenarioError> {
        let text = reader::load(path, FILE_MAX, "a fleet")?;
        let file = path.display().to_string();
        let folder = path.parent().unwrap_or(Path::new("")).to_owned();
        reader::document(&text, &file, |root| read(root, &folder, &file))
    }

    /// The board of a node.
    #[must_use]
    pub fn board(&self, node: u16) -> Option<&Board> {
        self.boards.iter().find(|board| board.node == node)
    }

    /// The nodes, in ring order.
    #[must_use]
    pub fn ids(&self) -> Vec<u16> {
        self.boards.iter().map(|board| board.node).collect()
    }

    /// The nodes, in ring order, as boards know them.
    #[must_use]
    pub fn members(&self) -> Vec<NodeId> {
        self.boards.iter().map(|board| NodeId(board.node)).collect()
    }

    /// Numbers that no host and no page of this key had.
    #[must_use]
    pub fn counter(&self) -> Counter {
        Counter::of_key(&self.key_file)
    }

    /// Whether the scenario is about these boards.
    ///
    /// # Errors
    /// One line that says how it is not.
    pub fn suits(&self, scenario: &Scenario) -> Result<(), String> {
        if scenario.ids == self.ids() {
            return Ok(());
        }
        Err(format!(
            "{}: board: expected the nodes of the scenario {} in its order: {}; found: {}",
            self.file,
            scenario.name,
            reader::list(&scenario.ids),
            reader::list(&self.ids())
        ))
    }

    /// The number of the cluster while it performs this scenario. Boards whose pages were made for
    /// different ones have nothing to say to each other: they are foreign, not confused.
    #[must_use]
    pub fn cluster_of(&self, scenario: &Scenario) -> u32 {
        let words = scenario.to_toml().bytes().map(u64::from).collect::<Vec<_>>();
        mix(&[u64::from(self.cluster), mix(&words)]) as u32
    }
}

fn read(root: &Section<'_>, folder: &Path, file: &str) -> Result<Fleet, ScenarioError> {
    root.refuse_unknown(&["cluster", "key", "scenario", "host", "wifi", "board"], &[])?;
    let cluster = root.require("cluster", "a number that tells this cluster from others")?;
    let cluster = cluster.integer(1..=u64::from(u32::MAX), "the cluster's number")? as u32;
    let key_field = root.require("key", "the path of a file made by `compasso keys new`")?;
    let key_file = folder.join(key_field.string()?);
    let key = read_key(&key_file).map_err(|message| key_field.error(format!("{}: {message}", key_file.display())))?;
    let scenario = root.get("scenario").map(|field| field.string().map(|path| folder.join(path))).transpose()?;
    let bind = match root.get("host") {
        Some(field) => {
            let host = field.table("a table with `bind`")?;
            host.refuse_unknown(&["bind"], &[])?;
            host.get("bind").map(|field| socket(&field)).transpose()?
        }
        None => None,
    };
    let wifi = root.get("wifi").map(|field| wifi(&field, folder)).transpose()?;
    let list = root.require("board", "at least one [[board]]")?;
    let mut boards: Vec<Board> = Vec::new();
    for field in list.list("[[board]] tables")? {
        let section = field.table("a [[board]] table")?;
        if boards.len() == MEMBERS_MAX {
            return Err(section.error(format!("expected at most {MEMBERS_MAX} boards")));
        }
        let next = board(&section, &boards, wifi.is_some())?;
        boards.push(next);
    }
    if boards.is_empty() {
        return Err(list.error("expected at least one [[board]]"));
    }
    let bind = bind.unwrap_or(SocketAddr::new(IpAddr::V4(Ipv4Addr::from(HOST_IPV4)), PORT));
    Ok(Fleet { file: file.to_owned(), cluster, key, key_file, bind, scenario, wifi, boards })
}

fn board(section: &Section<'_>, earlier: &[Board], has_wifi: bool) -> Result<Board, ScenarioError> {
    section.refuse_unknown(&["node", "image", "probe", "address"], &[])?;
    let node_field = section.require("node", "the board's node id")?;
    let node = node_field.integer(0..=u64::from(NodeId::MEMBER_MAX.0), "a node id")? as u16;
    if earlier.iter().any(|other| other.node == node) {
        return Err(node_field.error(format!("expected every node once; {node} is there twice")));
    }
    let images = BoardKind::REAL.map(|image| (image.image(), image));
    let image_field = section.require("image", "the image that the board runs")?;
    let image = image_field.choose(&images, &[])?;
    if image == BoardKind::PicoW && !has_wifi {
        return Err(image_field.error("expected a [wifi] section: this board has nothing but its radio"));
    }
    let probe = match section.get("probe") {
        Some(field) => {
            let serial = field.string()?;
            if serial.is_empty() || serial.contains(char::is_whitespace) {
                return Err(field.error("expected the serial number that `probe-rs list` shows"));
            }
            if let Some(other) = earlier.iter().find(|other| other.probe.as_deref() == Some(serial)) {
                return Err(field.error(format!("expected every probe once; {serial} is node {}'s", other.node)));
            }
            Some(serial.to_owned())
        }
        None => None,
    };
    let derived = IpAddr::V4(Ipv4Addr::from(address::member_ipv4(earlier.len())));
    let address_field = section.get("address");
    let address = address_field.as_ref().map(socket).transpose()?.unwrap_or(SocketAddr::new(derived, PORT));
    if let Some(other) = earlier.iter().find(|other| other.address == address) {
        let message = format!("expected every address once; {address} is node {}'s", other.node);
        return Err(address_field.map_or_else(|| section.error(message.clone()), |field| field.error(message.clone())));
    }
    Ok(Board { node, image, probe, address })
}

/// An address, with the port of everybody unless it names another.
fn socket(field: &Field<'_>) -> Result<SocketAddr, ScenarioError> {
    let text = field.string()?;
    let alone = text.parse::<Ipv4Addr>().map(|ip| SocketAddr::new(IpAddr::V4(ip), PORT));
    alone
        .or_else(|_| text.parse::<SocketAddr>())
        .ok()
        .filter(SocketAddr::is_ipv4)
        .ok_or_else(|| field.error(format!("expected an IPv4 address like \"10.77.0.1\", found \"{text}\"")))
}

fn wifi(field: &Field<'_>, folder: &Path) -> Result<Wifi, ScenarioError> {
    let section = field.table("a table with `ssid` and `passphrase_file`")?;
    section.refuse_unknown(&["ssid", "passphrase_file"], &[])?;
    let ssid_field = section.require("ssid", "the network's name")?;
    let ssid = ssid_field.string()?;
    let ssid = Some(ssid)
        .filter(|ssid| !ssid.is_empty())
        .and_then(|ssid| ssid.try_into().ok())
        .ok_or_else(|| ssid_field.error("expected a network's name of 1 to 32 bytes"))?;
    let Some(field) = section.get("passphrase_file") else {
        return Ok(Wifi { ssid, passphrase: Default::default() }); // An open network.
    };
    let path = folder.join(field.string()?);
    let wrong = |message: String| field.error(format!("{}: {message}", path.display()));
    let text = read_secret(&path, "write the passphrase to it, with an editor").map_err(wrong)?;
    let text = Some(text.trim_end_matches(['\r', '\n'])).filter(|text| text.len() >= 8);
    let passphrase = text
        .and_then(|text| text.try_into().ok())
        .ok_or_else(|| wrong("expected a passphrase of 8 to 63 bytes".into()))?;
    Ok(Wifi { ssid, passphrase })
}

#[cfg(test)]
#[path = "config_tests.rs"]
mod tests;
