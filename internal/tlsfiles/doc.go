// Package tlsfiles has a node use new files of TLS without a restart.
//
//	each minute: Look ── new files? ── allowed? ── the key's fingerprint into the record ── Use ─▶ new connections
//	                                                                     └── sessions that the new CA does not verify end
//
// Other nodes refuse a key that the store does not have, so the record comes first. Files that cannot be used are left alone until they
// change, and the log says so once. A certificate that expires soon is logged 30, 7 and 1 days before.
package tlsfiles
