"""Tenure for users of OpenStack: commands of `openstack`, and a service of openstacksdk."""
