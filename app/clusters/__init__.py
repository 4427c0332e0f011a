"""Clusters that grow onto machines which may be lost, and the checkpoints that their jobs survive by."""
