//! What must hold of every table of exercises; a chapter's tests call [`verify`].

use super::judge::{State, judge};
use super::{AnyExercise, Exercises, Implementation};
use std::collections::BTreeSet;

/// What is wrong with `exercises`, a line each; empty if nothing is.
///
/// - The reference passes its check.
/// - Every bug fails it, with the diagnosis that it says, which no other bug of the exercise gets.
/// - The stub is found; as long as it is as it was handed out, its check ends at `todo!`. Code that a learner has written is not judged
///   here, so that a plain `cargo test` stays green in a learner's fork.
/// - Ids, names of bugs and hints are there, and unique.
pub fn verify(exercises: &Exercises) -> Vec<String> {
    let mut problems = repeated(exercises);
    for exercise in exercises {
        let id = exercise.about().id;
        problems.extend(problems_of(*exercise).into_iter().map(|problem| format!("{id}: {problem}")));
    }
    problems
}

fn repeated(exercises: &Exercises) -> Vec<String> {
    let mut seen = BTreeSet::new();
    let bugs = exercises.iter().flat_map(|exercise| exercise.bugs()).map(|bug| bug.name);
    let names = exercises.iter().map(|exercise| exercise.about().id).chain(bugs);
    names.filter(|name| !seen.insert(*name)).map(|name| format!("{name} is there twice")).collect()
}

fn problems_of(exercise: &dyn AnyExercise) -> Vec<String> {
    let about = exercise.about();
    let mut problems = Vec::new();
    let mut demand = |holds: bool, problem: &str| {
        if !holds {
            problems.push(problem.to_owned());
        }
    };
    let is_number = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    demand(about.id.split_once('.').is_some_and(|(a, b)| is_number(a) && is_number(b)), "the id is not like 3.2");
    demand(!about.hints.is_empty(), "there is no hint");
    demand(!exercise.bugs().is_empty(), "there is no bug that shows what the check catches");
    match about.stub.task() {
        Ok(task) => {
            let beginning = format!("Exercise {}:", about.id);
            demand(task.starts_with(&beginning), &format!("the stub's doc comment does not begin with {beginning:?}"));
        }
        Err(error) => demand(false, &error.to_string()),
    }
    let reference = state_of(exercise, Implementation::Reference);
    demand(reference == Some(State::Passed), &format!("the reference does not pass: {}", shown(reference.as_ref())));
    if about.stub.is_untouched(about.id).unwrap_or(false) {
        let stub = state_of(exercise, Implementation::Homework);
        demand(stub == Some(State::NotStarted), &format!("the stub is not \"not started\": {}", shown(stub.as_ref())));
    }
    problems.extend(problems_of_bugs(exercise));
    problems
}

fn problems_of_bugs(exercise: &dyn AnyExercise) -> Vec<String> {
    let (bugs, mut problems) = (exercise.bugs(), Vec::new());
    for bug in &bugs {
        let state = state_of(exercise, Implementation::Bug(bug.name));
        let Some(diagnosis) = state.as_ref().and_then(State::diagnosis) else {
            problems.push(format!("the bug {} is not caught: {}", bug.name, shown(state.as_ref())));
            continue;
        };
        for other in &bugs {
            let (is_said, is_own) = (diagnosis.text().contains(other.diagnosis), other.name == bug.name);
            if is_said != is_own {
                let what = if is_own { "lacks its own" } else { "has another bug's" };
                let wanted = other.diagnosis;
                problems.push(format!("the diagnosis of the bug {} {what} text {wanted:?}: {diagnosis}", bug.name));
            }
        }
    }
    problems
}

fn state_of(exercise: &dyn AnyExercise, implementation: Implementation<'_>) -> Option<State> {
    exercise.check_of(implementation).map(|check| judge(exercise.about().id, check))
}

fn shown(state: Option<&State>) -> String {
    let text = |state: &State| match state.diagnosis() {
        Some(diagnosis) => format!("{}: {diagnosis}", state.name()),
        None => state.name().to_owned(),
    };
    state.map_or_else(|| "it is missing".to_owned(), text)
}
