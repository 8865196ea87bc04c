//! The program of the image `rolegate-module`: copies the library for Envoy from the image into a
//! folder, which is a volume that Envoy's container mounts. There is no shell in the image that
//! could do it.
//!
//!     rolegate-module [FOLDER]        the default is /modules

use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::{env, fs};

/// The library's name, as Envoy looks for it.
const LIBRARY: &str = "librolegate.so";
/// The default folder.
const FOLDER: &str = "/modules";

fn main() -> ExitCode {
    let arguments: Vec<OsString> = env::args_os().skip(1).collect();
    let folder = match arguments.as_slice() {
        [] => PathBuf::from(FOLDER),
        [folder] if !folder.as_encoded_bytes().starts_with(b"-") => PathBuf::from(folder),
        [_, ..] => {
            eprintln!("usage: rolegate-module [FOLDER]\n");
            eprintln!("copies {LIBRARY} into FOLDER; the default is {FOLDER}");
            return ExitCode::from(2);
        }
    };
    match copy(&library(), &folder) {
        Ok(bytes) => {
            eprintln!("{} has {bytes} bytes", folder.join(LIBRARY).display());
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

/// The library, which is beside this program. Without `/proc`, the program's path is the name by
/// which it was started.
fn library() -> PathBuf {
    let program = env::current_exe().ok();
    let program = program.or_else(|| env::args_os().next().map(PathBuf::from)).unwrap_or_default();
    program.with_file_name(LIBRARY)
}

/// Copies the library atomically: an Envoy that runs keeps the file that it has opened.
///
/// # Errors
/// If the library cannot be read or the folder cannot be written; the text says which.
fn copy(library: &Path, folder: &Path) -> io::Result<u64> {
    // Opened first, because an error of `fs::copy` does not say which of the files is at fault.
    File::open(library)
        .map_err(|e| io::Error::other(format!("cannot read {}: {e}", library.display())))?;
    replace(library, folder).map_err(|error| {
        let (library, folder) = (library.display(), folder.display());
        io::Error::other(format!("cannot copy {library} to {folder}: {error}"))
    })
}

fn replace(library: &Path, folder: &Path) -> io::Result<u64> {
    let part = folder.join(format!(".{LIBRARY}.part"));
    // The part of an earlier attempt may be read-only, like the library itself.
    match fs::remove_file(&part) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        Ok(()) | Err(_) => {}
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
        let missing = image.path().join("none");
        let error = copy(&missing, volume.path()).unwrap_err().to_string();
        assert!(error.starts_with(&format!("cannot read {}: ", missing.display())), "{error}");
        let missing = volume.path().join("none");
        let error = copy(&library, &missing).unwrap_err().to_string();
        let copied = format!("cannot copy {} to {}: ", library.display(), missing.display());
        assert!(error.starts_with(&copied), "{error}");
    }
}
