"""Parts a policy is composed of: frozen dataclasses whose fields are the parameters."""
