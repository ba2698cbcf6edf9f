"""The overview: every patch on every revision, and the recipes, as one page to look at."""
