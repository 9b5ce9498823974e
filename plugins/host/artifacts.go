package host

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/turnus/turnus/core/transport"
)

// maxListed bounds a artifactLine folder: a person who names the folder of a whole project by
// mistake gets an error.
const maxListed = 20000

// artifactLine is a line of the list of a folder.
type artifactLine struct {
	Name   string `json:"name"`
	Size   int64  `json:"size"`
	Mode   uint32 `json:"mode"`
	SHA256 string `json:"sha256"`
}

// sendList sends the files below a folder. Each of them may be sent, or the list is refused: a copy
// of a folder must not lack one in silence.
func (l *lease) sendList(folder string, info func(transport.FileInfo) error, data io.Writer) error {
	names, err := l.below(folder)
	if err != nil {
		return err
	}
	var list bytes.Buffer
	for _, name := range names {
		line, err := l.describe(path.Join(folder, name), name)
		if err != nil {
			return err
		}
		list.Write(append(line, '\n'))
	}
	size := int64(list.Len())
	if err := info(transport.FileInfo{Size: -1}); err != nil {
		return err
	}
	if _, err := io.CopyBuffer(data, struct{ io.Reader }{&list}, make([]byte, 64<<10)); err != nil {
		return err
	}
	return info(transport.FileInfo{Size: size})
}

// below are the names of what is in the folder and no folder itself, in order.
func (l *lease) below(folder string) ([]string, error) {
	if l.call.Files == "" {
		return nil, status.Errorf(codes.PermissionDenied, "artifact %q: this job has no folder of files", folder)
	}
	root, err := os.OpenRoot(l.call.Files)
	if err != nil {
		return nil, status.Errorf(codes.NotFound, "artifact %q: %s", folder, err)
	}
	defer func() { _ = root.Close() }()
	inner, err := root.OpenRoot(filepath.FromSlash(folder))
	if err != nil {
		return nil, unopened(folder, err)
	}
	defer func() { _ = inner.Close() }()
	var names []string
	err = fs.WalkDir(inner.FS(), ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && strings.EqualFold(d.Name(), ".git"):
			return fs.SkipDir
		case d.IsDir():
			return nil
		}
		if names = append(names, name); len(names) > maxListed {
			return fmt.Errorf("more than %d files", maxListed)
		}
		return nil
	})
	if err != nil {
		return nil, invalid("artifact %q: %s", folder, err)
	}
	return names, nil
}

func (l *lease) describe(artifact, name string) ([]byte, error) {
	f, st, err := l.artifact(artifact)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	sum := sha256.New()
	n, err := io.Copy(sum, f)
	if err != nil {
		return nil, fault("", "artifact", err)
	}
	return json.Marshal(artifactLine{Name: name, Size: n, Mode: uint32(st.Mode().Perm()), SHA256: hex.EncodeToString(sum.Sum(nil))})
}
