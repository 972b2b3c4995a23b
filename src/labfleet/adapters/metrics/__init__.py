"""Figures of clusters and their runs, from the sources that a cluster names.

Start at `meter.SourcesMeter`, which asks one source after the other for what is not known yet.
`promql` asks Prometheus or VictoriaMetrics, `queries` are the built-in queries, `replies` reads what
comes back.
"""
