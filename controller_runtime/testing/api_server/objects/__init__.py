"""Kubernetes' semantics as pure functions on plain JSON values: patches, server-side apply, schemas, selectors, tables.

Nothing here knows of requests, storage or time: what depends on the moment is given (`now`). Values are what `json.loads` gives;
no function changes what it was given, and results share no mutable part with it. The embedded API server relies on all of it;
the contract cases of `tests/contract/objects_cases.py` hold it against a real API server.
"""
