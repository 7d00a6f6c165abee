"""Tests on a CUDA device; the marker ``gpu`` chooses them."""
