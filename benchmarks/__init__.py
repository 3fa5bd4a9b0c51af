"""Figures that the product is judged by; run from the checkout, not installed."""
