"""The pytest-testinfra suites: ``pytest --pyargs toolkit.suites --hosts ...``."""
