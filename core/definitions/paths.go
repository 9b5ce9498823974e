package definitions

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"

	"github.com/turnus/turnus/playbooks"
)

// LoadPaths reads playbooks, and, of folders that are whole projects, projects with all that
// belongs to them. All mistakes are one playbooks.Diagnostics, whose files are named from the
// caller's folder. Other errors mean that something could not be read.
func LoadPaths(ctx context.Context, paths []string, o playbooks.Options) (all []*playbooks.Playbook, warnings playbooks.Diagnostics, err error) {
	var problems playbooks.Diagnostics
	for _, path := range paths {
		if !isWhole(path) {
			continue
		}
		set, err := Load(ctx, path, Options{Playbooks: o, Sources: []KnownSource{{}}})
		var found playbooks.Diagnostics
		if err != nil && !errors.As(err, &found) {
			return nil, nil, err
		}
		if set != nil {
			all, warnings = append(all, set.Playbooks...), append(warnings, below(path, set.Warnings)...)
		}
		problems = append(problems, below(path, found)...)
	}
	if paths = slices.DeleteFunc(slices.Clone(paths), isWhole); len(paths) > 0 {
		more, err := playbooks.Load(paths, o)
		var found playbooks.Diagnostics
		if err != nil && !errors.As(err, &found) {
			return nil, nil, err
		}
		all, problems = append(all, more...), append(problems, found...)
		for _, p := range more {
			warnings = append(warnings, p.Warnings...)
		}
	}
	if len(problems) > 0 {
		return nil, warnings, problems
	}
	return all, warnings, nil
}

// isWhole reports whether a folder has turnus.yaml, or the usual places of playbooks and inventory:
// one of the two may be a folder of playbooks alone.
func isWhole(dir string) bool {
	has := func(name string) bool {
		_, err := os.Stat(filepath.Join(dir, name))
		return err == nil
	}
	return has(layoutFile) || slices.ContainsFunc(usualNames(partPlaybooks), has) && slices.ContainsFunc(usualNames(partInventory), has)
}

func below(dir string, all playbooks.Diagnostics) playbooks.Diagnostics {
	for i := range all {
		all[i].File = filepath.Join(dir, all[i].File)
	}
	return all
}
