"""Worlds: pure dynamics with explicit chance. They know nothing of networks."""
