"""What is created in the cluster: the bodies of Jobs and ConfigMaps, and what Jobs say about themselves.

`jobs` and `configmaps` make bodies, `inputs` tells whether a Job still matches the spec, `claims` for whom it speaks. Pure functions of the
model; the engine relies on them. Bodies share parts with each other and are read only.
"""
