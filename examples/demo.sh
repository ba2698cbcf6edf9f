#!/bin/sh
# The main job on a real release: verify every release target, then apply the
# default target to a scratch copy, look at it, reverse it, and compare.
set -eu

scratch=build/demo
version=0.5.23

say() { printf '\n$ %s\n' "$*"; "$@"; }

rm -rf "$scratch"
mkdir -p "$scratch"

# The Kimi K3 commits are on no package index: without a clone they stay unverified.
say pkgtools verify --dry-run --allow-missing

say python -m pip install --quiet --no-deps --target "$scratch/site-packages" "sglang==$version"
cp -a "$scratch/site-packages" "$scratch/before"

say pkgtools apply --target "v$version" --tree "$scratch/site-packages"
say pkgtools status --tree "$scratch/site-packages"
say pkgtools verify --tree "$scratch/site-packages"
say pkgtools reverse --tree "$scratch/site-packages"
say diff -r "$scratch/before" "$scratch/site-packages"
echo "the tree is what it was before, byte by byte"
