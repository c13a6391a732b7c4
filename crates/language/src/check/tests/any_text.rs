// SPDX-License-Identifier: Apache-2.0
//! Programs cut, doubled and mixed at any place: the way from the text to the findings ends.

use proptest::prelude::*;

use super::*;

const SEEDS: [&str; 4] = [
    include_str!("../../../tests/agrees/flow.ts"),
    include_str!("../../../tests/tsc/accepted/use.ts"),
    include_str!("../../../tests/tsc/refused/uses.ts"),
    "const a = { ...a }; function f(x = f(x)) { return f(a); } class A extends A { a = this.a }\n\
     type T = T | T[]; interface I<X> extends I<I<X>> { x: I<X> } let i: I<T>; print(i.x.x.y);\n",
];

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]
    #[test]
    fn is_checked_without_a_panic(
        pieces in prop::collection::vec((0usize..SEEDS.len(), 0usize..60, 1usize..12), 1..6),
        cut in 0usize..2000,
    ) {
        let lines = pieces.iter().flat_map(|(seed, from, count)| {
            SEEDS[*seed].lines().skip(*from).take(*count)
        });
        let mut text: String = lines.collect::<Vec<_>>().join("\n");
        let whole = said(&text);
        prop_assert!(whole.len() < 10_000);
        let mut at = cut.min(text.len());
        while !text.is_char_boundary(at) {
            at -= 1;
        }
        text.truncate(at);
        said(&text);
    }
}
