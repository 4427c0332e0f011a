"""The evaluation of federations: recorded jobs of several clouds, in process."""
