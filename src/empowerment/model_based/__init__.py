"""Empowerment with a model of the world (appendix B)."""
