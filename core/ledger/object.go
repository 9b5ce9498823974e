package ledger

import (
	"context"
	"io"
	"strconv"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/keyring"
)

// A large output is in the bucket in segments that are encrypted with a key of its own, so that a
// part of it can be read. That key is encrypted with the ring, and is in the output's row.

// outputPlace is the place of an output, or of its key.
func outputPlace(what string, id core.JobID, name string) []string {
	return []string{what, id.Run, strconv.Itoa(id.Index), name}
}

// counter counts what is read.
type counter struct {
	from io.Reader
	n    int64
}

func (c *counter) Read(p []byte) (int, error) {
	n, err := c.from.Read(p)
	c.n += int64(n)
	return n, err
}

// encryptObject gives r as it is put into the bucket.
func (l *Ledger) encryptObject(o *Output, id core.JobID, r io.Reader) io.Reader {
	if l.ring == nil {
		o.data = nil
		return r
	}
	key := keyring.NewObjectKey()
	o.data = l.ring.Encrypt(key[:], keyring.Context(outputPlace(objectOf, id, o.Name)...))
	return key.Encrypt(r)
}

// openObject reads a part of an object; encryptedKey is nil of one that is not encrypted.
func (l *Ledger) openObject(ctx context.Context, o *Output, encryptedKey []byte, id core.JobID, offset, length int64) (io.ReadCloser, error) {
	if len(encryptedKey) == 0 {
		if !l.ring.AcceptsPlain() {
			return nil, keyring.ErrPlain
		}
		r, err := l.bucket.NewRangeReader(ctx, o.object, offset, length, nil)
		if err != nil {
			return nil, BucketError(err)
		}
		return r, nil
	}
	key, err := l.objectKey(encryptedKey, id, o.Name)
	if err != nil {
		return nil, err
	}
	from, n := keyring.Span(o.Size, offset, length)
	r, err := l.bucket.NewRangeReader(ctx, o.object, from, n, nil)
	if err != nil {
		return nil, BucketError(err)
	}
	return key.Open(r, o.Size, offset, length), nil
}

func (l *Ledger) objectKey(encrypted []byte, id core.JobID, name string) (keyring.ObjectKey, error) {
	if _, ok := keyring.KeyOf(encrypted); !ok {
		return keyring.ObjectKey{}, keyring.ErrTampered // a key in the clear was never written
	}
	b, err := l.ring.Open(encrypted, keyring.Context(outputPlace(objectOf, id, name)...))
	if err != nil {
		return keyring.ObjectKey{}, err
	}
	return keyring.ParseObjectKey(b)
}
