"""Alternative worlds: the recorded history plus one virtual spot instance, for every moment of injection.

Between two operations nothing changes, so an injection depends only on its *gap*, the stretch of time between them.
Every requested gap in which the flavor fits forks a world off the base, the replayed history itself. The base and all
worlds are then led through the same operations, each as a state of its own (`states`). Worlds that have become equal
have the same future and are merged: a world stands for all forks merged into it (its members). A digest finds equal
worlds and a comparison confirms them, so the results are exact, whenever worlds are merged.

Gap g follows the first g operations.
"""

from __future__ import annotations

import numpy as np

from app.domain.values import Policy
from app.engine.cloud import POLICY_CODE
from app.engine.cluster import NO_NODE, YJF, Bools, Ints, fits
from app.engine.compiled import bare, compiled, inlined, inner
from app.engine.eviction import clear_or_empty, plan_eviction
from app.forecast.operations import (
    END,
    EXTENDED,
    MOVED,
    NO_SIZE,
    NODE_ADDED,
    NODE_OPENED,
    NODE_REMOVED,
    NODE_RESIZED,
    START_ON_DEMAND,
    START_SPOT,
    VIRTUAL,
    Operations,
)
from app.forecast.states import (
    CHECK_US,
    FORK_COUNT,
    GOING_FIRST,
    MERGE_AT,
    MOST_STATES,
    NONE,
    NOW,
    OPERATION_COUNT,
    OVERRUNNING,
    SLOTS,
    SPOT_COUNT,
    STATE_COUNT,
    YOUNGEST,
    YOUTH_COUNT,
    Worlds,
    cluster_of,
    copy_state,
    count_slots,
    enlarged,
    enter_spot,
    fitting_node_there,
    key,
    leave_spot,
    next_older,
    put,
    raise_peak,
    seat_by_age,
    seat_virtual,
    sort_by_youth,
    take,
)

DISPLACES = 4
"""In the code of a policy: spot starts displace overrunning instances."""
_OLDER = -2
_CHECKS = 64
"""The number of searches in one horizon for worlds that are past theirs."""


def code_of(policy: Policy) -> int:
    """Return the code of the rules by which instances make room for starts."""
    return POLICY_CODE[policy.eviction_policy] | (DISPLACES if policy.displaces_overrunning else 0)


@compiled
def advance(run: Worlds, operations: Operations, is_wanted: Bools, policy: int, horizon_us: int) -> Worlds:
    """Lead all states through K operations; `is_wanted` (K) says in which of the gaps before them to fork.

    The caller must have made room for that many forks.
    """
    for index in range(operations.at_us.shape[0]):
        now_us = operations.at_us[index]
        run = close_gap(run, now_us, is_wanted[index : index + 1], horizon_us)
        enter(run, operations, index)
        rules = rules_at(operations, index, policy)
        follow(run, operations, index, now_us, rules)
        run.counters[OPERATION_COUNT] += 1
    return run


@inlined
def rules_at(operations: Operations, index: int, policy: int) -> int:
    """Return the code of the rules for an operation: a group displaces nobody. Its members stand together."""
    born, last = operations.born, operations.born.shape[0] - 1
    is_member = index > 0 and born[index - 1] == born[index]
    is_member = is_member or (index < last and born[index + 1] == born[index])
    return policy & ~DISPLACES if is_member else policy


@inner
def close_gap(run: Worlds, at_us: int, is_wanted: Bools, horizon_us: int) -> Worlds:
    """End the gap: fork a world if it is wanted (1), and from time to time give up worlds past their horizon."""
    counters = run.counters
    if at_us == counters[NOW]:
        return run
    counters[NOW] = at_us
    if is_wanted[0] and counters[SLOTS] > 0:
        if counters[STATE_COUNT] == run.states.shape[0]:
            run = enlarged(run)
        fork(run, at_us)
        if counters[STATE_COUNT] >= counters[MERGE_AT]:
            merge(run)
    if counters[CHECK_US] < at_us:
        counters[CHECK_US] = at_us + horizon_us // _CHECKS
        for k in range(counters[STATE_COUNT] - 1, 0, -1):
            if run.states[k].newest_us + horizon_us < at_us:
                give_up(run, k)
    return run


@bare
def fork(run: Worlds, end_us: int) -> None:
    """Add a copy of the base with a virtual instance younger than all others."""
    counters = run.counters
    k, this = counters[STATE_COUNT], counters[FORK_COUNT]
    run.fork_gap[this], run.fork_slots[this], run.fork_fate[this] = counters[OPERATION_COUNT], counters[SLOTS], NONE
    counters[FORK_COUNT] += 1
    counters[STATE_COUNT] += 1
    counters[MOST_STATES] = max(counters[MOST_STATES], k + 1)
    copy_state(run, 0, k)
    run.states[k].born = counters[YOUNGEST] + 1
    run.states[k].first_fork = run.states[k].last_fork = this
    run.states[k].newest_us = end_us
    put(run, k, VIRTUAL, fitting_node_there(run, k, run.demand[VIRTUAL]))


@bare
def enter(run: Worlds, operations: Operations, index: int) -> None:
    """Apply an operation's effect on all states alike: a starting instance's row, a node's room and state."""
    kind, target = operations.kind[index], operations.target[index]
    size = operations.sizes[operations.size[index]]
    if kind <= START_SPOT:
        for r in range(size.shape[0]):
            run.demand[target, r] = size[r]
        run.born[target] = run.counters[YOUNGEST] = operations.born[index]
        run.deadline_us[target] = operations.deadline_us[index]
        run.is_spot[target] = kind == START_SPOT
        if kind == START_SPOT:
            enter_spot(run, target)
    elif kind == END:
        if run.is_spot[target]:
            leave_spot(run, target)
    elif kind == EXTENDED:
        run.deadline_us[target] = operations.deadline_us[index]
    elif kind == NODE_RESIZED:
        former = operations.sizes[operations.node[index]]
        for k in range(run.counters[STATE_COUNT]):
            for r in range(size.shape[0]):
                run.free[k, target, r] += size[r] - former[r]
            raise_peak(run, k, target)
        count_slots(run, target)
    elif kind >= NODE_ADDED:
        run.is_open[target] = kind in (NODE_ADDED, NODE_OPENED)
        for k in range(run.counters[STATE_COUNT] if kind == NODE_ADDED else 0):
            for r in range(size.shape[0]):
                run.free[k, target, r] = size[r]
            raise_peak(run, k, target)
        count_slots(run, target)


@bare
def follow(run: Worlds, operations: Operations, index: int, now_us: int, policy: int) -> None:
    """Lead every state through the operation, the last first, because a world given up leaves its place to the last."""
    kind, target = operations.kind[index], operations.target[index]
    run.counters[YOUTH_COUNT] = NONE
    for k in range(run.counters[STATE_COUNT] - 1, -1, -1):
        if kind == END:
            if run.node_of[k, target] != NO_NODE:
                take(run, k, target)
        elif kind <= START_SPOT:
            start(run, k, kind, target, now_us, policy)
        elif kind == MOVED:
            move(run, k, target, operations.node[index])
        elif kind == NODE_REMOVED:
            evict(run, k, spot_rows_on(run, k, target))
        elif kind == NODE_RESIZED:
            shrink(run, k, target, operations.sizes[NO_SIZE], now_us)


@bare
def shrink(run: Worlds, k: int, node: int, nothing: Ints, now_us: int) -> None:
    """Evict the youngest spot instances from a node of the k-th state until what runs there fits, or none is left."""
    if fits(run.free[k, node], nothing):
        return
    if run.counters[YOUTH_COUNT] == NONE:
        sort_by_youth(run, now_us)
    seat_virtual(run, run.states[k].born)
    by_youth = run.youth[: run.counters[YOUTH_COUNT]]
    evict(run, k, clear_or_empty(cluster_of(run, k), nothing, by_youth, node, run.free[k, node], run.gone))


@bare
def move(run: Worlds, k: int, target: int, node: int) -> None:
    """Put the row's instance on another node of the k-th state, if it runs there and the node has room for it."""
    there = run.node_of[k, target]
    if there == NO_NODE or there == node:  # noqa: PLR1714, SIM109 - compiled
        return
    if run.is_open[node] and fits(run.free[k, node], run.demand[target]):
        take(run, k, target)
        put(run, k, target, node)


@inlined
def start(run: Worlds, k: int, kind: int, target: int, now_us: int, policy: int) -> None:
    """Start the row's instance in the k-th state, if possible; a group's member only if all others can start too."""
    if kind == START_SPOT and lacks_fellow(run, k, target):
        return
    node = fitting_node_there(run, k, run.demand[target])
    if node == NO_NODE and kind == START_ON_DEMAND:
        node, count = plan_eviction_there(run, k, run.demand[target], now_us, policy & ~DISPLACES)
        if evict(run, k, count):
            return
    elif node == NO_NODE and policy & DISPLACES:
        node, count = plan_displacement_there(run, k, run.demand[target], now_us)
        evict(run, k, count)
    if node != NO_NODE:
        put(run, k, target, node)
    elif kind == START_SPOT:
        take_fellows(run, k, target)


@bare
def lacks_fellow(run: Worlds, k: int, target: int) -> bool:
    """Return True if the member of the same group that started just before, if there is one, could not.

    The row's instance is the last of the spot requests.
    """
    before = run.counters[SPOT_COUNT] - 2
    if before < 0 or run.born[run.spot[before]] != run.born[target]:
        return False
    return bool(run.node_of[k, run.spot[before]] == NO_NODE)


@bare
def take_fellows(run: Worlds, k: int, target: int) -> None:
    """Take back the members of the same group that have started in the k-th state."""
    at = run.counters[SPOT_COUNT] - 2
    while at >= 0 and run.born[run.spot[at]] == run.born[target]:
        take(run, k, run.spot[at])
        at -= 1


@bare
def plan_eviction_there(run: Worlds, k: int, demand: Ints, now_us: int, policy: int) -> tuple[int, int]:
    """Plan an eviction in the k-th state as the engine does; the victims are the first of `gone`."""
    if run.counters[YOUTH_COUNT] == NONE:
        sort_by_youth(run, now_us)
    seat_virtual(run, run.states[k].born)
    by_youth = run.youth[: run.counters[YOUTH_COUNT]]
    return plan_eviction(cluster_of(run, k), demand, by_youth, run.free[k], policy, run.gone)


@bare
def plan_displacement_there(run: Worlds, k: int, demand: Ints, now_us: int) -> tuple[int, int]:
    """Plan as the engine does which overrunning instances make room for a spot start in the k-th state.

    The virtual instance never overruns. The victims are the first of `gone`.
    """
    if run.counters[YOUTH_COUNT] == NONE:
        sort_by_youth(run, now_us)
    overrunning = run.youth[run.counters[GOING_FIRST] : run.counters[OVERRUNNING]]
    return plan_eviction(cluster_of(run, k), demand, overrunning, run.free[k], YJF, run.gone)


@bare
def spot_rows_on(run: Worlds, k: int, node: int) -> int:
    """Fill `gone` with the spot instances on a node, with all members of groups, and return the number of rows."""
    count, last = 0, 0
    for i in range(run.counters[SPOT_COUNT]):
        row = run.spot[i]
        if run.node_of[k, row] != node or run.born[row] == last:
            continue
        last = run.born[row]
        for j in range(seat_by_age(run, last), run.counters[SPOT_COUNT]):
            if run.born[run.spot[j]] != last:
                break
            if run.node_of[k, run.spot[j]] != NO_NODE:
                run.gone[count] = run.spot[j]
                count += 1
    if run.node_of[k, VIRTUAL] == node:
        run.gone[count] = VIRTUAL
        count += 1
    return count


@bare
def evict(run: Worlds, k: int, count: int) -> bool:
    """Remove the first rows of `gone` from the k-th state. If its virtual instance is one, drop it and return True."""
    for i in range(count):
        if run.gone[i] == VIRTUAL:
            evict_virtual(run, k)
            return True
    for i in range(count):
        take(run, k, run.gone[i])
    return False


@bare
def evict_virtual(run: Worlds, k: int) -> None:
    """Evict the virtual instance, for every member of the world."""
    this = run.states[k].first_fork
    while this != NONE:
        member, following = this, run.fork_fate[this]
        this = NONE if following == NONE else -2 - following
        run.fork_fate[member] = run.counters[OPERATION_COUNT]
    give_up(run, k)


@bare
def give_up(run: Worlds, k: int) -> None:
    """Drop the k-th world and move the last one to its place."""
    run.counters[STATE_COUNT] -= 1
    if k != run.counters[STATE_COUNT]:
        copy_state(run, run.counters[STATE_COUNT], k)


@inner
def merge(run: Worlds) -> None:
    """Merge worlds that have become equal, and set the number of worlds at which to look again."""
    count = run.counters[STATE_COUNT]
    older, into = np.empty(count, np.int64), np.full(count, NONE)
    size = 16
    while size < 2 * count:
        size *= 2
    places = np.full(size, NONE)
    for k in range(1, count):
        older[k] = next_older(run, k)
        digest = run.states[k].digest + key(older[k], _OLDER)
        place = digest & (size - 1)
        while places[place] != NONE and not are_equal(run, k, places[place], older):
            place = (place + 1) & (size - 1)
        if places[place] == NONE:
            places[place] = k
        else:
            into[k] = places[place]
    for k in range(count - 1, 0, -1):
        if into[k] != NONE:
            join(run, k, into[k])
    run.counters[MERGE_AT] = run.counters[STATE_COUNT] + max(16, run.counters[STATE_COUNT] // 4)


@bare
def are_equal(run: Worlds, k: int, j: int, older: Ints) -> bool:
    """Return True if two worlds will have the same future.

    Only the order of ages matters: two virtual instances are of equal age if the same one is next older (`older`).
    """
    if run.states[k].digest != run.states[j].digest or older[k] != older[j]:
        return False
    for row in range(run.node_of.shape[1]):
        if run.node_of[k, row] != run.node_of[j, row]:
            return False
    return True


@bare
def join(run: Worlds, k: int, j: int) -> None:
    """Make the members of the k-th world members of the j-th."""
    world, into = run.states[k], run.states[j]
    run.fork_fate[into.last_fork] = -2 - world.first_fork
    into.last_fork = world.last_fork
    into.newest_us = max(into.newest_us, world.newest_us)
    give_up(run, k)


@compiled
def forget(run: Worlds, is_wanted: Bools) -> None:
    """Give up the worlds that contain none of the gaps (G) still wanted."""
    for k in range(run.counters[STATE_COUNT] - 1, 0, -1):
        this = run.states[k].first_fork
        while this != NONE and not is_wanted[run.fork_gap[this]]:
            this = NONE if run.fork_fate[this] == NONE else -2 - run.fork_fate[this]
        if this == NONE:
            give_up(run, k)
