package definitions

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/turnus/turnus/core"
)

// Document is one file of a set: its path from the root of the tree, with slashes, and
// its bytes.
type Document struct {
	Path string `json:"path"`
	Data []byte `json:"data"`
}

// Hash identifies documents, in any order: sha256:HEX. It serves as ETag.
func Hash(docs []Document) string {
	sum := sha256.New()
	var length [8]byte
	put := func(b []byte) { // with its length: no two lists of documents give the same bytes
		binary.BigEndian.PutUint64(length[:], uint64(len(b)))
		sum.Write(length[:])
		sum.Write(b)
	}
	for _, d := range sortedDocuments(docs) {
		put([]byte(d.Path))
		put(d.Data)
	}
	return "sha256:" + hex.EncodeToString(sum.Sum(nil))
}

func sortedDocuments(docs []Document) []Document {
	docs = slices.Clone(docs)
	slices.SortFunc(docs, func(a, b Document) int { return cmp.Compare(a.Path, b.Path) })
	return docs
}

// encodingVersion is the version that Encode writes.
const encodingVersion = 1

type encoded struct {
	Version   int        `json:"version"`
	Hash      string     `json:"hash"`
	Revision  Revision   `json:"revision"`
	Documents []Document `json:"documents"`
}

// Encode writes the set's documents and revision. Equal sets give equal bytes.
func (s *Set) Encode() ([]byte, error) {
	data, err := json.Marshal(encoded{encodingVersion, s.Hash(), s.Revision, s.docs})
	if err != nil {
		return nil, fmt.Errorf("write the project: %w", err)
	}
	return data, nil
}

// Decode reads what Encode wrote, for FromDocuments. Errors wrap core.ErrInvalid.
func Decode(data []byte) ([]Document, Revision, error) {
	fail := func(format string, args ...any) ([]Document, Revision, error) {
		return nil, Revision{}, fmt.Errorf("read the project: %w: %w", core.ErrInvalid, fmt.Errorf(format, args...))
	}
	if len(data) > 2*MaxSize+MaxDocuments*maxPath {
		return fail("%d bytes are too much", len(data))
	}
	var e encoded
	dec := json.NewDecoder(bytes.NewReader(data))
	if err := dec.Decode(&e); err != nil {
		return fail("%w", err)
	}
	switch {
	case e.Version < 1 || e.Version > encodingVersion:
		return fail("version %d, expected 1 to %d; was it written by a newer server?", e.Version, encodingVersion)
	case dec.More():
		return fail("something follows the end")
	case Hash(e.Documents) != e.Hash:
		return fail("the documents are not those that were written: their hash differs")
	}
	return e.Documents, e.Revision, nil
}
