//! What is written to flash is a record: whole, or recognizably not there.
//!
//! In little-endian words: magic, number, length, CRC-32 of those three and of the bytes; then that
//! many bytes.

/// Where the bytes begin.
pub const HEADER_LEN: usize = 16;

/// What finds a torn write.
const CHECKSUM: crc::Crc<u32, crc::NoTable> = crc::Crc::<u32, crc::NoTable>::new(&crc::CRC_32_ISO_HDLC);

/// Writes `value` as a record; the rest of `into` becomes blank. Its length with the header; none if
/// there is no room.
pub(super) fn encode(magic: u32, number: u32, value: &impl serde::Serialize, into: &mut [u8]) -> Option<usize> {
    into.fill(0xff);
    let (header, rest) = into.split_first_chunk_mut::<HEADER_LEN>()?;
    let bytes: &[u8] = postcard::to_slice(value, rest).ok()?;
    let length = bytes.len();
    let words = [magic, number, length as u32, checksum(magic, number, bytes)];
    for (to, from) in header.iter_mut().zip(words.iter().flat_map(|word| word.to_le_bytes())) {
        *to = from;
    }
    // What postcard tried and gave up is blank, too.
    rest.get_mut(length..)?.fill(0xff);
    Some(HEADER_LEN + length)
}

/// The number and the bytes of the record at the beginning of `from`, if it is whole.
pub(super) fn decode(magic: u32, from: &[u8]) -> Option<(u32, &[u8])> {
    let (header, rest) = from.split_first_chunk::<HEADER_LEN>()?;
    let word = |at: usize| header.get(at..)?.first_chunk().map(|bytes| u32::from_le_bytes(*bytes));
    let (number, length) = (word(4)?, word(8)?);
    let bytes = rest.get(..length as usize).filter(|_| word(0) == Some(magic))?;
    (word(12)? == checksum(magic, number, bytes)).then_some((number, bytes))
}

fn checksum(magic: u32, number: u32, bytes: &[u8]) -> u32 {
    let mut digest = CHECKSUM.digest();
    for word in [magic, number, bytes.len() as u32] {
        digest.update(&word.to_le_bytes());
    }
    digest.update(bytes);
    digest.finalize()
}
