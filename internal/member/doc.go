// Package member makes a process a member of a cluster: it holds a session in the store, knows the other members, and
// evicts nodes that are dead or silent, and no others.
//
//	          renew every TTL/3                      silence, resets
//	store ◄────────────────────── Member ◄────────────────────────── Prober (the link)
//	  │   nodes/  leaders/          │  ▲
//	  └──────────────────────────► View └── Ballots: what do the other monitors hear?
//
// An **incarnation** is one life of a node: the CreateIndex of its key nodes/<node>, which its session holds. A later life has
// a larger number. A **lease** is one TTL from the start of the last renewal that went well (C16). A **View** is what this
// member knows of the cluster at one moment; it never changes, and its Changed channel says when there is a newer one.
//
//	Active ⇄ Suspended ──► Fenced
//	   └─────────┴────────────┴──► Left
//
// Suspended: the lease ran out, because the store does not answer. Nothing may be committed or placed, everything in memory is
// kept, and the next good renewal makes the same incarnation Active again. Fenced: the session is gone, or a vote said that it
// has to go; what was served under this incarnation must stop, and the process may Join anew as another.
//
// Death is either proven (LinkReset and a refused redial, Died) and then acted on at once, or it is only silence. A
// silent node is suspect in the views of the members that do not hear it. One of its up to three monitors, the nodes
// that follow it on a ring, accuses it, and one transaction makes the verdict a key (evict/<incarnation>), which the
// node reads with each renewal and then ends itself.
//
//	                 silent for   asked                             its session ends
//	a host           Silence +    the electors that it has named    with the verdict: their promises to it are over
//	any other node   TTL          its monitors                      a lease of its own later
//
// So a member may answer from memory while Promised is true: its lease is good, and so are the promises in the pongs of
// enough electors (guard.go, promise.go). Otherwise Admit asks the store. The rules that keep a cluster from evicting
// itself are in member.go (one transaction, half the members) and in pairs.go (which of two live nodes leaves when they
// do not hear each other).
//
//	m, err := member.Join(ctx, member.Config{KV: kv, Self: member.Info{ID: "a", Address: "10.0.0.1:7000"}, OnState: onState})
//	...
//	v := m.View()
//	leader, ok := v.Leader(7)
//	<-v.Changed()
//	err = m.Leave(ctx)
//
// It knows the store and nothing of links, tasks or grains. It does not take or give up the leadership of shards: it
// reports which node leads (View.Leader) and which should (View.Preferred).
package member
