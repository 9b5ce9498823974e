// Package queuetest owns the conformance suite of the queue contract.
package queuetest
