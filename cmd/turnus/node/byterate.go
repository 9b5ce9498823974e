package node

import (
	"errors"
	"fmt"
	"strconv"

	"github.com/turnus/turnus/plugins/sdk"
)

// byteSize is a flag of bytes, written as sizes in playbooks are.
type byteSize int64

// Set implements pflag.Value.
func (s *byteSize) Set(text string) error {
	var size sdk.Size
	if err := size.UnmarshalJSON([]byte(text)); err != nil || size != 0 && size < 64<<20 {
		return errors.New("expected 0, or a size of at least 64MiB, such as 1GiB")
	}
	*s = byteSize(size)
	return nil
}

// String implements pflag.Value.
func (s *byteSize) String() string {
	if *s > 0 && *s%(1<<30) == 0 {
		return fmt.Sprintf("%dGiB", *s>>30)
	}
	return strconv.FormatInt(int64(*s), 10)
}

// Type implements pflag.Value.
func (s *byteSize) Type() string { return "SIZE" }

// byteRate is a flag of bytes a second, written as sizes in playbooks are.
type byteRate int64

// Set implements pflag.Value.
func (r *byteRate) Set(text string) error {
	var size sdk.Size
	if err := size.UnmarshalJSON([]byte(text)); err != nil || size != 0 && size < 1024 {
		return errors.New("expected 0, or bytes a second from 1KiB on, such as 50MiB")
	}
	*r = byteRate(size)
	return nil
}

// String implements pflag.Value.
func (r *byteRate) String() string { return strconv.FormatInt(int64(*r), 10) }

// Type implements pflag.Value.
func (r *byteRate) Type() string { return "SIZE" }
