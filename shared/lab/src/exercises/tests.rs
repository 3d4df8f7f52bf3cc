//! The machinery on a small chapter of its own: one exercise that is right, and tables with one thing wrong each.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::todo, unused_variables)]

use super::report::Report;
use super::{Bug, Choice, Diagnosis, Exercise, Exercises, Stub, With, select, verify};

type Double = fn(u64) -> u64;

fn double(x: u64) -> u64 {
    2 * x
}

fn solved(x: u64) -> u64 {
    x + x
}

/// Exercise 9.1: twice `x`.
fn stub_of_double(x: u64) -> u64 {
    todo!("exercise 9.1: cargo homework hint 9.1")
}

fn once(x: u64) -> u64 {
    x
}

fn forty_two(_: u64) -> u64 {
    42
}

fn check(double: &Double) -> Result<(), Diagnosis> {
    let found = [3, 21].map(double);
    Diagnosis::unless(found[0] != 3, || "it is only once `x`".to_owned())?;
    Diagnosis::unless(found[0] != found[1], || "it is the same for every `x`: is `x` used?".to_owned())?;
    Diagnosis::unless(found == [6, 42], || format!("{found:?} for 3 and 21"))
}

const STUB: Stub =
    Stub { folder: env!("CARGO_MANIFEST_DIR"), file: "src/exercises/tests.rs", functions: &["stub_of_double"] };
const ONCE: Bug<Double> = Bug { name: "once", what: "not twice", implementation: once, diagnosis: "only once" };
const CONSTANT: Bug<Double> =
    Bug { name: "constant", what: "always 42", implementation: forty_two, diagnosis: "is `x` used?" };

const RIGHT: Exercise<Double> = Exercise {
    id: "9.1",
    title: "twice",
    reference: double,
    homework: stub_of_double,
    stub: STUB,
    hints: &["add"],
    bugs: &[ONCE, CONSTANT],
    check,
};
const OTHER: Exercise<Double> =
    Exercise { id: "9.2", homework: solved, bugs: &[Bug { name: "other", ..ONCE }], ..RIGHT };

fn known() -> Exercises {
    vec![&RIGHT, &OTHER]
}

fn choice(with: &str) -> crate::Result<Choice> {
    Choice::new(with.parse().unwrap(), &known())
}

#[test]
fn with_is_read_as_it_is_written_and_nonsense_is_refused_with_the_legal_forms() {
    for text in ["reference", "homework", "homework:9.1", "homework:9.1,9.2", "bug:once"] {
        assert_eq!(text.parse::<With>().unwrap().to_string(), text);
    }
    assert_eq!("homework:9.2, 9.1".parse::<With>().unwrap().to_string(), "homework:9.1,9.2");
    for text in ["", "home", "homework:", "homework:9.1,", "bug", "bug:", "reference:9.1", "Reference"] {
        let message = text.parse::<With>().unwrap_err();
        assert!(message.contains("homework:1.2,1.5") && message.contains("bug:NAME"), "{text:?}: {message}");
    }
}

#[test]
fn a_choice_gives_each_exercise_the_code_that_it_names_and_the_reference_to_all_others() {
    // Told apart by what they compute: 5 is 10 for the reference and the solution, 5 for `once`, 42 for the constant.
    let chosen = |with: &str| {
        let choice = choice(with).unwrap();
        (RIGHT.choose(&choice), OTHER.choose(&choice))
    };
    let results = |with| {
        let (right, other) = chosen(with);
        (right(5), other(5))
    };
    assert_eq!(results("reference"), (10, 10));
    assert_eq!(results("bug:once"), (5, 10));
    assert_eq!(results("bug:constant"), (42, 10));
    assert_eq!(results("bug:other"), (10, 5));
    assert_eq!(results("homework:9.2"), (10, 10));
    for with in ["homework", "homework:9.1", "homework:9.1,9.2"] {
        let stub = chosen(with).0;
        assert!(std::panic::catch_unwind(|| stub(5)).is_err(), "{with} is the learner's, here a todo");
    }
    assert_eq!(Choice::default().with(), &With::Reference);
}

#[test]
fn an_unknown_id_or_bug_is_refused_and_those_that_all_known_chapters_have_are_listed() {
    let message = |with| choice(with).unwrap_err().to_string();
    assert_eq!(message("homework:9.1,9.3"), "--with homework:9.3: this program has the exercises 9.1, 9.2");
    assert_eq!(message("bug:twice"), "--with bug:twice: this program has the bugs once, constant, other");
    let message = select(&known(), &["9.2".to_owned(), "3.1".to_owned()]).err().unwrap().to_string();
    assert_eq!(message, "exercise 3.1: no such exercise; there are 9.1, 9.2");
    let ids = |ids: &[&str]| {
        let ids: Vec<_> = ids.iter().map(|id| (*id).to_owned()).collect();
        select(&known(), &ids).unwrap().iter().map(|exercise| exercise.about().id).collect::<Vec<_>>()
    };
    assert_eq!((ids(&[]), ids(&["9.2", "9.1"]), ids(&["9.2"])), (vec!["9.1", "9.2"], vec!["9.1", "9.2"], vec!["9.2"]));
}

#[test]
fn a_report_has_every_state_with_its_diagnosis_and_its_document_keeps_its_names() {
    const FAILING: Exercise<Double> = Exercise { id: "9.3", homework: once, ..RIGHT };
    let report = Report::of(&vec![&RIGHT, &OTHER, &FAILING]);
    assert_eq!((report.sum().as_str(), report.all_passed()), ("1 of 3 exercises pass", false));
    let document = serde_json::to_value(report.document()).unwrap();
    assert_eq!(
        document,
        serde_json::json!({ "passed": 1, "count": 3, "exercises": [
            { "id": "9.1", "title": "twice", "package": "lab", "state": "not started", "diagnosis": null },
            { "id": "9.2", "title": "twice", "package": "lab", "state": "passed", "diagnosis": null },
            { "id": "9.3", "title": "twice", "package": "lab", "state": "failing", "diagnosis": "it is only once `x`" },
        ]})
    );
    let text = report.entries().iter().map(ToString::to_string).collect::<String>();
    for part in ["✗ 9.1  twice: not started", "✓ 9.2  twice: passed", "it is only once `x`"] {
        assert!(text.contains(part), "{part} is missing\n{text}");
    }
    for part in ["tests.rs:", "cargo homework hint 9.1", "cargo test -p lab --test homework -- 9.3"] {
        assert!(text.contains(part), "{part} is missing\n{text}");
    }
}

#[test]
fn verify_finds_nothing_in_a_right_table_and_names_what_is_wrong_in_others() {
    assert_eq!(verify(&vec![&RIGHT]), Vec::<String>::new());
    fn blind(_: &Double) -> Result<(), Diagnosis> {
        Ok(())
    }
    fn strict(_: &Double) -> Result<(), Diagnosis> {
        Err(Diagnosis::new("never"))
    }
    fn vague(double: &Double) -> Result<(), Diagnosis> {
        Diagnosis::unless(double(3) == 6, || "only once, or is `x` used?".to_owned())
    }
    let right = || Exercise { ..RIGHT };
    let wrong = [
        (Exercise { check: blind, ..right() }, "the bug once is not caught: passed"),
        (Exercise { check: blind, ..right() }, "the stub is not \"not started\": passed"),
        (Exercise { check: strict, ..right() }, "the reference does not pass: failing: never"),
        (Exercise { check: vague, ..right() }, "the bug once has another bug's text"),
        (Exercise { bugs: &[ONCE, ONCE], ..right() }, "once is there twice"),
        (Exercise { id: "9", ..right() }, "the id is not like 3.2"),
        (Exercise { hints: &[], ..right() }, "there is no hint"),
        (Exercise { stub: Stub { functions: &["nowhere"], ..STUB }, ..right() }, "fn nowhere: it is not there"),
    ];
    for (exercise, problem) in wrong {
        // A table lives as long as the program.
        let problems = verify(&vec![Box::leak(Box::new(exercise))]);
        assert!(problems.iter().any(|found| found.contains(problem)), "{problem:?} is not in {problems:#?}");
    }
}
