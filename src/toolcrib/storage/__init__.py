"""Everything remembered. SQL lives here and nowhere else.

`database` is the waist: a transaction and two ways to run one. `records_*` are the domain verbs, plain functions over
a transaction, written once for both engines. `sqlite` and `postgres` are the engines; only the app picks one.
"""
