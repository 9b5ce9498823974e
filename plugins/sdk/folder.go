package sdk

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/turnus/turnus/plugins/sdk/wire"
	"github.com/turnus/turnus/plugins/sdk/words"
)

// ArtifactFile is a file below a folder of the worker.
type ArtifactFile struct {
	Name   string `json:"name"` // relative to the folder, with slashes
	Size   int64  `json:"size"`
	Mode   uint32 `json:"mode"`   // permission bits
	SHA256 string `json:"sha256"` // hex
}

// Artifacts lists the files below a folder of the worker, sorted by name; folder is relative to the
// playbook. A link to a file counts as that file. Folders that hold no file are not listed, nor are
// git's own.
func (r *Run[P, S]) Artifacts(ctx context.Context, folder string) ([]ArtifactFile, error) {
	var list bytes.Buffer
	if _, err := r.s.get(ctx, &wire.GetRequest{Artifact: strings.TrimRight(folder, "/") + "/"}, &list); err != nil {
		return nil, err
	}
	var files []ArtifactFile
	for line := range bytes.Lines(list.Bytes()) {
		var f ArtifactFile
		if err := json.Unmarshal(line, &f); err != nil {
			return nil, fmt.Errorf("list of %s: %w", folder, words.Plain(err))
		}
		files = append(files, f)
	}
	return files, nil
}
