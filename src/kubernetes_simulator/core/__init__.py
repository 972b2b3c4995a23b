"""The cluster itself: objects, controllers, kubelets, use. Pure: time and random are arguments.

Start at `world`. Who plays it without HTTP makes one by `settling.founded`, writes by `writing`,
lets time pass by `settling.settle`, watches by `watching.Watch` and asks the truth of `World.run_of`.
"""
