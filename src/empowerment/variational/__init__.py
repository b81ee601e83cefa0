"""Stochastic variational information maximisation: learning empowerment by acting only (sections 3
and 4)."""
