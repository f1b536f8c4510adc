"""Micro-benchmarks, run by ``scripts/bench --micro`` (pytest-benchmark): what is called for every link or
page, and each verb of the frontier. Not part of the tests: files are named ``micro_*.py``.
"""
