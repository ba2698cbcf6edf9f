"""Recipes: a deployment of spec capture on paper, checked before it takes a node."""
