package registry

// objectTable is what a leader keeps of requests about objects; the records lie in the shard's table. The next leader is asked
// again for all of it.
type objectTable struct {
	changing map[string][]request     // keys with a change that is being committed: what waits behind it
	watching map[string][]request     // keys: who waits for a change
	open     map[*asked[[]Entry]]bool // whose changes are being committed
}

func newObjectTable() objectTable {
	return objectTable{map[string][]request{}, map[string][]request{}, map[*asked[[]Entry]]bool{}}
}

// stopObjects sends those who wait to the next leader, and those whose changes may have been committed: a change that is made again
// has the outcome that it would have had later.
func (l *leader) stopObjects() {
	for q := range l.objects.open {
		q.fail(errNotLeader)
	}
	for _, table := range []map[string][]request{l.objects.changing, l.objects.watching} {
		for _, waiting := range table {
			for _, q := range waiting {
				q.fail(errNotLeader)
			}
		}
	}
	l.objects = objectTable{}
}
