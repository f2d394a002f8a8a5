"""Fused training steps for CPU and GPU."""
