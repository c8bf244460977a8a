# SPDX-License-Identifier: Apache-2.0
"""A rank that uses the launch's store by clients of its own, as programs and libraries do beside init_process_group().

The cases are those of PyTorch's test/distributed/test_store.py that make sense with a server elsewhere, and what ranks
do that make different numbers of stores. Each rank prints a line "rank R: CASE ok" for each of CASES.
"""

import datetime
import os
import sys
import threading
import time

import torch
import torch.distributed as dist

PATIENCE = datetime.timedelta(seconds=30)
RANK, SIZE = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
WHERE = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
FAILURE = dist.DistStoreError if hasattr(dist, "DistStoreError") else RuntimeError


def client(world_size=SIZE, **options):
    """A client as a program makes it, which waits for the workers: nothing of it says that it is not the group's."""
    return dist.TCPStore(*WHERE, world_size=world_size, is_master=False, timeout=PATIENCE, **options)


def meet(store, name):
    """All ranks come here, by a key of its own for each."""
    store.set("%s/%d" % (name, RANK), "here")
    store.wait(["%s/%d" % (name, rank) for rank in range(SIZE)], PATIENCE)


def mine(name):
    return "%s of %d" % (name, RANK)


def text(value):
    return value.decode()


def set_and_get(store):
    before = store.num_keys()
    for step in 1, 2, 3:
        assert store.add(mine("count"), step) == step * (step + 1) // 2
    store.set(mine("plain"), "value0")
    store.set(mine("plain"), "value1")
    store.set(mine("empty"), "")
    assert store.num_keys() >= before + 3
    assert [text(store.get(mine(key))) for key in ("count", "plain", "empty")] == ["6", "value1", ""]
    store.set(mine("bytes"), b"\0\xff" * 3)
    assert store.get(mine("bytes")) == b"\0\xff" * 3
    long = "v" * 8192000
    store.set(mine("long"), long)
    assert text(store.get(mine("long"))) == long


def delete(store):
    store.set(mine("gone"), "x")
    assert store.delete_key(mine("gone"))
    assert not store.delete_key(mine("gone"))
    assert not store.check([mine("gone")])
    store.set_timeout(datetime.timedelta(milliseconds=100))
    try:
        store.get(mine("gone"))
        raise AssertionError("what was deleted is there")
    except FAILURE:
        pass
    store.set_timeout(PATIENCE)


def compare_and_set(store):
    key = mine("swapped")
    assert text(store.compare_set(key, "wrong", "new")) == "wrong"
    store.set(key, "old")
    assert text(store.compare_set(key, "wrong", "new")) == "old"
    assert text(store.compare_set(key, "old", "new")) == "new"
    assert text(store.get(key)) == "new"
    assert text(store.compare_set(mine("first"), "", "there")) == "there"


def several_at_once(store):
    keys = [mine("one"), mine("two")]
    store.append(keys[0], "a")
    store.append(keys[0], "bc")
    assert text(store.get(keys[0])) == "abc"
    store.multi_set(keys, ["1", "2"])
    assert [text(value) for value in store.multi_get(keys)] == ["1", "2"]


def wait_in_vain(store):
    began = time.monotonic()
    try:
        store.wait([mine("never")], datetime.timedelta(milliseconds=250))
        raise AssertionError("what nobody sets is there")
    except FAILURE:
        assert 0.2 < time.monotonic() - began < 10
    store.set(mine("good"), "x")
    store.wait([mine("good")], PATIENCE)


def wait_in_a_thread(store):
    """One client waits, another one of the same process sets the key."""
    other, seen = client(), []
    thread = threading.Thread(target=lambda: seen.append(text(other.get(mine("from a thread")))))
    thread.start()
    store.set(mine("from a thread"), "x")
    thread.join(30)
    assert seen == ["x"]


def with_prefixes(store):
    first, second = (dist.PrefixStore("prefix %d" % n, store) for n in range(2))
    first.set(mine("key"), "1")
    second.set(mine("key"), "2")
    assert [text(each.get(mine("key"))) for each in (first, second)] == ["1", "2"]
    assert text(store.get("prefix 0/" + mine("key"))) == "1"
    if hasattr(store, "clone"):  # since 2.5
        assert text(second.clone().get(mine("key"))) == "2"


def queues(store):
    if not hasattr(store, "queue_push"):  # since 2.8
        return
    store.queue_push(mine("queue"), "1")
    store.queue_push(mine("queue"), "2")
    assert store.queue_len(mine("queue")) == 2
    assert [text(store.queue_pop(mine("queue"))) for _ in range(2)] == ["1", "2"]


def many_clients(store):
    """One client after the other, of a world of fixed size and of none, gets and sets."""
    store.set(mine("key"), "value")
    for world_size in 5, None:
        for index in range(5):
            each = client(world_size)
            assert text(each.get(mine("key"))) == "value"
            key = "%s, %s, %d" % (mine("new"), world_size, index)
            each.set(key, "new")
            assert text(each.compare_set(key, "new", "next")) == "next"
            assert text(store.get(key)) == "next"


def other_numbers_of_stores(store):
    """Each rank makes one store more than the rank before it, and sees what all others have set."""
    stores = [client() for _ in range(RANK + 1)]
    stores[-1].set(mine("last"), str(len(stores)))
    for rank in range(SIZE):
        assert text(stores[0].get("last of %d" % rank)) == str(rank + 1)
    meet(client(), "other numbers")


def total(value):
    tensor = torch.tensor([value])
    dist.all_reduce(tensor)
    return int(tensor)


def groups_again_and_again(store):
    """Default process groups one after the other, and stores of the ranks' own before, during and after them."""
    kept = []
    for turn in range(4):
        before = [client() for _ in range((RANK + turn) % 3)]
        dist.init_process_group("gloo", timeout=PATIENCE)
        if RANK == turn % SIZE:
            kept.append(dist.distributed_c10d._get_default_store())  # its connection stays
        assert total(RANK + 1) == SIZE * (SIZE + 1) // 2
        during = client()
        during.set("%s %d" % (mine("turn"), turn), "x")
        for rank in range(SIZE):
            assert text(store.get("turn of %d %d" % (rank, turn))) == "x"
        dist.destroy_process_group()
        after = client()
        assert text(after.get("%s %d" % (mine("turn"), turn))) == "x"
        del before
    meet(store, "again")


def stores_handed_in(store):
    """init_process_group() with a store of the program's own, which a server of rank 0 would begin anew each time."""
    for _ in range(3):
        own = client()
        dist.init_process_group("gloo", store=own, rank=RANK, world_size=SIZE, timeout=PATIENCE)
        assert total(1) == SIZE
        dist.destroy_process_group()
        del own
    assert text(store.get(mine("plain"))) == "value1"


CASES = [set_and_get, delete, compare_and_set, several_at_once, wait_in_vain, wait_in_a_thread, with_prefixes, queues,
         many_clients, other_numbers_of_stores, groups_again_and_again, stores_handed_in]


def main():
    store = client()
    for case in CASES:
        if len(sys.argv) > 1 and case.__name__ not in sys.argv[1:]:
            continue
        case(store)
        os.write(1, b"rank %d: %s ok\n" % (RANK, case.__name__.encode()))
    meet(client(), "end")


main()
