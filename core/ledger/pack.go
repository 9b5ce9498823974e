package ledger

import (
	"encoding/binary"
	"fmt"
	"sync"

	"github.com/klauspost/compress/zstd"
)

// Stored bytes begin with how they are stored.
const (
	packRaw  = 0
	packZstd = 1
)

// packer compresses. Both halves are safe for concurrent use, and cost memory: one pair a process.
var packer = sync.OnceValues(func() (*zstd.Encoder, *zstd.Decoder) {
	// Neither fails without a writer or reader and with constant options.
	enc, _ := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1), zstd.WithWindowSize(256<<10))
	dec, _ := zstd.NewReader(nil, zstd.WithDecoderMaxMemory(maxUnpacked), zstd.WithDecoderConcurrency(0))
	return enc, dec
})

const (
	maxUnpacked = 2 << 30
	minPack     = 96 // shorter ones do not become smaller
)

// pack returns nil for nothing.
func pack(data []byte) []byte {
	if len(data) == 0 {
		return nil
	}
	if len(data) >= minPack {
		enc, _ := packer()
		if out := enc.EncodeAll(data, append(make([]byte, 0, len(data)/3+64), packZstd)); len(out) <= len(data) {
			return out
		}
	}
	return append(append(make([]byte, 0, len(data)+1), packRaw), data...)
}

func unpack(data []byte) ([]byte, error) {
	switch {
	case len(data) == 0:
		return nil, nil
	case data[0] == packRaw:
		return data[1:], nil
	case data[0] == packZstd:
		_, dec := packer()
		out, err := dec.DecodeAll(data[1:], nil)
		if err != nil {
			return nil, fmt.Errorf("unpack what was stored: %w", err)
		}
		return out, nil
	}
	return nil, fmt.Errorf("unpack what was stored: unknown form %d", data[0])
}

// packHosts writes the hosts of a run one after the other, each length before its text.
func packHosts(jobs []JobHost) []byte {
	var out []byte
	for _, j := range jobs {
		for _, s := range []string{j.Host, j.Tenant} {
			out = appendText(out, s)
		}
	}
	return pack(out)
}

// appendText adds a text behind its length.
func appendText(to []byte, text string) []byte {
	return append(binary.AppendUvarint(to, uint64(len(text))), text...)
}

func unpackHosts(data []byte, total int) ([]JobHost, error) {
	data, err := unpack(data)
	if err != nil {
		return nil, err
	}
	all := string(data) // one allocation that all names share
	next := func() (string, bool) {
		n, used := binary.Uvarint(data)
		if used <= 0 || n > uint64(len(data)-used) {
			return "", false
		}
		from := len(all) - len(data) + used
		data = data[used+int(n):]
		return all[from : from+int(n)], true
	}
	jobs := make([]JobHost, total)
	tenants := map[string]string{}
	for i := range jobs {
		host, ok := next()
		tenant, ok2 := next()
		if !ok || !ok2 {
			return nil, fmt.Errorf("unpack hosts: %d of %d are there", i, total)
		}
		if same, seen := tenants[tenant]; seen {
			tenant = same
		} else {
			tenants[tenant] = tenant
		}
		jobs[i] = JobHost{Host: host, Tenant: tenant}
	}
	return jobs, nil
}
