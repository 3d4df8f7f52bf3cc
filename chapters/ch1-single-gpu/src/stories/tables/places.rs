//! Where and when the stories happen.

use super::Template;

/// Inside or outside.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(in super::super) enum Setting {
    Home,
    Outdoors,
}

/// What the sky is like; decides over weather, light and what there is to see.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(in super::super) enum Sky {
    Fair,
    Cloudy,
    Winter,
    Night,
}

/// A place, and what is in it.
pub(in super::super) struct Place {
    pub(in super::super) name: &'static str,
    /// Where one can sit.
    pub(in super::super) spots: &'static [&'static str],
    /// What there is to look at on a fair day.
    pub(in super::super) views: &'static [&'static str],
}

const fn place(name: &'static str, spots: &'static [&'static str], views: &'static [&'static str]) -> Place {
    Place { name, spots, views }
}

/// Inside.
pub(in super::super) const HOME: Place = place(
    "the house",
    &[
        "on the mat",
        "on the mat",
        "on the mat",
        "by the fire",
        "at the window",
        "on the rug",
        "in the big chair",
        "by the door",
        "at the table",
        "on the stairs",
        "in the kitchen",
    ],
    &["the fire", "the clock on the wall", "the pictures on the wall", "the empty street", "the old map on the wall"],
);

/// Outside.
pub(in super::super) const PLACES: &[Place] = &[
    place(
        "the garden",
        &["on the garden wall", "under the apple tree", "on the bench", "by the roses"],
        &["the bees", "the roses", "the birds in the tree", "the butterflies"],
    ),
    place(
        "the river",
        &["by the river", "on the bridge"],
        &["the water", "the fish", "the boats", "the ducks on the water"],
    ),
    place(
        "the wood",
        &["under a tree", "under the old oak", "on a log"],
        &["the tall trees", "the leaves", "the ants on the path"],
    ),
    place(
        "the hill",
        &["on the hill", "on a big stone"],
        &["the fields", "the clouds", "the village", "the white sheep"],
    ),
    place(
        "the meadow",
        &["in the grass", "in the meadow", "under a tree"],
        &["the flowers", "the clouds", "the butterflies"],
    ),
    place(
        "the pond",
        &["by the pond", "on a stone by the pond"],
        &["the frogs", "the ducks", "the water", "the lilies"],
    ),
    place(
        "the sea",
        &["by the sea", "on the beach", "on the sand"],
        &["the waves", "the ships", "the white birds", "the blue sea"],
    ),
    place(
        "the farm",
        &["by the gate", "on the fence", "in the hay"],
        &["the cows", "the hens", "the red tractor", "the fields"],
    ),
    place(
        "the park",
        &["on a bench", "by the fountain", "under a tree"],
        &["the children", "the fountain", "the birds", "the flowers"],
    ),
    place(
        "the village",
        &["on the step", "by the well", "by the road"],
        &["the people", "the carts on the road", "the church tower"],
    ),
];

/// Where one can sit when there is snow.
pub(in super::super) const WINTER_SPOTS: &[&str] =
    &["on the step", "by the gate", "under a tree", "on the hill", "by the frozen pond", "on a bench"];

/// What there is to see under `sky`, if that does not depend on the place.
pub(in super::super) fn views(sky: Sky) -> Option<&'static [&'static str]> {
    match sky {
        Sky::Fair => None,
        Sky::Cloudy => Some(&["the dark clouds", "the grey sky", "the trees in the wind"]),
        Sky::Winter => Some(&["the snow", "the white hills", "the white roofs", "the ice"]),
        Sky::Night => Some(&["the moon", "the stars", "the dark sky"]),
    }
}

/// The times of day that go with `sky`.
pub(in super::super) fn times(sky: Sky) -> &'static [&'static str] {
    match sky {
        Sky::Fair | Sky::Cloudy | Sky::Winter => &["morning", "afternoon"],
        Sky::Night => &["evening", "night"],
    }
}

/// A sentence about the weather.
pub(in super::super) fn weather(sky: Sky) -> &'static [Template] {
    match sky {
        Sky::Fair => &[
            "it was a [warm|sunny|bright|fine|lovely] {time}.",
            "the sun [shone|was warm|was high in the sky].",
            "the sky was [blue|clear].",
            "a soft wind blew.",
        ],
        Sky::Cloudy => &[
            "it was a grey {time}.",
            "there were dark clouds in the sky.",
            "the air was cool.",
            "the wind was strong that {time}.",
        ],
        Sky::Winter => &[
            "it was a cold {time}.",
            "there was snow on the [ground|roofs|hills].",
            "the snow was [deep and white|soft and new].",
            "it had snowed all night.",
        ],
        Sky::Night => &[
            "it was [late|dark].",
            "the moon was [round|bright|high].",
            "the stars were out.",
            "the night was [quiet|still].",
        ],
    }
}
