"""Enrolment of a signing certificate in the lists of keys of nodes."""
