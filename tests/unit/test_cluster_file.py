"""The cluster file: what it may say, and what is refused with a sentence."""

from __future__ import annotations

import pytest

from app.clusters.rules.wanted import MOST_BYTES, cluster_of_toml
from app.domain.inputs import InputError

LEAST = """\
name = "lab"
shared = "/srv/lab"
[[pools]]
name = "own"
cloud = "north"
flavor = "small"
"""
SERVERS = '[machines]\ndriver = "openstack"\nimage = "debian"\n'


def test_the_least_file_has_defaults_for_all_else() -> None:
    cluster = cluster_of_toml(LEAST)
    (pool,) = cluster.pools
    assert (pool.market, pool.max_nodes, pool.lifetime_s, pool.eviction_probability) == ("spot", 1, 3600, None)
    assert (cluster.scale.idle_s, cluster.slurm.port, cluster.machines.driver) == (60, 6817, "namespaces")
    assert cluster.pool("own") is pool
    assert cluster.pool("other") is None


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("name = ", "no TOML"),
        ("x = 1\n" + LEAST, "unknown: x"),
        (LEAST + "colour = 1\n", "unknown: pools.colour"),
        (LEAST + "max_nodes = -1\n", "max_nodes is not from 0"),
        (LEAST + 'max_nodes = "two"\n', "pools.max_nodes 'two' is no number"),
        (LEAST + "max_nodes = true\n", "pools.max_nodes True is no number"),
        (LEAST + "eviction_probability = 1.0\n", "between 0 and 1"),
        (LEAST + 'market = "bid"\n', "needs a zone"),
        (LEAST + 'market = "on_demand"\neviction_probability = 0.1\n', "eviction_probability is for spot"),
        (LEAST + "min_lease_s = 59\n", "min_lease_s is for spot, and from 60 to lifetime_s"),
        (LEAST + "min_lease_s = 3601\n", "min_lease_s is for spot, and from 60 to lifetime_s"),
        (LEAST + '[scale]\nout = "all"\n', "scale.out 'all' is not per_job"),
        (LEAST + '[scale]\nout = "group:0"\n', "scale.out 'group:0' is not per_job"),
        (LEAST + '[scale]\nout = "keep_free:201"\n', "has more than 200 nodes"),
        (LEAST + '[scale]\nidle_s = "3600"\n', "neither seconds nor block:S"),
        (LEAST + '[scale]\nidle_s = "block:59"\n', "a block is not from 60"),
        (LEAST + "[scale]\nidle_s = 1.5\n", "scale.idle_s 1.5 is no number or text"),
        (LEAST + "[scale]\npatience_s = -1\n", "scale.patience_s"),
        (LEAST + "[scale]\ndrain = 1\n", "scale.drain 1 is no true or false"),
        (LEAST + "lifetime_s = 59\n", "lifetime_s is not from 60"),
        (LEAST.replace("own", "any"), "any is the partition of all pools"),
        (LEAST.replace('"own"', '"an-own"'), "pools.name 'an-own'"),
        (LEAST.replace('"lab"', '"LAB"'), "name 'LAB'"),
        (LEAST.replace("/srv/lab", "srv"), "shared 'srv'"),
        (LEAST.replace("/srv/lab", "/srv/my lab"), "shared '/srv/my lab'"),
        (LEAST.replace('flavor = "small"', ""), "missing: pools.flavor"),
        (LEAST.split("[[", maxsplit=1)[0], "not from 1 to 16 pools"),
        (LEAST + LEAST.split("\n", 2)[2], "two pools have the same name"),
        (LEAST + '[machines]\ndriver = "vans"\n', "none of namespaces, openstack"),
        (LEAST + '[machines]\nimage = "debian"\n', "machines.image is not for driver = namespaces"),
        (LEAST + '[machines]\ndriver = "openstack"\n', "machines.image is missing"),
        (LEAST + SERVERS + 'controller = "10.0.0.1 x"\n', "machines.controller"),
        (LEAST + SERVERS, "machines.controller is missing"),
        (LEAST + SERVERS + 'controller = "10.0.0.5"\nsubnet = "10.1.2.0/24"\n', "subnet is not for driver = openstack"),
        (LEAST + SERVERS + 'controller = "10.0.0.5"\nreach = "ssh me"\n', "machines.reach"),
        (LEAST + SERVERS + 'controller = "10.0.0.5"\nreach = "ssh \'{node}"\n', "machines.reach"),
        (LEAST + SERVERS + 'controller = "10.0.0.5"\nnetwork = ""\n', "machines.network"),
        (LEAST + 'market = "bid"\nzone = "a"\n' + SERVERS + 'controller = "h"\n', "has no servers of OpenStack"),
        (LEAST + '[machines]\nsubnet = "8.8.8.0/24"\n', "private network"),
        (LEAST + '[machines]\nsubnet = "10.1.2.3/24"\n', "has host bits set"),
        (LEAST + "[slurm]\nport = 80\n", "slurm.port"),
        (LEAST + "[scale]\nidle_s = 0\n", "scale.idle_s"),
        ("scale = 3\n" + LEAST, "scale is no table"),
        ("pools = 3\nname = 'a'\nshared = '/b'\n", "pools is not a list"),
        ("#" * (MOST_BYTES + 1), "at most"),
    ],
)
def test_what_cannot_be_meant_is_refused(text: str, why: str) -> None:
    with pytest.raises(InputError, match=why):
        cluster_of_toml(text)
