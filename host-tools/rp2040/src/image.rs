//! The image: what goes into flash, where it keeps its log, and which place of the source an
//! instruction came from.

use crate::{
    bus::XIP_BASE,
    cpu::Code,
    device::Device,
    flash::{FLASH_LEN, Flash},
};
use compasso_stage::setup::BoardKind;
use object::{
    Endianness, Object, ObjectSymbol,
    elf::{FileHeader32, PT_LOAD},
    read::elf::{FileHeader, ProgramHeader},
};
use std::{path::Path, rc::Rc};

/// The name that boards give their telemetry ring.
const RING: &str = "COMPASSO_RING";

/// What goes into flash, and how to find the source.
pub struct Image {
    flash: Flash,
    code: Rc<Code>,
    ring: u32,
    board: BoardKind,
    places: Option<addr2line::Loader>,
}

impl Image {
    /// Reads the image of a board.
    ///
    /// # Errors
    /// One line: what is wrong with it.
    pub fn read(board: BoardKind, path: &Path, elf: &[u8]) -> Result<Image, String> {
        if Device::of(board, 0).is_none() {
            return Err(format!("a {} cannot be emulated", board.image()));
        }
        let header = FileHeader32::<Endianness>::parse(elf).map_err(|error| format!("not an ELF file: {error}"))?;
        let endian = header.endian().map_err(|error| error.to_string())?;
        let mut flash = Flash::default();
        let mut end = 0;
        for segment in header.program_headers(endian, elf).map_err(|error| error.to_string())? {
            let bytes = segment.data(endian, elf).map_err(|()| "a segment beyond its end")?;
            if segment.p_type(endian) != PT_LOAD || bytes.is_empty() {
                continue;
            }
            let at = segment.p_paddr(endian).wrapping_sub(XIP_BASE);
            if at as usize + bytes.len() > FLASH_LEN {
                return Err(format!("a segment at {:#010x}, where no flash is", segment.p_paddr(endian)));
            }
            flash.load(at, bytes);
            end = end.max(at as usize + bytes.len());
        }
        let code = Rc::new(Code::new(XIP_BASE, &flash.bytes()[..end]));
        let ring = find_ring(elf).ok_or("it has no COMPASSO_RING: it is not the image of a board")?;
        Ok(Image { flash, code, ring, board, places: addr2line::Loader::new(path).ok() })
    }

    /// A flash with the image in it, and nothing else.
    #[must_use]
    pub fn flash(&self) -> Flash {
        self.flash.clone()
    }

    /// The program, decoded.
    #[must_use]
    pub fn code(&self) -> Rc<Code> {
        Rc::clone(&self.code)
    }

    /// The board's network device, as it is after power-up.
    #[must_use]
    pub fn device(&self, seed: u64) -> Device {
        Device::of(self.board, seed).unwrap_or_else(|| unreachable!("it was checked"))
    }

    /// Where the telemetry ring is.
    #[must_use]
    pub fn ring(&self) -> u32 {
        self.ring
    }

    /// The place that an instruction came from: function and line, below what the core library made of
    /// it; and the place in this project that it was inlined in, if that is another.
    #[must_use]
    pub fn place(&self, address: u32) -> Option<String> {
        let mut frames = self.places.as_ref()?.find_frames(address.into()).ok()?;
        let mut found = Vec::new();
        while let Ok(Some(frame)) = frames.next() {
            let name = frame.function.and_then(|name| name.demangle().ok().map(|name| name.into_owned()));
            let at = frame.location.and_then(|at| Some((short(at.file?), at.line?)));
            if let (Some(name), Some((file, line))) = (name, at) {
                let is_ours = file.starts_with("firmware/");
                found.push((format!("{name} ({file}:{line})"), is_ours, file.starts_with("library/")));
            }
        }
        let innermost = found.iter().position(|(_, _, is_core)| !is_core).unwrap_or(0);
        let ours = found.iter().skip(innermost + 1).find(|(_, is_ours, _)| *is_ours);
        match (found.get(innermost)?, ours) {
            ((inner, false, _), Some((outer, _, _))) => Some(format!("{inner}, in {outer}")),
            ((inner, _, _), _) => Some(inner.clone()),
        }
    }
}

/// The address of the board's telemetry ring.
fn find_ring(elf: &[u8]) -> Option<u32> {
    let file = object::File::parse(elf).ok()?;
    file.symbols().find(|symbol| symbol.name() == Ok(RING)).map(|symbol| symbol.address() as u32)
}

/// The end of a path, which says enough.
fn short(path: &str) -> &str {
    let known = ["/firmware/", "/library/"].into_iter().find_map(|part| path.rfind(part).map(|at| &path[at + 1..]));
    let foreign = || path.split_once("/registry/src/").and_then(|(_, rest)| Some(rest.split_once('/')?.1));
    known.or_else(foreign).unwrap_or(path)
}
