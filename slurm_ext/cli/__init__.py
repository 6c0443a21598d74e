"""The command line: one module a verb group, each with add_parser() and run()."""
