package node

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/turnus/turnus/cmd/turnus/console"
	"github.com/turnus/turnus/plugins/host"
)

// ReadsOf returns the paths that a worker's process of the plugin may read beside the system's
// programs: its folder, and the allowed ones.
func ReadsOf(what string, allowed []string) ([]string, error) {
	for _, path := range allowed {
		if !filepath.IsAbs(path) {
			return nil, console.Invalid("--allow-read %s: expected an absolute path, as --plugin-allow has it", path)
		}
	}
	switch dir := FolderOf(what); {
	case dir != "":
		return append(slices.Clone(allowed), dir), nil
	case isBuiltin(what):
		return allowed, nil
	}
	path, err := filepath.Abs(what)
	return append(slices.Clone(allowed), filepath.Dir(path)), err
}

// isBuiltin reports whether a built-in plugin is meant, and not a path.
func isBuiltin(what string) bool {
	_, ok := BuiltinDefs()[what]
	return ok && !strings.ContainsRune(what, filepath.Separator)
}

// ProgramOf finds what to start: a program, that of a plugin folder, or a built-in plugin.
func ProgramOf(what string) (argv []string, manifest string, err error) {
	if isBuiltin(what) {
		self, err := os.Executable()
		if err != nil {
			return nil, "", fmt.Errorf("find the program itself: %w", err)
		}
		return []string{self, ServeVerb, what}, "", nil
	}
	path, err := filepath.Abs(what)
	if err != nil {
		return nil, "", err
	}
	info, err := os.Stat(path)
	if err != nil {
		return nil, "", console.Invalid("%s: no such program, plugin folder or built-in plugin\nhint: turnus plugins ls lists the built-in ones", what)
	}
	if info.IsDir() {
		return programOfFolder(path)
	}
	if info.Mode()&0o111 == 0 {
		return nil, "", console.Invalid("%s is not executable\nhint: chmod +x %s", what, what)
	}
	return []string{path}, "", nil
}

// FolderOf is the folder that is meant, or empty for a program alone or a built-in plugin.
func FolderOf(what string) string {
	dir, err := filepath.Abs(what)
	if err != nil {
		return ""
	}
	if info, err := os.Stat(dir); err != nil || !info.IsDir() || BuiltinDefs()[what] != nil {
		return ""
	}
	return dir
}

func programOfFolder(dir string) (argv []string, manifest string, err error) {
	kept := filepath.Join(dir, "manifest.json")
	if info, err := os.Stat(kept); err == nil && info.Mode().IsRegular() {
		manifest = kept
	}
	program := filepath.Join(dir, "plugin")
	if info, err := os.Stat(program); err == nil {
		if info.Mode()&0o111 == 0 || !info.Mode().IsRegular() {
			return nil, "", console.Invalid("%s is not an executable file", program)
		}
		return []string{program}, manifest, nil
	}
	if _, err := os.Stat(filepath.Join(dir, host.ScriptFile)); err == nil {
		adapter, err := ScriptAdapter()
		return append(adapter, dir), manifest, err
	}
	return nil, "", console.Invalid("%s has neither an executable file plugin nor a %s\nhint: turnus plugins test DIR/NAME/VERSION: the folder of one version is meant", dir, host.ScriptFile)
}
