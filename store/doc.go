// Package store holds what a cluster must not forget: a KV with sessions, transactions and watches, and the shards that
// keep their tables in it.
package store
