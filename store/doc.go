// Package store says what a cluster needs of the store that must not forget: keys and values with sessions, transactions and
// watches. Package store/consul is one on Consul, store/embedded one in the process or in files; a store of your own passes
// store/storetest, and goes to system.ClusterConfig.Store.
//
// A transaction has all of its operations done, or none:
//
//	_, err := kv.Txn(ctx, []store.Op{store.CheckNotExists("jobs/7"), store.Set("jobs/7", value), store.Lock("leader", name, session)})
//
// What the cluster keeps in it is its own (docs/internals/architecture.md).
package store
