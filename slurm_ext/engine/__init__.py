"""The decision core: pure functions from an observation and a context to a plan."""
