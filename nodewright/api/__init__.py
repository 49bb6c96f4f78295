"""The API group `nodewright.nvidia.com`: its two kinds, their rules, and every name of the contract. Pure."""
