//! Link arguments of the images. They stand here and not in `rustflags`, which a `RUSTFLAGS` in
//! the environment would silently replace: an image would link, without a vector table.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-changed=../../../memory.x");
    if std::env::var("CARGO_CFG_TARGET_OS").as_deref() != Ok("none") {
        return;
    }
    // The linker takes `memory.x` from the workspace's root, where it is run.
    for argument in ["--nmagic", "-Tlink.x", "-Tlink-rp.x", "-Tdefmt.x"] {
        println!("cargo:rustc-link-arg-bins={argument}");
    }
}
