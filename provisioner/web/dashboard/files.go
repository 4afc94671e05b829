package dashboard

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"io/fs"
	"mime"
	"net/http"
	"path"
	"strings"
	"time"
)

//go:embed static
var staticFiles embed.FS

// files are the styles, scripts and pictures that pages refer to. They are under
// /static/ with a sum of their content in the query: what a browser keeps is never old.
type files struct {
	content map[string][]byte // by path, such as "static/app.css"
	sums    map[string]string
}

func loadFiles() (*files, error) {
	f := &files{content: map[string][]byte{}, sums: map[string]string{}}
	err := fs.WalkDir(staticFiles, "static", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		content, err := staticFiles.ReadFile(name)
		if err != nil {
			return err
		}
		sum := sha256.Sum256(content)
		f.content[name], f.sums[name] = content, hex.EncodeToString(sum[:8])
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read the files of the dashboard: %w", err)
	}
	return f, nil
}

// url is where a file is found; its name is without static/.
func (f *files) url(name string) (string, error) {
	sum, found := f.sums["static/"+name]
	if !found {
		return "", fmt.Errorf("there is no file %s: put it into static/", name)
	}
	return "/static/" + name + "?v=" + sum, nil
}

// ServeHTTP serves the files.
func (f *files) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	name := strings.TrimPrefix(r.URL.Path, "/")
	content, found := f.content[name]
	if !found {
		http.Error(w, "there is no such file", http.StatusNotFound)
		return
	}
	kind := mime.TypeByExtension(path.Ext(name))
	switch path.Ext(name) { // hosts differ in what they know
	case ".js":
		kind = "text/javascript; charset=utf-8"
	case ".css":
		kind = "text/css; charset=utf-8"
	case ".svg":
		kind = "image/svg+xml"
	case ".md", ".LICENSE":
		kind = "text/plain; charset=utf-8"
	}
	w.Header().Set("Content-Type", kind)
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.Header().Set("ETag", `"`+f.sums[name]+`"`)
	if r.URL.Query().Get("v") == f.sums[name] {
		w.Header().Set("Cache-Control", "public, max-age=31536000, immutable")
	} else {
		w.Header().Set("Cache-Control", "no-cache")
	}
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(content))
}
