"""What the fleet costs: which time of machines is paid, by whom it was used, what it comes to: pure.

Start at `paid_times`, which follows a machine from look to look. `shares` splits its time, `money`
prices it, `statements` sums it, `budgets` bounds it, `plans` tells what a day would cost.
"""
