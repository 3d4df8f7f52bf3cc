//! placeholder
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
#[test]
fn show() {
    let n: u64 = std::env::var("N").map_or(10, |n| n.parse().unwrap());
    for i in 0..n { println!("{}\n", super::story(7, i)); }
}
