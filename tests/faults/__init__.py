"""The service under faults: real processes, a load, a plan of faults, and a checker that shares no code with the service."""
