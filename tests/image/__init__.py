"""Tests of container images."""
