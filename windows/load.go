package windows

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"gopkg.in/yaml.v3"

	"github.com/turnus/turnus/core/yamlread"
)

const maxFiles = 1000

// Load reads definitions from files, and from every .yaml and .yml file of folders, together:
// a set may use what another file defines. The error is Problems where the content is wrong.
func Load(paths ...string) (*Definitions, error) {
	docs, err := Read(paths...)
	if err != nil {
		return nil, err
	}
	return Parse(docs...)
}

// Read reads the files that Load parses.
func Read(paths ...string) ([]Document, error) {
	files, err := Files(paths...)
	if err != nil {
		return nil, err
	}
	docs := make([]Document, 0, len(files))
	for _, file := range files {
		data, err := readFile(file)
		if err != nil {
			return nil, fmt.Errorf("read window definitions: %w", err)
		}
		docs = append(docs, Document{file, data})
	}
	return docs, nil
}

// readFile reads what a file has, but no more than a byte over MaxFileSize: Parse refuses that.
func readFile(file string) ([]byte, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	data, err := io.ReadAll(io.LimitReader(f, MaxFileSize+1))
	return data, errors.Join(err, f.Close())
}

// Files lists the files that Load reads: those of paths, and every .yaml and .yml file of folders,
// except names that begin with a dot: editors, git and mounted volumes keep theirs there. A folder
// without any is an error: it is most likely another one that was meant.
func Files(paths ...string) ([]string, error) {
	var files []string
	for _, path := range paths {
		info, err := os.Stat(path)
		if err != nil {
			return nil, missing(path, err)
		}
		if !info.IsDir() {
			files = append(files, path)
			continue
		}
		had, root := len(files), strings.TrimRight(path, "/")+"/" // with the slash a link is followed
		err = filepath.WalkDir(root, func(p string, e fs.DirEntry, err error) error {
			if err == nil && p != root && strings.HasPrefix(e.Name(), ".") {
				if e.IsDir() {
					return fs.SkipDir
				}
				return nil
			}
			if ext := filepath.Ext(p); err == nil && !e.IsDir() && (ext == ".yaml" || ext == ".yml") {
				files = append(files, p)
			}
			return err
		})
		if err != nil {
			return nil, fmt.Errorf("read window definitions: %w", err)
		}
		if len(files) == had {
			return nil, fmt.Errorf("%w: folder %s has no .yaml or .yml file, expected window definitions", ErrInvalid, path)
		}
	}
	if len(files) > maxFiles {
		return nil, fmt.Errorf("%w: more than %d files", ErrInvalid, maxFiles)
	}
	return files, nil
}

// missing is the error for a path that cannot be read.
func missing(path string, err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		err = errors.New("no such file or folder")
	} else if bad, ok := errors.AsType[*fs.PathError](err); ok {
		err = bad.Err
	}
	return fmt.Errorf("%w: windows %s: %w; expected a file or folder with window sets\nhint: turnus windows lint FILE checks one; docs/windows.md shows how it is written", ErrInvalid, path, err)
}

// Document is a file's name, for messages, and its content.
type Document struct {
	File string
	Data []byte
}

// Parse reads definitions. All is loaded or nothing; the error is Problems.
func Parse(docs ...Document) (*Definitions, error) {
	defs := &Definitions{Sets: map[string]*Set{}, Freezes: map[string]*Freeze{}, Holidays: map[string]*Calendar{}}
	var all Problems
	var later []func()
	var decoders []*decoder
	for _, doc := range docs {
		src, root, bad := readYAML(doc.File, doc.Data)
		if bad != nil {
			all = append(all, *bad)
			continue
		}
		d := newDecoder(src, defs)
		d.file(root)
		decoders = append(decoders, d)
		later = append(later, d.later...)
	}
	for _, check := range later {
		check()
	}
	for _, d := range decoders {
		all = append(all, d.problems...)
	}
	if len(all) == 0 {
		return defs, nil
	}
	slices.SortStableFunc(all, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Col, b.Col))
	})
	if len(all) > MaxProblems {
		all = all[:MaxProblems]
		all[MaxProblems-1].Hint = fmt.Sprintf("more than %d problems: the rest is not shown", MaxProblems)
	}
	return nil, all
}

func (d *decoder) file(root *yaml.Node) {
	d.Mapping(root, "the file",
		named(d, "window_sets", "window set", d.defs.Sets, d.set),
		named(d, "freezes", "freeze", d.defs.Freezes, d.freeze),
		named(d, "holidays", "holiday calendar", d.defs.Holidays, d.calendar),
		d.Each("approvals", maxGiven, d.given))
}

// named is a field of definitions by name.
func named[T any](d *decoder, key, what string, into map[string]*T, read func(name string, k, v *yaml.Node) *T) field {
	return field{Key: key, Want: "a mapping from names to definitions", Read: func(n *yaml.Node) {
		for _, p := range d.Pairs(n, key) {
			if d.Full {
				return
			}
			if _, err := nameText(p.Name); err != nil {
				d.fail(p.Key, "", "%s %s: %v", what, quote(p.Name), err)
				continue
			}
			if into[p.Name] != nil {
				d.fail(p.Key, "names are shared by all files that are read together", "%s %s is defined twice", what, quote(p.Name))
				continue
			}
			if def := read(p.Name, p.Key, p.Value); def != nil {
				into[p.Name] = def
			}
		}
	}}
}

func (d *decoder) freeze(name string, k, v *yaml.Node) *Freeze {
	f := &Freeze{Name: name}
	ok := d.Mapping(v, "freeze "+quote(name),
		value(d, "timezone", &f.Timezone, zoneText).Needed(),
		value(d, "from", &f.From, wallTime).Needed(),
		value(d, "to", &f.To, wallTime).Needed(),
		value(d, "owner", &f.Owner, nameText),
		value(d, "made", &f.Made, func(text string) (time.Time, error) {
			made, err := instant(&f.Timezone, true)(text)
			if len(text) == len(time.DateOnly) {
				made = made.Add(-time.Second) // made on a day: an approval of the same day is after it
			}
			return made, err
		}),
		value(d, "reason", &f.Reason, plainText))
	if ok && !f.From.IsZero() && !f.To.IsZero() && !f.To.After(f.From) {
		d.fail(k, "a freeze is half-open: it ends when the day of to: begins", "freeze %s ends before it begins", quote(name))
	}
	return f
}

func (d *decoder) calendar(name string, k, v *yaml.Node) *Calendar {
	c := &Calendar{Name: name}
	d.Mapping(v, "holiday calendar "+quote(name),
		d.Each("dates", maxDates, func(n *yaml.Node) {
			var date time.Time
			yamlread.Parse(d.Reader, n, &date, parseDate)
			c.Dates = append(c.Dates, date)
		}),
		d.names("include", &c.Include, func(n *yaml.Node) { d.checkInclude(n, c) }))
	if len(c.Dates)+len(c.Include) == 0 && !d.Full {
		d.fail(k, "give dates: [2026-12-24], or include: [DE-HE]", "holiday calendar %s is empty", quote(name))
	}
	return c
}

func (d *decoder) checkInclude(n *yaml.Node, c *Calendar) {
	for _, name := range c.Include {
		if !d.knowsCalendar(name) {
			d.fail(n, holidayHint(name, sortedNames(d.defs.Holidays)), "unknown holiday calendar %s", quote(name))
		}
	}
	if d.reaches(c.Name, c.Name, map[string]bool{}) {
		d.fail(n, "", "holiday calendar %s includes itself", quote(c.Name))
	}
}

func (d *decoder) reaches(from, to string, seen map[string]bool) bool {
	c := d.defs.Holidays[from]
	if c == nil || seen[from] {
		return false
	}
	seen[from] = true
	return slices.ContainsFunc(c.Include, func(name string) bool { return name == to || d.reaches(name, to, seen) })
}

func (d *decoder) knowsCalendar(name string) bool {
	_, ok := builtinHolidays(strings.ToUpper(name))
	return ok || d.defs.Holidays[name] != nil
}
