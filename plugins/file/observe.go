package file

import (
	"context"
	"fmt"
	"regexp"
	"strings"
	"sync"

	"github.com/turnus/turnus/plugins/sdk"
	"github.com/turnus/turnus/plugins/sdk/shell"
)

// entry is the file system's entry at a path.
type entry struct {
	kind    string // absent, file, directory, link, other
	mode    uint32
	owner   string // user:group by name
	numbers string // uid:gid
	self    string // uid:gid of the connecting user
	size    int64
	sha256  string // of a readable file
	target  string // of a link

	noFolder bool // around it
	stranger bool // the host does not know the wanted owner
}

// script prints facts a line each; the target comes last, as it may hold newlines. It keeps to
// POSIX, since routers have no stat: ls has the mode, the owner and the size.
//
// The hash is of the file itself: its folder's owner may put a link to another's in its place.
const script = headScript + shell.Reading + shell.Hidden + shell.IDs + shell.Sum + `see() {
  enter "${p%/*}/" || return
  if alone || [ ! -d /proc/self/fd ]; then sum <"./${p##*/}"; else pin "${p##*/}" && sum <&3; fi
}
if [ -L "$p" ]; then k=link; elif [ -d "$p" ]; then k=directory; elif [ -f "$p" ]; then k=file; elif [ -e "$p" ]; then k=other
elif hidden "$p"; then exit 1; else k=absent; fi
echo "kind $k"
self=$(id) group=${self#* gid=} self=${self#uid=}
echo "self ${self%%[!0-9]*}:${group%%[!0-9]*}"
[ -d "${p%/*}/" ] || echo nofolder
ids "$o" || echo stranger
[ $k = absent ] && exit 0
l=$(ls -ld "$p"); n=$(ls -lnd "$p"); end='
'
echo "long ${l%%"$end"*}"
echo "numbers ${n%%"$end"*}"
if [ $k = file ]; then echo "sha256 $(see)"; fi
if [ $k = link ]; then printf 'target '; readlink "$p"; fi
exit 0
`

func observe(ctx context.Context, h *sdk.Host, path, owner string) (entry, error) {
	result := h.Query(ctx, sdk.Vars("p", path, "o", owner)+script)
	if err := result.Err(); err != nil {
		return entry{}, fmt.Errorf("inspect %s: %w", path, err)
	}
	e, err := parse(result.Stdout)
	if err != nil {
		return entry{}, fmt.Errorf("inspect %s: %w", path, err)
	}
	return e, nil
}

var digest = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[0-9a-f]{64}$`) })

func parse(text string) (entry, error) {
	var e entry
	if before, target, found := strings.Cut(text, "\ntarget "); found {
		text, e.target = before, strings.TrimSuffix(target, "\n")
	}
	for line := range strings.Lines(text) {
		key, value, _ := strings.Cut(strings.TrimRight(line, "\r\n"), " ")
		fields := strings.Fields(value)
		switch {
		case key == "kind":
			e.kind = value
		case key == "nofolder":
			e.noFolder = true
		case key == "stranger":
			e.stranger = true
		case key == "self":
			e.self = value
		case key == "sha256" && len(fields) > 0 && digest().MatchString(fields[0]):
			e.sha256 = fields[0]
		case key == "long" && len(fields) > 4:
			var ok bool
			if e.mode, ok = shell.Mode(fields[0]); !ok {
				return e, fmt.Errorf("unexpected mode %q", fields[0])
			}
			e.owner = fields[2] + ":" + fields[3]
			_, _ = fmt.Sscan(fields[4], &e.size) // a device has numbers here; its size stays 0
		case key == "numbers" && len(fields) > 4:
			e.numbers = fields[2] + ":" + fields[3]
		}
	}
	if e.kind == "" || (e.kind != "absent" && e.owner == "") {
		return e, fmt.Errorf("unexpected answer of the host: %.200q", text)
	}
	return e, nil
}

// owned reports whether the entry has the owner, given as user or user:group in names or numbers.
func (e entry) owned(want string) bool {
	if want == "" {
		return true
	}
	user, group, hasGroup := strings.Cut(want, ":")
	name, nameGroup, _ := strings.Cut(e.owner, ":")
	number, numberGroup, _ := strings.Cut(e.numbers, ":")
	return (user == name || user == number) && (!hasGroup || group == nameGroup || group == numberGroup)
}

// attributes is mode and owner as a person compares them.
func (e entry) attributes() string {
	if e.kind == "absent" {
		return ""
	}
	return fmt.Sprintf("mode %04o\nowner %s\n", e.mode, e.owner)
}
