"""A simulator of a Kubernetes cluster: API server, scheduler, kubelets, controllers, exporters.

Start at `core.world` for what happens over time, at `routes.dispatch` for the API, and at
`shell.main` for the program. It knows nothing of labfleet.
"""
