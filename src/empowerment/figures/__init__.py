"""Drawing: one module for each figure of the paper. No maths here."""
