//go:build linux

package servers

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	mathrand "math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/turnus/turnus/core/testparts"
)

// Vendor makes images and signs bundles, with a throw-away CA.
type Vendor struct {
	CA  []byte // certificate that devices trust, PEM
	dir string
}

// NewVendor makes a CA and a signer.
func NewVendor(tb testing.TB) *Vendor {
	tb.Helper()
	v := &Vendor{dir: tb.TempDir()}
	now := time.Now()
	make := func(name string, serial int64, ca bool, parent *x509.Certificate, by *ecdsa.PrivateKey) (*x509.Certificate, *ecdsa.PrivateKey) {
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		must(tb, err)
		c := &x509.Certificate{
			SerialNumber: big.NewInt(serial), Subject: pkix.Name{CommonName: name}, NotBefore: now.Add(-24 * time.Hour), NotAfter: now.Add(24 * time.Hour),
			BasicConstraintsValid: true, IsCA: ca, KeyUsage: x509.KeyUsageDigitalSignature,
		}
		if ca {
			c.KeyUsage = x509.KeyUsageCertSign
			parent, by = c, key
		}
		der, err := x509.CreateCertificate(rand.Reader, c, parent, key.Public(), by)
		must(tb, err)
		parsed, err := x509.ParseCertificate(der)
		must(tb, err)
		return parsed, key
	}
	ca, caKey := make("bootlab vendor", 1, true, nil, nil)
	signer, key := make("bootlab signer", 2, false, ca, caKey)
	v.CA = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: ca.Raw})
	must(tb, os.WriteFile(v.path("cert.pem"), pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: signer.Raw}), 0o600))
	der, err := x509.MarshalPKCS8PrivateKey(key)
	must(tb, err)
	must(tb, os.WriteFile(v.path("key.pem"), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), 0o600))
	return v
}

func (v *Vendor) path(name string) string { return filepath.Join(v.dir, name) }

// Image is a slot's content.
func (v *Vendor) Image(tb testing.TB, version, behaviour string) []byte {
	tb.Helper()
	program := testparts.Need(tb, "mksquashfs", "squashfs-tools")
	dir, err := os.MkdirTemp(v.dir, "root") //nolint:usetesting // without the test's name
	must(tb, err)
	health := "#!/bin/sh\nexit 0\n"
	if behaviour == ImageSick {
		health = "#!/bin/sh\necho the forwarding plane is down >&2\nexit 1\n"
	}
	system := make([]byte, 128<<10) // more than a file that is sent within one command
	_, _ = mathrand.NewChaCha8([32]byte([]byte(fmt.Sprintf("%32.32s", version)))).Read(system)
	for name, text := range map[string]string{"system": string(system), "os-release": "ID=bootlab\nVERSION_ID=" + version + "\n", "behaviour": behaviour + "\n", "health": health} {
		must(tb, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o700)) //nolint:gosec // it is run
	}
	runTool(tb, program, dir, dir+".img", "-noappend", "-quiet", "-no-progress")
	image, err := os.ReadFile(dir + ".img")
	must(tb, err)
	return image
}

// Bundle signs an image for devices that call themselves compatible, and returns its file.
func (v *Vendor) Bundle(tb testing.TB, version, behaviour, compatible string) string {
	tb.Helper()
	dir, err := os.MkdirTemp(v.dir, "bundle") //nolint:usetesting // without the test's name
	must(tb, err)
	must(tb, os.WriteFile(filepath.Join(dir, "rootfs.img"), v.Image(tb, version, behaviour), 0o600))
	manifest := fmt.Sprintf("[update]\ncompatible=%s\nversion=%s\n[bundle]\nformat=plain\n[image.rootfs]\nfilename=rootfs.img\n", compatible, version)
	must(tb, os.WriteFile(filepath.Join(dir, "manifest.raucm"), []byte(manifest), 0o600))
	file := dir + ".raucb"
	runTool(tb, testparts.Need(tb, "rauc", "rauc"), "--cert", v.path("cert.pem"), "--key", v.path("key.pem"), "bundle", dir, file)
	return file
}

func runTool(tb testing.TB, program string, args ...string) {
	tb.Helper()
	if out, err := exec.CommandContext(tb.Context(), program, args...).CombinedOutput(); err != nil { //nolint:gosec // our own words
		tb.Fatalf("%s: %v\n%s", filepath.Base(program), err, out)
	}
}
