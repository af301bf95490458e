"""Rehearsal of an upgrade: what nodes would gain and lose."""
