//! Link arguments of the images, and the firmware of the Pico W's radio.
//!
//! The arguments stand here and not in `rustflags`, which a `RUSTFLAGS` in the environment would
//! silently replace: an image would link, without a vector table.

use std::{env, fmt::Write, fs, path::Path};

/// Names the folder with the radio's files.
const FOLDER: &str = "COMPASSO_CYW43_DIR";
/// What the image calls them, and their names.
const FILES: [(&str, &str); 3] =
    [("FIRMWARE", "43439A0.bin"), ("CLM", "43439A0_clm.bin"), ("NVRAM", "nvram_rp2040.bin")];

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-changed=build-id.x");
    println!("cargo:rerun-if-changed=../../../memory.x");
    println!("cargo:rerun-if-env-changed={FOLDER}");
    if env::var("CARGO_CFG_TARGET_OS").as_deref() != Ok("none") {
        return;
    }
    let here = env::var("CARGO_MANIFEST_DIR").expect("cargo names the folder of the crate");
    println!("cargo:rustc-link-arg-bins=-T{here}/build-id.x");
    // The linker takes `memory.x` from the workspace's root, where it is run.
    for argument in ["--nmagic", "--build-id=sha1", "-Tlink.x", "-Tlink-rp.x", "-Tdefmt.x"] {
        println!("cargo:rustc-link-arg-bins={argument}");
    }
    let out = env::var("OUT_DIR").expect("cargo names a folder for what is generated");
    let folder = env::var_os(FOLDER).filter(|folder| !folder.is_empty());
    if let Some(folder) = &folder {
        FILES
            .iter()
            .for_each(|(_, name)| println!("cargo:rerun-if-changed={}", Path::new(folder).join(name).display()));
    }
    match radio(folder.as_ref().map(Path::new)) {
        Ok(source) => fs::write(Path::new(&out).join("radio.rs"), source).expect("that folder can be written"),
        Err(what) => println!("cargo::error={what}"),
    }
}

/// The radio's files as constants; without a folder empty ones, with which the image refuses to run.
pub fn radio(folder: Option<&Path>) -> Result<String, String> {
    let mut source = format!("pub const IS_COMPLETE: bool = {};\n", folder.is_some());
    for (constant, name) in FILES {
        let (length, bytes) = match folder.map(|folder| folder.join(name)) {
            Some(path) => {
                let path = path.canonicalize().map_err(|_| unusable(&path, "is missing"))?;
                let length = fs::metadata(&path).map_or(0, |file| if file.is_file() { file.len() } else { 0 });
                let length = if length > 0 { Ok(length) } else { Err(unusable(&path, "is empty")) }?;
                (length, format!("*include_bytes!({path:?})"))
            }
            None => (0, "[]".into()),
        };
        let kind = format!("cyw43::Aligned<cyw43::A4, [u8; {length}]>");
        let _ = writeln!(source, "pub static {constant}: {kind} = cyw43::Aligned({bytes});");
    }
    Ok(source)
}

fn unusable(path: &Path, why: &str) -> String {
    let names = FILES.map(|(_, name)| name).join(", ");
    format!(
        "{} {why}. The folder that {FOLDER} names must hold {names}, the CYW43439's firmware, regulatory data and \
         calibration: from the folder cyw43-firmware of https://github.com/embassy-rs/embassy, under the Permissive \
         Binary License 1.0 of Infineon, which stands beside them",
        path.display()
    )
}
