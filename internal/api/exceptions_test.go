package api_test

// exceptions is a list that may only get shorter: an exception that nothing needs any more fails the test.
var exceptions = []exception{
	{". TaskID", "an opaque name, which core makes"},
	{". JobID", "an opaque name, which core makes"},
	{". NodeID", "an opaque name, which core makes"},
	{". Table", "opaque to programs, which hand it on"},
	{". ObjectSize", "a number"},
	{"testkit Cluster.Network", "a user of testkit asks the network for faults, which need methods of testkit"},
}
