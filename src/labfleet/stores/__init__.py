"""The store package: the only code that writes state. SQLite and PostgreSQL, one behaviour.

Read `rules` first: it decides, without any database, what a batch of commits does. `fleet_store`
is the `Store` of both databases; `group_commit` gathers waiting commits into batches; `sqlite`
and `postgres` load what the rules need and save what they decided. The SQL is in `sql/`. This
package does not interpret the documents it stores.
"""
