"""How a change is carried over where lines conflict, each rule with its proof."""
