//! Files that are read, and whether they have changed since.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use document::{FileError, Files};

use super::{Fingerprints, PART, ReadPath, RecordedFiles, bytes, fingerprint, reason};

#[test]
fn detects_whether_a_result_would_change() {
    let folder = tempfile::tempdir().unwrap();
    let (here, missing) = (folder.path().join("here"), folder.path().join("missing"));
    std::fs::write(&here, "1").unwrap();
    let files = RecordedFiles::default();
    assert_eq!(files.read(&here), Ok(b"1".to_vec()));
    assert_eq!(files.read(&missing), Err(FileError::new("no such file")));
    assert_eq!(files.list(folder.path()), Ok(vec!["here".to_owned()]));
    let fingerprints = files.into_fingerprints();
    assert!(fingerprints.are_current());
    std::fs::write(&here, "2").unwrap();
    assert!(!fingerprints.are_current());
    std::fs::write(&here, "1").unwrap();
    assert!(fingerprints.are_current());
    std::fs::write(&missing, "").unwrap();
    assert!(!fingerprints.are_current());
    assert!(fingerprints.folders().contains(&folder.path().to_owned()));
}

#[test]
fn the_files_that_changed_are_named() {
    let fingerprints = |names: &[&str]| {
        let folder = Path::new("roles");
        let file = |name: &str| {
            let (name, bytes) = name.split_once('=').unwrap_or((name, ""));
            (ReadPath::File(folder.join(name)), fingerprint(&bytes))
        };
        let names_alone: Vec<_> = names.iter().map(|name| name.split('=').next()).collect();
        let listed = (ReadPath::Folder(folder.to_owned()), fingerprint(&names_alone));
        Fingerprints(
            names
                .iter()
                .filter(|name| **name != "README")
                .map(|name| file(name))
                .chain([listed])
                .collect(),
        )
    };
    let changed = |before: &[&str], after: &[&str]| {
        let changed = fingerprints(after).changed_since(&fingerprints(before));
        changed.iter().map(|path| path.display().to_string()).collect::<Vec<_>>()
    };
    assert_eq!(changed(&["a"], &["a"]), Vec::<String>::new());
    assert_eq!(changed(&["a", "b"], &["a=1", "b"]), ["roles/a"]);
    assert_eq!(changed(&["a"], &["b"]), ["roles/a", "roles/b"]);
    assert_eq!(changed(&["a"], &["a", "README"]), ["roles"]);
}

#[test]
fn an_unchanged_file_of_any_size_has_the_same_fingerprint() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    for size in [0, 1, PART - 1, PART, PART + 1, 3 * PART, 3 * PART + 7] {
        let bytes: Vec<u8> = (0..=250).cycle().take(size).collect();
        std::fs::write(&file, &bytes).unwrap();
        let files = RecordedFiles::default();
        assert_eq!(files.read(&file), Ok(bytes.clone()), "{size}");
        let fingerprints = files.into_fingerprints();
        assert!(fingerprints.are_current(), "{size}");
        // A change of any byte, or of the size, is noticed.
        for at in [0, size / 2, size.saturating_sub(1)].into_iter().filter(|at| *at < size) {
            let mut other = bytes.clone();
            other[at] ^= 1;
            std::fs::write(&file, other).unwrap();
            assert!(!fingerprints.are_current(), "{size} {at}");
        }
        std::fs::write(&file, [&bytes[..], b"+"].concat()).unwrap();
        assert!(!fingerprints.are_current(), "{size}");
    }
}

#[test]
fn a_file_without_an_end_is_not_read_to_it() {
    let endless = std::path::Path::new("/dev/zero");
    assert_eq!(bytes(endless, 1 << 20), Err(FileError::new("it is larger than 1 MiB")));
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    for (size, fits) in [(PART - 1, true), (PART, true), (PART + 1, false), (3 * PART, false)] {
        std::fs::write(&file, vec![b'x'; size]).unwrap();
        assert_eq!(bytes(&file, PART).is_ok(), fits, "{size}");
    }
    assert_eq!(bytes(&file, PART), Err(FileError::new("it is larger than 64 KiB")));
}

#[test]
fn a_folder_is_no_file() {
    let folder = tempfile::tempdir().unwrap();
    let files = RecordedFiles::default();
    assert_eq!(files.read(folder.path()), Err(FileError::new("it is a folder")));
    assert!(files.into_fingerprints().are_current());
}

/// The whole text: a process with all permissions, such as that of a test, is never denied one.
#[test]
fn a_denied_permission_is_explained_by_the_owners_and_the_mode() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("htpasswd");
    std::fs::write(&file, "").unwrap();
    std::fs::set_permissions(&file, Permissions::from_mode(0o600)).unwrap();
    std::fs::set_permissions(folder.path(), Permissions::from_mode(0o750)).unwrap();
    let (user, group) = (rustix::process::geteuid(), rustix::process::getegid());
    let owner = format!("belongs to user {user} and group {group}, with mode");
    let denied = std::io::ErrorKind::PermissionDenied.into();
    let start = format!("permission denied: this process runs as user {user} and group {group}; ");
    assert_eq!(
        reason(&file, &denied, PART),
        FileError::new(format!("{start}the file {owner} 0600"))
    );
    let folder = folder.path().display();
    assert_eq!(
        reason(&file.with_file_name("other"), &denied, PART),
        FileError::new(format!("{start}the folder `{folder}` {owner} 0750"))
    );
    assert_eq!(reason(Path::new(""), &denied, PART), FileError::new("permission denied"));
}
