//! How many micro-batches a stage keeps.

use ch4_pipeline_parallel::schedule::Kind;

#[test]
fn every_legal_named_schedule_is_valid_and_holds_what_its_formula_says() {
    let mut legal = 0;
    for kind in Kind::ALL {
        for p in 1..=9 {
            for m in (1..=20).chain([33, 64]) {
                for chunks in 1..=if kind == Kind::Interleaved { 4 } else { 1 } {
                    let Ok(schedule) = kind.schedule(p, m, chunks) else { continue };
                    let peaks = schedule.check().unwrap_or_else(|error| panic!("{kind:?} {p} {m} {chunks}: {error}"));
                    legal += 1;
                    for r in 0..p {
                        let expected = match kind {
                            Kind::Naive => 1,
                            Kind::Gpipe => m,
                            Kind::OneForwardOneBackward | Kind::ZbH1 => m.min(p - r),
                            Kind::ZbH2 => m.min(2 * (p - 1 - r) + 1),
                            Kind::Interleaved => (m * chunks).min(2 * (p - 1 - r) + (chunks - 1) * p + 1),
                            // Two half-sized chunks each: the memory of 1F1B's first stage, on every stage.
                            Kind::ZbV => peaks.in_flight[r].min(2 * p),
                            Kind::Dualpipe => peaks.in_flight[r].min(p + 1),
                        };
                        assert_eq!(peaks.in_flight[r], expected, "{kind:?} p {p} m {m} chunks {chunks} stage {r}");
                        assert!(peaks.held[r] >= peaks.in_flight[r]);
                    }
                }
            }
        }
    }
    println!("{legal} schedules");
    assert!(legal > 1000);
}
