"""Verbs of the spine: access, doctor, plan, provision, rollback, undo, capture."""
