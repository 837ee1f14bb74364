//! The cluster key and the tag it puts under every datagram.
//!
//! Ascon-AEAD128 (NIST SP 800-232) with the whole datagram as associated data and an empty
//! plaintext: everything is authenticated, nothing is encrypted, captures stay readable.
//! The nonce is (sender, incarnation, sequence number, receiver); a sender stores its incarnation
//! before its first datagram and never repeats a sequence number within one, so no nonce occurs
//! twice. The receiver is in it, though not in the datagram: what was meant for another does not
//! verify here.

use crate::{ids::NodeId, limits::TAG_LEN};
use ascon_aead::{
    AsconAead128,
    aead::{AeadInOut, KeyInit},
};
use serde::{Deserialize, Serialize};

/// The secret that all nodes of one cluster and its host share. There is no default.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Key(pub [u8; 16]);

impl core::fmt::Debug for Key {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("Key(…)")
    }
}

/// What makes one datagram's nonce unique.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Nonce {
    /// Who sends.
    pub sender: NodeId,
    /// In which of its lives.
    pub incarnation: u32,
    /// The how-manieth datagram of that life.
    pub sequence: u32,
    /// For whom.
    pub receiver: NodeId,
}

impl Nonce {
    fn bytes(self) -> [u8; 16] {
        let mut bytes = [0; 16];
        let parts = self
            .sender
            .0
            .to_le_bytes()
            .into_iter()
            .chain(self.incarnation.to_le_bytes())
            .chain(self.sequence.to_le_bytes())
            .chain(self.receiver.0.to_le_bytes());
        for (to, from) in bytes.iter_mut().zip(parts) {
            *to = from;
        }
        bytes
    }
}

impl Key {
    /// The tag over `datagram` under this key.
    #[must_use]
    pub fn tag(&self, nonce: Nonce, datagram: &[u8]) -> [u8; TAG_LEN] {
        let cipher = AsconAead128::new(&self.0.into());
        match cipher.encrypt_inout_detached(&nonce.bytes().into(), datagram, (&mut [][..]).into()) {
            Ok(tag) => tag.into(),
            // The cipher only refuses lengths beyond 2^64.
            Err(_) => unreachable!("a datagram is shorter than 2^64 bytes"),
        }
    }

    /// Whether `tag` is ours over `datagram`, compared in constant time.
    #[must_use]
    pub fn verifies(&self, nonce: Nonce, datagram: &[u8], tag: &[u8; TAG_LEN]) -> bool {
        let cipher = AsconAead128::new(&self.0.into());
        cipher.decrypt_inout_detached(&nonce.bytes().into(), datagram, (&mut [][..]).into(), &(*tag).into()).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NONCE: Nonce = Nonce { sender: NodeId(3), incarnation: 1, sequence: 7, receiver: NodeId(4) };

    /// Counts 1 and 2 of the reference implementation's LWC_AEAD_KAT_128_128: empty plaintext,
    /// key 00 01 … 0F, nonce 10 11 … 1F.
    #[test]
    fn the_primitive_gives_the_published_known_answers() {
        let key: [u8; 16] = core::array::from_fn(|i| i as u8);
        let nonce: [u8; 16] = core::array::from_fn(|i| 16 + i as u8);
        let cipher = AsconAead128::new(&key.into());
        let tag = |data: &[u8]| -> [u8; 16] {
            cipher.encrypt_inout_detached(&nonce.into(), data, (&mut [][..]).into()).unwrap().into()
        };
        assert_eq!(hex(&tag(&[])), "4f9c278211bec9316bf68f46ee8b2ec6");
        assert_eq!(hex(&tag(&[0x30])), "cccb674fe18a09a285d6ab11b35675c0");
    }

    #[test]
    fn one_flipped_bit_anywhere_breaks_the_tag() {
        let key = Key([9; 16]);
        let mut datagram = *b"the whole datagram, header included";
        let tag = key.tag(NONCE, &datagram);
        assert!(key.verifies(NONCE, &datagram, &tag));
        for bit in 0..datagram.len() * 8 {
            datagram[bit / 8] ^= 1 << (bit % 8);
            assert!(!key.verifies(NONCE, &datagram, &tag));
            datagram[bit / 8] ^= 1 << (bit % 8);
        }
        assert!(!Key([8; 16]).verifies(NONCE, &datagram, &tag));
        assert!(!key.verifies(Nonce { sequence: 8, ..NONCE }, &datagram, &tag));
        assert!(!key.verifies(Nonce { receiver: NodeId(5), ..NONCE }, &datagram, &tag), "meant for another");
    }

    fn hex(bytes: &[u8]) -> String {
        bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    }
}
