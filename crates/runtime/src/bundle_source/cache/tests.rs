//! The cache, also with several that use it at once.

use std::time::Duration;

use super::*;

/// The names in a folder, but for the lock.
fn names(folder: &Path) -> Vec<String> {
    let names = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name());
    let mut names: Vec<_> = names.map(|name| name.into_string().unwrap()).collect();
    names.retain(|name| name != LOCK);
    names.sort();
    names
}

/// Nothing there is the usual first start. All else must be said, because then an older bundle may
/// be accepted.
#[test]
fn a_cache_that_cannot_be_read_is_not_an_empty_one() {
    let folder = tempfile::tempdir().unwrap();
    let cache =
        |folder: &Path| Cache { folder: folder.to_owned(), file: folder.join("bundle.tar.gz") };
    assert_eq!(cache(folder.path()).read(100).unwrap(), None);
    assert_eq!(cache(&folder.path().join("missing")).read(100).unwrap(), None);
    let file = folder.path().join("file");
    fs::write(&file, "x").unwrap();
    assert!(cache(&file).read(100).is_err(), "the folder is a file");
}

#[test]
fn what_a_killed_process_left_is_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let cache =
        Cache { folder: folder.path().to_owned(), file: folder.path().join("bundle.tar.gz") };
    for name in ["bundle.tar.new", "bundle-of-another-url.tar.gz"] {
        fs::write(folder.path().join(name), "left by a process").unwrap();
    }
    cache.store(b"new", 100, |_| true).unwrap();
    assert_eq!(cache.read(100).unwrap().unwrap(), b"new");
    assert_eq!(names(folder.path()), ["bundle-of-another-url.tar.gz", "bundle.tar.gz"]);
}

/// As by replicas with one volume, whose processes have the same number.
#[test]
fn bundles_stored_at_the_same_time_leave_one_whole_file() {
    let folder = tempfile::tempdir().unwrap();
    let cache =
        Cache { folder: folder.path().to_owned(), file: folder.path().join("bundle.tar.gz") };
    let bundles = [vec![1; 300_000], vec![2; 200_000]];
    let store = |bundle: &[u8]| cache.store(bundle, 400_000, |_| true).unwrap();
    store(&bundles[0]);
    std::thread::scope(|scope| {
        for bundle in &bundles {
            scope.spawn(|| (0..100).for_each(|_| assert!(store(bundle))));
        }
        for _ in 0..100 {
            let stored = cache.read(400_000).unwrap().unwrap();
            assert!(bundles.contains(&stored), "{} bytes of {:?}", stored.len(), stored.first());
        }
    });
    let mode = std::os::unix::fs::MetadataExt::mode(&cache.file.metadata().unwrap());
    assert_eq!(mode & 0o777, 0o600);
    assert_eq!(names(folder.path()), ["bundle.tar.gz"], "no other file is left");
}

/// The caller limits the time of the wait.
#[test]
fn a_bundle_waits_for_the_lock() {
    let folder = tempfile::tempdir().unwrap();
    let cache =
        Cache { folder: folder.path().to_owned(), file: folder.path().join("bundle.tar.gz") };
    assert!(cache.store(b"first", 100, |_| true).unwrap());
    let other = File::open(folder.path().join(LOCK)).unwrap();
    other.lock().unwrap();
    std::thread::scope(|scope| {
        let second = scope.spawn(|| cache.store(b"second", 100, |_| true).unwrap());
        std::thread::sleep(Duration::from_millis(100));
        assert_eq!(cache.read(100).unwrap().unwrap(), b"first");
        drop(other);
        assert!(second.join().unwrap());
    });
    assert_eq!(cache.read(100).unwrap().unwrap(), b"second");
}

/// Whatever their order, and however long each takes: what is there when a bundle is replaced is
/// what was looked at.
#[test]
fn of_bundles_stored_at_the_same_time_the_last_one_allowed_stays() {
    let folder = tempfile::tempdir().unwrap();
    let cache =
        Cache { folder: folder.path().to_owned(), file: folder.path().join("bundle.tar.gz") };
    std::thread::scope(|scope| {
        for first in 0..4_u8 {
            let cache = &cache;
            scope.spawn(move || {
                for number in (first..100).step_by(4) {
                    cache.store(&[number], 100, |there| there < &[number][..]).unwrap();
                    let stored = cache.read(100).unwrap().unwrap();
                    assert!(stored >= vec![number], "{stored:?} in place of {number}");
                }
            });
        }
    });
    assert_eq!(cache.read(100).unwrap(), Some(vec![99]));
    assert_eq!(names(folder.path()), ["bundle.tar.gz"]);
}
