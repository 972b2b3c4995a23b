"""The records of all kinds: one file per kind, plus what all kinds share.

`meta` holds the envelope, `conditions` the facts about an object, `kinds` the one table from
which REST, OpenAPI, CLI and documentation are generated. A new kind is one file with its fields and
its `KIND`
(`declaration`), one row there, and one module in `service/kinds`.
"""
