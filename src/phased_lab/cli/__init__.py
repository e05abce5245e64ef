"""The commands of the laboratory: entry points of the group `phased.commands`."""
