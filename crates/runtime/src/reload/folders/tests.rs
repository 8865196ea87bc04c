//! Tests of `folders`.

use std::path::PathBuf;
use std::sync::mpsc::channel;
use std::time::Duration;

use notify::event::{DataChange, EventKind, Flag, ModifyKind, RemoveKind};

use super::{Changes, Folders, lock};

#[test]
fn a_folder_that_does_not_exist_is_missed() {
    let folder = tempfile::tempdir().unwrap();
    let mut folders = Folders::new(channel().0);
    assert!(folders.watch(&[folder.path().to_owned(), folder.path().join("missing")]));
    assert!(folders.is_incomplete, "so that it is checked even if polling is off");
    folders.watch(&[folder.path().to_owned()]);
    assert!(!folders.is_incomplete);
}

#[test]
fn an_error_of_the_watch_causes_a_check() {
    assert!(Changes::default().record(Err(notify::Error::generic("lost"))));
}

#[test]
fn a_folder_with_two_names_is_watched_while_one_is_wanted() {
    let folder = tempfile::tempdir().unwrap();
    let (link, real) = (folder.path().join("link"), folder.path().join("real"));
    let dots = folder.path().join("real/../real");
    std::fs::create_dir(&real).unwrap();
    std::os::unix::fs::symlink("real", &link).unwrap();
    let (events, received) = channel();
    let mut folders = Folders::new(events);
    for wanted in [
        vec![&link, &real],
        vec![&link],
        vec![&real, &link],
        vec![&real],
        vec![&real, &dots],
        vec![&dots],
        vec![&link, &dots],
    ] {
        let wanted: Vec<PathBuf> = wanted.into_iter().cloned().collect();
        let is_reported = (0..30).any(|_| {
            // Again if the last event of the write before came late: a further one is only sent
            // once the changes are taken.
            folders.watch(&wanted);
            assert!(!folders.is_incomplete);
            while received.try_recv().is_ok() {}
            std::fs::write(real.join("file"), "").unwrap();
            received.recv_timeout(Duration::from_secs(1)).is_ok()
        });
        assert!(is_reported, "{wanted:?}");
    }
    assert!(!folders.watch(&[link, dots]), "each is watched");
}

/// The folder in its place may have its inode, so only the event of its removal tells them apart.
#[test]
fn a_folder_that_is_replaced_while_the_watch_begins_is_watched() {
    let outer = tempfile::tempdir().unwrap();
    let folder = outer.path().join("policy");
    std::fs::create_dir(&folder).unwrap();
    let wanted = [folder.clone()];
    for round in 0..100 {
        let (events, received) = channel();
        let mut folders = Folders::new(events);
        std::thread::scope(|scope| {
            let start = scope.spawn(|| folders.watch(&wanted));
            std::thread::sleep(Duration::from_micros(4 * round));
            std::fs::remove_dir(&folder).unwrap();
            std::fs::create_dir(&folder).unwrap();
            start.join().unwrap();
        });
        let is_reported = (0..5).any(|number| {
            // Again if the events of the replacement come late.
            folders.watch(&wanted);
            while received.try_recv().is_ok() {}
            let file = folder.join("file");
            std::fs::write(&file, "").unwrap();
            let is_reported = received.recv_timeout(Duration::from_millis(100 << number)).is_ok();
            std::fs::remove_file(file).unwrap();
            is_reported
        });
        assert!(is_reported, "round {round}");
    }
}

#[test]
fn lost_events_may_be_about_any_folder_and_any_file() {
    let written = notify::Event::new(EventKind::Modify(ModifyKind::Data(DataChange::Any)));
    let overflow = notify::Event::new(EventKind::Other).set_flag(Flag::Rescan);
    for lost in [Ok(overflow), Err(notify::Error::generic("lost"))] {
        let mut folders = Folders::new(channel().0);
        let folder = tempfile::tempdir().unwrap();
        let watched = [folder.path().to_owned()];
        folders.watch(&watched);
        let file = folder.path().join("file");
        lock(&folders.changes).record(Ok(written.clone().add_path(file)));
        assert!(folders.is_being_written());
        assert!(!folders.watch(&watched));
        assert!(lock(&folders.changes).record(lost), "the files are compared");
        assert!(!folders.is_being_written(), "its end may be among them");
        assert!(folders.watch(&watched), "watched again: it may have moved");
    }
}

#[test]
fn a_flood_of_events_is_reported_once() {
    let mut folders = Folders::new(channel().0);
    let folder = tempfile::tempdir().unwrap();
    let watched = [folder.path().to_owned()];
    folders.watch(&watched);
    for round in 0..3 {
        let mut sent = 0;
        for number in 0..10_000 {
            let path = PathBuf::from(format!("/other/{number}"));
            let mut changes = lock(&folders.changes);
            for kind in [
                EventKind::Modify(ModifyKind::Data(DataChange::Any)),
                EventKind::Remove(RemoveKind::File),
                EventKind::Modify(ModifyKind::Data(DataChange::Any)),
            ] {
                sent +=
                    u32::from(changes.record(Ok(notify::Event::new(kind).add_path(path.clone()))));
            }
        }
        assert_eq!(sent, 1, "{round}");
        assert!(!folders.watch(&watched), "no watched folder has moved");
    }
    let event = notify::Event::new(EventKind::Remove(RemoveKind::Folder));
    lock(&folders.changes).record(Ok(event.add_path(folder.path().to_owned())));
    assert!(folders.watch(&watched), "watched again");
}
