"""Container images: read without running them, and given one layer more.

An image is opened by its reference and answers two questions: which files does it
have, and what is in them. A new image is its base with one layer on top.
"""
