// Package settings owns where the settings of a process come from: flags, the environment, a file;
// how they are shown and checked; the contexts of servers, and the other files in the user's
// folders.
//
// It must not know what a setting is for.
package settings

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"gopkg.in/yaml.v3"

	"github.com/turnus/turnus/cmd/turnus/console"
	"github.com/turnus/turnus/core/yamlread"
)

// maxSettings bounds a file of settings.
const maxSettings = 1 << 20

// Origin is where the value of a setting came from.
type Origin struct {
	Kind  string // one of the from… below
	Where string // variable, or file:line
}

const (
	fromDefault     = "default"
	fromFlag        = "flag"
	fromEnvironment = "environment"
	fromFile        = "file"
)

func (o Origin) String() string {
	if o.Where == "" {
		return o.Kind
	}
	return o.Kind + " " + o.Where
}

// Notes on flags, which those who define them make.
const (
	noteEnvironment = "turnus_environment" // other commands also have it, and its default is the value of the environment
	noteFile        = "turnus_file"        // it names a file, or several; with the words below
	fileSecret      = "secret"             // that nobody else may read
)

// ReadsEnvironment notes flags whose default comes from the environment.
func ReadsEnvironment(fl *pflag.FlagSet, names ...string) { noteFlags(fl, noteEnvironment, nil, names) }

// NamesFiles notes flags that name files.
func NamesFiles(fl *pflag.FlagSet, names ...string) { noteFlags(fl, noteFile, nil, names) }

// NamesSecretFiles notes flags that name files which nobody else may read.
func NamesSecretFiles(fl *pflag.FlagSet, names ...string) {
	noteFlags(fl, noteFile, []string{fileSecret}, names)
}

// PrivateFiles are the files that flags name and nobody else may read.
func PrivateFiles(fl *pflag.FlagSet) []string {
	if fl == nil { // of a demo
		return nil
	}
	var out []string
	fl.VisitAll(func(f *pflag.Flag) {
		if !slices.Contains(f.Annotations[noteFile], fileSecret) {
			return
		}
		if list, several := f.Value.(pflag.SliceValue); several {
			out = append(out, list.GetSlice()...)
		} else if f.Value.String() != "" {
			out = append(out, f.Value.String())
		}
	})
	return out
}

func noteFlags(fl *pflag.FlagSet, key string, words, names []string) {
	for _, name := range names {
		if err := fl.SetAnnotation(name, key, words); err != nil {
			panic(err) // there is no flag of that name
		}
	}
}

func isNoted(f *pflag.Flag, key string) bool { _, ok := f.Annotations[key]; return ok }

// notSettings are flags about one call. The person who starts the service names the replacement of
// a locked plugin, not a file or a variable that lasts.
var notSettings = []string{"color", "config", "help", "help-all", "output", "quiet", PluginDevFlag}

// IsSetting reports whether a variable or a file can also give the value of a flag.
func IsSetting(f *pflag.Flag) bool { return !slices.Contains(notSettings, f.Name) }

// VariableOf is the environment's name of a flag.
func VariableOf(flag string) string {
	return "TURNUS_" + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}

// Fill gives each flag that the command line leaves out its value: from the environment, or else
// from the file of --config. It reports where every value came from.
func Fill(c *cobra.Command) (map[string]Origin, error) {
	file, _ := c.Flags().GetString("config")
	given, err := readSettings(file, c)
	if err != nil {
		return nil, err
	}
	from := map[string]Origin{}
	var errs []error
	c.Flags().VisitAll(func(f *pflag.Flag) {
		if !IsSetting(f) {
			return
		}
		if f.Changed {
			from[f.Name] = Origin{Kind: fromFlag}
			return
		}
		variable, env := variableIn(c, f.Name)
		setting, inFile := given[f.Name]
		switch {
		case env != "":
			from[f.Name] = Origin{fromEnvironment, variable}
			if isNoted(f, noteEnvironment) {
				break // it has its value
			}
			if err := c.Flags().Set(f.Name, env); err != nil {
				errs = append(errs, console.Invalid("%s: %v", variable, err))
			}
		case inFile:
			from[f.Name] = Origin{fromFile, setting.place}
			for _, value := range setting.values {
				if err := c.Flags().Set(f.Name, value); err != nil {
					errs = append(errs, console.Invalid("%s: %s: %v", setting.place, f.Name, err))
				}
			}
		default:
			from[f.Name] = Origin{Kind: fromDefault}
		}
	})
	return from, errors.Join(errs...)
}

// setting is the value of one flag in a file.
type setting struct {
	place  string // file:line
	values []string
}

// readSettings reads a file of settings for the command. Errors wrap core.ErrInvalid and name file,
// line and column.
func readSettings(path string, c *cobra.Command) (map[string]setting, error) {
	if path == "" {
		return nil, nil
	}
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() { // opening a pipe would wait for its writer
		return nil, console.Invalid("--config: %s is no regular file", path)
	}
	file, err := os.Open(path)
	if err != nil {
		return nil, console.Invalid("--config: %v", err)
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, maxSettings+1))
	if err != nil {
		return nil, fmt.Errorf("--config: read %s: %w", path, err)
	}
	if len(text) > maxSettings {
		return nil, console.Invalid("--config: %s has more than %d bytes", path, maxSettings)
	}
	var problems yamlread.Problems
	r, root := problems.OpenSecret(path, text)
	settings := map[string]setting{}
	var fields []yamlread.Field
	c.Flags().VisitAll(func(f *pflag.Flag) {
		if IsSetting(f) {
			fields = append(fields, settingField(r, path, f.Name, f, settings))
			if old := formerName(f.Name); old != "" {
				fields = append(fields, settingField(r, path, old, f, settings))
			}
		}
	})
	if root != nil {
		r.MappingWith(root, "the file of settings for turnus "+c.Name(), map[string]string{
			PluginDevFlag: fmt.Sprintf("--%s is for the command line of turnus %s only: it sets the lockfile of plugins aside", PluginDevFlag, c.Name()),
		}, fields...)
	}
	for _, f := range RenamedFlags {
		s, former := settings[f.Old]
		if !former {
			continue
		}
		if _, both := settings[f.Now]; !both {
			warnRenamed(c, fmt.Sprintf("%s: %q", s.place, f.Old), strconv.Quote(f.Now))
			settings[f.Now] = s
		}
	}
	return settings, problems.Err()
}

func settingField(r *yamlread.Reader, path, key string, f *pflag.Flag, into map[string]setting) yamlread.Field {
	_, many := f.Value.(pflag.SliceValue)
	return yamlread.Field{Key: key, Want: "a value", Read: func(n *yaml.Node) {
		s := setting{place: fmt.Sprintf("%s:%d", path, r.Key().Line)}
		if many {
			for _, v := range r.OneOrMore(n, "a word or a list of words") {
				s.values = append(s.values, v.Value)
			}
		} else if v, ok := r.Scalar(n, "one value"); ok {
			s.values = []string{v.Value}
		}
		into[key] = s
	}}
}

// PluginDevFlag names plugins that are under development.
const PluginDevFlag = "plugin-dev"
