package core

import "sync"

// Locked returns the value of v, read under mu.
func Locked[T any](mu *sync.Mutex, v *T) T {
	mu.Lock()
	defer mu.Unlock()
	return *v
}
