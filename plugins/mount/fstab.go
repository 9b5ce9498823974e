package mount

import (
	"fmt"
	"path"
	"regexp"
	"strconv"
	"strings"
	"sync"
)

// entry is a line of fstab.
type entry struct{ source, path, fstype, options, dump, pass string }

// parse reads a line; it returns nil for comments and what is no line of fstab.
func parse(line string) *entry {
	f := strings.Fields(line)
	if len(f) < 3 || strings.HasPrefix(f[0], "#") {
		return nil
	}
	f = append(f, []string{"defaults", "0", "0"}[min(len(f), 6)-3:]...)
	return &entry{source: unescape(f[0]), path: unescape(f[1]), fstype: f[2], options: f[3], dump: f[4], pass: f[5]}
}

// is reports whether the line is that of the mount.
func (e *entry) is(p Params) bool {
	if p.Type == "swap" || e.fstype == "swap" {
		return p.Type == e.fstype && e.source == p.Source
	}
	return path.Clean(e.path) == p.Path
}

// wanted is the line as it shall be.
func (p *Params) wanted() entry {
	at := p.Path
	if p.Type == "swap" {
		at = "none"
	}
	return entry{p.Source, at, p.Type, p.Options, strconv.Itoa(p.Dump), strconv.Itoa(p.Pass)}
}

// same reports whether two lines mean the same.
func (e *entry) same(other entry) bool {
	a, b := *e, other
	a.path, b.path = path.Clean(a.path), path.Clean(b.path)
	if b.fstype == "swap" {
		a.path, b.path = "", ""
	}
	return a == b
}

func (e *entry) String() string {
	return strings.Join([]string{escape(e.source), escape(e.path), e.fstype, e.options, e.dump, e.pass}, " ") + "\n"
}

// edit returns fstab with the line of the mount as its state wants it, and the line that was there.
// All else stays.
func edit(fstab string, p Params) (after string, old *entry, err error) {
	var out strings.Builder
	wanted := p.wanted()
	for line := range strings.Lines(fstab) {
		e := parse(line)
		if e == nil || !e.is(p) {
			out.WriteString(line)
			continue
		}
		if old != nil {
			return "", nil, fmt.Errorf("two lines are for %s: remove one of them", p.name())
		}
		old = e
		switch {
		case p.State == "absent":
		case p.State == "unmounted" || e.same(wanted):
			out.WriteString(line)
		default:
			out.WriteString(wanted.String())
		}
	}
	after = out.String()
	if old == nil && (p.State == "mounted" || p.State == "present") {
		if after != "" && !strings.HasSuffix(after, "\n") {
			after += "\n"
		}
		after += wanted.String()
	}
	return after, old, nil
}

var octal = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`\\[0-3][0-7]{2}`) })

// unescape reads a field of fstab and of the kernel's tables, which write white space in octal.
func unescape(s string) string {
	return octal().ReplaceAllStringFunc(s, func(code string) string {
		n, _ := strconv.ParseUint(code[1:], 8, 8)
		return string([]byte{byte(n)})
	})
}

func escape(s string) string {
	return strings.NewReplacer(" ", `\040`, "\t", `\011`, "\n", `\012`, `\`, `\134`).Replace(s)
}
