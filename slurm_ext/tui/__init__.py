"""The live view: pure rendering of a snapshot, and a loop that asks the status socket."""
