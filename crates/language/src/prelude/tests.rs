// SPDX-License-Identifier: Apache-2.0
//! The layer's text; what it does is shown where it can be run (`script`).

use super::*;

#[test]
fn the_layer_compiles_to_one_module() {
    let compiled = compiled().unwrap();
    assert!(compiled.code.starts_with("__aurae.table = {"));
    for gone in ["import ", "export ", "interface "] {
        let found = compiled.code.lines().find(|line| line.starts_with(gone));
        assert_eq!(found, None);
    }
}
