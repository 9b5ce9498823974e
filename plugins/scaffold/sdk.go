package scaffold

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// SDKFolder returns the absolute path of the SDK below dir, which is a checkout of Turnus or the
// SDK itself. Without dir it searches upwards from the binary and from the present folder, and
// returns "" when there is none.
func SDKFolder(dir string) (string, error) {
	if dir != "" {
		if found := sdkBelow(dir); found != "" {
			return filepath.Abs(found)
		}
		return "", fmt.Errorf("--sdk %s: expected a checkout of Turnus, or its plugins/sdk: there is no go.mod of module %s", dir, SDKModule)
	}
	var starts []string
	if self, err := os.Executable(); err == nil {
		starts = append(starts, filepath.Dir(self))
	}
	if here, err := os.Getwd(); err == nil {
		starts = append(starts, here)
	}
	for _, at := range starts {
		for ; ; at = filepath.Dir(at) {
			if found := sdkBelow(at); found != "" {
				return found, nil
			}
			if at == filepath.Dir(at) {
				break
			}
		}
	}
	return "", nil
}

// sdkBelow returns the folder of the SDK when dir is that, or a checkout of Turnus, and ""
// otherwise.
func sdkBelow(dir string) string {
	for _, folder := range []string{dir, filepath.Join(dir, "plugins", "sdk")} {
		mod, err := os.ReadFile(filepath.Join(folder, "go.mod"))
		if first, _, _ := strings.Cut(string(mod), "\n"); err == nil && first == "module "+SDKModule {
			return folder
		}
	}
	return ""
}
