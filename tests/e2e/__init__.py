"""Tests against real servers and a real store; the helpers are for other tests too."""
