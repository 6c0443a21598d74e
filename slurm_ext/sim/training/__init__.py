"""Training jobs by what was measured of their applications: step times, gradients, progress."""
