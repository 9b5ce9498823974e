package sdk

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"unicode/utf8"

	"github.com/aymanbagabas/go-udiff"
)

// maxDiffed is the size above which contents are described instead of compared.
const maxDiffed = 1 << 20

// unified is the difference as a person reads it; empty when there is none.
func unified(title string, before, after []byte) string {
	if bytes.Equal(before, after) {
		return ""
	}
	if isBinary(before) || isBinary(after) || len(before) > maxDiffed || len(after) > maxDiffed {
		return fmt.Sprintf("--- %s\n+++ %s\n- %s\n+ %s\n", title, title, describe(before), describe(after))
	}
	return udiff.Unified(title, title, string(before), string(after))
}

func isBinary(b []byte) bool {
	head := b[:min(len(b), 8<<10)]
	return bytes.IndexByte(head, 0) >= 0 || (len(b) <= maxDiffed && !utf8.Valid(b))
}

func describe(b []byte) string {
	kind := "text"
	if isBinary(b) {
		kind = "binary"
	}
	return fmt.Sprintf("%s, %d bytes, sha256 %x", kind, len(b), sha256.Sum256(b))
}
