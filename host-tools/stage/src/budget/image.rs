//! Flash, RAM and stack of an image, as its linker laid them out.

use super::{Measurement, Unit};
use object::{Object, ObjectSection, ObjectSymbol};

/// What the image carries: code, constants, and the initial values of variables.
const FLASH: [&str; 4] = [".vector_table", ".text", ".rodata", ".data"];
/// What variables occupy.
const RAM: [&str; 3] = [".data", ".bss", ".uninit"];
/// Where the stack lies, from `memory.x`.
const STACK: [&str; 2] = ["_stack_start", "_stack_end"];

/// Measures an ELF file; `family` begins the names.
///
/// # Errors
/// What is wrong with it.
pub fn measure_image(family: &str, elf: &[u8]) -> Result<Vec<Measurement>, String> {
    let file = object::File::parse(elf).map_err(|error| format!("the image is no ELF file: {error}"))?;
    let sum = |sections: &[&str]| -> Result<(u64, String), String> {
        let mut total = 0;
        let mut parts = Vec::new();
        for name in sections {
            let section = file.section_by_name(name).ok_or_else(|| format!("the image has no section {name}"))?;
            total += section.size();
            parts.push(format!("{} {}", name.trim_start_matches('.'), section.size()));
        }
        Ok((total, parts.join(" + ")))
    };
    let symbol = |name: &str| -> Result<u64, String> {
        let found = file.symbols().find(|symbol| symbol.name() == Ok(name));
        found.map(|symbol| symbol.address()).ok_or_else(|| format!("the image has no symbol {name}"))
    };
    let [start, end] = STACK;
    let stack = symbol(start)?.saturating_sub(symbol(end)?);
    let (flash, flash_parts) = sum(&FLASH)?;
    let (ram, ram_parts) = sum(&RAM)?;
    let bytes =
        |name: &str, value, note| Measurement { name: format!("{family}.{name}"), unit: Unit::Bytes, value, note };
    Ok(vec![
        bytes("flash", flash, flash_parts),
        bytes("ram", ram, ram_parts),
        bytes("stack", stack, "reserved by memory.x".into()),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_image_is_refused_with_a_reason() {
        assert!(measure_image("image", b"no").unwrap_err().contains("no ELF"));
        // This very test is an ELF file, but no board's image.
        let test = std::fs::read(std::env::current_exe().unwrap()).unwrap();
        assert!(measure_image("image", &test).unwrap_err().contains("_stack_start"));
    }
}
