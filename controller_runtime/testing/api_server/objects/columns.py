"""The column of a table, and those that all kinds share. `tables.py` and `built_in_tables.py` rely on it."""

from dataclasses import dataclass
from typing import Final

from controller_runtime.testing.api_server.objects.values import JsonObject


@dataclass(frozen=True, kw_only=True)
class Column:
    """One entry of `columnDefinitions`. A priority above 0 is shown for `-o wide` alone."""

    name: str
    type: str = "string"
    format: str = ""
    priority: int = 0
    description: str = ""

    def definition(self) -> JsonObject:
        """As JSON."""
        return {
            "name": self.name,
            "type": self.type,
            "format": self.format,
            "description": self.description,
            "priority": self.priority,
        }


NAME: Final = Column(name="Name", format="name", description="Name of the object.")
AGE: Final = Column(name="Age", description="Time since the object was created.")


def name_of(obj: JsonObject) -> str:
    """The object's name."""
    return str(obj.get("metadata", {}).get("name", ""))
