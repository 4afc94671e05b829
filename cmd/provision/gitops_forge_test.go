package main

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// comment is a note of a merge request, or a comment of a pull request: the fields of
// both forges that the examples read.
type comment struct {
	ID     int    `json:"id"`
	Body   string `json:"body"`
	Author struct {
		ID int `json:"id"`
	} `json:"author"`
	User struct {
		Login string `json:"login"`
	} `json:"user"`
}

// forge stands in for the comments of GitLab and GitHub, of one request.
type forge struct {
	url string

	mu       sync.Mutex
	comments []comment
}

// runnerID and runnerLogin are who asks with the right token.
const (
	runnerID    = 7
	runnerLogin = "github-actions[bot]"
)

func newForge(t *testing.T) *forge {
	t.Helper()
	f := &forge{}
	mux := http.NewServeMux()
	const notes, comments = "/api/v4/projects/42/merge_requests/5/notes", "/repos/fleet/site/issues/5/comments"
	mux.HandleFunc("GET /api/v4/user", func(w http.ResponseWriter, _ *http.Request) {
		_ = json.NewEncoder(w).Encode(map[string]int{"id": runnerID})
	})
	mux.HandleFunc("GET "+notes, f.list)
	mux.HandleFunc("POST "+notes, f.add)
	mux.HandleFunc("PUT "+notes+"/{id}", f.change)
	mux.HandleFunc("GET "+comments, f.list)
	mux.HandleFunc("POST "+comments, f.add)
	mux.HandleFunc("PATCH /repos/fleet/site/issues/comments/{id}", f.change)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		gitlabs := strings.HasPrefix(r.URL.Path, "/api/v4/") && r.Header.Get("PRIVATE-TOKEN") == forgeToken
		githubs := strings.HasPrefix(r.URL.Path, "/repos/") && r.Header.Get("Authorization") == "Bearer "+forgeToken
		if !gitlabs && !githubs {
			http.Error(w, "who are you?", http.StatusUnauthorized)
			return
		}
		mux.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	f.url = server.URL
	return f
}

// crowd adds comments of other people.
func (f *forge) crowd(count int, body string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for range count {
		c := comment{ID: len(f.comments) + 1, Body: body}
		c.Author.ID, c.User.Login = runnerID+1, "somebody"
		f.comments = append(f.comments, c)
	}
}

// ours is the one comment of the runner; others must be as they were.
func (f *forge) ours(t *testing.T) comment {
	t.Helper()
	f.mu.Lock()
	defer f.mu.Unlock()
	var own []comment
	for _, c := range f.comments {
		if c.Author.ID == runnerID {
			own = append(own, c)
		} else if !strings.HasSuffix(c.Body, "somebody else's") {
			t.Errorf("the comment %d of somebody else was changed", c.ID)
		}
	}
	if len(own) != 1 {
		t.Fatalf("%d comments of the runner, want 1", len(own))
	}
	return own[0]
}

func (f *forge) list(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	size, errSize := strconv.Atoi(r.URL.Query().Get("per_page"))
	page, errPage := strconv.Atoi(r.URL.Query().Get("page"))
	if errSize != nil || errPage != nil || size > 100 || page < 1 {
		http.Error(w, "pages of at most 100", http.StatusBadRequest)
		return
	}
	from := min((page-1)*size, len(f.comments))
	_ = json.NewEncoder(w).Encode(f.comments[from:min(from+size, len(f.comments))])
}

func (f *forge) add(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	c := comment{ID: len(f.comments) + 1}
	c.Author.ID, c.User.Login = runnerID, runnerLogin
	if !readBody(w, r, &c.Body) {
		return
	}
	f.comments = append(f.comments, c)
	w.WriteHeader(http.StatusCreated)
}

func (f *forge) change(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	id, err := strconv.Atoi(r.PathValue("id"))
	if err != nil || id < 1 || id > len(f.comments) || f.comments[id-1].Author.ID != runnerID {
		http.Error(w, "not yours", http.StatusForbidden)
		return
	}
	readBody(w, r, &f.comments[id-1].Body)
}

// readBody reads the body of a comment; both forges refuse an empty or a long one.
func readBody(w http.ResponseWriter, r *http.Request, body *string) bool {
	const most = 65_536
	var sent struct{ Body string }
	if err := json.NewDecoder(r.Body).Decode(&sent); err != nil || sent.Body == "" || len(sent.Body) > most || r.Header.Get("Content-Type") != "application/json" {
		http.Error(w, "no comment", http.StatusUnprocessableEntity)
		return false
	}
	*body = sent.Body
	return true
}
