package settings

import (
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/turnus/turnus/core/securefile"
)

// ReadFile reads at most most bytes of any kind of file: -e @<(command) is a pipe, which has no
// size.
func ReadFile(file string, most int64) ([]byte, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	return io.ReadAll(io.LimitReader(f, most))
}

// ReplaceFile puts a file, and the folder for it, where nobody else can read it.
func ReplaceFile(path string, text []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	return securefile.Replace(path, text, 0o600)
}

// StateDir is where turnus keeps what it remembers between commands.
func StateDir() (string, error) {
	if dir := os.Getenv("TURNUS_STATE"); dir != "" {
		return dir, nil
	}
	if dir := os.Getenv("XDG_STATE_HOME"); dir != "" {
		return filepath.Join(dir, "turnus"), nil
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return "", fmt.Errorf("folder for the last run's record: %w\nhint: set TURNUS_STATE", err)
	}
	return filepath.Join(home, ".local", "state", "turnus"), nil
}
