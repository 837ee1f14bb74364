//! The image: what goes into flash, where it keeps its log, and which place of the source an
//! instruction came from.

use crate::{bus::XIP_BASE, flash::FLASH_LEN, flash::Flash};
use object::{
    Endianness, Object, ObjectSymbol,
    elf::{FileHeader32, PT_LOAD},
    read::elf::{FileHeader, ProgramHeader},
};
use std::path::Path;

/// What goes into flash, and how to find the source.
pub struct Image {
    flash: Flash,
    places: Option<addr2line::Loader>,
}

impl Image {
    /// Reads an image.
    ///
    /// # Errors
    /// One line: what is wrong with it.
    pub fn read(path: &Path, elf: &[u8]) -> Result<Image, String> {
        let header = FileHeader32::<Endianness>::parse(elf).map_err(|error| format!("not an ELF file: {error}"))?;
        let endian = header.endian().map_err(|error| error.to_string())?;
        let mut flash = Flash::default();
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
        }
        Ok(Image { flash, places: addr2line::Loader::new(path).ok() })
    }

    /// A flash with the image in it, and nothing else.
    #[must_use]
    pub fn flash(&self) -> Flash {
        self.flash.clone()
    }

    /// The function and the line that an instruction came from, innermost first.
    #[must_use]
    pub fn place(&self, address: u32) -> Option<String> {
        let mut frames = self.places.as_ref()?.find_frames(address.into()).ok()?;
        let mut found = Vec::new();
        while let Ok(Some(frame)) = frames.next() {
            let name = frame.function.and_then(|name| name.demangle().ok().map(|name| name.into_owned()));
            let line = frame.location.and_then(|at| Some(format!("{}:{}", short(at.file?), at.line?)));
            match (name, line) {
                (Some(name), Some(line)) => found.push(format!("{name} ({line})")),
                (Some(one), None) | (None, Some(one)) => found.push(one),
                (None, None) => {}
            }
        }
        (!found.is_empty()).then(|| found.join(", inlined in "))
    }
}

/// The address of a symbol.
#[must_use]
pub fn symbol(elf: &[u8], name: &str) -> Option<u32> {
    let file = object::File::parse(elf).ok()?;
    file.symbols().find(|symbol| symbol.name() == Ok(name)).map(|symbol| symbol.address() as u32)
}

/// The end of a path, which says enough.
fn short(path: &str) -> &str {
    ["/firmware/", "/registry/src/", "/library/"]
        .into_iter()
        .find_map(|part| path.rfind(part).map(|at| &path[at + 1..]))
        .unwrap_or(path)
}
