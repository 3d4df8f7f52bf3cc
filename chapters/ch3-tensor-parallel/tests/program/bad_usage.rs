//! Flags that have no meaning end with exit code 2 and say what would be legal; nothing has started by then.

use crate::run;

#[test]
fn flags_without_meaning_are_refused_by_name() {
    let legal = "1, 2, 4, 8 can be used";
    for (line, words) in [
        ("generate --tp 0", &["--tp 0", "at least 1", legal][..]),
        ("generate --tp 3", &["--tp 3", "8 attention heads", legal]),
        ("generate --tp 16", &["--tp 16", "only 8 attention heads", legal]),
        ("generate --tp 99999999999999999999", &["--tp"]),
        ("score --tp 5", &["--tp 5", legal]),
        ("gradients --tp 6", &["--tp 6", legal]),
        ("gradients --regather", &["--sequence-parallel"]),
        ("split --tp 7", &["--tp 7", legal]),
        ("memory --tp 3", &["--tp 3", legal]),
        ("memory --batch 0", &["batch"]),
        ("memory --batch 18446744073709551615", &["--batch 18446744073709551615", "at most 65536"]),
        ("communication --batch 18446744073709551615", &["--batch 18446744073709551615", "65536"]),
        ("long --cp 18446744073709551615", &["--cp 18446744073709551615", "1 to 256 ranks"]),
        ("long --context 1", &["--context 1", "at least 2"]),
        ("train --inject-failure 0:5 --steps 5", &["--inject-failure 0:5", "a step from 0 to 4"]),
        ("train --batch 18446744073709551615", &["--batch 18446744073709551615", "at most 65536"]),
        ("memory --seq 513", &["512"]),
        ("memory --device-memory 0", &["--device-memory 0", "64MiB"]),
        ("memory --plot a.gif", &[".svg or .png"]),
        ("communication --seq 0", &["--seq 0", "512"]),
        ("communication --seq 513", &["--seq 513", "512"]),
        ("communication --batch 0", &["--batch 0"]),
        ("communication --algorithm spiral", &["spiral", "hierarchical"]),
        ("long --cp 0", &["--cp 0"]),
        ("long --cp 8 --context 15", &["--cp 8", "15 tokens"]),
        ("long --context 513", &["--context 513", "512"]),
        ("long --gpu H1000", &["H1000", "H100"]),
        ("train --tp 3", &["--tp 3", legal]),
        ("train --inject-failure 2:0 --tp 2", &["--inject-failure 2:0", "0 to 1"]),
        ("train --algorithm direct --steps 1", &["algorithm", "--clock wall"]),
        ("train --with bug:nothing", &["nothing"]),
        ("generate --with homework:9.9", &["9.9"]),
        ("divide", &["divide"]),
    ] {
        run(line).fails(2, words);
    }
}
