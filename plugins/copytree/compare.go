package copytree

import (
	"cmp"
	"errors"
	"fmt"
	"iter"
	"maps"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/turnus/turnus/plugins/sdk/shell"
)

const (
	newFile       = 0o644
	newExecutable = 0o755
	newFolder     = 0o755
)

// entry is the host's entry at a name.
type entry struct {
	kind   byte // f file, d folder, l link, o other
	mode   uint32
	uid    string
	gid    string
	sha256 string
}

// tree is the host's report of its folder.
type tree struct {
	root     byte   // kind of the folder itself; 0: it is not there
	leftover bool   // of a copy that was killed
	stranger bool   // the wanted owner is not known
	broken   string // names what has a line break in its name
	uid, gid string
	entries  map[string]*entry
	extra    map[string]bool // names that are there, folders or not
}

// read reads the answer of lookScript.
func read(lines iter.Seq[[]byte]) *tree {
	t := &tree{entries: map[string]*entry{}, extra: map[string]bool{}}
	for raw := range lines {
		word, rest, _ := strings.Cut(strings.TrimRight(string(raw), "\n"), " ")
		name := strings.TrimPrefix(rest, "./")
		switch word {
		case "root":
			t.root = rest[0]
		case "leftover":
			t.leftover = true
		case "stranger":
			t.stranger = true
		case "broken":
			t.broken = "the name that begins with " + strconv.Quote(name)
		case "uid":
			t.uid = rest
		case "gid":
			t.gid = rest
		case "f", "d", "l", "o":
			t.entries[name] = &entry{kind: word[0]}
		case "s":
			if sum, name, ok := strings.Cut(rest, "  ./"); ok && t.entries[name] != nil {
				t.entries[name].sha256 = sum
			}
		case "n":
			f := strings.SplitN(rest, " ", 4)
			if e := t.entries[strings.TrimPrefix(f[len(f)-1], "./")]; e != nil && len(f) == 4 {
				e.mode, e.uid, e.gid = modeOf(f[0]), f[1], f[2]
			}
		case "xf", "xd":
			t.extra[name] = word == "xd"
		}
	}
	return t
}

// modeOf reads permission bits, as octal text or as -rwsr-xr-t.
func modeOf(text string) uint32 {
	if mode, ok := shell.Mode(text); ok {
		return mode
	}
	return bits(text)
}

// paths are the names of the files and of the folders that they need, folders before what is in
// them.
func paths(files []wanted) []string {
	all := map[string]bool{}
	for _, f := range files {
		for at := f.name; at != "."; at = path.Dir(at) {
			all[at] = true
		}
	}
	return slices.Sorted(maps.Keys(all))
}

// sent is a file to send.
type sent struct {
	wanted
	mode uint32
}

// todo is the work to do: ops are lines for doScript, before and after what people compare.
type todo struct {
	send                []sent
	ops                 []string
	removed, attributes int
	before, after       string
}

// compare decides what has to be done.
func compare(p Params, files []wanted, now *tree) (*todo, error) {
	if now.root != 0 && now.root != 'd' {
		return nil, errors.New("it is there, and is no folder: remove it first")
	}
	if now.broken != "" {
		return nil, fmt.Errorf("%s has a line break: remove it first, or leave out delete: true", now.broken)
	}
	t, byName, bad := &todo{}, map[string]wanted{}, []error(nil)
	for _, f := range files {
		byName[f.name] = f
	}
	if now.root == 0 {
		t.folder(p, ".", nil, now)
	}
	all := paths(files)
	for _, name := range all {
		e, f := now.entries[name], byName[name]
		switch {
		case f.name == "" && e != nil && e.kind != 'd':
			bad = append(bad, fmt.Errorf("%s is there, and is no folder: remove it first", name))
		case f.name == "":
			t.folder(p, name, e, now)
		case e != nil && (e.kind == 'd' || e.kind == 'o'):
			bad = append(bad, fmt.Errorf("%s is there, and is no file: remove it first", name))
		default:
			t.file(p, f, e, now)
		}
	}
	for _, name := range slices.Backward(slices.Sorted(maps.Keys(now.extra))) {
		if _, found := slices.BinarySearch(all, name); !found {
			t.ops = append(t.ops, map[bool]string{true: "r - ./", false: "x - ./"}[now.extra[name]]+name)
			t.note(name, "")
			t.removed++
		}
	}
	return t, errors.Join(bad...)
}

func (t *todo) folder(p Params, name string, e *entry, now *tree) {
	if e == nil {
		t.ops = append(t.ops, "d "+p.folderMode()+" ./"+name)
		t.note("", "folder "+name)
		if p.Owner != "" {
			t.ops = append(t.ops, "o "+p.Owner+" ./"+name)
		}
		return
	}
	t.attribute(p, name, e, bits(p.DirMode), now)
}

// folderMode is the mode of a new folder, for chmod. Five digits clear setuid and setgid, which GNU
// chmod keeps otherwise: a folder without a given mode takes them from the folder around it.
func (p *Params) folderMode() string {
	if mode := bits(p.DirMode); mode != 0 {
		return fmt.Sprintf("%05o", mode)
	}
	return fmt.Sprintf("%04o", newFolder)
}

func (t *todo) file(p Params, f wanted, e *entry, now *tree) {
	mode := bits(p.Mode)
	if mode == 0 && e != nil && e.kind == 'f' {
		if mode = e.mode; f.runs && mode&0o100 == 0 {
			mode |= mode >> 2 & 0o111
		}
	}
	if e != nil && e.kind == 'f' && e.sha256 == f.sha256 {
		t.attribute(p, f.name, e, mode, now)
		return
	}
	fresh := uint32(newFile)
	if f.runs {
		fresh = newExecutable
	}
	mode = cmp.Or(mode, fresh)
	owner := cmp.Or(p.Owner, "-")
	if e != nil && e.kind == 'f' && !strings.Contains(p.Owner, ":") { // a file made again would get the login's
		owner = cmp.Or(p.Owner, e.uid) + ":" + e.gid
	}
	t.send = append(t.send, sent{f, mode})
	t.ops = append(t.ops, "f "+owner+" ./"+f.name)
	if mode&0o7000 != 0 { // a change of owner clears them
		t.ops = append(t.ops, fmt.Sprintf("m %04o ./%s", mode, f.name))
	}
	before := ""
	if e != nil {
		before = fmt.Sprintf("%s sha256 %s", f.name, e.sha256)
	}
	t.note(before, fmt.Sprintf("%s sha256 %s", f.name, f.sha256))
}

// attribute sets mode and owner of what is there, where they differ.
func (t *todo) attribute(p Params, name string, e *entry, mode uint32, now *tree) {
	owned := p.Owner == "" || !now.stranger && (now.uid == "" || now.uid == e.uid) && (now.gid == "" || now.gid == e.gid)
	if !owned {
		t.ops = append(t.ops, "o "+p.Owner+" ./"+name)
		t.note(fmt.Sprintf("%s owner %s:%s", name, e.uid, e.gid), fmt.Sprintf("%s owner %s", name, p.Owner))
	}
	if mode != 0 && (mode != e.mode || !owned && mode&0o7000 != 0) {
		t.ops = append(t.ops, fmt.Sprintf("m %05o ./%s", mode, name))
		t.note(fmt.Sprintf("%s mode %04o", name, e.mode), fmt.Sprintf("%s mode %04o", name, mode))
	}
	if !owned || mode != 0 && mode != e.mode {
		t.attributes++
	}
}

func (t *todo) note(before, after string) {
	if before != "" {
		t.before += before + "\n"
	}
	if after != "" {
		t.after += after + "\n"
	}
}

var sums = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(` sha256 [0-9a-f]*`) })

// hide takes the hashes out of what people compare; the old and the new differ still.
func (t *todo) hide() {
	t.before, t.after = sums().ReplaceAllString(t.before, " as it is"), sums().ReplaceAllString(t.after, " new content")
}
