package settings

import (
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/turnus/turnus/core/yamlread"
)

// ShownValue returns a flag's value for people, without secrets.
func ShownValue(f *pflag.Flag) string {
	values := []string{f.Value.String()}
	if many, ok := f.Value.(pflag.SliceValue); ok {
		values = slices.Clone(many.GetSlice()) // it may be the flag's own
	}
	for i, value := range values {
		values[i] = hideSecrets(value)
	}
	return strings.Join(values, ", ")
}

// DefaultOf is a flag's default. Those that read the environment themselves have none.
func DefaultOf(f *pflag.Flag, o Origin) string {
	if o.Kind == fromEnvironment && isNoted(f, noteEnvironment) || f.DefValue == "[]" {
		return ""
	}
	return f.DefValue
}

// wordSecret matches text that looks like a secret in a command, or in the words that PostgreSQL's
// programs take: password=…, Bearer ….
var wordSecret = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`(?i)((?:[a-z_-]*(?:passw|secret|token|api_?key)[a-z_-]*(?:\s*[=:]\s*|\s+)|bearer\s+|basic\s+))('[^']*'|"[^"]*"|[^\s"']+)`)
})

// urlsIn matches the URLs of a command.
var urlsIn = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`[A-Za-z][A-Za-z0-9+.-]*://[^\s"']+`)
})

// hideSecrets takes out of a value what may be a secret: the password of a URL, all that follows
// the host of a webhook's address, and parameters, also in the URLs of a command. An http(s) URL
// with a user and no password has a token there.
func hideSecrets(value string) string {
	scheme, _, isURL := strings.Cut(value, "://")
	if !isURL || strings.ContainsAny(scheme, " \t\"'=") {
		return wordSecret().ReplaceAllString(urlsIn().ReplaceAllStringFunc(value, hideSecrets), "$1…")
	}
	u, err := url.Parse(value)
	if err != nil { // several hosts, for example: before the last @ are the user and the password
		if at := strings.LastIndex(value, "@"); at >= 0 {
			value = scheme + "://…@" + value[at+1:]
		}
		return wordSecret().ReplaceAllString(value, "$1…")
	}
	web := u.Scheme == "http" || u.Scheme == "https"
	if u.User != nil {
		if _, has := u.User.Password(); has {
			u.User = url.UserPassword(u.User.Username(), "…")
		} else if web {
			u.User = url.User("…")
		}
	}
	if web && len(u.Path) > 1 && !strings.HasSuffix(u.Path, ".git") {
		u.Path = "/…" // chat services put a secret there
	}
	query := u.Query()
	for key := range query {
		if word := strings.ToLower(key); strings.Contains(word, "pass") || strings.Contains(word, "secret") || strings.Contains(word, "token") || strings.Contains(word, "key") && !strings.Contains(value, "postgres") {
			query.Set(key, "…")
		}
	}
	u.RawQuery = query.Encode()
	if web && u.RawQuery != "" {
		u.RawQuery = "…"
	}
	if web {
		u.Fragment, u.RawFragment = "", ""
	}
	return strings.ReplaceAll(u.String(), url.PathEscape("…"), "…")
}

// Problem is one finding of config check.
type Problem struct {
	Level string `json:"level"` // error or warning
	What  string `json:"what"`
}

// CheckFiles checks the files that settings name: there, readable, and where they hold a secret
// nobody else's to read.
func CheckFiles(c *cobra.Command) []Problem {
	var found []Problem
	c.Flags().VisitAll(func(f *pflag.Flag) {
		words, named := f.Annotations[noteFile]
		if !named {
			return
		}
		paths := []string{f.Value.String()}
		if many, ok := f.Value.(pflag.SliceValue); ok {
			paths = many.GetSlice()
		}
		for _, path := range paths {
			if path == "" || path == "none" {
				continue
			}
			if p, bad := checkFile(f.Name, path, slices.Contains(words, fileSecret)); bad {
				found = append(found, p)
			}
		}
	})
	return found
}

func checkFile(flag, path string, secret bool) (Problem, bool) {
	file, err := os.Open(path)
	if err != nil {
		return Problem{"error", fmt.Sprintf("--%s: %v", flag, err)}, true
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return Problem{"error", fmt.Sprintf("--%s: %v", flag, err)}, true
	}
	if info.IsDir() {
		return Problem{"error", fmt.Sprintf("--%s: %s is a folder, expected a file", flag, path)}, true
	}
	if mode := info.Mode().Perm(); secret && mode&(fs.FileMode(0o077)) != 0 {
		return Problem{"warning", fmt.Sprintf("--%s: others may read %s (mode %04o)\nhint: chmod 600 %s", flag, path, mode, path)}, true
	}
	return Problem{}, false
}

// otherVariables are variables that are no settings.
var otherVariables = []string{"TURNUS_CONFIG", "TURNUS_STATE", "TURNUS_TOKEN", "TURNUS_SERVER", "TURNUS_SDK", "TURNUS_OPTIONS", "TURNUS_HEALTH"}

// UnknownVariables returns an error that names the variables of the environment that begin with
// TURNUS_ and are no settings.
func UnknownVariables(all []*cobra.Command, environ []string) error {
	known := slices.Clone(otherVariables)
	for _, c := range all {
		c.Flags().VisitAll(func(f *pflag.Flag) {
			if !IsSetting(f) {
				return
			}
			known = append(known, VariableOf(f.Name))
			if old := formerName(f.Name); old != "" {
				known = append(known, VariableOf(old))
			}
		})
	}
	var errs []error
	for _, entry := range environ {
		name, _, _ := strings.Cut(entry, "=")
		if !strings.HasPrefix(name, "TURNUS_") || slices.Contains(known, name) {
			continue
		}
		text := fmt.Sprintf("the environment has %s, which is no setting", name)
		if hint := yamlread.DidYouMean(name, known); hint != "" {
			text += "\nhint: " + hint
		}
		errs = append(errs, errors.New(text))
	}
	return errors.Join(errs...)
}

// EachError takes apart what errors.Join put together.
func EachError(err error) []error {
	if err == nil {
		return nil
	}
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		var texts []string
		var list []error
		for _, one := range joined.Unwrap() {
			texts = append(texts, one.Error())
			list = append(list, EachError(one)...)
		}
		if strings.Join(texts, "\n") == err.Error() {
			return list
		}
	}
	return []error{err}
}
