"""Output of rccl-tests, which is that of nccl-tests."""

from planner.imports.kinds.nccl_tests import SETTINGS, read

__all__ = ["SETTINGS", "read"]
