"""Built modules as values, and the gate that judges them. PURE."""
