"""Pure rules of federation: jobs, the native use of a cloud, and whether a host admits a foreign job."""
