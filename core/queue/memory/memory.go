// Package memory implements the queue contract in plain Go: the embedded
// default, and the reference model that the Redis implementation is compared with.
package memory
