package fleet

import (
	"bytes"
	"crypto/sha256"
	"fmt"

	"github.com/turnus/turnus/core"
)

// Tree returns what a host's files hold beyond those that every host has, by path: kind, mode,
// owner, group and a digest of the content, or the target of a link. A file of the base that was
// removed is "gone". Times are left out. Two equal trees mean that nothing was changed.
func (f *Fleet) Tree(name string) (map[string]string, error) {
	h, ok := f.byName[name]
	if !ok {
		return nil, fmt.Errorf("fleet host %q: %w", name, core.ErrNotFound)
	}
	m := &h.fs
	m.mu.Lock()
	defer m.mu.Unlock()
	tree := make(map[string]string, len(m.nodes))
	for path, n := range m.nodes {
		base := m.base(path)
		switch {
		case n == nil:
			tree[path] = "gone"
		case base != nil && base.dir == n.dir && base.mode == n.mode && base.uid == n.uid && base.gid == n.gid && bytes.Equal(base.data, n.data):
		case n.dir:
			tree[path] = fmt.Sprintf("folder %o %d:%d", n.mode, n.uid, n.gid)
		case n.link:
			tree[path] = fmt.Sprintf("link %d:%d %s", n.uid, n.gid, n.data)
		default:
			tree[path] = fmt.Sprintf("file %o %d:%d %x", n.mode, n.uid, n.gid, sha256.Sum256(n.data))
		}
	}
	return tree, nil
}
