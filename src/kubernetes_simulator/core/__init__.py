"""The cluster itself: objects, controllers, kubelets, use. Pure: time and random are arguments.

Start at `world`.
"""
