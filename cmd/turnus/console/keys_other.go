//go:build !linux

package console

// keyReader reads keys on Linux only.
type keyReader struct{}

// Keys returns nil: keys are read on Linux only.
func (c *Console) Keys() (keys <-chan Key, stop func()) { return nil, func() {} }

func (k *keyReader) pause()  {}
func (k *keyReader) resume() {}
