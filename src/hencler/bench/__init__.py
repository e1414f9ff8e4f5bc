"""Benchmarks: what produces every published number.

Each module has ``run``, which measures and writes one JSON file below ``benchmarks/results``.
"""
