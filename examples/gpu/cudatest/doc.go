// Package cudatest has a libcuda and a libcublas for tests, which compute on the CPU: the first runs the very PTX that a GPU
// would be given. They are built from C when a test asks for them.
package cudatest
