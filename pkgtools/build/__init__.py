"""Building: a wheel, written of a plan, and an image, of a tree that the transaction patched."""
