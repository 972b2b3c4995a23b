"""Kubernetes: what stands on a cluster, by lists and watches that are kept up to date in memory.

Start at `viewer.KubernetesViewer`. `session` lists and watches one cluster, `pods` folds what it says,
`ends` says how runs end, `client` alone knows lightkube and is imported when the first cluster is
looked at, `access` reads a kubeconfig, `readings` asks metrics.k8s.io.
"""
