//! Flags that have no meaning end with exit code 2 and say what would be legal; nothing has started by then.

use crate::run;

#[test]
fn flags_without_meaning_are_refused_by_name() {
    for (line, words) in [
        ("partition --ranks 0", &["--ranks 0", "from 1 to 256"][..]),
        ("partition --ranks 100000", &["--ranks 100000"]),
        ("partition --rows 0", &["--rows = 0", "from 1 up"]),
        ("partition --in 0", &["--in = 0"]),
        ("partition --out 99999999999", &["W", "16777216"]),
        ("partition --ranks x", &["--ranks", "invalid"]),
        ("partition --plot a.pdf", &["--plot a.pdf", ".svg or .png"]),
        ("scale --most 0", &["--most 0", "from 1 to 256"]),
        ("scale --rows 0", &["--rows 0"]),
        ("scale --seq 0", &["--seq 0"]),
        ("scale --seq 513 --most 1", &["--seq", "512 tokens"]),
        ("scale --rows 60000 --seq 511", &["--most 16 ranks that hold", "at most 16 GiB in all"]),
        ("scale --tokens 0", &["--tokens 0"]),
        ("scale --algorithm tree", &["--algorithm tree", "ring"]),
        ("scale --algorithm spiral", &["spiral", "hierarchical"]),
        ("scale --clock wall", &["--clock wall", "roofline or cpu"]),
        ("scale --clock sundial", &["sundial", "roofline"]),
        ("scale --efficiency 0 --model llama-3-8b", &["--efficiency 0", "at most 1"]),
        ("scale --efficiency NaN", &["--efficiency NaN"]),
        ("scale --gpu H1000", &["H1000", "H100"]),
        ("scale --between token-ring", &["--between token-ring", "infiniband"]),
        ("scale --ranks-per-node 0", &["--ranks-per-node 0", "at least 1"]),
        ("scale --model Lama-3-8B", &["Llama 3 8B"]),
        ("scale --plot a.gif", &[".svg or .png"]),
        ("memory --dp 0", &["--dp 0", "1 to 8 ranks"]),
        ("memory --dp 1,9", &["--dp 9", "8 sequences"]),
        ("memory --batch 0", &["--batch 0"]),
        ("memory --batch 100000000", &["--batch 100000000", "from 1 to 65536"]),
        ("memory --seq 0", &["--seq 0", "512"]),
        ("memory --seq 513", &["--seq 513", "512"]),
        ("memory --device-memory 0", &["--device-memory 0", "64MiB"]),
        ("memory --device-memory 3parsec", &["3parsec"]),
        ("memory --gpu H1000", &["H1000", "H100"]),
        ("memory --model Lama-3.1-70B", &["Llama 3.1 70B"]),
        ("score --dp 0", &["--dp 0", "at least 1 rank"]),
        ("gradients --dp 5", &["--dp 5", "4 sequences", "1 to 4"]),
        ("generate --dp 5", &["--dp 5", "1 to 4"]),
        ("train --dp 3 --batch 2", &["--dp 3", "--batch has 2 sequences"]),
        ("train --inject-failure 2:0 --dp 2", &["--inject-failure 2:0", "0 to 1"]),
        ("train --batch 0", &["--batch 0", "at least 1"]),
        ("train --batch 18446744073709551615", &["--batch 18446744073709551615", "at most 65536"]),
        ("train --inject-failure 0:5 --steps 5", &["--inject-failure 0:5", "a step from 0 to 4"]),
        ("train --inject-failure later", &["later", "RANK:STEP"]),
        ("train --algorithm direct --steps 1", &["algorithm", "--clock wall"]),
        ("divide", &["divide"]),
    ] {
        run(line).fails(2, words);
    }
}
