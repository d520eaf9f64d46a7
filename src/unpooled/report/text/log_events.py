"""Sentences for the entries of a silo's audit log that are not about an array."""

from unpooled.party.memory.hash_chain import Entry
from unpooled.results.formats import byte_size, counted


def event(entry: Entry) -> str:
    """Return a sentence for an entry of the log that is not about an array."""
    record = entry.record
    if entry.kind == "announced":
        return "announced"
    if entry.kind == "decided":
        why = f": {record['reason']}" if record.get("reason") else ""
        return (
            f"{'approved' if record['approved'] else 'denied'} by {record['by']}{why}"
        )
    if entry.kind == "joined":
        return f"joined, with {', '.join(record['parties'])}"
    if entry.kind == "delivered":
        return f"received the model {record['name']} ({byte_size(record['bytes'])})"
    if entry.kind == "forgotten":
        return f"forgotten, with {counted(len(record['models']), 'model')}"
    if entry.kind in ("table", "version"):
        return "first answer about these rows"
    if entry.kind == "charged":
        return (
            f"charged {record['step']} to the privacy budget (ρ = {record['rho']:.3g})"
        )
    if entry.kind == "refunded":
        return (
            f"refunded {record['step']} (ρ = {record['rho']:.3g}): the rows were away, "
            f"and nothing left"
        )
    if entry.kind == "heads":
        return f"saw the audit logs of {counted(len(record['heads']), 'silo')}"
    if entry.kind in ("filling", "filled"):
        columns = counted(len(record["columns"]), "column")
        return f"answered about {columns} with imputed cells"
    if entry.kind == "iterated":
        columns = counted(len(record["columns"]), "column")
        return f"answered about {columns} with cells imputed from other columns"
    if entry.kind == "completed":
        return "answered about the table as it was imputed from other columns"
    if entry.kind == "otherwise":
        columns = counted(len({*record["columns"], *record["parts"]}), "column")
        return f"answered about {columns} with cells left out or imputed one by one"
    if entry.kind == "multiplied":
        columns = counted(len(record["columns"]), "column")
        return f"first answered about products of {columns}"
    if entry.kind == "setting":
        columns = counted(len(record["columns"]), "column")
        return f"answered {record['step']} about {columns} for its one setting"
    if entry.kind == "compared":
        columns = counted(len(record["columns"]), "constant column")
        return f"compared {columns} in secret, with {', '.join(record['parties'])}"
    if entry.kind == "pardoned":
        return f"earlier refusals forgotten by {record['by']}"
    if entry.kind == "blocks":
        how = f", stratified by {record['label']}" if record["label"] else ""
        return f"cut these rows into blocks for folds and splits{how}"
    if entry.kind == "selected":
        return f"answered about {counted(len(record['blocks']), 'block')} of rows"
    if entry.kind == "common_blocks":
        most = counted(record["most"], "block")
        return f"cut these rows into {most} at most, as enough other silos do"
    if entry.kind == "searched":
        return "followed a search to a state from which it may continue"
    if entry.kind == "leverage":
        most = f"at most {record['at_most']:.2f}"
        if record["columns"]:
            most = f"{record['at_least']:.2f} in {', '.join(record['columns'])}"
        return f"largest leverage of a row: {most}"
    if entry.kind == "refused":
        return f"refused {record['asked']}: {record['rule']}"
    return entry.kind
