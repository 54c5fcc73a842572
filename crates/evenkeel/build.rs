//! Compresses the JSON Schemas. Without compression, they would be 5 % of the program's size.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::{env, fs, io};

fn main() -> io::Result<()> {
    let variable = |name: &str| env::var_os(name).ok_or_else(|| io::Error::other(format!("{name} is not set")));
    let folder = Path::new(&variable("CARGO_MANIFEST_DIR")?).join("../../docs/schemas");
    println!("cargo::rerun-if-changed={}", folder.display());
    let mut files: Vec<PathBuf> = fs::read_dir(&folder)?.map(|entry| Ok(entry?.path())).collect::<io::Result<_>>()?;
    // A directory has no fixed order, but builds must be reproducible.
    files.sort();
    let out = fs::File::create(Path::new(&variable("OUT_DIR")?).join("schemas.zlib"))?;
    let mut packed = flate2::write::ZlibEncoder::new(out, flate2::Compression::best());
    for path in files {
        let name = path
            .file_stem()
            .and_then(|name| name.to_str())
            .ok_or_else(|| io::Error::other("a schema without a name"))?;
        let text = fs::read_to_string(&path)?;
        // Neither a name nor JSON contains a zero byte.
        packed.write_all(format!("{name}\0{text}\0").as_bytes())?;
    }
    packed.finish()?.sync_all()
}
