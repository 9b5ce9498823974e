package keyring

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/turnus/turnus/core"
)

// An object is too large to be encrypted as a whole, and parts of it are read. It has a key of its
// own, which is encrypted with the ring and kept where the object's name is: another key of the
// ring encrypts those 32 bytes again, and the object stays as it is.
//
// It is a row of segments, each encrypted with AES-256-GCM under its number and whether it is the
// last. Reading detects a segment that was left out, moved, put in from another object, or cut off
// at the end.
const (
	// ObjectSegment is how many bytes of an object are encrypted together.
	ObjectSegment = 64 << 10
	tagBytes      = 16
)

// ObjectKey is the key of one object. It must not be used for a second one.
type ObjectKey [32]byte

// NewObjectKey makes a key.
func NewObjectKey() ObjectKey {
	var k ObjectKey
	rand.Read(k[:]) // never fails, see crypto/rand
	return k
}

// ParseObjectKey takes a key that was opened. Errors wrap core.ErrInvalid.
func ParseObjectKey(b []byte) (k ObjectKey, err error) {
	if len(b) != len(k) {
		return k, fmt.Errorf("the key of an object has %d bytes, expected %d: %w", len(b), len(k), core.ErrInvalid)
	}
	copy(k[:], b)
	return k, nil
}

func (k ObjectKey) gcm() cipher.AEAD {
	block, err := aes.NewCipher(k[:])
	if err != nil {
		panic("keyring: " + err.Error()) // only of another length
	}
	g, err := cipher.NewGCM(block)
	if err != nil {
		panic("keyring: " + err.Error()) // only of another block size
	}
	return g
}

// nonce is of one segment: the key is of one object, so that none comes twice.
func nonce(segment int64, last bool) []byte {
	b := make([]byte, 12)
	binary.BigEndian.PutUint64(b[:8], uint64(segment))
	if last {
		b[11] = 1
	}
	return b
}

// Encrypt gives the bytes of r encrypted, as they are read.
func (k ObjectKey) Encrypt(r io.Reader) io.Reader {
	return &encrypter{gcm: k.gcm(), from: r, plain: make([]byte, 0, ObjectSegment+1)}
}

type encrypter struct {
	gcm     cipher.AEAD
	from    io.Reader
	plain   []byte // read and not encrypted; a byte more than a segment shows that it is not the last
	out     []byte // encrypted and not given out
	segment int64
	done    bool
}

func (s *encrypter) Read(p []byte) (int, error) {
	for len(s.out) == 0 {
		if s.done {
			return 0, io.EOF
		}
		n, err := io.ReadFull(s.from, s.plain[len(s.plain):cap(s.plain)])
		s.plain = s.plain[:len(s.plain)+n]
		if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
			return 0, err
		}
		s.done = err != nil
		part := s.plain
		if !s.done {
			part = part[:ObjectSegment]
		}
		s.out = s.gcm.Seal(s.out[:0], nonce(s.segment, s.done), part, nil)
		s.segment++
		s.plain = append(s.plain[:0], s.plain[len(part):]...)
	}
	n := copy(p, s.out)
	s.out = s.out[n:]
	return n, nil
}

// Span is where the encrypted bytes are that hold length bytes from offset of an object of size
// bytes, all of them not encrypted.
func Span(size, offset, length int64) (from, n int64) {
	if length <= 0 {
		return 0, 0
	}
	const encrypted = ObjectSegment + tagBytes
	first, last := offset/ObjectSegment, (offset+length-1)/ObjectSegment
	end := min((last+1)*encrypted, EncryptedSize(size))
	return first * encrypted, end - first*encrypted
}

// EncryptedSize is how many bytes an object of size bytes has when it is encrypted.
func EncryptedSize(size int64) int64 { return size + (lastSegment(size)+1)*tagBytes }

func lastSegment(size int64) int64 { return max(size-1, 0) / ObjectSegment }

// Open gives length bytes from offset of an object of size bytes; r has the bytes of Span, and is
// closed with what is returned. Reading gives ErrTampered where the object is not what was
// encrypted; memory is that of one segment.
func (k ObjectKey) Open(r io.ReadCloser, size, offset, length int64) io.ReadCloser {
	first := offset / ObjectSegment
	return &opener{gcm: k.gcm(), from: r, segment: first, last: lastSegment(size), size: size, skip: offset - first*ObjectSegment, left: length,
		encrypted: make([]byte, ObjectSegment+tagBytes)}
}

type opener struct {
	gcm           cipher.AEAD
	from          io.ReadCloser
	encrypted     []byte
	plain         []byte // opened and not given out
	segment, last int64
	size          int64
	skip, left    int64
	err           error
}

func (o *opener) Read(p []byte) (int, error) {
	for len(o.plain) == 0 {
		if o.err == nil && o.left <= 0 {
			o.err = io.EOF
		}
		if o.err != nil {
			return 0, o.err
		}
		o.plain, o.err = o.next()
	}
	n := copy(p, o.plain)
	o.plain = o.plain[n:]
	return n, nil
}

// next opens one segment, and cuts from it what was asked for.
func (o *opener) next() ([]byte, error) {
	want := int64(ObjectSegment)
	if o.segment == o.last {
		want = o.size - o.segment*ObjectSegment
	}
	b := o.encrypted[:want+tagBytes]
	if _, err := io.ReadFull(o.from, b); err != nil {
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			err = fmt.Errorf("the object ends in its segment %d of %d: %w", o.segment, o.last+1, ErrTampered)
		}
		return nil, err
	}
	plain, err := o.gcm.Open(b[:0], nonce(o.segment, o.segment == o.last), b, nil)
	if err != nil {
		return nil, fmt.Errorf("segment %d of an object: %w", o.segment, ErrTampered)
	}
	o.segment++
	plain = plain[min(o.skip, int64(len(plain))):]
	o.skip = 0
	plain = plain[:min(o.left, int64(len(plain)))]
	o.left -= int64(len(plain))
	return plain, nil
}

func (o *opener) Close() error { return o.from.Close() }
