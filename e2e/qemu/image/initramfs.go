package image

import (
	"compress/gzip"
	"fmt"
	"io"
	"os"

	"github.com/cavaliergopher/cpio"
)

// writeInitramfs packs the init and the modules, numbered in loading order, as
// the kernel wants it: a cpio archive of the "newc" form, compressed.
func writeInitramfs(path string, program []byte, modules []module) error {
	file, err := os.Create(path)
	if err != nil {
		return fmt.Errorf("writing the initramfs: %w", err)
	}
	if err := packInitramfs(file, program, modules); err != nil {
		_ = file.Close()
		return fmt.Errorf("writing the initramfs %s: %w", path, err)
	}
	return file.Close()
}

func packInitramfs(w io.Writer, program []byte, modules []module) error {
	compressed := gzip.NewWriter(w)
	archive := cpio.NewWriter(compressed)
	for _, dir := range []string{"dev", "proc", "sys", "lib", "lib/modules"} {
		if err := archive.WriteHeader(&cpio.Header{Name: dir, Mode: cpio.TypeDir | 0o755}); err != nil {
			return err
		}
	}
	if err := addFile(archive, "init", 0o755, program); err != nil {
		return err
	}
	for i, m := range modules {
		if err := addFile(archive, fmt.Sprintf("lib/modules/%02d-%s.ko", i, m.name), 0o644, m.data); err != nil {
			return err
		}
	}
	if err := archive.Close(); err != nil {
		return err
	}
	return compressed.Close()
}

func addFile(archive *cpio.Writer, name string, mode cpio.FileMode, data []byte) error {
	header := &cpio.Header{Name: name, Mode: cpio.TypeReg | mode, Size: int64(len(data))}
	if err := archive.WriteHeader(header); err != nil {
		return err
	}
	_, err := archive.Write(data)
	return err
}
