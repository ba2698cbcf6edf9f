"""Read container images without running them, and build images with one more layer.

An opened image finds the package and reads its files. A new image is the base plus one layer.
"""
