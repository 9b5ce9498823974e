package redis

import (
	"encoding/binary"
	"fmt"

	"github.com/turnus/turnus/core"
)

// The few forms of msgpack that turn.lua and this package exchange: one bulk text each way costs
// both sides less than hundreds of values of the protocol.

func appendInt(b []byte, n uint64) []byte {
	switch {
	case n < 1<<7:
		return append(b, byte(n))
	case n < 1<<16:
		return binary.BigEndian.AppendUint16(append(b, 0xcd), uint16(n))
	case n < 1<<32:
		return binary.BigEndian.AppendUint32(append(b, 0xce), uint32(n))
	}
	return binary.BigEndian.AppendUint64(append(b, 0xcf), n)
}

func appendList(b []byte, n int) []byte {
	if n < 16 {
		return append(b, 0x90|byte(n))
	}
	return binary.BigEndian.AppendUint32(append(b, 0xdd), uint32(n))
}

// appendTextHead is the head of a text of n bytes.
func appendTextHead(b []byte, n int) []byte {
	switch {
	case n < 32:
		return append(b, 0xa0|byte(n))
	case n < 1<<16:
		return binary.BigEndian.AppendUint16(append(b, 0xda), uint16(n))
	}
	return binary.BigEndian.AppendUint32(append(b, 0xdb), uint32(n))
}

func appendText[T string | []byte](b []byte, s T) []byte {
	return append(appendTextHead(b, len(s)), s...)
}

func appendBool(b []byte, v bool) []byte {
	if v {
		return append(b, 0xc3)
	}
	return append(b, 0xc2)
}

// wire reads such a text from front to back. After the first value that is not
// what was expected, bad is set and all reads give zero values.
type wire struct {
	s   string
	bad error
}

// take is the next n bytes.
func (w *wire) take(n int) string {
	if w.bad == nil && len(w.s) < n {
		w.bad = fmt.Errorf("the answer is too short")
	}
	if w.bad != nil {
		w.s = ""
		return ""
	}
	s := w.s[:n]
	w.s = w.s[n:]
	return s
}

// number is the next n bytes as a number, the first the highest.
func (w *wire) number(n int) uint64 {
	v := uint64(0)
	for _, c := range []byte(w.take(n)) {
		v = v<<8 | uint64(c)
	}
	return v
}

func (w *wire) mistake(expected string, head uint64) {
	if w.bad == nil {
		w.bad = fmt.Errorf("expected %s, got type %#x", expected, head)
	}
	w.s = ""
}

func (w *wire) int64() int64 {
	switch h := w.number(1); {
	case h < 0x80:
		return int64(h)
	case h >= 0xe0:
		return int64(int8(h))
	case h >= 0xcc && h <= 0xcf:
		return int64(w.number(1 << (h - 0xcc)))
	case h >= 0xd0 && h <= 0xd3:
		bits := uint(8) << (h - 0xd0)
		return int64(w.number(1<<(h-0xd0))<<(64-bits)) >> (64 - bits)
	default:
		w.mistake("a number", h)
		return 0
	}
}

func (w *wire) int() int { return int(w.int64()) }

// list is how many values follow; each is at least a byte.
func (w *wire) list() int {
	n := uint64(0)
	switch h := w.number(1); {
	case h >= 0x90 && h <= 0x9f:
		n = h & 15
	case h == 0x80: // an empty table is no clear list
	case h == 0xdc:
		n = w.number(2)
	case h == 0xdd:
		n = w.number(4)
	default:
		w.mistake("a list", h)
	}
	if n > uint64(len(w.s)) {
		w.mistake("a shorter list", n)
		return 0
	}
	return int(n)
}

func (w *wire) text() string {
	n := uint64(0)
	switch h := w.number(1); {
	case h >= 0xa0 && h <= 0xbf:
		n = h & 31
	case h >= 0xd9 && h <= 0xdb:
		n = w.number(1 << (h - 0xd9))
	default:
		w.mistake("a text", h)
	}
	if n > uint64(len(w.s)) {
		w.mistake("a shorter text", n)
		return ""
	}
	return w.take(int(n))
}

// bytes is nil for an empty text.
func (w *wire) bytes() []byte {
	if s := w.text(); s != "" {
		return []byte(s)
	}
	return nil
}

// end returns what was wrong with the answer. The script itself has run.
func (w *wire) end(script string) error {
	if w.bad == nil && w.s != "" {
		w.bad = fmt.Errorf("%d bytes are left over", len(w.s))
	}
	if w.bad == nil {
		return nil
	}
	return fmt.Errorf("queue: answer of script %s: %w: %w", script, w.bad, core.ErrUnknown)
}
