//! Every frame on record, in a file that Wireshark opens: one interface a port, and a comment
//! on each frame that did not simply arrive.

use crate::frame::FRAME_MAX;
use pcap_file::{
    DataLink, PcapError,
    pcapng::{
        PcapNgWriter,
        blocks::{
            enhanced_packet::{EnhancedPacketBlock, EnhancedPacketOption},
            interface_description::{InterfaceDescriptionBlock, InterfaceDescriptionOption},
        },
    },
};
use std::{
    fs::File,
    io::{self, BufWriter, Write},
    path::Path,
    time::Duration,
};

/// Nanoseconds: what the writer puts into every block.
const RESOLUTION: u8 = 9;

/// A recording in progress.
pub struct Capture {
    writer: PcapNgWriter<BufWriter<File>>,
}

impl Capture {
    /// Begins a recording with one interface for each name.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn create(path: &Path, interfaces: &[String]) -> io::Result<Capture> {
        let mut writer = PcapNgWriter::new(BufWriter::new(File::create(path)?)).map_err(plain)?;
        for name in interfaces {
            writer
                .write_pcapng_block(InterfaceDescriptionBlock {
                    linktype: DataLink::ETHERNET,
                    snaplen: FRAME_MAX as u32,
                    options: vec![
                        InterfaceDescriptionOption::IfName(name.as_str().into()),
                        InterfaceDescriptionOption::IfTsResol(RESOLUTION),
                    ],
                })
                .map_err(plain)?;
        }
        Ok(Capture { writer })
    }

    /// Records a frame that came in at an interface, so long after 1970.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn record(&mut self, at: Duration, interface: usize, frame: &[u8], comment: Option<&str>) -> io::Result<()> {
        let options = comment.map(|text| EnhancedPacketOption::Comment(text.into()));
        self.writer
            .write_pcapng_block(EnhancedPacketBlock {
                interface_id: interface as u32,
                timestamp: at,
                original_len: frame.len() as u32,
                data: frame.into(),
                options: options.into_iter().collect(),
            })
            .map_err(plain)?;
        Ok(())
    }

    /// Ends the recording.
    ///
    /// # Errors
    /// If the rest cannot be written.
    pub fn finish(self) -> io::Result<()> {
        self.writer.into_inner().flush()
    }
}

fn plain(error: PcapError) -> io::Error {
    match error {
        PcapError::IoError(error) => error,
        other => io::Error::other(other.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pcap_file::pcapng::{Block, PcapNgReader};

    #[test]
    fn what_is_recorded_reads_back() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("network.pcapng");
        let mut capture = Capture::create(&path, &["node 0".into(), "host".into()]).unwrap();
        let at = Duration::new(1_700_000_000, 123_456_789);
        capture.record(at, 0, &[1, 2, 3], None).unwrap();
        capture.record(at, 1, &[4; 61], Some("lost")).unwrap();
        capture.finish().unwrap();

        let mut reader = PcapNgReader::new(File::open(&path).unwrap()).unwrap();
        let mut frames = Vec::new();
        let mut interfaces = 0;
        while let Some(block) = reader.next_block() {
            match block.unwrap() {
                Block::InterfaceDescription(_) => interfaces += 1,
                Block::EnhancedPacket(packet) => {
                    frames.push((packet.interface_id, packet.timestamp, packet.data.to_vec(), packet.options.len()));
                }
                other => panic!("{other:?}"),
            }
        }
        assert_eq!(interfaces, 2);
        assert_eq!(frames, [(0, at, vec![1, 2, 3], 0), (1, at, vec![4; 61], 1)]);
    }
}
