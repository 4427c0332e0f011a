"""The commands `openstack tenure ...`."""
