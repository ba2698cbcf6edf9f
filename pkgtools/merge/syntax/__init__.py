"""Python source as syntax trees: blocks, tokens, scopes, names, and what they refer to."""
