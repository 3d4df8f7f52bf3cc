//! What holds across chapters; the tests are in `tests/`.
