"""The annotation language: what users declare about a job in its comment or script. Pure."""
