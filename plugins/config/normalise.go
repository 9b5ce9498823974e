package config

import (
	"bytes"
	"errors"
	"regexp"
)

// normaliser makes of one part of the configuration what is kept. Safe for concurrent use.
type normaliser struct {
	drop     []*regexp.Regexp
	replace  []substitution
	verbatim bool
	binary   bool
}

type substitution struct {
	match *regexp.Regexp
	with  []byte
}

// newNormaliser compiles what Validate has found sound.
func newNormaliser(p *Params, item *Item) (*normaliser, error) {
	n := &normaliser{verbatim: p.Verbatim, binary: item.Binary}
	for _, list := range [][]string{item.Drop, p.Drop} {
		for _, expr := range list {
			re, err := compile(expr)
			if err != nil {
				return nil, err
			}
			n.drop = append(n.drop, re)
		}
	}
	for _, list := range [][]Substitute{item.Replace, p.Replace} {
		for _, s := range list {
			re, err := compile(s.Match)
			if err != nil {
				return nil, err
			}
			n.replace = append(n.replace, substitution{re, []byte(s.With)})
		}
	}
	return n, nil
}

var errBinary = errors.New("it holds a NUL byte, so it is no text\nhint: binary: true keeps it byte by byte; nothing is dropped or replaced in it then")

// apply may change raw.
func (n *normaliser) apply(raw []byte) ([]byte, error) {
	if n.binary {
		return raw, nil
	}
	if bytes.IndexByte(raw, 0) >= 0 {
		return nil, errBinary
	}
	text := raw
	if !n.verbatim {
		text = bytes.ReplaceAll(text, []byte("\r\n"), []byte("\n"))
		text = bytes.ReplaceAll(text, []byte("\r"), []byte("\n"))
	}
	text = n.dropLines(text)
	for _, s := range n.replace {
		text = s.match.ReplaceAll(text, s.with)
	}
	if n.verbatim {
		return text, nil
	}
	return strip(text), nil
}

func (n *normaliser) dropLines(text []byte) []byte {
	if len(n.drop) == 0 {
		return text
	}
	kept := make([]byte, 0, len(text))
	for line := range bytes.Lines(text) {
		if !n.drops(bytes.TrimRight(line, "\r\n")) {
			kept = append(kept, line...)
		}
	}
	return kept
}

func (n *normaliser) drops(line []byte) bool {
	for _, re := range n.drop {
		if re.Match(line) {
			return true
		}
	}
	return false
}

// strip takes blanks from the ends of lines and empty lines from the end. The last line also ends.
func strip(text []byte) []byte {
	kept := make([]byte, 0, len(text)+1)
	for line := range bytes.Lines(text) {
		kept = append(append(kept, bytes.TrimRight(line, " \t\n")...), '\n')
	}
	kept = bytes.TrimRight(kept, "\n")
	if len(kept) > 0 {
		kept = append(kept, '\n')
	}
	return kept
}
