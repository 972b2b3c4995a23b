"""Commits: compare-and-set, all or nothing, ports, ledger, replies, the limits."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest
from store_places import START, Place, commit, key, put

from labfleet.interfaces import store as s
from labfleet.kernel import errors

pytestmark = pytest.mark.asyncio


async def test_put_and_get(store: s.Store) -> None:
    """What was put is read back whole, with its revision and its day of creation."""
    done = await store.commit(commit(put("w1", b'{"a":1}', zone="eu", tier="x")))
    await store.commit(commit(put("w1", b'{"a":2}', zone="us"), at=START + timedelta(hours=1)))
    found = await store.get(key("w1"))
    assert done.revisions == (1,)
    assert found == s.Stored(key("w1"), "uid-w1", 2, b'{"a":2}', {"zone": "us"}, START)


async def test_none_is_not_an_error(store: s.Store) -> None:
    """An object, a lease and a reply that are not there read as None."""
    assert await store.get(key("nobody")) is None
    assert await store.lease("nobody") is None
    assert await store.reply("nobody") is None
    assert await store.tokens() == ()


@pytest.mark.parametrize(
    ("expected", "texts"),
    [
        (1, ["Worker default/w1", "expected revision 1", "found revision 2"]),
        (0, ["Worker default/w1", "exists already", "found revision 2"]),
    ],
)
async def test_stale_revision(store: s.Store, expected: int, texts: list[str]) -> None:
    """A stale version is a Conflict that names the key, the expected and the found revision."""
    await store.commit(commit(put("w1"), put("w1")))
    with pytest.raises(errors.Conflict) as caught:
        await store.commit(commit(put("w1"), when=(s.AtRevision(key("w1"), expected),)))
    assert all(text in caught.value.message for text in texts)


async def test_stale_revision_of_nothing(store: s.Store) -> None:
    """A version of an object that is gone is a Conflict that says so."""
    with pytest.raises(errors.Conflict, match="expected revision 3, found none"):
        await store.commit(commit(put("w1"), when=(s.AtRevision(key("w1"), 3),)))
    with pytest.raises(errors.Conflict, match="w1 does not exist"):
        await store.commit(commit(s.Delete(key("w1"))))


async def test_conflict_leaves_nothing(store: s.Store) -> None:
    """A commit whose last write conflicts leaves no object, event, label, port or reply."""
    await store.commit(commit(put("w0"), s.TakePorts("w0", "a", (("tcp", 2001),))))
    start = await store.head()
    with pytest.raises(errors.Conflict):
        await store.commit(
            commit(
                put("w1", zone="eu"),
                s.TouchLedger("w1"),
                s.Remember("k", "d", b"r", START + timedelta(days=1)),
                s.TakePorts("w0", "b", (("tcp", 2000), ("tcp", 2001))),
            )
        )
    assert await store.head() == start
    assert (await store.list("Worker")).items[0].key.name == "w0"
    assert (await store.list("Worker", selectors=[s.Selector("zone", "exists")])).items == ()
    assert len(await store.ports()) == 1
    assert await store.reply("k") is None
    await store.commit(commit(put("w1"), when=(s.LedgerUntouched("w1", 0),)))


async def test_event_in_the_same_transaction(store: s.Store) -> None:
    """Each object write has its event, with who, why and the document of that moment."""
    start = await store.head()
    done = await store.commit(commit(put("w1", b"1"), put("w1", b"2"), s.Delete(key("w1"))))
    page = await store.events(start)
    assert done == s.Committed((1, 2, 3), 3)
    assert [(e.revision, e.type, e.doc) for e in page.events] == [
        (1, "ADDED", b"1"),
        (2, "MODIFIED", b"2"),
        (3, "DELETED", b"2"),
    ]
    last = page.events[-1]
    assert (last.actor, last.request_id, last.reason) == ("tester", "req-1", "because")
    assert (last.key, last.uid, last.at) == (key("w1"), "uid-w1", START)
    assert page.cursor.revision == 3
    assert await store.get(key("w1")) is None


async def test_deleted_event_of_a_stored_object(store: s.Store) -> None:
    """A later delete carries the last form of the object into its event."""
    await store.commit(commit(put("w1", b"last", zone="eu")))
    done = await store.commit(commit(s.Delete(key("w1")), when=(s.AtRevision(key("w1"), 1),)))
    events = await store.events_of(key("w1"))
    assert [(e.revision, e.type, e.doc) for e in events] == [
        (done.revision, "DELETED", b"last"),
        (1, "ADDED", b"last"),
    ]
    assert (await store.list("Worker", selectors=[s.Selector("zone", "exists")])).items == ()


@pytest.mark.parametrize("together", [True, False])
async def test_a_name_that_is_used_again_is_a_new_object(store: s.Store, together: bool) -> None:
    """Removed and made again, in one commit or in two: the new document, day and labels alone."""
    later = START + timedelta(hours=1)
    await store.commit(commit(put("w1", b"old", zone="eu", tier="x"), put("w2")))
    writes = (s.Delete(key("w1")), put("w1", b"new", zone="us"))
    for each in (writes,) if together else ((writes[0],), (writes[1],)):
        await store.commit(commit(*each, at=later))
    found = s.Stored(key("w1"), "uid-w1", 4, b"new", {"zone": "us"}, later)
    assert await store.get(key("w1")) == found
    assert (await store.list("Worker")).items[0] == found
    assert (await store.list("Worker", selectors=[s.Selector("tier", "exists")])).items == ()
    await store.commit(commit(put("w1", b"newer")))
    changed = await store.get(key("w1"))
    assert changed is not None
    assert (changed.revision, changed.doc, changed.created_at) == (5, b"newer", later)
    with pytest.raises(errors.Conflict):
        await store.commit(commit(put("w1"), when=(s.AtRevision(key("w1"), 1),)))


async def test_one_conflict_in_a_batch(store: s.Store) -> None:
    """Of commits that are grouped, only those fail whose own precondition is broken."""
    waiting = [
        store.commit(commit(put("w1", str(n).encode()), when=(s.AtRevision(key("w1"), 0),)))
        for n in range(5)
    ]
    others = [store.commit(commit(put(f"other{n}"))) for n in range(5)]
    results = await asyncio.gather(*waiting, *others, return_exceptions=True)
    assert sum(isinstance(result, errors.Conflict) for result in results) == 4
    assert len((await store.list("Worker")).items) == 6
    assert (await store.head()).revision == 6


async def test_ports_all_or_nothing(store: s.Store) -> None:
    """Of two owners who want overlapping ports the second gets none and is told who holds it."""
    await store.commit(commit(s.TakePorts("w1", "session/a", (("tcp", 2000), ("tcp", 2001)))))
    with pytest.raises(errors.Conflict) as caught:
        await store.commit(commit(s.TakePorts("w1", "session/b", (("tcp", 1999), ("tcp", 2001)))))
    for text in ("tcp/2001", "w1", "session/a", "session/b"):
        assert text in caught.value.message
    assert [row.number for row in await store.ports("w1")] == [2000, 2001]


async def test_ports_of_others(store: s.Store) -> None:
    """The same number is free on another worker and another transport, and to its own holder."""
    await store.commit(commit(s.TakePorts("w1", "a", (("tcp", 2000),))))
    await store.commit(
        commit(
            s.TakePorts("w2", "b", (("tcp", 2000),)),
            s.TakePorts("w1", "b", (("udp", 2000),)),
            s.TakePorts("w1", "a", (("tcp", 2000), ("tcp", 2005))),
        )
    )
    assert len(await store.ports()) == 4


async def test_free_ports(store: s.Store) -> None:
    """Freed ports can be taken by another in the same commit; freeing none is fine."""
    await store.commit(commit(s.TakePorts("w1", "a", (("tcp", 2000), ("tcp", 2001)))))
    await store.commit(commit(s.FreePorts("w1", "a"), s.TakePorts("w1", "b", (("tcp", 2001),))))
    await store.commit(commit(s.FreePorts("w1", "a"), s.FreePorts("w9", "a")))
    assert await store.ports() == (s.PortRow("w1", "tcp", 2001, "b"),)


async def test_ledger_rule(store: s.Store) -> None:
    """A decision on a snapshot that has not seen a reservation fails; a fresh one does not."""
    first = await store.commit(commit(put("s1"), s.TouchLedger("w1")))
    await store.commit(commit(put("unrelated")))
    with pytest.raises(errors.Conflict, match=r"reservations of w1 .* after revision 0.* at 1"):
        await store.commit(
            commit(put("s2"), s.TouchLedger("w1"), when=(s.LedgerUntouched("w1", 0),))
        )
    await store.commit(
        commit(put("s2"), s.TouchLedger("w1"), when=(s.LedgerUntouched("w1", first.revision),))
    )


async def test_ledger_rule_within_a_batch(store: s.Store) -> None:
    """Of ten bindings that were decided on the same snapshot exactly one gets through."""
    bindings = [
        store.commit(
            commit(put(f"s{n}"), put("w1"), s.TouchLedger("w1"), when=(s.LedgerUntouched("w1", 0),))
        )
        for n in range(10)
    ]
    results = await asyncio.gather(*bindings, return_exceptions=True)
    assert sum(isinstance(result, s.Committed) for result in results) == 1


async def test_ledger_needs_an_object(store: s.Store) -> None:
    """A ledger touch without an object write has no revision and is refused."""
    with pytest.raises(errors.Invalid):
        await store.commit(commit(s.TouchLedger("w1")))


async def test_remembered_reply(place: Place, store: s.Store) -> None:
    """A reply is kept under its key, is not overwritten, and is gone after its time."""
    until = START + timedelta(hours=1)
    await store.commit(commit(put("w1"), s.Remember("alice:k", "digest", b"reply", until)))
    with pytest.raises(errors.Conflict, match="alice:k"):
        await store.commit(commit(put("w2"), s.Remember("alice:k", "other", b"no", until)))
    assert await store.reply("alice:k") == s.Reply("digest", b"reply")
    assert await store.get(key("w2")) is None
    place.clock.instant = until
    assert await store.reply("alice:k") is None
    again = s.Remember("alice:k", "third", b"yes", until + timedelta(hours=1))
    await store.commit(commit(put("w3"), again, at=until))
    assert await store.reply("alice:k") == s.Reply("third", b"yes")


async def test_one_idempotent_request_of_many(store: s.Store) -> None:
    """A request that is repeated ten times at once is done once."""
    remember = s.Remember("k", "d", b"r", START + timedelta(hours=1))
    results = await asyncio.gather(
        *(store.commit(commit(put(f"w{n}"), remember)) for n in range(10)),
        return_exceptions=True,
    )
    assert sum(isinstance(result, s.Committed) for result in results) == 1
    assert len((await store.list("Worker")).items) == 1


async def test_limits(store: s.Store) -> None:
    """Commits and pages past their limits are Invalid and do nothing."""
    with pytest.raises(errors.Invalid):
        await store.commit(commit(*(put(f"w{n}") for n in range(s.COMMIT_LIMIT + 1))))
    with pytest.raises(errors.Invalid):
        await store.list("Worker", limit=s.PAGE_LIMIT + 1)
    assert (await store.head()).revision == 0


async def test_naive_instant(store: s.Store) -> None:
    """An instant without a zone is the caller's mistake, and only the caller hears of it."""
    naive = store.commit(commit(put("w1"), at=START.replace(tzinfo=None)))
    results = await asyncio.gather(naive, store.commit(commit(put("w2"))), return_exceptions=True)
    assert [type(each) for each in results] == [errors.Invalid, s.Committed]


async def test_largest_commit(store: s.Store) -> None:
    """A commit of exactly the limit is done as one."""
    done = await store.commit(commit(*(put(f"w{n}") for n in range(s.COMMIT_LIMIT))))
    assert len(done.revisions) == s.COMMIT_LIMIT


async def test_unstorable_text(store: s.Store) -> None:
    """A value that no database can hold fails its own commit and no other of the batch."""
    bad = s.Put(key("w1"), "\ud800", b"{}")
    results = await asyncio.gather(
        store.commit(commit(put("w2"))),
        store.commit(commit(bad)),
        store.commit(commit(put("w3"))),
        return_exceptions=True,
    )
    assert [type(result) for result in results] == [s.Committed, errors.Invalid, s.Committed]
    assert len((await store.list("Worker")).items) == 2


async def test_odd_texts(store: s.Store) -> None:
    """Unicode, quotes and any bytes in a document come back as they were."""
    doc = bytes(range(256))
    odd = 'Zoë\'s "lab" \\ {a,b} NULL ,; 日本 🚀'
    write = s.Put(key(odd), odd, doc, {odd: odd, "empty": ""})
    await store.commit(commit(write, s.TakePorts(odd, odd, ((odd, 1),)), s.TouchLedger(odd)))
    await store.commit(commit(s.Put(key(odd), odd, doc, {odd: odd + "!"})))
    found = await store.get(key(odd))
    assert found is not None
    assert (found.doc, found.labels, found.uid) == (doc, {odd: odd + "!"}, odd)
    listed = await store.list("Worker", selectors=[s.Selector(odd, "=", (odd + "!",))])
    assert listed.items == (found,)
    assert await store.ports(odd) == (s.PortRow(odd, odd, 1, odd),)


async def test_closed_store(place: Place) -> None:
    """Closing finishes what was accepted and then refuses."""
    store = await place.open()
    waiting = [asyncio.ensure_future(store.commit(commit(put(f"w{n}")))) for n in range(20)]
    await asyncio.sleep(0)
    await store.close()
    assert len([await each for each in waiting]) == 20
    await store.close()
    for late in (store.commit(commit(put("late"))), store.get(key("w1")), store.tokens()):
        with pytest.raises(errors.Temporary, match="closed"):
            await late


async def test_cancelled_caller(store: s.Store) -> None:
    """A caller that goes away while it waits disturbs nobody in its batch."""
    leaving = asyncio.ensure_future(store.commit(commit(put("w1"))))
    staying = asyncio.ensure_future(store.commit(commit(put("w2"))))
    await asyncio.sleep(0)
    leaving.cancel()
    assert (await staying).revision in {1, 2}
    assert await store.get(key("w2")) is not None


async def test_tokens(store: s.Store) -> None:
    """Token rows are inserted and replaced by id."""
    row = s.TokenRow("t1", "hash", "admin", "alice", START)
    await store.put_token(row)
    await store.put_token(s.TokenRow("t2", "h2", "user", "bob", START, START, None))
    revoked = s.TokenRow("t1", "hash", "admin", "alice", START, None, START)
    await store.put_token(revoked)
    assert await store.tokens() == (revoked, s.TokenRow("t2", "h2", "user", "bob", START, START))


async def test_a_reason_with_a_nul_is_kept_readable(store: s.Store) -> None:
    """A cancelled session whose reason held one could never end on PostgreSQL."""
    cause = s.Cause("a\0b", START, "req-1", "cancelled by a\0b: x\0y")
    await store.commit(s.Commit(cause, (put("w1"),)))
    (event,) = await store.events_of(key("w1"))
    assert event.reason == "cancelled by a\ufffdb: x\ufffdy"
    assert event.actor == "a\ufffdb"
