//! The boards' defmt logs: read from memory as a debug probe would, decoded with the image's
//! table, written to one file a node.

use crate::memory::Memory;
use defmt_decoder::{DecodeError, Location, StreamDecoder, Table};
use object::{Object, ObjectSymbol};
use std::{
    collections::{BTreeMap, VecDeque},
    fs::File,
    io::{self, BufWriter, Write},
    path::Path,
};

/// How many of a board's last lines are kept for the report of a crash.
pub const LAST_LINES: usize = 12;
/// Largest buffer that is believed.
const BUFFER_MAX: u32 = 1 << 20;
const ID: &[u8; 10] = b"SEGGER RTT";
/// After the identifier and the two channel counts: six words for each channel.
const UP_CHANNEL_AT: u32 = 24;

/// What is needed to read an image's logs.
pub struct Image {
    control_block: u32,
    table: Table,
    locations: BTreeMap<u64, Location>,
}

impl Image {
    /// Reads symbols and log strings of an image.
    ///
    /// # Errors
    /// One line: what the image lacks.
    pub fn parse(elf: &[u8]) -> Result<Image, String> {
        let file = object::File::parse(elf).map_err(|error| format!("the image is not an ELF file: {error}"))?;
        let control_block = file
            .symbols()
            .find(|symbol| symbol.name() == Ok("_SEGGER_RTT"))
            .map(|symbol| symbol.address() as u32)
            .ok_or("the image has no _SEGGER_RTT: it was not linked with defmt-rtt")?;
        let table = Table::parse(elf)
            .map_err(|error| format!("the image's log table cannot be read: {error}"))?
            .ok_or("the image has no .defmt section: it was not linked with defmt.x")?;
        let locations = table.get_locations(elf).unwrap_or_default();
        Ok(Image { control_block, table, locations })
    }
}

/// One node's log over all its lives.
pub struct Log<'i> {
    image: &'i Image,
    out: BufWriter<File>,
    /// Of the present life.
    decoder: Option<Box<dyn StreamDecoder + Send + Sync + 'i>>,
    last: VecDeque<String>,
}

impl<'i> Log<'i> {
    /// Begins a node's log file.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn create(image: &'i Image, path: &Path) -> io::Result<Log<'i>> {
        Ok(Log { image, out: BufWriter::new(File::create(path)?), decoder: None, last: VecDeque::new() })
    }

    /// The node boots: what follows is of this life.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn begin(&mut self, incarnation: u32) -> io::Result<()> {
        writeln!(self.out, "──── incarnation {incarnation} ────")?;
        self.decoder = Some(self.image.table.new_stream_decoder());
        Ok(())
    }

    /// Takes what the board has logged since the last time.
    ///
    /// # Errors
    /// If memory or file fail.
    pub fn poll(&mut self, memory: &mut impl Memory) -> io::Result<()> {
        let Some(decoder) = &mut self.decoder else { return Ok(()) };
        let bytes = take(memory, self.image.control_block)?;
        if bytes.is_empty() {
            return Ok(());
        }
        decoder.received(&bytes);
        loop {
            let line = match decoder.decode() {
                Ok(frame) => {
                    let when = frame.display_timestamp().map(|stamp| stamp.to_string()).unwrap_or_default();
                    let level =
                        frame.level().map_or("     ".into(), |level| format!("{:<5}", level.as_str().to_uppercase()));
                    let place = self.image.locations.get(&frame.index());
                    let place = place.map(|at| format!("  [{}:{}]", at.module, at.line)).unwrap_or_default();
                    format!("{when} {level} {}{place}", frame.display_message())
                }
                Err(DecodeError::UnexpectedEof) => break,
                Err(DecodeError::Malformed) => "(a log frame that cannot be decoded)".into(),
            };
            writeln!(self.out, "{line}")?;
            if self.last.len() == LAST_LINES {
                self.last.pop_front();
            }
            self.last.push_back(line);
        }
        Ok(())
    }

    /// The node's life is over: takes the rest. The lines of the present life stay in [`Log::last_lines`].
    ///
    /// # Errors
    /// If memory or file fail.
    pub fn end(&mut self, memory: &mut impl Memory) -> io::Result<()> {
        self.poll(memory)?;
        self.decoder = None;
        self.out.flush()
    }

    /// The last lines that were logged.
    #[must_use]
    pub fn last_lines(&self) -> Vec<String> {
        self.last.iter().cloned().collect()
    }
}

/// Takes all bytes of the up-channel between the board's write and our read offset, and moves the latter on.
fn take(memory: &mut impl Memory, control_block: u32) -> io::Result<Vec<u8>> {
    let mut id = [0; 10];
    memory.read(control_block, &mut id)?;
    if id != *ID {
        return Ok(Vec::new()); // Not yet initialised.
    }
    let up = control_block + UP_CHANNEL_AT;
    let [buffer, size, write, read] = [4, 8, 12, 16].map(|field| memory.word(up + field));
    let (buffer, size, write, read) = (buffer?, size?, write?, read?);
    if size == 0 || size > BUFFER_MAX || write >= size || read >= size {
        return Ok(Vec::new());
    }
    let mut bytes = vec![0; ((write + size - read) % size) as usize];
    let first = bytes.len().min((size - read) as usize);
    memory.read(buffer + read, &mut bytes[..first])?;
    memory.read(buffer, &mut bytes[first..])?;
    memory.write(up + 16, &write.to_le_bytes())?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ram::{RAM_BASE, Ram};

    #[test]
    fn bytes_are_taken_once_also_across_the_end_of_the_buffer() {
        let folder = tempfile::tempdir().unwrap();
        let mut ram = Ram::create(&folder.path().join("ram")).unwrap();
        let (block, buffer) = (RAM_BASE + 0x3000, RAM_BASE + 0x5000);
        assert_eq!(take(&mut ram, block).unwrap(), b"", "before the board has initialised it");
        ram.write(block, ID).unwrap();
        for (word, value) in [(1, buffer), (2, 8), (3, 3), (4, 6)] {
            ram.write(block + UP_CHANNEL_AT + word * 4, &u32::to_le_bytes(value)).unwrap();
        }
        ram.write(buffer, b"cde..xab").unwrap();
        assert_eq!(take(&mut ram, block).unwrap(), b"abcde");
        assert_eq!(take(&mut ram, block).unwrap(), b"");
        assert_eq!(ram.word(block + UP_CHANNEL_AT + 16).unwrap(), 3, "the board sees the room it has");
    }

    #[test]
    fn what_is_no_image_is_refused_in_one_line() {
        assert!(Image::parse(b"not an ELF").err().unwrap().contains("ELF"));
    }
}
