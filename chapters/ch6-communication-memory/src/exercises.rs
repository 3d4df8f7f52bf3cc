//! The exercises of every chapter: what `cargo homework` knows.

use lab::exercises::Exercises;

/// All of them, in the order of the chapters.
pub fn exercises() -> Exercises {
    [
        ch1_single_gpu::exercises::exercises(),
        ch2_data_parallel::exercises::exercises(),
        ch3_tensor_parallel::exercises::exercises(),
        ch4_pipeline_parallel::exercises::exercises(),
    ]
    .concat()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    #[test]
    fn no_two_exercises_share_an_id_and_no_two_bugs_a_name() {
        let exercises = super::exercises();
        let bugs = exercises.iter().flat_map(|exercise| exercise.bugs()).map(|bug| bug.name);
        let mut seen = BTreeSet::new();
        for name in exercises.iter().map(|exercise| exercise.about().id).chain(bugs) {
            assert!(seen.insert(name), "{name} is there twice: `--with` could not tell which is meant");
        }
    }
}
