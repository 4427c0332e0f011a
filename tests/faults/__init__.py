"""The service under faults: real processes, a load, a plan of faults, and a checker with no code of the service."""
