package exec

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"sync"

	"github.com/turnus/turnus/plugins/sdk"
)

var pluginName = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[a-z][a-z0-9_]*$`) })

// HelperName is under which name scripts find their helper on the PATH.
const HelperName = "turnus-host"

// Serve is the process of a plugin that is a script: dir holds its plugin.yaml. It returns an exit
// code when the worker has asked it to end, or immediately when the folder is no plugin.
func Serve(dir string, stderr io.Writer) int {
	all, err := defs(dir)
	if err != nil {
		fmt.Fprintln(stderr, err)
		return 1
	}
	if err := linkHelper(); err != nil {
		fmt.Fprintln(stderr, err)
		return 1
	}
	sdk.Serve(all...)
	return 0
}

// helperDir is the folder of the helper, in the process's private one.
func helperDir() string { return filepath.Join(os.TempDir(), "bin") }

// linkHelper puts the helper, which is this program under another name, where scripts find it.
func linkHelper() error {
	self, err := os.Executable()
	if err == nil {
		err = os.MkdirAll(helperDir(), 0o700)
	}
	if err == nil {
		link := filepath.Join(helperDir(), HelperName)
		_ = os.Remove(link)
		err = os.Symlink(self, link)
	}
	if err != nil {
		return fmt.Errorf("%s for scripts: %w", HelperName, err)
	}
	return nil
}
