//! Where nodes live on the network: everything follows from a member's configured position.
//!
//! Nobody asks for an address (no ARP): a question to a dead peer would hold up datagrams to the
//! living ones. The member at position `p` of the configured ring has the IPv4 address
//! `10.77.0.0 + p + 1`, the host has [`HOST_IPV4`], and a MAC address is `02:00:00:00` (locally
//! administered) and the last two bytes of the IPv4 address.

use crate::{ids::NodeId, limits::MEMBERS_MAX};

/// The UDP port of everybody, for everything.
pub const PORT: u16 = 7117;

/// Length of the network's prefix.
pub const PREFIX_LEN: u8 = 16;

/// The host: collector and giver of commands. All servers of true time live there: whom a datagram is for, its tag says.
pub const HOST_IPV4: [u8; 4] = [10, 77, 255, 254];

/// The address of the member at `position` of the configured ring.
#[must_use]
pub const fn member_ipv4(position: usize) -> [u8; 4] {
    let [high, low] = (position as u16 + 1).to_be_bytes();
    [10, 77, high, low]
}

/// The position of the member with this address; none for the host and for strangers.
#[must_use]
pub fn position(ipv4: [u8; 4]) -> Option<usize> {
    let [10, 77, high, low] = ipv4 else { return None };
    let position = usize::from(u16::from_be_bytes([high, low])).checked_sub(1)?;
    (position < MEMBERS_MAX).then_some(position)
}

/// The address of a member or of a host; none for strangers.
#[must_use]
pub fn ipv4(members: &[NodeId], id: NodeId) -> Option<[u8; 4]> {
    if id.host_number().is_some() {
        return Some(HOST_IPV4);
    }
    members.iter().position(|member| *member == id).map(member_ipv4)
}

/// The MAC address that belongs to an IPv4 address.
#[must_use]
pub const fn mac(ipv4: [u8; 4]) -> [u8; 6] {
    let [_, _, high, low] = ipv4;
    [0x02, 0, 0, 0, high, low]
}

// No member may collide with the host or with the network's broadcast address.
const _: () = assert!(MEMBERS_MAX + 1 < u16::from_be_bytes([255, 254]) as usize);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_names_its_position_and_the_host_has_none() {
        for at in 0..MEMBERS_MAX {
            assert_eq!(position(member_ipv4(at)), Some(at));
            assert_ne!(mac(member_ipv4(at)), mac(HOST_IPV4));
        }
        assert_eq!(member_ipv4(0), [10, 77, 0, 1]);
        assert_eq!(member_ipv4(255), [10, 77, 1, 0]);
        assert_eq!(mac(member_ipv4(0)), [2, 0, 0, 0, 0, 1]);
        for stranger in [HOST_IPV4, [10, 77, 0, 0], [10, 78, 0, 1], [10, 77, 255, 255]] {
            assert_eq!(position(stranger), None);
        }
    }

    #[test]
    fn ids_are_found_by_position_and_strangers_not_at_all() {
        let members = [NodeId(7), NodeId(3)];
        assert_eq!(ipv4(&members, NodeId(3)), Some([10, 77, 0, 2]));
        assert_eq!(ipv4(&members, NodeId::HOST), Some(HOST_IPV4));
        assert_eq!(ipv4(&members, NodeId::host(2)), Some(HOST_IPV4));
        assert_eq!(ipv4(&members, NodeId(4)), None);
    }
}
