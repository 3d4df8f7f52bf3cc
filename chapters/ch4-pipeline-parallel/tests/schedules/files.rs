//! Schedules that were written by hand.

use ch4_pipeline_parallel::schedule::{Kind, Schedule};

#[test]
fn a_schedule_comes_back_from_its_file_as_it_was() {
    let folder = tempfile::tempdir().unwrap();
    for kind in Kind::ALL {
        let schedule = kind.schedule(4, 8, 2).unwrap();
        let path = folder.path().join(format!("{}.json", kind.name()));
        std::fs::write(&path, schedule.to_json().to_string()).unwrap();
        assert_eq!(Schedule::read(&path).unwrap(), schedule);
    }
}

#[test]
fn a_wrong_file_says_where_it_is_wrong() {
    let message = |text: &str| Schedule::from_json(text).unwrap_err().to_string();
    assert!(message("{").contains("EOF"));
    assert!(message(r#"{"micro_batches": 1, "stages": [["F0", "X0"]]}"#).contains("stage 0, number 1"));
    assert!(message(r#"{"micro_batches": 1, "stages": [["F0", "B-1"]]}"#).contains("B-1"));
    assert!(message(r#"{"micro_batches": 1, "stages": [["F0", "B1"]]}"#).contains("micro-batches are 0 to 0"));
    assert!(message(r#"{"micro_batches": 1, "stages": [["F0", "B0.1"]]}"#).contains("chunks 0 to 0"));
    assert!(message(r#"{"micro_batches": 1, "stages": []}"#).contains("at least one"));
    assert!(message(r#"{"micro_batches": 1, "stagess": []}"#).contains("stagess"));
    // A number that would not fit into memory.
    let huge = r#"{"layout": {"interleaved": {"chunks": 4000000000}}, "micro_batches": 18446744073709551615, "stages": [["F0"]]}"#;
    assert!(message(huge).contains("too few"), "{}", message(huge));
    let missing = Schedule::read(std::path::Path::new("/nonexistent/schedule.json")).unwrap_err().to_string();
    assert!(missing.contains("/nonexistent/schedule.json"));
}
