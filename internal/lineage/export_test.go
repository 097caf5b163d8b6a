package lineage

// Difference says in what a task differs from the recorded one.
func Difference(recorded, body []byte) string { return difference(recorded, body) }
