//! The program of the image `rolegate-module`: copies the library for Envoy from the image into a folder, which is a volume
//! that Envoy's container mounts. There is no shell in the image that could do it.
//!
//!     rolegate-module [FOLDER]        the default is /modules

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::{env, fs};

/// The library's name, as Envoy looks for it.
const LIBRARY: &str = "librolegate.so";
/// Where it is copied to if no folder is given.
const FOLDER: &str = "/modules";

fn main() -> ExitCode {
    let mut arguments = env::args_os();
    // The library is beside this program, whose full path is the entrypoint of the image.
    let library = PathBuf::from(arguments.next().unwrap_or_default()).with_file_name(LIBRARY);
    let arguments: Vec<OsString> = arguments.collect();
    let folder = match arguments.as_slice() {
        [] => PathBuf::from(FOLDER),
        [folder] if !folder.as_encoded_bytes().starts_with(b"-") => PathBuf::from(folder),
        [_, ..] => {
            eprintln!(
                "usage: rolegate-module [FOLDER]\n\ncopies {LIBRARY} into FOLDER; the default is {FOLDER}"
            );
            return ExitCode::from(2);
        }
    };
    match copy(&library, &folder) {
        Ok(bytes) => {
            eprintln!("{} has {bytes} bytes", folder.join(LIBRARY).display());
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("cannot copy {LIBRARY} to {}: {error}", folder.display());
            ExitCode::FAILURE
        }
    }
}

/// Copies the library, which is there as a whole or not at all: an Envoy that runs keeps the file that it has opened.
fn copy(library: &Path, folder: &Path) -> io::Result<u64> {
    let part = folder.join(format!(".{LIBRARY}.part"));
    // One of an earlier attempt may be read-only, like the library itself.
    if let Err(error) = fs::remove_file(&part)
        && error.kind() != io::ErrorKind::NotFound
    {
        return Err(error);
    }
    let bytes = fs::copy(library, &part)?;
    fs::rename(&part, folder.join(LIBRARY))?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_library_is_replaced_as_a_whole() {
        let (image, volume) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let library = image.path().join(LIBRARY);
        for text in ["old", "newer"] {
            fs::write(&library, text).unwrap();
            assert_eq!(copy(&library, volume.path()).unwrap(), u64::try_from(text.len()).unwrap());
            let names: Vec<_> = volume.path().read_dir().unwrap().flatten().collect();
            assert_eq!(names.len(), 1);
        }
        fs::write(volume.path().join(".librolegate.so.part"), "left over").unwrap();
        assert!(copy(&library, volume.path()).is_ok());
        assert!(copy(&image.path().join("none"), volume.path()).is_err());
        assert!(copy(&library, &volume.path().join("none")).is_err());
    }
}
