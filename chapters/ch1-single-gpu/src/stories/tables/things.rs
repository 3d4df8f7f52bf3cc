//! Things to have, lose, give, eat and learn.

const COLOURS: &[&str] = &["red", "blue", "green", "yellow", "white"];
const METAL: &[&str] = &["silver", "golden", "old", "tiny", "shiny"];
const WOODEN: &[&str] = &["wooden", "little", "painted", "old"];
const WOVEN: &[&str] = &["red", "blue", "green", "woollen", "warm", "soft"];

/// Things that can be carried: noun and the adjectives that fit.
pub(in super::super) const THINGS: &[(&str, &[&str])] = &[
    ("ball", COLOURS),
    ("hat", WOVEN),
    ("scarf", WOVEN),
    ("blanket", WOVEN),
    ("kite", COLOURS),
    ("umbrella", COLOURS),
    ("cup", COLOURS),
    ("bag", COLOURS),
    ("book", COLOURS),
    ("bell", METAL),
    ("key", METAL),
    ("spoon", METAL),
    ("whistle", METAL),
    ("lamp", METAL),
    ("ring", METAL),
    ("drum", WOODEN),
    ("flute", WOODEN),
    ("box", WOODEN),
    ("toy boat", WOODEN),
    ("basket", WOODEN),
];

/// Things to count, one and many.
pub(in super::super) const FRUITS: &[(&str, &str)] = &[
    ("apple", "apples"),
    ("pear", "pears"),
    ("plum", "plums"),
    ("nut", "nuts"),
    ("cherry", "cherries"),
    ("carrot", "carrots"),
    ("strawberry", "strawberries"),
    ("cookie", "cookies"),
    ("peach", "peaches"),
];

/// Things to bake: with article, and the noun alone.
pub(in super::super) const DISHES: &[(&str, &str)] = &[
    ("a cake", "cake"),
    ("an apple pie", "pie"),
    ("a plum tart", "tart"),
    ("a loaf of bread", "bread"),
    ("a honey cake", "cake"),
    ("a cheese pie", "pie"),
];

/// Things to learn that come naturally to nobody.
pub(in super::super) const SKILLS: &[&str] = &[
    "whistle",
    "juggle",
    "dance",
    "read",
    "write",
    "tie a knot",
    "play the drum",
    "play the flute",
    "ride a bicycle",
    "fly a kite",
    "skate",
    "paint",
    "row a boat",
];

/// Numbers as words; the index is the number.
pub(in super::super) const NUMBERS: &[&str] =
    &["no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"];
