"""The manager of a batch cluster: real Slurm, machines, and Tenure clouds that sell the nodes. Only commands use it."""
