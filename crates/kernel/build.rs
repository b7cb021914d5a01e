//! Compiles the BPF programs in `bpf/`, and generates their skeletons and the types of their headers into `OUT_DIR`.

use libbpf_cargo::SkeletonBuilder;
use std::ffi::OsStr;
use std::path::PathBuf;
use std::process::{Command, ExitCode};

const REMEDY: &str = "install what is needed: apt install clang libelf-dev zlib1g-dev pkg-config make gcc";

/// `.bpf.c` files. Each is a separate object, because the kernel may refuse one and accept another.
const OBJECTS: [&str; 5] = ["opened", "overhead", "streams", "tls", "totals"];

fn main() -> ExitCode {
    match build() {
        Ok(()) => ExitCode::SUCCESS,
        Err(reason) => {
            for line in reason.lines() {
                println!("cargo::error={line}");
            }
            ExitCode::FAILURE
        }
    }
}

fn build() -> Result<(), String> {
    let manifest = PathBuf::from(std::env::var_os("CARGO_MANIFEST_DIR").ok_or("CARGO_MANIFEST_DIR is not set")?);
    let out = PathBuf::from(std::env::var_os("OUT_DIR").ok_or("OUT_DIR is not set")?);
    let sources = manifest.join("bpf");
    println!("cargo::rerun-if-changed={}", sources.display());
    println!("cargo::rerun-if-env-changed=CLANG");
    let clang = std::env::var_os("CLANG").unwrap_or_else(|| "clang".into());
    check_clang(&clang)?;
    // Keeps this machine's path out of the line information.
    let without_path = format!("-ffile-prefix-map={}=.", manifest.display());
    for name in OBJECTS {
        SkeletonBuilder::new()
            .source(sources.join(format!("{name}.bpf.c")))
            .obj(out.join(format!("{name}.bpf.o")))
            .clang(&clang)
            .clang_args(["-Wall", "-Werror", "-Wno-unused-function", "-mcpu=v3", &without_path])
            .build_and_generate(out.join(format!("{name}.skel.rs")))
            .map_err(|error| format!("the BPF programs of {name}.bpf.c do not compile: {error:#}"))?;
    }
    Ok(())
}

fn check_clang(clang: &OsStr) -> Result<(), String> {
    let name = clang.display();
    let version = Command::new(clang)
        .arg("--version")
        .output()
        .map_err(|error| format!("`{name}`, which compiles the BPF programs, cannot be run ({error}): {REMEDY}"))?;
    if version.status.success() { Ok(()) } else { Err(format!("`{name} --version` failed: {REMEDY}")) }
}
