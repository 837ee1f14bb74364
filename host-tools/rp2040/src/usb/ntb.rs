//! Blocks of frames as CDC-NCM has them: a header (NTH16), a table of where frames are (NDP16), frames.

const HEADER: &[u8; 4] = b"NCMH";
const TABLE: &[u8; 4] = b"NCM0";
const HEADER_LEN: usize = 12;
const TABLE_HEAD_LEN: usize = 8;
const ENTRY_LEN: usize = 4;

/// How a device wants blocks, and how long its own may be (GET_NTB_PARAMETERS).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Parameters {
    /// The longest block from the device.
    pub in_max: usize,
    /// The longest block to it.
    pub out_max: usize,
    /// Frames begin at a multiple of this, and so many bytes behind it.
    pub out_divisor: usize,
    /// The remainder.
    pub out_remainder: usize,
    /// The table begins at a multiple of this.
    pub out_alignment: usize,
    /// So many frames in a block, at most; 0: as many as fit.
    pub out_frames: usize,
}

impl Parameters {
    /// Reads what the device said; none if it does not do 16-bit blocks.
    #[must_use]
    pub fn parse(bytes: &[u8]) -> Option<Parameters> {
        let half = |at: usize| Some(usize::from(u16::from_le_bytes(*bytes.get(at..)?.first_chunk()?)));
        let word = |at: usize| Some(u32::from_le_bytes(*bytes.get(at..)?.first_chunk()?) as usize);
        (half(0)? == 28 && half(2)? & 1 == 1).then_some(())?;
        Some(Parameters {
            in_max: word(4)?,
            out_max: word(16)?,
            out_divisor: half(20)?.max(1),
            out_remainder: half(22)?,
            out_alignment: half(24)?.max(4),
            out_frames: half(26)?,
        })
    }
}

/// A block with as many of these frames as the device wants in one; and how many that are.
#[must_use]
pub fn build(frames: &[Vec<u8>], sequence: u16, parameters: &Parameters) -> (Vec<u8>, usize) {
    let most = if parameters.out_frames == 0 { frames.len() } else { parameters.out_frames.min(frames.len()) };
    let table_at = HEADER_LEN.next_multiple_of(parameters.out_alignment);
    let mut taken = most;
    loop {
        let block = lay_out(&frames[..taken], table_at, sequence, parameters);
        if block.len() <= parameters.out_max || taken <= 1 {
            return (block, taken);
        }
        taken -= 1;
    }
}

fn lay_out(frames: &[Vec<u8>], table_at: usize, sequence: u16, parameters: &Parameters) -> Vec<u8> {
    let table_len = TABLE_HEAD_LEN + ENTRY_LEN * (frames.len() + 1);
    let mut block = vec![0; table_at + table_len];
    for (number, frame) in frames.iter().enumerate() {
        let at = block.len().next_multiple_of(parameters.out_divisor) + parameters.out_remainder;
        block.resize(at, 0);
        block.extend(frame);
        let entry = table_at + TABLE_HEAD_LEN + ENTRY_LEN * number;
        put(&mut block, entry, at);
        put(&mut block, entry + 2, frame.len());
    }
    block[..4].copy_from_slice(HEADER);
    put(&mut block, 4, HEADER_LEN);
    put(&mut block, 6, sequence.into());
    let len = block.len();
    put(&mut block, 8, len);
    put(&mut block, 10, table_at);
    block[table_at..table_at + 4].copy_from_slice(TABLE);
    put(&mut block, table_at + 4, table_len);
    block
}

fn put(block: &mut [u8], at: usize, value: usize) {
    block[at..at + 2].copy_from_slice(&(value as u16).to_le_bytes());
}

/// The frames in a block.
///
/// # Errors
/// What is wrong with it.
pub fn parse(block: &[u8]) -> Result<Vec<&[u8]>, &'static str> {
    let half = |at: usize| block.get(at..).and_then(|b| b.first_chunk()).map(|b| usize::from(u16::from_le_bytes(*b)));
    if block.get(..4) != Some(HEADER) || half(4) != Some(HEADER_LEN) {
        return Err("it has no header");
    }
    if half(8).is_none_or(|len| len > block.len()) {
        return Err("it is shorter than it says");
    }
    let mut frames = Vec::new();
    let mut table_at = half(10).unwrap_or(0);
    // Each table names the next one; a circle of them ends.
    for _ in 0..block.len() / (TABLE_HEAD_LEN + 2 * ENTRY_LEN) {
        if block.get(table_at..table_at + 4) != Some(TABLE) {
            return Err("it has no table");
        }
        let len = half(table_at + 4).unwrap_or(0);
        for entry in (table_at + TABLE_HEAD_LEN..table_at + len).step_by(ENTRY_LEN) {
            match (half(entry), half(entry + 2)) {
                (Some(0), _) | (_, Some(0)) => break,
                (Some(at), Some(len)) => frames.push(block.get(at..at + len).ok_or("a frame lies beyond its end")?),
                _ => return Err("a table lies beyond its end"),
            }
        }
        match half(table_at + 6) {
            Some(0) => return Ok(frames),
            Some(next) => table_at = next,
            None => return Err("a table lies beyond its end"),
        }
    }
    Err("its tables have no end")
}

#[cfg(test)]
mod tests {
    use super::*;

    const MANY: Parameters =
        Parameters { in_max: 2048, out_max: 2048, out_divisor: 4, out_remainder: 2, out_alignment: 4, out_frames: 0 };

    #[test]
    fn several_frames_travel_in_one_block_and_come_out_again() {
        let frames = [vec![1; 61], vec![2; 200], vec![3; 7]];
        let (block, taken) = build(&frames, 9, &MANY);
        assert_eq!((taken, parse(&block).unwrap()), (3, frames.iter().map(Vec::as_slice).collect()));
        let at = usize::from(u16::from_le_bytes([block[24], block[25]]));
        assert_eq!((at % 4, block[at]), (2, 2), "aligned as the device wants it");
    }

    #[test]
    fn a_block_holds_no_more_than_the_device_wants() {
        let frames = [vec![1; 900], vec![2; 900], vec![3; 900]];
        assert_eq!(build(&frames, 0, &MANY).1, 2, "by length");
        assert_eq!(build(&frames, 0, &Parameters { out_frames: 1, ..MANY }).1, 1, "by number");
    }

    #[test]
    fn a_block_that_lies_is_refused() {
        let good = build(&[vec![7; 60]], 0, &MANY).0;
        let changed = |at: usize, byte: u8| {
            let mut block = good.clone();
            block[at] = byte;
            parse(&block).map(|_| ()).unwrap_err()
        };
        assert_eq!(changed(0, 0), "it has no header");
        assert_eq!(changed(9, 9), "it is shorter than it says");
        assert_eq!(changed(10, 14), "it has no table");
        assert_eq!(changed(21, 1), "a frame lies beyond its end");
        assert_eq!(changed(18, 12), "its tables have no end");
        assert_eq!(parse(&good[..11]), Err("it is shorter than it says"));
    }

    #[test]
    fn the_devices_wishes_are_read() {
        let mut bytes = [0; 28];
        (bytes[0], bytes[2], bytes[5], bytes[17]) = (28, 1, 8, 8);
        (bytes[20], bytes[24], bytes[26]) = (4, 4, 1);
        let read = Parameters::parse(&bytes).unwrap();
        assert_eq!(read, Parameters { out_remainder: 0, out_frames: 1, ..MANY });
        bytes[2] = 2;
        assert_eq!(Parameters::parse(&bytes), None, "only 32-bit blocks");
    }
}
