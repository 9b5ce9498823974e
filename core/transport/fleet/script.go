package fleet

import (
	"errors"
	"runtime"
	"strings"
	"sync"

	"mvdan.cc/sh/v3/expand"
	"mvdan.cc/sh/v3/syntax"
)

// scripts parses shell text, and keeps the trees of what thousands of hosts run alike. Two
// generations bound it: the older is dropped whole when the younger is full. Safe for concurrent
// use.
type scripts struct {
	parsers sync.Pool

	mu         sync.Mutex
	young, old map[string]*syntax.File
}

const (
	keptScripts = 128     // trees a generation
	keptText    = 4 << 10 // bytes of the longest text that is kept
)

// errNested is the refusal of a script whose parser or interpreter would need too deep a stack.
var errNested = errors.New("nested too deeply")

// parse returns a text's tree, which callers must not change.
func (s *scripts) parse(text string) (*syntax.File, error) {
	if len(text) > keptText {
		return s.parseOnce(text)
	}
	s.mu.Lock()
	f, old := s.young[text], s.old[text]
	s.mu.Unlock()
	switch {
	case f != nil:
		return f, nil
	case old != nil:
		f = old
	default:
		var err error
		if f, err = s.parseOnce(text); err != nil {
			return nil, err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.young) >= keptScripts || s.young == nil {
		s.young, s.old = make(map[string]*syntax.File), s.young
	}
	s.young[text] = f
	return f, nil
}

// parseOnce is parse for a text that no other host runs.
func (s *scripts) parseOnce(text string) (*syntax.File, error) {
	p, ok := s.parsers.Get().(*syntax.Parser)
	if !ok {
		p = syntax.NewParser(syntax.Variant(syntax.LangPOSIX))
	}
	defer s.parsers.Put(p)
	src := &source{}
	src.Reset(text)
	return p.Parse(src, "")
}

// source is the text that a parser reads, a KiB at a time. It ends where the parser is nested too
// deeply before the next one, because a stack without a bound would end the process.
type source struct {
	strings.Reader
	top [1]uintptr
}

// maxFrames is how deep the stack of a parser may be between two KiB.
const maxFrames = 1000

func (s *source) Read(b []byte) (int, error) {
	if n := s.Len(); n > 0 && int64(n) < s.Size() && runtime.Callers(maxFrames, s.top[:]) > 0 {
		return 0, errNested
	}
	return s.Reader.Read(b)
}

// unwrap finds what a client wants to run within `export K='V'; exec /bin/sh -c '…'`,
// and the exported variables. A line of another form is returned as it is.
func (s *scripts) unwrap(line string) (string, map[string]string) {
	env := map[string]string{}
	for range maxDepth {
		f, err := s.parseOnce(line)
		if err != nil {
			return line, env
		}
		inner, rest := "", 0
		for i, st := range f.Stmts {
			rest = int(st.Pos().Offset())
			words := literal(st)
			if len(words) > 1 && words[0] == "export" {
				for _, kv := range words[1:] {
					k, v, _ := strings.Cut(kv, "=")
					env[k] = v
				}
				continue
			}
			last := i == len(f.Stmts)-1
			if last && len(words) == 4 && words[0] == "exec" && words[1] == "/bin/sh" && words[2] == "-c" {
				inner = words[3]
			}
			break
		}
		if inner == "" {
			return line[rest:], env
		}
		line = inner
	}
	return line, env
}

// literal returns the words of a plain command without expansions; nil for others.
func literal(st *syntax.Stmt) []string {
	c, ok := st.Cmd.(*syntax.CallExpr)
	if !ok || st.Background || st.Negated || len(c.Assigns) > 0 || len(st.Redirs) > 0 {
		return nil
	}
	for _, w := range c.Args {
		if !plain(w.Parts) || strings.HasPrefix(w.Lit(), "~") {
			return nil
		}
	}
	words, err := expand.Fields(&expand.Config{Env: expand.FuncEnviron(func(string) string { return "" })}, c.Args...)
	if err != nil {
		return nil
	}
	return words
}

// plain reports whether a word has text only.
func plain(parts []syntax.WordPart) bool {
	for _, part := range parts {
		switch p := part.(type) {
		case *syntax.Lit, *syntax.SglQuoted:
		case *syntax.DblQuoted:
			if !plain(p.Parts) {
				return false
			}
		default:
			return false
		}
	}
	return true
}
