"""What a pool has promised over time, whether one more slot may be promised, and which instead.

Start at `places`: the claims of one pool, packed into its workers, present and to be made. `asked`
is what a session asks for, `steps` what a place holds over time, `nearest` finds slots that fit,
`refusals` the words of a refusal, `lead` says how early workers are made, `growth` how many,
`arrivals` when they are up, `danger` whose promise may not be kept; `calendar` shows a span of time.
"""
