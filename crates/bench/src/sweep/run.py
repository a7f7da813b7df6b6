# The end of the script: the lists, and then the cases that are their names, in the order of `run` in `mod.rs`.
named = [n for n in names if n.startswith(("any:", "call"))]
if len(named) < len(names) or not names:
    with torch.no_grad():
        elements()
    layers()
    shapes()
    steps()
    with torch.no_grad():
        for part in (wide_elements, wide_reductions, wide_scans, wide_views, wide_look_ups, wide_orders, wide_random):
            part()
    wide_norms()
    changing()
for name in named:
    any_case(name) if name.startswith("any:") else call_case(name)
